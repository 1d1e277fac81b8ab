//! The fence key: what one lock protects at one upstream.

use std::{borrow::Borrow, fmt, sync::Arc};

use smallvec::SmallVec;

/// Up to how many bytes a key is put together in without an allocation besides its own.
const USUAL: usize = 128;

/// The number by which the store knows an upstream, whatever its name is in the configuration.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct UpstreamId(pub u32);

impl UpstreamId {
    /// The upstream that a key's bytes begin with.
    pub fn of(key: &[u8]) -> Self {
        let mut number = [0; 4];
        number.copy_from_slice(&key[..4]);
        Self(u32::from_be_bytes(number))
    }
}

/// The canonical bytes of a fence key: the upstream's number (four bytes, big-endian), then the
/// key as the route's template made it. Made only by `proxy` from a checked target, and by the
/// admin listener from an operator's words.
///
/// Cheap to clone. At most [`Key::MAX`] bytes after the number.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// The longest key in bytes, the upstream's number not counted.
    pub const MAX: usize = 1024;

    /// A key of an upstream, or `None` where it is longer than [`Key::MAX`].
    pub fn new(upstream: UpstreamId, key: &[u8]) -> Option<Self> {
        let mut bytes = SmallVec::<[u8; USUAL]>::from_slice(&upstream.0.to_be_bytes());
        bytes.extend_from_slice(key);
        (key.len() <= Self::MAX).then(|| Self(Arc::from(&*bytes)))
    }

    /// A key from its stored bytes, or `None` where they cannot be one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (4..=4 + Self::MAX).contains(&bytes.len()).then(|| Self(bytes.into()))
    }

    /// The upstream it belongs to.
    pub fn upstream(&self) -> UpstreamId {
        UpstreamId::of(&self.0)
    }

    /// The key within its upstream.
    pub fn path(&self) -> &[u8] {
        &self.0[4..]
    }

    /// All its bytes, as stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// A writer's name for itself, pinned to a token by `Fencing-Holder`: 1 to 128 visible ASCII.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Holder(Arc<str>);

impl Holder {
    /// Reads a holder, or `None` where it is not 1 to 128 visible ASCII characters.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let fits = (1..=128).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
        if !fits {
            return None;
        }
        std::str::from_utf8(text).ok().map(|text| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_upstream_and_its_bytes() {
        let key = Key::new(UpstreamId(7), b"a/b").unwrap();
        assert_eq!((key.upstream(), key.path()), (UpstreamId(7), &b"a/b"[..]));
        assert_eq!(Key::from_bytes(key.as_bytes()), Some(key));
        assert!(Key::new(UpstreamId(0), &[b'x'; Key::MAX]).is_some());
        assert!(Key::new(UpstreamId(0), &[b'x'; Key::MAX + 1]).is_none());
        assert!(Key::from_bytes(b"abc").is_none());
    }

    #[test]
    fn a_holder_is_visible_ascii() {
        assert!(Holder::parse(b"worker-7").is_some());
        assert!(Holder::parse(&[b'x'; 128]).is_some());
        for bad in [&b""[..], b"a b", b"\xc3\xa9", &[b'x'; 129], b"a\t"] {
            assert!(Holder::parse(bad).is_none());
        }
    }
}
