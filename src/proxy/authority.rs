//! Whom the client addressed: one authority, of one form (RFC 9112 section 3.2, RFC 9113 section
//! 8.3.1).

use std::{borrow::Cow, net::Ipv6Addr};

use http::{HeaderValue, Uri, Version, uri::Authority};

use super::{bytes::ByteSet, headers::same_authority, hop::Hop, lines::Lines, refusal::Refusal};

/// The bytes of a host's name.
static NAME: ByteSet = SPELT_SO.with_range(b'A', b'Z');

/// Those of one in its one spelling.
const SPELT_SO: ByteSet =
    ByteSet::EMPTY.with_range(b'0', b'9').with_range(b'a', b'z').with(b"-._~");

/// The authority of a request.
#[derive(Clone, Debug)]
pub struct Addressed {
    /// As the client wrote it: what goes upstream as Host.
    pub field: HeaderValue,
    /// The host where it has another spelling than in `field`.
    respelt: Option<String>,
    /// Of the host in `field`.
    length: usize,
    /// By `https`.
    pub tls: bool,
}

impl Addressed {
    /// Reads the lines of Host and the target's authority, which must agree, and compares them with
    /// what is known of the connection.
    ///
    /// # Errors
    /// [`Refusal::BadRequest`]: no host, more than one, a malformed one, one that differs from the
    /// target's, or another scheme. [`Refusal::Misdirected`]: the connection is another host's.
    pub fn read(
        host: Lines<'_>,
        uri: &Uri,
        version: Version,
        hop: Hop<'_>,
    ) -> Result<Self, Refusal> {
        hop.check_scheme(uri)?;
        let tls = hop.tls.is_some();
        let field = match (host, uri.authority()) {
            (Lines::None, Some(authority)) if version == Version::HTTP_2 => as_field(authority)?,
            (Lines::One(field), None) => field.clone(),
            (Lines::One(field), Some(authority)) => agreed(field, authority, version, tls)?,
            _ => return Err(Refusal::BadRequest("there must be exactly one Host field")),
        };
        let host = host_of(field.to_str().unwrap_or_default()).and_then(one_spelling);
        let Some(host) = host else {
            return Err(Refusal::BadRequest("the host is not of the form host or host:port"));
        };
        hop.check_server_name(&host)?;
        let (respelt, length) = match host {
            Cow::Borrowed(host) => (None, host.len()),
            Cow::Owned(host) => (Some(host), 0),
        };
        Ok(Self { field, respelt, length, tls })
    }

    /// By a host that needs no other spelling.
    #[cfg(test)]
    pub(super) fn as_sent(host: &str, tls: bool) -> Self {
        Self { field: host.parse().unwrap(), respelt: None, length: host.len(), tls }
    }

    /// The host in one spelling, without its port: what routes and keys go by.
    pub fn host(&self) -> &[u8] {
        match &self.respelt {
            Some(host) => host.as_bytes(),
            None => &self.field.as_bytes()[..self.length],
        }
    }
}

/// Lower case, without the root's dot, an address in its canonical form: what servers take for one
/// host must not make two keys. `None` where it is no address, or a name with nothing between two
/// dots: of `a..` one server takes off one dot, another both.
fn one_spelling(host: &str) -> Option<Cow<'_, str>> {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().ok().map(|address| format!("[{address}]").into());
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let whole = name.as_bytes().split(|byte| *byte == b'.').all(|label| !label.is_empty());
    let is_spelt_so = name.bytes().all(|byte| SPELT_SO.has(byte));
    whole.then(|| if is_spelt_so { name.into() } else { name.to_ascii_lowercase().into() })
}

/// The one authority of a Host field and a target. In HTTP/2 the target's is the authority, and a
/// field beside it must be the same; in HTTP/1.1 the field is what routes have always gone by.
fn agreed(
    field: &HeaderValue,
    authority: &Authority,
    version: Version,
    tls: bool,
) -> Result<HeaderValue, Refusal> {
    let text = field.to_str().unwrap_or_default();
    if text == authority.as_str() {
        return Ok(field.clone());
    }
    if version == Version::HTTP_2 && text.eq_ignore_ascii_case(authority.as_str()) {
        return as_field(authority);
    }
    if version < Version::HTTP_2 && same_authority(authority.as_str(), text, tls) {
        return Ok(field.clone());
    }
    Err(Refusal::BadRequest("the target's authority is not the Host field's"))
}

fn as_field(authority: &Authority) -> Result<HeaderValue, Refusal> {
    HeaderValue::from_str(authority.as_str())
        .map_err(|_| Refusal::BadRequest("the target's authority is no host"))
}

