//! A response as its bytes say it: the head, and where the body ends (RFC 9112, sections 4 to 7).
//!
//! Pure: bytes come in, meaning goes out. What can be read in two ways is no response: the fate of a
//! write hangs on where its answer ends.

use std::mem::MaybeUninit;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING},
};
use httparse::{ParserConfig, Status};
use hyper::ext::ReasonPhrase;

/// Most bytes of a head, its informational forerunners not counted.
const MOST_HEAD: usize = 64 * 1024;

/// Most fields of a head.
const MOST_FIELDS: usize = 100;

/// Most informational heads before a final one: what reads them must come to something else, too.
const MOST_FORERUNNERS: usize = 64;

/// Room in a head for what a proxy adds to it: to make a map larger later is to build it anew.
const ROOM: usize = 6;

/// Most bytes of a body's chunk extensions, and of its trailer, each.
const MOST_ASIDE: usize = 16 * 1024;

/// Bytes that are no response.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("its answer is no HTTP: {0}")]
    Head(httparse::Error),
    #[error("its answer is no HTTP: a status, a field's name or its value is not valid")]
    Field,
    #[error("it sends one informational answer after another")]
    Endless,
    #[error("the head of its answer is larger than {MOST_HEAD} bytes")]
    TooLarge,
    #[error("the Content-Length of its answer is not one number")]
    Length,
    #[error("the Transfer-Encoding of its answer is not `chunked`, or in HTTP/1.0")]
    Coding,
    #[error("the chunks of its answer are broken")]
    Chunk,
}

/// The head of a response, and what it says of the connection.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) response: Response<()>,
    pub(super) body: BodyEnd,
    /// The connection may be used again once the body has ended.
    pub(super) keeps: bool,
}

/// Takes a final response's head, or a 101, off the front of `held`, and informational ones before
/// it, which are counted; `None` while it is not whole. A response `to_head` has no body. Its fields
/// go into `spare`, an empty map.
pub(super) fn take_head(
    held: &mut BytesMut,
    to_head: bool,
    spare: &mut HeaderMap,
    forerunners: &mut usize,
) -> Result<Option<Head>, Malformed> {
    while let Some((length, response)) = parse(held, spare)? {
        held.advance(length);
        let status = response.status();
        if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
            if held.is_empty() {
                // Between requests a connection holds no memory for them.
                *held = BytesMut::new();
            }
            return judge(response, to_head).map(Some);
        }
        *forerunners += 1;
        if *forerunners > MOST_FORERUNNERS {
            return Err(Malformed::Endless);
        }
    }
    if held.len() > MOST_HEAD { Err(Malformed::TooLarge) } else { Ok(None) }
}

fn parse(
    held: &BytesMut,
    spare: &mut HeaderMap,
) -> Result<Option<(usize, Response<()>)>, Malformed> {
    if held.is_empty() {
        return Ok(None);
    }
    let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut parsed = httparse::Response::new(&mut []);
    let status = ParserConfig::default()
        .parse_response_with_uninit_headers(&mut parsed, held, &mut fields)
        .map_err(Malformed::Head)?;
    let Status::Complete(length) = status else { return Ok(None) };
    if length > MOST_HEAD {
        return Err(Malformed::TooLarge);
    }
    // One copy, of which the values are slices; the body need not be kept for their sake.
    let head = Bytes::copy_from_slice(&held[..length]);
    let mut response = Response::new(());
    *response.status_mut() =
        parsed.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(Malformed::Field)?;
    *response.version_mut() =
        if parsed.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    if let Some(reason) = parsed.reason.filter(|said| Some(*said) != usual_reason(&response)) {
        let reason = ReasonPhrase::try_from(reason.as_bytes()).map_err(|_| Malformed::Field)?;
        response.extensions_mut().insert(reason);
    }
    let headers = response.headers_mut();
    *headers = std::mem::take(spare);
    headers.reserve(parsed.headers.len() + ROOM);
    for field in &*parsed.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Malformed::Field)?;
        let from = offset(held, field.value);
        let value = head.slice(from..from + field.value.len());
        let value = HeaderValue::from_maybe_shared(value).map_err(|_| Malformed::Field)?;
        headers.append(name, value);
    }
    Ok(Some((length, response)))
}

