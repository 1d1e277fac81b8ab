//! A client's socket: cut when the client takes nothing, closed so that it can read its answer.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

use super::burst::{Burst, Socket};

/// A lingering close: the longest wait for more, the longest time, and the most bytes thrown away.
/// A client that sends more than that before it reads has had its chance.
const LINGER_IDLE: Duration = Duration::from_millis(500);
const LINGER_TOTAL: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 256 * 1024 * 1024;
const LINGER_BUFFER: usize = 64 * 1024;

/// What a connection and its socket tell each other.
#[derive(Debug, Default)]
pub(super) struct Link {
    owes: AtomicBool,
    stuck: AtomicBool,
    written: AtomicU64,
}

impl Link {
    /// Whether the client may have more to send when the connection is closed from our side.
    pub(super) fn owes(&self, more: bool) {
        self.owes.store(more, Relaxed);
    }

    /// Whether a part of an answer is held that the client does not take.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.load(Relaxed)
    }

    pub(super) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Relaxed);
    }

    pub(super) fn has_written(&self, count: usize) {
        self.written.fetch_add(count as u64, Relaxed);
    }

    /// Bytes that the kernel has taken, ever.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }
}

/// A client's socket.
///
/// hyper ends a connection whose request's body nobody read by shutting the socket down. To close
/// it then, with unread bytes, would reset it, and the client could lose the answer: the shutdown
/// sends our end, and reads on for a while.
#[derive(Debug)]
pub(super) struct ClientIo {
    socket: Arc<Mutex<Socket>>,
    link: Arc<Link>,
    burst: Arc<Burst>,
    /// The client's end was read.
    ended: bool,
    idle: Duration,
    /// Runs while `stalled`; kept between stalls.
    stall: Option<Pin<Box<Sleep>>>,
    /// A write is pending since so many bytes were written.
    stalled: Option<u64>,
    linger: Option<Linger>,
}

impl ClientIo {
    /// What it is given to send goes out in that burst, and `idle` is how long the client may take
    /// nothing of it.
    pub(super) fn new(stream: TcpStream, idle: Duration, burst: Arc<Burst>) -> Self {
        let link = Arc::new(Link { owes: AtomicBool::new(true), ..Link::default() });
        let socket = Arc::new(Mutex::new(Socket::new(stream, Arc::clone(&link))));
        let (ended, stall, stalled, linger) = (false, None, None, None);
        Self { socket, link, burst, ended, idle, stall, stalled, linger }
    }

    /// To look at the socket while someone else owns this.
    pub(super) fn socket(&self) -> Weak<Mutex<Socket>> {
        Arc::downgrade(&self.socket)
    }

    pub(super) fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link)
    }

    /// Lets a write through, unless it has been pending for too long.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let (idle, since) = (self.idle, Some(self.link.written()));
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(idle)));
        if self.stalled != since {
            self.stalled = since;
            stall.as_mut().reset(Instant::now() + idle);
        }
        ready!(stall.as_mut().poll(cx));
        // What it never took must not stay in the kernel after it.
        let _ = self.socket.lock().stream.set_zero_linger();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket.lock().stream).poll_read(cx, buf))?;
        self.ended |= buf.filled().len() == before && buf.remaining() > 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Socket::poll_write(&self.socket, &self.burst, cx, bufs);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = {
            let mut socket = self.socket.lock();
            if socket.is_queued() {
                return Poll::Ready(Ok(()));
            }
            socket.poll_held(cx)
        };
        self.watch(cx, sent)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            let sent = this.socket.lock().poll_held(cx);
            ready!(this.watch(cx, sent))?;
        }
        let stream = &mut this.socket.lock().stream;
        if this.linger.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            let owes = this.link.owes.load(Relaxed) || has_unread(stream, cx);
            if this.ended || !owes {
                return Poll::Ready(Ok(()));
            }
        }
        this.linger.get_or_insert_with(Linger::new).poll(cx, stream).map(Ok)
    }
}

/// Whether the client has sent more than was read, as those do that do not wait for an answer: the
/// kernel makes a reset of a close then.
fn has_unread(stream: &mut TcpStream, cx: &mut Context<'_>) -> bool {
    let mut room = [0];
    let mut room = ReadBuf::new(&mut room);
    let read = Pin::new(stream).poll_read(cx, &mut room);
    matches!(read, Poll::Ready(Ok(()))) && !room.filled().is_empty()
}

/// Reading on after our end was sent.
#[derive(Debug)]
struct Linger {
    deadline: Instant,
    left: usize,
    wait: Pin<Box<Sleep>>,
    buffer: Box<[u8]>,
}

impl Linger {
    fn new() -> Self {
        Self {
            deadline: Instant::now() + LINGER_TOTAL,
            left: LINGER_BYTES,
            wait: Box::pin(sleep(LINGER_IDLE)),
            buffer: vec![0; LINGER_BUFFER].into_boxed_slice(),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, stream: &mut TcpStream) -> Poll<()> {
        loop {
            let mut buf = ReadBuf::new(&mut self.buffer);
            let Poll::Ready(read) = Pin::new(&mut *stream).poll_read(cx, &mut buf) else {
                return self.wait.as_mut().poll(cx);
            };
            let now = Instant::now();
            let taken = buf.filled().len();
            self.left = self.left.saturating_sub(taken);
            if read.is_err() || taken == 0 || self.left == 0 || now >= self.deadline {
                return Poll::Ready(());
            }
            self.wait.as_mut().reset(self.deadline.min(now + LINGER_IDLE));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// A client that has sent more than was read, as at a stop, gets all of its answer.
    #[tokio::test]
    async fn a_close_resets_no_client_that_sends_ahead() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut answer = 0;
        while let Ok(sent) = stream.try_write(&[0; 1 << 14]) {
            answer += sent;
        }
        client.write_all(b"ahead").await.unwrap();
        stream.peek(&mut [0]).await.unwrap();
        let mut io = ClientIo::new(stream, Duration::from_mins(1), Arc::default());
        io.link().owes(false);
        let closing = tokio::spawn(async move { io.shutdown().await });
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        assert_eq!(got.len(), answer);
        drop(client);
        closing.await.unwrap().unwrap();
    }
}
