//! The store itself: queues in front of its threads, and their beginning and end.

use std::{
    collections::HashMap,
    fmt,
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use super::{
    Done, Observer, OpenError, Overlaps, StoreError, TokenStore, UpstreamFacts,
    answer::{Answer, ignoring},
    directory::{Directory, Home, Lock},
    keying::{Known, Verdict, judge},
    poison::Poison,
    queue::{Queue, Refused},
    reader::Read,
    record::{Change, opening},
    schema::Disk,
    start,
    threads::Threads,
    writer::{Adoption, Job, Work, Writer},
};
use crate::fence::{Key, Mark, Token, UpstreamId};

/// Most writes, and most reads, that wait at one time; beyond, they are `Unavailable`.
const QUEUE_MAX: usize = 16 * 1024;
/// Most clears that wait for a commit; beyond, they are forgotten, which only costs a wait.
const CLEARS_MAX: usize = 16 * 1024;

/// The SQLite store. Cheap to clone; all clones are one store.
///
/// End it with [`Store::close`]. Dropping the last clone ends its threads too, without a clean
/// mark.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    threads: Mutex<Option<Threads>>,
    /// The upstreams as stored, for comparisons at a reload (R11).
    known: Arc<Mutex<Vec<Known>>>,
    directory: Directory,
}

/// What the threads and the handles have in common.
pub(super) struct Shared {
    pub jobs: Queue<Job>,
    pub clears: Mutex<HashMap<Key, Token>>,
    pub reads: Queue<Read>,
    pub checkpoints: Queue<()>,
    pub poison: Poison,
    /// Whether this stop may leave a clean mark. Set before `jobs` is closed.
    pub clean: AtomicBool,
    pub home: Home,
    lock: Lock,
    /// Held open until every connection is closed: see [`Disk::file`].
    _file: File,
}

/// What `open` hands over.
pub(super) struct Parts {
    pub directory: Directory,
    pub lock: Lock,
    pub disk: Disk,
    pub home: Home,
    pub upstreams: Vec<UpstreamId>,
    pub page_cache: u64,
    pub on_sync: Option<Observer>,
}

impl Store {
    /// Starts the threads.
    pub(super) fn run(parts: Parts) -> Result<Self, OpenError> {
        let Parts {
            directory,
            lock,
            home,
            disk: Disk { db, file },
            upstreams,
            page_cache,
            on_sync,
        } = parts;
        let path = directory.database();
        let known = start::known(&db).map_err(opening(&path, "read"))?;
        let page = db.query_row("PRAGMA page_size", (), |row| row.get::<_, u32>(0));
        let page = page.map_err(opening(&path, "read"))?.into();
        let shared = Arc::new(Shared {
            jobs: Queue::new(QUEUE_MAX),
            clears: Mutex::default(),
            reads: Queue::new(QUEUE_MAX),
            checkpoints: Queue::new(1),
            poison: Poison::default(),
            clean: AtomicBool::new(false),
            home,
            lock,
            _file: file,
        });
        // Made before the threads: if one cannot be started, its drop ends the others.
        let store = Self {
            inner: Arc::new(Inner {
                shared: shared.clone(),
                threads: Mutex::new(None),
                known: Arc::new(Mutex::new(known)),
                directory,
            }),
        };
        let writer = Writer { db, shared, upstreams, on_sync, page };
        let threads = Threads::start(writer, &store.inner.directory, page_cache)?;
        *store.inner.threads.lock() = Some(threads);
        Ok(store)
    }

    /// Ends the store: answers all that waits, writes the held clears, and leaves the clean mark as
    /// the last synced write if `clean`. Blocks; call it when nothing uses the store any more.
    ///
    /// # Errors
    /// `Poisoned` if a write or sync had failed or now failed, and `Unavailable` if the clean mark
    /// could not be written or the store was closed before; there is no clean mark then.
    pub fn close(&self, clean: bool) -> Result<(), StoreError> {
        let Some(threads) = self.inner.threads.lock().take() else {
            return Err(closed());
        };
        let shared = &self.inner.shared;
        shared.clean.store(clean, Ordering::Release);
        let ended = threads.stop(shared);
        let released = shared.lock.release().map_err(|error| {
            StoreError::Unavailable(format!("the store's lock was not released: {error}"))
        });
        ended.and(released)
    }

    /// Poisons the store if its files are no longer where they were, or its log was cut short.
    pub fn verify(&self) {
        if let Err(gone) = self.inner.shared.home.check() {
            self.inner.shared.poison.set(gone);
        }
        // How long the log must be the commit thread knows.
        self.submit(Work::Look, Box::new(drop));
    }

    /// Calls `hook` with the reason when the store is poisoned, or at once if it is: the process
    /// must end (R2). Called on a thread of the store's; it must not block.
    pub fn on_poison(&self, hook: Box<dyn FnOnce(String) + Send>) {
        self.inner.shared.poison.on_set(hook);
    }

