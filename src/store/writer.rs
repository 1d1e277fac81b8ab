//! The commit thread: takes all that waits, merges it, and syncs once.
//!
//! The first error after a transaction has begun poisons the store (R2): nothing of that batch is
//! acknowledged, nothing is tried again.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, Transaction, TransactionBehavior, wal::CheckpointMode};

use super::{
    Keying, Observer, StoreError,
    answer::Answer,
    checkpoint::{DUE, LONG},
    reader,
    record::{Change, is_busy},
    schema,
    sqlite::Shared,
    start, wal,
};
use crate::fence::{Key, Mark, UpstreamId};

/// What waits for a commit. Those who asked for no mark get one that is to be ignored.
pub(super) struct Job {
    pub work: Work,
    pub answer: Answer<Mark>,
}

pub(super) enum Work {
    Change(Key, Change),
    Unfenced(UpstreamId, bool),
    Adopt(Vec<Adoption>),
    /// Writes nothing: only whether the log is still whole.
    Look,
}

/// What a reload makes the store remember of an upstream.
pub(super) struct Adoption {
    pub id: UpstreamId,
    pub added: Vec<Keying>,
    pub lifetime: Duration,
    pub unfenced: bool,
}

/// A record before and after the batch.
struct Slot {
    before: Option<Mark>,
    now: Option<Mark>,
}

type Batch = BTreeMap<Key, Slot>;

/// Why a batch was not committed.
enum Failure {
    /// Another process writes to the database: nothing was done.
    Busy(String),
    Broken(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

pub(super) struct Writer {
    // Before `shared`, which holds the descriptor that must be closed last.
    pub db: Connection,
    pub shared: Arc<Shared>,
    /// Upstreams of this run: theirs is the clean mark.
    pub upstreams: Vec<UpstreamId>,
    pub on_sync: Option<Observer>,
    /// Bytes of a page of the database.
    pub page: u64,
}

impl Writer {
    /// Commits until the queue is closed and empty or the store is poisoned.
    pub(super) fn serve(&mut self) {
        if let Err(failure) = self.make_room() {
            self.failed(failure);
            return;
        }
        let mut last = 0;
        while let Some(jobs) = self.gather(last) {
            last = jobs.len();
            self.commit(jobs);
            if self.shared.poison.is_set() {
                return;
            }
        }
    }

    /// All that waits for a commit, at least one; `None` once the queue is closed and empty.
    ///
    /// Where far fewer wait than the `last` commit had, those that it answered are on their way
    /// back, and a sync for the few would hold them up. Whoever is ready to run goes first then,
    /// but for one turn only: none waits for a raise that may not come.
    fn gather(&self, last: usize) -> Option<VecDeque<Job>> {
        if self.shared.jobs.wait_for_one() < last.div_ceil(2) {
            thread::yield_now();
        }
        self.shared.jobs.take_all()
    }

    /// Here, not in the start: only raises wait for it. Another program that is writing
    /// leaves no room to make.
    fn make_room(&mut self) -> Result<(), Failure> {
        let alone = match begin(&mut self.db) {
            Err(Failure::Busy(_)) => return Ok(()),
            begun => begun?,
        };
        let made = self.shared.home.lengthen_log();
        made.map_err(|error| Failure::Broken(format!("making room for the log: {error}")))?;
        Ok(alone.rollback()?)
    }

    /// The last writes of a stop: held clears, then the log, then the clean mark. None of them
    /// once poisoned.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        self.commit(VecDeque::new());
        if let Some(error) = self.shared.poison.error() {
            return Err(error);
        }
        let clean = self.shared.clean.load(Ordering::Acquire);
        schema::checkpoint(&self.db, CheckpointMode::TRUNCATE)
            .map_err(Failure::from)
            .and_then(|_| if clean { self.write_clean_mark() } else { Ok(()) })
            .map_err(|failure| self.failed(failure))
    }

    fn commit(&mut self, jobs: VecDeque<Job>) {
        let result = match self.shared.poison.error() {
            Some(error) => Err(error),
            None => self.write_home(&jobs).map_err(|failure| self.failed(failure)),
        };
        // A checkpoint may have failed meanwhile.
        let result = match self.shared.poison.error() {
            Some(error) => Err(error),
            None => result,
        };
        for Job { work, answer } in jobs {
            answer.give(result.as_ref().map_err(Clone::clone).map(|batch| match &work {
                Work::Change(key, _) => {
                    batch.get(key).and_then(|slot| slot.now.clone()).unwrap_or_default()
                }
                Work::Unfenced(..) | Work::Adopt(_) | Work::Look => Mark::default(),
            }));
        }
        if result.is_ok() {
            self.ask_for_checkpoint();
        }
    }

    fn failed(&self, failure: Failure) -> StoreError {
        match failure {
            Failure::Busy(reason) => StoreError::Unavailable(reason),
            Failure::Broken(reason) => {
                self.shared.poison.set(reason.clone());
                StoreError::Poisoned(reason)
            }
        }
    }

    /// What went to files that are gone is not durable, though it was synced.
    fn write_home(&mut self, jobs: &VecDeque<Job>) -> Result<Batch, Failure> {
        self.check_log()?;
        let only_a_look = |job: &Job| matches!(job.work, Work::Look);
        let batch = if !jobs.is_empty() && jobs.iter().all(only_a_look) {
            Batch::new()
        } else {
            self.write(jobs)?
        };
        self.shared.home.check().map_err(Failure::Broken)?;
        Ok(batch)
    }

    /// Whether somebody has cut the log short. Before a write: that would make it long again, with
    /// a hole. What is left looks like a log in order, so it is set aside: the next start must not
    /// take it for all there was.
    fn check_log(&self) -> Result<(), Failure> {
        // Two looks: a checkpoint may empty the log within one of them.
        if self.log_is_short() && self.log_is_short() {
            // It must be ours: another process may have begun a store in this one's place.
            self.shared.home.check().map_err(Failure::Broken)?;
            return Err(Failure::Broken(self.shared.home.set_log_aside()));
        }
        Ok(())
    }

    fn log_is_short(&self) -> bool {
        // Where nothing can be told the next commit will.
        let log = schema::checkpoint(&self.db, CheckpointMode::NOOP);
        let frames = log.map_or(0, |log| log.in_log.max(0));
        let needed = wal::length(frames.unsigned_abs(), self.page);
        self.shared.home.log_length().is_ok_and(|length| length < needed)
    }

    /// One transaction, one sync; none where nothing changes.
    fn write(&mut self, jobs: &VecDeque<Job>) -> Result<Batch, Failure> {
        let tx = begin(&mut self.db)?;
        // A clear taken to the front of the batch comes earlier than it was asked: a raise beside
        // it can only leave more contested than meant, never less.
        let clears = std::mem::take(&mut *self.shared.clears.lock());
        let clears: Vec<_> =
            clears.into_iter().map(|(key, token)| (key, Change::Clear(Some(token)))).collect();
        let asked = jobs.iter().filter_map(|job| match &job.work {
            Work::Change(key, change) => Some((key, change)),
            Work::Unfenced(..) | Work::Adopt(_) | Work::Look => None,
        });
        let changes = || clears.iter().map(|(key, change)| (key, change)).chain(asked.clone());
        let mut batch = load(&tx, changes().map(|(key, _)| key))?;
        for (key, change) in changes() {
            if let Some(slot) = batch.get_mut(key) {
                slot.now = change.apply(slot.now.take());
            }
        }
        let mut changed = save(&tx, &batch)?;
        for job in jobs {
            changed |= write_upstreams(&tx, &job.work)?;
        }
        if changed {
            sync(tx, self.on_sync.as_ref())?;
        }
        Ok(batch)
    }

    fn write_clean_mark(&mut self) -> Result<(), Failure> {
        let tx = begin(&mut self.db)?;
        for UpstreamId(id) in &self.upstreams {
            tx.execute("UPDATE upstream SET dirty = 0 WHERE id = ?1", (id,))?;
        }
        Ok(sync(tx, self.on_sync.as_ref())?)
    }

    fn ask_for_checkpoint(&self) {
        let due = match schema::checkpoint(&self.db, CheckpointMode::NOOP) {
            Ok(log) => log.in_log - log.written_back >= DUE || log.in_log >= LONG,
            // Nothing was written or synced; if the disk is failing, the next commit will say so.
            Err(_) => false,
        };
        if due {
            // Full: one is asked for already.
            let _ = self.shared.checkpoints.push(());
        }
    }
}

/// Only here can another process be in the way; once begun, the transaction is ours to end.
fn begin(db: &mut Connection) -> Result<Transaction<'_>, Failure> {
    db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(|error| {
        if is_busy(&error) {
            Failure::Busy(format!("another program is writing to the database: {error}"))
        } else {
            Failure::from(error)
        }
    })
}

