//! Disks that fail under the running process: errors of writes and syncs, no room, no leave to
//! write, a store that is taken away. Nothing is acknowledged that is not there (R2), the process
//! ends with the reason, and the next start has all that was answered for.

use std::{fs, path::Path};

use super::{
    shim::{EIO, EROFS, Shim, Word},
    trace::{self, Event},
};
use crate::harness::{
    Backend, Config, Palisade, Request, Response, endless, hold, put, side_by_side, until, write,
};

/// More raises than any fault here needs to be met.
const MANY: u64 = 3000;

struct Fault {
    name: &'static str,
    words: &'static [(Word, i64)],
    /// What the process says at its end.
    says: &'static str,
}

/// The last bytes of the names of the log, the database and the directory.
const LOG: i64 = b'l' as i64;
const DATABASE: i64 = b'b' as i64;
const DIRECTORY: i64 = b's' as i64;

const FAULTS: [Fault; 11] = [
    Fault { name: "a write", words: &[(Word::WriteError, EIO)], says: "disk I/O error" },
    Fault {
        name: "a later write of a commit",
        words: &[(Word::WriteError, EIO), (Word::WriteSkip, 3)],
        says: "disk I/O error",
    },
    Fault { name: "a sync", words: &[(Word::SyncError, EIO)], says: "disk I/O error" },
    Fault {
        name: "one sync, where another would succeed",
        words: &[(Word::SyncError, EIO), (Word::Once, 1)],
        says: "disk I/O error",
    },
    Fault {
        name: "a later sync",
        words: &[(Word::SyncError, EIO), (Word::SyncSkip, 7), (Word::Only, LOG)],
        says: "disk I/O error",
    },
    Fault { name: "no room", words: &[(Word::Room, 1)], says: "full" },
    Fault { name: "room for a part of a frame", words: &[(Word::Room, 2000)], says: "full" },
    Fault { name: "room for some commits", words: &[(Word::Room, 100_000)], says: "full" },
    Fault {
        name: "a disk that turned read-only",
        words: &[(Word::WriteError, EROFS), (Word::SyncError, EROFS)],
        says: "disk I/O error",
    },
    Fault {
        name: "the sync of a checkpoint",
        words: &[(Word::SyncError, EIO), (Word::Once, 1), (Word::Only, DATABASE)],
        says: "writing back the log",
    },
    Fault {
        name: "a write of a checkpoint",
        words: &[(Word::WriteError, EIO), (Word::WriteSkip, 5), (Word::Only, DATABASE)],
        says: "writing back the log",
    },
];

const AT_A_START: [Fault; 5] = [
    Fault { name: "no room", words: &[(Word::Room, 1)], says: "No space left" },
    Fault {
        name: "read-only",
        words: &[(Word::WriteError, EROFS), (Word::SyncError, EROFS)],
        says: "Read-only file system",
    },
    Fault {
        name: "a sync of the log",
        words: &[(Word::SyncError, EIO), (Word::Only, LOG), (Word::Once, 1)],
        says: "disk I/O error",
    },
    Fault {
        name: "a sync of the database",
        words: &[(Word::SyncError, EIO), (Word::Only, DATABASE), (Word::Once, 1)],
        says: "disk I/O error",
    },
    Fault {
        // SQLite syncs it, too, and does not look at what comes of that: ours is the one that counts.
        name: "every sync of the directory",
        words: &[(Word::SyncError, EIO), (Word::Only, DIRECTORY)],
        says: "sync the directory",
    },
];

fn start(backend: &Backend) -> (Palisade, Shim) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("disk")).unwrap();
    let shim = Shim::new(dir.path());
    let config = Shim::under(endless(backend.addr()));
    (Palisade::start_in(dir, &config, &["--fresh"]), shim)
}

#[test]
fn a_disk_that_fails_ends_the_process_and_loses_nothing_that_was_answered() {
    side_by_side(&FAULTS, |fault| fault.name.to_string(), a_disk_fails);
}

fn a_disk_fails(fault: &Fault) {
    let backend = Backend::start();
    let (mut palisade, shim) = start(&backend);
    // An open write lets the end be looked at: it may run to its outcome (R8).
    let (mut held, latch) = hold(&backend, &palisade, "/held", "1");
    for (word, value) in fault.words {
        shim.set(*word, *value);
    }
    let admitted = raise_until_refused(&backend, &palisade);
    for path in ["/readyz", "/livez"] {
        let health = || Request::new("GET", path).send(palisade.admin());
        until("the process says that it must be restarted", || health().status() == 503);
        let words = String::from_utf8(health().body).unwrap();
        assert!(words.contains(fault.says), "{path}: {words}");
    }
    latch.open();
    held.response().assert_status(201);
    assert_eq!(palisade.until_ended().code(), Some(1), "{}", palisade.stderr());
    let place = palisade.home().join("disk/fences");
    palisade.until_said(&format!("error: stopped because the store at {} failed", place.display()));
    let said = palisade.stderr();
    assert!(said.contains(fault.says), "{said}");
    assert!(!said.contains("stopped clean"), "{said}");
    assert_no_sync_is_tried_again(&shim);

    shim.heal();
    palisade.restart();
    assert!(palisade.metric("palisade_quarantine_seconds") > 0.0, "no clean mark");
    for (key, token) in admitted {
        let below = put(&key, &(token - 1).to_string()).send(palisade.addr());
        below.assert_refused(412, "stale-token");
        assert_eq!(below.field("fencing-highest"), Some(token.to_string().as_str()), "{key}");
    }
}

