//! Every no that the proxy says, in one place: status, code and words. Only this file chooses a
//! status.

mod document;

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::{
    fields::{self, TokenFault},
    target::Ambiguity,
};
use crate::{
    fence::{Key, Token},
    gate::Reason,
    metrics::ResultLabel,
    upstream::http::Unreachable,
};

/// Room for the fields of most answers at once, and just that: a map for seven takes twice as much.
const USUAL_FIELDS: usize = 6;

// Constants, since each use of `from_static` looks at every byte again.
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The longest time named in `Retry-After`: a client that asks again sooner does no harm.
const MOST_RETRY_AFTER: Duration = Duration::from_secs(30);

/// A refusal, or an answer of our own in place of one that the upstream did not give.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// R1: the token is below the highest one seen.
    StaleToken,
    /// R3: cut by a takeover while in flight.
    Superseded,
    /// A write without a token.
    TokenMissing,
    /// A token field that is no token.
    TokenMalformed(TokenFault),
    /// R9.
    TokenImplausible,
    /// R1: the token is another holder's.
    HolderConflict,
    /// The target has more than one meaning.
    TargetAmbiguous(Ambiguity),
    /// R6: the request touches keys that cannot be told.
    NotFenceable(&'static str),
    /// The route does not list the method. The methods that it lists.
    MethodNotAllowed(String),
    /// No route matches.
    NoRoute,
    /// R3: lower writes were still in flight at `drain_timeout`.
    DrainingWrites,
    /// R3 to R5: lower writes may still take effect, as far as is known for so long.
    InDoubt(Duration),
    /// R2.
    StoreUnavailable,
    /// A limit is reached.
    Overloaded,
    /// The process stops.
    ShuttingDown,
    /// No connection to the upstream.
    UpstreamUnreachable(Arc<Unreachable>),
    /// The upstream gave no whole answer.
    UpstreamFailed(String),
    /// The upstream gave no answer in time.
    UpstreamTimeout,
    /// The upstream redirects a write past the fence.
    RedirectRefused,
    /// The body is longer than the route allows.
    BodyTooLarge,
    /// The head has more fields than the server takes.
    HeadersTooLarge,
    /// The client sent nothing for too long.
    RequestTimeout,
    /// `Expect` asks for something other than `100-continue`.
    ExpectationFailed,
    /// A write that came in TLS early data, which can be replayed (RFC 8470).
    TooEarly,
    /// The connection was made to another host than the request is for.
    Misdirected,
    /// The client closed its side of the connection while its write waited at the gate.
    ClientLeft,
    /// Anything else that is no request to forward.
    BadRequest(&'static str),
}

/// What became of a write, as far as is known: `Fencing-Outcome`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WriteOutcome {
    /// The upstream has applied it.
    Applied,
    /// The upstream has not applied it and will not.
    NotApplied,
    /// The upstream may have applied it, or may yet.
    Unknown,
}

impl WriteOutcome {
    /// As a field's value.
    pub(super) fn field(self) -> HeaderValue {
        const APPLIED: HeaderValue = HeaderValue::from_static("applied");
        const NOT_APPLIED: HeaderValue = HeaderValue::from_static("not-applied");
        const UNKNOWN: HeaderValue = HeaderValue::from_static("unknown");
        match self {
            Self::Applied => APPLIED,
            Self::NotApplied => NOT_APPLIED,
            Self::Unknown => UNKNOWN,
        }
    }

    /// The field's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NotApplied => "not-applied",
            Self::Unknown => "unknown",
        }
    }
}

/// What a refusal is about, for its document and its fields.
#[derive(Clone, Debug, Default)]
pub struct Context<'a> {
    /// False on a route with `token = "off"`: no `Fencing-...` field is sent.
    pub fencing: bool,
    /// `admitted` or `claimed` where the fence had let the request in: then the code stands in the
    /// document only.
    pub admitted: Option<&'static str>,
    /// The key, and its upstream's name.
    pub key: Option<(&'a str, &'a Key)>,
    /// The request's token.
    pub token: Option<Token>,
    /// The mark now, where the route reveals it.
    pub highest: Option<Token>,
    /// Of a write.
    pub outcome: Option<WriteOutcome>,
    /// For the log and the client's report.
    pub request_id: &'a str,
    /// The route's `stale_status`.
    pub stale_status: Option<StatusCode>,
}

