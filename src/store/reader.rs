//! The reading threads. Each look-up sees every commit that was answered before it was asked.

use rusqlite::{Connection, OptionalExtension};

use super::{StoreError, answer::Answer, record, sqlite::Shared};
use crate::fence::{Key, Mark};

/// Most records that one list gives.
pub(super) const LIST_MAX: u32 = 10_000;

/// What a caller wants to see.
pub(super) enum Read {
    Find { key: Key, answer: Answer<Option<Mark>> },
    List { prefix: Vec<u8>, after: Option<Key>, limit: usize, answer: Answer<Vec<(Key, Mark)>> },
}

impl Read {
    pub(super) fn refuse(self, error: StoreError) {
        match self {
            Self::Find { answer, .. } => answer.give(Err(error)),
            Self::List { answer, .. } => answer.give(Err(error)),
        }
    }

    fn serve(self, db: &Connection) {
        match self {
            Self::Find { key, answer } => {
                answer.give(find(db, &key).map_err(|error| record::read_failed(&error)));
            }
            Self::List { prefix, after, limit, answer } => {
                let found = list(db, &prefix, after.as_ref(), limit);
                answer.give(found.map_err(|error| record::read_failed(&error)));
            }
        }
    }
}

/// Serves look-ups until the store closes.
pub(super) fn run(db: &Connection, shared: &Shared) {
    while let Some(read) = shared.reads.pop() {
        read.serve(db);
    }
}

/// The record of a key.
pub(super) fn find(db: &Connection, key: &Key) -> rusqlite::Result<Option<Mark>> {
    db.prepare_cached("SELECT token, contested, holder FROM mark WHERE key = ?1")?
        .query_row((key.as_bytes(),), |row| record::mark(row, 0))
        .optional()
}

fn list(
    db: &Connection,
    prefix: &[u8],
    after: Option<&Key>,
    limit: usize,
) -> rusqlite::Result<Vec<(Key, Mark)>> {
    // One range of the index: a condition more, and the search would run on to the table's end.
    let mut rows = db.prepare_cached(
        "SELECT key, token, contested, holder FROM mark
         WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3",
    )?;
    // The next key after a key is that key and a zero byte.
    let after = after.map_or_else(Vec::new, |key| [key.as_bytes(), &[0]].concat());
    let from = prefix.max(&after);
    let limit = u32::try_from(limit).unwrap_or(LIST_MAX).min(LIST_MAX);
    let found = rows.query_map((from, above(prefix), limit), |row| {
        Ok((record::key(row, 0)?, record::mark(row, 1)?))
    })?;
    found.collect()
}

/// The least bytes above every key that starts with `prefix`.
fn above(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|byte| *byte != 0xff) {
        None => vec![0xff; Key::MAX + 5],
        Some(last) => {
            let mut bytes = prefix[..=last].to_vec();
            bytes[last] += 1;
            bytes
        }
    }
}
