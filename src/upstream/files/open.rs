//! Taking a directory over: made, locked, probed and cleared.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{Mode, OFlags, mkdirat, openat},
    io::Errno,
};

use super::{
    Inner, dirs::DurableDirs, hooks::Hooks, locks::PathLocks, path::HIDDEN, stage::Staging,
    stamp::Stamps, tree::Tree,
};

/// Why a directory could not be taken over, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process serves it.
    #[error(
        "{directory} is in use by {holder}, which has locked {directory}/.palisade/lock; \
         stop that process, or name another directory"
    )]
    Locked {
        /// As it was given.
        directory: PathBuf,
        /// `process N`, or `another process` where it left no number.
        holder: String,
    },
    /// It is missing and cannot be made.
    #[error("{directory} cannot be made: {source}; make it, or name another directory")]
    Make {
        /// As it was given.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is something else.
    #[error("{directory} is not a directory; remove what is there, or name another directory")]
    NotADirectory {
        /// As it was given.
        directory: PathBuf,
    },
    /// Two names would be one file.
    #[error(
        "{directory} takes capital and small letters as the same, so that two fence keys could \
         name one file; use a directory that tells them apart"
    )]
    IgnoresCase {
        /// As it was given.
        directory: PathBuf,
    },
    /// Two versions could share an entity tag.
    #[error(
        "{directory} is on a file system whose time stamps are too coarse to tell two writes \
         apart; use one that keeps microseconds, such as ext4, XFS, Btrfs or ZFS"
    )]
    CoarseTime {
        /// As it was given.
        directory: PathBuf,
    },
    /// Anything else that the system refused.
    #[error("{directory}: cannot {doing}: {source}; see to its permissions and its disk")]
    Io {
        /// As it was given.
        directory: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// The directory's lock. It is given back by name, since a child that is being forked elsewhere in
/// the process may hold the descriptor a moment longer than we do.
#[derive(Debug)]
pub(super) struct DirectoryLock(File);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Failing that, it goes with the descriptor.
        let _ = self.0.unlock();
    }
}

/// Takes `directory` over.
pub(super) fn open(directory: &Path) -> Result<Inner, OpenError> {
    let failed = |doing| {
        move |source: io::Error| OpenError::Io { directory: directory.into(), doing, source }
    };
    make(directory).map_err(|source| OpenError::Make { directory: directory.into(), source })?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root: File = match rustix::fs::open(directory, flags, Mode::empty()) {
        Err(Errno::NOTDIR) => {
            return Err(OpenError::NotADirectory { directory: directory.into() });
        }
        other => other.map_err(|e| failed("open it")(e.into()))?.into(),
    };
    let metadata = root.metadata().map_err(failed("open it"))?;
    let hidden = own_directory(&root).map_err(failed("make or open .palisade in it"))?;
    let lock = lock(directory, &hidden)?;
    if ignores_case(&root, &hidden).map_err(failed("look into it"))? {
        return Err(OpenError::IgnoresCase { directory: directory.into() });
    }
    let floor = own_file(&hidden, "floor").map_err(failed("open .palisade/floor in it"))?;
    let stamps = match Stamps::open(floor) {
        Err(Errno::OVERFLOW) => {
            return Err(OpenError::CoarseTime { directory: directory.into() });
        }
        other => other.map_err(|e| failed("write .palisade/floor in it")(e.into()))?,
    };
    hidden.sync_all().and_then(|()| root.sync_all()).map_err(failed("sync it"))?;
    let staging = Staging::open(hidden)
        .map_err(|e| failed("clear away unfinished files in .palisade in it")(e.into()))?;
    Ok(Inner {
        identity: format!("dir:{}:{}", metadata.dev(), metadata.ino()),
        tree: Tree::new(root),
        staging,
        stamps,
        locks: Arc::new(PathLocks::default()),
        durable: DurableDirs::default(),
        hooks: Hooks::default(),
        _lock: lock,
    })
}

/// Makes a directory, and makes the names of all that were missing durable.
fn make(directory: &Path) -> io::Result<()> {
    let named =
        |path: &Path| if path.as_os_str().is_empty() { ".".into() } else { path.to_owned() };
    let missing = directory.ancestors().take_while(|path| !named(path).exists());
    let parents: Vec<_> = missing.filter_map(Path::parent).map(named).collect();
    if parents.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    parents.iter().try_for_each(|parent| File::open(parent)?.sync_all())
}

/// The store's own directory; never through a symlink.
fn own_directory(root: &File) -> io::Result<File> {
    match mkdirat(root, HIDDEN, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(root, HIDDEN, flags, Mode::empty())?.into())
}

fn own_file(hidden: &File, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(hidden, name, flags, Mode::from_raw_mode(0o600))?.into())
}

/// Locks the directory to this process and leaves our number for those who come after.
fn lock(directory: &Path, hidden: &File) -> Result<DirectoryLock, OpenError> {
    let failed = |source| OpenError::Io {
        directory: directory.into(),
        doing: "lock .palisade/lock in it",
        source,
    };
    let mut file = own_file(hidden, "lock").map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = holder(&file);
            return Err(OpenError::Locked { directory: directory.into(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(failed)?;
    Ok(DirectoryLock(file))
}

fn holder(lock: &File) -> String {
    let mut text = String::new();
    let read = lock.take(20).read_to_string(&mut text);
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!("process {pid}"),
        (_, _) => "another process".into(),
    }
}

/// Whether the same directory answers to its name in capitals.
fn ignores_case(root: &File, hidden: &File) -> io::Result<bool> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(root, HIDDEN.to_ascii_uppercase(), flags, Mode::empty()) {
        Ok(found) => Ok(File::from(found).metadata()?.ino() == hidden.metadata()?.ino()),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
