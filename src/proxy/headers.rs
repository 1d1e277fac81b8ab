//! What fields mean on their way through: hop-by-hop ones, framing, redirects.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};

use super::{
    authority::Addressed,
    lines::{Fields, Lines},
    refusal::Refusal,
};

/// How a request says where its body ends (RFC 9112 section 6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BodyLength {
    /// No body.
    None,
    /// `Content-Length`.
    Exact(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// The largest map that is used again, in fields it has room for.
const MOST_KEPT: usize = 32;

/// How the names of the fields begin that are the fence's own in an answer.
const OURS: &str = "fencing-";

/// Fields of one connection (RFC 9110 section 7.6.1), which never go on.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HTTP2_SETTINGS,
];

/// The body's length as the head says it; `ended` where nothing follows the head. hyper has refused
/// what contradicts itself; a coding that it lets through would be stored as the object, so only
/// `chunked` alone is taken.
///
/// # Errors
/// [`Refusal::BadRequest`].
pub fn body_length(
    fields: &Fields<'_>,
    version: Version,
    ended: bool,
) -> Result<BodyLength, Refusal> {
    let said = said_length(fields, version)?;
    if version != Version::HTTP_2 {
        return Ok(said);
    }
    // HTTP/2 ends a body by its frames; a length is no more than a promise of theirs.
    match said {
        BodyLength::Exact(1..) if ended => {
            Err(Refusal::BadRequest("Content-Length without a body"))
        }
        BodyLength::None if !ended => Ok(BodyLength::Chunked),
        BodyLength::None | BodyLength::Exact(_) => Ok(said),
        BodyLength::Chunked => Err(Refusal::BadRequest("Transfer-Encoding in HTTP/2")),
    }
}

fn said_length(fields: &Fields<'_>, version: Version) -> Result<BodyLength, Refusal> {
    let unusual = |name| fields.unusual.map_or(Lines::None, |all| Lines::of(all, name));
    match unusual(&header::TRANSFER_ENCODING) {
        Lines::None => {}
        Lines::One(coding) if version >= Version::HTTP_11 && is_chunked(coding) => {
            return match fields.length {
                Lines::None => Ok(BodyLength::Chunked),
                Lines::One(_) | Lines::More => {
                    Err(Refusal::BadRequest("Content-Length beside Transfer-Encoding"))
                }
            };
        }
        Lines::One(_) | Lines::More => {
            return Err(Refusal::BadRequest("Transfer-Encoding is not exactly `chunked`"));
        }
    }
    let digits = match fields.length {
        Lines::None => return Ok(BodyLength::None),
        Lines::One(length) => length.to_str().ok(),
        Lines::More => None,
    };
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|text| text.parse().ok()) {
        Some(length) => Ok(BodyLength::Exact(length)),
        None => Err(Refusal::BadRequest("Content-Length is not one number")),
    }
}

fn is_chunked(coding: &HeaderValue) -> bool {
    coding.as_bytes().eq_ignore_ascii_case(b"chunked")
}

/// Checks `Connection`: it may not take away a field that the fence or the store goes by.
///
/// # Errors
/// [`Refusal::BadRequest`].
pub fn check_connection(headers: &HeaderMap) -> Result<(), Refusal> {
    for name in connection_words(headers) {
        let relied_on = ["host", "content-length", "authorization", "content-range", "range"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        let conditional = name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"if-"));
        if relied_on || conditional {
            return Err(Refusal::BadRequest("Connection names a field that must go on"));
        }
    }
    Ok(())
}

/// Puts the crumbs of a cookie together: HTTP/2 clients may send each in a line of its own, which
/// HTTP/1.1 does not know (RFC 9113 section 8.2.3).
pub fn join_cookies(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(header::COOKIE).iter();
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return };
    let mut cookie = first.as_bytes().to_vec();
    for crumb in std::iter::once(second).chain(lines) {
        cookie.extend_from_slice(b"; ");
        cookie.extend_from_slice(crumb.as_bytes());
    }
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        headers.insert(header::COOKIE, cookie);
    }
}

/// A map that is not needed any more, for the fields of an answer: to make one takes longer than to
/// empty it. hyper keeps it for the next request's, so a large one is let go.
pub fn emptied(mut headers: HeaderMap) -> HeaderMap {
    // Further lines of a field have their own room.
    if headers.capacity().max(headers.len()) > MOST_KEPT {
        return HeaderMap::new();
    }
    headers.clear();
    headers
}

/// Whether a field is of one connection.
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(name)
}

/// The fields that `Connection` takes away, but for `kept`.
pub fn nominated(headers: &HeaderMap, kept: &[HeaderName]) -> Vec<HeaderName> {
    // The usual words are no fields that would go on; they are not worth a name each.
    let usual = |name: &&[u8]| {
        name.eq_ignore_ascii_case(b"close") || name.eq_ignore_ascii_case(b"keep-alive")
    };
    connection_words(headers)
        .filter(|name| !usual(name))
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        .filter(|name| !kept.contains(name))
        .collect()
}

/// Makes an upstream's fields those that go to the client: what it says of fencing is not ours.
pub fn to_client(headers: &mut HeaderMap) {
    // Looked for among the fields there are: most answers have none of them.
    let goes_not = |name: &&HeaderName| is_hop_by_hop(name) || name.as_str().starts_with(OURS);
    let foreign: Vec<HeaderName> = headers.keys().filter(goes_not).cloned().collect();
    if foreign.is_empty() {
        return;
    }
    // Where both stand, the coding counts, and the length is another's (RFC 9112 section 6.3).
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    for name in nominated(headers, &[]).into_iter().chain(foreign) {
        headers.remove(name);
    }
}

/// Whether an answer to a write sends the client to another authority than it addressed, or to the
/// same by another scheme.
pub fn redirects_away(status: StatusCode, headers: &HeaderMap, addressed: &Addressed) -> bool {
    if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
        return false;
    }
    headers.get_all(header::LOCATION).iter().any(|location| leads_away(location, addressed))
}

fn leads_away(location: &HeaderValue, addressed: &Addressed) -> bool {
    // Browsers take a backslash for a slash, and skip controls.
    let Some(text) = location.to_str().ok().filter(|text| !text.contains(['\\', '\t'])) else {
        return true;
    };
    let text = text.trim();
    let own = if addressed.tls { "https" } else { "http" };
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if scheme.bytes().all(is_scheme) && !scheme.is_empty() => {
            (scheme, rest)
        }
        _ => (own, text),
    };
    let Some(rest) = rest.strip_prefix("//") else {
        // A path of this authority; with a scheme but no authority readers differ.
        return rest.len() != text.len();
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = addressed.field.to_str().unwrap_or_default();
    !scheme.eq_ignore_ascii_case(own) || !same_authority(authority, host, addressed.tls)
}

/// Whether two authorities are one: case and the scheme's default port make no difference.
pub fn same_authority(one: &str, other: &str, tls: bool) -> bool {
    let port = if tls { ":443" } else { ":80" };
    let bare = |authority: &str| {
        authority.strip_suffix(port).or(authority.strip_suffix(':')).unwrap_or(authority).len()
    };
    one[..bare(one)].eq_ignore_ascii_case(&other[..bare(other)])
}

fn is_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// The words of `Connection`: options, and names of fields.
fn connection_words(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests;
