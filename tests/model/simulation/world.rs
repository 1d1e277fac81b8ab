//! What all parts of one run share: one clock, one source of chance, one trace, one set of books.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    fmt::{Arguments, Write as _},
    future::Future,
    hash::Hasher,
    ops::Range,
    sync::Arc,
    time::Duration,
};

use fastrand::Rng;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{book::Book, breakage::Breakage, life::Life, plan::Profile};

/// One run's world. It outlives every process in it.
pub(super) struct World {
    pub(super) profile: Profile,
    pub(super) broken: Option<Breakage>,
    /// Rung when the store behind the proxy has something new to do.
    pub(super) backend: Notify,
    /// No more faults, and no new requests: what is open must come to its end.
    pub(super) calm: CancellationToken,
    /// Clients' sides of requests: each must come to its end.
    pub(super) crowd: Mutex<JoinSet<()>>,
    pub(super) book: Mutex<Book>,
    life: Mutex<Option<Arc<Life>>>,
    begun: Instant,
    chance: Mutex<Rng>,
    trace: Mutex<Trace>,
    counts: Mutex<Counts>,
}

/// How often what happened.
pub(super) type Counts = BTreeMap<&'static str, u64>;

/// What happened: its digest, and in words where somebody will read them.
struct Trace {
    digest: DefaultHasher,
    line: String,
    lines: Option<Vec<String>>,
}

impl World {
    /// Within a runtime whose clock is paused.
    pub(super) fn new(seed: u64, broken: Option<Breakage>, traced: bool) -> Arc<Self> {
        let mut chance = Rng::with_seed(seed);
        let profile = Profile::draw(&mut chance);
        let lines = traced.then(Vec::new);
        let trace = Trace { digest: DefaultHasher::new(), line: String::new(), lines };
        let world = Self {
            profile,
            broken,
            backend: Notify::new(),
            calm: CancellationToken::new(),
            crowd: Mutex::default(),
            book: Mutex::new(Book::new()),
            life: Mutex::default(),
            begun: Instant::now(),
            chance: Mutex::new(chance),
            trace: Mutex::new(trace),
            counts: Mutex::default(),
        };
        world.note(format_args!("{:?}", world.profile));
        Arc::new(world)
    }

    /// Microseconds since the run began.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn instant(&self, micros: u64) -> Instant {
        self.begun + Duration::from_micros(micros)
    }

    /// The one source of chance, in the order in which the run asks it.
    pub(super) fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.chance.lock())
    }

    pub(super) fn pick(&self, range: Range<u64>) -> u64 {
        self.draw(|chance| chance.u64(range))
    }

    pub(super) fn chance(&self, percent: u64) -> bool {
        self.pick(0..100) < percent
    }

    /// Chance for a fault: none any more once the world is calm.
    pub(super) fn fault(&self, percent: u64) -> bool {
        self.chance(percent) && !self.calm.is_cancelled()
    }

    pub(super) async fn nap(&self, millis: Range<u64>) {
        sleep(Duration::from_millis(self.pick(millis))).await;
    }

    /// One line of the trace.
    pub(super) fn note(&self, what: Arguments<'_>) {
        let now = self.now();
        let trace = &mut *self.trace.lock();
        trace.line.clear();
        let millis = Duration::from_micros(now).as_secs_f64() * 1000.0;
        write!(trace.line, "{millis:>10.3} {what}").expect("a string takes all");
        trace.digest.write(trace.line.as_bytes());
        if let Some(lines) = &mut trace.lines {
            lines.push(trace.line.clone());
        }
    }

    pub(super) fn count(&self, what: &'static str) {
        *self.counts.lock().entry(what).or_default() += 1;
    }

    /// The promise, or what follows from it, does not hold.
    pub(super) fn violated(&self, what: &str) {
        self.note(format_args!("VIOLATION {what}"));
        self.book.lock().violations.push(what.to_owned());
    }

    /// Looks at the books, or writes in them. What is found wrong goes into the trace.
    pub(super) fn judge<T>(&self, judge: impl FnOnce(&mut Book, u64) -> T) -> T {
        let now = self.now();
        let (judged, found) = {
            let book = &mut *self.book.lock();
            let before = book.violations.len();
            (judge(book, now), book.violations[before..].to_vec())
        };
        for violation in found {
            self.note(format_args!("VIOLATION {violation}"));
        }
        judged
    }

    /// The process that runs, if one does.
    pub(super) fn life(&self) -> Option<Arc<Life>> {
        self.life.lock().clone()
    }

    pub(super) fn set_life(&self, life: Option<Arc<Life>>) {
        *self.life.lock() = life;
    }

    /// A client's side of a request, which nobody waits for until the end.
    pub(super) fn crowd(&self, side: impl Future<Output = ()> + Send + 'static) {
        self.crowd.lock().spawn(side);
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts.lock().clone()
    }

    pub(super) fn digest(&self) -> u64 {
        self.trace.lock().digest.finish()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.trace.lock().lines.clone().unwrap_or_default()
    }
}
