//! A store's bytes, read in pieces.

use std::fmt;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, Version};
use hyper::ext::ReasonPhrase;

use crate::upstream::http::response::{Malformed, Taken, take_head};

/// Larger inputs are cut near their ends, and at some places between.
const SMALL: usize = 1024;

/// What a connection's bytes mean, the connection having ended after them.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Reading {
    /// The head was not whole.
    Part,
    Refused(Malformed),
    Answer(Box<Answer>),
}

#[derive(Debug, Eq, PartialEq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) version: Version,
    pub(super) fields: HeaderMap,
    /// Where it is not the usual one.
    pub(super) reason: Option<Bytes>,
    /// As the head says it.
    pub(super) left: Option<u64>,
    pub(super) told: bool,
    pub(super) keeps: bool,
    pub(super) body: Vec<u8>,
    pub(super) end: End,
    /// What came after an end that was told.
    pub(super) rest: Vec<u8>,
}

#[derive(Debug, Eq, PartialEq)]
pub(super) enum End {
    /// It ended where it said that it would.
    Told,
    /// It ended with the connection, as it might.
    Closed,
    /// The connection ended first.
    Short,
    Broken(Malformed),
}

impl Reading {
    /// Of bytes that come in these parts.
    pub(super) fn of(parts: &[&[u8]], to_head: bool) -> Self {
        let mut parts = parts.iter();
        let mut held = BytesMut::new();
        let mut forerunners = 0;
        let head = loop {
            match take_head(&mut held, to_head, &mut HeaderMap::new(), &mut forerunners) {
                Ok(Some(head)) => break head,
                Ok(None) => {}
                Err(malformed) => return Self::Refused(malformed),
            }
            let Some(part) = parts.next() else { return Self::Part };
            held.extend_from_slice(part);
        };
        let (mut at, mut body) = (head.body, Vec::new());
        let (left, told) = (at.left(), at.is_told());
        let end = loop {
            match at.take(&mut held) {
                Ok(Taken::Data(data)) => {
                    assert!(!data.is_empty(), "data is some");
                    body.extend_from_slice(&data);
                }
                Ok(Taken::End) => break End::Told,
                Err(malformed) => break End::Broken(malformed),
                Ok(Taken::More) => match parts.next() {
                    Some(part) => held.extend_from_slice(part),
                    None => break if at.close() { End::Closed } else { End::Short },
                },
            }
        };
        assert_eq!(at.is_reached(), matches!(end, End::Told | End::Closed));
        assert_eq!(at.left() == Some(0), at.is_reached());
        let mut rest = Vec::new();
        if end == End::Told {
            rest.extend_from_slice(&held);
            parts.for_each(|part| rest.extend_from_slice(part));
        }
        let reason = head.response.extensions().get::<ReasonPhrase>();
        Self::Answer(Box::new(Answer {
            status: head.response.status(),
            version: head.response.version(),
            reason: reason.map(|reason| Bytes::copy_from_slice(reason.as_bytes())),
            fields: head.response.headers().clone(),
            left,
            told,
            keeps: head.keeps,
            body,
            end,
            rest,
        }))
    }

    /// The same, however the bytes are cut.
    pub(super) fn of_all_cuts(bytes: &[u8], to_head: bool) -> Self {
        let whole = Self::of(&[bytes], to_head);
        let same = |parts: &[&[u8]], how: &str| {
            let cut = Self::of(parts, to_head);
            assert!(cut == whole, "{how}: {cut}, not {whole}: {}", shown(bytes));
        };
        let near = |at: &usize| {
            bytes.len() <= SMALL || *at < 64 || bytes.len() - at < 64 || at.is_multiple_of(509)
        };
        for at in (0..=bytes.len()).filter(near) {
            same(&[&bytes[..at], &bytes[at..]], &format!("cut at {at}"));
        }
        if bytes.len() <= SMALL {
            let each: Vec<&[u8]> = bytes.chunks(1).collect();
            same(&each, "byte by byte");
        }
        whole
    }
}

/// Short enough for a table: a status, the body, its end, and what goes for the connection.
impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = match self {
            Self::Part => return f.write_str("part of a head"),
            Self::Refused(malformed) => return write!(f, "{malformed:?}"),
            Self::Answer(answer) => answer,
        };
        write!(f, "{} `{}` ", answer.status.as_u16(), shown(&answer.body))?;
        match &answer.end {
            End::Told => f.write_str("whole")?,
            End::Closed => f.write_str("closed")?,
            End::Short => f.write_str("short")?,
            End::Broken(malformed) => write!(f, "{malformed:?}")?,
        }
        if answer.keeps {
            f.write_str(", keeps")?;
        }
        if !answer.rest.is_empty() {
            write!(f, ", then `{}`", shown(&answer.rest))?;
        }
        Ok(())
    }
}

pub(super) fn shown(bytes: &[u8]) -> String {
    if bytes.len() > SMALL {
        return format!("{}... of {}", shown(&bytes[..SMALL]), bytes.len());
    }
    bytes.escape_ascii().to_string()
}
