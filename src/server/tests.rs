//! Over real sockets, with raw clients.

mod http2;
mod lifetime;
mod resets;
mod tls;

use std::{
    convert::Infallible,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream as StdStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    task::spawn_blocking,
};

use super::{Listeners, Options, Peer, Serving, Stop, serve};
use crate::metrics::Gauge;

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(50);

pub(super) fn options() -> Options {
    Options {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        header_timeout: LONG,
        client_idle_timeout: LONG,
        max_header_size: 16 * 1024,
        max_headers: 100,
        tls: None,
        http2: true,
        max_connections: 100,
        stop_timeout: LONG,
        workers: 2,
    }
}

type Answer = Result<Response<Full<Bytes>>, Infallible>;

struct Server {
    address: SocketAddr,
    stop: Stop,
    serving: Option<Serving>,
}

impl Server {
    fn start<F, A, B>(options: &Options, answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
        B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        let listeners = Listeners::bind(options).unwrap();
        let address = listeners.addresses()[0];
        let stop = Stop::new();
        let serving = serve(listeners, options, &stop, &Gauge::default(), move |_| {
            let answer = answer.clone();
            move |peer: Peer, mut request: Request<Incoming>| {
                request.extensions_mut().insert(peer);
                answer(request)
            }
        });
        Self { address, stop, serving: Some(serving.unwrap()) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn end(mut self) -> Vec<bool> {
        self.stop.stop();
        let mut serving = self.serving.take().unwrap();
        let drained = serving.drained().await;
        self.stop.let_exit();
        assert_eq!(spawn_blocking(|| serving.join()).await.unwrap(), vec![true; drained.len()]);
        drained
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.stop();
        self.stop.let_exit();
    }
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

async fn ok(_: Request<Incoming>) -> Answer {
    Ok(empty(StatusCode::OK))
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    String::from_utf8(all).unwrap()
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn an_early_answer_is_read_by_a_client_that_sends_everything_first() {
    const SIZE: usize = 50 << 20;
    let server =
        Server::start(&options(), |_| async { Ok(empty(StatusCode::PRECONDITION_FAILED)) });
    let address = server.address;
    let answer = spawn_blocking(move || {
        let mut stream = StdStream::connect(address).unwrap();
        write!(stream, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {SIZE}\r\n\r\n").unwrap();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..SIZE / chunk.len() {
            stream.write_all(&chunk).unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answer = answer.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 412 "), "{answer}");
    assert_eq!(server.end().await, [true, true]);
}

#[tokio::test]
async fn an_early_answer_comes_without_a_continue() {
    let server =
        Server::start(&options(), |_| async { Ok(empty(StatusCode::PRECONDITION_FAILED)) });
    let mut client = server.connect().await;
    let put = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    client.write_all(put).await.unwrap();
    let answer = read_all(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 412 "), "{answer}");
}

#[tokio::test]
async fn a_small_unread_body_keeps_the_connection() {
    let server = Server::start(&options(), ok);
    let mut client = server.connect().await;
    for _ in 0..2 {
        let put = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
        client.write_all(put).await.unwrap();
        assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200 "));
    }
}

#[tokio::test]
async fn a_slow_head_is_closed() {
    for sent in ["", "GET / HTTP/1.1\r\nHo"] {
        let options = Options { header_timeout: SHORT, ..options() };
        let server = Server::start(&options, ok);
        let mut client = server.connect().await;
        client.write_all(sent.as_bytes()).await.unwrap();
        assert_eq!(read_all(&mut client).await, "", "after {sent:?}");
    }
}

#[tokio::test]
async fn a_head_beyond_the_limits_is_refused() {
    let options = Options { max_header_size: 8192, max_headers: 10, ..options() };
    let server = Server::start(&options, ok);
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nx: {}\r\n\r\n", "y".repeat(9000));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(10));
    for head in [long, many] {
        let mut client = server.connect().await;
        client.write_all(head.as_bytes()).await.unwrap();
        let answer = read_all(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_with_its_body_unread_is_noticed() {
    let (gone_tx, mut gone) = mpsc::channel(1);
    let (arrived_tx, mut arrived) = mpsc::channel(1);
    let server = Server::start(&options(), move |request| {
        let (gone, arrived) = (gone_tx.clone(), arrived_tx.clone());
        async move {
            let peer = request.extensions().get::<Peer>().unwrap().clone();
            arrived.send((peer.clone(), peer.is_gone())).await.unwrap();
            peer.gone().await;
            gone.send(()).await.unwrap();
            drop(request);
            Ok(empty(StatusCode::OK))
        }
    });
    let mut client = server.connect().await;
    let put = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhello";
    client.write_all(put).await.unwrap();
    let (peer, was_gone) = arrived.recv().await.unwrap();
    assert!(!was_gone && !peer.is_gone());
    assert_eq!(peer.remote(), client.local_addr().unwrap());
    assert_eq!(peer.local(), server.address);
    drop(client);
    gone.recv().await.unwrap();
    peer.gone().await;
}

#[tokio::test]
async fn a_half_closed_client_gets_its_answer() {
    let server = Server::start(&options(), |request: Request<Incoming>| async {
        // A turn or two, so that the client's end is there before the answer is.
        let peer = request.extensions().get::<Peer>().unwrap().clone();
        peer.gone().await;
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Ok(Response::new(Full::new(body)))
    });
    let mut client = server.connect().await;
    let put = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    client.write_all(put).await.unwrap();
    client.shutdown().await.unwrap();
    let answer = read_all(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn a_panic_ends_its_connection_only() {
    let server = Server::start(&Options { workers: 1, ..options() }, |request| async move {
        assert_ne!(request.uri(), "/panic", "on purpose");
        Ok(empty(StatusCode::OK))
    });
    let mut client = server.connect().await;
    client.write_all(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert_eq!(read_all(&mut client).await, "");
    let mut client = server.connect().await;
    client.write_all(GET).await.unwrap();
    assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(server.end().await, [true]);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let server = Server::start(&Options { max_connections: 1, ..options() }, move |_| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            now.fetch_sub(1, SeqCst);
            Ok(empty(StatusCode::OK))
        }
    });
    let address = server.address;
    let client = || {
        spawn_blocking(move || {
            let mut stream = StdStream::connect(address).unwrap();
            stream.write_all(GET).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        })
    };
    let clients: Vec<_> = (0..20).map(|_| client()).collect();
    for client in clients {
        assert!(client.await.unwrap().starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(seen.load(SeqCst), 1);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut() {
    let options = Options { client_idle_timeout: SHORT, max_connections: 1, ..options() };
    let server = Server::start(&options, |request| async move {
        let size = if request.uri() == "/large" { 64 << 20 } else { 1 };
        Ok(Response::new(Full::new(Bytes::from(vec![b'x'; size]))))
    });
    let mut stuck = server.connect().await;
    stuck.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    // The one slot is free again only when the first connection was cut.
    read_head(&mut stuck).await;
    let mut next = server.connect().await;
    next.write_all(GET).await.unwrap();
    assert!(read_head(&mut next).await.starts_with("HTTP/1.1 200 "));
    assert!(stuck.read_to_end(&mut Vec::new()).await.is_err());
}
