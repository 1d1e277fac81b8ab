//! The request target, read once: what goes upstream as it came, and the one path that it means.
//!
//! A target that two servers could read differently is refused, not guessed: the guarantee is worth
//! no more than the mapping from a request to its key. RFC 3986 section 2, RFC 9112 section 3.2.

use std::{borrow::Cow, fmt};

use http::{Uri, uri::Authority, uri::PathAndQuery};

use super::{RenderError, bytes::ByteSet};

/// Longest path in bytes, as it came.
const MAX_PATH: usize = 8 * 1024;

/// The bytes that mean themselves wherever they stand in a path.
static PLAIN: ByteSet = ByteSet::EMPTY.with_range(b'!', b'~').without(b"%\\;");

/// A target in origin form that has one meaning.
#[derive(Clone, Debug)]
pub struct Target {
    raw: PathAndQuery,
    /// Percent-decoded once. `None`: the same as in `raw`.
    decoded: Option<Box<[u8]>>,
    authority: Option<Authority>,
}

/// Why a target has more than one meaning, or none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ambiguity {
    /// `*`, an authority, or nothing at all.
    NotOriginForm,
    /// `//`: some servers merge slashes.
    EmptySegment,
    /// `.` or `..`, raw or encoded.
    DotSegment,
    /// `%2f`: a slash to some servers, a part of a name to others.
    EncodedSlash,
    /// `\`, raw or encoded: a slash to some servers.
    Backslash,
    /// `;`, raw or encoded: some servers cut a segment there.
    Semicolon,
    /// A control character, encoded; some servers end there.
    Control,
    /// `%` without two hex digits after it.
    BadEscape,
    /// A byte above 0x7f that is not encoded.
    RawNonAscii,
    /// Encoded bytes that are not UTF-8.
    NotUtf8,
    /// What stands after one decoding could be decoded again.
    DoubleEncoding,
    /// Longer than any path that is served.
    TooLong,
    /// A write to `/a/` means `/a` to some stores.
    TrailingSlash,
    /// A query or header value that the key is made of is missing or there twice.
    KeyPart,
    /// The key is longer than a key may be.
    KeyTooLong,
    /// Under `fold_case`: letters beyond ASCII, which the store may fold in its own way.
    Unfoldable,
}

impl From<RenderError> for Ambiguity {
    fn from(error: RenderError) -> Self {
        match error {
            RenderError::Unfoldable => Self::Unfoldable,
            RenderError::Part { .. } | RenderError::Empty => Self::KeyPart,
        }
    }
}

impl Ambiguity {
    /// The reason, for the client to read.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotOriginForm => "the request target is not a path",
            Self::EmptySegment => "the path has an empty segment (`//`)",
            Self::DotSegment => "the path has a dot segment",
            Self::EncodedSlash => "the path has an encoded slash",
            Self::Backslash => "the path has a backslash",
            Self::Semicolon => "the path has a semicolon",
            Self::Control => "the target has a control character",
            Self::BadEscape => "the target has a `%` that is no escape",
            Self::RawNonAscii => "the target has a byte above 0x7f that is not percent-encoded",
            Self::NotUtf8 => "the percent-encoded bytes are not UTF-8",
            Self::DoubleEncoding => "the target is percent-encoded twice",
            Self::TooLong => "the path is too long",
            Self::TrailingSlash => "a write's path ends in a slash",
            Self::Unfoldable => {
                "the key has a character beyond ASCII, and the store folds case in its own way"
            }
            Self::KeyPart => "a part of the fence key is missing from the request or there twice",
            Self::KeyTooLong => "the fence key is longer than 1024 bytes",
        }
    }
}

impl fmt::Display for Ambiguity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl Target {
    /// Reads a target. `http::Uri` has dropped a fragment already, so it never goes upstream.
    ///
    /// # Errors
    /// [`Ambiguity`]: nothing of the request may be forwarded.
    pub fn read(uri: &Uri) -> Result<Self, Ambiguity> {
        let raw = uri.path_and_query().ok_or(Ambiguity::NotOriginForm)?;
        let path = raw.path();
        // The path of `?a=b` is empty, but is given as `/`.
        if !raw.as_str().starts_with('/') {
            return Err(Ambiguity::NotOriginForm);
        }
        if uri.scheme().is_some() != uri.authority().is_some() {
            return Err(Ambiguity::NotOriginForm);
        }
        if path.len() > MAX_PATH {
            return Err(Ambiguity::TooLong);
        }
        if raw.query().is_some_and(|query| !query.is_ascii()) {
            return Err(Ambiguity::RawNonAscii);
        }
        let decoded = match decode(path.as_bytes())? {
            Cow::Borrowed(_) => None,
            Cow::Owned(decoded) => Some(decoded.into_boxed_slice()),
        };
        let target = Self { raw: raw.clone(), decoded, authority: uri.authority().cloned() };
        target.check_segments()?;
        Ok(target)
    }

    /// What goes upstream, byte by byte as it came.
    pub fn raw(&self) -> &PathAndQuery {
        &self.raw
    }

    /// The path with its leading slash, percent-decoded once. A slash separates segments.
    pub fn path(&self) -> &[u8] {
        match &self.decoded {
            Some(decoded) => decoded,
            None => self.raw.path().as_bytes(),
        }
    }

