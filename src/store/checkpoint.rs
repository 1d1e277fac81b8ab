//! Writes the log back into the database, beside the commits and never inside one: a checkpoint
//! in a commit was most of its tail latency.

use rusqlite::{Connection, wal::CheckpointMode};

use super::{schema, sqlite::Shared};

/// Frames (4 KiB each) that wait to be written back: 4 MiB.
pub(super) const DUE: i64 = 1024;
/// A log this long is begun anew at the price of one pause, however long: 16 MiB. A start after a
/// kill reads it twice and writes all of it back before it serves.
pub(super) const LONG: i64 = 4 * DUE;
/// Only a reader that stayed (a backup) makes a file of so many bytes. Its space is given back.
const HUGE: u64 = 64 << 20;
/// A log is begun anew early where at most one of so many frames must still be written back: a
/// pause too short to matter. Under constant load a passive checkpoint never gets to the end.
const NEARLY: i64 = 16;

/// Serves requests until the store closes. A checkpoint that fails poisons the store: the failed
/// sync may have been the database's only one.
pub(super) fn run(db: &Connection, shared: &Shared) {
    let mut busy_at = 0;
    while shared.checkpoints.pop().is_some() && !shared.poison.is_set() {
        // Where it cannot be told the next commit will end the store.
        let length = shared.home.log_length().unwrap_or_default();
        match write_back(db, length, busy_at) {
            Ok(next) => busy_at = next,
            Err(error) => shared.poison.set(format!("writing back the log: {error}")),
        }
    }
}

/// Makes the next commit begin the log anew, too, if that is cheap or the log is long: in place,
/// since a file that grows makes every sync dearer. Gives the frames of a log that could not be,
/// for the next time: where a reader is in the way (a backup), commits must not pause again and
/// again.
fn write_back(db: &Connection, length: u64, busy_at: i64) -> rusqlite::Result<i64> {
    let log = schema::checkpoint(db, CheckpointMode::PASSIVE)?;
    // A shorter one is another one.
    let busy_at = if log.in_log < busy_at { 0 } else { busy_at };
    let soon_again = busy_at > 0 && log.in_log < busy_at + DUE;
    let cheap = (log.in_log - log.written_back) * NEARLY <= log.in_log;
    if soon_again || !(cheap || log.in_log >= LONG) {
        return Ok(busy_at);
    }
    let mode = if length < HUGE { CheckpointMode::RESTART } else { CheckpointMode::TRUNCATE };
    let whole = schema::checkpoint(db, mode)?;
    Ok(if whole.busy { log.in_log } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_stays_holds_up_commits_once_in_a_while_only() {
        let directory = tempfile::tempdir().unwrap();
        let open = || {
            let db = Connection::open(directory.path().join("a.db")).unwrap();
            db.busy_timeout(std::time::Duration::ZERO).unwrap();
            db
        };
        let db = open();
        db.pragma_update(None, "journal_mode", "wal").unwrap();
        db.pragma_update(None, "synchronous", "OFF").unwrap();
        db.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        db.execute_batch("CREATE TABLE t (a)").unwrap();
        let commit = |times| {
            for n in 0..times {
                db.execute("INSERT INTO t VALUES (?1)", (n,)).unwrap();
            }
            schema::checkpoint(&db, CheckpointMode::NOOP).unwrap().in_log
        };
        commit(100);
        let reader = open();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        let met = commit(1);
        assert_eq!(
            write_back(&db, 0, 0).unwrap(),
            met,
            "next to nothing was left, but for the reader"
        );
        let more = commit(1);
        assert!(more > met);
        assert_eq!(write_back(&db, 0, met).unwrap(), met, "not tried again so soon");
        let longer = commit(DUE + LONG);
        assert_eq!(write_back(&db, 0, met).unwrap(), longer, "tried again: it is long");
        reader.execute_batch("COMMIT").unwrap();
        write_back(&db, 0, longer).unwrap();
        assert!(commit(1) < 10, "begun anew");
        assert_eq!(write_back(&db, 0, longer).unwrap(), 0, "another log: nothing was in its way");
    }
}
