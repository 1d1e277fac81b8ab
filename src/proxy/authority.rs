//! Whom the client addressed: one Host field, of one form (RFC 9112 section 3.2).

use http::{HeaderMap, HeaderValue, Uri, header};

use super::{headers::same_authority, refusal::Refusal};

/// The authority of a request.
#[derive(Clone, Debug)]
pub struct Addressed {
    /// The Host field as it came: what goes upstream.
    pub field: HeaderValue,
    /// The host, lower-cased, without its port: what routes and keys go by.
    pub host: String,
}

impl Addressed {
    /// Reads the Host field, and compares a target in absolute form with it.
    ///
    /// # Errors
    /// [`Refusal::BadRequest`]: no host, more than one, a malformed one, or one that differs from
    /// the target's.
    pub fn read(headers: &HeaderMap, uri: &Uri) -> Result<Self, Refusal> {
        let mut lines = headers.get_all(header::HOST).iter();
        let (Some(field), None) = (lines.next(), lines.next()) else {
            return Err(Refusal::BadRequest("there must be exactly one Host field"));
        };
        let text = field.to_str().unwrap_or_default();
        let Some(host) = host_of(text) else {
            return Err(Refusal::BadRequest("the Host field is not a host and a port"));
        };
        if let Some(authority) = uri.authority() {
            let plain = uri.scheme() == Some(&http::uri::Scheme::HTTP);
            if !plain || !same_authority(authority.as_str(), text) {
                return Err(Refusal::BadRequest("the target's authority is not the Host field's"));
            }
        }
        Ok(Self { field: field.clone(), host: host.to_ascii_lowercase() })
    }
}

/// The host of `host[:port]`, or `None` where it is not of that form.
fn host_of(text: &str) -> Option<&str> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, port)) => (&text[..inner.len() + 2], port),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port_fits = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()) && digits.len() <= 5,
    };
    let name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    let address = |b: u8| b.is_ascii_hexdigit() || matches!(b, b':' | b'.');
    let host_fits = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => !inner.is_empty() && inner.bytes().all(address),
        None => !host.is_empty() && host.bytes().all(name),
    };
    (port_fits && host_fits).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str], target: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::HOST, line.parse().unwrap());
        }
        Addressed::read(&headers, &target.parse().unwrap()).ok().map(|addressed| addressed.host)
    }

    #[test]
    fn one_host_of_one_form() {
        assert_eq!(read(&["A.example:8080"], "/k").as_deref(), Some("a.example"));
        assert_eq!(read(&["[::1]:80"], "/k").as_deref(), Some("[::1]"));
        assert_eq!(read(&["a:"], "/k").as_deref(), Some("a"));
        for lines in [
            &[][..],
            &["a", "a"],
            &["a, b"],
            &["a/b"],
            &["u@a"],
            &[""],
            &["a:x"],
            &["a:123456"],
            &["[::1"],
            &["[]"],
            &["a b"],
            &[":80"],
        ] {
            assert_eq!(read(lines, "/k"), None, "{lines:?}");
        }
    }

    #[test]
    fn an_absolute_target_must_name_the_same() {
        assert!(read(&["a"], "http://a/k").is_some());
        assert!(read(&["A:80"], "http://a/k").is_some());
        for target in ["http://other/k", "http://u:p@a/k", "https://a/k", "ftp://a/k"] {
            assert_eq!(read(&["a"], target), None, "{target}");
        }
    }
}
