//! A write on its way: sent once, run to its outcome whatever its client does, settled once.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Response, request::Parts};
use tokio::{runtime::Handle, time::Instant};

use super::{
    Upstream,
    body::AnswerBody,
    call::{Call, Passed, whole},
    fate::Fate,
    headers::to_client,
    plan::Plan,
    refusal::Refusal,
    route::Route,
};
use crate::{
    gate::{Connection, Permit},
    upstream::{
        Closer,
        files::{FileStore, WriteEnd},
        http::{BodyFault, Outgoing, Progress},
    },
};

/// What is needed until the write is settled and answered.
pub(super) struct Run {
    pub(super) call: Call,
    pub(super) passed: Passed,
    pub(super) permit: Permit,
    pub(super) progress: Arc<Progress>,
    pub(super) began: Instant,
}

/// A write that runs to its outcome, and its answer.
///
/// It runs within its client's request as long as there is one. Dropped before its end it goes on
/// as a task of its own: a client that leaves cancels nothing (R8).
pub(super) struct Write(pub(super) Option<Running>);

type Running = Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>>;

/// A fault of ours ended a write before its answer. Its permit settles it.
pub(super) struct Lost;

impl Future for Write {
    type Output = Result<Response<AnswerBody>, Lost>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Taken out: what panics is dropped here and never polled again.
        let Some(mut running) = self.0.take() else { return Poll::Ready(Err(Lost)) };
        match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
            Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
            Ok(Poll::Pending) => {
                self.0 = Some(running);
                Poll::Pending
            }
            Err(_) => Poll::Ready(Err(Lost)),
        }
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and the permit forbids the clean mark.
        if let Some(running) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(running);
        }
    }
}

/// Why no answer of the upstream's is passed on.
pub(super) struct Failure {
    pub(super) refusal: Refusal,
    pub(super) fate: Fate,
}

/// A connection as the gate knows it.
pub(super) struct Carrier {
    pub(super) closer: Closer,
    pub(super) progress: Arc<Progress>,
}

impl Connection for Carrier {
    fn cut(&self) {
        self.closer.abort();
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let closer = self.closer.clone();
        Box::pin(async move { closer.ended().await })
    }

    fn client_silent_since(&self) -> Option<Instant> {
        self.progress.silent_since().filter(|_| !self.progress.is_whole())
    }
}

impl Run {
    /// `body` is the one that is about to be sent.
    pub(super) fn new(call: Call, passed: Passed, permit: Permit, body: &Outgoing) -> Self {
        Self { call, passed, permit, progress: body.progress(), began: Instant::now() }
    }

    /// Begins it; the first poll sends.
    pub(super) fn begin(
        self,
        route: &Route,
        upstream: &Upstream,
        plan: Plan,
        head: Parts,
        body: Outgoing,
    ) -> Write {
        // A future for each kind: the one over HTTP need not have room for the other.
        Write(Some(match upstream {
            Upstream::Http(http) => self.over_http(route, http, plan, head, body),
            Upstream::Files(files) => Box::pin(self.write_file(files.clone(), plan, head, body)),
        }))
    }

    async fn write_file(
        self,
        files: FileStore,
        plan: Plan,
        head: Parts,
        body: Outgoing,
    ) -> Response<AnswerBody> {
        let path = plan.target.path();
        let path = path.strip_prefix(b"/").unwrap_or(path).to_vec();
        let write = files.write(head, path, body);
        self.permit.attach(Arc::new(Carrier {
            closer: write.closer.clone(),
            progress: Arc::clone(&self.progress),
        }));
        let mut done = write.done;
        let end = tokio::select! {
            biased;
            end = &mut done => end,
            () = self.permit.cut() => {
                write.closer.abort();
                done.await
            }
        };
        write.closer.ended().await;
        match end {
            Ok(WriteEnd::Answered(response)) => {
                let (parts, body) = response.into_parts();
                let fate = Fate::of_file(parts.status);
                self.pass_on(parts, body, fate)
            }
            Ok(WriteEnd::Cut) => {
                let refusal = self.refusal_of_cut("the body did not arrive whole");
                self.fail(&Failure { refusal, fate: Fate::NOT_SENT })
            }
            Ok(WriteEnd::Failed(why)) => {
                self.fail(&Failure { refusal: Refusal::UpstreamFailed(why), fate: Fate::UNKNOWN })
            }
            Err(_) => {
                let refusal = Refusal::UpstreamFailed("the write's task was lost".into());
                self.fail(&Failure { refusal, fate: Fate::UNKNOWN })
            }
        }
    }

    /// What to tell a client whose request ended before its end.
    pub(super) fn refusal_of_cut(&self, otherwise: &str) -> Refusal {
        if self.permit.was_cut() {
            return Refusal::Superseded;
        }
        match self.progress.fault() {
            Some(BodyFault::Idle) => Refusal::RequestTimeout,
            Some(BodyFault::TooLarge) => Refusal::BodyTooLarge,
            Some(BodyFault::ClientGone) => Refusal::BadRequest("the body did not arrive whole"),
            None => Refusal::UpstreamFailed(otherwise.to_owned()),
        }
    }

    /// Settles, and passes the upstream's answer on.
    pub(super) fn pass_on(
        mut self,
        mut parts: http::response::Parts,
        body: bytes::Bytes,
        fate: Fate,
    ) -> Response<AnswerBody> {
        self.note_unread_body();
        let highest = self.permit.highest();
        self.permit.settle(fate.outcome);
        to_client(&mut parts.headers);
        self.call.label(&mut parts.headers, self.passed, highest, Some(fate.told));
        let now = Instant::now();
        self.call.upstream_took(now - self.began);
        self.call.passed(self.passed, parts.status.as_u16(), Some(fate.told), now);
        whole(parts, body)
    }

    /// Settles, and answers in the upstream's place.
    pub(super) fn fail(mut self, failure: &Failure) -> Response<AnswerBody> {
        self.note_unread_body();
        let highest = self.permit.highest();
        self.permit.settle(failure.fate.outcome);
        let told = Some(failure.fate.told);
        self.call.fail(&failure.refusal, self.passed, highest, told)
    }

    /// A client that still has a body to send to nobody is told that its connection ends.
    pub(super) fn note_unread_body(&mut self) {
        self.call.close = !self.progress.is_whole();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::sync::oneshot;

    use super::*;

    /// Its answer waits for the first channel, and is told in the second.
    fn write() -> (Write, oneshot::Sender<()>, oneshot::Receiver<()>) {
        let (go, gone) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let running = async move {
            gone.await.unwrap();
            end.send(()).unwrap();
            Response::new(Bytes::new().into())
        };
        (Write(Some(Box::pin(running))), go, ended)
    }

    /// R8: a client that leaves cancels nothing.
    #[tokio::test]
    async fn a_write_without_a_client_runs_to_its_end() {
        let (mut write, go, ended) = write();
        let begun = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut write).poll(cx))).await;
        assert!(begun.is_pending());
        drop(write);
        go.send(()).unwrap();
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn a_fault_ends_the_write_alone() {
        let (write, go, ended) = write();
        drop((go, ended));
        assert!(matches!(write.await, Err(Lost)));
    }
}
