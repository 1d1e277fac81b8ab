//! As much HTTP/1.1 as a test needs: heads and bodies, read from a blocking stream.

use std::io::{self, BufRead, ErrorKind};

/// A request's or a response's first line and fields.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub line: String,
    pub fields: Vec<(String, String)>,
    /// As it came, with the empty line at its end.
    pub raw: Vec<u8>,
}

impl Head {
    /// Reads a head; `None` where the stream ends before its first byte.
    pub fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut raw = Vec::new();
        let Some(first) = keep_line(from, &mut raw)? else { return Ok(None) };
        let mut fields = Vec::new();
        loop {
            let line = keep_line(from, &mut raw)?.ok_or(ErrorKind::UnexpectedEof)?;
            if line.is_empty() {
                return Ok(Some(Self { line: first, fields, raw }));
            }
            let (name, value) = line.split_once(':').ok_or(ErrorKind::InvalidData)?;
            fields.push((name.to_string(), value.trim().to_string()));
        }
    }

    /// The n-th word of the first line.
    pub fn word(&self, n: usize) -> &str {
        self.line.split(' ').nth(n).unwrap_or_default()
    }

    /// The status of a response; 0 where there is none.
    pub fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or(0)
    }

    /// The only value of a field; fails the test where there are two.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let first = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "two {name} fields: {self:?}");
        first
    }

    /// How the body behind this head ends.
    pub fn framing(&self, request: bool) -> Framing {
        let coding = self.field("transfer-encoding");
        let length = self.field("content-length").map(|text| text.parse().unwrap());
        match (coding, length) {
            (Some(_), _) => Framing::Chunked,
            (None, Some(length)) => Framing::Length(length),
            (None, None) if request => Framing::Length(0),
            (None, None) => Framing::UntilClose,
        }
    }
}

/// How a body ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

impl Framing {
    /// Reads a whole body into `sink`; an error where it ends early.
    pub fn read(self, from: &mut impl BufRead, sink: &mut impl FnMut(&[u8])) -> io::Result<()> {
        match self {
            Self::Length(length) => read_exactly(from, length, sink),
            Self::Chunked => read_chunks(from, sink),
            Self::UntilClose => loop {
                let got = from.fill_buf()?;
                if got.is_empty() {
                    return Ok(());
                }
                sink(got);
                let got = got.len();
                from.consume(got);
            },
        }
    }
}

fn read_chunks(from: &mut impl BufRead, sink: &mut impl FnMut(&[u8])) -> io::Result<()> {
    loop {
        let line = read_line(from)?.ok_or(ErrorKind::UnexpectedEof)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| ErrorKind::InvalidData)?;
        if size > 0 {
            read_exactly(from, size, sink)?;
        }
        if !read_line(from)?.ok_or(ErrorKind::UnexpectedEof)?.is_empty() {
            return Err(ErrorKind::InvalidData.into());
        }
        if size == 0 {
            return Ok(());
        }
    }
}

fn read_exactly(
    from: &mut impl BufRead,
    mut length: u64,
    sink: &mut impl FnMut(&[u8]),
) -> io::Result<()> {
    while length > 0 {
        let got = from.fill_buf()?;
        if got.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let taken = length.min(got.len() as u64);
        sink(&got[..taken as usize]);
        from.consume(taken as usize);
        length -= taken;
    }
    Ok(())
}

/// A line without its end; `None` at the stream's clean end.
fn read_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    keep_line(from, &mut Vec::new())
}

/// The same, and the line as it came goes to the end of `raw`.
fn keep_line(from: &mut impl BufRead, raw: &mut Vec<u8>) -> io::Result<Option<String>> {
    let start = raw.len();
    from.read_until(b'\n', raw)?;
    let line = &raw[start..];
    if line.is_empty() {
        return Ok(None);
    }
    let line = line.strip_suffix(b"\n").ok_or(ErrorKind::UnexpectedEof)?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Ok(Some(String::from_utf8_lossy(line).into_owned()))
}
