//! From a request's head to what is done with it.

use std::{
    borrow::Cow,
    convert::Infallible,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
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
    write::{Lost, Run, Write},
};
use crate::{
    fence::{Key, Token},
    gate::{Admitted, Ask, Denied, Permit, Reason},
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

    /// Does at once whatever need not wait: a future is made for the rest alone.
    fn answer(&self, request: Request<Incoming>) -> Answering {
        let (mut head, body) = request.into_parts();
        if head.version == Version::HTTP_2 {
            join_cookies(&mut head.headers);
        }
        let mut call = Call::new(Arc::clone(&self.shared), &head);
        let ended = body.is_end_stream();
        call.close = !ended;
        let plan = match Plan::of(&head, ended, &mut call) {
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
            () = left(&asked.head) => Err(Denial { refusal: Refusal::ClientLeft, highest: None }),
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
        let (id, version) = (call.id.clone(), head.version);
        let passed = would.map_or(Passed::Admitted, Passed::WouldRefuse);
        let upstream = &self.upstreams[route.upstream];
        let write = Run::new(call, passed, permit, &body).begin(route, upstream, plan, head, body);
        Answering(State::Write { write, id, version })
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
async fn left(head: &Parts) {
    sleep(HALF_CLOSE_GRACE).await;
    match head.extensions.get::<Peer>() {
        Some(peer) => peer.gone().await,
        None => std::future::pending().await,
    }
}

impl Service<Request<Incoming>> for Proxy {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        self.answer(request)
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
        let short = matches!(self.plan.length, BodyLength::Exact(1..=MOST_SPENT));
        let asks_first = self.head.headers.contains_key(header::EXPECT);
        short && !asks_first && self.head.version < Version::HTTP_2
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

/// The answer to a request.
pub struct Answering(State);

/// How far it is.
#[expect(clippy::large_enum_variant, reason = "hyper keeps one per connection, in its own box")]
enum State {
    Now(Option<Response<AnswerBody>>),
    /// A write is on its way to its outcome.
    Write {
        write: Write,
        id: RequestId,
        version: Version,
    },
    /// It waits for something.
    Later(Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>>),
}

impl Answering {
    pub(super) fn now(response: Response<AnswerBody>) -> Self {
        Self(State::Now(Some(response)))
    }

    pub(super) fn later(
        answer: impl Future<Output = Response<AnswerBody>> + Send + 'static,
    ) -> Self {
        Self(State::Later(Box::pin(answer)))
    }
}

impl Future for Answering {
    type Output = Result<Response<AnswerBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Now(response) => {
                response.take().map_or(Poll::Pending, |now| Poll::Ready(Ok(now)))
            }
            State::Later(answer) => answer.as_mut().poll(cx).map(Ok),
            State::Write { write, id, version } => Pin::new(write)
                .poll(cx)
                // The client of one that was lost learns as much as from a cut connection.
                .map(|answer| Ok(answer.unwrap_or_else(|Lost| lost(id, *version)))),
        }
    }
}

/// Refuses a write, and takes what is there of its short body, so that its connection can be kept.
/// The refusal waits for no body, and asks no client to send one (R1).
async fn spend(body: Incoming, mut call: Call, denial: Denial) -> Response<AnswerBody> {
    call.close = !is_spent(body).await;
    call.refuse(&denial.refusal, denial.highest)
}

/// Whether nothing is left of a body, after what there was of it was taken.
async fn is_spent(mut body: Incoming) -> bool {
    let mut looks = 0;
    while !body.is_end_stream() && looks < LOOKS {
        match poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(_)) | None) => return false,
            Poll::Pending => {
                looks += 1;
                if looks == 1 { next_turn().await } else { yield_now().await }
            }
        }
    }
    body.is_end_stream()
}

/// Resolves in the task's next turn, without a look at its sockets.
async fn next_turn() {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn lost(id: &RequestId, version: Version) -> Response<AnswerBody> {
    let refusal = Refusal::UpstreamFailed("the write was lost to a fault of the proxy".into());
    let outcome = Some(WriteOutcome::Unknown);
    let context = Context {
        fencing: true,
        admitted: Some("admitted"),
        outcome,
        request_id: id.as_str(),
        ..Context::default()
    };
    let mut response = refusal.response(&context).map(AnswerBody::from);
    let headers = response.headers_mut();
    headers.insert(request_id::FIELD, id.value());
    if version < Version::HTTP_2 {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
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