fn usual_reason(response: &Response<()>) -> Option<&'static str> {
    response.status().canonical_reason()
}

/// Where `part` lies within `whole`.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// RFC 9112 section 6.3. We ask for no coding, so there is none but `chunked`.
fn judge(mut response: Response<()>, to_head: bool) -> Result<Head, Malformed> {
    let status = response.status();
    let coded = response.headers().contains_key(TRANSFER_ENCODING);
    let length = if coded { None } else { one_length(response.headers_mut())? };
    let headers = response.headers();
    let bare = to_head
        || status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED;
    let body = if bare {
        BodyEnd::After(0)
    } else if !coded {
        length.map_or(BodyEnd::Close, BodyEnd::After)
    } else if response.version() == Version::HTTP_11 && is_chunked(headers) {
        BodyEnd::Chunks { at: Chunk::Size, aside: 0 }
    } else {
        return Err(Malformed::Coding);
    };
    // Two lengths, of which a reader may have believed the other: nothing more over this connection.
    let twofold = coded && headers.contains_key(CONTENT_LENGTH);
    let keeps = keeps(response.version(), headers)
        && !twofold
        && body != BodyEnd::Close
        && !status.is_informational();
    Ok(Head { response, body, keeps })
}

fn is_chunked(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let first = codings.next();
    codings.next().is_none()
        && first.is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
}

/// The same number as often as it likes; it goes on once (RFC 9110 section 8.6).
fn one_length(headers: &mut HeaderMap) -> Result<Option<u64>, Malformed> {
    let (mut said, mut words) = (None, 0);
    let lines = headers.get_all(CONTENT_LENGTH).iter();
    for word in lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')) {
        let word = word.trim_ascii();
        let digits = word.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(word).ok().filter(|_| digits);
        let number: u64 = number.and_then(|text| text.parse().ok()).ok_or(Malformed::Length)?;
        if said.is_some_and(|said| said != number) {
            return Err(Malformed::Length);
        }
        said = Some(number);
        words += 1;
    }
    if let Some(said) = said
        && words > 1
    {
        headers.insert(CONTENT_LENGTH, said.into());
    }
    Ok(said)
}

/// RFC 9112 section 9.3: one word of a close, wherever it stands, is a close.
fn keeps(version: Version, headers: &HeaderMap) -> bool {
    let mut asked = false;
    let lines = headers.get_all(CONNECTION).iter();
    for word in lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')) {
        let word = word.trim_ascii();
        if word.eq_ignore_ascii_case(b"close") {
            return false;
        }
        asked |= word.eq_ignore_ascii_case(b"keep-alive");
    }
    asked || version == Version::HTTP_11
}

/// Where a body ends, as far as it has not been taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BodyEnd {
    /// After so many more bytes.
    After(u64),
    /// With the last chunk and its trailer. `aside` counts bytes that are no data.
    Chunks { at: Chunk, aside: usize },
    /// Where the connection ends.
    Close,
    /// It has ended there.
    Closed,
}

/// How far a chunked body is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Chunk {
    Size,
    Data(u64),
    DataEnd,
    Trailer,
    End,
}

/// What could be taken of a body.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Taken {
    Data(Bytes),
    /// There is more to come.
    More,
    /// There is nothing more.
    End,
}

impl BodyEnd {
    /// Whether the body has ended.
    pub(super) fn is_reached(&self) -> bool {
        matches!(self, Self::After(0) | Self::Chunks { at: Chunk::End, .. } | Self::Closed)
    }

    /// Whether the response itself tells it.
    pub(super) fn is_told(&self) -> bool {
        !matches!(self, Self::Close | Self::Closed)
    }

    /// How many bytes are to come, where the head has said it.
    pub(super) fn left(&self) -> Option<u64> {
        match self {
            Self::After(left) => Some(*left),
            Self::Chunks { at: Chunk::End, .. } | Self::Closed => Some(0),
            Self::Chunks { .. } | Self::Close => None,
        }
    }

    /// The connection has ended; whether that is an end of the body.
    pub(super) fn close(&mut self) -> bool {
        if *self == Self::Close {
            *self = Self::Closed;
        }
        self.is_reached()
    }