/// The host of `host[:port]`, or `None` where it is not of that form.
fn host_of(text: &str) -> Option<&str> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, port)) => (&text[..inner.len() + 2], port),
        None => text.split_at(text.bytes().position(|b| !NAME.has(b)).unwrap_or(text.len())),
    };
    let port_fits = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()) && digits.len() <= 5,
    };
    let address = |b: u8| b.is_ascii_hexdigit() || matches!(b, b':' | b'.');
    let host_fits = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => !inner.is_empty() && inner.bytes().all(address),
        None => !host.is_empty(),
    };
    (port_fits && host_fits).then_some(host)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, header};

    use super::{super::hop::Tls, *};

    fn addressed(
        version: Version,
        lines: &[&str],
        target: &str,
        hop: Hop<'_>,
    ) -> Result<Addressed, Refusal> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::HOST, line.parse().unwrap());
        }
        let host = Lines::of(&headers, &header::HOST);
        Addressed::read(host, &target.parse().unwrap(), version, hop)
    }

    fn read(lines: &[&str], target: &str) -> Option<String> {
        let read = addressed(Version::HTTP_11, lines, target, Hop::default()).ok()?;
        Some(String::from_utf8(read.host().to_vec()).unwrap())
    }

    /// What goes upstream of an HTTP/2 request.
    fn read2(lines: &[&str], target: &str, hop: Hop<'_>) -> Option<String> {
        let read = addressed(Version::HTTP_2, lines, target, hop).ok()?;
        Some(read.field.to_str().unwrap().to_owned())
    }

    #[test]
    fn one_host_of_one_form() {
        assert_eq!(read(&["A.example:8080"], "/k").as_deref(), Some("a.example"));
        assert_eq!(read(&["[::1]:80"], "/k").as_deref(), Some("[::1]"));
        assert_eq!(read(&["a:"], "/k").as_deref(), Some("a"));
        assert_eq!(read(&["A.example."], "/k").as_deref(), Some("a.example"), "the root's dot");
        assert_eq!(read(&["[0:0::1]"], "/k").as_deref(), Some("[::1]"), "one address");
        for name in [".", "..", "a..", "a..b", ".a", "a..:80"] {
            assert_eq!(read(&[name], "/k"), None, "{name}");
        }
        assert_eq!(read(&["[1.2]"], "/k"), None);
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
            assert_eq!(read2(lines, "/k", Hop::default()), None, "{lines:?}");
        }
    }

    #[test]
    fn an_absolute_target_must_name_the_same() {
        assert!(read(&["a"], "http://a/k").is_some());
        assert!(read(&["A:80"], "http://a/k").is_some());
        for target in ["http://other/k", "http://u:p@a/k", "https://a/k", "ftp://a/k"] {
            assert_eq!(read(&["a"], target), None, "{target}");
        }
        assert_eq!(read(&[], "http://a/k"), None, "HTTP/1.1 needs its Host");
    }

    #[test]
    fn in_http2_the_authority_is_the_host() {
        let plain = Hop::default();
        for (lines, target, field) in [
            (&[][..], "http://A:81/k", Some("A:81")),
            (&["A:81"], "http://A:81/k", Some("A:81")),
            (&["a:81"], "http://A:81/k", Some("A:81")),
            (&["a"], "/k", Some("a")),
            (&[], "/k", None),
            (&["other"], "http://a/k", None),
            (&["a:80"], "http://a/k", None),
            (&["a", "a"], "http://a/k", None),
            (&["a", "a"], "/k", None),
            (&["a", "other"], "http://a/k", None),
            (&[], "http://u@a/k", None),
            (&[], "http://a:123456/k", None),
            (&[], "https://a/k", None),
            (&[], "ftp://a/k", None),
        ] {
            assert_eq!(read2(lines, target, plain).as_deref(), field, "{lines:?} {target}");
        }
    }

    #[test]
    fn over_tls_the_scheme_and_the_server_name_are_its_own() {
        let hop = Hop { remote: None, tls: Some(Tls { server_name: Some("a") }) };
        assert_eq!(read2(&[], "https://a:8443/k", hop).as_deref(), Some("a:8443"));
        assert_eq!(read2(&[], "http://a/k", hop), None);
        assert!(addressed(Version::HTTP_11, &["a:443"], "https://a/k", hop).unwrap().tls);
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let other = addressed(version, &["b"], "/k", hop);
            assert!(matches!(other, Err(Refusal::Misdirected)), "{version:?}");
        }
    }
}
