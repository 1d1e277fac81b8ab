//! A write on its way: sent once, run to its outcome whatever its client does, settled once.

use std::{future::Future, pin::Pin, sync::Arc};

use http::{Response, request::Parts};
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

use super::{
    Upstream,
    body::AnswerBody,
    call::{Call, Passed, whole},
    fate::Fate,
    headers::to_client,
    refusal::Refusal,
    service::Plan,
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
    pub(super) answer: oneshot::Sender<Response<AnswerBody>>,
    pub(super) began: Instant,
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
    pub(super) fn new(
        call: Call,
        passed: Passed,
        permit: Permit,
        body: &Outgoing,
    ) -> (Self, oneshot::Receiver<Response<AnswerBody>>) {
        let (answer, answered) = oneshot::channel();
        let progress = body.progress();
        (Self { call, passed, permit, progress, answer, began: Instant::now() }, answered)
    }

    /// To its outcome, in a task of its own: a client that leaves cancels nothing (R8).
    pub(super) fn spawn(
        self,
        upstream: &Upstream,
        plan: Plan,
        head: Parts,
        body: Outgoing,
    ) -> JoinHandle<()> {
        // A task for each kind: its future is moved about on the way there, and the one over HTTP
        // need not have room for the other.
        match upstream {
            Upstream::Http(http) => tokio::spawn(self.over_http(http, plan, head, body)),
            Upstream::Files(files) => {
                tokio::spawn(self.write_file(files.clone(), plan, head, body))
            }
        }
    }

    async fn write_file(self, files: FileStore, plan: Plan, head: Parts, body: Outgoing) {
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
                self.pass_on(parts, body, fate);
            }
            Ok(WriteEnd::Cut) => {
                let refusal = self.refusal_of_cut("the body did not arrive whole");
                self.fail(&Failure { refusal, fate: Fate::NOT_SENT });
            }
            Ok(WriteEnd::Failed(why)) => {
                self.fail(&Failure { refusal: Refusal::UpstreamFailed(why), fate: Fate::UNKNOWN });
            }
            Err(_) => {
                let refusal = Refusal::UpstreamFailed("the write's task was lost".into());
                self.fail(&Failure { refusal, fate: Fate::UNKNOWN });
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
    ) {
        self.note_unread_body();
        let highest = self.permit.highest();
        self.permit.settle(fate.outcome);
        to_client(&mut parts.headers);
        self.call.label(&mut parts.headers, self.passed, highest, Some(fate.told));
        self.call.upstream_took(self.began.elapsed());
        self.call.passed(self.passed, parts.status.as_u16(), Some(fate.told));
        drop(self.answer.send(whole(parts, body)));
    }

    /// Settles, and answers in the upstream's place.
    pub(super) fn fail(mut self, failure: &Failure) {
        self.note_unread_body();
        let highest = self.permit.highest();
        self.permit.settle(failure.fate.outcome);
        let told = Some(failure.fate.told);
        let response = self.call.fail(&failure.refusal, self.passed, highest, told);
        drop(self.answer.send(response));
    }

    fn note_unread_body(&mut self) {
        self.call.close = !self.progress.is_whole();
    }
}
