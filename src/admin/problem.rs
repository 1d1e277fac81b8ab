//! Every no of the admin listener, and what it looks like (RFC 9457).

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde::Serialize;

use crate::{
    fence::Token,
    gate::{ListError, OperatorError},
    store::StoreError,
};

/// An answer.
pub(super) type Answer = Response<Full<Bytes>>;

/// Why a request was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Code {
    BadRequest,
    TokenMalformed,
    ConfirmationMissing,
    Unauthenticated,
    Forbidden,
    NotFound,
    UnknownUpstream,
    UnknownKey,
    MethodNotAllowed,
    RequestTimeout,
    Busy,
    StaleToken,
    BodyTooLarge,
    UnsupportedMediaType,
    TokenImplausible,
    InternalError,
    StoreUnavailable,
    NotReady,
    ShuttingDown,
}

impl Code {
    /// Its status, its word in `type` and `code`, its title.
    const fn words(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as S;
        match self {
            Self::BadRequest => (S::BAD_REQUEST, "bad-request", "The request is malformed"),
            Self::TokenMalformed => (S::BAD_REQUEST, "token-malformed", "Not a fencing token"),
            Self::ConfirmationMissing => {
                (S::BAD_REQUEST, "confirmation-missing", "The change must be confirmed")
            }
            Self::Unauthenticated => {
                (S::UNAUTHORIZED, "unauthenticated", "The bearer token is missing or wrong")
            }
            Self::Forbidden => (S::FORBIDDEN, "forbidden", "The request comes from elsewhere"),
            Self::NotFound => (S::NOT_FOUND, "not-found", "There is nothing here"),
            Self::UnknownUpstream => (S::NOT_FOUND, "unknown-upstream", "No such upstream"),
            Self::UnknownKey => (S::NOT_FOUND, "unknown-key", "Nothing is known of this key"),
            Self::MethodNotAllowed => {
                (S::METHOD_NOT_ALLOWED, "method-not-allowed", "The method is not allowed here")
            }
            Self::RequestTimeout => {
                (S::REQUEST_TIMEOUT, "request-timeout", "The request did not come in time")
            }
            Self::Busy => (S::CONFLICT, "busy", "The key is in use"),
            Self::StaleToken => {
                (S::PRECONDITION_FAILED, "stale-token", "The token is below the mark")
            }
            Self::BodyTooLarge => {
                (S::PAYLOAD_TOO_LARGE, "body-too-large", "The request's body is too large")
            }
            Self::UnsupportedMediaType => {
                (S::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body is not JSON")
            }
            Self::TokenImplausible => {
                (S::UNPROCESSABLE_ENTITY, "token-implausible", "The token is beyond a limit")
            }
            Self::InternalError => {
                (S::INTERNAL_SERVER_ERROR, "internal-error", "A fault in this program")
            }
            Self::StoreUnavailable => {
                (S::SERVICE_UNAVAILABLE, "store-unavailable", "The marks cannot be read or written")
            }
            Self::NotReady => (S::SERVICE_UNAVAILABLE, "not-ready", "The process is starting"),
            Self::ShuttingDown => {
                (S::SERVICE_UNAVAILABLE, "shutting-down", "The process is stopping")
            }
        }
    }
}

const CHALLENGE: &str = "Bearer realm=\"palisade admin\"";

/// A refusal with what is known about it.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    code: Code,
    detail: String,
    key: Option<String>,
    highest: Option<Token>,
    /// What a 405 must add.
    allow: Option<&'static str>,
}

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    highest: Option<String>,
}

impl Problem {
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), key: None, highest: None, allow: None }
    }

    /// 405, with what is allowed.
    pub(super) fn method(allow: &'static str) -> Self {
        let detail = format!("allowed here: {allow}");
        Self { allow: Some(allow), ..Self::new(Code::MethodNotAllowed, detail) }
    }

    /// 401.
    pub(super) fn unauthenticated() -> Self {
        let detail = "send `Authorization: Bearer` with the token of `[admin] token_file`";
        Self::new(Code::Unauthenticated, detail)
    }

    /// The same about a key.
    pub(super) fn about(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    /// Its word.
    pub(super) fn code(&self) -> &'static str {
        self.code.words().1
    }

    pub(super) fn into_answer(self) -> Answer {
        let (status, code, title) = self.code.words();
        let document = Document {
            r#type: format!("urn:palisade:problem:{code}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            code,
            key: self.key.as_deref(),
            highest: self.highest.map(|token| token.to_string()),
        };
        let mut answer = json(status, &document);
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if self.code == Code::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
        }
        answer
    }
}

impl From<OperatorError> for Problem {
    fn from(error: OperatorError) -> Self {
        let detail = error.to_string();
        match error {
            OperatorError::Lower(highest) => {
                Self { highest: Some(highest), ..Self::new(Code::StaleToken, detail) }
            }
            OperatorError::Implausible => Self::new(
                Code::TokenImplausible,
                format!("{detail}; `\"force\": true` sets it aside"),
            ),
            OperatorError::Generation => Self::new(Code::BadRequest, detail),
            OperatorError::Busy => Self::new(Code::Busy, detail),
            OperatorError::Store(error) => error.into(),
        }
    }
}

impl From<ListError> for Problem {
    fn from(error: ListError) -> Self {
        match error {
            ListError::UnknownUpstream => {
                let detail = "no upstream's name starts as `prefix` does, written UPSTREAM:KEY";
                Self::new(Code::UnknownUpstream, detail)
            }
            ListError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::new(Code::StoreUnavailable, error.to_string())
    }
}

/// An answer with a JSON document and a line feed after it.
pub(super) fn json(status: StatusCode, document: &impl Serialize) -> Answer {
    match serde_json::to_vec(document) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            text(status, "application/json", bytes)
        }
        Err(error) => {
            tracing::error!(%error, "write an admin answer");
            text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", "")
        }
    }
}

/// An answer of any type. None may be kept by a cache or guessed at by a browser.
pub(super) fn text(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
