//! The store's threads: how they begin, outlive a panic, and end.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{Builder, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;

use super::{
    OpenError, StoreError, checkpoint,
    directory::Directory,
    reader,
    record::opening,
    schema,
    sqlite::{Shared, closed},
    writer::Writer,
};

const READERS: usize = 2;
/// How long a commit waits for another program that writes, before it is `Unavailable`.
const COMMIT_PATIENCE: Duration = Duration::from_secs(10);
/// How long a checkpoint that empties the log waits for readers: it holds up commits meanwhile.
const CHECKPOINT_PATIENCE: Duration = Duration::from_millis(100);

pub(super) struct Threads {
    writer: JoinHandle<Result<(), StoreError>>,
    others: Vec<JoinHandle<()>>,
}

impl Threads {
    /// On an error, closing the queues ends those that run.
    pub(super) fn start(
        mut writer: Writer,
        directory: &Directory,
        page_cache: u64,
    ) -> Result<Self, OpenError> {
        let path = directory.database();
        let failed = directory.io("start a thread for");
        let shared = &writer.shared;
        writer.db.busy_timeout(COMMIT_PATIENCE).map_err(opening(&path, "set up"))?;
        let mut others = Vec::new();
        for _ in 0..READERS {
            let db = schema::reader(&path)?;
            schema::limit_cache(&db, page_cache / 6).map_err(opening(&path, "set up"))?;
            others.push(beside(shared, "palisade-read", db, reader::run).map_err(&failed)?);
        }
        let db = schema::writer(&path)?;
        schema::limit_cache(&db, page_cache / 6).map_err(opening(&path, "set up"))?;
        db.busy_timeout(CHECKPOINT_PATIENCE).map_err(opening(&path, "set up"))?;
        others.push(beside(shared, "palisade-ckpt", db, checkpoint::run).map_err(&failed)?);
        let writer = Builder::new()
            .name("palisade-commit".into())
            .spawn(move || commit(&mut writer))
            .map_err(failed)?;
        Ok(Self { writer, others })
    }

    /// The writer is last: it needs the log to itself, and its last write is the clean mark.
    pub(super) fn stop(self, shared: &Shared) -> Result<(), StoreError> {
        shared.reads.close();
        shared.checkpoints.close();
        for thread in self.others {
            let _ = thread.join();
        }
        shared.jobs.close();
        self.writer.join().unwrap_or_else(|_| Err(StoreError::Poisoned(PANICKED.into())))
    }
}

/// A thread beside the writer's. It goes on after a panic, which poisons the store, so that
/// everything that is asked is answered.
fn beside(
    shared: &Arc<Shared>,
    name: &str,
    db: Connection,
    run: fn(&Connection, &Shared),
) -> io::Result<JoinHandle<()>> {
    // Captured as one, so that the connection is closed before the descriptor in `shared` is.
    let both = (db, shared.clone());
    Builder::new().name(name.into()).spawn(move || {
        let (db, shared) = both;
        while catch_unwind(AssertUnwindSafe(|| run(&db, &shared))).is_err() {
            shared.poison.set(PANICKED.into());
        }
        drop(db);
        drop(shared);
    })
}

/// The commit thread, to its end: whatever happens, all that waits is answered.
fn commit(writer: &mut Writer) -> Result<(), StoreError> {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        writer.serve();
        writer.finish()
    }));
    let shared = &writer.shared;
    let ended = ended.unwrap_or_else(|_| {
        shared.poison.set(PANICKED.into());
        Err(StoreError::Poisoned(PANICKED.into()))
    });
    shared.jobs.close();
    while let Some(job) = shared.jobs.pop() {
        job.answer.give(Err(shared.poison.error().unwrap_or_else(closed)));
    }
    ended
}

const PANICKED: &str = "a thread of the store panicked";
