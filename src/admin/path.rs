//! From a request's path to an endpoint, and from its last part to a key.

use http::{Method, Uri};

use super::{
    Control,
    problem::{Code, Problem},
};
use crate::fence::Key;

/// What a request is for. Keys are still as they came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Endpoint<'a> {
    Livez,
    Readyz,
    Metrics,
    Status,
    Routes,
    List,
    Show(&'a str),
    Change(&'a str, Action),
}

/// What an operator can do to a key (R12).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Action {
    Advance,
    Release,
    Reset,
}

/// Whether a path is answered without the bearer token: what an orchestrator's probe asks.
pub(super) fn is_open(uri: &Uri) -> bool {
    matches!(uri.path(), "/livez" | "/readyz")
}

/// Tells what a request is for.
///
/// A GET takes everything after `/v1/keys/` for the key, a POST all but the last segment, which is
/// the action: keys contain slashes.
pub(super) fn endpoint<'a>(method: &Method, uri: &'a Uri) -> Result<Endpoint<'a>, Problem> {
    let read = matches!(*method, Method::GET | Method::HEAD);
    let fixed = match uri.path() {
        "/livez" => Endpoint::Livez,
        "/readyz" => Endpoint::Readyz,
        "/metrics" => Endpoint::Metrics,
        "/v1/status" => Endpoint::Status,
        "/v1/routes" => Endpoint::Routes,
        "/v1/keys" => Endpoint::List,
        path => match path.strip_prefix("/v1/keys/") {
            Some(rest) => return key_endpoint(method, uri, rest),
            None => {
                return Err(Problem::new(
                    Code::NotFound,
                    "see /livez, /readyz, /metrics, /v1/status, /v1/routes, /v1/keys, \
                     /v1/keys/UPSTREAM:KEY",
                ));
            }
        },
    };
    if read { Ok(fixed) } else { Err(Problem::method("GET, HEAD")) }
}

fn key_endpoint<'a>(method: &Method, uri: &Uri, rest: &'a str) -> Result<Endpoint<'a>, Problem> {
    if uri.query().is_some() {
        // Else the part of a key after a question mark would be lost without a word.
        return Err(Problem::new(Code::BadRequest, "a `?` within a key is written %3F"));
    }
    let change = rest.rsplit_once('/').and_then(|(key, last)| Some((key, action(last)?)));
    match (method, change) {
        (&Method::GET | &Method::HEAD, _) => Ok(Endpoint::Show(rest)),
        (&Method::POST, Some((key, action))) => Ok(Endpoint::Change(key, action)),
        (_, Some(_)) => Err(Problem::method("GET, HEAD, POST")),
        (_, None) => Err(Problem::method("GET, HEAD")),
    }
}

fn action(segment: &str) -> Option<Action> {
    match segment {
        "advance" => Some(Action::Advance),
        "release" => Some(Action::Release),
        "reset" => Some(Action::Reset),
        _ => None,
    }
}

/// A key and how it is written.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) key: Key,
    /// `UPSTREAM:KEY`, decoded.
    pub(super) words: String,
}

/// Reads `UPSTREAM:KEY` from its percent-encoded form, decoding once.
pub(super) fn key(encoded: &str, control: &dyn Control) -> Result<Named, Problem> {
    let bytes = decode(encoded).ok_or_else(|| {
        Problem::new(Code::BadRequest, "a `%` is not followed by two hexadecimal digits")
    })?;
    let words = String::from_utf8_lossy(&bytes).into_owned();
    let Some(colon) = bytes.iter().position(|byte| *byte == b':') else {
        return Err(Problem::new(Code::BadRequest, "a key is written UPSTREAM:KEY"));
    };
    let (upstream, path) = (String::from_utf8_lossy(&bytes[..colon]), &bytes[colon + 1..]);
    let Some(id) = control.resolve(&upstream) else {
        let detail = format!("the configuration has no upstream {upstream:?}");
        return Err(Problem::new(Code::UnknownUpstream, detail).about(&words));
    };
    match Key::new(id, path) {
        Some(key) => Ok(Named { key, words }),
        None => Err(Problem::new(Code::BadRequest, format!("longer than {} bytes", Key::MAX))),
    }
}

/// A key as operators write it, `UPSTREAM:KEY`; what is no UTF-8 is replaced.
pub(super) fn named(upstream: &str, key: &Key) -> String {
    format!("{upstream}:{}", String::from_utf8_lossy(key.path()))
}

/// Percent-decoding, once; `None` where an escape is not one. A plus is a plus.
pub(super) fn decode(encoded: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        let plain = match byte {
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            byte => byte,
        };
        decoded.push(plain);
    }
    Some(decoded)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(method: &str, path: &str) -> Result<String, &'static str> {
        let uri = path.parse::<Uri>().unwrap();
        let method = method.parse::<Method>().unwrap();
        endpoint(&method, &uri).map(|found| format!("{found:?}")).map_err(|problem| problem.code())
    }

    #[test]
    fn paths_lead_to_endpoints() {
        for (method, path, expected) in [
            ("GET", "/livez", Ok("Livez")),
            ("HEAD", "/metrics?x=1", Ok("Metrics")),
            ("GET", "/livez/", Err("not-found")),
            ("POST", "/readyz", Err("method-not-allowed")),
            ("GET", "/", Err("not-found")),
            ("GET", "//v1/keys/f:a", Err("not-found")),
            ("GET", "/v1/keys", Ok("List")),
            ("HEAD", "/v1/keys?prefix=f:a", Ok("List")),
            ("POST", "/v1/keys", Err("method-not-allowed")),
            ("GET", "/v1/status", Ok("Status")),
            ("DELETE", "/v1/status", Err("method-not-allowed")),
            ("GET", "/v1/routes", Ok("Routes")),
            ("GET", "/v1/status/", Err("not-found")),
            ("GET", "/v1/keys/f:a/b", Ok("Show(\"f:a/b\")")),
            ("GET", "/v1/keys/f:a/reset", Ok("Show(\"f:a/reset\")")),
            ("POST", "/v1/keys/f:a/reset", Ok("Change(\"f:a\", Reset)")),
            ("POST", "/v1/keys/f:a/reset/advance", Ok("Change(\"f:a/reset\", Advance)")),
            ("POST", "/v1/keys/f:a//release", Ok("Change(\"f:a/\", Release)")),
            ("POST", "/v1/keys/f:a%2Freset", Err("method-not-allowed")),
            ("POST", "/v1/keys/reset", Err("method-not-allowed")),
            ("DELETE", "/v1/keys/f:a", Err("method-not-allowed")),
            ("PUT", "/v1/keys/f:a/reset", Err("method-not-allowed")),
            ("post", "/v1/keys/f:a/reset", Err("method-not-allowed")),
            ("POST", "/v1/keys/f:a?b/reset", Err("bad-request")),
            ("GET", "/v1/keys/f:a?b", Err("bad-request")),
        ] {
            assert_eq!(at(method, path), expected.map(str::to_owned), "{method} {path}");
        }
    }

    #[test]
    fn decoding_happens_once() {
        for (encoded, expected) in [
            ("a%2Fb", Some(&b"a/b"[..])),
            ("a%2fb", Some(b"a/b")),
            ("%252F", Some(b"%2F")),
            ("a+b", Some(b"a+b")),
            ("%ff%00", Some(b"\xff\0")),
            ("%", None),
            ("%2", None),
            ("%+1", None),
            ("%zz", None),
        ] {
            assert_eq!(decode(encoded).as_deref(), expected, "{encoded}");
        }
    }
}
