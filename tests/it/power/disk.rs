//! A disk as the record made it: for each file and directory what is on the disk for sure, what may
//! be, and what the process saw.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use fastrand::Rng;

use super::{
    image::{Kept, Kind},
    trace::Event,
};

/// Which syncs count, by the file and by whether the store has been made; the others are left out, as
/// by a disk or a program that lies.
pub type Honoured = fn(&Path, bool) -> bool;

/// A change of a file that was not synced yet.
#[derive(Clone, Copy)]
pub enum Change<'t> {
    Write { at: usize, data: &'t [u8] },
    Length(usize),
}

impl Change<'_> {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { at, data } => {
                let end = at + data.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*at..end].copy_from_slice(data);
            }
            Self::Length(length) => to.resize(*length, 0),
        }
    }
}

#[derive(Default)]
pub struct File<'t> {
    durable: Vec<u8>,
    pending: Vec<Change<'t>>,
    /// As the process sees it.
    seen: Vec<u8>,
    /// What was cut off it: what a disk may hand out again as new space.
    past: Vec<u8>,
}

/// A change of a directory that was not synced yet.
#[derive(Clone)]
enum Naming {
    Put(String, usize),
    Gone(String),
    /// Both names change, or neither.
    Moved {
        from: String,
        to: String,
        node: usize,
    },
}

#[derive(Default)]
struct Directory {
    durable: BTreeMap<String, usize>,
    pending: Vec<Naming>,
    seen: BTreeMap<String, usize>,
}

enum Node<'t> {
    File(File<'t>),
    Directory(Directory),
}

/// A disk below one directory, which is there before anything else.
pub struct Disk<'t> {
    root: PathBuf,
    nodes: Vec<Node<'t>>,
    paths: Vec<PathBuf>,
    by_inode: HashMap<u64, usize>,
    honoured: Honoured,
    /// The one rename of a store's life has happened: its making is over.
    made: bool,
}

impl<'t> Disk<'t> {
    pub fn new(root: &Path, honoured: Honoured) -> Self {
        let nodes = vec![Node::Directory(Directory::default())];
        let (paths, by_inode) = (vec![root.to_owned()], HashMap::new());
        Self { root: root.to_owned(), nodes, paths, by_inode, honoured, made: false }
    }

    /// Plays one event. `rng` decides what a failed sync had brought to the disk.
    pub fn play(&mut self, event: &Event<'t>, rng: &mut Rng) {
        match event {
            Event::Open { path, inode, empties } => {
                let node = self.opened(path, *inode);
                if *empties {
                    self.change(node, Change::Length(0));
                }
            }
            Event::Write { inode, at, data } => {
                self.change(self.by_inode[inode], Change::Write { at: *at, data });
            }
            Event::Truncate { inode, length } => {
                self.change(self.by_inode[inode], Change::Length(*length));
            }
            Event::Sync { inode } => self.sync(self.by_inode[inode]),
            Event::SyncFailed { inode } => self.fail(self.by_inode[inode], rng),
            Event::Rename { from, to } => {
                let node = self.node(from).expect("a file to rename");
                self.made = true;
                self.paths[node].clone_from(to);
                self.name(from, Naming::Moved { from: name(from), to: name(to), node });
            }
            Event::Unlink { path } => self.name(path, Naming::Gone(name(path))),
            Event::MakeDirectory { path } => {
                let node = self.add(path, Node::Directory(Directory::default()));
                self.name(path, Naming::Put(name(path), node));
            }
        }
    }

    fn add(&mut self, path: &Path, node: Node<'t>) -> usize {
        self.nodes.push(node);
        self.paths.push(path.to_owned());
        self.nodes.len() - 1
    }

    fn opened(&mut self, path: &Path, inode: u64) -> usize {
        let node = self.node(path).unwrap_or_else(|| {
            let node = self.add(path, Node::File(File::default()));
            self.name(path, Naming::Put(name(path), node));
            node
        });
        self.by_inode.insert(inode, node);
        node
    }

    /// What the process finds at a path.
    fn node(&self, path: &Path) -> Option<usize> {
        let within = path.strip_prefix(&self.root).unwrap();
        within.iter().try_fold(0, |node, name| match &self.nodes[node] {
            Node::Directory(directory) => directory.seen.get(name.to_str().unwrap()).copied(),
            Node::File(_) => None,
        })
    }

    /// The directory that a path is in, changed.
    fn name(&mut self, path: &Path, naming: Naming) {
        let parent = self.node(path.parent().unwrap()).expect("a directory");
        let Node::Directory(directory) = &mut self.nodes[parent] else { panic!("a file") };
        rename(&mut directory.seen, &naming);
        directory.pending.push(naming);
    }

