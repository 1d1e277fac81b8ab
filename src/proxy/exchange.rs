//! A write over HTTP: connected, sent once, answered, judged.

use std::{sync::Arc, time::Duration};

use http::{Response, request::Parts};
use tokio::time::sleep;

use super::{
    authority::Addressed,
    body::AnswerBody,
    fate::{Answer, Fate, Sent},
    forwarding::add_via,
    headers::{redirects_away, to_client},
    outbound::outgoing,
    refusal::Refusal,
    reply::{Reply, Tail, collect},
    service::Plan,
    write::{Carrier, Failure, Run},
};
use crate::{
    fence::Outcome,
    gate::Permit,
    upstream::{
        Options,
        http::{HttpUpstream, Lease, Outgoing, SendError},
    },
};

/// The longest silence within the rest of an answer that came before the request was sent whole: the
/// upstream may be waiting for the rest of the request, which it does not get.
const EARLY_REST: Duration = Duration::from_secs(2);

impl Run {
    /// The request is built here, so that the future need not hold what it is built of.
    pub(super) fn over_http(
        self,
        http: &HttpUpstream,
        plan: Plan,
        head: Parts,
        body: Outgoing,
    ) -> impl Future<Output = ()> + use<> {
        let http = http.clone();
        let host = http.options().host.as_ref();
        let route = self.call.route();
        let request = route.map(|route| outgoing(head, &plan, &self.call, route, host, body));
        let addressed = plan.addressed;
        async move {
            let Some(request) = request else { return };
            let options = Arc::clone(http.options());
            match self.exchange(&http, request).await {
                Ok((lease, response)) => self.receive(lease, response, &options, &addressed).await,
                Err(failure) => self.fail(&failure),
            }
        }
    }

    /// Gets the request to the upstream, and the head of an answer back.
    async fn exchange(
        &self,
        http: &HttpUpstream,
        mut request: http::Request<Outgoing>,
    ) -> Result<(Lease, Response<hyper::body::Incoming>), Failure> {
        let mut lease = self.connect(http, false).await?;
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
            self.permit.unpin();
            lease = self.connect(http, true).await?;
        }
    }

    /// A connection, to the address that the key's other writes in flight go to, if there are any.
    async fn connect(&self, http: &HttpUpstream, anew: bool) -> Result<Lease, Failure> {
        let mut elsewhere = false;
        loop {
            let pinned = self.permit.place();
            let connecting =
                async { if anew { http.dial(pinned).await } else { http.checkout(pinned).await } };
            let refusal = tokio::select! {
                biased;
                connected = connecting => match connected {
                    Ok(lease) if self.is_in_place(&lease) => return Ok(lease),
                    Ok(lease) => {
                        // Another write of the key was quicker, and went elsewhere.
                        lease.put_back();
                        continue;
                    }
                    // Nobody can be reached there; once, elsewhere.
                    Err(_) if pinned.is_some() && !elsewhere && self.permit.unpin() => {
                        elsewhere = true;
                        continue;
                    }
                    Err(error) => Refusal::UpstreamUnreachable(Arc::new(error)),
                },
                () = self.permit.cut() => Refusal::Superseded,
            };
            return Err(Failure { refusal, fate: Fate::NOT_SENT });
        }
    }

    fn is_in_place(&self, lease: &Lease) -> bool {
        lease.address().is_none_or(|address| self.permit.pin(address) == address)
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
        let (feed, fed) = tail.split(&call.shared.behind);
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
