//! A request's body on its way to the store, and what is known of it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep};

/// How much of a body is let through, and how slowly.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// The longest silence of a client that was asked for more.
    pub idle: Duration,
    /// Most bytes; `None` for no limit.
    pub max: Option<u64>,
}

/// Why a body ended before its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BodyFault {
    /// The client sent nothing for the idle time-out.
    #[error("the client sent nothing for the idle time-out")]
    Idle,
    /// It is larger than the limit.
    #[error("the body is larger than the limit")]
    TooLarge,
    /// The client left before the body's end, or broke its framing.
    #[error("the client left before the body's end, or broke its framing")]
    ClientGone,
}

/// What is known of a body, by whoever does not hold it.
#[derive(Debug, Default)]
pub struct Progress {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: u64,
    asked_since: Option<Instant>,
    whole: bool,
    fault: Option<BodyFault>,
}

impl Progress {
    /// Bytes taken from the client.
    pub fn taken(&self) -> u64 {
        self.state.lock().taken
    }

    /// Since when the client has been asked for more and has sent nothing. `None` while nobody asks
    /// it: a store that takes nothing is not the client's silence.
    pub fn silent_since(&self) -> Option<Instant> {
        self.state.lock().asked_since
    }

    /// Whether the body was taken to its end.
    pub fn is_whole(&self) -> bool {
        self.state.lock().whole
    }

    /// What cut it short, if anything did.
    pub fn fault(&self) -> Option<BodyFault> {
        self.state.lock().fault
    }
}

/// A body for the store: the client's data frames, counted, timed and limited.
///
/// Trailers are dropped. A body that is cut short ends with a [`BodyFault`], never with an end, and
/// goes on doing so however often it is polled. The client is not asked for a byte (and sees no
/// `100 Continue`) before the first poll.
#[derive(Debug)]
pub struct Outgoing {
    source: Option<Incoming>,
    length: Option<u64>,
    /// Its end is a flag on its last frame (HTTP/2).
    flagged: bool,
    taken: u64,
    /// Taken and given back: it comes first, and was counted.
    returned: Bytes,
    limits: BodyLimits,
    /// Runs while `waiting`; kept between waits.
    silence: Option<Pin<Box<Sleep>>>,
    waiting: bool,
    progress: Arc<Progress>,
}

impl Outgoing {
    /// No body.
    pub fn empty() -> Self {
        let limits = BodyLimits { idle: Duration::ZERO, max: None };
        Self::build(None, Some(0), limits)
    }

    /// The body of a client's request, of the length that its head declared, if it declared one.
    pub fn new(body: Incoming, limits: BodyLimits) -> Self {
        let length = body.size_hint().exact();
        Self::build(Some(body), length, limits)
    }

    /// The same for a body that came by HTTP/2. hyper tells a stream that was reset without an error
    /// code, or ended by its own ping time-out, as if it had come to its end.
    pub fn of_http2(self) -> Self {
        Self { flagged: true, ..self }
    }

    fn build(source: Option<Incoming>, length: Option<u64>, limits: BodyLimits) -> Self {
        let progress = Arc::new(Progress::default());
        progress.state.lock().whole = length == Some(0);
        Self {
            source,
            length,
            flagged: false,
            taken: 0,
            returned: Bytes::new(),
            limits,
            silence: None,
            waiting: false,
            progress,
        }
    }

    /// Its length, where the head declared one. `None` goes out chunked.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// What is known of it, to be kept when it is handed on.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Gives back what was taken last: the request was not sent, and may be sent after all.
    pub(super) fn give_back(&mut self, data: Bytes) {
        self.returned = data;
    }

    fn accept(&mut self, data: Bytes) -> Result<Frame<Bytes>, BodyFault> {
        self.waiting = false;
        self.taken = self.taken.saturating_add(data.len() as u64);
        if self.limits.max.is_some_and(|max| self.taken > max) {
            return Err(self.fail(BodyFault::TooLarge));
        }
        if self.length.is_some_and(|length| self.taken > length) {
            return Err(self.fail(BodyFault::ClientGone));
        }
        let mut state = self.progress.state.lock();
        state.taken = self.taken;
        state.asked_since = None;
        state.whole = self.length == Some(self.taken);
        drop(state);
        Ok(Frame::data(data))
    }

    fn end(&self) -> Option<BodyFault> {
        if self.length.is_some_and(|length| length != self.taken) {
            return Some(self.fail(BodyFault::ClientGone));
        }
        self.progress.state.lock().whole = true;
        None
    }

    fn fail(&self, fault: BodyFault) -> BodyFault {
        *self.progress.state.lock().fault.get_or_insert(fault)
    }

    /// The clock runs only while the client has been asked and is silent: a slow store, which does
    /// not ask, costs the client nothing.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.limits.idle;
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(idle)));
        if !self.waiting {
            self.waiting = true;
            let now = Instant::now();
            self.progress.state.lock().asked_since = Some(now);
            silence.as_mut().reset(now + idle);
        }
        silence.as_mut().poll(cx)
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        let this = &mut *self;
        {
            let state = this.progress.state.lock();
            if let Some(fault) = state.fault {
                return Poll::Ready(Some(Err(fault)));
            }
        }
        if !this.returned.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.returned)))));
        }
        let Some(source) = &mut this.source else { return Poll::Ready(None) };
        if this.length == Some(this.taken) {
            return Poll::Ready(None);
        }
        loop {
            let Poll::Ready(frame) = Pin::new(&mut *source).poll_frame(cx) else {
                ready!(this.poll_silence(cx));
                return Poll::Ready(Some(Err(this.fail(BodyFault::Idle))));
            };
            return Poll::Ready(match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(this.accept(data)),
                    Err(_trailers) => continue,
                },
                Some(Err(_)) => Some(Err(this.fail(BodyFault::ClientGone))),
                None if this.flagged && !source.is_end_stream() => {
                    Some(Err(this.fail(BodyFault::ClientGone)))
                }
                None => this.end().map(Err),
            });
        }
    }

    /// True from the last byte on, so that the message ends with it.
    fn is_end_stream(&self) -> bool {
        self.returned.is_empty() && self.length == Some(self.taken)
    }
}
