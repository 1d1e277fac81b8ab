//! The connection to the store, and an account of what the kernel, or TLS, was given (R4).

use std::{
    io::{self, IoSlice},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
};

use super::{Progress, dial::Dialled, socket::Io};

/// The account of one connection's present request.
///
/// It leans on hyper's order of work: hyper takes the body's last frame, or its end, and puts the
/// message's last bytes into its write buffer, with no flush in between; and it flushes the socket
/// only when that buffer is empty. So a flush of the socket that comes after the body's end, and
/// after at least one byte (the head is buffered in one piece), proves that all was handed over. The
/// account is kept above TLS, whose flush ends only when the kernel has taken its last record.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// TLS lies below.
    tls: bool,
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
    /// The other side's first bytes are those of a TLS record.
    answers_in_tls: bool,
}

impl Wire {
    /// For a connection, above TLS where there is any.
    pub(super) fn new(tls: bool) -> Self {
        Self { tls, ..Self::default() }
    }

    /// A request is about to be handed to hyper.
    pub(super) fn begin(&self, body: Arc<Progress>) {
        *self.sent.lock() = Sent { body: Some(body), ..Sent::default() };
    }

    /// The connection changes hands.
    pub(super) fn clear(&self) {
        *self.sent.lock() = Sent::default();
    }

    /// Whether the present request, if any, has put a byte into the kernel or into TLS.
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

    /// Whether the present request was answered in TLS, of which we know nothing here.
    pub(super) fn answers_in_tls(&self) -> bool {
        self.sent.lock().answers_in_tls
    }

    /// TLS may have taken all, and sent a part, when it says that it failed.
    fn wrote(&self, written: &Poll<io::Result<usize>>) {
        let took = match written {
            Poll::Ready(Ok(count)) => *count > 0,
            Poll::Ready(Err(_)) => self.tls,
            Poll::Pending => false,
        };
        if took {
            self.sent.lock().any = true;
        }
    }

    /// A handshake or an alert of any version begins so, and no HTTP does.
    fn read(&self, data: &[u8]) {
        if !self.tls && matches!(data, [0x15 | 0x16, 0x03, ..]) {
            self.sent.lock().answers_in_tls = true;
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

    /// Whether it, or TLS, was given a byte.
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

/// A connection that keeps a [`Wire`]'s account.
#[derive(Debug)]
pub(super) struct CountedIo {
    stream: Box<dyn Io>,
    wire: Arc<Wire>,
    /// Something was read already.
    answered: bool,
}

impl CountedIo {
    /// Over a new connection; and its account.
    pub(super) fn new(dialled: Dialled) -> (Self, Arc<Wire>) {
        let wire = Arc::new(Wire::new(dialled.tls));
        (Self { stream: dialled.io, wire: Arc::clone(&wire), answered: false }, wire)
    }
}

impl AsyncRead for CountedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_ready() && !self.answered {
            self.answered = true;
            self.wire.read(&buf.filled()[before..]);
        }
        read
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

    /// R4: TLS says that it failed after it took all of a write and sent a part of it.
    #[test]
    fn a_failed_write_counts_as_sent_where_tls_may_have_taken_it() {
        for tls in [false, true] {
            let wire = Wire::new(tls);
            wire.begin(Outgoing::empty().progress());
            wire.wrote(&Poll::Pending);
            assert!(!wire.any());
            wire.wrote(&Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())));
            assert_eq!(wire.any(), tls);
        }
    }
}
