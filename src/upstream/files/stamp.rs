//! Time stamps that never repeat, which is what makes the entity tags strong.
//!
//! A file's tag is made from its modification time, size and inode. Inodes are used again and the
//! kernel's clock ticks in milliseconds, so two writes could share all three. The store therefore
//! sets the modification time itself, before the file's sync, to a stamp above every one that it
//! gave before: `last` holds within a process; a replaced file's stamp is on disk, and its
//! successor's lies above it; a deleted file's stamp is kept, synced before the unlink, as a floor
//! under those of later processes. So no path sees a stamp twice, whatever the clock does.

use std::{
    fs::{File, Metadata},
    os::unix::fs::MetadataExt,
};

use parking_lot::Mutex;
use rustix::{
    fs::{Timespec, Timestamps, UTIME_OMIT, futimens},
    io::{Errno, Result},
};

use super::tree::errno;

const SECOND: i128 = 1_000_000_000;

/// Stamps are whole microseconds, since not every file system keeps nanoseconds.
const STEP: i128 = 1_000;

/// A modification time: nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Stamp(i128);

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self(i128::from(metadata.mtime()) * SECOND + i128::from(metadata.mtime_nsec()))
    }

    #[cfg(test)]
    pub(super) fn at(seconds: i64, nanoseconds: i64) -> Self {
        Self(i128::from(seconds) * SECOND + i128::from(nanoseconds))
    }

    /// Whole seconds since the epoch, rounded down.
    pub(super) fn seconds(self) -> i64 {
        // It came from an i64 of seconds, or was rounded up from one.
        i64::try_from(self.0.div_euclid(SECOND)).unwrap_or(i64::MAX)
    }

    /// For an entity tag.
    pub(super) fn to_hex(self) -> String {
        format!("{:x}", self.0)
    }

    /// The first stamp above this one.
    fn next(self) -> Self {
        Self((self.0.div_euclid(STEP) + 1) * STEP)
    }

    /// Gives a file this stamp. `EOVERFLOW`: its file system does not keep it as it is.
    pub(super) fn set(self, file: &File) -> Result<()> {
        let tv_sec = i64::try_from(self.0.div_euclid(SECOND)).map_err(|_| Errno::OVERFLOW)?;
        let tv_nsec = self.0.rem_euclid(SECOND).try_into().map_err(|_| Errno::OVERFLOW)?;
        futimens(
            file,
            &Timestamps {
                last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
                last_modification: Timespec { tv_sec, tv_nsec },
            },
        )?;
        let kept = Self::of(&file.metadata().map_err(|e| errno(&e))?);
        if kept == self { Ok(()) } else { Err(Errno::OVERFLOW) }
    }
}

/// Gives the stamps of one store.
#[derive(Debug)]
pub(super) struct Stamps {
    last: Mutex<Stamp>,
    floor: Mutex<Floor>,
}

/// A file whose own modification time lies at or above the stamp of every deleted file.
#[derive(Debug)]
struct Floor {
    file: File,
    stamp: Stamp,
}

impl Stamps {
    /// Goes on above the floor. `EOVERFLOW`: the file system's time stamps are too coarse.
    pub(super) fn open(file: File) -> Result<Self> {
        let stamp = Stamp::of(&file.metadata().map_err(|e| errno(&e))?).next();
        let mut floor = Floor { file, stamp };
        floor.raise(stamp)?;
        Ok(Self { last: Mutex::new(stamp), floor: Mutex::new(floor) })
    }

    /// A stamp near `now`, above every one given before and above `old`.
    pub(super) fn above(&self, now: Stamp, old: Option<Stamp>) -> Stamp {
        let mut last = self.last.lock();
        *last = Ord::max(Stamp(now.0 - 1), Ord::max(*last, old.unwrap_or(*last))).next();
        *last
    }

    /// The file with this stamp is about to be deleted: no later process may give it again.
    pub(super) fn retire(&self, stamp: Stamp) -> Result<()> {
        let mut floor = self.floor.lock();
        if stamp <= floor.stamp {
            return Ok(());
        }
        // Up to the last one given, so that deleting many files costs one sync and not many.
        let raised = self.above(stamp, None);
        floor.raise(raised)
    }
}

impl Floor {
    fn raise(&mut self, stamp: Stamp) -> Result<()> {
        stamp.set(&self.file)?;
        self.file.sync_all().map_err(|e| errno(&e))?;
        self.stamp = stamp;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(file: &File) -> Stamps {
        Stamps::open(file.try_clone().unwrap()).unwrap()
    }

    #[test]
    fn stamps_only_rise() {
        let file = tempfile::tempfile().unwrap();
        let stamps = stamps(&file);
        let now = Stamp::at(4_000_000_000, 123_456_789);
        let first = stamps.above(now, None);
        assert_eq!(first, Stamp::at(4_000_000_000, 123_457_000));
        let second = stamps.above(now, None);
        assert_eq!(second, Stamp::at(4_000_000_000, 123_458_000), "the clock stands still");
        assert!(stamps.above(Stamp::at(0, 0), None) > second, "the clock steps back");
        let old = Stamp::at(4_000_000_001, 5);
        let fourth = stamps.above(now, Some(old));
        assert_eq!(fourth, Stamp::at(4_000_000_001, 1_000), "an older file is ahead");
        assert!(stamps.above(now, None) > fourth);
    }

    #[test]
    fn a_deleted_stamp_stays_below_a_later_process() {
        let file = tempfile::tempfile().unwrap();
        let deleted = {
            let stamps = stamps(&file);
            let stamp = stamps.above(Stamp::at(5_000_000_000, 0), None);
            stamps.retire(stamp).unwrap();
            stamp
        };
        // The clock has stepped back by decades in between.
        assert!(stamps(&file).above(Stamp::at(0, 0), None) > deleted);
    }

    #[test]
    fn seconds_round_down() {
        assert_eq!(Stamp::at(7, 999_999_999).seconds(), 7);
        assert_eq!(Stamp::at(-1, 1).seconds(), -1);
    }
}
