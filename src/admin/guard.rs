//! Who may ask, and from where: the bearer token, and what a browser must not be able to do.
//!
//! A page that the operator happens to read can send requests to the operator's own machine. It
//! cannot set `Content-Type: application/json` without asking first, cannot hide its `Origin`, and
//! cannot name the listener when it came by a DNS name of its own.

use std::{
    hint::black_box,
    net::{IpAddr, SocketAddr},
};

use http::{
    HeaderMap, HeaderName, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN},
    request::Parts,
};

use super::{
    Ends, Options,
    problem::{Code, Problem},
};

/// Whether the bearer token is there, where one is configured.
pub(super) fn authenticate(options: &Options, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(expected) = &options.token else { return Ok(()) };
    let given = only(headers, &AUTHORIZATION)
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    match given {
        Some(given) if !expected.is_empty() && same(given.as_bytes(), expected.as_bytes()) => {
            Ok(())
        }
        _ => Err(Problem::unauthenticated()),
    }
}

/// Whether a change was meant by whoever sends it.
pub(super) fn change(ends: Ends, parts: &Parts) -> Result<(), Problem> {
    let headers = &parts.headers;
    let host = only(headers, &HOST).filter(|host| names(host, ends.local));
    let Some(host) = host.filter(|_| names_same(&parts.uri, ends.local)) else {
        let detail = format!("Host must name this listener, {} or localhost", ends.local);
        return Err(Problem::new(Code::Forbidden, detail));
    };
    if headers.contains_key(ORIGIN) {
        let own = only(headers, &ORIGIN)
            .and_then(|origin| origin.strip_prefix("http://"))
            .is_some_and(|origin| origin.eq_ignore_ascii_case(host));
        if !own {
            return Err(Problem::new(Code::Forbidden, "a page of another origin sent this"));
        }
    }
    if headers.contains_key(&FETCH_SITE)
        && !matches!(only(headers, &FETCH_SITE), Some("same-origin" | "none"))
    {
        return Err(Problem::new(Code::Forbidden, "a page of another site sent this"));
    }
    let json = only(headers, &CONTENT_TYPE)
        .map(|value| value.split(';').next().unwrap_or_default().trim())
        .is_some_and(|media| media.eq_ignore_ascii_case("application/json"));
    if !json {
        let detail = "a change needs `Content-Type: application/json`";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    Ok(())
}

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The value of a field that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { first.to_str().ok() }
}

/// A target in absolute form outranks Host, and so must name the listener as well.
fn names_same(uri: &Uri, local: SocketAddr) -> bool {
    uri.authority().is_none_or(|authority| names(authority.as_str(), local))
}

/// Whether `host[:port]` is the listener: the address that was connected to, a loopback address, or
/// localhost, each with its port. Other names could be made to lead here by whoever owns them.
fn names(authority: &str, local: SocketAddr) -> bool {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
        _ => (authority, Some(80)),
    };
    if port != Some(local.port()) {
        return false;
    }
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match literal.parse::<IpAddr>() {
        Ok(address) => {
            let address = address.to_canonical();
            address.is_loopback() || address == local.ip().to_canonical()
        }
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// Compares in a time that does not tell where the two differ. Their lengths are no secret.
fn same(given: &[u8], expected: &[u8]) -> bool {
    let difference = given.iter().zip(expected).fold(0, |sum, (a, b)| black_box(sum | (a ^ b)));
    given.len() == expected.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_names_the_listener_or_it_does_not() {
        for (host, local, expected) in [
            ("127.0.0.1:9180", "127.0.0.1:9180", true),
            ("localhost:9180", "127.0.0.1:9180", true),
            ("LOCALHOST:9180", "127.0.0.1:9180", true),
            ("[::1]:9180", "127.0.0.1:9180", true),
            ("10.0.0.5:9180", "10.0.0.5:9180", true),
            ("10.0.0.5:9180", "[::ffff:10.0.0.5]:9180", true),
            ("10.0.0.6:9180", "10.0.0.5:9180", false),
            ("localhost", "127.0.0.1:80", true),
            ("[::1]", "[::1]:80", true),
            ("localhost", "127.0.0.1:9180", false),
            ("localhost:9181", "127.0.0.1:9180", false),
            ("localhost:x", "127.0.0.1:9180", false),
            ("localhost:", "127.0.0.1:9180", false),
            ("", "127.0.0.1:9180", false),
            ("evil.example:9180", "127.0.0.1:9180", false),
            ("127.0.0.1.evil.example:9180", "127.0.0.1:9180", false),
            ("localhost.evil.example:9180", "127.0.0.1:9180", false),
            ("user@localhost:9180", "127.0.0.1:9180", false),
            ("localhost:9180@evil.example", "127.0.0.1:9180", false),
            ("0.0.0.0:9180", "127.0.0.1:9180", false),
        ] {
            assert_eq!(names(host, local.parse().unwrap()), expected, "{host} at {local}");
        }
    }

    #[test]
    fn a_secret_is_compared_whole() {
        for (given, expected, verdict) in [
            ("secret", "secret", true),
            ("secreT", "secret", false),
            ("Secret", "secret", false),
            ("secre", "secret", false),
            ("secrets", "secret", false),
            ("", "secret", false),
        ] {
            assert_eq!(same(given.as_bytes(), expected.as_bytes()), verdict, "{given}");
        }
    }

    #[test]
    fn an_empty_secret_is_not_matched_by_an_empty_one() {
        let listen = "127.0.0.1:9180".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, http::HeaderValue::from_static("Bearer "));
        for (token, passes) in [(Some(String::new()), false), (None, true)] {
            let options = Options { listen, token };
            assert_eq!(authenticate(&options, &headers).is_ok(), passes);
        }
    }
}