    /// The authority of a target in absolute form.
    pub fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// Whether the path ends in a slash (`/` itself does not count).
    pub fn has_trailing_slash(&self) -> bool {
        self.path().len() > 1 && self.path().ends_with(b"/")
    }

    /// The value of a query parameter, decoded once; `None` where the query does not name it.
    ///
    /// # Errors
    /// [`Ambiguity`] where it is named twice, or name or value can be read in two ways, or another
    /// parameter passes for it with some server.
    pub fn query_value(&self, name: &str) -> Result<Option<Vec<u8>>, Ambiguity> {
        // Some servers part the query there too.
        if self.raw.query().is_some_and(|query| query.contains(';')) {
            return Err(Ambiguity::KeyPart);
        }
        let mut found = None;
        for pair in self.raw.query().unwrap_or_default().split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let key = decode_query(key)?;
            if *key != *name.as_bytes() {
                if generous(&key) == generous(name.as_bytes()) {
                    return Err(Ambiguity::KeyPart);
                }
                continue;
            }
            let value = decode_query(value)?;
            if value.iter().any(u8::is_ascii_control) {
                return Err(Ambiguity::Control);
            }
            if found.replace(value.into_owned()).is_some() {
                return Err(Ambiguity::KeyPart);
            }
        }
        Ok(found)
    }

    /// Whether the query has one of these parameters, by any spelling of its name that some server
    /// takes for it.
    pub fn asks_for(&self, names: &[&str]) -> bool {
        self.raw.query().is_some_and(|query| {
            query.split(['&', ';']).any(|pair| {
                let name = pair.split('=').next().unwrap_or_default();
                let name = match unescape(name.as_bytes()) {
                    Ok(decoded) => decoded.into_iter().map(|(byte, _)| byte).collect(),
                    Err(_) => name.as_bytes().to_vec(),
                };
                names.iter().any(|known| generous(&name) == generous(known.as_bytes()))
            })
        })
    }

    fn check_segments(&self) -> Result<(), Ambiguity> {
        let path = self.path().strip_suffix(b"/").unwrap_or(self.path());
        for segment in path.split(|byte| *byte == b'/').skip(1) {
            match segment {
                b"" => return Err(Ambiguity::EmptySegment),
                b"." | b".." => return Err(Ambiguity::DotSegment),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Decodes a path once, refusing whatever another reader could take for something else.
fn decode(raw: &[u8]) -> Result<Cow<'_, [u8]>, Ambiguity> {
    if raw.iter().all(|byte| PLAIN.has(*byte)) {
        return Ok(Cow::Borrowed(raw));
    }
    let decoded = unescape(raw)?;
    for (byte, escaped) in &decoded {
        match byte {
            b'/' if *escaped => return Err(Ambiguity::EncodedSlash),
            b'\\' => return Err(Ambiguity::Backslash),
            b';' => return Err(Ambiguity::Semicolon),
            0..0x20 | 0x7f => return Err(Ambiguity::Control),
            _ => {}
        }
    }
    check_decoded(decoded)
}

/// As for a path, but a `+`, which some read as a space, is refused, and a slash is not.
fn decode_query(raw: &str) -> Result<Cow<'_, [u8]>, Ambiguity> {
    let raw = raw.as_bytes();
    if raw.contains(&b'+') {
        return Err(Ambiguity::KeyPart);
    }
    if !raw.contains(&b'%') {
        return Ok(Cow::Borrowed(raw));
    }
    check_decoded(unescape(raw)?)
}

/// A parameter's name as the most generous servers read it: in any case, without blanks around it
/// or what a NUL or a bracket begins, a plus for a blank, and `_` for a blank or a dot within it.
fn generous(name: &[u8]) -> Vec<u8> {
    let name = name.split(|byte| matches!(byte, 0 | b'[')).next().unwrap_or_default();
    let blanks: Vec<u8> = name.iter().map(|b| if *b == b'+' { b' ' } else { *b }).collect();
    let same =
        |byte: &u8| if matches!(byte, b' ' | b'.') { b'_' } else { byte.to_ascii_lowercase() };
    blanks.trim_ascii().iter().map(same).collect()
}

fn check_decoded<'a>(decoded: Vec<(u8, bool)>) -> Result<Cow<'a, [u8]>, Ambiguity> {
    let decoded: Vec<u8> = decoded.into_iter().map(|(byte, _)| byte).collect();
    if std::str::from_utf8(&decoded).is_err() {
        return Err(Ambiguity::NotUtf8);
    }
    let twice = |three: &[u8]| three[0] == b'%' && hex(three[1]).and(hex(three[2])).is_some();
    if decoded.windows(3).any(twice) {
        return Err(Ambiguity::DoubleEncoding);
    }
    Ok(Cow::Owned(decoded))
}

/// Each byte, and whether it was escaped.
fn unescape(raw: &[u8]) -> Result<Vec<(u8, bool)>, Ambiguity> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let [byte, tail @ ..] = rest {
        rest = match (byte, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let (Some(high), Some(low)) = (hex(*high), hex(*low)) else {
                    return Err(Ambiguity::BadEscape);
                };
                decoded.push((high << 4 | low, true));
                tail
            }
            (b'%', _) => return Err(Ambiguity::BadEscape),
            (0x80.., _) => return Err(Ambiguity::RawNonAscii),
            (byte, tail) => {
                decoded.push((*byte, false));
                tail
            }
        };
    }
    Ok(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests;
