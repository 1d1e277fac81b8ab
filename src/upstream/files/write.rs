//! PUT and DELETE: a task of its own per write, which takes the body in and then publishes.
//!
//! The task can be cut between two pieces of the body and while it waits for the path; its final
//! step cannot. Whoever waits for the closer's end waits for the last blocking call too (R4).

mod intake;

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode, header, request::Parts};
use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    task::{JoinError, spawn_blocking},
};

use super::{
    Inner,
    answer::{self, Refusal},
    conditions::Conditions,
    hooks::Step,
    locks::PathGuard,
    path::RelPath,
    publish::{self, Stop},
    stage::Staged,
};
use crate::upstream::Closer;
#[cfg(test)]
pub(super) use intake::PIECE;
use intake::{Intake, Piece};

/// A write under way. Dropping it cuts nothing: only its closer does.
#[derive(Debug)]
pub struct FileWrite {
    /// Cuts it between two pieces of its body; ended when its last blocking call has returned.
    pub closer: Closer,
    /// How it ended. An error means that the task was lost, with its runtime: unknown.
    pub done: oneshot::Receiver<WriteEnd>,
}

/// How a write ended.
#[derive(Debug)]
pub enum WriteEnd {
    /// Applied and on disk (2xx), or refused by the store with nothing applied (all others). A
    /// refusal may come before the body was read to its end.
    Answered(Response<Bytes>),
    /// Nothing was applied: it was aborted, or its body failed or was not of its declared length.
    Cut,
    /// The final step failed half way: it may be applied, and may not survive a power loss.
    Failed(String),
}

/// Tells the end once everything that could still touch the disk is gone: the task and each of its
/// blocking calls hold one of these, and the last one to go speaks.
#[derive(Debug)]
struct Ending {
    done: Mutex<Option<oneshot::Sender<WriteEnd>>>,
    closer: Closer,
}

impl Ending {
    fn tell(&self, end: WriteEnd) {
        if let Some(done) = self.done.lock().take() {
            // The caller may have lost interest; the closer still tells the end.
            let _ = done.send(end);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.tell(WriteEnd::Failed("the write's task was lost".into()));
        self.closer.mark_ended();
    }
}

/// Begins a write.
pub(super) fn start<B>(inner: Arc<Inner>, parts: Parts, path: Vec<u8>, body: B) -> FileWrite
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    let closer = Closer::default();
    let (sender, done) = oneshot::channel();
    let ending = Arc::new(Ending { done: Mutex::new(Some(sender)), closer: closer.clone() });
    let task = Task { inner, closer: closer.clone(), ending };
    tokio::spawn(async move {
        let end = match task.run(&parts, &path, body).await {
            Ok(response) => WriteEnd::Answered(response),
            Err(Stop::Refuse(refusal)) => WriteEnd::Answered(refusal.into_response(&path)),
            Err(Stop::Cut) => WriteEnd::Cut,
            Err(Stop::Fail(why)) => {
                let path = String::from_utf8_lossy(&path);
                tracing::error!(%path, why, "a write failed half way");
                WriteEnd::Failed(why)
            }
        };
        task.ending.tell(end);
    });
    FileWrite { closer, done }
}

/// What a write's task holds.
struct Task {
    inner: Arc<Inner>,
    closer: Closer,
    ending: Arc<Ending>,
}

