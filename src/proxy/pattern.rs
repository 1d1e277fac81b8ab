//! A route's path pattern: `/literal/{name}/{*rest}`.
//!
//! `{name}` is one whole segment and not empty, `{*rest}` is everything after, one segment or more.
//! A trailing slash in a path is an empty last segment, which only `{*rest}` takes. It owns the
//! spelling and the matching of the decoded path; it never decodes, and it knows no methods.

use std::cmp::Ordering;

use super::shape::Shape;

#[cfg(test)]
mod tests;

/// Most `{...}` in one pattern: their places fit an array, so that matching allocates nothing.
pub const MAX_CAPTURES: usize = 8;

/// Most segments of one pattern.
pub const MAX_SEGMENTS: usize = 32;

/// A checked pattern.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern {
    text: String,
    shape: Shape,
    /// The captures' names and segments, left to right; the rest is the last one.
    captures: Vec<(String, usize)>,
}

impl Pattern {
    /// Reads a pattern as written in the configuration.
    ///
    /// # Errors
    /// [`PatternError`] says what is wrong with it, in words for the operator.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let inner = text.strip_prefix('/').ok_or(PatternError::NoSlash)?;
        let shape = Shape { segments: Vec::new(), rest: false };
        let mut pattern = Self { text: text.to_owned(), shape, captures: Vec::new() };
        for segment in inner.split('/') {
            if pattern.shape.rest {
                return Err(PatternError::AfterRest);
            }
            pattern.push(segment)?;
        }
        if pattern.captures.len() > MAX_CAPTURES || pattern.shape.segments.len() > MAX_SEGMENTS {
            return Err(PatternError::TooLong);
        }
        Ok(pattern)
    }

    /// Matches the decoded path, which starts with a slash; `None` where it does not match.
    pub fn matches(&self, path: &[u8]) -> Option<Captures> {
        let mut found = Captures::default();
        let mut next = (path.first() == Some(&b'/')).then_some(1);
        for wanted in &self.shape.segments {
            let start = next?;
            let length = path[start..].iter().position(|byte| *byte == b'/');
            let end = length.map_or(path.len(), |length| start + length);
            match wanted {
                Some(literal) if literal.as_bytes() == &path[start..end] => {}
                None if start < end => found.push(start, end),
                Some(_) | None => return None,
            }
            next = (end < path.len()).then_some(end + 1);
        }
        match (self.shape.rest, next) {
            (true, Some(start)) => found.push(start, path.len()),
            (false, None) => {}
            (true, None) | (false, Some(_)) => return None,
        }
        Some(found)
    }

    /// Whether some path matches both patterns. Exact.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.shape.overlaps(&other.shape)
    }

    /// The pattern without its names, `/literal/{}/{*}`: renaming a capture changes nothing.
    pub fn normalised(&self) -> String {
        self.shape.to_string()
    }

    /// The order in which patterns are tried: the more specific one first, from left to right a
    /// literal before `{name}` before `{*rest}`.
    pub fn by_specificity(&self, other: &Self) -> Ordering {
        self.shape.by_specificity(&other.shape)
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The place of a capture among [`Captures`], by its name.
    pub(super) fn capture(&self, name: &str) -> Option<usize> {
        self.captures.iter().position(|(known, _)| known == name)
    }

    /// The segment of the path where a capture starts.
    pub(super) fn segment_of(&self, capture: usize) -> Option<usize> {
        self.captures.get(capture).map(|(_, segment)| *segment)
    }

    /// The names of its captures, left to right.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.captures.iter().map(|(name, _)| name.as_str())
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    fn push(&mut self, segment: &str) -> Result<(), PatternError> {
        if let Some(inner) = segment.strip_prefix('{').and_then(|s| s.strip_suffix('}')) {
            return self.push_capture(inner);
        }
        literal(segment)?;
        self.shape.segments.push(Some(segment.to_owned()));
        Ok(())
    }

    fn push_capture(&mut self, inner: &str) -> Result<(), PatternError> {
        let (name, rest) = inner.strip_prefix('*').map_or((inner, false), |name| (name, true));
        if !is_name(name) {
            return Err(PatternError::Name(name.to_owned()));
        }
        if self.capture(name).is_some() {
            return Err(PatternError::Twice(name.to_owned()));
        }
        self.captures.push((name.to_owned(), self.shape.segments.len()));
        if rest {
            self.shape.rest = true;
        } else {
            self.shape.segments.push(None);
        }
        Ok(())
    }
}

