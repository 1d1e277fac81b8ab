//! The disk under the real store: its commits take simulated time, its syncs fail, and what a crash
//! leaves of it is drawn.
//!
//! The store is the product's own, on real files, with its own threads. They take turns with the
//! run: a commit stops at the end of its sync until the simulated clock says that it has ended, so
//! that what is asked meanwhile forms the next batch, and the run waits while the store works.

use std::{
    collections::VecDeque,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use palisade::{
    fence::{Key, Mark, Token, UpstreamId},
    store::{self, Boot, Done, OpenError, Store, StoreError, TokenStore},
};
use parking_lot::{Condvar, Mutex};
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    book::At,
    breakage::Breakage,
    plan::{Config, OVERLAPS},
    world::World,
};

const LOG: &str = "marks.db-wal";
/// More than any process has to ask in its short life.
const MOST_WRITES: u64 = 20_000;
/// SQLite syncs a log's header before it writes a frame.
const LOG_HEAD: usize = 32;
/// A page, and what the log says of it.
const FRAME: usize = 24 + 4096;
/// What a disk writes whole.
const SECTOR: usize = 512;

/// The store of one process.
pub(super) struct Disk {
    this: Weak<Self>,
    store: Store,
    turn: Arc<Turn>,
    world: Arc<World>,
    path: PathBuf,
    /// Rung when a commit has begun, or an answer is due.
    due: Notify,
    /// The store's numbers of upstreams, and the world's.
    numbers: Vec<(UpstreamId, usize)>,
    /// Bytes of the log's frames that were synced.
    synced: Mutex<usize>,
    /// How often it was asked to write.
    asked: AtomicU64,
    /// There was no room for what was not synced.
    full: AtomicBool,
    /// A write or sync failed: the process must end (R2).
    pub(super) failed: CancellationToken,
}

/// Whose turn it is: the commit thread's or the run's.
#[derive(Default)]
struct Turn {
    state: Mutex<TurnState>,
    changed: Condvar,
}

#[derive(Default)]
struct TurnState {
    /// The commit thread is at the end of a sync.
    syncing: bool,
    /// It may go on.
    go_on: bool,
    /// Nobody is waited for any more.
    free: bool,
    unanswered: usize,
    answers: VecDeque<Answer>,
}

/// How a commit ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Synced,
    /// What of it is on the disk is not known.
    Failed,
    /// Nothing of it is.
    Full,
}

type Answer = Box<dyn FnOnce() + Send>;

impl Turn {
    /// On the commit thread, when a commit was synced and nobody knows it yet.
    fn synced(&self) {
        let mut state = self.state.lock();
        if state.free {
            return;
        }
        state.syncing = true;
        self.changed.notify_all();
        while !state.go_on && !state.free {
            self.changed.wait(&mut state);
        }
        state.go_on = false;
    }

    /// Waits until the store has nothing to do before the clock moves.
    fn rest(&self) {
        let mut state = self.state.lock();
        while !state.syncing && state.unanswered > 0 {
            self.changed.wait(&mut state);
        }
    }

    /// An answer of the store's, to be passed on when the run has its turn.
    fn passing<T: Send + 'static>(self: &Arc<Self>, done: Done<T>) -> Done<T> {
        self.state.lock().unanswered += 1;
        let turn = Arc::clone(self);
        Box::new(move |result| {
            let mut state = turn.state.lock();
            state.answers.push_back(Box::new(move || done(result)));
            state.unanswered -= 1;
            turn.changed.notify_all();
        })
    }
}

