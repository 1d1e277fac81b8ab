//! From a request's head to what is done with it.

use std::{sync::Arc, time::Duration};

use http::{Request, Response, Version, header, request::Parts};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::sleep;

use super::{
    Shared, Upstream,
    answering::Answering,
    body::AnswerBody,
    call::{Call, Passed},
    classify::Action,
    headers::{BodyLength, join_cookies},
    lines::Fields,
    plan::Plan,
    refusal::Refusal,
    route::Route,
    spend::{MOST_SPENT, is_spent},
    write::Run,
};
use crate::{
    fence::Token,
    gate::{Admitted, Ask, Denied, Permit, Reason},
    server::{Answers, Peer},
    upstream::http::{BodyLimits, HttpUpstream, Outgoing},
};

/// A client that has shut its sending side cannot be told from one that has left. For so long it
/// may still be waiting for its answer; a write that waits longer at the gate is given up.
const HALF_CLOSE_GRACE: Duration = Duration::from_millis(250);

/// How long a read waits for the mark that it is told beside its answer.
const READ_PATIENCE: Duration = Duration::from_secs(1);

/// The proxy of one worker: what is shared, and its own connections to each upstream.
#[derive(Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
    upstreams: Arc<Vec<Upstream>>,
}

impl Proxy {
    /// Must be made within the worker's runtime.
    pub fn new(shared: Arc<Shared>) -> Self {
        let upstreams = shared.upstreams.iter().map(|options| match &options.files {
            Some(files) => Upstream::Files(files.clone()),
            None => Upstream::Http(HttpUpstream::new(Arc::clone(&options.options))),
        });
        Self { upstreams: Arc::new(upstreams.collect()), shared }
    }

    /// Does at once whatever need not wait: a future is made for the rest alone.
    fn begin(&self, peer: Peer, request: Request<Incoming>) -> Answering {
        let (mut head, body) = request.into_parts();
        if head.version == Version::HTTP_2 {
            join_cookies(&mut head.headers);
        }
        let fields = Fields::of(&head.headers);
        let shared = Arc::clone(&self.shared);
        let mut call = Call::new(shared, Some(peer), head.version, fields.unusual);
        let ended = body.is_end_stream();
        call.close = !ended;
        let plan = match Plan::of(&self.shared, &head, &fields, ended, &mut call) {
            Ok(plan) => plan,
            Err(refusal) => return Answering::now(call.refuse(&refusal, None)),
        };
        let asked = Asked { plan, head, body, call };
        if asked.plan.intent.action == Action::Read {
            return self.read(asked);
        }
        let Some(ask) = asked.ask() else {
            return Answering::now(asked.call.refuse(&Refusal::NoRoute, None));
        };
        match self.shared.gate.admit_at_once(&ask) {
            Some(answer) => self.go_on(asked, answer.map_err(Into::into)),
            None => Answering::later(self.clone().wait(asked)),
        }
    }

    /// Waits at the gate as long as the client does.
    async fn wait(self, asked: Asked) -> Response<AnswerBody> {
        let Some(ask) = asked.ask() else { return asked.call.refuse(&Refusal::NoRoute, None) };
        let admitted = tokio::select! {
            biased;
            admitted = self.shared.gate.admit(ask) => admitted.map_err(Into::into),
            () = left(asked.call.peer.as_ref()) => {
                Err(Denial { refusal: Refusal::ClientLeft, highest: None })
            }
        };
        let Ok(response) = self.go_on(asked, admitted).await;
        response
    }

    /// The gate has said whether it may.
    fn go_on(&self, asked: Asked, admitted: Result<Admitted, Denial>) -> Answering {
        match admitted {
            Ok(Admitted { permit: Some(permit), would_refuse, .. }) => {
                self.write(asked, permit, would_refuse)
            }
            Ok(Admitted { permit: None, highest, .. }) => {
                self.forward(asked, Passed::Claimed, highest)
            }
            Err(denial) if asked.may_be_spent() => {
                Answering::later(spend(asked.body, asked.call, denial))
            }
            Err(denial) => Answering::now(asked.call.refuse(&denial.refusal, denial.highest)),
        }
    }