    fn change(&mut self, node: usize, change: Change<'t>) {
        let Node::File(file) = &mut self.nodes[node] else { panic!("a write to a directory") };
        if let Change::Length(length) = change
            && length < file.seen.len()
        {
            Change::Write { at: 0, data: &file.seen }.apply(&mut file.past);
        }
        change.apply(&mut file.seen);
        file.pending.push(change);
    }

    fn sync(&mut self, node: usize) {
        if !(self.honoured)(&self.paths[node], self.made) {
            return;
        }
        match &mut self.nodes[node] {
            Node::File(file) => {
                for change in file.pending.drain(..) {
                    change.apply(&mut file.durable);
                }
            }
            Node::Directory(directory) => {
                for naming in directory.pending.drain(..) {
                    rename(&mut directory.durable, &naming);
                }
            }
        }
    }

    /// A failed sync: the kernel shows the bytes, holds them for clean, and never writes them again.
    fn fail(&mut self, node: usize, rng: &mut Rng) {
        let Node::File(file) = &mut self.nodes[node] else { panic!("a directory's failed sync") };
        let kind = if rng.bool() { Kind::Nothing } else { Kind::Sectors };
        file.durable = file.image(kind, rng);
        file.pending.clear();
    }

    /// The files as the process sees them, by name.
    pub fn seen(&self) -> BTreeMap<PathBuf, &[u8]> {
        let mut files = BTreeMap::new();
        self.walk(0, &self.root, &|directory| directory.seen.clone(), &mut |path, file| {
            files.insert(path.to_owned(), file.seen.as_slice());
        });
        files
    }

    /// How many changes may be on the disk or not.
    pub fn unsynced(&self) -> usize {
        let unsynced = |node: &Node<'_>| match node {
            Node::File(file) => file.pending.len(),
            Node::Directory(directory) => directory.pending.len(),
        };
        self.nodes.iter().map(unsynced).sum()
    }

    /// Writes a disk that a loss of power at this moment may leave, to another root.
    pub fn write_image(&self, kind: Kind, rng: &mut Rng, to: &Path) {
        let names = std::cell::RefCell::new(rng.fork());
        let entries = |directory: &Directory| {
            let mut entries = directory.durable.clone();
            for naming in &directory.pending {
                if kind.keeps_name(&mut names.borrow_mut()) {
                    rename(&mut entries, naming);
                }
            }
            entries
        };
        std::fs::create_dir_all(to).unwrap();
        self.walk(0, to, &entries, &mut |path, file| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            // Memory that the processes of one life share; it is made anew.
            let shared = path.to_string_lossy().ends_with("-shm");
            let bytes = if shared { vec![0xa5; 32768] } else { file.image(kind, rng) };
            std::fs::write(path, bytes).unwrap();
        });
    }

    fn walk<'a>(
        &'a self,
        node: usize,
        path: &Path,
        entries: &impl Fn(&Directory) -> BTreeMap<String, usize>,
        to: &mut impl FnMut(&Path, &'a File<'t>),
    ) {
        match &self.nodes[node] {
            Node::File(file) => to(path, file),
            Node::Directory(directory) => {
                for (name, node) in entries(directory) {
                    self.walk(node, &path.join(name), entries, to);
                }
            }
        }
    }
}

impl File<'_> {
    /// The file's bytes, where a part of what was not synced is kept.
    fn image(&self, kind: Kind, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.pending {
            match change {
                Change::Length(_) if kind.keeps_length(rng) => change.apply(&mut bytes),
                Change::Length(_) => {}
                Change::Write { at, data } => match kind.keeps_write(rng) {
                    Kept::Lost => {}
                    Kept::Whole => change.apply(&mut bytes),
                    Kept::Torn(unit) => self.tear(*at, data, unit, kind, rng, &mut bytes),
                },
            }
        }
        bytes
    }

    /// A write of which each sector or page came to the disk, or did not. The file is as long as if
    /// all had; what is new space then holds zeros, or what the file held there before.
    fn tear(
        &self,
        at: usize,
        data: &[u8],
        unit: usize,
        kind: Kind,
        rng: &mut Rng,
        to: &mut Vec<u8>,
    ) {
        let (old, end) = (to.len(), at + data.len());
        if old < end {
            to.resize(end, 0);
            let past = self.past.get(old..end.min(self.past.len())).unwrap_or_default();
            if kind == Kind::Stale {
                to[old..old + past.len()].copy_from_slice(past);
            }
        }
        let mut from = at;
        while from < end {
            let next = end.min((from / unit + 1) * unit);
            if kind.keeps_part(rng) {
                to[from..next].copy_from_slice(&data[from - at..next - at]);
            }
            from = next;
        }
    }
}

fn rename(entries: &mut BTreeMap<String, usize>, naming: &Naming) {
    match naming {
        Naming::Put(name, node) => drop(entries.insert(name.clone(), *node)),
        Naming::Gone(name) => drop(entries.remove(name)),
        Naming::Moved { from, to, node } => {
            entries.remove(from);
            entries.insert(to.clone(), *node);
        }
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}
