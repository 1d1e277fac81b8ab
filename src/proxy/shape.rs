//! What a path pattern matches, without the names: the part that decides overlaps (R11).
//!
//! It owns the segment-by-segment rules: matching, overlap, meet and order. It never looks at a
//! request; it is given the decoded path. `Pattern` adds names to it, `KeyForm` adds keys.

use std::{cmp::Ordering, fmt};

/// Segments in a row, each a literal or one free segment, and whether more must follow.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Shape {
    /// `None` stands for any one segment that is not empty.
    pub(super) segments: Vec<Option<String>>,
    /// One or more further segments follow; the last of them may be empty.
    pub(super) rest: bool,
}

impl Shape {
    /// Reads what [`Shape`]'s `Display` wrote: `/literal/{}/{*}`. `None` for anything else.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut shape = Self { segments: Vec::new(), rest: false };
        for segment in text.strip_prefix('/')?.split('/') {
            match segment {
                _ if shape.rest => return None,
                "{*}" => shape.rest = true,
                "{}" => shape.segments.push(None),
                literal if literal.is_empty() || literal.contains(['{', '}']) => return None,
                literal => shape.segments.push(Some(literal.to_owned())),
            }
        }
        Some(shape)
    }

    /// Whether some path matches both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let literals_agree = self.segments.iter().zip(&other.segments).all(|pair| match pair {
            (Some(one), Some(two)) => one == two,
            _ => true,
        });
        literals_agree
            && match self.segments.len().cmp(&other.segments.len()) {
                Ordering::Less => self.rest,
                Ordering::Equal => self.rest == other.rest,
                Ordering::Greater => other.rest,
            }
    }

    /// The shape of the paths that match both. Meaningful where they overlap.
    pub(super) fn meet(&self, other: &Self) -> Self {
        let length = self.segments.len().max(other.segments.len());
        let literal = |shape: &Self, at: usize| shape.segments.get(at).cloned().flatten();
        Self {
            segments: (0..length)
                .map(|at| literal(self, at).or_else(|| literal(other, at)))
                .collect(),
            rest: self.rest && other.rest,
        }
    }

    /// The more specific one first: from left to right a literal before one segment before the rest.
    pub(super) fn by_specificity(&self, other: &Self) -> Ordering {
        self.ranks().cmp(other.ranks())
    }

    /// The same with its literals in lower case.
    pub(super) fn folded(&self) -> Self {
        let fold = |segment: &Option<String>| segment.as_ref().map(|s| s.to_ascii_lowercase());
        Self { segments: self.segments.iter().map(fold).collect(), rest: self.rest }
    }

    fn ranks(&self) -> impl Iterator<Item = (u8, &str)> {
        let segments = self.segments.iter().map(|segment| match segment {
            Some(literal) => (0, literal.as_str()),
            None => (1, ""),
        });
        segments.chain(self.rest.then_some((2, "")))
    }
}

/// `/literal/{}/{*}`: alike for patterns that differ in their names only.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            write!(f, "/{}", segment.as_deref().unwrap_or("{}"))?;
        }
        f.write_str(if self.rest { "/{*}" } else { "" })
    }
}
