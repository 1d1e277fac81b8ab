//! A socket to the store that notices when the store takes nothing more.

use std::{
    fmt,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// What a connection reads from and writes to.
pub(super) trait Io: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Io for T {}

/// A socket whose writes fail with [`io::ErrorKind::TimedOut`] when none of them got anywhere for a
/// while.
///
/// It lies below TLS, so that what counts is what the kernel takes. On TCP it is the second net
/// under `TCP_USER_TIMEOUT`; a Unix socket has no other.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    /// The longest time without progress.
    limit: Duration,
    /// Runs while `waiting`; kept between waits.
    stall: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, stall: None, waiting: false }
    }

    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.waiting = false;
            return result;
        }
        let limit = self.limit;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(limit)));
        if !self.waiting {
            self.waiting = true;
            stall.as_mut().reset(Instant::now() + limit);
        }
        ready!(stall.as_mut().poll(cx));
        let text = format!("the upstream took nothing for {limit:?}");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Slow is not stalled: each byte that is taken starts the time anew.
    #[tokio::test(start_paused = true)]
    async fn only_a_standstill_is_a_stall() {
        let limit = Duration::from_secs(30);
        let (ours, mut theirs) = tokio::io::duplex(1);
        let mut ours = Watched::new(ours, limit);
        let slow = async {
            for _ in 0..9 {
                sleep(Duration::from_secs(29)).await;
                theirs.read_u8().await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(b"0123456789"), slow);
        written.unwrap();
        // Silence between writes is none of its business.
        sleep(limit * 2).await;
        theirs.read_u8().await.unwrap();
        ours.write_all(b"x").await.unwrap();
        let began = Instant::now();
        let stalled = ours.write_all(b"y").await.unwrap_err();
        assert_eq!(stalled.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), limit);
    }
}
