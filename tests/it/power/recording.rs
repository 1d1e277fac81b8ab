//! A few lives of a palisade, recorded: what it did to its disk and what it answered for.

use std::{
    fs,
    ops::Range,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use super::{
    promise::{Promise, Promises, What},
    shim::{EIO, Shim, Word},
};
use crate::harness::{Backend, Config, Palisade, Request, Response, claim, put, until};

const REASON: &str = r#"{"reason":"a test"}"#;
const CONFIRMED: &str = r#"{"reason":"a test","i_know_the_store_will_not_apply_it":true}"#;
/// Writers at one time, so that raises share commits.
const WRITERS: u64 = 12;
/// Frames of the log after which the next checkpoint is near: see `store/checkpoint.rs`.
const NEARLY_DUE: usize = 1000;
const FRAME: usize = 24 + 4096;

/// What was recorded.
pub struct Recording {
    /// Ended; its directory and configuration stay.
    pub palisade: Palisade,
    backend: Backend,
    pub log: Vec<u8>,
    pub promises: Promises,
    /// From the moment at which a life listened to the one at which it was told to stop clean: in
    /// between no clean mark may be found.
    pub served: Vec<Range<u64>>,
}

struct Recorder {
    palisade: Palisade,
    shim: Shim,
    promises: Promises,
    served: Vec<Range<u64>>,
    listening: u64,
    next: AtomicU64,
}

/// Makes the recording. Each life ends as its function says.
pub fn record() -> Recording {
    let backend = Backend::start();
    let config = Shim::under(config(&backend));
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("disk")).unwrap();
    let shim = Shim::new(dir.path());
    // A sync takes its time, so that an answer before its end shows.
    shim.set(Word::Delay, 1000);
    let palisade = Palisade::start_in(dir, &config, &["--fresh"]);
    let listening = shim.moment();
    let (promises, served, next) = (Promises::default(), Vec::new(), AtomicU64::new(1));
    let mut recorder = Recorder { palisade, shim, promises, served, listening, next };
    recorder.the_first_life();
    recorder.a_life_with_checkpoints();
    recorder.a_life_that_begins_in_quarantine();
    recorder.a_life_after_a_failed_sync();
    let Recorder { palisade, shim, promises, served, .. } = recorder;
    let log = fs::read(shim.log()).unwrap();
    Recording { palisade, backend, log, promises, served }
}

fn config(backend: &Backend) -> Config {
    Config::http(backend.addr()).upstream("max_write_lifetime", "1s")
}

impl Recording {
    /// What the lives were configured as, but for the library before them.
    pub fn config(&self) -> Config {
        config(&self.backend)
    }
}

impl Recorder {
    fn the_first_life(&mut self) {
        self.raise_side_by_side(8, short);
        self.operate();
        self.stop_clean();
    }

    /// A log that is written back and begun anew in place, while commits go on; ends by a kill.
    fn a_life_with_checkpoints(&mut self) {
        self.start();
        let before = self.generation();
        while self.frames_of_this_log() < NEARLY_DUE {
            self.raise_side_by_side(4, long);
        }
        // The one checkpoint at rest reaches the log's end, and the next commit begins it anew.
        until("the log is begun anew", || {
            self.raise("long-rest", put);
            self.until_at_rest();
            self.generation() != before
        });
        self.raise_side_by_side(2, long);
        self.raise_side_by_side(2, short);
        self.until_at_rest();
        self.palisade.kill9();
    }

    /// Records that are contested, and one that is released. Ends by a sync that fails.
    fn a_life_that_begins_in_quarantine(&mut self) {
        self.start();
        for key in ["key-1", "key-2", "key-3"] {
            assert_eq!(self.raise(key, put).result(), "in-doubt");
        }
        let token = self.next.load(Ordering::Relaxed) - 1;
        self.promise("key-3", What::Released(token), || {
            self.palisade.change("key-3", "release", CONFIRMED).assert_status(200);
        });
        self.raise_side_by_side(1, |n| format!("new-{n}"));
        self.palisade.until_metric("palisade_quarantine_seconds", 0.0);
        self.raise_side_by_side(2, short);
        // The log's sync, by the last letter of its name.
        self.shim.set(Word::Only, i64::from(b'l'));
        self.shim.set(Word::Once, 1);
        self.shim.set(Word::SyncError, EIO);
        let failed = self.raise("key-4", put);
        failed.assert_refused(503, "store-unavailable");
        assert_eq!(self.palisade.until_ended().code(), Some(1), "{}", self.palisade.stderr());
        self.shim.heal();
    }