    /// Whether a reload to `upstreams` would make keys differently (R11). Changes nothing.
    ///
    /// # Errors
    /// [`OpenError::Rekeyed`], or [`OpenError::NeedsRestart`] for an upstream that is new.
    pub fn check_keying(
        &self,
        upstreams: &[UpstreamFacts],
        overlaps: Overlaps,
    ) -> Result<(), OpenError> {
        self.adoptions(upstreams, overlaps).map(drop)
    }

    /// Before a reload to `upstreams` takes effect: remembers its patterns (R11), its lifetimes
    /// where they are longer (R5) and where it is unfenced (R10). `done` is called once that is
    /// synced; only then may the reload go on.
    ///
    /// # Errors
    /// As [`Store::check_keying`]; `done` is dropped then, and nothing was changed. One reload at a
    /// time: the next comparison knows of this one's patterns once `done` was called.
    pub fn adopt(
        &self,
        upstreams: &[UpstreamFacts],
        overlaps: Overlaps,
        done: Done<()>,
    ) -> Result<(), OpenError> {
        let adoptions = self.adoptions(upstreams, overlaps)?;
        let additions: Vec<_> =
            adoptions.iter().map(|adoption| (adoption.id, adoption.added.clone())).collect();
        let known = self.inner.known.clone();
        let done: Done<Mark> = Box::new(move |result| {
            if result.is_ok() {
                let mut known = known.lock();
                for (id, added) in additions {
                    let row = known.iter_mut().find(|known| known.id == id);
                    row.map(|row| row.keying.extend(added)).unwrap_or_default();
                }
            }
            done(result.map(drop));
        });
        self.submit(Work::Adopt(adoptions), done);
        Ok(())
    }

    fn adoptions(
        &self,
        upstreams: &[UpstreamFacts],
        overlaps: Overlaps,
    ) -> Result<Vec<Adoption>, OpenError> {
        let known = self.inner.known.lock();
        let adoption = |facts: &UpstreamFacts| match judge(facts, &known, overlaps) {
            Verdict::New => Err(OpenError::NeedsRestart { name: facts.name.clone() }),
            Verdict::Changed(change) => Err(change.refuse(&self.inner.directory.path, &facts.name)),
            Verdict::Same { known, added } => Ok(Adoption {
                id: known.id,
                added,
                lifetime: facts.lifetime,
                unfenced: facts.unfenced,
            }),
        };
        upstreams.iter().map(adoption).collect()
    }

    fn submit(&self, work: Work, done: Done<Mark>) {
        let shared = &self.inner.shared;
        let job = Job { work, answer: Answer::new(done) };
        if let Some(error) = shared.poison.error() {
            return job.answer.give(Err(error));
        }
        match shared.jobs.push(job) {
            Ok(()) => {}
            Err(Refused::Full(job)) => job.answer.give(Err(full())),
            Err(Refused::Closed(job)) => {
                job.answer.give(Err(shared.poison.error().unwrap_or_else(closed)));
            }
        }
    }

    fn look(&self, read: Read) {
        match self.inner.shared.reads.push(read) {
            Ok(()) => {}
            Err(Refused::Full(read)) => read.refuse(full()),
            Err(Refused::Closed(read)) => read.refuse(closed()),
        }
    }
}

impl TokenStore for Store {
    fn find(&self, key: Key, done: Done<Option<Mark>>) {
        self.look(Read::Find { key, answer: Answer::new(done) });
    }

    fn raise(&self, key: Key, mark: Mark, done: Done<Mark>) {
        self.submit(Work::Change(key, Change::Raise(mark)), done);
    }

    fn clear(&self, key: Key, token: Token) {
        let mut clears = self.inner.shared.clears.lock();
        if clears.len() < CLEARS_MAX || clears.contains_key(&key) {
            clears.insert(key, token);
        }
    }

    fn release(&self, key: Key, token: Option<Token>, done: Done<()>) {
        self.submit(Work::Change(key, Change::Clear(token)), ignoring(done));
    }

    fn reset(&self, key: Key, done: Done<()>) {
        self.submit(Work::Change(key, Change::Reset), ignoring(done));
    }

    fn list(
        &self,
        prefix: Vec<u8>,
        after: Option<Key>,
        limit: usize,
        done: Done<Vec<(Key, Mark)>>,
    ) {
        self.look(Read::List { prefix, after, limit, answer: Answer::new(done) });
    }

    fn set_unfenced(&self, upstream: UpstreamId, unfenced: bool, done: Done<()>) {
        self.submit(Work::Unfenced(upstream, unfenced), ignoring(done));
    }

    fn poisoned(&self) -> bool {
        self.inner.shared.poison.is_set()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.inner.directory.path).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    /// Does not wait: the last handle may go on a thread of the store's. The lock goes with the
    /// last of the threads.
    fn drop(&mut self) {
        self.shared.reads.close();
        self.shared.checkpoints.close();
        self.shared.jobs.close();
    }
}

fn full() -> StoreError {
    StoreError::Unavailable("too much waits for it".into())
}

pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("it is closed".into())
}