#[expect(clippy::disallowed_methods, reason = "a duration for the metrics; no rule reads it")]
fn sync(tx: Transaction<'_>, on_sync: Option<&Observer>) -> rusqlite::Result<()> {
    let began = Instant::now();
    tx.commit()?;
    if let Some(on_sync) = on_sync {
        on_sync(began.elapsed());
    }
    Ok(())
}

/// The records of `keys` as they are, in key order, each read once.
fn load<'a>(db: &Connection, keys: impl Iterator<Item = &'a Key>) -> rusqlite::Result<Batch> {
    let mut batch: Batch =
        keys.map(|key| (key.clone(), Slot { before: None, now: None })).collect();
    for (key, slot) in &mut batch {
        slot.before = reader::find(db, key)?;
        slot.now.clone_from(&slot.before);
    }
    Ok(batch)
}

/// Writes the records that changed, and says whether any did.
fn save(db: &Connection, batch: &Batch) -> rusqlite::Result<bool> {
    let mut upsert = db.prepare_cached(
        "INSERT INTO mark (key, token, contested, holder) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (key) DO UPDATE SET
           token = excluded.token, contested = excluded.contested, holder = excluded.holder",
    )?;
    let mut changed = false;
    for (key, slot) in batch.iter().filter(|(_, slot)| slot.now != slot.before) {
        let Some(mark) = &slot.now else { continue };
        upsert.execute((
            key.as_bytes(),
            mark.token.map(crate::fence::Token::to_bytes),
            mark.contested,
            mark.holder.as_ref().map(crate::fence::Holder::as_str),
        ))?;
        changed = true;
    }
    Ok(changed)
}

fn write_upstreams(db: &Connection, work: &Work) -> rusqlite::Result<bool> {
    match work {
        Work::Change(..) | Work::Look => return Ok(false),
        Work::Unfenced(id, unfenced) => {
            db.prepare_cached("UPDATE upstream SET unfenced = ?2 WHERE id = ?1")?
                .execute((id.0, unfenced))?;
        }
        Work::Adopt(adoptions) => {
            for Adoption { id, added, lifetime, unfenced } in adoptions {
                start::remember(db, *id, added)?;
                db.prepare_cached(
                    "UPDATE upstream SET lifetime_us = max(lifetime_us, ?2),
                       unfenced = max(unfenced, ?3) WHERE id = ?1",
                )?
                .execute((id.0, start::micros(*lifetime), unfenced))?;
            }
        }
    }
    Ok(true)
}
