//! The store's directory: its lock, and the marker that says that a store was made here.
//!
//! The marker is written under another name first. While it has that name nothing was ever served
//! from the store, and a start may throw away what an interrupted one left.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use super::OpenError;

/// The format of the store's files. A reader refuses what is newer.
pub(super) const FORMAT: u32 = 1;

const LOCK: &str = "lock";
const MARKER: &str = "initialised";
const UNFINISHED: &str = "initialised.new";
const DATABASE: &str = "marks.db";
const MAGIC: &str = "palisade-store";

/// Bytes for which room is made in the log beforehand: for as many frames as it has when it is
/// first written back, and a quarter more that come meanwhile.
const ROOM: usize = 5 << 20;

pub(super) struct Directory {
    pub path: PathBuf,
}

/// What is in a directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Found {
    /// No store, or one whose making was interrupted before anything was served.
    Nothing,
    /// A store.
    Store,
}

impl Directory {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    pub(super) fn wal(&self) -> PathBuf {
        self.path.join(format!("{DATABASE}-wal"))
    }

    /// What was left of a log that somebody cut short, set aside.
    pub(super) fn cut_log(&self) -> PathBuf {
        self.path.join(format!("{DATABASE}-wal.cut"))
    }

    /// A database without a marker, or a marker without a database, is damage: half of a store.
    pub(super) fn look(&self) -> Result<Found, OpenError> {
        let marker = self.has(MARKER)?;
        let database = self.has(DATABASE)?;
        match (marker, database) {
            (true, true) => Ok(Found::Store),
            (true, false) => Err(self.damaged(format!("{DATABASE} is missing"))),
            (false, true) if !self.has(UNFINISHED)? => {
                Err(self.damaged(format!("the file {MARKER} is missing")))
            }
            (false, _) => Ok(Found::Nothing),
        }
    }

    /// Makes the directory and those above it, each entry synced.
    pub(super) fn make(&self) -> Result<(), OpenError> {
        let path = std::path::absolute(&self.path).map_err(self.io("find"))?;
        make(&path).map_err(self.io("make the directory"))
    }

