//! From a request's head to what is done with it.

use std::{
    borrow::Cow,
    convert::Infallible,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Version, header, request::Parts,
};
use http_body::Body as _;
use hyper::{body::Incoming, service::Service};
use tokio::{task::yield_now, time::sleep};

use super::{
    Captures, Found, KeyParts, PartError, Shared, Upstream,
    authority::Addressed,
    body::AnswerBody,
    call::{Call, Passed},
    classify::{Action, Intent, check_fenceable, check_head, classify},
    headers::{BodyLength, body_length, join_cookies, nominated},
    hop::Hop,
    refusal::{Context, Refusal, WriteOutcome},
    request_id::{self, RequestId},
    route::Route,
    target::{Ambiguity, Target},
    write::Run,
};
use crate::{
    fence::{Key, Token},
    gate::{Admitted, Ask},
    server::Peer,
    upstream::http::{BodyLimits, HttpUpstream, Outgoing},
};

/// A client that has shut its sending side cannot be told from one that has left. For so long it
/// may still be waiting for its answer; a write that waits longer at the gate is given up.
const HALF_CLOSE_GRACE: Duration = Duration::from_millis(250);

/// How long a read waits for the mark that it is told beside its answer.
const READ_PATIENCE: Duration = Duration::from_secs(1);

/// The longest body of a refused write that is taken so that its connection can be kept.
const MOST_SPENT: u64 = 64 * 1024;

/// How often it is looked for: hyper hands over what it has read when it was asked and its own task
/// has had a turn, and reads what the kernel has in the next.
const LOOKS: usize = 3;

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

    async fn handle(self, request: Request<Incoming>) -> Result<Response<AnswerBody>, Infallible> {
        let (mut head, body) = request.into_parts();
        if head.version == Version::HTTP_2 {
            join_cookies(&mut head.headers);
        }
        let mut call = Call::new(Arc::clone(&self.shared), &head);
        let id = call.id.value();
        let ended = body.is_end_stream();
        call.close = !ended;
        let mut response = match Plan::of(&head, ended, &mut call) {
            Ok(plan) => self.carry_out(plan, head, body, call).await,
            Err(refusal) => call.refuse(&refusal, None),
        };
        response.headers_mut().insert(request_id::FIELD, id);
        Ok(response)
    }

    async fn carry_out(
        self,
        plan: Plan,
        head: Parts,
        body: Incoming,
        mut call: Call,
    ) -> Response<AnswerBody> {
        let Some(route) = self.shared.routes.get(plan.route) else {
            return call.refuse(&Refusal::NoRoute, None);
        };
        let action = plan.intent.action;
        if action == Action::Read {
            return match self.highest_for_read(route, &call).await {
                Ok(highest) => self.read(plan, head, call, Passed::Read, highest).await,
                Err((refusal, highest)) => call.refuse(&refusal, highest),
            };
        }
        let admitted = match self.admit(route, &plan, &head, &call).await {
            Ok(admitted) => admitted,
            Err((refusal, highest)) => {
                call.close = !is_spent(body, &plan, &head).await;
                return call.refuse(&refusal, highest);
            }
        };
        let Some(permit) = admitted.permit else {
            return self.read(plan, head, call, Passed::Claimed, admitted.highest).await;
        };
        let would = plan.intent.would_refuse.as_ref().map(Refusal::code);
        let would = would.or(admitted.would_refuse.map(|reason| Refusal::from(reason).code()));
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
        let (id, version) = (call.id.clone(), head.version);
        let passed = would.map_or(Passed::Admitted, Passed::WouldRefuse);
        let upstream = &self.upstreams[route.upstream];
        let (run, answered) = Run::new(call, passed, permit, &body);
        drop(run.spawn(upstream, plan, head, body));
        // The sender is gone without an answer only where the write's task was lost: then the
        // permit settles it, and the client learns as much as from a cut connection.
        answered.await.unwrap_or_else(|_| lost(&id, version))
    }

    /// Waits at the gate as long as the client does.
    async fn admit(
        &self,
        route: &Route,
        plan: &Plan,
        head: &Parts,
        call: &Call,
    ) -> Result<Admitted, (Refusal, Option<Token>)> {
        let Some(key) = &call.key else { return Err((Refusal::StoreUnavailable, None)) };
        let ask = Ask {
            key,
            token: plan.intent.token,
            holder: plan.intent.holder.as_ref(),
            claim: plan.intent.action == Action::Claim,
            policy: &route.policy,
        };
        let admission = self.shared.gate.admit(ask);
        let gone = async {
            sleep(HALF_CLOSE_GRACE).await;
            match head.extensions.get::<Peer>() {
                Some(peer) => peer.gone().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            admitted = admission => admitted.map_err(|denied| (denied.reason.into(), denied.highest)),
            () = gone => Err((Refusal::ClientLeft, None)),
        }
    }

    /// The mark, for a read that carries a token; a refusal where the route checks reads.
    async fn highest_for_read(
        &self,
        route: &Route,
        call: &Call,
    ) -> Result<Option<Token>, (Refusal, Option<Token>)> {
        let (Some(key), Some(token)) = (&call.key, call.token) else { return Ok(None) };
        let patience = route.policy.drain_timeout.min(READ_PATIENCE);
        let highest = self.shared.gate.highest(key, patience).await;
        match highest {
            Ok(highest) if route.check_reads && Some(token) < highest => {
                Err((Refusal::StaleToken, highest))
            }
            Ok(highest) => Ok(highest),
            Err(reason) if route.check_reads => Err((reason.into(), None)),
            // Reads always pass.
            Err(_) => Ok(None),
        }
    }

    pub(super) fn upstream(&self, route: usize) -> Option<&Upstream> {
        let route = self.shared.routes.get(route)?;
        self.upstreams.get(route.upstream)
    }
}

