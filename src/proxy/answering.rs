//! The answer to a request: there at once, or what must be waited for.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context as TaskContext, Poll},
};

use http::{HeaderValue, Response, Version, header};

use super::{
    body::AnswerBody,
    refusal::{Context, Refusal, WriteOutcome},
    request_id::{self, RequestId},
    write::{Lost, Write},
};

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

    pub(super) fn write(write: Write, id: RequestId, version: Version) -> Self {
        Self(State::Write { write, id, version })
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