    /// Takes the lock, or says who has it.
    pub(super) fn lock(&self) -> Result<Lock, OpenError> {
        let path = self.path.join(LOCK);
        let failed = |source| OpenError::Io { doing: "lock", path: path.clone(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        // The directory too: its lock cannot be lost with a file that somebody tidies away.
        let directory = File::open(&self.path).map_err(failed)?;
        for held in [&file, &directory] {
            match held.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let pid = holder(&path);
                    return Err(OpenError::InUse { path: self.path.clone(), pid });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        file.set_len(0).map_err(failed)?;
        writeln!(&file, "{}", std::process::id()).map_err(failed)?;
        Ok(Lock { file, directory })
    }

    /// What must stay where it is for as long as the store is open.
    pub(super) fn home(&self) -> Result<Home, OpenError> {
        let paths = [self.path.clone(), self.database(), self.wal()];
        let known = |path: PathBuf| {
            let (device, inode) = identity(&path)?;
            Ok((path, device, inode))
        };
        let entries = paths.into_iter().map(known).collect::<io::Result<_>>();
        let entries = entries.map_err(self.io("look into"))?;
        Ok(Home { entries, directory: self.path.clone(), log: self.wal(), cut: self.cut_log() })
    }

    /// The store's id, from the marker. Refuses what a newer program wrote.
    pub(super) fn id(&self) -> Result<String, OpenError> {
        let path = self.path.join(MARKER);
        let text = fs::read_to_string(&path).map_err(self.io("read the marker in"))?;
        let mut words = text.split_ascii_whitespace();
        let (magic, format, id) = (words.next(), words.next(), words.next());
        let format = format.and_then(|word| word.parse::<u32>().ok());
        match (magic, format, id) {
            (Some(MAGIC), Some(found), _) if found > FORMAT => Err(self.newer(found)),
            (Some(MAGIC), Some(_), Some(id)) if id.len() == 32 => Ok(id.to_owned()),
            _ => Err(self.damaged(format!("{MARKER} is not a store's marker"))),
        }
    }

    /// Clears away an interrupted start's leavings and begins a store with the id that it returns.
    pub(super) fn begin(&self) -> Result<String, OpenError> {
        let database = self.database();
        for end in ["", "-wal", "-shm", "-journal"] {
            let mut name = database.clone().into_os_string();
            name.push(end);
            match fs::remove_file(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.io("clear")(error));
                }
                _ => {}
            }
        }
        let id = format!("{:032x}", fastrand::u128(..));
        let text = format!("{MAGIC} {FORMAT} {id}\n");
        let written = File::create(self.path.join(UNFINISHED))
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(self.io("write the marker in"))?;
        self.sync()?;
        Ok(id)
    }

    /// The store is whole: from now on its absence is a loss.
    pub(super) fn finish(&self) -> Result<(), OpenError> {
        fs::rename(self.path.join(UNFINISHED), self.path.join(MARKER))
            .map_err(self.io("write the marker in"))?;
        self.sync()
    }

    /// Syncs the directory's entries.
    pub(super) fn sync(&self) -> Result<(), OpenError> {
        sync(&self.path).map_err(self.io("sync the directory"))
    }

    pub(super) fn damaged(&self, what: impl Into<String>) -> OpenError {
        OpenError::Damaged { path: self.path.clone(), what: what.into() }
    }

    pub(super) fn newer(&self, found: u32) -> OpenError {
        OpenError::Newer { path: self.path.clone(), found, known: FORMAT }
    }

    pub(super) fn io(&self, doing: &'static str) -> impl Fn(io::Error) -> OpenError {
        let path = self.path.clone();
        move |source| OpenError::Io { doing, path: path.clone(), source }
    }

    fn has(&self, name: &str) -> Result<bool, OpenError> {
        self.path.join(name).try_exists().map_err(self.io("look into"))
    }
}

/// Held while the store is open. Ends with [`Lock::release`], its drop, or the process.
pub(super) struct Lock {
    file: File,
    directory: File,
}

impl Lock {
    /// The file stays: removing a lock file lets two processes lock two files of one name.
    pub(super) fn release(&self) -> io::Result<()> {
        self.directory.unlock()?;
        self.file.unlock()
    }
}

/// The paths of an open store, and what they named when it was opened.
pub(super) struct Home {
    entries: Vec<(PathBuf, u64, u64)>,
    directory: PathBuf,
    log: PathBuf,
    cut: PathBuf,
}

impl Home {
    /// Whether all is still there. What is written to a file that was removed or replaced is lost
    /// to the next start, and another process may have begun a store in its place.
    ///
    /// # Errors
    /// What is gone, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        for (path, device, inode) in &self.entries {
            if identity(path).ok() != Some((*device, *inode)) {
                return Err(format!("{} was removed or replaced", path.display()));
            }
        }
        Ok(())
    }

    /// Bytes of the log as it is on the disk.
    pub(super) fn log_length(&self) -> io::Result<u64> {
        Ok(fs::metadata(&self.log)?.len())
    }

    /// Makes an empty log long, with zeros that are on the disk: in a file that grows every sync
    /// also writes the file system's journal. Zeros that are written: space that is only reserved
    /// changes the file's metadata when it is first used, too. To SQLite, and to a start, a log
    /// that begins with zeros is empty. SQLite has no lock on this file that a close would drop.
    pub(super) fn lengthen_log(&self) -> io::Result<()> {
        let mut log = OpenOptions::new().write(true).open(&self.log)?;
        if log.metadata()?.len() > 0 {
            return Ok(());
        }
        // The length comes first, and reads as zeros whatever was there. Otherwise a loss of power
        // could leave some zeros among parts of the log that it was, which looks like damage.
        log.set_len(ROOM as u64)?;
        log.sync_all()?;
        log.write_all(&vec![0; ROOM])?;
        log.sync_all()
    }

    /// Gives a log that was cut short another name, so that the next start misses it. Says so.
    pub(super) fn set_log_aside(&self) -> String {
        let log = self.log.display();
        match fs::rename(&self.log, &self.cut).and_then(|()| sync(&self.directory)) {
            Ok(()) => format!("{log} was cut short, and was set aside as {}", self.cut.display()),
            Err(error) => format!("{log} was cut short, and cannot be set aside: {error}"),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// The process that the lock file names.
fn holder(lock: &Path) -> String {
    let text = fs::read_to_string(lock).unwrap_or_default();
    let pid = text.trim();
    let known = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
    if known { pid.to_owned() } else { "unknown".to_owned() }
}

fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let Some(parent) = path.parent() else { return Ok(()) };
    make(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => Err(error),
        _ => sync(parent),
    }
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
