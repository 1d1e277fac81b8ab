//! The socket to the store, and an account of what the kernel was given (R4).

use std::{
    io::{self, IoSlice},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::Notify,
};

use super::Progress;

/// The account of one connection's present request.
///
/// It leans on hyper's order of work: hyper takes the body's last frame, or its end, and puts the
/// message's last bytes into its write buffer, with no flush in between; and it flushes the socket
/// only when that buffer is empty. So a flush of the socket that comes after the body's end, and
/// after at least one byte (the head is buffered in one piece), proves that all was handed over.
#[derive(Debug, Default)]
pub(super) struct Wire {
    sent: Mutex<Sent>,
    /// Told when a request is whole.
    whole: Notify,
}

#[derive(Debug, Default)]
struct Sent {
    any: bool,
    whole: bool,
    /// The present request's body; `None` between requests.
    body: Option<Arc<Progress>>,
}

impl Wire {
    /// A request is about to be handed to hyper.
    pub(super) fn begin(&self, body: Arc<Progress>) {
        *self.sent.lock() = Sent { any: false, whole: false, body: Some(body) };
    }

    /// The connection changes hands.
    pub(super) fn clear(&self) {
        *self.sent.lock() = Sent::default();
    }

    /// Whether the present request, if any, has put a byte into the kernel.
    pub(super) fn any(&self) -> bool {
        self.sent.lock().any
    }

    /// Whether the present request was handed to the kernel whole.
    pub(super) fn whole(&self) -> bool {
        self.sent.lock().whole
    }

    /// Whether the connection owes the store nothing.
    pub(super) fn settled(&self) -> bool {
        let sent = self.sent.lock();
        sent.body.is_none() || sent.whole
    }

    fn wrote(&self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.sent.lock().any = true;
        }
    }

    fn flushed(&self) {
        let mut sent = self.sent.lock();
        if sent.any && !sent.whole {
            sent.whole = sent.body.as_ref().is_some_and(|body| body.is_whole());
            if sent.whole {
                self.whole.notify_waiters();
            }
        }
    }
}

/// What the kernel was given of a lease's request.
#[derive(Clone, Debug)]
pub struct Account {
    wire: Arc<Wire>,
}

impl Account {
    pub(super) fn new(wire: Arc<Wire>) -> Self {
        Self { wire }
    }

    /// Whether it was given a byte.
    pub fn any(&self) -> bool {
        self.wire.any()
    }

    /// Whether it was given all, head and body. Never true too early.
    pub fn whole(&self) -> bool {
        self.wire.whole()
    }

    /// Resolves when it was given all. It may never: wait for something else, too.
    pub async fn until_whole(&self) {
        let mut told = pin!(self.wire.whole.notified());
        told.as_mut().enable();
        if !self.whole() {
            told.await;
        }
    }
}

/// A socket that keeps a [`Wire`]'s account.
#[derive(Debug)]
pub(super) struct CountedIo {
    stream: TcpStream,
    wire: Arc<Wire>,
}

impl CountedIo {
    pub(super) fn new(stream: TcpStream, wire: Arc<Wire>) -> Self {
        Self { stream, wire }
    }
}

impl AsyncRead for CountedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for CountedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wire.wrote(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wire.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.wire.flushed();
        }
        flushed
    }

    /// No FIN, ever: it would give a request that was cut a clean end. The drop resets instead.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::http::Outgoing;

    #[test]
    fn a_flush_proves_nothing_before_a_byte_or_for_the_next_request() {
        let wire = Wire::default();
        let flush = |expected: (bool, bool)| {
            wire.flushed();
            assert_eq!((wire.any(), wire.whole()), expected);
        };
        flush((false, false));
        for _ in 0..2 {
            wire.begin(Outgoing::empty().progress());
            flush((false, false));
            wire.wrote(&Poll::Pending);
            wire.wrote(&Poll::Ready(Ok(0)));
            wire.wrote(&Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())));
            flush((false, false));
            wire.wrote(&Poll::Ready(Ok(1)));
            assert!(wire.any() && !wire.whole() && !wire.settled());
            flush((true, true));
            assert!(wire.settled());
        }
        wire.clear();
        flush((false, false));
    }
}
