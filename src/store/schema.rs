//! The database: its tables, its connections, and what makes its contents count as durable.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, config::DbConfig, wal::CheckpointMode};

use super::{
    OpenError,
    directory::{Directory, FORMAT},
    record::opening,
    wal::{self, Log},
};

/// Marks the file as ours in its header ("Pali").
const APPLICATION: u32 = 0x5061_6c69;

/// `mark.key` is the key as stored (the upstream's number first), `mark.token` sixteen bytes whose
/// order is token order: integers of SQLite are signed. `upstream.dirty` is the absence of its
/// clean mark. Ids are never used twice, so that a late row can belong to no other upstream.
const TABLES: &str = "
CREATE TABLE store (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  format INTEGER NOT NULL,
  id TEXT NOT NULL
) STRICT;
CREATE TABLE upstream (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  address TEXT NOT NULL UNIQUE,
  lifetime_us INTEGER NOT NULL CHECK (lifetime_us >= 0),
  unfenced INTEGER NOT NULL CHECK (unfenced IN (0, 1)),
  dirty INTEGER NOT NULL CHECK (dirty IN (0, 1))
) STRICT;
CREATE TABLE keying (
  upstream INTEGER NOT NULL,
  pattern TEXT NOT NULL,
  template TEXT NOT NULL,
  PRIMARY KEY (upstream, pattern)
) STRICT, WITHOUT ROWID;
CREATE TABLE mark (
  key BLOB NOT NULL PRIMARY KEY,
  token BLOB CHECK (token IS NULL OR length(token) = 16),
  contested INTEGER NOT NULL CHECK (contested IN (0, 1)),
  holder TEXT
) STRICT, WITHOUT ROWID;
";

/// How long a start and a read wait for another program to end what it does.
const PATIENCE: Duration = Duration::from_secs(1);

/// The database, open for writing.
pub(super) struct Disk {
    pub db: Connection,
    /// The same file, for syncing. It must outlive every connection of this process: closing any
    /// descriptor of a file drops the process's POSIX locks on it, and they are SQLite's.
    pub file: File,
}

/// A new, empty store.
pub(super) fn create(directory: &Directory, id: &str) -> Result<Disk, OpenError> {
    let path = directory.database();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(directory.io("make the database in"))?;
    let mut db = writer(&path)?;
    let make = |db: &mut Connection| {
        let tx = db.transaction()?;
        tx.execute_batch(TABLES)?;
        tx.pragma_update(None, "application_id", APPLICATION)?;
        tx.pragma_update(None, "user_version", FORMAT)?;
        tx.execute("INSERT INTO store VALUES (1, ?1, ?2)", (FORMAT, id))?;
        tx.commit()
    };
    make(&mut db).map_err(opening(&path, "make"))?;
    let disk = Disk { db, file };
    settle(&disk, directory)?;
    Ok(disk)
}

