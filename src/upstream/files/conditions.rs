//! If-Match and its kin: RFC 9110 section 13, in the order of its 13.2.2.

use std::time::UNIX_EPOCH;

use http::{HeaderMap, HeaderName, header};

use super::entity::Entity;

/// The conditions of one request.
#[derive(Debug)]
pub(super) struct Conditions {
    matches: Option<Tags>,
    none_matches: Option<Tags>,
    /// Seconds since the epoch; a date that cannot be read counts as none (RFC 9110, 13.1.3).
    modified_since: Option<i64>,
    unmodified_since: Option<i64>,
}

/// What the conditions of a read come to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    Proceed,
    NotModified,
    Fail,
}

#[derive(Debug, Eq, PartialEq)]
enum Tags {
    Any,
    List(Vec<Tag>),
    Unreadable,
}

#[derive(Debug, Eq, PartialEq)]
struct Tag {
    weak: bool,
    opaque: Vec<u8>,
}

impl Conditions {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self {
            matches: Tags::of(headers, &header::IF_MATCH),
            none_matches: Tags::of(headers, &header::IF_NONE_MATCH),
            modified_since: date(headers, &header::IF_MODIFIED_SINCE),
            unmodified_since: date(headers, &header::IF_UNMODIFIED_SINCE),
        }
    }

    /// Whether a list of tags is no list of tags; a write must not go on without its guard.
    pub(super) fn are_unreadable(&self) -> bool {
        [&self.matches, &self.none_matches].contains(&&Some(Tags::Unreadable))
    }

    /// For GET and HEAD of a file that is there.
    pub(super) fn judge_read(&self, entity: &Entity) -> Verdict {
        if !self.may_touch(Some(entity)) {
            return Verdict::Fail;
        }
        let changed = match (&self.none_matches, self.modified_since) {
            (Some(tags), _) => !tags.match_weakly(Some(entity)),
            (None, Some(date)) => entity.stamp.seconds() > date,
            (None, None) => true,
        };
        if changed { Verdict::Proceed } else { Verdict::NotModified }
    }

    /// For PUT and DELETE, of what is there at the moment.
    pub(super) fn allow_write(&self, entity: Option<&Entity>) -> bool {
        let none_match = self.none_matches.as_ref();
        self.may_touch(entity) && none_match.is_none_or(|tags| !tags.match_weakly(entity))
    }

    /// The first two steps, which all methods share.
    fn may_touch(&self, entity: Option<&Entity>) -> bool {
        match (&self.matches, self.unmodified_since, entity) {
            (Some(tags), _, _) => tags.match_strongly(entity),
            (None, Some(date), Some(entity)) => entity.stamp.seconds() <= date,
            (None, _, _) => true,
        }
    }
}

/// Whether an `If-Range` lets the range stand. A date never does: two versions can share a second.
pub(super) fn range_stands(headers: &HeaderMap, entity: &Entity) -> bool {
    let tags = Tags::of(headers, &header::IF_RANGE);
    tags.is_none_or(|tags| tags != Tags::Any && tags.match_strongly(Some(entity)))
}

impl Tags {
    /// All lines of a field as one list (RFC 9110, 5.3).
    fn of(headers: &HeaderMap, name: &HeaderName) -> Option<Self> {
        let mut lines = headers.get_all(name).iter().peekable();
        lines.peek()?;
        let mut joined = Vec::new();
        for line in lines {
            if !joined.is_empty() {
                joined.push(b',');
            }
            joined.extend_from_slice(line.as_bytes());
        }
        if joined.trim_ascii() == b"*" {
            return Some(Self::Any);
        }
        let list = parse_list(&joined).filter(|list| !list.is_empty());
        Some(list.map_or(Self::Unreadable, Self::List))
    }

    fn match_strongly(&self, entity: Option<&Entity>) -> bool {
        self.matches(entity, |tag, present| !tag.weak && tag.opaque == present)
    }

    fn match_weakly(&self, entity: Option<&Entity>) -> bool {
        self.matches(entity, |tag, present| tag.opaque == present)
    }

    fn matches(&self, entity: Option<&Entity>, same: impl Fn(&Tag, &[u8]) -> bool) -> bool {
        let Some(entity) = entity else { return false };
        match self {
            Self::Any => true,
            Self::List(tags) => {
                let present = entity.tag();
                tags.iter().any(|tag| same(tag, present.as_bytes()))
            }
            Self::Unreadable => false,
        }
    }
}

/// `"a", W/"b"`; empty elements are passed over (RFC 9110, 5.6.1). None where it is no such list.
fn parse_list(mut text: &[u8]) -> Option<Vec<Tag>> {
    let mut tags = Vec::new();
    loop {
        text = text.trim_ascii_start();
        if let Some(rest) = text.strip_prefix(b",") {
            text = rest;
            continue;
        }
        if text.is_empty() {
            return Some(tags);
        }
        let (tag, rest) = parse_tag(text)?;
        tags.push(tag);
        text = rest.trim_ascii_start();
        if !text.is_empty() && !text.starts_with(b",") {
            return None;
        }
    }
}

fn parse_tag(text: &[u8]) -> Option<(Tag, &[u8])> {
    let (weak, quoted) = match text.strip_prefix(b"W/") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let inner = quoted.strip_prefix(b"\"")?;
    let end = inner.iter().position(|&b| b == b'"')?;
    let opaque = &inner[..end];
    let sound = |&b: &u8| b == 0x21 || (0x23..=0x7e).contains(&b) || b >= 0x80;
    opaque.iter().all(sound).then(|| (Tag { weak, opaque: opaque.to_vec() }, &inner[end + 1..]))
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<i64> {
    let mut lines = headers.get_all(name).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let time = httpdate::parse_http_date(line.to_str().ok()?).ok()?;
    time.duration_since(UNIX_EPOCH).ok()?.as_secs().try_into().ok()
}

#[cfg(test)]
#[path = "tests/conditions.rs"]
mod tests;
