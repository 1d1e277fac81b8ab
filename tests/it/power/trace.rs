//! Reads what the preloaded library wrote down: the calls, in their order.

use std::path::{Path, PathBuf};

/// One call that succeeded, or a sync that did not.
#[derive(Debug)]
pub enum Event<'t> {
    /// A name and the inode behind it; the file may have been made or emptied by this.
    Open {
        path: PathBuf,
        inode: u64,
        empties: bool,
    },
    Write {
        inode: u64,
        at: usize,
        data: &'t [u8],
    },
    Truncate {
        inode: u64,
        length: usize,
    },
    Sync {
        inode: u64,
    },
    SyncFailed {
        inode: u64,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Unlink {
        path: PathBuf,
    },
    MakeDirectory {
        path: PathBuf,
    },
}

/// An event, and where its record ends: the moment at which it had happened.
#[derive(Debug)]
pub struct Entry<'t> {
    pub event: Event<'t>,
    pub moment: u64,
}

const MAGIC: u32 = 0x6b73_6944;
const HEAD: usize = 40;
/// `O_TRUNC`, of Linux on every machine that palisade runs on.
const EMPTIES: i64 = 0o1000;

/// Every record, to the end: the process had ended.
pub fn read(log: &[u8]) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < log.len() {
        let head = &log[at..at + HEAD];
        let half = |n: usize| u32::from_ne_bytes(head[n..n + 4].try_into().unwrap());
        let whole = |n: usize| u64::from_ne_bytes(head[n..n + 8].try_into().unwrap());
        assert_eq!(half(0), MAGIC, "a record at {at}");
        let (name, other) = (half(32) as usize, half(36) as usize);
        let data = at + HEAD + name + other;
        let end = data + whole(24) as usize;
        let names = &log[at + HEAD..data];
        let names = (text(&names[..name]), text(&names[name..]));
        let event = event(half(4), whole(8), whole(16).cast_signed(), names, &log[data..end]);
        entries.push(Entry { event, moment: end as u64 });
        at = end;
    }
    entries
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn event<'t>(what: u32, inode: u64, at: i64, names: (&str, &str), data: &'t [u8]) -> Event<'t> {
    let path = || Path::new(names.0).to_owned();
    let place = || usize::try_from(at).unwrap();
    match what {
        1 => Event::Open { path: path(), inode, empties: at & EMPTIES != 0 },
        2 => Event::Write { inode, at: place(), data },
        3 => Event::Truncate { inode, length: place() },
        4 => Event::Sync { inode },
        5 => Event::SyncFailed { inode },
        6 => Event::Rename { from: path(), to: Path::new(names.1).to_owned() },
        7 => Event::Unlink { path: path() },
        8 => Event::MakeDirectory { path: path() },
        _ => panic!("a call that cannot be played back: {names:?}"),
    }
}
