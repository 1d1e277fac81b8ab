//! Which directories are known to be on disk, all the way up to the root.
//!
//! Syncing a file's own directory makes its name durable, but not the directory's own name when
//! that is new, be it made by this write, by another that has not synced it yet, or by a process
//! that was killed. So each directory is synced once with all that lie above it.

use std::{collections::HashSet, fs::File};

use parking_lot::Mutex;
use rustix::io::{Errno, Result};

use super::tree::{Tree, errno};

/// Most directories remembered; beyond it all are forgotten, which costs a few syncs.
const REMEMBERED_MAX: usize = 4096;

/// Directories whose names, up to the root, this process has synced.
#[derive(Debug, Default)]
pub(super) struct DurableDirs {
    known: Mutex<HashSet<Vec<u8>>>,
}

/// The directory that is to hold a file, open.
#[derive(Debug)]
pub(super) struct Parent {
    /// What must be synced besides the root, the innermost last; empty where that is the root.
    chain: Vec<File>,
    /// Whether the root is among them.
    root: bool,
    /// Its path, to be remembered after the sync.
    path: Vec<u8>,
}

impl Parent {
    /// The directory itself.
    pub(super) fn directory<'a>(&'a self, tree: &'a Tree) -> &'a File {
        self.chain.last().unwrap_or(tree.root())
    }

    #[cfg(test)]
    pub(super) fn reaches_root(&self) -> bool {
        self.root
    }
}

impl DurableDirs {
    /// Opens a directory, making what is missing of it.
    pub(super) fn open(&self, tree: &Tree, path: &[u8]) -> Result<Parent> {
        let chain = |chain, root| Parent { chain, root, path: path.to_vec() };
        if path.is_empty() {
            return Ok(chain(Vec::new(), true));
        }
        if self.known.lock().contains(path) {
            match tree.directory(path) {
                // Someone removed it by hand.
                Err(Errno::NOENT) => {}
                other => return Ok(chain(vec![other?], false)),
            }
        }
        Ok(chain(tree.make_directories(path)?, true))
    }

    /// Makes a name in it durable, with all the names above it.
    pub(super) fn sync(&self, tree: &Tree, parent: &Parent) -> Result<()> {
        let root = parent.root.then_some(tree.root());
        for directory in parent.chain.iter().rev().chain(root) {
            directory.sync_all().map_err(|e| errno(&e))?;
        }
        if parent.root && !parent.path.is_empty() {
            self.remember(&parent.path);
        }
        Ok(())
    }

    fn remember(&self, path: &[u8]) {
        let ends = path.iter().enumerate().filter(|&(_, &b)| b == b'/').map(|(at, _)| at);
        let mut known = self.known.lock();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.extend(ends.chain([path.len()]).map(|end| path[..end].to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_synced_with_all_above_it_once() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(File::open(root.path()).unwrap());
        let dirs = DurableDirs::default();
        let parent = dirs.open(&tree, b"a/b").unwrap();
        assert_eq!((parent.chain.len(), parent.root), (2, true));
        // Not synced yet: another write through it must still do all of it.
        let other = dirs.open(&tree, b"a/b").unwrap();
        assert_eq!((other.chain.len(), other.root), (2, true));
        dirs.sync(&tree, &parent).unwrap();
        for known in ["a", "a/b"] {
            let parent = dirs.open(&tree, known.as_bytes()).unwrap();
            assert_eq!((parent.chain.len(), parent.root), (1, false), "{known}");
        }
        std::fs::remove_dir(root.path().join("a/b")).unwrap();
        let parent = dirs.open(&tree, b"a/b").unwrap();
        assert_eq!((parent.chain.len(), parent.root), (2, true));
    }
}
