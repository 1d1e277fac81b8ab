//! Tells a damaged write-ahead log from a torn tail, before SQLite opens it: SQLite ends its
//! recovery at the first bad frame without a word, as if nothing had come after.
//!
//! Every commit is synced before the next one is written, so only the last one can be torn. Frames
//! of this log that go on past the first commit after a bad frame therefore mean damage. Up to
//! there it may be the torn tail of a commit that nobody was told of, and is taken for that: damage
//! inside the last commit, or to the head of the frame that ends the one before it, cannot be told
//! from a torn tail.
//! Only reads. The layout is SQLite's file format, section 4.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

const HEADER: usize = 32;
const FRAME_HEAD: usize = 24;
/// The unit that a disk writes whole, at the least.
const SECTOR: u64 = 512;

/// What a log holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Log {
    /// Committed frames up to here, then nothing or the tail of an unsynced commit.
    Sound { committed: u64 },
    /// Commits follow a bad frame, counted from 1; frame 0 is the log's header.
    Damaged { frame: u64 },
}

/// Reads the log at `path`; a missing one is empty.
pub(super) fn scan(path: &Path) -> io::Result<Log> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Log::Sound { committed: 0 });
        }
        Err(error) => return Err(error),
    };
    let mut file = BufReader::with_capacity(1 << 16, file);
    let mut header = [0; HEADER];
    if !fill(&mut file, &mut header)? {
        return Ok(Log::Sound { committed: 0 });
    }
    match Header::parse(&header) {
        Some(header) => frames(&mut file, &header),
        None => headless(&mut file),
    }
}

/// How long a log with so many frames is at the least.
pub(super) fn length(frames: u64, page: u64) -> u64 {
    if frames == 0 { 0 } else { HEADER as u64 + frames * (FRAME_HEAD as u64 + page) }
}

/// The log's header, checked.
struct Header {
    big_endian: bool,
    page: usize,
    salts: [u8; 8],
    sums: Sums,
}

type Sums = (u32, u32);

impl Header {
    fn parse(bytes: &[u8; HEADER]) -> Option<Self> {
        let magic = word(bytes, 0);
        let page = word(bytes, 8) as usize;
        let big_endian = magic & 1 == 1;
        let sums = sum(big_endian, &bytes[..24], (0, 0));
        let valid = magic & !1 == 0x377f_0682
            && word(bytes, 4) == 3_007_000
            && page.is_power_of_two()
            && (512..=65536).contains(&page)
            && sums == (word(bytes, 24), word(bytes, 28));
        let mut salts = [0; 8];
        salts.copy_from_slice(&bytes[16..24]);
        valid.then_some(Self { big_endian, page, salts, sums })
    }
}

/// SQLite syncs the header before it writes a frame: one that does not hold may only stand before
/// nothing.
fn headless(file: &mut impl Read) -> io::Result<Log> {
    let mut chunk = [0; 4096];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(Log::Sound { committed: 0 }),
            n if chunk[..n].iter().any(|byte| *byte != 0) => return Ok(Log::Damaged { frame: 0 }),
            _ => {}
        }
    }
}

fn frames(file: &mut impl Read, header: &Header) -> io::Result<Log> {
    let mut frame = vec![0; FRAME_HEAD + header.page];
    let mut before = header.sums;
    let mut committed = 0;
    let mut bad = None;
    let mut commit_after_bad = false;
    let mut number = 0;
    while fill(file, &mut frame)? {
        number += 1;
        let ours = frame[8..16] == header.salts;
        let holds = ours && holds(header, &frame, before);
        // A frame's sums seed the next one's, so that frames after a bad one can be told, too.
        before = (word(&frame, 16), word(&frame, 20));
        let ends_commit = ours && word(&frame, 4) != 0;
        match bad {
            None if holds => committed = if ends_commit { number } else { committed },
            None => bad = Some(number),
            Some(bad) if ours && commit_after_bad => return Ok(Log::Damaged { frame: bad }),
            Some(_) => {}
        }
        if bad.is_some() && ends_commit && (holds || head_is_whole(number, header.page)) {
            commit_after_bad = true;
        }
    }
    Ok(Log::Sound { committed })
}

fn holds(header: &Header, frame: &[u8], before: Sums) -> bool {
    let sums = sum(header.big_endian, &frame[..8], before);
    let sums = sum(header.big_endian, &frame[FRAME_HEAD..], sums);
    word(frame, 0) != 0 && sums == (word(frame, 16), word(frame, 20))
}

/// Whether a frame's commit field lies in one sector with its salts: then this log wrote both, and
/// the field is not what a torn write left of older contents.
fn head_is_whole(number: u64, page: usize) -> bool {
    let start = HEADER as u64 + (number - 1) * (FRAME_HEAD + page) as u64;
    start / SECTOR == (start + 15) / SECTOR
}

fn sum(big_endian: bool, bytes: &[u8], (mut a, mut b): Sums) -> Sums {
    let read = |quad: &[u8]| {
        let quad = [quad[0], quad[1], quad[2], quad[3]];
        if big_endian { u32::from_be_bytes(quad) } else { u32::from_le_bytes(quad) }
    };
    for pair in bytes.chunks_exact(8) {
        a = a.wrapping_add(read(&pair[..4])).wrapping_add(b);
        b = b.wrapping_add(read(&pair[4..])).wrapping_add(a);
    }
    (a, b)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// False where the file ends first: a part of a frame is no frame.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
