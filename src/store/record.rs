//! One record: how a change alters it, and how it stands in a row.

use std::cmp::Ordering;

use rusqlite::{Row, types::Type};

use super::{OpenError, StoreError};
use crate::fence::{Holder, Key, Mark, Token};

/// What a caller asks of one record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Change {
    Raise(Mark),
    /// Of a record with exactly this token; `None` is a reset one.
    Clear(Option<Token>),
    Reset,
}

impl Change {
    /// The record after the change; `None` is no record. Applying a change twice is applying it
    /// once.
    pub(super) fn apply(&self, record: Option<Mark>) -> Option<Mark> {
        match self {
            Self::Raise(mark) => Some(record.map_or_else(|| mark.clone(), |old| merge(old, mark))),
            Self::Clear(token) => record.map(|old| {
                let contested = old.contested && old.token != *token;
                Mark { contested, ..old }
            }),
            Self::Reset => Some(Mark { token: None, contested: true, holder: None }),
        }
    }
}

/// The rule of [`super::TokenStore::raise`]. A reset record has the lowest token of all.
fn merge(old: Mark, new: &Mark) -> Mark {
    match old.token.cmp(&new.token) {
        Ordering::Greater => old,
        Ordering::Less => new.clone(),
        Ordering::Equal => Mark {
            token: old.token,
            contested: old.contested || new.contested,
            holder: old.holder.or_else(|| new.holder.clone()),
        },
    }
}

/// A row of `token, contested, holder`, in columns `first` and the two after it.
pub(super) fn mark(row: &Row<'_>, first: usize) -> rusqlite::Result<Mark> {
    let token = row.get::<_, Option<[u8; 16]>>(first)?.map(Token::from_bytes);
    let contested = row.get(first + 1)?;
    let holder = match row.get_ref(first + 2)?.as_str_or_null()? {
        None => None,
        Some(text) => Some(
            Holder::parse(text.as_bytes())
                .ok_or_else(|| malformed(first + 2, Type::Text, "a holder that is none"))?,
        ),
    };
    Ok(Mark { token, contested, holder })
}

/// A key in column `column`.
pub(super) fn key(row: &Row<'_>, column: usize) -> rusqlite::Result<Key> {
    Key::from_bytes(row.get_ref(column)?.as_blob()?)
        .ok_or_else(|| malformed(column, Type::Blob, "a key of impossible length"))
}

fn malformed(column: usize, kind: Type, what: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, what.into())
}

/// What a failed read means to a caller.
pub(super) fn read_failed(error: &rusqlite::Error) -> StoreError {
    if is_damage(error) {
        StoreError::Corrupt(error.to_string())
    } else {
        StoreError::Unavailable(error.to_string())
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::{Error, ErrorCode};
    match error.sqlite_error_code() {
        Some(code) => matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase),
        None => matches!(
            error,
            Error::FromSqlConversionFailure(..)
                | Error::InvalidColumnType(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::QueryReturnedNoRows
        ),
    }
}

/// Whether another connection was in the way, and nothing was done.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

/// An [`OpenError`] for a step on the database at `path`.
pub(super) fn opening(
    path: &std::path::Path,
    doing: &'static str,
) -> impl Fn(rusqlite::Error) -> OpenError {
    move |source| {
        let path = path.to_owned();
        if is_busy(&source) {
            OpenError::Busy { path }
        } else if is_damage(&source) {
            OpenError::Damaged { path, what: source.to_string() }
        } else {
            OpenError::Database { doing, path, source }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(token: u64, contested: bool, holder: &str) -> Mark {
        let token = (token > 0).then(|| Token::new(token));
        Mark { token, contested, holder: Holder::parse(holder.as_bytes()) }
    }

    #[test]
    fn a_raise_keeps_the_greater_and_never_clears() {
        let (no, yes) = (false, true);
        let table = [
            ("first", None, record(5, no, "a"), record(5, no, "a")),
            ("greater", Some(record(5, yes, "a")), record(6, no, "b"), record(6, no, "b")),
            (
                "greater drops the holder",
                Some(record(5, no, "a")),
                record(6, no, ""),
                record(6, no, ""),
            ),
            ("lower", Some(record(5, no, "a")), record(4, yes, "b"), record(5, no, "a")),
            (
                "equal keeps contested",
                Some(record(5, yes, "")),
                record(5, no, ""),
                record(5, yes, ""),
            ),
            (
                "equal sets contested",
                Some(record(5, no, "")),
                record(5, yes, ""),
                record(5, yes, ""),
            ),
            ("equal pins", Some(record(5, no, "")), record(5, no, "a"), record(5, no, "a")),
            (
                "equal keeps the pin",
                Some(record(5, no, "a")),
                record(5, no, "b"),
                record(5, no, "a"),
            ),
            ("on a reset one", Some(record(0, yes, "")), record(1, no, ""), record(1, no, "")),
            ("no token on a token", Some(record(1, no, "")), record(0, yes, ""), record(1, no, "")),
        ];
        for (name, old, new, want) in table {
            let change = Change::Raise(new);
            let once = change.apply(old);
            assert_eq!(once, Some(want), "{name}");
            assert_eq!(change.apply(once.clone()), once, "{name}, twice");
        }
    }

    #[test]
    fn the_other_changes() {
        let five = || Some(record(5, true, "a"));
        let table = [
            (
                "clear of that token",
                Change::Clear(Some(Token::new(5))),
                five(),
                Some(record(5, false, "a")),
            ),
            ("clear of an older one", Change::Clear(Some(Token::new(4))), five(), five()),
            ("clear of a newer one", Change::Clear(Some(Token::new(6))), five(), five()),
            ("clear of none", Change::Clear(Some(Token::new(5))), None, None),
            (
                "clear of a reset one",
                Change::Clear(None),
                Some(record(0, true, "")),
                Some(record(0, false, "")),
            ),
            ("reset", Change::Reset, five(), Some(record(0, true, ""))),
            ("reset of none", Change::Reset, None, Some(record(0, true, ""))),
        ];
        for (name, change, old, want) in table {
            assert_eq!(change.apply(old), want, "{name}");
        }
    }
}
