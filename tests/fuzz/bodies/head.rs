//! A head in lines: method and target, then fields. What the proxy lets through is held against the
//! lines as they stand, and against the same head written in other ways.

use std::sync::{Arc, LazyLock};

use palisade::{
    fence::Token,
    proxy::{Preview, Shared, classify::Action, refusal::Refusal},
};

use super::{
    lines, shown,
    token::number,
    world::{head, world},
};

type Field<'a> = (&'a [u8], &'a [u8]);

static WORLD: LazyLock<Arc<Shared>> = LazyLock::new(|| {
    world("", "[[routes]]\npath = \"/{*object}\"\nupstream = \"store\"\nmax_body = \"1KiB\"")
});

pub fn run(data: &[u8]) {
    let mut lines = lines(data, 24);
    let first = lines.next().unwrap_or_default();
    let mut words = first.splitn(2, |byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let fields: Option<Vec<Field<'_>>> = lines.map(field).collect();
    let Some(fields) = fields else { return };
    let Some(read) = Reading::of(method, target, &fields) else { return };
    let told = format!("{read:?} of {}", shown(data));
    read.is_what_stands_there(method, &fields, &told);

    let backwards: Vec<_> = fields.iter().rev().copied().collect();
    assert_eq!(Reading::of(method, target, &backwards), Some(read.clone()), "backwards: {told}");
    if is_one_connection(&fields) {
        let more: Vec<_> = fields.iter().copied().chain([NOMINATED]).collect();
        assert_eq!(Reading::of(method, target, &more), Some(read), "nominated: {told}");
    }
}

/// RFC 9110, 7.6.1: such fields are taken away at each hop; a token is not (contract: whatever
/// `Connection` says).
const NOMINATED: Field<'static> =
    (b"connection", b"fencing-token, x-fencing-token, fencing-holder, fencing-claim");

fn is_one_connection(fields: &[Field<'_>]) -> bool {
    fields.len() < 90 && !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"connection"))
}

fn field(line: &[u8]) -> Option<Field<'_>> {
    let at = line.iter().position(|byte| *byte == b':')?;
    Some((&line[..at], line[at + 1..].trim_ascii()))
}

/// What the proxy says of a head.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Reading {
    refused: Option<&'static str>,
    key: Option<String>,
    action: Option<Action>,
    token: Option<Token>,
}

impl Reading {
    fn of(method: &[u8], target: &[u8], fields: &[Field<'_>]) -> Option<Self> {
        let head = head(method, target, fields)?;
        let preview = Preview::of(&WORLD, &head, false);
        Some(Self {
            refused: preview.refusal.as_ref().map(Refusal::code),
            key: preview.key,
            action: preview.action,
            token: preview.token,
        })
    }

    fn is_what_stands_there(&self, method: &[u8], fields: &[Field<'_>], told: &str) {
        if self.refused.is_some() {
            return;
        }
        let all = |name: &str| -> Vec<&[u8]> {
            let named = fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()));
            named.map(|(_, value)| *value).collect()
        };
        assert_eq!(all("host").len(), 1, "{told}");
        assert!(all("expect").iter().all(|v| v.eq_ignore_ascii_case(b"100-continue")), "{told}");
        has_one_end(&all("transfer-encoding"), &all("content-length"), told);
        has_no_other_meaning(fields, told);
        let claims = all("fencing-claim");
        assert!(claims.is_empty() || claims == [b"true"], "{told}");
        let holders = all("fencing-holder");
        let name = |holder: &&[u8]| {
            (1..=128).contains(&holder.len()) && holder.iter().all(u8::is_ascii_graphic)
        };
        assert!(holders.len() < 2 && holders.iter().all(name), "{told}");
        let expected = match method {
            b"GET" | b"HEAD" if !claims.is_empty() => Action::Claim,
            b"GET" | b"HEAD" | b"OPTIONS" => Action::Read,
            b"PUT" | b"POST" | b"PATCH" | b"DELETE" => Action::Write,
            other => panic!("{}: {told}", shown(other)),
        };
        assert_eq!(self.action, Some(expected), "{told}");
        if expected == Action::Read {
            assert!(claims.is_empty(), "{told}");
            assert!(all("content-length").iter().all(|length| is_zero(length)), "{told}");
            assert!(all("transfer-encoding").is_empty(), "{told}");
        } else {
            assert!(self.key.is_some() && all("early-data").is_empty(), "{told}");
        }
        self.has_the_one_token(&all("fencing-token"), &all("x-fencing-token"), expected, told);
    }

    /// One value, in one line of each of the two fields at most.
    fn has_the_one_token(&self, new: &[&[u8]], old: &[&[u8]], action: Action, told: &str) {
        assert!(new.len() < 2 && old.len() < 2, "{told}");
        let mut values = new.iter().chain(old);
        let Some(value) = values.next() else {
            return assert!(action == Action::Read && self.token.is_none(), "{told}");
        };
        assert!(values.all(|other| other == value), "{told}");
        let number = std::str::from_utf8(value).ok().and_then(number);
        assert_eq!(self.token, Some(Token::new(number.expect(told))), "{told}");
    }
}

fn is_zero(length: &[u8]) -> bool {
    length.iter().all(|byte| *byte == b'0')
}

/// RFC 9112, 6: one way to tell where the body ends.
fn has_one_end(codings: &[&[u8]], lengths: &[&[u8]], told: &str) {
    assert!(codings.len() + lengths.len() < 2, "{told}");
    assert!(codings.iter().all(|coding| coding.eq_ignore_ascii_case(b"chunked")), "{told}");
    for length in lengths {
        let text = std::str::from_utf8(length).expect(told);
        assert!(text.bytes().all(|byte| byte.is_ascii_digit()), "{told}");
        assert!(text.parse::<u64>().is_ok(), "{told}");
    }
}

/// R6: nothing that names a second object, another path or another method.
fn has_no_other_meaning(fields: &[Field<'_>], told: &str) {
    for (name, _) in fields {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase().replace('_', "-");
        let other = name == "destination"
            || name.ends_with("-copy-source")
            || name.ends_with("-rename-source")
            || name == "x-original-url"
            || name == "x-rewrite-url"
            || matches!(&*name, "x-http-method" | "x-http-method-override" | "x-method-override");
        assert!(!other, "{name}: {told}");
    }
}