impl Refusal {
    /// The code: stable, for programs.
    pub fn code(&self) -> &'static str {
        self.label().as_str()
    }

    fn code_field(&self) -> HeaderValue {
        static CODES: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| {
            ResultLabel::ALL.iter().map(|label| HeaderValue::from_static(label.as_str())).collect()
        });
        CODES[self.label() as usize].clone()
    }

    /// The metric's label.
    pub fn label(&self) -> ResultLabel {
        match self {
            Self::StaleToken => ResultLabel::StaleToken,
            Self::Superseded => ResultLabel::Superseded,
            Self::TokenMissing => ResultLabel::TokenMissing,
            Self::TokenMalformed(_) => ResultLabel::TokenMalformed,
            Self::TokenImplausible => ResultLabel::TokenImplausible,
            Self::HolderConflict => ResultLabel::HolderConflict,
            Self::TargetAmbiguous(_) => ResultLabel::TargetAmbiguous,
            Self::NotFenceable(_) => ResultLabel::NotFenceable,
            Self::MethodNotAllowed(_) => ResultLabel::MethodNotAllowed,
            Self::NoRoute => ResultLabel::NoRoute,
            Self::DrainingWrites => ResultLabel::DrainingWrites,
            Self::InDoubt(_) => ResultLabel::InDoubt,
            Self::StoreUnavailable => ResultLabel::StoreUnavailable,
            Self::Overloaded => ResultLabel::Overloaded,
            Self::ShuttingDown => ResultLabel::ShuttingDown,
            Self::UpstreamUnreachable(_) => ResultLabel::UpstreamUnreachable,
            Self::UpstreamFailed(_) => ResultLabel::UpstreamFailed,
            Self::UpstreamTimeout => ResultLabel::UpstreamTimeout,
            Self::RedirectRefused => ResultLabel::RedirectRefused,
            Self::BodyTooLarge => ResultLabel::BodyTooLarge,
            Self::HeadersTooLarge => ResultLabel::HeadersTooLarge,
            Self::RequestTimeout => ResultLabel::RequestTimeout,
            Self::ExpectationFailed => ResultLabel::ExpectationFailed,
            Self::TooEarly => ResultLabel::TooEarly,
            Self::Misdirected => ResultLabel::MisdirectedRequest,
            Self::BadRequest(_) | Self::ClientLeft => ResultLabel::BadRequest,
        }
    }

    /// The status, but for a route's own `stale_status`.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::StaleToken => StatusCode::PRECONDITION_FAILED,
            Self::Superseded | Self::HolderConflict => StatusCode::CONFLICT,
            Self::TokenMissing => StatusCode::PRECONDITION_REQUIRED,
            Self::TokenMalformed(_)
            | Self::TargetAmbiguous(_)
            | Self::BadRequest(_)
            | Self::ClientLeft => StatusCode::BAD_REQUEST,
            Self::TokenImplausible => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NotFenceable(_) => StatusCode::FORBIDDEN,
            Self::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::DrainingWrites
            | Self::InDoubt(_)
            | Self::StoreUnavailable
            | Self::Overloaded
            | Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            Self::UpstreamUnreachable(_) | Self::UpstreamFailed(_) | Self::RedirectRefused => {
                StatusCode::BAD_GATEWAY
            }
            Self::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::ExpectationFailed => StatusCode::EXPECTATION_FAILED,
            Self::TooEarly => StatusCode::TOO_EARLY,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
        }
    }

    /// What happened, in the client's words.
    pub fn title(&self) -> &'static str {
        match self {
            Self::StaleToken => "The fencing token is stale",
            Self::Superseded => "A newer token took over while the write was in flight",
            Self::TokenMissing => "The request carries no fencing token",
            Self::TokenMalformed(_) => "The fencing token is malformed",
            Self::TokenImplausible => "The fencing token is implausible",
            Self::HolderConflict => "The fencing token belongs to another holder",
            Self::TargetAmbiguous(_) => "The target can be read in more than one way",
            Self::NotFenceable(_) => "The request cannot be fenced",
            Self::MethodNotAllowed(_) => "The method is not allowed here",
            Self::NoRoute => "No route matches",
            Self::DrainingWrites => "Writes with a lower token are still in flight",
            Self::InDoubt(_) => "Writes with a lower token may still take effect",
            Self::StoreUnavailable => "The fence's memory is unavailable",
            Self::Overloaded => "Too many requests wait on this key",
            Self::ShuttingDown => "The proxy is stopping",
            Self::UpstreamUnreachable(_) => "The upstream cannot be reached",
            Self::UpstreamFailed(_) => "The upstream gave no whole answer",
            Self::UpstreamTimeout => "The upstream gave no answer in time",
            Self::RedirectRefused => "The upstream redirects the write past the fence",
            Self::BodyTooLarge => "The body is too large",
            Self::ExpectationFailed => "The expectation cannot be met",
            Self::HeadersTooLarge => "The head has too many fields",
            Self::RequestTimeout => "The request took too long to arrive",
            Self::TooEarly => "The write came in early data",
            Self::Misdirected => "The connection is not for this host",
            Self::ClientLeft => "The client closed its side while its write waited",
            Self::BadRequest(_) => "The request is malformed",
        }
    }

    /// Why, and what to do.
    pub fn detail(&self) -> Cow<'static, str> {
        let text = match self {
            Self::StaleToken => "a higher token was seen for this key: the lock was lost",
            Self::Superseded => "the lock has a newer holder; do not retry with this token",
            Self::TokenMissing => "send the token of the lock grant as `Fencing-Token`",
            Self::TokenMalformed(fault) => fault.reason(),
            Self::TokenImplausible => {
                "it exceeds the route's max_token or max_jump, or skips a generation; nothing was raised"
            }
            Self::HolderConflict => {
                "two writers use one token: the lock service must give each its own"
            }
            Self::TargetAmbiguous(why) => why.reason(),
            Self::NotFenceable(why) | Self::BadRequest(why) => why,
            Self::MethodNotAllowed(allow) => return format!("allowed here: {allow}").into(),
            Self::NoRoute => "nothing is forwarded that no route names",
            Self::DrainingWrites => "retry with the same token",
            Self::InDoubt(left) => {
                let secs = seconds(*left);
                return format!("retry with the same token; as far as is known, in {secs} s")
                    .into();
            }
            Self::StoreUnavailable => {
                "the write was refused because its token cannot be made durable"
            }
            Self::Overloaded => "retry later",
            Self::ShuttingDown => "retry; nothing of this request was forwarded",
            Self::UpstreamUnreachable(why) => why.brief(),
            Self::UpstreamFailed(why) => return why.clone().into(),
            Self::UpstreamTimeout => "the write may have been applied, or may yet be",
            Self::RedirectRefused => {
                "following it would write without the fence; `pass_redirects` passes it on"
            }
            Self::BodyTooLarge => "the route's max_body is smaller",
            Self::ExpectationFailed => "Expect is not exactly `100-continue`",
            Self::TooEarly => {
                "early data can be replayed; send the write again after the handshake"
            }
            Self::Misdirected => {
                "the TLS handshake named another host; use a connection of its own for each host"
            }
            Self::ClientLeft => "keep the connection open both ways until the answer is there",
            Self::HeadersTooLarge => "the server's max_headers is smaller",
            Self::RequestTimeout => "the client sent nothing for too long",
        };
        text.into()
    }

    /// What the upstream did, for the operator's log; `None` where it is not about the upstream.
    pub(super) fn upstream_fault(&self) -> Option<String> {
        if let Self::UpstreamUnreachable(why) = self {
            return Some(why.to_string());
        }
        if let Self::UpstreamFailed(why) = self {
            return Some(why.clone());
        }
        matches!(self, Self::UpstreamTimeout)
            .then(|| "no answer within response_timeout".to_owned())
    }

    /// The whole answer: RFC 9457 problem details, and the fields that go with it.
    pub fn response(&self, context: &Context<'_>) -> Response<Bytes> {
        let status = match (self, context.stale_status) {
            (Self::StaleToken, Some(status)) => status,
            _ => self.status(),
        };
        let highest = context.highest.map(Token::text);
        let document = document::document(self, status, context, highest.as_deref());
        let mut response = Response::new(document.into());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.reserve(USUAL_FIELDS);
        headers.insert(header::CONTENT_TYPE, PROBLEM);
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        if context.fencing {
            let result =
                context.admitted.map_or_else(|| self.code_field(), HeaderValue::from_static);
            headers.insert(fields::RESULT, result);
            if let Some(highest) = highest.and_then(|text| HeaderValue::try_from(text).ok()) {
                headers.insert(fields::HIGHEST, highest);
            }
            if let Some(outcome) = context.outcome {
                headers.insert(fields::OUTCOME, outcome.field());
            }
        }
        if let Some(after) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds(after.min(MOST_RETRY_AFTER)).into());
        }
        if let Self::MethodNotAllowed(allow) = self
            && let Ok(allow) = HeaderValue::from_str(allow)
        {
            headers.insert(header::ALLOW, allow);
        }
        response
    }

    fn retry_after(&self) -> Option<Duration> {
        if let Self::InDoubt(left) = self {
            return Some(*left);
        }
        let soon = matches!(self, Self::DrainingWrites | Self::Overloaded | Self::ShuttingDown);
        soon.then_some(Duration::from_secs(1))
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Stale => Self::StaleToken,
            Reason::HolderConflict => Self::HolderConflict,
            Reason::Implausible => Self::TokenImplausible,
            Reason::TokenMissing => Self::TokenMissing,
            Reason::Draining => Self::DrainingWrites,
            Reason::InDoubt { left } => Self::InDoubt(left),
            Reason::StoreUnavailable => Self::StoreUnavailable,
            Reason::Overloaded => Self::Overloaded,
            Reason::ShuttingDown => Self::ShuttingDown,
        }
    }
}

/// A token as a field's value.
pub fn token_value(token: Token) -> HeaderValue {
    HeaderValue::try_from(token.text()).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Whole seconds, rounded up, at least one.
fn seconds(left: Duration) -> u64 {
    (left.as_secs() + u64::from(left.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests;
