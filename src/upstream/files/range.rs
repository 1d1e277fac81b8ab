//! Single byte ranges (RFC 9110, section 14). Several at once are answered with the whole.

use std::ops::Range;

use http::{HeaderMap, header};

/// The part of a file that a GET asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Selection {
    /// All of it: no range, several, or one that cannot be read and so is passed over.
    Whole,
    /// Some bytes, never none.
    Part(Range<u64>),
    /// A range that lies beyond the end.
    Unsatisfiable,
}

/// Reads `Range` for a file of `size` bytes.
pub(super) fn select(headers: &HeaderMap, size: u64) -> Selection {
    let mut lines = headers.get_all(header::RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return Selection::Whole };
    let parsed = line.to_str().ok().and_then(|text| parse(text, size));
    parsed.unwrap_or(Selection::Whole)
}

fn parse(text: &str, size: u64) -> Option<Selection> {
    let (unit, set) = text.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = set.trim_matches([' ', '\t']).split_once('-')?;
    if first.is_empty() {
        return Some(suffix(number(last)?, size));
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    Some(if first < size {
        Selection::Part(first..last.saturating_add(1).min(size))
    } else {
        Selection::Unsatisfiable
    })
}

fn suffix(length: u64, size: u64) -> Selection {
    match (length, size) {
        (0, _) => Selection::Unsatisfiable,
        // Satisfied by no bytes at all, which a 206 cannot say.
        (_, 0) => Selection::Whole,
        _ => Selection::Part(size.saturating_sub(length)..size),
    }
}

/// Digits only; a number beyond 64 bits is as good as the largest.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        use Selection::{Part, Unsatisfiable, Whole};
        for (text, size, expected) in [
            ("bytes=0-0", 10, Part(0..1)),
            ("bytes=2-5", 10, Part(2..6)),
            ("bytes=2-", 10, Part(2..10)),
            ("bytes=2-99", 10, Part(2..10)),
            ("bytes=9-9", 10, Part(9..10)),
            ("bytes=-3", 10, Part(7..10)),
            ("bytes=-99", 10, Part(0..10)),
            ("BYTES=0-1", 10, Part(0..2)),
            ("bytes= 0-1 ", 10, Part(0..2)),
            ("bytes=0-18446744073709551615", 10, Part(0..10)),
            ("bytes=0-99999999999999999999999", 10, Part(0..10)),
            ("bytes=10-", 10, Unsatisfiable),
            ("bytes=10-20", 10, Unsatisfiable),
            ("bytes=99999999999999999999999-", 10, Unsatisfiable),
            ("bytes=-0", 10, Unsatisfiable),
            ("bytes=0-", 0, Unsatisfiable),
            ("bytes=-1", 0, Whole),
            ("bytes=5-2", 10, Whole),
            ("bytes=+1-2", 10, Whole),
            ("bytes=1-+2", 10, Whole),
            ("bytes=1 - 2", 10, Whole),
            ("bytes=-", 10, Whole),
            ("bytes=", 10, Whole),
            ("bytes", 10, Whole),
            ("bytes=0-1,3-4", 10, Whole),
            ("bytes=a-b", 10, Whole),
            ("lines=0-1", 10, Whole),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, text.parse().unwrap());
            assert_eq!(select(&headers, size), expected, "{text} of {size}");
        }
        assert_eq!(select(&HeaderMap::new(), 10), Whole);
        let mut twice = HeaderMap::new();
        twice.append(header::RANGE, "bytes=0-1".parse().unwrap());
        twice.append(header::RANGE, "bytes=0-1".parse().unwrap());
        assert_eq!(select(&twice, 10), Whole);
    }
}