    /// What the failed sync left in the kernel's memory counts only once it was written again.
    fn a_life_after_a_failed_sync(&mut self) {
        self.shim.set(Word::Delay, 1000);
        self.start();
        self.palisade.until_metric("palisade_quarantine_seconds", 0.0);
        self.raise_side_by_side(2, short);
        self.operate();
        self.stop_clean();
    }

    fn start(&mut self) {
        self.palisade.restart();
        self.listening = self.listening.min(self.shim.moment());
    }

    fn stop_clean(&mut self) {
        self.served.push(self.listening..self.shim.moment());
        assert_eq!(self.palisade.sigterm_and_wait().code(), Some(0), "{}", self.palisade.stderr());
        self.palisade.until_said("stopped clean");
        self.listening = u64::MAX;
    }

    /// Everything that an operator can do to a record.
    fn operate(&self) {
        let key = "operated";
        self.raise(key, put);
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let document = format!(r#"{{"token":"{token}","reason":"a test"}}"#);
        self.promise(key, What::Raised(token), || {
            self.palisade.change(key, "advance", &document).assert_status(200);
        });
        self.promise(key, What::Reset, || {
            self.palisade.change(key, "reset", REASON).assert_status(200);
        });
        self.raise(key, claim);
        self.raise(key, put);
        self.raise("only-reset", put);
        self.promise("only-reset", What::Reset, || {
            self.palisade.change("only-reset", "reset", REASON).assert_status(200);
        });
    }

    fn promise(&self, key: &str, what: What, ask: impl FnOnce()) {
        let asked = self.shim.moment();
        ask();
        self.promises.add(key, Promise { asked, answered: self.shim.moment(), what });
    }

    fn raise_side_by_side(&self, each: u64, key: fn(u64) -> String) {
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || self.raise_all(writer * each..(writer + 1) * each, key));
            }
        });
    }

    fn raise_all(&self, numbers: Range<u64>, key: fn(u64) -> String) {
        for n in numbers {
            let how = if n.is_multiple_of(3) { claim } else { put };
            self.raise(&key(n), how);
        }
    }

    /// The next token of all for a key, and what was answered for.
    fn raise(&self, key: &str, how: fn(&str, &str) -> Request) -> Response {
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let request = how(&format!("/{key}"), &token.to_string());
        let asked = self.shim.moment();
        let response = request.send(self.palisade.addr());
        let answered = self.shim.moment();
        let what = match response.result() {
            "admitted" | "claimed" => What::Raised(token),
            "in-doubt" | "draining-writes" => What::Contested(token),
            // Another writer's was greater, or it is not known whether it was raised.
            "stale-token" | "store-unavailable" => return response,
            _ => panic!("{key}: {response:#?}"),
        };
        self.promises.add(key, Promise { asked, answered, what });
        response
    }

    fn wal(&self) -> PathBuf {
        self.palisade.home().join("disk/fences/marks.db-wal")
    }

    /// Behind them there is room that was made beforehand, or an earlier log.
    fn frames_of_this_log(&self) -> usize {
        let log = fs::read(self.wal()).unwrap();
        let Some((header, frames)) = log.split_at_checked(32) else { return 0 };
        let ours = |frame: &&[u8]| frame[..4] != [0; 4] && frame[8..16] == header[16..24];
        frames.chunks_exact(FRAME).take_while(ours).count()
    }

    /// Changes when the log is begun anew: its number of checkpoints and its salts.
    fn generation(&self) -> Vec<u8> {
        fs::read(self.wal()).unwrap().get(12..24).map(<[u8]>::to_vec).unwrap_or_default()
    }

    /// Waits until nothing has been done to the disk for a while.
    fn until_at_rest(&self) {
        let (mut last, mut same) = (self.shim.moment(), 0);
        until("the disk is at rest", || {
            let now = self.shim.moment();
            same = if now == last { same + 1 } else { 0 };
            last = now;
            same == 10
        });
    }
}

/// A few keys that many writers share, and the writers' own.
fn short(n: u64) -> String {
    if n.is_multiple_of(2) { format!("key-{}", n % 5) } else { format!("own-{n}") }
}

/// Keys of which few share a page.
fn long(n: u64) -> String {
    format!("{n}-{}", "x".repeat(900))
}
