//! A response as RFC 9112 has it, read a second time, from bytes that are all there.

use std::collections::BTreeMap;

/// Most fields of a head.
const MOST_FIELDS: usize = 100;

/// Most bytes that are no data of a chunked body.
const MOST_ASIDE: usize = 16 * 1024;

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// Of HTTP/1.0.
    pub old: bool,
    pub reason: Vec<u8>,
    pub fields: Fields,
    /// As far as it could be read.
    pub body: Vec<u8>,
    pub end: End,
    /// The connection may be used again.
    pub kept: bool,
}

/// The values of each name, in their order.
pub type Fields = BTreeMap<String, Vec<Vec<u8>>>;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    Told,
    /// With the connection.
    Closed,
    /// Too early, or in the middle of something that is no body.
    Cut,
}

pub fn sorted<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Fields {
    let mut sorted = Fields::new();
    for (name, value) in fields {
        sorted.entry(name.to_ascii_lowercase()).or_default().push(value.to_vec());
    }
    sorted
}

/// What the bytes answer, the connection having ended after them. `None` for no answer.
pub fn answer(bytes: &[u8], to_head: bool) -> Option<Answer> {
    let mut rest = bytes;
    let (mut answer, told) = loop {
        let mut head = head(&mut rest)?;
        if head.status >= 200 || head.status == 101 {
            let told = head.frame(&mut rest, to_head)?;
            break (head, told);
        }
    };
    answer.kept &= told && answer.end == End::Told && rest.is_empty();
    Some(answer)
}

impl Answer {
    fn words(&self, name: &str) -> Vec<String> {
        let lines = self.fields.get(name).into_iter().flatten();
        let words = lines.flat_map(|line| line.split(|byte| *byte == b','));
        let plain =
            |word: &[u8]| String::from_utf8_lossy(word).trim_matches([' ', '\t']).to_owned();
        words.map(|word| plain(word).to_ascii_lowercase()).collect()
    }

    /// Section 6.3, and whether it is the answer's own words that end the body.
    fn frame(&mut self, rest: &mut &[u8], to_head: bool) -> Option<bool> {
        let codings = self.words("transfer-encoding");
        let lengths = self.words("content-length");
        let connection = self.words("connection");
        let close = connection.iter().any(|word| word == "close");
        let asked = connection.iter().any(|word| word == "keep-alive");
        let twofold = !codings.is_empty() && !lengths.is_empty();
        self.kept = !close && (!self.old || asked) && !twofold && self.status != 101;
        let sound = |lengths: &[String]| {
            let first = lengths.first().map(|first| number(first));
            lengths.iter().all(|word| number(word).is_some() && first == Some(number(word)))
        };
        if codings.is_empty() && !sound(&lengths) {
            return None;
        }
        if codings.is_empty() && lengths.len() > 1 {
            // It goes on once.
            let once = number(&lengths[0])?.to_string().into_bytes();
            self.fields.insert("content-length".to_owned(), vec![once]);
        }
        if to_head || matches!(self.status, 101 | 204 | 304) {
            self.end = End::Told;
        } else if !codings.is_empty() {
            if self.old || codings != ["chunked"] {
                return None;
            }
            self.end = if self.chunks(rest).is_some() { End::Told } else { End::Cut };
        } else if let Some(first) = lengths.first() {
            let number = number(first)?;
            let taken = number.min(rest.len() as u64) as usize;
            self.body = rest[..taken].to_vec();
            *rest = &rest[taken..];
            self.end = if taken as u64 == number { End::Told } else { End::Cut };
        } else {
            self.until_close(rest);
        }
        Some(self.end == End::Told)
    }

    fn until_close(&mut self, rest: &mut &[u8]) {
        self.body = std::mem::take(rest).to_vec();
        self.end = End::Closed;
    }

    /// Section 7.1. `None` where they do not end.
    fn chunks(&mut self, rest: &mut &[u8]) -> Option<()> {
        let mut aside = 0;
        loop {
            let line = strict_line(rest)?;
            let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            aside += line.len() - digits;
            let after = line[digits..].trim_ascii_start();
            let sound = (1..=16).contains(&digits) && (after.is_empty() || after[0] == b';');
            // A form feed is no blank.
            let blanks = line[digits..line.len() - after.len()].iter();
            if !sound || aside > MOST_ASIDE || !blanks.into_iter().all(|b| b" \t".contains(b)) {
                return None;
            }
            let size = std::str::from_utf8(&line[..digits]).ok()?;
            let size = u64::from_str_radix(size, 16).ok()?;
            if size == 0 {
                return trailer(rest, aside);
            }
            let taken = size.min(rest.len() as u64) as usize;
            self.body.extend_from_slice(&rest[..taken]);
            *rest = &rest[taken..];
            if taken as u64 != size || !strict_line(rest)?.is_empty() {
                return None;
            }
        }
    }
}

fn trailer(rest: &mut &[u8], mut aside: usize) -> Option<()> {
    loop {
        let line = strict_line(rest)?;
        if line.is_empty() {
            return Some(());
        }
        aside += line.len();
        field(line).filter(|_| aside <= MOST_ASIDE)?;
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Sections 2.2, 4 and 5: a line may end without a CR, and empty ones may go before the first.
fn head(rest: &mut &[u8]) -> Option<Answer> {
    let mut first = line(rest)?;
    while first.is_empty() {
        first = line(rest)?;
    }
    let (old, after) = match first.split_at_checked(9)? {
        (b"HTTP/1.1 ", after) => (false, after),
        (b"HTTP/1.0 ", after) => (true, after),
        _ => return None,
    };
    let (status, reason) = after.split_at_checked(3)?;
    let status = number(std::str::from_utf8(status).ok()?)?;
    let status = u16::try_from(status).ok().filter(|status| *status >= 100)?;
    let reason = match reason {
        [] => reason,
        [b' ', reason @ ..] if reason.iter().copied().all(is_text) => reason,
        _ => return None,
    };
    // It is only for people.
    let reason = if reason.is_ascii() { reason } else { b"" };
    let mut fields = Vec::new();
    loop {
        let line = line(rest)?;
        if line.is_empty() {
            break;
        }
        fields.push(field(line)?);
    }
    let fields = (fields.len() <= MOST_FIELDS).then(|| sorted(fields.into_iter()))?;
    let reason = reason.to_vec();
    Some(Answer { status, old, reason, fields, body: Vec::new(), end: End::Cut, kept: false })
}

fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let at = rest.iter().position(|byte| *byte == b'\n')?;
    let line = &rest[..at];
    *rest = &rest[at + 1..];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Some(line).filter(|line| !line.contains(&b'\r'))
}

fn strict_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let at = rest.iter().position(|byte| *byte == b'\n')?;
    let ends = rest[..at].ends_with(b"\r");
    line(rest).filter(|_| ends)
}

fn field(line: &[u8]) -> Option<(&str, &[u8])> {
    let at = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..at], &line[at + 1..]);
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let sound = !name.is_empty() && name.iter().all(token) && value.iter().copied().all(is_text);
    let name = std::str::from_utf8(name).ok().filter(|_| sound)?;
    Some((name, value.trim_ascii()))
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= 0x20 && byte != 0x7f)
}
