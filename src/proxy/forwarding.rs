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
static HTTP: HeaderValue = HeaderValue::from_static("http");
static HTTPS: HeaderValue = HeaderValue::from_static("https");

impl Forwarding {
    /// Whether what a peer says of the client is believed.
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        peer.is_some_and(|peer| self.trusted.iter().any(|network| network.contains(peer)))
    }

    /// What this hop adds to what is left of the client's fields.
    pub(super) fn own(
        &self,
        peer: Option<Remote<'_>>,
        addressed: &Addressed,
        put: &mut impl FnMut(&HeaderName, &HeaderValue, Place),
    ) {
        use ForwardedFields as F;
        if matches!(self.fields, F::XForwarded | F::Both) {
            if let Some(peer) = peer {
                put(&FOR, peer.text, Place::AtEnd);
            }
            put(&PROTO, if addressed.tls { &HTTPS } else { &HTTP }, Place::IfNone);
            put(&HOST, &addressed.field, Place::IfNone);
        }
        if matches!(self.fields, F::Forwarded | F::Both)
            && let Ok(element) = HeaderValue::try_from(element(peer.map(|peer| peer.ip), addressed))
        {
            put(&header::FORWARDED, &element, Place::AtEnd);
        }
    }
}

/// Where a field of ours goes, if the client sent one of its name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// To the end of its list.
    AtEnd,
    /// Nowhere: the client's stays.
    IfNone,
    /// In the place of the client's.
    Instead,
}

impl Place {
    /// Puts it among the client's.
    pub(super) fn put(self, fields: &mut HeaderMap, name: &HeaderName, value: &HeaderValue) {
        let value = value.clone();
        match self {
            Self::AtEnd => add_to_list(fields, name, value),
            Self::IfNone => {
                fields.entry(name).or_insert(value);
            }
            Self::Instead => {
                fields.insert(name, value);
            }
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

/// What `Via` says of a message that came by this version (RFC 9110 section 7.6.3).
pub(super) fn via(version: Version) -> HeaderValue {
    // Constants, since each use of `from_static` looks at every byte again.
    const TWO: HeaderValue = HeaderValue::from_static("2 palisade");
    const ONE_ZERO: HeaderValue = HeaderValue::from_static("1.0 palisade");
    const ONE_ONE: HeaderValue = HeaderValue::from_static("1.1 palisade");
    match version {
        Version::HTTP_2 => TWO,
        Version::HTTP_10 => ONE_ZERO,
        _ => ONE_ONE,
    }
}

/// Adds `Via` to an answer that came by this version.
pub(super) fn add_via(fields: &mut HeaderMap, version: Version) {
    add_to_list(fields, &header::VIA, via(version));
}

/// Puts an element at the end of a list field: in one line, since some readers see only one.
fn add_to_list(fields: &mut HeaderMap, name: &HeaderName, element: HeaderValue) {
    if !fields.append(name, element) {
        return;
    }
    let lines: Vec<&[u8]> = fields.get_all(name).iter().map(HeaderValue::as_bytes).collect();
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
