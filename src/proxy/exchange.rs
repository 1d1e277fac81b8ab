//! A write over HTTP: connected, sent once, answered, judged.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use super::{
    authority::Addressed,
    body::AnswerBody,
    fate::{Answer, Fate},
    forwarding::add_via,
    headers::{redirects_away, to_client},
    outbound::outgoing,
    plan::Plan,
    refusal::Refusal,
    reply::{Feed, Reply, collect, feed},
    route::Route,
    write::{Carrier, Failure, Run},
};
use crate::{
    fence::Outcome,
    gate::Permit,
    upstream::{
        Options,
        http::{HttpUpstream, Lease, Outgoing, Request, SendError},
    },
};
use bytes::Bytes;
use http::{Response, StatusCode, request::Parts};
use tokio::time::Instant;

/// The longest silence within the rest of an answer that came before the request was sent whole: the
/// upstream may be waiting for the rest of the request, which it does not get.
const EARLY_REST: Duration = Duration::from_secs(2);

impl Run {
    /// The request is built here, so that the future need not hold what it is built of.
    pub(super) fn over_http(
        self,
        route: &Route,
        http: &HttpUpstream,
        plan: Plan,
        head: Parts,
        body: Outgoing,
    ) -> Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>> {
        let http = http.clone();
        let host = http.options().host.as_ref();
        let request = outgoing(head, &plan, &self.call, route, host, body);
        let addressed = plan.addressed;
        Box::pin(async move {
            let (mut lease, response) = match self.exchange(&http, request).await {
                Ok(answered) => answered,
                Err(failure) => return self.fail(&failure),
            };
            let reply = self.hold(&mut lease, http.options()).await;
            self.settle(lease, response, reply, http.options(), &addressed)
        })
    }

    /// Gets the request to the upstream, and the head of an answer back.
    async fn exchange(
        &self,
        http: &HttpUpstream,
        request: Box<Request>,
    ) -> Result<(Lease, Response<()>), Failure> {
        // What is rare is boxed: the future of every write has room for the rest.
        let lease = match self.at_hand(http) {
            Some(lease) => lease,
            None => Box::pin(self.connect(http, false)).await?,
        };
        match self.send(lease, request, http.options()).await {
            Ok(answered) => Ok(answered),
            Err((lease, unsent)) => Box::pin(self.after_unsent(http, lease, unsent)).await,
        }
    }

    /// R7: what was not sent may be sent after all, once, if the verdict still stands. Whatever else
    /// went wrong is the end of it.
    async fn after_unsent(
        &self,
        http: &HttpUpstream,
        lease: Lease,
        unsent: Unsent,
    ) -> Result<(Lease, Response<()>), Failure> {
        let Unsent::Returned(request) = unsent else {
            return Err(self.give_up(lease, unsent, http.options()));
        };
        self.permit.detach();
        drop(lease);
        if !self.permit.is_current() {
            return Err(Failure { refusal: Refusal::StaleToken, fate: Fate::NOT_SENT });
        }
        self.permit.unpin();
        let lease = self.connect(http, true).await?;
        match self.send(lease, request, http.options()).await {
            Ok(answered) => Ok(answered),
            Err((lease, unsent)) => Err(self.give_up(lease, unsent, http.options())),
        }
    }

    /// No answer came, or the client's body did not.
    fn give_up(&self, lease: Lease, unsent: Unsent, options: &Options) -> Failure {
        let refusal = match unsent {
            Unsent::Returned(_) => self.refusal_of_cut("the upstream closes its connections"),
            Unsent::Lost(why) => self.refusal_of_cut(&why),
            Unsent::Late => Refusal::UpstreamTimeout,
            Unsent::Cut => Refusal::Superseded,
        };
        let answer = if lease.has_unread() { Answer::Unread } else { Answer::None };
        let sent = lease.sent();
        Failure { refusal, fate: Fate::judge_ended(sent, lease.close(), answer, options) }
    }

    /// An idle connection, to the address that the key's other writes in flight go to, if there are
    /// any.
    fn at_hand(&self, http: &HttpUpstream) -> Option<Lease> {
        let lease = http.at_hand(self.permit.place())?;
        if !self.is_in_place(&lease) {
            lease.put_back();
            return None;
        }
        Some(lease)
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
        mut lease: Lease,
        request: Box<Request>,
        options: &Options,
    ) -> Result<(Lease, Response<()>), (Lease, Unsent)> {
        self.permit.attach(Arc::new(Carrier {
            closer: lease.closer(),
            progress: Arc::clone(&self.progress),
        }));
        let sent = tokio::select! {
            biased;
            sent = lease.send(request, options.response_timeout) => {
                sent.map_err(|error| match error {
                    SendError::NotSent(request) => Unsent::Returned(request),
                    SendError::Lost(why) => Unsent::Lost(why),
                    SendError::Late => Unsent::Late,
                })
            }
            () = self.permit.cut() => Err(Unsent::Cut),
        };
        match sent {
            Ok(response) => Ok((lease, response)),
            Err(unsent) => Err((lease, unsent)),
        }
    }

    /// The answer's head is there: reads its body, as far as it is held.
    async fn hold(&self, lease: &mut Lease, options: &Options) -> Reply {
        let mut idle = options.body_idle_timeout;
        // A final answer before the request was sent whole has ended the sending (R4).
        if !lease.sent().whole {
            idle = idle.min(EARLY_REST);
        }
        tokio::select! {
            biased;
            reply = collect(lease, options.eof_is_end, idle) => reply,
            () = self.permit.cut() => Reply::Cut,
        }
    }