    fn write(&self, asked: Asked, permit: Permit, would_refuse: Option<Reason>) -> Answering {
        let Asked { plan, head, body, mut call } = asked;
        let Some(route) = self.shared.routes.get(plan.route) else {
            return Answering::now(call.refuse(&Refusal::NoRoute, None));
        };
        let would = plan.intent.would_refuse.as_ref().map(Refusal::code);
        let would = would.or(would_refuse.map(|reason| Refusal::from(reason).code()));
        let limits = BodyLimits {
            idle: self.shared.upstreams[route.upstream].options.body_idle_timeout,
            max: route.max_body,
        };
        let body = match plan.length {
            BodyLength::None | BodyLength::Exact(0) => Outgoing::empty(),
            _ if head.version == Version::HTTP_2 => Outgoing::new(body, limits).of_http2(),
            BodyLength::Exact(_) | BodyLength::Chunked => Outgoing::new(body, limits),
        };
        call.close = false;
        let passed = would.map_or(Passed::Admitted, Passed::WouldRefuse);
        let upstream = &self.upstreams[route.upstream];
        let run = Run::new(call.clone(), passed, permit, &body);
        Answering::write(run.begin(route, upstream, plan, head, body), call, passed)
    }

    /// A read without a token asks nothing of the fence.
    fn read(&self, asked: Asked) -> Answering {
        if asked.call.key.is_none() || asked.call.token.is_none() {
            return self.forward(asked, Passed::Read, None);
        }
        Answering::later(self.clone().read_with_token(asked))
    }

    async fn read_with_token(self, asked: Asked) -> Response<AnswerBody> {
        let Some(route) = asked.call.route() else {
            return asked.call.refuse(&Refusal::NoRoute, None);
        };
        let answering = match self.highest_for_read(route, &asked.call).await {
            Ok(highest) => self.forward(asked, Passed::Read, highest),
            Err(denial) => return asked.call.refuse(&denial.refusal, denial.highest),
        };
        let Ok(response) = answering.await;
        response
    }

    /// The mark, for a read that carries a token; a refusal where the route checks reads.
    async fn highest_for_read(&self, route: &Route, call: &Call) -> Result<Option<Token>, Denial> {
        let (Some(key), Some(token)) = (&call.key, call.token) else { return Ok(None) };
        let patience = route.policy.drain_timeout.min(READ_PATIENCE);
        let highest = self.shared.gate.highest(key, patience).await;
        match highest {
            Ok(highest) if route.check_reads && Some(token) < highest => {
                Err(Denial { refusal: Refusal::StaleToken, highest })
            }
            Ok(highest) => Ok(highest),
            Err(reason) if route.check_reads => {
                Err(Denial { refusal: reason.into(), highest: None })
            }
            // Reads always pass.
            Err(_) => Ok(None),
        }
    }

    pub(super) fn upstream(&self, route: usize) -> Option<&Upstream> {
        let route = self.shared.routes.get(route)?;
        self.upstreams.get(route.upstream)
    }
}

/// Resolves when the client has left, as far as can be told.
async fn left(peer: Option<&Peer>) {
    sleep(HALF_CLOSE_GRACE).await;
    match peer {
        Some(peer) => peer.gone().await,
        None => std::future::pending().await,
    }
}

impl Answers for Proxy {
    type Body = AnswerBody;
    type Error = std::convert::Infallible;
    type Future = Answering;

    fn answer(&self, peer: Peer, request: Request<Incoming>) -> Answering {
        if request.version() == Version::HTTP_2 {
            // hyper calls within the connection's task: a fault here must end its stream only.
            let proxy = self.clone();
            return Answering::later(async move {
                let Ok(response) = proxy.begin(peer, request).await;
                response
            });
        }
        self.begin(peer, request)
    }
}

/// A request whose head was read.
pub(super) struct Asked {
    pub(super) plan: Plan,
    pub(super) head: Parts,
    pub(super) body: Incoming,
    pub(super) call: Call,
}

impl Asked {
    /// Of the gate, for what is no read.
    fn ask(&self) -> Option<Ask<'_>> {
        let intent = &self.plan.intent;
        Some(Ask {
            key: self.call.key.as_ref()?,
            token: intent.token,
            holder: intent.holder.as_ref(),
            claim: intent.action == Action::Claim,
            policy: &self.call.route()?.policy,
        })
    }

    /// Whether there is a short body left that nobody was asked for: it may have come with its head.
    fn may_be_spent(&self) -> bool {
        matches!(self.plan.length, BodyLength::Exact(1..=MOST_SPENT))
            && self.head.version < Version::HTTP_2
            && !self.head.headers.contains_key(header::EXPECT)
    }
}

/// Why not, and the mark.
struct Denial {
    refusal: Refusal,
    highest: Option<Token>,
}

impl From<Denied> for Denial {
    fn from(denied: Denied) -> Self {
        Self { refusal: denied.reason.into(), highest: denied.highest }
    }
}

/// Refuses a write, and takes what is there of its short body, so that its connection can be kept.
/// The refusal waits for no body, and asks no client to send one (R1).
async fn spend(body: Incoming, mut call: Call, denial: Denial) -> Response<AnswerBody> {
    call.close = !is_spent(body).await;
    call.refuse(&denial.refusal, denial.highest)
}
