//! What a name in the directory stands for, and the validators of a file's present version.

use std::{
    fs::{File, Metadata},
    os::unix::fs::MetadataExt,
    time::{Duration, UNIX_EPOCH},
};

use http::HeaderValue;
use rustix::io::Result;

use super::{stamp::Stamp, tree::errno};

/// The first second that an HTTP date cannot say (the year 10000).
const END_OF_DATES: u64 = 253_402_300_800;

/// What an open descriptor refers to.
#[derive(Debug)]
pub(super) enum Kind {
    File(Entity),
    Directory,
    /// A symlink, FIFO, device or socket: never served, never replaced.
    Other,
}

/// One version of a regular file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    pub(super) stamp: Stamp,
    /// In bytes.
    pub(super) size: u64,
    pub(super) inode: u64,
}

impl Kind {
    pub(super) fn of(file: &File) -> Result<Self> {
        let metadata = file.metadata().map_err(|e| errno(&e))?;
        Ok(if metadata.is_file() {
            Self::File(Entity::of(&metadata))
        } else if metadata.is_dir() {
            Self::Directory
        } else {
            Self::Other
        })
    }
}

impl Entity {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { stamp: Stamp::of(metadata), size: metadata.len(), inode: metadata.ino() }
    }

    /// The strong entity tag, without its quotes. The stamp alone tells our own writes apart; size
    /// and inode help with files that someone put there by hand.
    pub(super) fn tag(&self) -> String {
        format!("{}-{:x}-{:x}", self.stamp.to_hex(), self.size, self.inode)
    }

    pub(super) fn etag(&self) -> HeaderValue {
        // Hexadecimal digits and hyphens in quotes are always a field value.
        HeaderValue::try_from(format!("\"{}\"", self.tag()))
            .unwrap_or(HeaderValue::from_static("\"\""))
    }

    /// `Last-Modified`, where HTTP has a way to write it.
    pub(super) fn last_modified(&self) -> Option<HeaderValue> {
        let seconds = u64::try_from(self.stamp.seconds()).ok().filter(|&s| s < END_OF_DATES)?;
        let date = UNIX_EPOCH + Duration::from_secs(seconds);
        HeaderValue::try_from(httpdate::fmt_http_date(date)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_that_http_cannot_say_are_left_out() {
        let at = |seconds| Entity { stamp: Stamp::at(seconds, 1), size: 0, inode: 0 };
        assert_eq!(at(784_111_777).last_modified().unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert!(at(253_402_300_799).last_modified().is_some());
        assert!(at(253_402_300_800).last_modified().is_none());
        assert!(at(-1).last_modified().is_none());
    }
}
