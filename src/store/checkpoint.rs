//! Writes the log back into the database, beside the commits and never inside one: a checkpoint
//! in a commit was most of its tail latency.

use rusqlite::Connection;

use super::{schema, sqlite::Shared};

/// Frames (4 KiB each) that wait to be written back: 4 MiB.
pub(super) const DUE: i64 = 1024;
/// A log this long is emptied, at the price of one pause: 64 MiB. Under constant load a passive
/// checkpoint never catches up, and the log would only grow.
pub(super) const LONG: i64 = 16 * 1024;

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

/// Empties the log, too, if it is `long` and nearly written back. Gives what is long next time:
/// where a reader is in the way (a backup), commits must not pause again and again.
fn write_back(db: &Connection, long: i64) -> rusqlite::Result<i64> {
    let log = schema::checkpoint(db, "PASSIVE")?;
    if log.in_log < long || log.in_log - log.written_back >= DUE {
        return Ok(long);
    }
    let emptied = schema::checkpoint(db, "TRUNCATE")?;
    Ok(if emptied.busy { log.in_log + DUE } else { LONG })
}
