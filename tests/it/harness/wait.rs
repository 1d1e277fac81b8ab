//! Waiting for events. Deadlines are for failure only: nothing here measures speed.

use std::{
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

/// How long a test waits for an event before it fails.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The `max_write_lifetime` of the tests' upstreams, and the bound that their backend keeps.
pub const LIFETIME: Duration = Duration::from_secs(2);

/// The tests' clock.
#[expect(clippy::disallowed_methods, reason = "a test process has no clock to be moved")]
pub fn now() -> Instant {
    Instant::now()
}

/// Polls until `happened` (a process seen from outside announces nothing), and fails the test with `what` at the deadline.
pub fn until(what: &str, happened: impl FnMut() -> bool) {
    assert!(happens(DEADLINE, happened), "did not happen within {DEADLINE:?}: {what}");
}

/// Polls until `happened`; false if it does not within `limit`.
pub fn happens(limit: Duration, mut happened: impl FnMut() -> bool) -> bool {
    let start = now();
    while !happened() {
        if start.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(3));
    }
    true
}

/// A door that the test opens once; others wait before it.
#[derive(Clone, Default)]
pub struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open, or until a test must long be over.
    pub fn wait(&self) {
        let closed = self.0.0.lock().unwrap();
        let limit = DEADLINE * 4;
        drop(self.0.1.wait_timeout_while(closed, limit, |open| !*open).unwrap());
    }
}

/// Runs a case per thread and fails if any of them does, naming it.
pub fn side_by_side<T: Sync>(cases: &[T], name: impl Fn(&T) -> String, run: impl Fn(&T) + Sync) {
    let failed: Vec<String> = thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = cases
            .iter()
            .map(|case| {
                let thread = thread::Builder::new().name(name(case));
                (name(case), thread.spawn_scoped(scope, move || run(case)).unwrap())
            })
            .collect();
        let ended = threads.into_iter().map(|(name, thread)| (name, thread.join()));
        ended.filter(|(_, result)| result.is_err()).map(|(name, _)| name).collect()
    });
    assert!(failed.is_empty(), "failed: {failed:?}");
}
