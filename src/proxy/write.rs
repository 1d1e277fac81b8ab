//! A write on its way: sent once, run to its outcome whatever its client does, settled once.

use std::{future::Future, pin::Pin, sync::Arc};

use http::{Response, request::Parts};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::{
    Upstream,
    body::AnswerBody,
    call::{Call, Passed, whole},
    fate::{Answer, Fate, Sent},
    headers::{redirects_away, to_client},
    read::outgoing,
    refusal::Refusal,
    reply::{Reply, Tail, collect},
    service::Plan,
};
use crate::{
    fence::Outcome,
    gate::{Connection, Permit},
    upstream::{
        Closer, Options,
        files::{FileStore, WriteEnd},
        http::{BodyFault, HttpUpstream, Lease, Outgoing, Progress, SendError},
    },
};

/// Everything that a write takes along into its own task.
pub(super) struct Forward {
    upstream: Upstream,
    plan: Plan,
    head: Parts,
    body: Outgoing,
    run: Run,
}

/// What is needed until the write is settled and answered.
struct Run {
    call: Call,
    passed: Passed,
    permit: Permit,
    progress: Arc<Progress>,
    answer: oneshot::Sender<Response<AnswerBody>>,
    began: Instant,
}

/// Why no answer of the upstream's is passed on.
struct Failure {
    refusal: Refusal,
    fate: Fate,
}

/// A connection as the gate knows it.
struct Carrier {
    closer: Closer,
    progress: Arc<Progress>,
    admitted: Instant,
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
        (!self.progress.is_whole()).then(|| self.progress.last_data().unwrap_or(self.admitted))
    }
}

impl Forward {
    pub(super) fn new(
        upstream: &Upstream,
        plan: Plan,
        head: Parts,
        body: Outgoing,
        call: Call,
        passed: Passed,
        permit: Permit,
    ) -> (Self, oneshot::Receiver<Response<AnswerBody>>) {
        let (answer, answered) = oneshot::channel();
        let progress = body.progress();
        let run = Run { call, passed, permit, progress, answer, began: Instant::now() };
        (Self { upstream: upstream.clone(), plan, head, body, run }, answered)
    }

    /// To its outcome. Runs in a task of its own: a client that leaves cancels nothing (R8).
    pub(super) async fn run(self) {
        let Self { upstream, plan, head, body, run } = self;
        match upstream {
            Upstream::Http(http) => run.over_http(&http, plan, head, body).await,
            Upstream::Files(files) => run.write_file(&files, &plan, head, body).await,
        }
    }
}

impl Run {
    async fn over_http(self, http: &HttpUpstream, plan: Plan, head: Parts, body: Outgoing) {
        let options = Arc::clone(http.options());
        let authority = plan.addressed.field.to_str().unwrap_or_default().to_owned();
        let Some(route) = self.call.route() else { return };
        let request = outgoing(head, &plan, route, body);
        match self.exchange(http, request).await {
            Ok((lease, response)) => self.receive(lease, response, &options, &authority).await,
            Err(failure) => self.fail(&failure),
        }
    }

    /// Gets the request to the upstream, and the head of an answer back.
    async fn exchange(
        &self,
        http: &HttpUpstream,
        mut request: http::Request<Outgoing>,
    ) -> Result<(Lease, Response<hyper::body::Incoming>), Failure> {
        let mut lease = self.connect(http.checkout(None)).await?;
        let mut redialled = false;
        loop {
            self.permit.attach(Arc::new(Carrier {
                closer: lease.closer(),
                progress: Arc::clone(&self.progress),
                admitted: self.began,
            }));
            let sent = self.send(&mut lease, request, http.options()).await;
            request = match sent {
                Ok(response) => return Ok((lease, response)),
                Err(Unsent::Returned(request)) if !redialled => *request,
                Err(Unsent::Returned(_)) => {
                    return Err(self.lost(lease, "the upstream closes its connections").await);
                }
                Err(Unsent::Lost(why)) => return Err(self.lost(lease, &why).await),
                Err(Unsent::Late) => return Err(self.end(lease, Refusal::UpstreamTimeout).await),
                Err(Unsent::Cut) => return Err(self.end(lease, Refusal::Superseded).await),
            };
            // R7: not sent, so it may be sent after all, if the verdict still stands.
            redialled = true;
            self.permit.detach();
            drop(lease);
            if !self.permit.is_current() {
                return Err(Failure { refusal: Refusal::StaleToken, fate: Fate::NOT_SENT });
            }
            lease = self.connect(http.dial(None)).await?;
        }
    }

    async fn connect(
        &self,
        connecting: impl Future<Output = Result<Lease, crate::upstream::http::Unreachable>>,
    ) -> Result<Lease, Failure> {
        let refusal = tokio::select! {
            biased;
            connected = connecting => match connected {
                Ok(lease) => return Ok(lease),
                Err(error) => Refusal::UpstreamUnreachable(error.to_string()),
            },
            () = self.permit.cut() => Refusal::Superseded,
        };
        Err(Failure { refusal, fate: Fate::NOT_SENT })
    }

