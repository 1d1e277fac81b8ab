//! The store on a real directory.

mod boot;
mod commit;
mod keying;
mod log;
mod open;
mod poison;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::mpsc,
    time::Duration,
};

use super::*;
use crate::fence::{Key, Mark, Token};

/// Where a child process of a test finds its store.
const DIRECTORY: &str = "PALISADE_STORE_TEST";

fn keying(pattern: &str, template: &str) -> Keying {
    Keying { pattern: pattern.into(), template: template.into() }
}

fn upstream(name: &str) -> UpstreamFacts {
    UpstreamFacts {
        name: name.into(),
        address: format!("http://{name}:80"),
        lifetime: Duration::from_secs(10),
        unfenced: false,
        keying: vec![keying("/{*object}", "{object}")],
    }
}

fn options(directory: &Path) -> Options {
    Options {
        path: directory.join("data/fences"),
        create: Create::IfMissing,
        page_cache: 8 << 20,
        fresh: false,
        rekey: Vec::new(),
        upstreams: vec![upstream("files")],
    }
}

/// Patterns overlap where one's part before its first variable begins the other's.
fn overlaps(one: &str, other: &str) -> bool {
    let fixed = |pattern: &str| pattern.split('{').next().unwrap_or_default().to_owned();
    let (one, other) = (fixed(one), fixed(other));
    one.starts_with(&other) || other.starts_with(&one)
}

fn start(options: &Options) -> (Store, Boot) {
    let Opened { store, boot } = open(options, overlaps, None).unwrap();
    (store, boot)
}

fn refusal(options: &Options) -> OpenError {
    open(options, overlaps, None).expect_err("the start must be refused")
}

/// Asks and waits for the answer.
fn ask<T: Send + 'static>(call: impl FnOnce(Done<T>)) -> Result<T, StoreError> {
    let (tell, told) = mpsc::channel();
    call(Box::new(move |result| tell.send(result).unwrap()));
    told.recv().unwrap()
}

fn key(path: &str) -> Key {
    Key::new(UpstreamId(1), path.as_bytes()).unwrap()
}

fn mark(token: u64, contested: bool) -> Mark {
    Mark { token: Some(Token::new(token)), contested, holder: None }
}

fn raise(store: &Store, path: &str, mark: Mark) -> Mark {
    ask(|done| store.raise(key(path), mark, done)).unwrap()
}

fn find(store: &Store, path: &str) -> Option<Mark> {
    ask(|done| store.find(key(path), done)).unwrap()
}

/// The files as a kill -9 at this moment would leave them, as a store of their own.
fn image(options: &Options, to: &Path) -> Options {
    let image = Options { path: to.join("image"), ..options.clone() };
    std::fs::create_dir_all(&image.path).unwrap();
    for name in ["initialised", "marks.db", "marks.db-wal"] {
        let from = options.path.join(name);
        if from.exists() {
            std::fs::copy(from, image.path.join(name)).unwrap();
        }
    }
    image
}

/// Runs one ignored test of this binary in a process of its own, `before` it a line of shell.
fn child(test: &str, directory: &Path, before: &str) -> Output {
    let binary: PathBuf = std::env::current_exe().unwrap();
    Command::new("sh")
        .args(["-c", &format!("{before} exec \"$0\" \"$@\"")])
        .arg(binary)
        .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .output()
        .unwrap()
}

/// The directory of the parent's test, in a child.
fn parents_directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}