impl Disk {
    /// The product's own start: recovery, comparison, the beginning of a run.
    pub(super) fn open(
        world: &Arc<World>,
        config: &Config,
        path: &Path,
        fresh: bool,
    ) -> Result<(Arc<Self>, Boot), OpenError> {
        let turn = Arc::new(Turn::default());
        let at_sync = Arc::clone(&turn);
        let options = config.options(path, fresh);
        let opened = store::open(&options, OVERLAPS, Some(Box::new(move |_| at_sync.synced())))?;
        let numbers = opened.boot.upstreams.iter().zip(config.all());
        let numbers = numbers.map(|(boot, upstream)| (boot.id, upstream.number)).collect();
        let disk = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            numbers,
            store: opened.store,
            turn,
            world: Arc::clone(world),
            path: path.to_owned(),
            due: Notify::new(),
            synced: Mutex::default(),
            asked: AtomicU64::new(0),
            full: AtomicBool::new(false),
            failed: CancellationToken::new(),
        });
        *disk.synced.lock() = disk.written();
        Ok((disk, opened.boot))
    }

    /// The disk's own time: ends syncs when they are due, and passes answers on.
    pub(super) async fn work(&self) {
        loop {
            self.answer();
            if !self.turn.state.lock().syncing {
                self.due.notified().await;
                continue;
            }
            let (failing, slow) = (self.world.profile.failing, self.world.profile.slow);
            let took = if self.world.fault(slow) {
                [40, 300, 6000][self.world.draw(|chance| chance.usize(..3))]
            } else {
                self.world.pick(0..4)
            };
            sleep(Duration::from_millis(took)).await;
            let end = match (self.world.fault(failing), self.world.chance(50)) {
                (true, true) => End::Full,
                (true, false) => End::Failed,
                (false, _) => End::Synced,
            };
            self.world.note(format_args!("disk: a commit ends after {took} ms: {end:?}"));
            self.end_commit(end);
        }
    }

    /// Makes the store see a failed commit: its log is not where it was. Whether what it wrote is
    /// there after a crash is drawn then.
    fn end_commit(&self, end: End) {
        let (log, aside) = (self.path.join(LOG), self.path.join("aside"));
        self.world.count(match end {
            End::Synced => "syncs",
            End::Failed => "failed syncs",
            End::Full => "full disks",
        });
        let fails = end != End::Synced;
        if fails {
            fs::rename(&log, &aside).expect("the log is there");
            self.full.store(end == End::Full, Ordering::Relaxed);
        } else {
            *self.synced.lock() = self.written();
        }
        {
            let mut state = self.turn.state.lock();
            state.syncing = false;
            state.go_on = true;
            self.turn.changed.notify_all();
        }
        self.turn.rest();
        if fails {
            fs::rename(aside, log).expect("it was put aside");
            self.failed.cancel();
        }
    }

    fn answer(&self) {
        let answers = std::mem::take(&mut self.turn.state.lock().answers);
        for answer in answers {
            answer();
        }
    }

    /// Hands a write in, and lets the store get as far as it gets in no time.
    fn write<T: Send + 'static>(&self, done: Done<T>, ask: impl FnOnce(Done<T>)) {
        // Time does not pass for who is told the same at once, and asks again.
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        assert!(asked < MOST_WRITES, "the store is asked without end");
        ask(self.turn.passing(done));
        self.turn.rest();
        self.due.notify_one();
    }

    /// A record, read at once.
    pub(super) fn look(&self, key: Key) -> Result<Option<Mark>, StoreError> {
        let (tell, told) = mpsc::channel();
        self.store.find(key, Box::new(move |found| drop(tell.send(found))));
        told.recv().unwrap_or_else(|_| Err(StoreError::Unavailable("no answer".into())))
    }

    /// The place of a key in the world.
    fn at(&self, key: &Key) -> Option<At> {
        let (_, upstream) = self.numbers.iter().find(|(id, _)| *id == key.upstream())?;
        Some(At { upstream: *upstream, key: At::key_of(key.path())? })
    }

    /// Tells the judge what the store has answered.
    fn stored(&self, key: &Key, record: &Mark) {
        if let (Some(at), Some(token)) = (self.at(key), record.token) {
            self.world.judge(|book, now| book.stored(at, token.counter, now));
        }
    }

    /// The last writes of a stop.
    pub(super) fn close(&self, clean: bool) -> Result<(), StoreError> {
        self.turn.state.lock().free = true;
        self.turn.changed.notify_all();
        self.store.close(clean)
    }

    /// Bytes of the log's header and frames. Behind them are zeros: room that was made beforehand.
    fn written(&self) -> usize {
        let log = File::open(self.path.join(LOG)).expect("an open store has a log");
        let word = |at: usize| {
            let mut word = [0; 4];
            log.read_exact_at(&mut word, at as u64).is_ok() && word != [0; 4]
        };
        if !word(0) {
            return 0;
        }
        let mut end = LOG_HEAD;
        while word(end) {
            end += FRAME;
        }
        end
    }

    /// What the disk has after a crash at this moment, in a directory of its own. Of the commit
    /// that was not synced all, nothing or torn parts are there.
    pub(super) fn image(&self, to: &Path) {
        fs::create_dir(to).expect("a new directory");
        for name in ["marks.db", "initialised"] {
            fs::copy(self.path.join(name), to.join(name)).expect("an open store has it");
        }
        let synced = *self.synced.lock();
        let mut log = fs::read(self.path.join(LOG)).expect("an open store has a log");
        let written = self.written();
        if written > synced {
            self.world.count("crashes within a commit");
            self.tear(&mut log[..written], synced);
        }
        fs::write(to.join(LOG), log).expect("room for a copy");
    }

    fn tear(&self, log: &mut [u8], synced: usize) {
        let world = &self.world;
        match world.pick(0..4) {
            _ if self.full.load(Ordering::Relaxed) => log[synced..].fill(0),
            // All of it came to the disk, though nobody was told.
            0 => return,
            1 => log[synced..].fill(0),
            2 => {
                let from = world.draw(|chance| chance.usize(synced..log.len()));
                log[from..].fill(0);
            }
            _ => {
                let first = synced.max(LOG_HEAD);
                for sector in first / SECTOR..log.len().div_ceil(SECTOR) {
                    let whole = sector * SECTOR..((sector + 1) * SECTOR).min(log.len());
                    let part = &mut log[whole.start.max(first)..whole.end];
                    if world.chance(30) {
                        part.fill(0);
                    }
                }
            }
        }
        world.count("torn commits");
    }
}

