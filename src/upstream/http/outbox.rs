//! A request on its way into the kernel, and the account of what the kernel took (R4).

use std::{
    io::{self, IoSlice, Write as _},
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use http_body::Body as _;

use super::{BodyFault, Outgoing, Request, Sent, socket::Io};

/// What is left of a request, in the order in which it goes.
///
/// All bytes of a request pass through here, one by one counted: what the kernel, or TLS, has not
/// taken is still here.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// The head, or a chunk's size, or both.
    before: Vec<u8>,
    /// How long the head is.
    head: usize,
    gone: usize,
    data: Bytes,
    /// What ends a chunk.
    after: &'static [u8],
    chunked: bool,
    /// Nothing is to be added any more.
    ended: bool,
    /// The first bytes wait for a turn.
    waits: bool,
    sent: Sent,
}

/// Why a request was not sent whole.
#[derive(Debug)]
pub(super) enum Unsent {
    Io(io::Error),
    Body(BodyFault),
}

impl Outbox {
    /// A request's, whose head is taken out of it.
    pub(super) fn of(request: &mut Request) -> Self {
        let length = request.body.length();
        let before = mem::take(&mut request.head);
        Self {
            head: before.len(),
            before,
            chunked: length.is_none(),
            ended: length == Some(0),
            waits: length != Some(0),
            ..Self::default()
        }
    }

    /// Nothing was begun.
    pub(super) fn is_unused(&self) -> bool {
        !self.sent.any && self.is_empty()
    }

    /// All was given to the kernel, or to TLS.
    pub(super) fn is_given(&self) -> bool {
        self.ended && self.is_empty()
    }

    /// The account.
    pub(super) fn sent(&self) -> Sent {
        self.sent
    }

    /// The head, and what was taken of the body; to be asked for only if nothing was sent.
    pub(super) fn take_unsent(&mut self) -> (Vec<u8>, Bytes) {
        let mut head = mem::take(&mut self.before);
        // A chunk's size may stand behind it.
        head.truncate(self.head);
        (head, mem::take(&mut self.data))
    }

    /// Sends until all is the kernel's. `tls` lies in between and takes bytes before the kernel does:
    /// it may have taken all, and sent a part, when it says that it failed; and what it holds is not
    /// the kernel's before it is flushed.
    pub(super) fn poll_send(
        &mut self,
        body: &mut Outgoing,
        io: &mut dyn Io,
        tls: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Unsent>> {
        loop {
            let asked = self.poll_body(body, cx)?;
            // Requests of one turn go out together, and wake a store that sleeps once, not one by one.
            // It costs nothing over HTTP/1.1: hyper takes the task's next turn for each piece of a body.
            if mem::take(&mut self.waits) && asked.is_ready() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            while !self.is_empty() {
                ready!(self.poll_write(io, tls, cx)).map_err(Unsent::Io)?;
            }
            if self.ended || asked.is_pending() {
                ready!(Pin::new(&mut *io).poll_flush(cx)).map_err(Unsent::Io)?;
                ready!(asked);
                self.sent.whole = true;
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Asks the body for more, if there is nothing of it left and more to come.
    fn poll_body(&mut self, body: &mut Outgoing, cx: &mut Context<'_>) -> Result<Poll<()>, Unsent> {
        if self.ended || !self.data.is_empty() || !self.after.is_empty() {
            return Ok(Poll::Ready(()));
        }
        match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    self.add(data);
                }
                self.ended = !self.chunked && body.is_end_stream();
            }
            Poll::Ready(Some(Err(fault))) => return Err(Unsent::Body(fault)),
            Poll::Ready(None) => {
                self.ended = true;
                if self.chunked {
                    self.before.extend_from_slice(b"0\r\n\r\n");
                }
            }
        }
        Ok(Poll::Ready(()))
    }

    /// An empty chunk would be an end.
    fn add(&mut self, data: Bytes) {
        if self.chunked && !data.is_empty() {
            let _ = write!(self.before, "{:x}\r\n", data.len());
            self.after = b"\r\n";
        }
        self.data = data;
    }

    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.data.is_empty() && self.after.is_empty()
    }

    fn poll_write(
        &mut self,
        io: &mut dyn Io,
        tls: bool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let head = &self.before[self.gone..];
        let written = if self.data.is_empty() && self.after.is_empty() {
            ready!(Pin::new(io).poll_write(cx, head))
        } else {
            let parts = [head, &self.data[..], self.after].map(IoSlice::new);
            ready!(Pin::new(io).poll_write_vectored(cx, &parts))
        };
        self.sent.any |= match &written {
            Ok(count) => *count > 0,
            Err(_) => tls,
        };
        match written? {
            0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            count => {
                self.advance(count);
                Poll::Ready(Ok(()))
            }
        }
    }

    fn advance(&mut self, count: usize) {
        let head = count.min(self.before.len() - self.gone);
        self.gone += head;
        if self.gone == self.before.len() {
            self.before.clear();
            self.gone = 0;
        }
        let data = (count - head).min(self.data.len());
        self.data.advance(data);
        self.after = &self.after[count - head - data..];
    }
}