    /// Takes what there is of the body off the front of `held`.
    pub(super) fn take(&mut self, held: &mut BytesMut) -> Result<Taken, Malformed> {
        match self {
            Self::After(0) | Self::Closed => Ok(Taken::End),
            _ if held.is_empty() => Ok(Taken::More),
            Self::After(left) => Ok(Taken::Data(take_some(held, left))),
            Self::Close => Ok(Taken::Data(std::mem::take(held).freeze())),
            Self::Chunks { at, aside } => take_chunk(at, aside, held),
        }
    }
}

fn take_some(held: &mut BytesMut, left: &mut u64) -> Bytes {
    let fits = usize::try_from(*left).unwrap_or(usize::MAX).min(held.len());
    *left -= fits as u64;
    if fits == held.len() {
        return std::mem::take(held).freeze();
    }
    held.split_to(fits).freeze()
}

fn take_chunk(at: &mut Chunk, aside: &mut usize, held: &mut BytesMut) -> Result<Taken, Malformed> {
    loop {
        let next = match at {
            Chunk::End => return Ok(Taken::End),
            _ if held.is_empty() => return Ok(Taken::More),
            Chunk::Size => take_size(held, aside)?,
            Chunk::Data(left) => {
                let data = take_some(held, left);
                if *left == 0 {
                    *at = Chunk::DataEnd;
                }
                return Ok(Taken::Data(data));
            }
            Chunk::DataEnd => match take_line(held)? {
                Some(line) if line.is_empty() => Some(Chunk::Size),
                // One byte is missing at most.
                None if held[..] == *b"\r" => None,
                Some(_) | None => return Err(Malformed::Chunk),
            },
            Chunk::Trailer => take_trailer(held, aside)?,
        };
        let Some(next) = next else { return Ok(Taken::More) };
        *at = next;
    }
}

/// RFC 9112 section 7.1. `None` while the line is not whole.
fn take_size(held: &mut BytesMut, aside: &mut usize) -> Result<Option<Chunk>, Malformed> {
    let size = httparse::parse_chunk_size(held).map_err(|_| Malformed::Chunk)?;
    let digits = held.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let Some(line) = take_line(held)? else {
        return spend(aside, 0, unended(held) - digits).map(|()| None);
    };
    spend(aside, line.len() - digits, 0)?;
    match size {
        // The parser takes any byte within an extension, and no digit for nought.
        Status::Complete((length, size)) if length == line.len() + 2 && digits > 0 => {
            Ok(Some(if size == 0 { Chunk::Trailer } else { Chunk::Data(size) }))
        }
        Status::Complete(_) | Status::Partial => Err(Malformed::Chunk),
    }
}

/// RFC 9112 section 7.1.2: the fields are looked at, and dropped.
fn take_trailer(held: &mut BytesMut, aside: &mut usize) -> Result<Option<Chunk>, Malformed> {
    let Some(line) = take_line(held)? else {
        return spend(aside, 0, unended(held)).map(|()| None);
    };
    if line.is_empty() {
        return Ok(Some(Chunk::End));
    }
    spend(aside, line.len(), 0)?;
    let mut parts = line.splitn(2, |byte| *byte == b':');
    let name = parts.next().and_then(|name| HeaderName::from_bytes(name).ok());
    let value = parts.next().and_then(|value| HeaderValue::from_bytes(value).ok());
    name.zip(value).map(|_| Some(Chunk::Trailer)).ok_or(Malformed::Chunk)
}

/// Counts bytes that are no data; `waiting` ones are looked at again.
fn spend(aside: &mut usize, taken: usize, waiting: usize) -> Result<(), Malformed> {
    *aside += taken;
    if *aside + waiting > MOST_ASIDE { Err(Malformed::Chunk) } else { Ok(()) }
}

/// How long the line is so far, which may be about to end.
fn unended(held: &[u8]) -> usize {
    held.len() - usize::from(held.ends_with(b"\r"))
}

/// A line and its CRLF, of which the line is given; no other end of a line is one.
fn take_line(held: &mut BytesMut) -> Result<Option<BytesMut>, Malformed> {
    let Some(end) = held.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let mut line = held.split_to(end + 1);
    if !line.ends_with(b"\r\n") {
        return Err(Malformed::Chunk);
    }
    line.truncate(end - 1);
    Ok(Some(line))
}
