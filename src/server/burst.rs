//! Answers that are ready within one turn of a worker go out together, at its end.
//!
//! A client that waits must be woken, which costs more than the answer; sent one by one, each with the
//! time of a request before the next, every answer finds its receiver asleep again. Sent in one go they
//! wake it once. Nothing waits longer than for the tasks that are ready to run as it is.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use atomic_waker::AtomicWaker;
use parking_lot::Mutex;
use tokio::{io::AsyncWrite as _, net::TcpStream};

use super::socket::Link;

/// Most bytes that are held; to copy more would cost more than it saves.
const SMALL: usize = 8 * 1024;

/// The sockets of a worker that hold something to be sent at the end of its turn.
#[derive(Debug, Default)]
pub(super) struct Burst {
    sockets: Mutex<Vec<Arc<Mutex<Socket>>>>,
    waker: AtomicWaker,
}

impl Burst {
    /// Also if its connection ends meanwhile.
    fn add(&self, socket: Arc<Mutex<Socket>>) {
        let mut sockets = self.sockets.lock();
        sockets.push(socket);
        if sockets.len() == 1 {
            self.waker.wake();
        }
    }

    /// Sends for ever. As a task of its own it comes after those that were ready before it.
    pub(super) async fn run(self: Arc<Self>) {
        let mut sending = Vec::new();
        poll_fn(|cx| {
            self.waker.register(cx.waker());
            self.send(&mut sending);
            Poll::<()>::Pending
        })
        .await;
    }

    /// Sends what there is, for the last time.
    pub(super) fn finish(&self) {
        self.send(&mut Vec::new());
    }

    /// By way of an empty list, which is kept.
    fn send(&self, sending: &mut Vec<Arc<Mutex<Socket>>>) {
        mem::swap(sending, &mut *self.sockets.lock());
        for socket in sending.drain(..) {
            socket.lock().send_held();
        }
    }
}