impl TokenStore for Disk {
    fn find(&self, key: Key, done: Done<Option<Mark>>) {
        let fails = self.world.fault(self.world.profile.failing);
        let failed = || StoreError::Unavailable("a read failed".into());
        let found = if fails { Err(failed()) } else { self.look(key) };
        let took = self.world.pick(0..3);
        tokio::spawn(async move {
            sleep(Duration::from_millis(took)).await;
            done(found);
        });
    }

    fn raise(&self, key: Key, mark: Mark, done: Done<Mark>) {
        if self.world.broken == Some(Breakage::AnswersBeforeTheSync) {
            done(Ok(mark.clone()));
            return self.write(Box::new(|_| {}), |done| self.store.raise(key, mark, done));
        }
        let lies = self.world.broken == Some(Breakage::AnswersForAFailedSync);
        let (this, raised, submitted) = (self.this.clone(), key.clone(), mark.clone());
        let done: Done<Mark> = Box::new(move |result| {
            let result = if lies { Ok(result.unwrap_or(submitted)) } else { result };
            if let (Some(this), Ok(record)) = (this.upgrade(), &result) {
                this.stored(&raised, record);
            }
            done(result);
        });
        self.write(done, |done| self.store.raise(key, mark, done));
    }

    fn clear(&self, key: Key, token: Token) {
        self.store.clear(key, token);
    }

    fn release(&self, key: Key, token: Option<Token>, done: Done<()>) {
        self.write(done, |done| self.store.release(key, token, done));
    }

    fn reset(&self, key: Key, done: Done<()>) {
        let (this, at) = (self.this.clone(), self.at(&key));
        let done: Done<()> = Box::new(move |result| {
            if let (Some(this), Some(at)) = (this.upgrade(), at) {
                this.world.judge(|book, now| book.answered_at(at, now));
            }
            done(result);
        });
        self.write(done, |done| self.store.reset(key, done));
    }

    fn list(
        &self,
        prefix: Vec<u8>,
        after: Option<Key>,
        limit: usize,
        done: Done<Vec<(Key, Mark)>>,
    ) {
        self.store.list(prefix, after, limit, done);
    }

    fn set_unfenced(&self, upstream: UpstreamId, unfenced: bool, done: Done<()>) {
        self.write(done, |done| self.store.set_unfenced(upstream, unfenced, done));
    }

    fn poisoned(&self) -> bool {
        self.store.poisoned()
    }
}
