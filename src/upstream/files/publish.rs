//! The final step of a write: judge, apply, sync. Once begun it runs to its end (R4).
//!
//! It blocks, and the caller holds the path's lock, so that nothing of ours comes in between.

use std::fs::File;

use bytes::Bytes;
use http::{Response, StatusCode};
use rustix::{
    fs::{AtFlags, unlinkat},
    io::Errno,
};

use super::{
    Inner,
    answer::{self, Refusal},
    conditions::Conditions,
    entity::{Entity, Kind},
    hooks::Step,
    path::RelPath,
    stage::Staged,
};

/// Why a write did not come to be answered as done.
#[derive(Debug)]
pub(super) enum Stop {
    /// The store says no; nothing was applied.
    Refuse(Refusal),
    /// It was cut; nothing was applied.
    Cut,
    /// It may have been applied.
    Fail(String),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}

/// Gives a whole, synced file its name.
pub(super) fn put(
    inner: &Inner,
    path: &RelPath,
    conditions: &Conditions,
    mut staged: Staged,
) -> Result<Response<Bytes>, Stop> {
    let old = target(inner, path).map_err(Refusal::of_write)??;
    if !conditions.allow_write(old.as_ref()) {
        return Err(Refusal::condition_failed().into());
    }
    if let Some(old) = &old {
        staged.succeed(old.stamp).map_err(Refusal::of_write)?;
    }
    let parent = inner.durable.open(&inner.tree, path.parent()).map_err(Refusal::of_write)?;
    let applied = inner
        .hooks
        .reach(Step::Apply)
        .and_then(|()| staged.publish(parent.directory(&inner.tree), path.name()));
    let entity = applied.map_err(not_applied)?;
    inner
        .hooks
        .reach(Step::SyncDirectory)
        .and_then(|()| inner.durable.sync(&inner.tree, &parent))
        .map_err(not_durable)?;
    let created = old.is_none();
    let mut response =
        answer::empty(if created { StatusCode::CREATED } else { StatusCode::NO_CONTENT });
    response.headers_mut().insert(http::header::ETAG, entity.etag());
    Ok(response)
}

/// Removes a file. The directories that held it stay.
pub(super) fn delete(
    inner: &Inner,
    path: &RelPath,
    conditions: &Conditions,
) -> Result<Response<Bytes>, Stop> {
    // RFC 9110, 13.2.1: where there is nothing to delete, conditions do not count.
    let old = target(inner, path).map_err(Refusal::of_read)??;
    let old = old.ok_or_else(Refusal::not_found)?;
    if !conditions.allow_write(Some(&old)) {
        return Err(Refusal::condition_failed().into());
    }
    inner.stamps.retire(old.stamp).map_err(Refusal::of_write)?;
    // Open before the unlink: what cannot be synced is not begun.
    let parent = inner.tree.directory(path.parent()).map_err(Refusal::of_write)?;
    inner
        .hooks
        .reach(Step::Apply)
        .and_then(|()| unlinkat(&parent, path.name(), AtFlags::empty()))
        .map_err(not_applied)?;
    inner.hooks.reach(Step::SyncDirectory).and_then(|()| sync(&parent)).map_err(not_durable)?;
    Ok(answer::empty(StatusCode::NO_CONTENT))
}

/// The regular file that a path names now, if any; only such a file may be replaced or removed.
fn target(inner: &Inner, path: &RelPath) -> Result<Result<Option<Entity>, Refusal>, Errno> {
    if path.is_root() {
        return Ok(Err(Refusal::directory()));
    }
    let found = match inner.tree.look_at(path) {
        Err(Errno::NOENT) => return Ok(Ok(None)),
        other => other?,
    };
    Ok(match Kind::of(&found)? {
        Kind::File(entity) => Ok(Some(entity)),
        Kind::Directory => Err(Refusal::directory()),
        Kind::Other => Err(Refusal::not_a_file()),
    })
}

fn sync(directory: &File) -> Result<(), Errno> {
    directory.sync_all().map_err(|e| super::tree::errno(&e))
}

/// A rename or unlink failed. A disk or a network that broke down half way proves nothing.
fn not_applied(error: Errno) -> Stop {
    match error {
        Errno::IO | Errno::TIMEDOUT | Errno::INTR | Errno::STALE | Errno::UCLEAN => {
            Stop::Fail(format!("the rename or unlink failed, perhaps half way: {error}"))
        }
        other => Refusal::of_write(other).into(),
    }
}

fn not_durable(error: Errno) -> Stop {
    Stop::Fail(format!("applied, but the directory could not be synced: {error}"))
}
