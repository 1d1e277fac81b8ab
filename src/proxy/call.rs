//! One request on its way through the proxy: what is known of it, and how it is answered and told.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, Version, header};
use tokio::time::Instant;

use super::{
    Shared,
    body::AnswerBody,
    classify::Action,
    fields,
    refusal::{Context, NO_STORE, Refusal, WriteOutcome, token_value},
    request_id::{self, RequestId},
    route::Route,
};
use crate::{
    fence::{Key, Token},
    gate::Mode,
    metrics::{MethodClass, ResultLabel},
    server::Peer,
};

/// A request, from its head to its answer.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) shared: Arc<Shared>,
    /// Who sent it; `None` where nobody has yet.
    pub(super) peer: Option<Peer>,
    pub(super) id: RequestId,
    version: Version,
    pub(super) began: Instant,
    pub(super) route: Option<usize>,
    pub(super) action: Option<Action>,
    pub(super) key: Option<Key>,
    pub(super) token: Option<Token>,
    /// The client must not be kept: it may still be sending a body that nobody reads.
    pub(super) close: bool,
}

/// How a request that was let through is labelled in its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Passed {
    Read,
    Claimed,
    Admitted,
    /// By a route that does not enforce; the code of what would have refused it.
    WouldRefuse(&'static str),
}

impl Passed {
    fn field(self) -> HeaderValue {
        const READ: HeaderValue = HeaderValue::from_static("read");
        const CLAIMED: HeaderValue = HeaderValue::from_static("claimed");
        const ADMITTED: HeaderValue = HeaderValue::from_static("admitted");
        match self {
            Self::Read => READ,
            Self::Claimed => CLAIMED,
            Self::Admitted => ADMITTED,
            Self::WouldRefuse(code) => HeaderValue::try_from(format!("would-refuse; code={code}"))
                .unwrap_or_else(|_| HeaderValue::from_static("would-refuse")),
        }
    }

    fn label(self) -> ResultLabel {
        match self {
            Self::Read => ResultLabel::Read,
            Self::Claimed => ResultLabel::Claimed,
            Self::Admitted => ResultLabel::Admitted,
            Self::WouldRefuse(_) => ResultLabel::WouldRefuse,
        }
    }

    /// `Fencing-Result` on an answer of our own after admission.
    fn admitted(self) -> Option<&'static str> {
        match self {
            Self::Read => None,
            Self::Claimed => Some("claimed"),
            Self::Admitted | Self::WouldRefuse(_) => Some("admitted"),
        }
    }
}

impl Call {
    /// A call of that client's, in that version; `unusual` are the fields of a head that has some
    /// ([`Fields`](super::lines::Fields)).
    pub(super) fn new(
        shared: Arc<Shared>,
        peer: Option<Peer>,
        version: Version,
        unusual: Option<&HeaderMap>,
    ) -> Self {
        Self {
            shared,
            peer,
            id: RequestId::of(unusual),
            version,
            began: Instant::now(),
            route: None,
            action: None,
            key: None,
            token: None,
            close: false,
        }
    }

    pub(super) fn route(&self) -> Option<&Route> {
        self.route.and_then(|at| self.shared.routes.get(at))
    }

    /// Whether the route's answers carry `Fencing-...` fields.
    fn is_fencing(&self) -> bool {
        self.route().is_none_or(|route| route.policy.mode != Mode::Off)
    }

    fn reveals(&self) -> bool {
        self.route().is_none_or(|route| route.reveal_highest)
    }

    /// Refuses before admission. Nothing was forwarded.
    pub(super) fn refuse(&self, refusal: &Refusal, highest: Option<Token>) -> Response<AnswerBody> {
        let outcome = (self.action == Some(Action::Write)).then_some(WriteOutcome::NotApplied);
        if matches!(refusal, Refusal::StaleToken) && self.action == Some(Action::Write) {
            self.count_stale();
        }
        self.answer(refusal, highest, outcome, None)
    }

    /// Answers for the upstream, or for a takeover, after admission.
    pub(super) fn fail(
        &self,
        refusal: &Refusal,
        passed: Passed,
        highest: Option<Token>,
        outcome: Option<WriteOutcome>,
    ) -> Response<AnswerBody> {
        // `superseded` is the fence's own word, though it comes after admission.
        let own = matches!(refusal, Refusal::Superseded | Refusal::StaleToken);
        let admitted = if own { None } else { passed.admitted() };
        self.answer(refusal, highest, outcome, admitted)
    }

