//! Files that are not published yet, in the store's own directory.

use std::{
    fs::File,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, unlinkat},
    io::{Errno, Result},
};

use super::{Inner, entity::Entity, hooks::Step, stamp::Stamp, tree::errno};

const PREFIX: &str = "tmp-";

/// Bytes written between syncs, so that the last one, which nothing can cut short, is short.
const UNSYNCED_MAX: u64 = 64 * 1024 * 1024;

/// Where files lie until they are whole.
#[derive(Debug)]
pub(super) struct Staging {
    directory: File,
    /// The directory is ours alone and was cleared at the start, so counting makes names unique.
    serial: AtomicU64,
}

/// A file in the making. Dropping it removes it, unless it was published: drop it where blocking
/// is allowed.
#[derive(Debug)]
pub(super) struct Staged {
    inner: Arc<Inner>,
    name: String,
    file: File,
    unsynced: u64,
    stamp: Option<Stamp>,
    published: bool,
}

impl Staging {
    /// Clears away what an earlier process left unfinished.
    pub(super) fn open(directory: File) -> Result<Self> {
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            if entry.file_name().to_bytes().starts_with(PREFIX.as_bytes()) {
                unlinkat(&directory, entry.file_name(), AtFlags::empty())?;
            }
        }
        Ok(Self { directory, serial: AtomicU64::new(0) })
    }
}

impl Staged {
    /// An empty file, which nobody else can name.
    pub(super) fn create(inner: Arc<Inner>) -> Result<Self> {
        let serial = inner.staging.serial.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{serial}");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let file = openat(&inner.staging.directory, &name, flags, mode)?.into();
        Ok(Self { inner, name, file, unsynced: 0, stamp: None, published: false })
    }

    /// Adds to its end.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| errno(&e))?;
        self.unsynced += bytes.len() as u64;
        if self.unsynced >= UNSYNCED_MAX {
            self.file.sync_data().map_err(|e| errno(&e))?;
            self.unsynced = 0;
        }
        Ok(())
    }

    /// It is whole: gives it a stamp of its own, above `old` where one is given, and syncs it.
    pub(super) fn finish(&mut self, old: Option<Stamp>) -> Result<()> {
        let now = Stamp::of(&self.file.metadata().map_err(|e| errno(&e))?);
        let stamp = self.inner.stamps.above(now, old);
        stamp.set(&self.file)?;
        self.inner.hooks.reach(Step::SyncFile)?;
        self.file.sync_all().map_err(|e| errno(&e))?;
        self.stamp = Some(stamp);
        Ok(())
    }

    /// Sees to it that its stamp lies above that of the version that it replaces. It almost always
    /// does; if the clock has stepped back, or a later write overtook this one, it gets a new one.
    pub(super) fn succeed(&mut self, old: Stamp) -> Result<()> {
        if self.stamp.is_some_and(|stamp| stamp > old) { Ok(()) } else { self.finish(Some(old)) }
    }

    /// Takes its name in `directory`, in place of whatever has it. An error: nothing was applied.
    pub(super) fn publish(&mut self, directory: &File, name: &[u8]) -> Result<Entity> {
        let entity = Entity::of(&self.file.metadata().map_err(|e| errno(&e))?);
        if Some(entity.stamp) != self.stamp {
            // Its tag would not be its own.
            return Err(Errno::OVERFLOW);
        }
        renameat(&self.inner.staging.directory, &self.name, directory, name)?;
        self.published = true;
        Ok(entity)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        let directory = &self.inner.staging.directory;
        if let Err(error) = unlinkat(directory, &self.name, AtFlags::empty()) {
            let name = &self.name;
            tracing::warn!(%name, %error, "an unfinished file stays until the next start");
        }
    }
}