/// A client's socket, as its connection, its requests and the burst share it.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    link: Arc<Link>,
    /// What is to go before anything else. It takes no memory while it holds nothing.
    held: Vec<u8>,
    /// The burst will send it. If there is some and it will not, the kernel has not taken it.
    queued: bool,
    /// Its connection's.
    waker: Option<Waker>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, link: Arc<Link>) -> Self {
        Self { stream, link, held: Vec::new(), queued: false, waker: None }
    }

    /// Sends what is held before them, and what the kernel takes of `bufs`; or holds them, if they are
    /// small. How many bytes were taken.
    pub(super) fn poll_write(
        this: &Arc<Mutex<Self>>,
        burst: &Burst,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = &mut *this.lock();
        let length = bufs.iter().map(|buf| buf.len()).sum();
        if socket.has_room(length) {
            if !mem::replace(&mut socket.queued, true) {
                burst.add(Arc::clone(this));
            }
            socket.hold(bufs, length, cx.waker());
            return Poll::Ready(Ok(length));
        }
        ready!(socket.poll_held(cx))?;
        let sent = ready!(Pin::new(&mut socket.stream).poll_write_vectored(cx, bufs));
        socket.link.has_written(sent.as_ref().map_or(0, |sent| *sent));
        Poll::Ready(sent)
    }

    fn has_room(&self, length: usize) -> bool {
        let in_turn = self.queued || self.held.is_empty();
        in_turn && self.held.len() + length <= SMALL
    }

    fn hold(&mut self, bufs: &[IoSlice<'_>], length: usize, waker: &Waker) {
        self.held.reserve_exact(length);
        for buf in bufs {
            self.held.extend_from_slice(buf);
        }
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    /// What the kernel does not take at once, or not at all, is its connection's business again.
    fn send_held(&mut self) {
        self.queued = false;
        let mut gone = 0;
        while gone < self.held.len() {
            match self.stream.try_write(&self.held[gone..]) {
                Ok(0) | Err(_) => break,
                Ok(sent) => gone += sent,
            }
        }
        self.has_sent(gone);
        if self.held.is_empty() {
            return;
        }
        self.link.set_stuck(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Whether the burst is about to send what there is.
    pub(super) fn is_queued(&self) -> bool {
        self.queued
    }

    /// Sends what is held now.
    pub(super) fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.held))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.has_sent(sent),
            }
        }
        self.link.set_stuck(false);
        Poll::Ready(Ok(()))
    }

    fn has_sent(&mut self, count: usize) {
        self.link.has_written(count);
        if count == self.held.len() {
            self.held = Vec::new();
        } else {
            self.held.drain(..count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicBool, Ordering},
        task::Wake,
        time::Duration,
    };

    use bytes::Bytes;
    use http::Response;
    use http_body_util::Full;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        task::{JoinHandle, yield_now},
    };

    use super::*;
    use crate::server::{alarm::Alarm, socket::ClientIo};

    const IDLE: Duration = Duration::from_mins(1);

    struct World {
        burst: Arc<Burst>,
        listener: TcpListener,
    }

    /// A burst that is not run yet.
    async fn world() -> World {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        World { burst: Arc::default(), listener }
    }

    impl World {
        /// The server's end of a connection, and the client's.
        async fn connection(&self) -> (ClientIo, TcpStream) {
            self.connection_with(IDLE).await
        }

        async fn connection_with(&self, idle: Duration) -> (ClientIo, TcpStream) {
            let address = self.listener.local_addr().unwrap();
            let client = TcpStream::connect(address).await.unwrap();
            let (stream, _) = self.listener.accept().await.unwrap();
            (ClientIo::new(stream, idle, Arc::clone(&self.burst)), client)
        }

        fn run(&self) -> JoinHandle<()> {
            tokio::spawn(Arc::clone(&self.burst).run())
        }
    }

    fn nothing_came(client: &TcpStream) -> bool {
        let came = client.try_read(&mut [0; 10]);
        matches!(came, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    async fn next(client: &mut TcpStream, length: usize) -> Vec<u8> {
        let mut came = vec![0; length];
        client.read_exact(&mut came).await.unwrap();
        came
    }

    /// Whether it was woken.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn what_is_small_goes_at_the_end_of_the_turn_in_order_and_is_counted_then() {
        let world = world().await;
        let (mut one, mut first) = world.connection().await;
        let (mut two, mut second) = world.connection().await;
        for part in [&b"a"[..], b"bc", b""] {
            one.write_all(part).await.unwrap();
            one.flush().await.unwrap();
        }
        let parts = [IoSlice::new(b"d"), IoSlice::new(b"ef")];
        assert_eq!(two.write_vectored(&parts).await.unwrap(), 3);
        assert!(nothing_came(&first) && nothing_came(&second));
        assert_eq!((one.link().written(), two.link().written()), (0, 0));
        let burst = world.run();
        assert_eq!(next(&mut first, 3).await, b"abc");
        assert_eq!(next(&mut second, 3).await, b"def");
        assert_eq!((one.link().written(), two.link().written()), (3, 3));
        // And again: it was not the last turn.
        one.write_all(b"g").await.unwrap();
        assert_eq!(next(&mut first, 1).await, b"g");
        burst.abort();
    }

    #[tokio::test]
    async fn what_is_large_goes_at_once_after_what_is_held() {
        let world = world().await;
        let (mut io, mut client) = world.connection().await;
        io.write_all(b"small").await.unwrap();
        let large = vec![7; SMALL + 1];
        io.write_all(&large).await.unwrap();
        assert_eq!(next(&mut client, 5).await, b"small");
        assert_eq!(next(&mut client, large.len()).await, large);
        assert_eq!(io.link().written(), 5 + large.len() as u64);
    }

    #[tokio::test]
    async fn a_connections_end_does_not_lose_what_it_gave() {
        let world = world().await;
        let (mut dropped, mut first) = world.connection().await;
        let (mut shut, mut second) = world.connection().await;
        dropped.write_all(b"bye").await.unwrap();
        drop(dropped);
        shut.link().owes(false);
        shut.write_all(b"bye").await.unwrap();
        shut.shutdown().await.unwrap();
        let mut got = String::new();
        second.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "bye", "a shutdown waits for no burst");
        assert!(nothing_came(&first));
        world.burst.finish();
        got.clear();
        first.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "bye");
    }

    /// The kernel takes no more: what is held waits for the client, and its connection with it.
    #[tokio::test]
    async fn a_client_that_takes_nothing_is_its_connections_business() {
        let world = world().await;
        let (mut io, mut client) = world.connection().await;
        let stuffed = stuff(&io);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut io).poll_write(&mut cx, b"held").is_ready());
        assert!(!io.link().is_stuck());
        let burst = world.run();
        while !woken.0.load(Ordering::Relaxed) {
            yield_now().await;
        }
        assert!(io.link().is_stuck() && Pin::new(&mut io).poll_flush(&mut cx).is_pending());
        assert!(
            Pin::new(&mut io).poll_write(&mut cx, b"more").is_pending(),
            "its turn comes later"
        );
        let reading = tokio::spawn(async move {
            next(&mut client, stuffed).await;
            next(&mut client, 8).await
        });
        io.flush().await.unwrap();
        assert!(!io.link().is_stuck());
        io.write_all(b"more").await.unwrap();
        assert_eq!(reading.await.unwrap(), b"heldmore");
        burst.abort();
    }

    /// Fills the kernel's buffers. With how much.
    fn stuff(io: &ClientIo) -> usize {
        let socket = io.socket().upgrade().unwrap();
        let (socket, mut stuffed) = (socket.lock(), 0);
        while let Ok(sent) = socket.stream.try_write(&[0; 1 << 14]) {
            stuffed += sent;
        }
        stuffed
    }

    #[tokio::test]
    async fn a_failure_is_told_to_its_connection() {
        let world = world().await;
        let (mut io, client) = world.connection().await;
        client.set_zero_linger().unwrap();
        drop(client);
        let read = io.read(&mut [0; 10]).await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        io.write_all(b"lost").await.unwrap();
        let burst = world.run();
        while io.flush().await.is_ok() {
            yield_now().await;
        }
        assert!(io.write_all(b"more").await.is_err() && io.shutdown().await.is_err());
        assert_eq!(io.link().written(), 0);
        burst.abort();
    }

    /// hyper takes the answer for sent, and times the next head.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_waits_for_its_client_outlives_the_wait_for_a_head() {
        let world = world().await;
        // Time is paused: it goes on whenever there is nothing to do.
        let (io, mut client) = world.connection_with(Duration::from_hours(1 << 20)).await;
        let (stuffed, link) = (stuff(&io), io.link());
        let service = service_fn(|_| async {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("held")))
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        http.header_read_timeout(Duration::from_secs(10)).timer(Alarm::new(Arc::clone(&link)));
        let burst = world.run();
        let serving = tokio::spawn(http.serve_connection(TokioIo::new(io), service));
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        while !link.is_stuck() {
            yield_now().await;
        }
        for _ in 0..100 {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        next(&mut client, stuffed).await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("held"), "{answer}");
        assert!(serving.await.unwrap().unwrap_err().is_timeout(), "then the time-out ends it");
        burst.abort();
    }
}