    fn answer(
        &self,
        refusal: &Refusal,
        highest: Option<Token>,
        outcome: Option<WriteOutcome>,
        admitted: Option<&'static str>,
    ) -> Response<AnswerBody> {
        let context = Context {
            fencing: self.is_fencing(),
            admitted,
            key: self.key.as_ref().map(|key| (self.shared.gate.upstream(key), key)),
            token: self.token,
            highest: highest.filter(|_| self.reveals()),
            outcome,
            request_id: self.id.as_str(),
            stale_status: self.route().map(|route| route.stale_status),
        };
        let mut response = refusal.response(&context).map(AnswerBody::from);
        self.sign(response.headers_mut());
        if let Some(why) = refusal.upstream_fault() {
            self.blame(&why, refusal.label(), outcome);
        }
        self.note(refusal.label(), response.status().as_u16(), outcome, Instant::now());
        response
    }

    /// Labels an answer of the upstream's.
    pub(super) fn label(
        &self,
        headers: &mut HeaderMap,
        passed: Passed,
        highest: Option<Token>,
        outcome: Option<WriteOutcome>,
    ) {
        if self.is_fencing() {
            headers.insert(fields::RESULT, passed.field());
            if let Some(highest) = highest.filter(|_| self.reveals()) {
                headers.insert(fields::HIGHEST, token_value(highest));
            }
            if let Some(outcome) = outcome {
                headers.insert(fields::OUTCOME, outcome.field());
            }
            if passed == Passed::Claimed {
                headers.insert(header::CACHE_CONTROL, NO_STORE);
            }
        }
        self.sign(headers);
    }

    /// One event and one count per request, which was answered `now`.
    pub(super) fn passed(
        &self,
        passed: Passed,
        status: u16,
        outcome: Option<WriteOutcome>,
        now: Instant,
    ) {
        if let Passed::WouldRefuse(code) = passed {
            tracing::debug!(id = %self.id, code, "it would have been refused");
            if code == ResultLabel::StaleToken.as_str() {
                self.count_stale();
            }
        }
        self.note(passed.label(), status, outcome, now);
    }

    fn count_stale(&self) {
        if let Some(route) = self.route {
            self.shared.metrics.stale_write(route);
        }
    }

    /// How long the upstream took for its part.
    pub(super) fn upstream_took(&self, took: Duration) {
        let class = match self.action {
            Some(Action::Write) => MethodClass::Write,
            _ => MethodClass::Read,
        };
        self.shared.metrics.upstream(class, took);
    }

    /// A store that fails is the operator's business, whatever is logged of requests.
    fn blame(&self, why: &str, label: ResultLabel, outcome: Option<WriteOutcome>) {
        let upstream = self.route().and_then(|route| self.shared.upstreams.get(route.upstream));
        tracing::warn!(
            id = %self.id,
            upstream = upstream.map(|upstream| upstream.options.name.as_str()),
            key = self.key.as_ref().map(|key| self.shared.gate.display(key)),
            token = self.token.map(tracing::field::display),
            outcome = outcome.map(WriteOutcome::as_str),
            "{}: {why}",
            label.as_str(),
        );
    }

    fn note(&self, label: ResultLabel, status: u16, outcome: Option<WriteOutcome>, now: Instant) {
        let elapsed = now - self.began;
        self.shared.metrics.request(self.route, label, elapsed);
        tracing::debug!(
            id = %self.id,
            route = self.route().map(|route| route.path.as_str()),
            key = self.key.as_ref().map(|key| self.shared.gate.display(key)),
            token = self.token.map(tracing::field::display),
            result = label.as_str(),
            status,
            outcome = outcome.map(WriteOutcome::as_str),
            ?elapsed,
            "request"
        );
    }

    /// What every answer says, whoever gave it. HTTP/2 has no `Connection`: there a stream ends by
    /// itself, and the others go on.
    fn sign(&self, headers: &mut HeaderMap) {
        headers.insert(request_id::FIELD, self.id.value());
        if self.close && self.version < Version::HTTP_2 {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// An answer with a body in memory.
pub(super) fn whole(parts: http::response::Parts, body: Bytes) -> Response<AnswerBody> {
    Response::from_parts(parts, body.into())
}