impl Service<Request<Incoming>> for Proxy {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        Box::pin(self.clone().handle(request))
    }
}

/// Whether nothing is left of the body of a write that the gate has refused, so that its connection
/// can be kept. A short body that came with its head is taken; the refusal waits for none, and asks no
/// client to send one (R1).
async fn is_spent(mut body: Incoming, plan: &Plan, head: &Parts) -> bool {
    let short = matches!(plan.length, BodyLength::Exact(length) if length <= MOST_SPENT);
    let asks_first = head.headers.contains_key(header::EXPECT);
    if !short || asks_first || head.version == Version::HTTP_2 {
        return body.is_end_stream();
    }
    let mut looks = 0;
    while !body.is_end_stream() && looks < LOOKS {
        match poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(_)) | None) => return false,
            Poll::Pending => {
                looks += 1;
                yield_now().await;
            }
        }
    }
    body.is_end_stream()
}

fn lost(id: &RequestId, version: Version) -> Response<AnswerBody> {
    let refusal = Refusal::UpstreamFailed("the write's task was lost".into());
    let outcome = Some(WriteOutcome::Unknown);
    let context = Context {
        fencing: true,
        admitted: Some("admitted"),
        outcome,
        request_id: id.as_str(),
        ..Context::default()
    };
    let mut response = refusal.response(&context).map(AnswerBody::from);
    if version < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// What is to be done with a request, from its head alone.
pub(super) struct Plan {
    pub(super) route: usize,
    pub(super) target: Target,
    pub(super) addressed: Addressed,
    pub(super) length: BodyLength,
    pub(super) intent: Intent,
}

impl Plan {
    /// Reads a head. Whatever is wrong with it is found here, before anything waits or is raised.
    pub(super) fn of(head: &Parts, ended: bool, call: &mut Call) -> Result<Self, Refusal> {
        // Until the route says what the method is, so that a refusal tells a writer the outcome.
        if !head.method.is_safe() {
            call.action = Some(Action::Write);
        }
        if head.method == Method::CONNECT {
            // What comes behind it was meant for a tunnel.
            call.close = true;
            return Err(Refusal::MethodNotAllowed("GET, HEAD, PUT, DELETE".into()));
        }
        if head.headers.len() > call.shared.max_headers {
            return Err(Refusal::HeadersTooLarge);
        }
        let target = Target::read(&head.uri).map_err(Refusal::TargetAmbiguous)?;
        let hop = Hop::of(&head.extensions);
        let addressed = Addressed::read(&head.headers, &head.uri, head.version, hop)?;
        check_head(&head.headers)?;
        let length = body_length(&head.headers, head.version, ended)?;
        let shared = Arc::clone(&call.shared);
        let (at, captures) = match shared.routes.find(&addressed.host, &head.method, target.path())
        {
            Found::Route(at, captures) => (at, captures),
            Found::MethodNotAllowed { allow } => {
                let allow: Vec<&str> = allow.iter().map(Method::as_str).collect();
                return Err(Refusal::MethodNotAllowed(allow.join(", ")));
            }
            Found::NoRoute => return Err(Refusal::NoRoute),
        };
        let route = shared.routes.get(at).ok_or(Refusal::NoRoute)?;
        call.route = Some(at);
        check_fenceable(&head.method, &head.headers, &target)?;
        if route.reads.contains(&head.method) {
            call.action = None;
        }
        let intent = classify(route, &head.method, &head.headers, &target, length)?;
        call.action = Some(intent.action);
        call.token = intent.token;
        if intent.action != Action::Read || intent.token.is_some() {
            let source = Source { target: &target, addressed: &addressed, headers: &head.headers };
            call.key = source.key(route, &captures, call)?;
        }
        Ok(Self { route: at, target, addressed, length, intent })
    }
}

/// What of a request a key can be made of.
pub(super) struct Source<'a> {
    pub(super) target: &'a Target,
    pub(super) addressed: &'a Addressed,
    pub(super) headers: &'a HeaderMap,
}

impl Source<'_> {
    /// The key; a read whose path has none is not fenced, and passes without.
    pub(super) fn key(
        &self,
        route: &Route,
        captures: &Captures,
        call: &Call,
    ) -> Result<Option<Key>, Refusal> {
        let key = route.key(captures, self.target.path(), self).map_err(Ambiguity::from).and_then(
            |key| call.shared.gate.key(route.upstream, &key).ok_or(Ambiguity::KeyTooLong),
        );
        match key {
            Ok(key) => Ok(Some(key)),
            Err(_) if call.action == Some(Action::Read) => Ok(None),
            Err(ambiguity) => Err(Refusal::TargetAmbiguous(ambiguity)),
        }
    }
}

impl KeyParts for Source<'_> {
    fn host(&self) -> Result<Cow<'_, [u8]>, PartError> {
        Ok(self.addressed.host.as_bytes().into())
    }

    fn query(&self, name: &str) -> Result<Cow<'_, [u8]>, PartError> {
        match self.target.query_value(name) {
            Ok(Some(value)) => Ok(value.into()),
            Ok(None) => Err(PartError::Missing),
            Err(_) => Err(PartError::Malformed),
        }
    }

    fn header(&self, name: &HeaderName) -> Result<Cow<'_, [u8]>, PartError> {
        // What `Connection` takes away does not reach the store.
        if nominated(self.headers, &[]).contains(name) {
            return Err(PartError::Malformed);
        }
        let mut lines = self.headers.get_all(name).iter();
        match (lines.next(), lines.next()) {
            (Some(line), None) => Ok(line.as_bytes().into()),
            (None, _) => Err(PartError::Missing),
            (Some(_), Some(_)) => Err(PartError::Doubled),
        }
    }
}
