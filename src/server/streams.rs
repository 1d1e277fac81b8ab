//! The open streams of one HTTP/2 connection: what hyper does not bound by itself.
//!
//! A connection may be idle for so long, a client may leave an answer's bytes for so long, and it
//! may not cancel most of what it asks for.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// Requests that a client may cancel before their answers; beyond them, not more than it let end.
const MOST_CANCELLED: u64 = 100;

/// How long a connection may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For its first stream.
    pub(super) first: Duration,
    /// For another one, with none open.
    pub(super) idle: Duration,
    /// For the client to take a part of an answer.
    pub(super) taken: Duration,
}

/// What to do with a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// Ask again then.
    Fine { until: Instant },
    /// Nothing was asked for in a long time.
    Idle,
    /// The client takes nothing of an answer.
    Stuck,
}

/// The streams of one connection.
#[derive(Debug)]
pub(super) struct Streams {
    limits: Limits,
    state: Mutex<State>,
    flooded: Notify,
}

#[derive(Debug)]
struct State {
    next: u64,
    open: usize,
    answered: u64,
    cancelled: u64,
    /// Since when none is open.
    idle_since: Instant,
    /// Streams with a part of an answer that the client has yet to take, and since when.
    untaken: BTreeMap<u64, Instant>,
}

impl Streams {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let state = State {
            next: 0,
            open: 0,
            answered: 0,
            cancelled: 0,
            idle_since: Instant::now(),
            untaken: BTreeMap::new(),
        };
        Arc::new(Self { limits, state: Mutex::new(state), flooded: Notify::new() })
    }

    /// A stream, which is open until the value is dropped.
    pub(super) fn open(self: &Arc<Self>) -> Stream {
        let mut state = self.state.lock();
        state.next += 1;
        state.open += 1;
        Stream { id: state.next, answered: false, streams: Arc::clone(self) }
    }

    pub(super) fn none_open(&self) -> bool {
        self.state.lock().open == 0
    }

    /// Resolves when the client has cancelled too much.
    pub(super) async fn flooded(&self) {
        self.flooded.notified().await;
    }

    pub(super) fn verdict(&self, now: Instant) -> Verdict {
        let Limits { first, idle, taken } = self.limits;
        let state = self.state.lock();
        let oldest = state.untaken.values().min().map(|since| *since + taken);
        if oldest.is_some_and(|oldest| oldest <= now) {
            return Verdict::Stuck;
        }
        let limit = if state.next == 0 { first } else { idle };
        let end = (state.open == 0).then(|| state.idle_since + limit);
        if end.is_some_and(|end| end <= now) {
            return Verdict::Idle;
        }
        // What begins from now on ends no sooner than this.
        let later = now + idle.min(taken);
        let until = [oldest, end].into_iter().flatten().fold(later, Instant::min);
        Verdict::Fine { until }
    }
}

/// An open stream.
#[derive(Debug)]
pub(super) struct Stream {
    id: u64,
    answered: bool,
    streams: Arc<Streams>,
}

impl Stream {
    /// The answer goes out, with its body; `None` where the request asked for its head alone, which
    /// hyper does not see to in HTTP/2.
    pub(super) fn answer<B>(mut self, body: Option<B>) -> Answer<B> {
        self.answered = true;
        self.streams.state.lock().answered += 1;
        Answer { body: body.map(Box::pin), stream: self }
    }

    /// The service failed, which the client did not do.
    pub(super) fn fail(mut self) {
        self.answered = true;
    }

    fn taken(&self) {
        self.streams.state.lock().untaken.remove(&self.id);
    }

    fn untaken(&self) {
        self.streams.state.lock().untaken.insert(self.id, Instant::now());
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.streams.state.lock();
        state.untaken.remove(&self.id);
        state.open -= 1;
        if state.open == 0 {
            state.idle_since = Instant::now();
        }
        if !self.answered {
            state.cancelled += 1;
            if state.cancelled > MOST_CANCELLED.max(state.answered) {
                self.streams.flooded.notify_one();
            }
        }
    }
}

/// An answer's body. hyper asks for more of it when the client has made room for more.
#[derive(Debug)]
pub(super) struct Answer<B> {
    body: Option<Pin<Box<B>>>,
    stream: Stream,
}

impl<B: Body> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.stream.taken();
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(body.as_mut().poll_frame(cx));
        if matches!(frame, Some(Ok(_))) {
            self.stream.untaken();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        first: Duration::from_secs(1),
        idle: Duration::from_secs(6),
        taken: Duration::from_secs(3),
    };

    async fn after(seconds: u64) -> Instant {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        Instant::now()
    }

    async fn is_flooded(streams: &Streams) -> bool {
        tokio::select! {
            biased;
            () = streams.flooded() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_told_from_a_busy_one() {
        let streams = Streams::new(LIMITS);
        let start = Instant::now();
        assert_eq!(streams.verdict(start), Verdict::Fine { until: start + LIMITS.first });
        assert_eq!(streams.verdict(after(1).await), Verdict::Idle);
        let stream = streams.open();
        assert!(!streams.none_open());
        let now = after(100).await;
        assert_eq!(streams.verdict(now), Verdict::Fine { until: now + LIMITS.taken });
        drop(stream);
        assert!(streams.none_open());
        let now = after(5).await;
        assert_eq!(streams.verdict(now), Verdict::Fine { until: now + Duration::from_secs(1) });
        assert_eq!(streams.verdict(after(1).await), Verdict::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_told_from_a_slow_service() {
        let streams = Streams::new(LIMITS);
        let (slow, stuck) = (streams.open(), streams.open());
        stuck.untaken();
        slow.untaken();
        slow.taken();
        let now = after(2).await;
        assert_eq!(streams.verdict(now), Verdict::Fine { until: now + Duration::from_secs(1) });
        assert_eq!(streams.verdict(after(1).await), Verdict::Stuck);
        drop(stuck);
        assert!(matches!(streams.verdict(after(100).await), Verdict::Fine { .. }));
    }

    #[tokio::test]
    async fn who_cancels_most_of_what_it_asks_for_floods() {
        let streams = Streams::new(LIMITS);
        for _ in 0..150 {
            drop(streams.open().answer(Some(())));
            streams.open().fail();
        }
        for _ in 0..150 {
            drop(streams.open());
        }
        assert!(!is_flooded(&streams).await);
        drop(streams.open());
        assert!(is_flooded(&streams).await);

        let streams = Streams::new(LIMITS);
        for _ in 0..MOST_CANCELLED {
            drop(streams.open());
        }
        assert!(!is_flooded(&streams).await);
        drop(streams.open());
        assert!(is_flooded(&streams).await);
    }
}
