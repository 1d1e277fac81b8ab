//! The body of an answer: held whole, relayed from the upstream, or read from a file.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::{Instant, Sleep, sleep},
};

use crate::upstream::{files::FileBody, http::Lease};

/// What a client is sent.
pub enum AnswerBody {
    /// Bytes in memory.
    Whole(Option<Bytes>),
    /// A read's answer, at the client's pace.
    Relay(Relay),
    /// A long answer to a write, read at the upstream's pace by the write's own task (R8).
    Fed(Fed),
    /// A file of the built-in store.
    File(FileBody),
}

impl From<Bytes> for AnswerBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole((!bytes.is_empty()).then_some(bytes))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Relay(relay) => relay.poll_frame(cx),
            Self::Fed(fed) => fed.poll_frame(cx),
            Self::File(file) => Pin::new(file).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Relay(relay) => relay.body.is_end_stream(),
            Self::Fed(_) => false,
            Self::File(file) => file.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Relay(relay) => relay.body.size_hint(),
            // The length, if the head declared one, is in the field that went through.
            Self::Fed(_) => SizeHint::default(),
            Self::File(file) => file.size_hint(),
        }
    }
}

/// A long answer to a write: what its feeder gives, and an end only if the feeder says so.
pub struct Fed {
    chunks: mpsc::Receiver<Chunk>,
    whole: Arc<AtomicBool>,
}

/// A piece of it, and its room among what clients may be behind.
pub struct Chunk {
    pub(super) data: Bytes,
    pub(super) _room: OwnedSemaphorePermit,
}

impl Fed {
    /// `whole` is set before the sender goes if what was sent is all there is.
    pub fn new(chunks: mpsc::Receiver<Chunk>, whole: Arc<AtomicBool>) -> Self {
        Self { chunks, whole }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match ready!(self.chunks.poll_recv(cx)) {
            Some(chunk) => Some(Ok(Frame::data(chunk.data))),
            None if self.whole.load(Ordering::Acquire) => None,
            // Cut: it must not look like an end.
            None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }
}

/// A response body on its way through. Its end gives the connection back; anything else, dropping
/// it included, ends the connection.
pub struct Relay {
    body: Incoming,
    lease: Option<Lease>,
    idle: Duration,
    silence: Option<Pin<Box<Sleep>>>,
}

impl Relay {
    /// Relays `body`, which came over `lease`; `idle` is the longest silence of the upstream.
    pub fn new(body: Incoming, lease: Lease, idle: Duration) -> Self {
        let mut relay = Self { body, lease: Some(lease), idle, silence: None };
        relay.give_back_at_end();
        relay
    }

    fn give_back_at_end(&mut self) {
        if self.body.is_end_stream()
            && let Some(lease) = self.lease.take()
        {
            lease.put_back();
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(self.idle)));
                ready!(silence.as_mut().poll(cx));
                return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
            };
            if let Some(silence) = &mut self.silence {
                silence.as_mut().reset(Instant::now() + self.idle);
            }
            return Poll::Ready(match frame {
                Some(Ok(frame)) if frame.is_trailers() => continue,
                Some(Ok(frame)) => {
                    self.give_back_at_end();
                    Some(Ok(frame))
                }
                Some(Err(error)) => Some(Err(io::Error::other(error))),
                None => {
                    if let Some(lease) = self.lease.take() {
                        lease.put_back();
                    }
                    None
                }
            });
        }
    }
}
