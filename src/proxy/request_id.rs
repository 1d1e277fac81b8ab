//! The name by which a client's report, a log line and the store's own log find one another.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

/// `X-Request-Id`.
pub(super) const FIELD: HeaderName = HeaderName::from_static("x-request-id");

/// The longest one that is taken over.
const LONGEST: usize = 128;

/// A request's id: 1 to 128 visible ASCII characters without quotes and backslashes, so that it is
/// itself in a log line and in JSON.
#[derive(Clone, Debug)]
pub(super) enum RequestId {
    /// The client's own.
    Clients(HeaderValue),
    /// Made here, in hexadecimal digits.
    Made([u8; 16]),
}

impl RequestId {
    /// The client's own, where it sent one of that form; else a new one.
    /// `unusual` are the fields of a request that has some ([`Fields`](super::lines::Fields)).
    pub(super) fn of(unusual: Option<&HeaderMap>) -> Self {
        let Some(headers) = unusual else { return Self::new() };
        let mut lines = headers.get_all(FIELD).iter();
        match (lines.next(), lines.next()) {
            (Some(id), None) if fits(id.as_bytes()) => Self::Clients(id.clone()),
            _ => Self::new(),
        }
    }

    /// Its text.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Clients(id) => id.to_str().unwrap_or_default(),
            Self::Made(digits) => str::from_utf8(digits).unwrap_or_default(),
        }
    }

    /// As a field's value.
    pub(super) fn value(&self) -> HeaderValue {
        match self {
            Self::Clients(id) => id.clone(),
            Self::Made(digits) => {
                HeaderValue::from_bytes(digits).unwrap_or_else(|_| HeaderValue::from_static("0"))
            }
        }
    }

    fn new() -> Self {
        let number = fastrand::u64(..);
        let digit = |at: usize| b"0123456789abcdef"[(number >> (4 * at) & 0xf) as usize];
        Self::Made(std::array::from_fn(digit))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn fits(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'`' | b'\\');
    (1..=LONGEST).contains(&id.len()) && id.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FIELD, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        RequestId::of(Some(&headers)).to_string()
    }

    #[test]
    fn a_clients_id_is_taken_over_where_it_is_plain() {
        let longest = "x".repeat(128);
        for id in ["1", "6f9c:42/{a}", "a,b;c=d", &longest] {
            assert_eq!(of(&[id]), id);
        }
        let longer = "x".repeat(129);
        for bad in ["", "a b", "a\tb", "a\"b", "a'b", "a`b", "a\\b", "\u{e9}", &longer] {
            let made = of(&[bad]);
            assert!(made.len() == 16 && made.bytes().all(|b| b.is_ascii_hexdigit()), "{made}");
        }
        assert_ne!(of(&["a", "a"]), "a", "two are none");
        assert_ne!(of(&[]), of(&[]), "made anew");
    }
}
