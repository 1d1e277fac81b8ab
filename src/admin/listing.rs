//! `GET /v1/keys`: its query, its cursor and its page.

use http::Uri;
use serde::Serialize;

use super::{
    path::{decode, named},
    problem::{Code, Problem},
    view::words,
};
use crate::{
    fence::{Key, Mark},
    gate::Listing,
};

/// How many keys a page has unless `limit` says otherwise.
const DEFAULT_LIMIT: usize = 100;

/// Most keys of one page.
const MAX_LIMIT: usize = 1000;

/// What is asked for.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Query {
    /// What the keys start with, as `UPSTREAM:KEY` is written.
    pub(super) prefix: Vec<u8>,
    /// An earlier page's `next`.
    pub(super) after: Option<Key>,
    pub(super) limit: usize,
}

impl Query {
    /// Reads the query. A name that is not known or stands twice is refused: with a mistyped
    /// `prefix` the answer would be another one than was asked for.
    pub(super) fn parse(uri: &Uri) -> Result<Self, Problem> {
        let (mut prefix, mut after, mut limit) = (None, None, None);
        for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value)
                .ok_or_else(|| bad("a `%` is not followed by two hexadecimal digits".into()))?;
            let place = match name {
                "prefix" => &mut prefix,
                "after" => &mut after,
                "limit" => &mut limit,
                _ => return Err(bad("the query takes `prefix`, `limit` and `after`".into())),
            };
            if place.replace(value).is_some() {
                return Err(bad(format!("`{name}` stands twice")));
            }
        }
        Ok(Self {
            prefix: prefix.unwrap_or_default(),
            after: after.map(|text| cursor(&text)).transpose()?,
            limit: limit.map_or(Ok(DEFAULT_LIMIT), |text| number(&text))?,
        })
    }
}

/// A page.
#[derive(Serialize)]
pub(super) struct ListingView {
    keys: Vec<RecordView>,
    next: Option<String>,
}

/// A record on disk.
#[derive(Serialize)]
struct RecordView {
    key: String,
    /// The key's bytes within its upstream, where `key` cannot show them.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    token: Option<String>,
    contested: bool,
    holder: Option<String>,
}

impl ListingView {
    /// `name` tells a key's upstream.
    pub(super) fn new(listing: Listing, name: impl Fn(&Key) -> String) -> Self {
        let record = |(key, mark)| RecordView::new(&key, mark, &name(&key));
        Self {
            keys: listing.records.into_iter().map(record).collect(),
            next: listing.next.map(|key| hex(key.as_bytes())),
        }
    }
}

impl RecordView {
    fn new(key: &Key, mark: Mark, upstream: &str) -> Self {
        let is_text = std::str::from_utf8(key.path()).is_ok();
        Self {
            key: named(upstream, key),
            key_hex: (!is_text).then(|| hex(key.path())),
            token: words(mark.token),
            contested: mark.contested,
            holder: mark.holder.map(|holder| holder.as_str().to_owned()),
        }
    }
}

fn bad(detail: String) -> Problem {
    Problem::new(Code::BadRequest, detail)
}

fn number(text: &[u8]) -> Result<usize, Problem> {
    let plain = text.iter().all(u8::is_ascii_digit);
    let number =
        std::str::from_utf8(text).ok().filter(|_| plain).and_then(|text| text.parse().ok());
    number
        .filter(|limit| (1..=MAX_LIMIT).contains(limit))
        .ok_or_else(|| bad(format!("`limit` is a number from 1 to {MAX_LIMIT}")))
}

/// A cursor is the last key's stored bytes in hexadecimal digits; nobody else needs to know.
fn cursor(text: &[u8]) -> Result<Key, Problem> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let bytes: Option<Vec<u8>> = (text.len().is_multiple_of(2))
        .then(|| text.chunks(2).map(|pair| Some(digit(&pair[0])? << 4 | digit(&pair[1])?)))
        .and_then(Iterator::collect);
    bytes
        .and_then(|bytes| Key::from_bytes(&bytes))
        .ok_or_else(|| bad("`after` is the `next` of an earlier page, as it came".into()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(hex_digit).collect()
}

fn hex_digit(digit: u8) -> Option<char> {
    char::from_digit(digit.into(), 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::UpstreamId;

    fn parsed(query: &str) -> Result<Query, &'static str> {
        let uri = format!("/v1/keys{query}").parse::<Uri>().unwrap();
        Query::parse(&uri).map_err(|problem| problem.code())
    }

    #[test]
    fn a_query_is_read_or_refused() {
        let query = |prefix: &[u8], limit| Query { prefix: prefix.to_vec(), after: None, limit };
        for (text, expected) in [
            ("", query(b"", 100)),
            ("?", query(b"", 100)),
            ("?prefix=files:a/b", query(b"files:a/b", 100)),
            ("?prefix=files%3Aa%20b+c", query(b"files:a b+c", 100)),
            ("?limit=1&prefix=f=g", query(b"f=g", 1)),
            ("?limit=1000&&prefix=%ff", query(b"\xff", 1000)),
            ("?prefix", query(b"", 100)),
        ] {
            assert_eq!(parsed(text), Ok(expected), "{text}");
        }
        for text in [
            "?limit=0",
            "?limit=1001",
            "?limit=",
            "?limit=+1",
            "?limit=-1",
            "?limit=1e2",
            "?limit=99999999999999999999999",
            "?limit=1&limit=1",
            "?prefix=a&prefix=a",
            "?perfix=a",
            "?prefix=%2",
            "?prefix=%zz",
            "?after=",
            "?after=0000000",
            "?after=000000",
            "?after=0000000g",
            "?after=files:a",
        ] {
            assert_eq!(parsed(text), Err("bad-request"), "{text}");
        }
        let long = format!("?after={}", "00".repeat(4 + Key::MAX + 1));
        assert_eq!(parsed(&long), Err("bad-request"));
    }

    #[test]
    fn a_cursor_comes_back_as_it_went() {
        let longest = vec![0xff; Key::MAX];
        for path in [&b""[..], b"a/b", b"\0\xff\x0a", &longest] {
            let key = Key::new(UpstreamId(0x0102_f0ff), path).unwrap();
            assert_eq!(cursor(hex(key.as_bytes()).as_bytes()).unwrap(), key);
        }
    }
}
