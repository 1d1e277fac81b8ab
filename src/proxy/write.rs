//! A write on its way: sent once, run to its outcome whatever its client does, settled once.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use http::{Response, request::Parts};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::{
    Upstream,
    authority::Addressed,
    body::AnswerBody,
    call::{Call, Passed, whole},
    fate::{Answer, Fate, Sent},
    forwarding::add_via,
    headers::{redirects_away, to_client},
    outbound::outgoing,
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

/// The longest silence within the rest of an answer that came before the request was sent whole: the
/// upstream may be waiting for the rest of the request, which it does not get.
const EARLY_REST: Duration = Duration::from_secs(2);

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
        let Some(route) = self.call.route() else { return };
        let request = outgoing(head, &plan, &self.call, route, options.host.as_ref(), body);
        let addressed = plan.addressed;
        match self.exchange(http, request).await {
            Ok((lease, response)) => self.receive(lease, response, &options, &addressed).await,
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
        addressed: &Addressed,
    ) {
        // A final answer before the request was sent whole ends the sending (R4).
        let early = !lease.sent_whole();
        let mut idle = options.body_idle_timeout;
        if early {
            self.progress.halt();
            idle = idle.min(EARLY_REST);
        }
        let (mut parts, body) = response.into_parts();
        add_via(&mut parts.headers, parts.version);
        let reply = tokio::select! {
            biased;
            reply = collect(&parts, body, options.eof_is_end, idle) => reply,
            () = self.permit.cut() => Reply::Cut,
        };
        let status = parts.status;
        let (held, refusal) = match reply {
            _ if status.is_informational() => {
                (None, Refusal::UpstreamFailed("the upstream switches protocols".into()))
            }
            Reply::Long(tail) => return self.stream(lease, early, parts, tail, options).await,
            Reply::Whole(held) => (Some(held), Refusal::RedirectRefused),
            Reply::Cut if self.permit.was_cut() => (None, Refusal::Superseded),
            Reply::Cut => {
                (None, Refusal::UpstreamFailed("the upstream's answer was cut short".into()))
            }
            Reply::Late => (None, Refusal::UpstreamTimeout),
        };
        let answer = match held {
            _ if status.is_informational() => Answer::None,
            Some(_) => Answer::Whole(status),
            None => Answer::Cut(status),
        };
        let fate = let_go(&self.permit, lease, early, answer, options).await;
        let refused = redirects_away(status, &parts.headers, addressed) && !options.pass_redirects;
        match held {
            Some(held) if !refused => self.pass_on(parts, held, fate),
            _ => self.fail(&Failure { refusal, fate }),
        }
    }

    /// A long answer goes out without the word on the outcome, while it is still being read.
    async fn stream(
        self,
        lease: Lease,
        early: bool,
        mut parts: http::response::Parts,
        tail: Tail,
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
        let fate = let_go(&permit, lease, early, came, options).await;
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

    /// No answer came, or the client's body did not.
    async fn lost(&self, lease: Lease, why: &str) -> Failure {
        let refusal = self.refusal_of_cut(why);
        self.end(lease, refusal).await
    }

    /// Ends the connection and joins it; only then is it known what was sent.
    async fn end(&self, lease: Lease, refusal: Refusal) -> Failure {
        let account = lease.account();
        lease.close().await;
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

/// The connection's part is over, and with it all that can become of the write: it is kept where a
/// whole exchange settles the write, else ended and joined, and only then is the write judged. It
/// stays attached to the permit then, so that a fault on the way settles it as unknown.
async fn let_go(
    permit: &Permit,
    lease: Lease,
    early: bool,
    answer: Answer,
    options: &Options,
) -> Fate {
    let account = lease.account();
    if !early {
        let fate = Fate::judge(Sent { any: true, whole: true }, answer, options);
        if fate.outcome == Outcome::Answered {
            permit.detach();
            lease.put_back();
            return fate;
        }
    }
    lease.close().await;
    if early && account.whole() {
        // What hyper held when the sending was ended made it whole after all: the answer was to a
        // part, and the upstream has all.
        return Fate::UNKNOWN;
    }
    Fate::judge(Sent { any: account.any(), whole: account.whole() }, answer, options)
}

/// Why a request has no answer yet.
enum Unsent {
    /// It was not sent, and here it is.
    Returned(Box<http::Request<Outgoing>>),
    Lost(String),
    Late,
    Cut,
}
