//! HTTP/1.1 as the proxy must write it: no more than one way to read any of it (RFC 9112).

use super::super::token::number;

/// What a buffer begins with.
pub enum Read {
    /// A request, and its length.
    Whole(Request, usize),
    /// The beginning of one.
    Part,
    Wrong(&'static str),
}

pub struct Request {
    pub method: Vec<u8>,
    /// Decoded once.
    pub path: Vec<u8>,
    pub id: Option<String>,
    /// Of a write; `None` where a read carries none.
    pub token: Option<u64>,
}

/// Fields that end at the proxy, or that change what a request means.
const NEVER: [&str; 17] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
    "http2-settings",
    "destination",
    "x-copy-from",
    "x-amz-copy-source",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "early-data",
];

pub fn request(buffer: &[u8]) -> Read {
    let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Read::Part;
    };
    let head = match Head::of(&buffer[..end]) {
        Ok(head) => head,
        Err(why) => return Read::Wrong(why),
    };
    let body = &buffer[end + 4..];
    let length = match head.length {
        Length::Exact(length) if length <= body.len() => length,
        Length::Exact(_) => return Read::Part,
        Length::Chunked => match chunks(body) {
            Ok(Some(length)) => length,
            Ok(None) => return Read::Part,
            Err(why) => return Read::Wrong(why),
        },
    };
    Read::Whole(head.request, end + 4 + length)
}

enum Length {
    Exact(usize),
    Chunked,
}

struct Head {
    request: Request,
    length: Length,
}

impl Head {
    fn of(head: &[u8]) -> Result<Self, &'static str> {
        let mut lines = lines(head)?.into_iter();
        let first = lines.next().ok_or("no request line")?;
        let words: Vec<&[u8]> = first.split(|byte| *byte == b' ').collect();
        let [method, target, b"HTTP/1.1"] = words[..] else { return Err("the request line") };
        if method.is_empty() || !method.iter().all(u8::is_ascii_uppercase) {
            return Err("the method");
        }
        let plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
        if !target.starts_with(b"/") || !target.iter().all(plain) {
            return Err("the target");
        }
        let fields = lines.map(field).collect::<Result<Vec<_>, _>>()?;
        let one = |name: &str| {
            let mut found = fields.iter().filter(|(known, _)| known == name);
            let first = found.next().map(|(_, value)| *value);
            found.next().map_or(Ok(first), |_| Err("a field that stands twice"))
        };
        if fields.iter().any(|(name, _)| NEVER.contains(&name.replace('_', "-").as_str())) {
            return Err("a field that must not go on");
        }
        one("host")?.ok_or("no host")?;
        let read = matches!(method, b"GET" | b"HEAD" | b"OPTIONS");
        let token = token(one("fencing-token")?, one("x-fencing-token")?);
        let sticky = target.starts_with(b"/sticky/");
        if !read && token.is_none() && !sticky {
            return Err("a write without a token");
        }
        let id = one("x-request-id")?.map(|id| String::from_utf8_lossy(id).into_owned());
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let request = Request {
            method: method.to_vec(),
            path: super::super::servers::lenient(path),
            id,
            token: token.filter(|_| !read),
        };
        Ok(Self { request, length: length(one("transfer-encoding")?, one("content-length")?)? })
    }
}

fn token(new: Option<&[u8]>, old: Option<&[u8]>) -> Option<u64> {
    let value = new.or(old)?;
    number(std::str::from_utf8(value).ok()?).filter(|_| old.is_none_or(|old| old == value))
}

fn length(coding: Option<&[u8]>, length: Option<&[u8]>) -> Result<Length, &'static str> {
    match (coding, length) {
        (Some(b"chunked"), None) => Ok(Length::Chunked),
        (Some(_), _) => Err("a coding other than chunked, or a length beside it"),
        (None, None) => Ok(Length::Exact(0)),
        (None, Some(length)) => {
            let text = std::str::from_utf8(length).map_err(|_| "the length")?;
            number(text).map(|length| Length::Exact(length as usize)).ok_or("the length")
        }
    }
}

/// Lines that end in CRLF and nothing else.
fn lines(head: &[u8]) -> Result<Vec<&[u8]>, &'static str> {
    let (mut lines, mut rest) = (Vec::new(), head);
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        lines.push(&rest[..end]);
        rest = &rest[end + 2..];
    }
    lines.push(rest);
    let bare = lines.iter().any(|line| line.contains(&b'\r') || line.contains(&b'\n'));
    if bare { Err("a bare CR or LF") } else { Ok(lines) }
}

fn field(line: &[u8]) -> Result<(String, &[u8]), &'static str> {
    let at = line.iter().position(|byte| *byte == b':').ok_or("a field without a colon")?;
    let (name, value) = (&line[..at], &line[at + 1..]);
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    if name.is_empty() || !name.iter().all(token) {
        return Err("a field's name");
    }
    if value.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f) {
        return Err("a field's value");
    }
    Ok((String::from_utf8_lossy(name).to_ascii_lowercase(), value.trim_ascii()))
}

/// The length of a chunked body, `None` where it has not ended yet: no extensions, no trailers.
fn chunks(body: &[u8]) -> Result<Option<usize>, &'static str> {
    let mut at = 0;
    loop {
        let Some(end) = body[at..].windows(2).position(|two| two == b"\r\n") else {
            return if body.len() - at > 18 { Err("a chunk's size") } else { Ok(None) };
        };
        let digits = std::str::from_utf8(&body[at..at + end]).map_err(|_| "a chunk's size")?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("a chunk's size");
        }
        let size = usize::from_str_radix(digits, 16).map_err(|_| "a chunk's size")?;
        at += end + 2;
        let Some(close) = body.get(at + size..at + size + 2) else { return Ok(None) };
        if close != b"\r\n" {
            return Err("a chunk's end");
        }
        at += size + 2;
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

/// Checks what a client of HTTP/1.1 has got: whole answers, and at the end a part of one at most.
pub fn answers(mut rest: &[u8]) -> Result<(), &'static str> {
    while !rest.is_empty() {
        let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(());
        };
        let lines = lines(&rest[..end])?;
        let line = lines[0];
        if !line.starts_with(b"HTTP/1.") || line.get(8) != Some(&b' ') {
            return Err("a status line");
        }
        let status: u16 = std::str::from_utf8(line.get(9..12).unwrap_or_default())
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or("a status")?;
        let fields = lines[1..].iter().map(|line| field(line)).collect::<Result<Vec<_>, _>>()?;
        let one = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, v)| *v);
        rest = &rest[end + 4..];
        let empty = status < 200 || matches!(status, 204 | 304);
        let length = match (one("transfer-encoding"), one("content-length")) {
            _ if empty => 0,
            // To HEAD there may be a length and no body: what follows tells.
            (None, Some(_)) if rest.starts_with(b"HTTP/1.") => 0,
            (None, Some(length)) => {
                std::str::from_utf8(length).ok().and_then(number).ok_or("a length")? as usize
            }
            (Some(_), _) => chunks(rest)?.unwrap_or(rest.len()),
            (None, None) => rest.len(),
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(())
}
