//! A request's fields, gone through once: the lines of those that every request is asked for, and
//! whether there are any but the usual ones.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::fields::TOKEN;

/// Fields of almost every request, known to change no meaning: they need no look at their letters.
pub(super) const USUAL: [HeaderName; 8] = [
    header::HOST,
    header::CONTENT_LENGTH,
    TOKEN,
    header::CONTENT_TYPE,
    header::USER_AGENT,
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::AUTHORIZATION,
];

/// The lines of one field.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Lines<'a> {
    /// The field is not there.
    #[default]
    None,
    /// It is there once.
    One(&'a HeaderValue),
    /// It is there more than once: what is asked for one value has none.
    More,
}

/// A request's fields.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// All of them.
    pub all: &'a HeaderMap,
    /// The same; `None` where all are usual: then no other field need be looked for.
    pub unusual: Option<&'a HeaderMap>,
    /// `Host`.
    pub host: Lines<'a>,
    /// `Content-Length`.
    pub length: Lines<'a>,
    /// `Fencing-Token`.
    pub token: Lines<'a>,
}

impl<'a> Lines<'a> {
    /// Those of a field.
    pub fn of(headers: &'a HeaderMap, name: &HeaderName) -> Self {
        headers.get_all(name).iter().fold(Self::None, Self::and)
    }

    fn and(self, line: &'a HeaderValue) -> Self {
        match self {
            Self::None => Self::One(line),
            Self::One(_) | Self::More => Self::More,
        }
    }
}

impl<'a> Fields<'a> {
    /// Goes through them.
    pub fn of(all: &'a HeaderMap) -> Self {
        let none = Lines::None;
        let mut fields = Self { all, unusual: None, host: none, length: none, token: none };
        for (name, line) in all {
            if *name == header::HOST {
                fields.host = fields.host.and(line);
            } else if *name == header::CONTENT_LENGTH {
                fields.length = fields.length.and(line);
            } else if *name == TOKEN {
                fields.token = fields.token.and(line);
            } else if !USUAL.contains(name) {
                fields.unusual = Some(all);
            }
        }
        fields
    }

    /// The lines of any field.
    pub fn lines(&self, name: &HeaderName) -> Lines<'a> {
        if *name == TOKEN {
            return self.token;
        }
        let all = if USUAL.contains(name) { Some(self.all) } else { self.unusual };
        all.map_or(Lines::None, |all| Lines::of(all, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] =
        ["host", "content-length", "fencing-token", "accept", "x-fencing-token", "cookie"];

    /// However often each is there, and whatever stands beside it.
    #[test]
    fn every_field_has_the_lines_that_it_has() {
        for counts in 0..3_usize.pow(6) {
            let mut all = HeaderMap::new();
            for (at, name) in NAMES.iter().enumerate() {
                for line in 0..counts / 3_usize.pow(at as u32) % 3 {
                    all.append(*name, HeaderValue::from(line));
                }
            }
            let fields = Fields::of(&all);
            for name in NAMES {
                let name = HeaderName::from_static(name);
                let lines: Vec<&HeaderValue> = all.get_all(&name).iter().collect();
                let expected = match &*lines {
                    [] => Lines::None,
                    [line] => Lines::One(line),
                    _ => Lines::More,
                };
                assert_eq!(fields.lines(&name), expected, "{name} in {all:?}");
                assert_eq!(Lines::of(&all, &name), expected, "{name} in {all:?}");
            }
            assert_eq!(fields.host, fields.lines(&header::HOST));
            assert_eq!(fields.length, fields.lines(&header::CONTENT_LENGTH));
            let unusual = ["x-fencing-token", "cookie"].iter().any(|name| all.contains_key(*name));
            assert_eq!(fields.unusual.is_some(), unusual, "{all:?}");
        }
    }
}
