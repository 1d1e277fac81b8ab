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
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::upstream::{
    files::FileBody,
    http::{Cut, Lease},
};

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
            Self::Relay(relay) => relay.lease.is_none(),
            Self::Fed(_) => false,
            Self::File(file) => file.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Relay(relay) => relay.size_hint(),
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
    /// Its cut is told at the next turn.
    cut: bool,
}

/// A piece of it, and its room among what clients may be behind.
pub struct Chunk {
    pub(super) data: Bytes,
    pub(super) _room: OwnedSemaphorePermit,
}

impl Fed {
    /// `whole` is set before the sender goes if what was sent is all there is.
    pub fn new(chunks: mpsc::Receiver<Chunk>, whole: Arc<AtomicBool>) -> Self {
        Self { chunks, whole, cut: false }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match ready!(self.chunks.poll_recv(cx)) {
            Some(chunk) => Some(Ok(Frame::data(chunk.data))),
            None if self.whole.load(Ordering::Acquire) => None,
            // Cut: it must not look like an end. A turn later: what hyper has not sent by then, the
            // client does not get.
            None if !std::mem::replace(&mut self.cut, true) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }
}

/// A response body on its way through. Its end gives the connection back; anything else, dropping
/// it included, ends the connection.
pub struct Relay {
    /// `None` from the body's end on.
    lease: Option<Lease>,
    idle: Duration,
    cut: Option<Cut>,
}

impl Relay {
    /// Relays the body of what came over `lease`; `idle` is the longest silence of the upstream.
    pub fn new(lease: Lease, idle: Duration) -> Self {
        let mut relay = Self { lease: Some(lease), idle, cut: None };
        relay.give_back_at_end();
        relay
    }

    fn give_back_at_end(&mut self) {
        if let Some(lease) = self.lease.take_if(|lease| lease.is_read()) {
            lease.put_back();
        }
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.lease.as_ref().map_or(Some(0), Lease::left);
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(cut) = self.cut.take() {
            return Poll::Ready(Some(Err(io::Error::other(cut))));
        }
        let Some(lease) = &mut self.lease else { return Poll::Ready(None) };
        match ready!(lease.poll_data(self.idle, cx)) {
            Some(Ok(data)) => {
                self.give_back_at_end();
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Some(Err(cut)) => {
                // A turn later, as above.
                self.cut = Some(cut);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                self.give_back_at_end();
                Poll::Ready(None)
            }
        }
    }
}
