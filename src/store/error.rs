//! Why a store cannot be opened: what happened, where, and what to do about it.

use std::{io, path::PathBuf};

/// Why [`open`](super::open) or [`Store::adopt`](super::Store::adopt) refuses. Nothing was lost.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the lock.
    #[error(
        "the store at {} is in use by another palisade, process {pid}: stop that process first, \
         or give this one a [store] path of its own", path.display()
    )]
    InUse {
        /// The store's directory.
        path: PathBuf,
        /// The other's process id as it wrote it, or `unknown`.
        pid: String,
    },
    /// There is no store, and it may not be made.
    #[error(
        "there is no store at {}: if a volume is missing, mount it; if this is the first start, \
         say `palisade serve --fresh` (nothing writes to the upstreams yet) or set \
         create = \"if-missing\" under [store]", path.display()
    )]
    Missing {
        /// The store's directory.
        path: PathBuf,
    },
    /// `--fresh` on a store that exists.
    #[error(
        "--fresh, but there already is a store at {}: start without --fresh to use it",
        path.display()
    )]
    Exists {
        /// The store's directory.
        path: PathBuf,
    },
    /// A newer palisade wrote it.
    #[error(
        "the store at {} has format {found} and this palisade knows only up to {known}: run the \
         newer palisade that wrote it", path.display()
    )]
    Newer {
        /// The store's directory.
        path: PathBuf,
        /// The format of the files.
        found: u32,
        /// The newest format that this program can read.
        known: u32,
    },
    /// The files are not what this program left there.
    #[error(
        "the store at {} is damaged: {what}. Starting on it could forget tokens; repair the disk, \
         or restore the directory whole from a copy and advance its keys", path.display()
    )]
    Damaged {
        /// The store's directory.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// R11: keys would be made differently, and the marks be missed.
    #[error(
        "upstream {upstream}: {part} was {old:?} and is now {new:?}, so that marks kept in {} \
         would no longer be found. Undo the change, or start once with `--rekey {upstream}`, which \
         forgets the marks of {upstream} and waits for its earlier writes", path.display()
    )]
    Rekeyed {
        /// The store's directory.
        path: PathBuf,
        /// The upstream as the configuration names it.
        upstream: String,
        /// What changed: the address, the name or a pattern.
        part: String,
        /// As the store remembers it.
        old: String,
        /// As the configuration has it.
        new: String,
    },
    /// `--rekey` names no upstream of the configuration.
    #[error("--rekey {name}: the configuration has no upstream of that name, only {known}")]
    UnknownRekey {
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A reload cannot bring an upstream that the store has not seen: it needs a quarantine.
    #[error("upstream {name} is new to the store: restart palisade to add it")]
    NeedsRestart {
        /// Its name.
        name: String,
    },
    /// Another program has the database open.
    #[error(
        "another program is using the database {}: close it (a sqlite3 shell, a backup) and start \
         again", path.display()
    )]
    Busy {
        /// The database file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {doing} {}: {source}{}", path.display(), hint(source))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// SQLite refused.
    #[error("cannot {doing} the database {}: {source}", path.display())]
    Database {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

/// What to do about what the system said, where that is known.
fn hint(source: &io::Error) -> &'static str {
    #[expect(clippy::wildcard_enum_match_arm, reason = "of the others nothing is known to help")]
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "; the user that palisade runs as must be allowed to read and write it and what is in it"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room on that disk",
        io::ErrorKind::ReadOnlyFilesystem => "; mount it for writing",
        _ => "",
    }
}