    /// Judges, settles, answers.
    fn settle(
        self,
        lease: Lease,
        response: Response<()>,
        reply: Reply,
        options: &Arc<Options>,
        addressed: &Addressed,
    ) -> Response<AnswerBody> {
        let (mut parts, ()) = response.into_parts();
        add_via(&mut parts.headers, parts.version);
        let status = parts.status;
        let (held, refusal) = match reply {
            _ if status.is_informational() => {
                (None, Refusal::UpstreamFailed("the upstream switches protocols".into()))
            }
            Reply::Long(held) => return self.stream(lease, parts, held, Arc::clone(options)),
            Reply::Whole(held) => (Some(held), Refusal::RedirectRefused),
            Reply::Cut if self.permit.was_cut() => (None, Refusal::Superseded),
            Reply::Cut => {
                (None, Refusal::UpstreamFailed("the upstream's answer was cut short".into()))
            }
            Reply::Late => (None, Refusal::UpstreamTimeout),
        };
        let answer = match held {
            _ if status.is_informational() => Answer::Unread,
            Some(_) => Answer::Whole(status),
            None => Answer::Cut(status),
        };
        let fate = let_go(&self.permit, lease, answer, options);
        let refused = redirects_away(status, &parts.headers, addressed) && !options.pass_redirects;
        match held {
            Some(held) if !refused => self.pass_on(parts, held, fate),
            _ => self.fail(&Failure { refusal, fate }),
        }
    }

    /// A long answer goes out without the word on the outcome, while it is still being read: by a
    /// task of its own, at the upstream's pace (R8).
    fn stream(
        mut self,
        lease: Lease,
        mut parts: http::response::Parts,
        held: Bytes,
        options: Arc<Options>,
    ) -> Response<AnswerBody> {
        self.note_unread_body();
        to_client(&mut parts.headers);
        self.call.label(&mut parts.headers, self.passed, self.permit.highest(), None);
        let (feed, fed) = feed(held, &self.call.shared.behind);
        tokio::spawn(self.read_on(lease, parts.status, feed, options));
        Response::from_parts(parts, AnswerBody::Fed(fed))
    }

    async fn read_on(
        self,
        mut lease: Lease,
        status: StatusCode,
        feed: Feed,
        options: Arc<Options>,
    ) {
        let came_whole = tokio::select! {
            biased;
            whole = feed.run(&mut lease, &options) => whole,
            () = self.permit.cut() => false,
        };
        let came = if came_whole { Answer::Whole(status) } else { Answer::Cut(status) };
        let fate = let_go(&self.permit, lease, came, &options);
        self.permit.settle(fate.outcome);
        let now = Instant::now();
        self.call.upstream_took(now - self.began);
        self.call.passed(self.passed, status.as_u16(), Some(fate.told), now);
    }
}

/// The connection's part is over, and with it all that can become of the write: it is kept where a
/// whole exchange settles the write, else it has ended when the fate is given. It stays attached to
/// the permit then, so that a fault on the way settles it as unknown.
fn let_go(permit: &Permit, lease: Lease, answer: Answer, options: &Options) -> Fate {
    let sent = lease.sent();
    let fate = Fate::judge(sent, answer, options);
    if sent.whole && fate.outcome == Outcome::Answered {
        permit.detach();
        lease.put_back();
        return fate;
    }
    Fate::judge_ended(sent, lease.close(), answer, options)
}

/// Why a request has no answer yet.
enum Unsent {
    /// It was not sent, and here it is.
    Returned(Box<Request>),
    Lost(String),
    Late,
    Cut,
}

#[cfg(test)]
mod tests {
    use http::Version;
    use tokio::net::TcpListener;

    use super::*;
    use crate::{
        fence::Token,
        gate::{Ask, Gate},
        metrics::Metrics,
        proxy::{
            Forwarding, RouteTable, Shared,
            call::{Call, Passed},
            table::tests::route,
        },
    };

    /// Where an upstream has several addresses, two of them would reorder a key's writes.
    #[tokio::test]
    async fn a_write_over_an_idle_connection_says_where_it_goes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let http = HttpUpstream::at(address.port());
        http.dial(None).await.unwrap().put_back();

        let route = route("/k", &[], &[]);
        let metrics = Metrics::new(std::slice::from_ref(&route.path));
        let gate = Gate::with_upstream(&metrics);
        let (key, policy) = (gate.key(0, b"k").unwrap(), Arc::clone(&route.policy));
        let table = RouteTable::new(vec![route]).unwrap();
        let shared = Shared::new(table, gate.clone(), metrics, vec![], Forwarding::default(), 100);
        let shared = Arc::new(shared);
        let run = async || {
            let token = Some(Token::new(1));
            let ask = Ask { key: &key, token, holder: None, claim: false, policy: &policy };
            let permit = gate.admit(ask).await.unwrap().permit.unwrap();
            let call = Call::new(Arc::clone(&shared), None, Version::HTTP_11, None);
            Run::new(call, Passed::Admitted, permit, &Outgoing::empty())
        };
        let (first, second) = (run().await, run().await);
        assert_eq!(second.permit.place(), None);
        let lease = first.at_hand(&http).unwrap();
        assert_eq!((lease.address(), second.permit.place()), (Some(address), Some(address)));
    }
}