/// Keys and tokens that were let through, until one was not: it never came to the store.
fn raise_until_refused(backend: &Backend, palisade: &Palisade) -> Vec<(String, u64)> {
    let mut admitted = Vec::new();
    for n in 0..MANY {
        // Long ones: few share a page, so that a checkpoint comes soon.
        let key = format!("/{n}-{}", "x".repeat(900));
        let token = n + 10;
        let answer = put(&key, &token.to_string()).try_send(palisade.addr());
        if !answer.as_ref().is_some_and(Response::is_success) {
            // Beside a checkpoint that failed the listener may be closed by now.
            if let Some(answer) = answer {
                answer.assert_refused(503, "store-unavailable");
                assert_eq!(answer.outcome(), "not-applied");
            }
            assert_eq!(backend.log().count(&token.to_string()), 0, "{token} was forwarded");
            return admitted;
        }
        admitted.push((key, token));
    }
    panic!("the fault was not met");
}

/// No file whose sync has failed is synced again; a commit of the log that was under way beside a
/// failing checkpoint may end.
fn assert_no_sync_is_tried_again(shim: &Shim) {
    let log = fs::read(shim.log()).unwrap();
    let mut failed = None;
    for entry in trace::read(&log) {
        match entry.event {
            Event::SyncFailed { inode } => {
                assert!(failed.replace(inode).is_none(), "{entry:?}");
            }
            Event::Sync { inode } => assert_ne!(failed, Some(inode), "{entry:?}"),
            Event::Open { .. }
            | Event::Write { .. }
            | Event::Truncate { .. }
            | Event::Rename { .. }
            | Event::Unlink { .. }
            | Event::MakeDirectory { .. } => {}
        }
    }
}

#[test]
fn a_start_on_a_disk_that_fails_is_refused_with_the_reason() {
    let backend = Backend::start();
    let (mut palisade, shim) = start(&backend);
    let config = Shim::under(endless(backend.addr()));
    write(&palisade, "5").assert_status(201);
    palisade.kill9();
    for Fault { name, words, says } in &AT_A_START {
        for (word, value) in *words {
            shim.set(*word, *value);
        }
        let (code, said) = palisade.refuses_to_start(&config, &[]);
        assert_eq!(code, Some(1), "{name}: {said}");
        assert!(said.contains(*says) && said.contains("fences"), "{name}: {said}");
        shim.heal();
    }
    palisade.restart();
    assert!(palisade.metric("palisade_quarantine_seconds") > 0.0, "no clean mark");
    write(&palisade, "4").assert_refused(412, "stale-token");
    write(&palisade, "5").assert_status(201);
}

type Taking = (&'static str, fn(&Path), &'static str, &'static str);

/// How a store is taken away, what the process says, and what the next start does.
const TAKEN: [Taking; 6] = [
    ("the directory", |store| fs::remove_dir_all(store).unwrap(), "fences was removed", "no store"),
    (
        "the directory, another in its place",
        |store| {
            fs::rename(store, store.with_extension("old")).unwrap();
            fs::create_dir(store).unwrap();
        },
        "fences was removed or replaced",
        "no store",
    ),
    (
        "the database",
        |store| fs::remove_file(store.join("marks.db")).unwrap(),
        "marks.db was removed",
        "marks.db is missing",
    ),
    (
        "the log",
        |store| fs::remove_file(store.join("marks.db-wal")).unwrap(),
        "marks.db-wal was removed",
        "marks.db-wal is missing",
    ),
    (
        "what is in the log",
        |store| {
            let log = store.join("marks.db-wal");
            fs::File::options().write(true).open(log).unwrap().set_len(0).unwrap();
        },
        // Cut short; or removed, for whoever looks after it was set aside.
        "marks.db-wal was",
        "marks.db-wal was cut short",
    ),
    (
        "an older copy over the log",
        |store| {
            fs::copy(store.join("marks.db-wal"), store.join("copy")).unwrap();
            fs::rename(store.join("copy"), store.join("marks.db-wal")).unwrap();
        },
        "marks.db-wal was removed or replaced",
        "",
    ),
];

#[test]
fn a_store_that_is_taken_away_ends_the_process() {
    let raised = |raises| move |taking: &Taking| a_store_is_taken_away(taking, raises);
    side_by_side(&TAKEN, |taking| format!("{}, raised", taking.0), raised(true));
    side_by_side(&TAKEN, |taking| format!("{}, at rest", taking.0), raised(false));
}

fn a_store_is_taken_away((_, take, says, refusal): &Taking, raises: bool) {
    let backend = Backend::start();
    let config: Config = endless(backend.addr());
    let mut palisade = Palisade::start(&config);
    write(&palisade, "5").assert_status(201);
    take(&palisade.home().join("fences"));
    if raises {
        // Noticed at once, or by then already: the listener may be closed.
        let answer = put("/k", "6").try_send(palisade.addr());
        if let Some(answer) = answer {
            answer.assert_refused(503, "store-unavailable");
        }
    }
    assert_eq!(palisade.until_ended().code(), Some(1), "{}", palisade.stderr());
    palisade.until_said(says);
    assert_eq!(backend.log().effects("/k"), ["5"]);
    if !refusal.is_empty() {
        let (code, said) = palisade.refuses_to_start(&config, &[]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(refusal), "{said}");
    }
}
