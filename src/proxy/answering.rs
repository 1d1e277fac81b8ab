//! The answer to a request: there at once, or what must be waited for.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::Response;

use super::{
    body::AnswerBody,
    call::{Call, Passed},
    refusal::{Refusal, WriteOutcome},
    write::{Lost, Write},
};

/// The answer to a request.
pub struct Answering(State);

/// How far it is.
enum State {
    Now(Option<Response<AnswerBody>>),
    /// A write is on its way to its outcome.
    Write {
        write: Write,
        /// For the answer of one that was lost.
        call: Call,
        passed: Passed,
    },
    /// It waits for something.
    Later(Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>>),
}

impl Answering {
    pub(super) fn now(response: Response<AnswerBody>) -> Self {
        Self(State::Now(Some(response)))
    }

    pub(super) fn write(write: Write, call: Call, passed: Passed) -> Self {
        Self(State::Write { write, call, passed })
    }

    pub(super) fn later(
        answer: impl Future<Output = Response<AnswerBody>> + Send + 'static,
    ) -> Self {
        Self(State::Later(Box::pin(answer)))
    }
}

impl Future for Answering {
    type Output = Result<Response<AnswerBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Now(response) => {
                response.take().map_or(Poll::Pending, |now| Poll::Ready(Ok(now)))
            }
            State::Later(answer) => answer.as_mut().poll(cx).map(Ok),
            State::Write { write, call, passed } => Pin::new(write)
                .poll(cx)
                .map(|answer| Ok(answer.unwrap_or_else(|Lost| lost(call, *passed)))),
        }
    }
}

/// The client of a write that was lost learns as much as from a cut connection.
fn lost(call: &mut Call, passed: Passed) -> Response<AnswerBody> {
    let refusal = Refusal::UpstreamFailed("the write was lost to a fault of the proxy".into());
    call.close = true;
    call.fail(&refusal, passed, None, Some(WriteOutcome::Unknown))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Request;

    use super::*;
    use crate::{
        gate::{Gate, Mode, Policy},
        metrics::{Format, Metrics},
        proxy::{RouteTable, Shared, table::tests::route},
    };

    /// Of a write that a fault of ours has ended, on a route of that mode.
    async fn answer(mode: Mode) -> (Response<AnswerBody>, String) {
        let mut route = route("/k", &[], &[]);
        route.policy = Arc::new(Policy { mode, ..(*route.policy).clone() });
        let metrics = Metrics::new(std::slice::from_ref(&route.path));
        let gate = Gate::without_upstreams(&metrics);
        let table = RouteTable::new(vec![route]).unwrap();
        let forwarding = crate::proxy::Forwarding::default();
        let shared = Shared::new(table, gate, Arc::clone(&metrics), vec![], forwarding, 100);
        let (head, ()) = Request::put("/k").body(()).unwrap().into_parts();
        let mut call = Call::new(Arc::new(shared), None, head.version, None);
        call.route = Some(0);
        let write = Write(Some(Box::pin(async { panic!("on purpose") })));
        let Ok(answer) = Answering::write(write, call, Passed::Admitted).await;
        (answer, metrics.encode(Format::Text))
    }

    /// R4: it may have been applied.
    #[tokio::test]
    async fn a_lost_write_is_answered_as_unknown_counted_and_ends_its_connection() {
        let (answer, metrics) = answer(Mode::Required).await;
        assert_eq!(answer.status(), 502);
        for (name, value) in [
            ("fencing-result", "admitted"),
            ("fencing-outcome", "unknown"),
            ("connection", "close"),
        ] {
            assert_eq!(answer.headers()[name], value);
        }
        let counted = "palisade_requests_total{route=\"/k\",result=\"upstream-failed\"} 1";
        assert!(metrics.contains(counted), "{metrics}");
    }

    #[tokio::test]
    async fn without_tokens_it_says_nothing_of_fencing() {
        let (answer, _) = answer(Mode::Off).await;
        assert_eq!(answer.status(), 502);
        assert!(!answer.headers().keys().any(|name| name.as_str().starts_with("fencing-")));
    }
}
