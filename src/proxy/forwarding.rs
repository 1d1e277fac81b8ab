//! Who sent a request, told to the store: X-Forwarded-For, -Proto, -Host, and Forwarded (RFC 7239).
//!
//! It owns whom to believe: what a trusted proxy says of the client is kept, and what anybody else
//! says of itself is removed. It never looks at a body or a route.

mod network;
#[cfg(test)]
mod tests;

use std::{fmt::Write as _, net::IpAddr};

use http::{HeaderMap, HeaderName, HeaderValue, Version, header};

pub use self::network::{Network, NetworkError};
use super::{authority::Addressed, hop::Remote};

/// `trusted_proxies` and `forwarded` of `[server]`.
#[derive(Clone, Debug, Default)]
pub struct Forwarding {
    /// Peers whose word on the client is taken.
    pub trusted: Vec<Network>,
    /// What is added.
    pub fields: ForwardedFields,
}

/// `forwarded`: the fields in which a store is told of the client.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ForwardedFields {
    /// `X-Forwarded-For`, `-Proto` and `-Host`.
    #[default]
    XForwarded,
    /// `Forwarded`.
    Forwarded,
    /// Both.
    Both,
    /// None.
    None,
}

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
// Constants, since each use of `from_static` looks at every byte again.
const HTTP: HeaderValue = HeaderValue::from_static("http");
const HTTPS: HeaderValue = HeaderValue::from_static("https");

impl Forwarding {
    /// Whether what a peer says of the client is believed.
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        peer.is_some_and(|peer| self.trusted.iter().any(|network| network.contains(peer)))
    }

    /// Adds what this hop knows to what is left of the client's fields.
    pub(super) fn add(
        &self,
        fields: &mut HeaderMap,
        peer: Option<Remote<'_>>,
        addressed: &Addressed,
    ) {
        use ForwardedFields as F;
        if matches!(self.fields, F::XForwarded | F::Both) {
            if let Some(peer) = peer {
                add_to_list(fields, FOR, peer.text.clone());
            }
            fields.entry(PROTO).or_insert(if addressed.tls { HTTPS } else { HTTP });
            fields.entry(HOST).or_insert_with(|| addressed.field.clone());
        }
        if matches!(self.fields, F::Forwarded | F::Both)
            && let Ok(element) = HeaderValue::try_from(element(peer.map(|peer| peer.ip), addressed))
        {
            add_to_list(fields, header::FORWARDED, element);
        }
    }
}

/// Whether a field tells of the client: not to be believed of anybody. `_` counts as `-`, since
/// gateways behind us may take one for the other.
pub(super) fn tells_of_client(name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    let is = |known: &[u8]| {
        name.len() >= known.len()
            && name
                .iter()
                .zip(known)
                .all(|(have, want)| have == want || (*have, *want) == (b'_', b'-'))
    };
    match name.first() {
        Some(b'f') => name == b"forwarded",
        Some(b'x') => is(b"x-forwarded-") || (is(b"x-real-ip") && name.len() == b"x-real-ip".len()),
        _ => false,
    }
}

/// `Via` (RFC 9110 section 7.6.3) for a message that came by this version.
pub(super) fn add_via(fields: &mut HeaderMap, version: Version) {
    const TWO: HeaderValue = HeaderValue::from_static("2 palisade");
    const ONE_ZERO: HeaderValue = HeaderValue::from_static("1.0 palisade");
    const ONE_ONE: HeaderValue = HeaderValue::from_static("1.1 palisade");
    let via = match version {
        Version::HTTP_2 => TWO,
        Version::HTTP_10 => ONE_ZERO,
        _ => ONE_ONE,
    };
    add_to_list(fields, header::VIA, via);
}

/// Puts an element at the end of a list field: in one line, since some readers see only one.
fn add_to_list(fields: &mut HeaderMap, name: HeaderName, element: HeaderValue) {
    if !fields.append(&name, element) {
        return;
    }
    let lines: Vec<&[u8]> = fields.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(list) = HeaderValue::try_from(lines.join(&b", "[..])) {
        fields.insert(name, list);
    }
}

/// One element of `Forwarded`.
fn element(peer: Option<IpAddr>, addressed: &Addressed) -> String {
    let mut text = String::with_capacity(96);
    let _ = match peer {
        Some(peer @ IpAddr::V4(_)) => write!(text, "for={peer}"),
        Some(peer @ IpAddr::V6(_)) => write!(text, "for=\"[{peer}]\""),
        None => write!(text, "for=unknown"),
    };
    let host = addressed.field.to_str().unwrap_or_default();
    // A validated host needs quotes only for its colons and brackets, and no escapes.
    let quote = if host.contains([':', '[']) { "\"" } else { "" };
    let proto = if addressed.tls { "https" } else { "http" };
    let _ = write!(text, ";proto={proto};host={quote}{host}{quote}");
    text
}
