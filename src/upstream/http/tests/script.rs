//! A connection that does what a test says.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection to a store that takes bytes, and answers none of them.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) taken: Arc<Mutex<Vec<u8>>>,
    /// Most bytes that one write takes.
    pub(super) most: usize,
    pub(super) vectored: bool,
    /// Each write is put off once.
    pub(super) slow: bool,
    pub(super) put_off: bool,
    /// It fails when it has taken as many.
    pub(super) fails_at: Option<usize>,
    /// A flush of something new is put off as often; `None` where it fails.
    pub(super) flushes: Option<usize>,
    /// How often it still will be; `None` once it has ended.
    pub(super) unflushed: Option<usize>,
    /// What the store has sent; nothing at all if it has closed the connection.
    pub(super) says: Option<&'static [u8]>,
    /// What is there to be read once it has failed.
    pub(super) last_word: Option<&'static [u8]>,
}

impl Script {
    pub(super) fn new(most: usize) -> Self {
        Self {
            taken: Arc::default(),
            most,
            vectored: true,
            slow: false,
            put_off: false,
            fails_at: None,
            flushes: Some(0),
            unflushed: None,
            says: None,
            last_word: None,
        }
    }

    pub(super) fn taken(&self) -> String {
        String::from_utf8(self.taken.lock().clone()).unwrap()
    }

    fn waits(&mut self, cx: &Context<'_>) -> bool {
        self.put_off = self.slow && !self.put_off;
        if self.put_off {
            cx.waker().wake_by_ref();
        }
        self.put_off
    }
}

impl AsyncRead for Script {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let failed = self.fails_at.is_some_and(|at| self.taken.lock().len() >= at);
        let last_word = if failed { self.last_word.take() } else { None };
        self.says.or(last_word).map_or(Poll::Pending, |bytes| {
            buf.put_slice(bytes);
            Poll::Ready(Ok(()))
        })
    }
}

impl AsyncWrite for Script {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.waits(cx) {
            return Poll::Pending;
        }
        let mut taken = this.taken.lock();
        if this.fails_at == Some(taken.len()) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let room = this.fails_at.map_or(usize::MAX, |at| at - taken.len());
        let count = buf.len().min(this.most).min(room);
        taken.extend_from_slice(&buf[..count]);
        this.unflushed = this.flushes;
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.vectored {
            let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
            return self.poll_write(cx, &all);
        }
        let first = bufs.iter().find(|buf| !buf.is_empty());
        self.poll_write(cx, first.map_or(&[], |buf| buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.flushes.is_none() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        this.unflushed = this.unflushed.and_then(|left| left.checked_sub(1));
        if this.unflushed.is_none() {
            return Poll::Ready(Ok(()));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
