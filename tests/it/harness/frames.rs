//! HTTP/2 frame by frame: a raw client, which does nothing that was not asked for.

use std::{
    collections::HashMap,
    fmt,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use super::wait::DEADLINE;

/// Kinds of frames.
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// Resets a stream that nobody needs any more.
pub const CANCEL: u32 = 8;

/// How a stream ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// With its answer.
    Whole,
    /// By a reset with this code.
    Reset(u32),
    /// With the connection: by a GOAWAY with this code, or without a word.
    Connection(Option<u32>),
}

/// What came on a stream.
#[derive(Clone)]
pub struct Answer {
    /// 0 where there was no head.
    pub status: u16,
    pub body: Vec<u8>,
    pub end: End,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (status, length, end) = (self.status, self.body.len(), self.end);
        write!(f, "status {status}, {length} bytes, {end:?}")?;
        if length < 1000 { write!(f, ": {}", String::from_utf8_lossy(&self.body)) } else { Ok(()) }
    }
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// A connection that sends the frames it is told to. Read one answer a connection: the table of its
/// fields is not kept.
pub struct Raw {
    stream: TcpStream,
    from: BufReader<TcpStream>,
    /// Bytes that may be sent on the connection, on a new stream, and on those there are.
    window: i64,
    initial: i64,
    windows: HashMap<u32, i64>,
}

