//! The built-in file store: a directory as an upstream, spoken to in HTTP terms.
//!
//! It owns its directory: one process holds it, and nothing it does leaves it, symlinks included.
//! A PUT appears whole or not at all, and is on disk before it is answered; conditions are judged
//! at the moment of the rename. What is not published yet lies in `.palisade/` under the root,
//! which no request can name. It knows no tokens: it tells a write's fate and lets it be cut (R4).

mod answer;
mod body;
mod conditions;
mod dirs;
mod entity;
mod hooks;
mod locks;
mod open;
mod path;
mod publish;
mod range;
mod read;
mod stage;
mod stamp;
mod tree;
mod write;

#[cfg(test)]
mod tests;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use http::{Response, request::Parts};

pub use body::FileBody;
pub use open::OpenError;
pub use write::{FileWrite, WriteEnd};

use dirs::DurableDirs;
use hooks::Hooks;
use locks::PathLocks;
use open::DirectoryLock;
use stage::Staging;
use stamp::Stamps;
use tree::Tree;

/// A directory that serves GET, HEAD, OPTIONS, PUT and DELETE. Cheap to clone.
///
/// The directory stays locked until the last clone is dropped and the last write has ended.
#[derive(Clone, Debug)]
pub struct FileStore {
    inner: Arc<Inner>,
}

/// What the clones, and the writes under way, share.
#[derive(Debug)]
struct Inner {
    tree: Tree,
    staging: Staging,
    stamps: Stamps,
    locks: Arc<PathLocks>,
    durable: DurableDirs,
    identity: String,
    hooks: Hooks,
    /// Open, and thereby locked, for as long as anything of ours can touch the directory.
    _lock: DirectoryLock,
}

impl FileStore {
    /// Takes a directory over: makes it where it is missing, locks it, and clears away what an
    /// earlier process left unfinished. Blocks on the disk.
    ///
    /// # Errors
    /// [`OpenError`], in words that say what to do: above all when another process holds it.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        Ok(Self { inner: Arc::new(open::open(directory)?) })
    }

    /// What tells this directory from another however it is written: `dir:DEVICE:INODE` (R11).
    pub fn identity(&self) -> String {
        self.inner.identity.clone()
    }

    /// Answers GET, HEAD and OPTIONS, and any other method with 405.
    ///
    /// `path` is the decoded path: segments joined by `/`, without a leading one.
    pub async fn read(&self, parts: &Parts, path: &[u8]) -> Response<FileBody> {
        read::respond(&self.inner, parts, path).await
    }

    /// Starts a PUT or DELETE, on a task of its own that nothing but its closer can cut.
    ///
    /// Must be called on a tokio runtime. `path` as for [`read`](Self::read).
    pub fn write<B>(&self, parts: Parts, path: Vec<u8>, body: B) -> FileWrite
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        write::start(Arc::clone(&self.inner), parts, path, body)
    }
}