    /// Sends, until the answer's head, the time-out or a takeover.
    async fn send(
        &self,
        lease: &mut Lease,
        request: http::Request<Outgoing>,
        options: &Options,
    ) -> Result<Response<hyper::body::Incoming>, Unsent> {
        let account = lease.account();
        let late = async {
            account.until_whole().await;
            sleep(options.response_timeout).await;
        };
        tokio::select! {
            biased;
            sent = lease.send(request) => sent.map_err(|error| match error {
                SendError::NotSent(request) => Unsent::Returned(request),
                SendError::Lost(why) => Unsent::Lost(why),
                SendError::Stalled => Unsent::Late,
            }),
            () = self.permit.cut() => Err(Unsent::Cut),
            () = late => Err(Unsent::Late),
        }
    }

    /// The answer's head is there: holds its body, judges, settles, answers.
    async fn receive(
        self,
        lease: Lease,
        response: Response<hyper::body::Incoming>,
        options: &Options,
        authority: &str,
    ) {
        // A final answer before the request was sent whole ends the sending (R4).
        let sent = Sent { any: lease.sent_any(), whole: lease.sent_whole() };
        let (parts, body) = response.into_parts();
        let reply = tokio::select! {
            biased;
            reply = collect(&parts, body, options) => reply,
            () = self.permit.cut() => Reply::Cut,
        };
        let status = parts.status;
        let held = match reply {
            Reply::Whole(held) if !status.is_informational() => held,
            Reply::Long(tail) if !status.is_informational() => {
                return self.stream(lease, parts, tail, sent, options).await;
            }
            reply @ (Reply::Whole(_) | Reply::Long(_) | Reply::Cut | Reply::Late) => {
                let answer =
                    if status.is_informational() { Answer::None } else { Answer::Cut(status) };
                let fate = Fate::judge(sent, answer, options);
                let_go(&self.permit, lease, fate, sent).await;
                let refusal = match reply {
                    _ if self.permit.was_cut() => Refusal::Superseded,
                    Reply::Late => Refusal::UpstreamTimeout,
                    Reply::Whole(_) | Reply::Long(_) | Reply::Cut => {
                        Refusal::UpstreamFailed("the upstream's answer was cut short".into())
                    }
                };
                return self.fail(&Failure { refusal, fate });
            }
        };
        let fate = Fate::judge(sent, Answer::Whole(status), options);
        let_go(&self.permit, lease, fate, sent).await;
        if redirects_away(status, &parts.headers, authority) && !options.pass_redirects {
            return self.fail(&Failure { refusal: Refusal::RedirectRefused, fate });
        }
        self.pass_on(parts, held, fate);
    }

    /// A long answer goes out without the word on the outcome, while it is still being read.
    async fn stream(
        self,
        lease: Lease,
        mut parts: http::response::Parts,
        tail: Tail,
        sent: Sent,
        options: &Options,
    ) {
        let Self { call, passed, permit, answer, began, .. } = self;
        let status = parts.status;
        to_client(&mut parts.headers);
        call.label(&mut parts.headers, passed, permit.highest(), None);
        let (feed, fed) = tail.split();
        drop(answer.send(Response::from_parts(parts, AnswerBody::Fed(fed))));
        let came_whole = tokio::select! {
            biased;
            whole = feed.run(options.body_idle_timeout) => whole,
            () = permit.cut() => false,
        };
        let came = if came_whole { Answer::Whole(status) } else { Answer::Cut(status) };
        let fate = Fate::judge(sent, came, options);
        let_go(&permit, lease, fate, sent).await;
        permit.settle(fate.outcome);
        call.upstream_took(began.elapsed());
        call.passed(passed, status.as_u16(), Some(fate.told));
    }

    async fn write_file(self, files: &FileStore, plan: &Plan, head: Parts, body: Outgoing) {
        let path = plan.target.path();
        let path = path.strip_prefix(b"/").unwrap_or(path).to_vec();
        let write = files.write(head, path, body);
        self.permit.attach(Arc::new(Carrier {
            closer: write.closer.clone(),
            progress: Arc::clone(&self.progress),
            admitted: self.began,
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
        self.permit.detach();
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

    /// No answer came, or the client's body did not.
    async fn lost(&self, lease: Lease, why: &str) -> Failure {
        let refusal = self.refusal_of_cut(why);
        self.end(lease, refusal).await
    }

    /// Ends the connection and joins it; only then is it known what was sent.
    async fn end(&self, lease: Lease, refusal: Refusal) -> Failure {
        let account = lease.account();
        lease.close().await;
        self.permit.detach();
        let sent = Sent { any: account.any(), whole: account.whole() };
        Failure { refusal, fate: Fate::judge(sent, Answer::None, &self.options()) }
    }

    fn options(&self) -> Arc<Options> {
        let at = self.call.route().map_or(0, |route| route.upstream);
        Arc::clone(&self.call.shared.upstreams[at].options)
    }

    /// What to tell a client whose request ended before its end.
    fn refusal_of_cut(&self, otherwise: &str) -> Refusal {
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
    fn pass_on(mut self, mut parts: http::response::Parts, body: bytes::Bytes, fate: Fate) {
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
    fn fail(mut self, failure: &Failure) {
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

/// The connection's part is over: it is kept where a whole exchange settles the write, else ended
/// and joined, before anything is settled.
async fn let_go(permit: &Permit, lease: Lease, fate: Fate, sent: Sent) {
    if fate.outcome == Outcome::Answered && sent.whole {
        permit.detach();
        lease.put_back();
    } else {
        lease.close().await;
        permit.detach();
    }
}

/// Why a request has no answer yet.
enum Unsent {
    /// It was not sent, and here it is.
    Returned(Box<http::Request<Outgoing>>),
    Lost(String),
    Late,
    Cut,
}
