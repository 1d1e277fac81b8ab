//! The directory as a tree of descriptors: whatever is opened here lies below the root.
//!
//! Names are resolved by the kernel under `openat2(RESOLVE_BENEATH, no symlinks)`, or segment by
//! segment with `O_NOFOLLOW` where that call is missing; both answer `ELOOP` for a symlink
//! anywhere in the path. No path is ever joined to the root's name.

use std::fs::File;

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, mkdirat, openat, openat2},
    io::{Errno, Result},
};

use super::path::RelPath;

const DIRECTORY: OFlags = OFlags::DIRECTORY;

/// The root's descriptor, and how to go down from it.
#[derive(Debug)]
pub(super) struct Tree {
    root: File,
    /// The kernel resolves whole paths for us.
    openat2: bool,
}

/// An error of the standard library as the kernel's.
pub(super) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Tree {
    /// Over an open directory.
    pub(super) fn new(root: File) -> Self {
        let mut tree = Self { root, openat2: true };
        // A sandbox may answer EPERM for a call that it does not know.
        if let Err(Errno::NOSYS | Errno::PERM) = tree.resolve(b".", OFlags::PATH | DIRECTORY) {
            tree.openat2 = false;
        }
        tree
    }

    /// The root itself, fit to be synced.
    pub(super) fn root(&self) -> &File {
        &self.root
    }

    /// Opens a file to be read; never waits for the other end of a FIFO. `ENXIO` for a socket.
    pub(super) fn open_to_read(&self, path: &RelPath) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        if self.openat2 {
            return self.resolve(path.as_bytes(), flags);
        }
        let parent = self.walk(path.parent())?;
        open_at(parent.as_ref().unwrap_or(&self.root), path.name(), flags)
    }

    /// Looks at what a path names, without opening it or following it.
    pub(super) fn look_at(&self, path: &RelPath) -> Result<File> {
        let parent = self.directory(path.parent())?;
        open_at(&parent, path.name(), OFlags::PATH)
    }

    /// Opens a directory, fit to be synced; empty is the root.
    pub(super) fn directory(&self, path: &[u8]) -> Result<File> {
        if path.is_empty() {
            return open_at(&self.root, b".", OFlags::RDONLY | DIRECTORY);
        }
        if self.openat2 {
            return self.resolve(path, OFlags::RDONLY | DIRECTORY);
        }
        self.walk(path)?.ok_or(Errno::NOENT)
    }

    /// Opens every directory on the way down to `path`, and makes those that are missing.
    pub(super) fn make_directories(&self, path: &[u8]) -> Result<Vec<File>> {
        let mut chain: Vec<File> = Vec::new();
        for segment in path.split(|&b| b == b'/') {
            let at = chain.last().unwrap_or(&self.root);
            let next = match open_directory(at, segment) {
                Err(Errno::NOENT) => make_directory(at, segment)?,
                other => other?,
            };
            chain.push(next);
        }
        Ok(chain)
    }

    fn resolve(&self, path: &[u8], flags: OFlags) -> Result<File> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // Not O_NOFOLLOW: with O_DIRECTORY it would say ENOTDIR where `resolve` says ELOOP.
        openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).map(File::from)
    }

    /// The directory at `path`, segment by segment; none where it is the root.
    fn walk(&self, path: &[u8]) -> Result<Option<File>> {
        let mut at = None;
        if !path.is_empty() {
            for segment in path.split(|&b| b == b'/') {
                at = Some(open_directory(at.as_ref().unwrap_or(&self.root), segment)?);
            }
        }
        Ok(at)
    }
}

fn open_at(at: &File, name: &[u8], flags: OFlags) -> Result<File> {
    openat(at, name, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty()).map(File::from)
}

/// `O_NOFOLLOW` with `O_DIRECTORY` says `ENOTDIR` for a symlink; it is told apart here.
fn open_directory(at: &File, name: &[u8]) -> Result<File> {
    match open_at(at, name, OFlags::RDONLY | DIRECTORY) {
        Err(Errno::NOTDIR) => {
            let link = open_at(at, name, OFlags::PATH)?.metadata().map_err(|e| errno(&e))?;
            Err(if link.is_symlink() { Errno::LOOP } else { Errno::NOTDIR })
        }
        other => other,
    }
}

fn make_directory(at: &File, name: &[u8]) -> Result<File> {
    match mkdirat(at, name, Mode::from_raw_mode(0o777)) {
        // Another write made it first.
        Ok(()) | Err(Errno::EXIST) => open_directory(at, name),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    /// Both ways down must say the same of everything that may stand in the way.
    #[test]
    fn both_ways_down_agree() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::write(dir.path().join("outside/secret"), "secret").unwrap();
        fs::write(root.join("a/file"), "x").unwrap();
        symlink("../../outside", root.join("a/out")).unwrap();
        symlink("file", root.join("a/link")).unwrap();
        symlink("nowhere", root.join("a/dangling")).unwrap();
        symlink("/", root.join("slash")).unwrap();
        let fast = Tree::new(File::open(&root).unwrap());
        assert!(fast.openat2, "this kernel has openat2");
        let slow = Tree { root: File::open(&root).unwrap(), openat2: false };
        for (path, expected) in [
            ("a/file", Ok(())),
            ("a/none", Err(Errno::NOENT)),
            ("none/none", Err(Errno::NOENT)),
            ("a/file/x", Err(Errno::NOTDIR)),
            ("a/link", Err(Errno::LOOP)),
            ("a/dangling", Err(Errno::LOOP)),
            ("a/out", Err(Errno::LOOP)),
            ("a/out/secret", Err(Errno::LOOP)),
            ("slash/etc/passwd", Err(Errno::LOOP)),
        ] {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            for tree in [&fast, &slow] {
                assert_eq!(tree.open_to_read(&path).map(drop), expected, "{path:?} {tree:?}");
            }
        }
        for (path, expected) in [
            ("a/b", Ok(())),
            ("", Ok(())),
            ("a/file", Err(Errno::NOTDIR)),
            ("a/none", Err(Errno::NOENT)),
        ] {
            for tree in [&fast, &slow] {
                assert_eq!(tree.directory(path.as_bytes()).map(drop), expected, "{path:?}");
            }
        }
        for path in ["a/out", "a/out/b", "a/link", "slash"] {
            assert_eq!(fast.directory(path.as_bytes()).map(drop), Err(Errno::LOOP));
            assert_eq!(slow.directory(path.as_bytes()).map(drop), Err(Errno::LOOP));
            assert_eq!(fast.make_directories(path.as_bytes()).map(drop), Err(Errno::LOOP));
        }
        assert_eq!(fast.make_directories(b"a/c/d").unwrap().len(), 3);
        assert!(root.join("a/c/d").is_dir());
    }
}
