//! Damage to a store's files, four bytes a step, and a start on what is left: it never panics, it
//! gives the marks or a refusal. A refusal stays one when it is tried again, and so do the marks
//! where the damage is the log's.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{LazyLock, mpsc},
    time::Duration,
};

use palisade::{
    fence::{Key, Mark, Token, UpstreamId},
    proxy::overlaps_text,
    store::{Create, Done, Keying, Opened, Options, Store, StoreError, TokenStore, UpstreamFacts},
};

const DATABASE: &str = "marks.db";
const LOG: &str = "marks.db-wal";
const MARKER: &str = "initialised";

/// Commits in the log, and keys that they raise in turn.
const COMMITS: u64 = 12;
const KEYS: [&str; 3] = ["a", "b", "c"];

/// What is known of every key: its token, or that it cannot be read.
type State = BTreeMap<&'static str, Option<u64>>;

/// A store as a kill leaves it: a part of its marks in the database, the others in the log.
struct Image {
    files: [(&'static str, Vec<u8>); 3],
    /// What was durable after each commit, the first before any of them.
    states: Vec<State>,
}

static IMAGE: LazyLock<Image> = LazyLock::new(Image::make);

pub fn run(data: &[u8]) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = options(directory.path());
    let mut files = IMAGE.files.clone();
    let hurt: Vec<Hurt> =
        data.chunks_exact(4).take(8).filter_map(|step| harm(&mut files, step)).collect();
    fs::create_dir_all(&options.path).expect("a directory");
    for (name, bytes) in &files {
        // An empty name stands for a file that was removed.
        if !name.is_empty() {
            fs::write(options.path.join(name), bytes).expect("a file");
        }
    }
    let Some(first) = start(&options) else {
        return assert!(start(&options).is_none(), "a refusal that heals itself: {hurt:?}");
    };
    let second = start(&options);
    if hurt.contains(&Hurt::Elsewhere) {
        // The database's pages have no checksums: what a start does not see is not held against it.
        return;
    }
    assert_eq!(second.as_ref(), Some(&first), "another answer: {hurt:?}");
    // Nothing but the log was touched, and it has checksums: what is found was there once.
    let prefix = IMAGE.states.iter().position(|state| *state == first);
    let prefix = prefix.unwrap_or_else(|| panic!("{first:?} never was: {hurt:?}"));
    // See `store/wal.rs`: damage up to the commit before the last one's end cannot be a torn tail.
    if matches!(hurt[..], [] | [Hurt::LogInPlace]) {
        assert!(prefix + 2 >= IMAGE.states.len() - 1, "commits are lost: {prefix} after {hurt:?}");
    }
}

/// What a step has touched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Hurt {
    LogInPlace,
    LogCut,
    Elsewhere,
}

/// Carries out one step, `[what, where, where, value]`; `None` where it changes nothing.
fn harm(files: &mut [(&'static str, Vec<u8>); 3], step: &[u8]) -> Option<Hurt> {
    let &[what, high, low, value] = step else { return None };
    let (file, hurt) = match what % 16 {
        0..=4 => (2, Hurt::LogInPlace),
        5..=7 => (2, Hurt::LogCut),
        8 => {
            files[2].0 = "";
            return Some(Hurt::Elsewhere);
        }
        9..=13 => (1, Hurt::Elsewhere),
        _ => (0, Hurt::Elsewhere),
    };
    let bytes = &mut files[file].1;
    let before = bytes.clone();
    let at = usize::from(u16::from_be_bytes([high, low])) * bytes.len() / 65536;
    match what % 16 {
        0..=3 | 9 | 10 | 14 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= value),
        4 | 11 => bytes.iter_mut().skip(at).take(512).for_each(|byte| *byte = 0),
        5 | 12 | 15 => bytes.truncate(at),
        6 => bytes.extend(std::iter::repeat_n(value, at % 5000)),
        7 => bytes.copy_within(at.., at.saturating_sub(usize::from(value) * 16)),
        _ => bytes.iter_mut().skip(at).step_by(97).for_each(|byte| *byte ^= value),
    }
    (*bytes != before).then_some(hurt)
}

impl Image {
    fn make() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let options = Options { create: Create::IfMissing, ..options(directory.path()) };
        let store = open(&options).expect("a new store");
        raise(&store, "a", 1);
        raise(&store, "b", 2);
        store.close(true).expect("a clean stop");
        let store = open(&options).expect("the store");
        let mut states = vec![BTreeMap::from([("a", Some(1)), ("b", Some(2)), ("c", None)])];
        for n in 0..COMMITS {
            let key = KEYS[n as usize % KEYS.len()];
            raise(&store, key, 10 + n);
            let mut state = states.last().cloned().unwrap_or_default();
            state.insert(key, Some(10 + n));
            states.push(state);
        }
        let file = |name| (name, fs::read(options.path.join(name)).expect("a file of the store"));
        let mut files = [MARKER, DATABASE, LOG].map(file);
        // Of the room that was made behind the commits a little: most steps are to meet something.
        let written = files[2].1.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        files[2].1.truncate(written + 4096);
        assert!(files[2].1.len() > 4096 * COMMITS as usize, "the commits are in the log");
        store.close(false).expect("a stop");
        Self { files, states }
    }
}

fn options(directory: &Path) -> Options {
    Options {
        path: directory.join("fences"),
        create: Create::Never,
        page_cache: 1 << 20,
        fresh: false,
        rekey: Vec::new(),
        upstreams: vec![UpstreamFacts {
            name: "files".to_owned(),
            address: "http://files:80".to_owned(),
            lifetime: Duration::from_secs(10),
            unfenced: false,
            keying: vec![Keying { pattern: "/{*}".to_owned(), template: "{0..}".to_owned() }],
        }],
    }
}

fn open(options: &Options) -> Result<Store, palisade::store::OpenError> {
    palisade::store::open(options, overlaps_text, None).map(|Opened { store, .. }| store)
}

/// A start, everything that it finds, and a stop; `None` where the start is refused.
fn start(options: &Options) -> Option<State> {
    let store = match open(options) {
        Ok(store) => store,
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            return None;
        }
    };
    let found = |path: &'static str| {
        let found = ask(|done| store.find(key(path), done));
        (path, found.ok().flatten().and_then(|mark| mark.token).map(|token| token.counter))
    };
    let state = KEYS.map(found).into_iter().collect();
    let listed = ask(|done| store.list(Vec::new(), None, 100, done));
    assert!(listed.is_err() || listed.is_ok_and(|listed| listed.len() <= 100));
    // Whatever is broken, everything that is asked is answered.
    let _ = ask(|done| store.raise(key("other"), mark(1), done));
    let _ = store.close(false);
    Some(state)
}

fn raise(store: &Store, path: &str, token: u64) {
    ask(|done| store.raise(key(path), mark(token), done)).expect("a raise");
}

fn key(path: &str) -> Key {
    Key::new(UpstreamId(1), path.as_bytes()).expect("a short key")
}

fn mark(token: u64) -> Mark {
    Mark { token: Some(Token::new(token)), contested: false, holder: None }
}

/// Asks and waits for the answer, which must come.
fn ask<T: Send + 'static>(call: impl FnOnce(Done<T>)) -> Result<T, StoreError> {
    let (tell, told) = mpsc::channel();
    call(Box::new(move |result| drop(tell.send(result))));
    told.recv_timeout(Duration::from_mins(1)).expect("an answer")
}
