//! A request's path, checked once more: what has this type stays below the root.

use http::StatusCode;

use super::answer::Refusal;

/// The store's own directory under the root, which no request can name.
pub(super) const HIDDEN: &str = ".palisade";

/// Longest path in bytes that the kernel takes in one piece (`PATH_MAX` without its NUL).
const PATH_MAX: usize = 4095;

/// Segments joined by `/`; none is empty, `.` or `..`, or holds a NUL. Empty: the root itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RelPath(Vec<u8>);

impl RelPath {
    /// Takes a decoded path.
    pub(super) fn parse(path: &[u8]) -> Result<Self, Refusal> {
        if path.len() > PATH_MAX {
            return Err(Refusal::new(StatusCode::URI_TOO_LONG, "the path is too long"));
        }
        let sound = |segment: &[u8]| !matches!(segment, b"" | b"." | b"..");
        if path.contains(&0) || !path.is_empty() && !path.split(|&b| b == b'/').all(sound) {
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                "the path has an empty or dot segment, or a NUL",
            ));
        }
        Ok(Self(path.to_vec()))
    }

    /// The whole path.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The directory that holds it; empty for the root.
    pub(super) fn parent(&self) -> &[u8] {
        self.split().0
    }

    /// Its last segment.
    pub(super) fn name(&self) -> &[u8] {
        self.split().1
    }

    /// Whether it names the root.
    pub(super) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it names the store's own directory, or something in it.
    pub(super) fn is_hidden(&self) -> bool {
        let first = self.0.split(|&b| b == b'/').next().unwrap_or_default();
        first.eq_ignore_ascii_case(HIDDEN.as_bytes())
    }

    fn split(&self) -> (&[u8], &[u8]) {
        match self.0.iter().rposition(|&b| b == b'/') {
            Some(at) => (&self.0[..at], &self.0[at + 1..]),
            None => (&[], &self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsound_paths_are_refused() {
        for path in ["..", "a/../b", ".", "a/.", "a//b", "/a", "a/", "/", "a\0b"] {
            let refusal = RelPath::parse(path.as_bytes()).unwrap_err();
            assert_eq!(refusal.status(), StatusCode::BAD_REQUEST, "{path:?}");
        }
        let long = vec![b'a'; PATH_MAX + 1];
        assert_eq!(RelPath::parse(&long).unwrap_err().status(), StatusCode::URI_TOO_LONG);
    }

    #[test]
    fn sound_paths_are_split() {
        for (path, parent, name) in [
            ("a", "", "a"),
            ("a/b", "a", "b"),
            ("a/b/c", "a/b", "c"),
            ("...", "", "..."),
            (".a/..b", ".a", "..b"),
        ] {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            assert_eq!((path.parent(), path.name()), (parent.as_bytes(), name.as_bytes()));
            assert!(!path.is_hidden() && !path.is_root());
        }
        assert!(RelPath::parse(b"").unwrap().is_root());
        for hidden in [".palisade", ".palisade/lock", ".PaliSade/x"] {
            assert!(RelPath::parse(hidden.as_bytes()).unwrap().is_hidden());
        }
        assert!(!RelPath::parse(b"a/.palisade").unwrap().is_hidden());
    }
}