/// Whether two normalised patterns ([`Pattern::normalised`], or the ones of `KeyForm`) can match
/// the same path. A text that cannot be read overlaps everything.
pub fn overlaps_text(one: &str, two: &str) -> bool {
    let fold = one.starts_with('~') || two.starts_with('~');
    let read = |text: &str| {
        let shape = Shape::read(text.strip_prefix('~').unwrap_or(text))?;
        Some(if fold { shape.folded() } else { shape })
    };
    match (read(one), read(two)) {
        (Some(one), Some(two)) => one.overlaps(&two),
        _ => true,
    }
}

/// Where a pattern's captures lie in the path that it matched; no path is longer than a u32 counts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Captures {
    places: [(u32, u32); MAX_CAPTURES],
    count: usize,
}

impl Captures {
    /// The bytes of one capture, by its place in the pattern, out of the path that was matched.
    pub fn of<'p>(&self, capture: usize, path: &'p [u8]) -> Option<&'p [u8]> {
        let (start, end) = *self.places[..self.count].get(capture)?;
        path.get(start as usize..end as usize)
    }

    fn push(&mut self, start: usize, end: usize) {
        if let Some(place) = self.places.get_mut(self.count) {
            *place = (start as u32, end as u32);
            self.count += 1;
        }
    }
}

/// Why a text is no pattern.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PatternError {
    /// It does not start with a slash.
    #[error("it must start with \"/\"")]
    NoSlash,
    /// Two slashes in a row, a trailing slash, or `/` alone.
    #[error("it has an empty segment; write \"/{{*rest}}\" for everything below")]
    EmptySegment,
    /// `.` or `..`: no checked path has one.
    #[error("\"{0}\" as a segment never matches")]
    DotSegment(String),
    /// `{*rest}` is not the last segment.
    #[error("nothing can follow {{*rest}}")]
    AfterRest,
    /// A brace beside other characters.
    #[error("\"{0}\" mixes text and braces; a {{name}} is one whole segment")]
    PartOfSegment(String),
    /// A percent sign: patterns match the decoded path.
    #[error("\"{0}\" has a percent sign; write the character it stands for")]
    Percent(String),
    /// A star outside of braces, which would look like a wildcard.
    #[error("\"{0}\" has a star; write {{name}} for one segment or {{*rest}} for the rest")]
    Star(String),
    /// A character that is not plain in a path.
    #[error("\"{0}\" has a character other than letters, digits and -._~!$&'()+,;=:@")]
    NotPlain(String),
    /// Not a name, or a reserved one.
    #[error(
        "\"{{{0}}}\" is no name; use letters, digits and _, not starting with a digit, not \"host\""
    )]
    Name(String),
    /// The same name twice.
    #[error("{{{0}}} stands twice; give each its own name")]
    Twice(String),
    /// More than [`MAX_CAPTURES`] or [`MAX_SEGMENTS`].
    #[error("it has more than 8 names or 32 segments")]
    TooLong,
}

fn literal(segment: &str) -> Result<(), PatternError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()+,;=:@".contains(c);
    let error: fn(String) -> PatternError = match segment {
        "" => return Err(PatternError::EmptySegment),
        "." | ".." => PatternError::DotSegment,
        _ if segment.contains(['{', '}']) => PatternError::PartOfSegment,
        _ if segment.contains('%') => PatternError::Percent,
        _ if segment.contains('*') => PatternError::Star,
        _ if !segment.chars().all(plain) => PatternError::NotPlain,
        _ => return Ok(()),
    };
    Err(error(segment.to_owned()))
}

/// `host` is reserved: in a template it is the request's.
fn is_name(name: &str) -> bool {
    let word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    word && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name != "host"
}
