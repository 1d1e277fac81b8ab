//! Writes the log back into the database, beside the commits and never inside one: a checkpoint
//! in a commit was most of its tail latency.

use rusqlite::Connection;

use super::{schema, sqlite::Shared};

/// Frames (4 KiB each) that wait to be written back: 4 MiB.
pub(super) const DUE: i64 = 1024;
/// A log this long is begun anew at the price of one pause, however long: 16 MiB. A start after a
/// kill reads it twice and writes all of it back before it serves.
pub(super) const LONG: i64 = 4 * DUE;
/// Only a reader that stayed (a backup) makes a log so long. Its space is given back.
const HUGE: i64 = 4 * LONG;
/// A log is begun anew early where at most one of so many frames must still be written back: a
/// pause too short to matter. Under constant load a passive checkpoint never gets to the end.
const NEARLY: i64 = 16;

/// Serves requests until the store closes. A checkpoint that fails poisons the store: the failed
/// sync may have been the database's only one.
pub(super) fn run(db: &Connection, shared: &Shared) {
    let mut long = LONG;
    while shared.checkpoints.pop().is_some() && !shared.poison.is_set() {
        match write_back(db, long) {
            Ok(next) => long = next,
            Err(error) => shared.poison.set(format!("writing back the log: {error}")),
        }
    }
}

/// Makes the next commit begin the log anew, too, if that is cheap or the log is `long`: in place,
/// since a file that grows makes every sync dearer. Gives what is long next time: where a reader is
/// in the way (a backup), commits must not pause again and again.
fn write_back(db: &Connection, long: i64) -> rusqlite::Result<i64> {
    let log = schema::checkpoint(db, "PASSIVE")?;
    let left = log.in_log - log.written_back;
    if log.in_log < long && left * NEARLY > log.in_log {
        return Ok(long);
    }
    let whole = schema::checkpoint(db, if log.in_log < HUGE { "RESTART" } else { "TRUNCATE" })?;
    Ok(if whole.busy { log.in_log + DUE } else { LONG })
}