/// The store that is there: looked at before SQLite touches it, then made durable as found (R2).
pub(super) fn recover(directory: &Directory, id: &str) -> Result<Disk, OpenError> {
    let path = directory.database();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(directory.io("open the database in"))?;
    inspect(directory, &file)?;
    let without_log = !directory.wal().exists();
    let db = writer(&path)?;
    let (format, found): (u32, String) = db
        .query_row("SELECT format, id FROM store", (), |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(opening(&path, "read"))?;
    if format > FORMAT {
        return Err(directory.newer(format));
    }
    if found != id {
        return Err(directory.damaged("marks.db belongs to another store than the marker"));
    }
    // The log is made with the store and never removed by it. Another program may have folded it
    // in and removed it, and then the clean mark, the last that was written, is there. A start
    // writes its absence into the database itself.
    let dirty = "SELECT EXISTS (SELECT 1 FROM upstream WHERE dirty = 1)";
    let dirty: bool = db.query_row(dirty, (), |row| row.get(0)).map_err(opening(&path, "read"))?;
    if without_log && dirty {
        // The look at it has made an empty log, which would hide the loss from the next start.
        drop(db);
        std::fs::remove_file(directory.wal()).map_err(directory.io("clear"))?;
        directory.sync()?;
        if directory.cut_log().exists() {
            return Err(directory.damaged(
                "marks.db-wal was cut short while a palisade had it, and with it the newest marks \
                 are gone; what was left of it is marks.db-wal.cut",
            ));
        }
        return Err(directory.damaged(
            "marks.db-wal is missing, and with it the newest marks; if you are sure that they were \
             folded into marks.db, make an empty marks.db-wal",
        ));
    }
    let disk = Disk { db, file };
    settle(&disk, directory)?;
    Ok(disk)
}

/// What can be told from the files alone.
fn inspect(directory: &Directory, file: &File) -> Result<(), OpenError> {
    let read = directory.io("read the database in");
    let committed = match wal::scan(&directory.wal()).map_err(&read)? {
        Log::Sound { committed } => committed,
        Log::Damaged { frame } => {
            let what = format!("frame {frame} of marks.db-wal is bad and later commits follow it");
            return Err(directory.damaged(what));
        }
    };
    let length = file.metadata().map_err(&read)?.len();
    let mut head = [0; 100];
    if length < 512 {
        return Err(directory.damaged("marks.db is empty or cut short"));
    }
    file.read_exact_at(&mut head, 0).map_err(&read)?;
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if !head.starts_with(b"SQLite format 3\0") || word(68) != APPLICATION {
        return Err(directory.damaged("marks.db is not a store's database"));
    }
    if word(60) > FORMAT {
        return Err(directory.newer(word(60)));
    }
    let page = match u16::from_be_bytes([head[16], head[17]]) {
        1 => 65536,
        size => u64::from(size),
    };
    // A checkpoint that was cut leaves a short file whose end the log still has.
    if committed == 0 && length < page * u64::from(word(28)) {
        return Err(directory.damaged("marks.db is shorter than it says"));
    }
    Ok(())
}

/// R2: what is found counts as durable only after it was synced again. After a failed sync the
/// kernel may show bytes that are not on the disk; the checkpoint writes the log's pages anew.
pub(super) fn settle(disk: &Disk, directory: &Directory) -> Result<(), OpenError> {
    let path = directory.database();
    let log =
        checkpoint(&disk.db, CheckpointMode::TRUNCATE).map_err(opening(&path, "checkpoint"))?;
    let left = directory.wal().metadata().map_or(0, |file| file.len());
    // Nothing is left in the log; where that is not known, nothing was written back.
    if log.busy || log.in_log != 0 || left != 0 {
        return Err(OpenError::Busy { path });
    }
    disk.file.sync_all().map_err(directory.io("sync the database in"))?;
    directory.sync()
}

/// A connection that writes. It never checkpoints on its own: a commit must not wait for that, nor
/// may anything be written after the clean mark.
pub(super) fn writer(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let db = connect(path, flags)?;
        let mode: String =
            db.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok((db, mode))
    };
    let (db, mode) = open().map_err(opening(path, "open"))?;
    if mode != "wal" {
        let source = rusqlite::Error::InvalidParameterName(format!("journal_mode is {mode}"));
        return Err(OpenError::Database { doing: "set up", path: path.to_owned(), source });
    }
    Ok(db)
}

/// A connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    connect(path, flags).map_err(opening(path, "open"))
}

/// Bounds the pages that a connection keeps in memory. The writer's share is a half of all; the
/// readers and the checkpoints share the other.
pub(super) fn limit_cache(db: &Connection, bytes: u64) -> rusqlite::Result<()> {
    let kib = i64::try_from(bytes / 1024).unwrap_or(i64::MAX).max(256);
    db.pragma_update(None, "cache_size", -kib)
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(PATIENCE)?;
    db.pragma_update(None, "trusted_schema", false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    db.pragma_update(None, "cell_size_check", true)?;
    Ok(db)
}

/// The log after a checkpoint, in frames of a page each.
pub(super) struct Frames {
    /// Another connection was in the way. That is no failure: there will be a next time.
    pub busy: bool,
    /// -1 where it is not known, as in `written_back`: another was in the way, or the connection has
    /// not opened the log yet.
    pub in_log: i64,
    pub written_back: i64,
}

/// Writes the log back: `PASSIVE` as far as it can without waiting, `RESTART` to its end, so that the
/// next commit begins it anew, `TRUNCATE` also emptying it, `NOOP` not at all.
pub(super) fn checkpoint(db: &Connection, mode: CheckpointMode) -> rusqlite::Result<Frames> {
    match db.wal_checkpoint_v2(Some(MAIN_DB), mode) {
        Ok((in_log, written_back)) => {
            Ok(Frames { busy: false, in_log: in_log.into(), written_back: written_back.into() })
        }
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            Ok(Frames { busy: true, in_log: -1, written_back: -1 })
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R2: SQLite says nothing of a log that the connection has not opened, and writes nothing back.
    #[test]
    fn a_log_that_was_not_opened_is_not_settled() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::new(folder.path());
        let path = directory.database();
        let db = Connection::open(&path).unwrap();
        db.pragma_update(None, "journal_mode", "wal").unwrap();
        db.execute_batch("CREATE TABLE t (a)").unwrap();
        drop(db);
        let disk = Disk { db: Connection::open(&path).unwrap(), file: File::open(&path).unwrap() };
        assert!(matches!(settle(&disk, &directory), Err(OpenError::Busy { .. })));
        disk.db.query_row("SELECT count(*) FROM t", (), |_| Ok(())).unwrap();
        settle(&disk, &directory).unwrap();
    }
}