impl Raw {
    pub fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let from = BufReader::new(stream.try_clone().unwrap());
        let windows = HashMap::new();
        let mut raw = Self { stream, from, window: 65_535, initial: 65_535, windows };
        raw.stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        raw.frame(SETTINGS, 0, 0, &[]).unwrap();
        raw
    }

    /// Sends a head; `end`: nothing follows it.
    pub fn headers(&mut self, stream: u32, fields: &[(&str, &str)], end: bool) {
        self.try_headers(stream, fields, end).unwrap();
    }

    pub fn try_headers(
        &mut self,
        stream: u32,
        fields: &[(&str, &str)],
        end: bool,
    ) -> io::Result<()> {
        let mut block = Vec::new();
        for (name, value) in fields {
            block.push(0); // a literal that is not indexed
            string(&mut block, name);
            string(&mut block, value);
        }
        self.frame(HEADERS, END_HEADERS | u8::from(end), stream, &block)
    }

    /// Sends a body's bytes, whatever the windows.
    pub fn data(&mut self, stream: u32, bytes: &[u8], end: bool) {
        self.frame(DATA, u8::from(end), stream, bytes).unwrap();
    }

    pub fn reset(&mut self, stream: u32, code: u32) -> io::Result<()> {
        self.frame(RST_STREAM, 0, stream, &code.to_be_bytes())
    }

    /// Sends as much of so many bytes as the windows allow, and answers with how many are left; the
    /// last ones end the stream.
    pub fn fill(&mut self, stream: u32, mut left: usize) -> usize {
        let block = [b'z'; 16_384];
        while left > 0 {
            let window = *self.windows.entry(stream).or_insert(self.initial);
            let open = usize::try_from(window.min(self.window)).unwrap_or(0);
            let size = open.min(left).min(block.len());
            if size == 0 {
                break;
            }
            left -= size;
            self.data(stream, &block[..size], left == 0);
            let taken = i64::try_from(size).unwrap();
            self.window -= taken;
            *self.windows.get_mut(&stream).unwrap() -= taken;
        }
        left
    }

    /// Lets a stream's answer come without bounds.
    pub fn open_windows(&mut self, stream: u32) {
        let most = (i32::MAX as u32 - 65_535).to_be_bytes();
        for stream in [0, stream] {
            self.frame(WINDOW_UPDATE, 0, stream, &most).unwrap();
        }
    }

    /// Waits for a frame, and takes note of it if it opens a window; false where none comes within
    /// `limit`.
    pub fn window_moves(&mut self, limit: Duration) -> bool {
        self.stream.set_read_timeout(Some(limit)).unwrap();
        let came = self.from.fill_buf().map(|bytes| !bytes.is_empty());
        self.stream.set_read_timeout(Some(DEADLINE)).unwrap();
        match came {
            Ok(true) => self.next().unwrap().is_some(),
            Ok(false) => panic!("the connection ended"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until the other side has seen all that was sent.
    pub fn ping(&mut self) {
        self.frame(PING, 0, 0, &[7; 8]).unwrap();
        while let Some(frame) = self.next().unwrap() {
            if frame.kind == PING && frame.flags & ACK != 0 {
                return;
            }
        }
        panic!("the connection ended");
    }

    /// Reads until a stream, or the connection, has ended.
    pub fn answer(&mut self, stream: u32) -> Answer {
        let mut answer = Answer { status: 0, body: Vec::new(), end: End::Connection(None) };
        while let Ok(Some(frame)) = self.next() {
            match frame.kind {
                GOAWAY if code(&frame.payload[4..]) != 0 => {
                    answer.end = End::Connection(Some(code(&frame.payload[4..])));
                    break;
                }
                _ if frame.stream != stream => {}
                RST_STREAM => {
                    answer.end = End::Reset(code(&frame.payload));
                    break;
                }
                HEADERS if answer.status == 0 => answer.status = status(&frame.payload),
                DATA => answer.body.extend_from_slice(&frame.payload),
                _ => {}
            }
            if matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0 {
                answer.end = End::Whole;
                break;
            }
        }
        answer
    }

    /// Sends any frame; an error where the connection has ended.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame)
    }

    fn next(&mut self) -> io::Result<Option<Frame>> {
        if self.from.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut head = [0; 9];
        self.from.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.from.read_exact(&mut payload)?;
        let stream = code(&head[5..]) & 0x7fff_ffff;
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        self.note(&frame)?;
        Ok(Some(frame))
    }

    fn note(&mut self, frame: &Frame) -> io::Result<()> {
        let ack = frame.flags & ACK != 0;
        match frame.kind {
            SETTINGS if !ack => {
                let initial = frame.payload.chunks(6).find(|entry| entry[..2] == [0, 4]);
                self.initial = initial.map_or(self.initial, |entry| code(&entry[2..]).into());
                self.frame(SETTINGS, ACK, 0, &[])
            }
            PING if !ack => self.frame(PING, ACK, 0, &frame.payload),
            WINDOW_UPDATE => {
                let more = i64::from(code(&frame.payload));
                match frame.stream {
                    0 => self.window += more,
                    stream => *self.windows.entry(stream).or_insert(self.initial) += more,
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn code(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}

/// A string as HPACK writes it, without its Huffman code.
fn string(block: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 127 {
        block.push(length as u8);
    } else {
        block.push(127);
        length -= 127;
        while length >= 128 {
            block.push((length % 128) as u8 | 128);
            length /= 128;
        }
        block.push(length as u8);
    }
    block.extend_from_slice(text.as_bytes());
}

/// The status, which comes first in a block: an entry of the static table, or digits.
fn status(block: &[u8]) -> u16 {
    let block = &block[block.iter().take_while(|byte| **byte & 0xe0 == 0x20).count()..];
    if let 0x88..=0x8e = block[0] {
        return [200, 204, 206, 304, 400, 404, 500][usize::from(block[0] - 0x88)];
    }
    assert!([0x48, 0x08, 0x18].contains(&block[0]), "no status: {block:?}");
    let length = usize::from(block[1] & 0x7f);
    let digits = &block[2..2 + length];
    if block[1] & 0x80 == 0 {
        return std::str::from_utf8(digits).unwrap().parse().unwrap();
    }
    // Huffman: 0, 1 and 2 have five bits, the other digits six.
    let bits: Vec<u8> =
        digits.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let number = |bits: &[u8]| bits.iter().fold(0, |n, bit| n * 2 + u16::from(*bit));
    let (mut at, mut status) = (0, 0);
    while status < 100 {
        let short = number(&bits[at..at + 5]);
        let digit = if short < 3 { short } else { number(&bits[at..at + 6]) - 22 };
        at += if short < 3 { 5 } else { 6 };
        status = status * 10 + digit;
    }
    status
}