impl Task {
    async fn run<B>(&self, parts: &Parts, path: &[u8], body: B) -> Result<Response<Bytes>, Stop>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::error::Error,
    {
        let put = parts.method == Method::PUT;
        if !put && parts.method != Method::DELETE {
            return Err(Refusal::method_not_allowed().into());
        }
        let path = answer::visible(path, StatusCode::FORBIDDEN)?;
        if put && parts.headers.contains_key(header::CONTENT_RANGE) {
            let reason = "a PUT replaces the whole: Content-Range is not supported";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, reason).into());
        }
        let conditions = Conditions::of(&parts.headers);
        if conditions.are_unreadable() {
            let reason = "If-Match or If-None-Match is neither * nor a list of entity tags";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, reason).into());
        }
        if put {
            let intake = Intake::new(&parts.headers, body, &self.closer)?;
            self.put(path, conditions, intake).await
        } else {
            drop(body);
            let guard = self.lock(&path).await?;
            self.finally(guard, move |inner| publish::delete(inner, &path, &conditions)).await
        }
    }

    async fn put<B>(
        &self,
        path: RelPath,
        conditions: Conditions,
        intake: Intake<'_, B>,
    ) -> Result<Response<Bytes>, Stop>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::error::Error,
    {
        let mut staged = None;
        match self.prepare(&path, intake, &mut staged).await {
            Ok((staged, guard)) => {
                let put = move |inner: &Inner| publish::put(inner, &path, &conditions, staged);
                self.finally(guard, put).await
            }
            Err(stop) => {
                // Removing a large file blocks.
                let removed = self.blocking(move || drop(staged)).await;
                removed.map_err(|e| lost(&e)).and(Err(stop))
            }
        }
    }

    /// Everything before the final step, cut as soon as that is asked for.
    async fn prepare<B>(
        &self,
        path: &RelPath,
        mut intake: Intake<'_, B>,
        staged: &mut Option<Staged>,
    ) -> Result<(Staged, PathGuard), Stop>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::error::Error,
    {
        loop {
            let piece = intake.next().await?;
            let last = piece.last;
            let (inner, taken) = (Arc::clone(&self.inner), staged.take());
            let stored = self.blocking(move || store(inner, taken, piece)).await;
            let (next, buffer) = stored.map_err(|e| lost(&e))?.map_err(Refusal::of_write)?;
            *staged = Some(next);
            intake.give_back(buffer);
            if last {
                break;
            }
        }
        drop(intake);
        let guard = self.lock(path).await?;
        let whole = staged.take().ok_or_else(Refusal::internal)?;
        Ok((whole, guard))
    }

    /// Waits for the path's turn.
    async fn lock(&self, path: &RelPath) -> Result<PathGuard, Stop> {
        tokio::select! {
            biased;
            () = self.closer.aborted() => Err(Stop::Cut),
            guard = self.inner.locks.lock(path.as_bytes()) => Ok(guard),
        }
    }

    /// The final step; a last look at the closer, then there is no way back.
    async fn finally(
        &self,
        guard: PathGuard,
        step: impl FnOnce(&Inner) -> Result<Response<Bytes>, Stop> + Send + 'static,
    ) -> Result<Response<Bytes>, Stop> {
        let (inner, closer) = (Arc::clone(&self.inner), self.closer.clone());
        let ended = self.blocking(move || {
            let _guard = guard;
            if closer.is_aborted() {
                return Err(Stop::Cut);
            }
            inner.hooks.reach(Step::Begin).map_err(Refusal::of_write)?;
            step(&inner)
        });
        ended.await.unwrap_or_else(|error| Err(lost(&error)))
    }

    /// Runs what may block. It holds the ending too: a runtime that is torn down drops the task,
    /// but not a blocking call that has begun.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let ending = Arc::clone(&self.ending);
        spawn_blocking(move || {
            let _ending = ending;
            work()
        })
        .await
    }
}

/// One piece of a body to the staged file; the first creates it, the last makes it durable.
fn store(
    inner: Arc<Inner>,
    staged: Option<Staged>,
    piece: Piece,
) -> rustix::io::Result<(Staged, Vec<u8>)> {
    let mut staged = match staged {
        Some(staged) => staged,
        None => Staged::create(inner)?,
    };
    staged.append(&piece.bytes)?;
    if piece.last {
        staged.finish(None)?;
    }
    Ok((staged, piece.bytes))
}

/// A blocking call that never began applied nothing; one that panicked says nothing.
fn lost(error: &JoinError) -> Stop {
    if error.is_cancelled() { Stop::Cut } else { Stop::Fail(format!("a step of it {error}")) }
}
