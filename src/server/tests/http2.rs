//! HTTP/2, with hyper's client and with raw frames.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH},
};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http2::{SendRequest, handshake},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::{Semaphore, mpsc},
};

use super::{Answer, GET, LONG, SHORT, Server, empty, ok, options, read_all, read_head};
use crate::server::{Options, Peer};

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const SETTINGS: u8 = 4;
pub(super) const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;
/// The end of the headers, and of the stream.
pub(super) const WHOLE: u8 = 5;
/// `GET /` at `a`, by HPACK's static table.
pub(super) const GET_BLOCK: &[u8] = &[0x82, 0x86, 0x84, 0x41, 1, b'a'];

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

pub(super) fn start() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// The kinds of frames in what a server sent, until it closed or reset the connection.
pub(super) async fn kinds(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
    let mut kinds = Vec::new();
    let mut rest = all.as_slice();
    while rest.len() >= 9 {
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        kinds.push(rest[3]);
        rest = rest.get(9 + length..).unwrap_or(&[]);
    }
    kinds
}

type Client = SendRequest<Full<Bytes>>;

pub(super) async fn client<T>(io: T) -> Client
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn connect(server: &Server) -> Client {
    client(server.connect().await).await
}

pub(super) fn request(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::put(format!("http://a{path}")).body(Full::new(body.into())).unwrap()
}

#[tokio::test]
async fn prior_knowledge_is_enough() {
    let server = Server::start(&options(), |request: Request<Incoming>| async {
        assert_eq!(request.version(), Version::HTTP_2);
        let peer = request.extensions().get::<Peer>().unwrap().clone();
        assert!(!peer.is_gone() && peer.tls().is_none());
        let who = HeaderValue::from_str(&peer.remote().to_string()).unwrap();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut answer = Response::new(Full::new(body));
        answer.headers_mut().insert("who", who);
        Ok(answer)
    });
    let stream = server.connect().await;
    let address = stream.local_addr().unwrap().to_string();
    let mut client = client(stream).await;
    for body in ["", "hello"] {
        let answer = client.send_request(request("/", body)).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["who"], address);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), body);
    }
}

#[tokio::test]
async fn a_preface_in_pieces_is_one() {
    let server = Server::start(&options(), ok);
    let mut client = server.connect().await;
    for byte in PREFACE {
        client.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    client.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    let mut head = [0; 9];
    client.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], SETTINGS);
}

#[tokio::test]
async fn what_is_no_preface_is_http_1() {
    let server = Server::start(&options(), ok);
    for (sent, status) in [
        ("PRI * HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "200"),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "200"),
        ("P\r\n\r\n", "400"),
    ] {
        let mut client = server.connect().await;
        for byte in sent.bytes() {
            client.write_all(&[byte]).await.unwrap();
        }
        let answer = read_head(&mut client).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{sent}: {answer}");
    }
}

#[tokio::test]
async fn without_http2_a_preface_is_a_bad_request() {
    let server = Server::start(&Options { http2: false, ..options() }, ok);
    let mut client = server.connect().await;
    client.write_all(&start()).await.unwrap();
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "), "{answer:?}");
    let mut client = server.connect().await;
    client.write_all(GET).await.unwrap();
    assert!(read_head(&mut client).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn who_asks_for_nothing_is_closed() {
    let options = Options { header_timeout: SHORT, ..options() };
    let server = Server::start(&options, ok);
    let mut slow = server.connect().await;
    slow.write_all(&PREFACE[..20]).await.unwrap();
    assert_eq!(read_all(&mut slow).await, "");
    for sent in [PREFACE.to_vec(), start(), [start(), frame(HEADERS, 0, 1, GET_BLOCK)].concat()] {
        let mut client = server.connect().await;
        client.write_all(&sent).await.unwrap();
        let kinds = kinds(&mut client).await;
        assert!(kinds.starts_with(&[SETTINGS]) && kinds.contains(&GOAWAY), "{kinds:?}");
    }
}

#[tokio::test]
async fn who_answers_no_ping_is_gone() {
    let options = Options { header_timeout: SHORT, client_idle_timeout: SHORT, ..options() };
    let (dropped_tx, mut dropped) = mpsc::channel::<()>(1);
    let server = Server::start(&options, move |_| {
        let dropped = dropped_tx.clone();
        async move {
            let () = std::future::pending().await;
            drop(dropped);
            Answer::Ok(empty(StatusCode::OK))
        }
    });
    let mut client = server.connect().await;
    client.write_all(&[start(), frame(HEADERS, WHOLE, 1, GET_BLOCK)].concat()).await.unwrap();
    assert!(kinds(&mut client).await.contains(&6), "a ping was sent");
    drop(server);
    assert!(dropped.recv().await.is_none());
}

#[tokio::test]
async fn who_takes_nothing_of_an_answer_is_cut() {
    let options = Options { client_idle_timeout: SHORT, ..options() };
    let server = Server::start(&options, |_| async { Ok(Response::new(Endless)) });
    let mut client = connect(&server).await;
    let answer = client.send_request(request("/", "")).await.unwrap();
    // Its windows are full and stay so; it answers pings all the same.
    client.ready().await.unwrap();
    while !client.is_closed() {
        tokio::task::yield_now().await;
    }
    assert!(answer.into_body().collect().await.is_err());
}

/// A body without an end.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1000])))))
    }
}

#[tokio::test]
async fn an_answer_to_head_has_no_body() {
    let server = Server::start(&options(), |_| async { Ok(Response::new(Full::from("hello"))) });
    let mut client = connect(&server).await;
    for (method, body) in [("HEAD", ""), ("GET", "hello")] {
        let mut request = request("/", "");
        *request.method_mut() = method.parse().unwrap();
        let answer = client.send_request(request).await.unwrap();
        assert_eq!(answer.headers()[CONTENT_LENGTH], "5", "{method}");
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), body);
    }
}

#[tokio::test]
async fn a_head_beyond_the_limit_is_refused() {
    let options = Options { max_header_size: 8192, ..options() };
    let server = Server::start(&options, ok);
    let mut client = connect(&server).await;
    for (size, status) in
        [(4000, StatusCode::OK), (9000, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)]
    {
        let mut request = request("/", "");
        request.headers_mut().insert("x", HeaderValue::from_str(&"y".repeat(size)).unwrap());
        // The client may know the limit and send nothing.
        match client.send_request(request).await {
            Ok(answer) => assert_eq!(answer.status(), status),
            Err(error) => assert_ne!(status, StatusCode::OK, "{error}"),
        }
    }
}

#[tokio::test]
async fn requests_that_wait_with_their_bodies_stop_no_other() {
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let (arrived_tx, mut arrived) = mpsc::channel(100);
    let server = Server::start(&options(), move |request: Request<Incoming>| {
        let (gate, arrived) = (Arc::clone(&gate), arrived_tx.clone());
        async move {
            if request.uri().path() == "/wait" {
                arrived.send(()).await.unwrap();
                let _ = gate.acquire().await;
            }
            let size = request.into_body().collect().await.unwrap().to_bytes().len();
            Ok(Response::new(Full::new(Bytes::from(size.to_string()))))
        }
    });
    let client = connect(&server).await;
    let send = |path: &'static str, size: usize| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let answer = client.send_request(request(path, vec![b'x'; size])).await.unwrap();
            answer.into_body().collect().await.unwrap().to_bytes()
        })
    };
    let waiting: Vec<_> = (0..99).map(|_| send("/wait", 100_000)).collect();
    for _ in 0..99 {
        arrived.recv().await.unwrap();
    }
    assert_eq!(send("/", 1_000_000).await.unwrap(), "1000000");
    opened.close();
    for one in waiting {
        assert_eq!(one.await.unwrap(), "100000");
    }
}

#[tokio::test]
async fn a_stop_finishes_the_stream_in_flight() {
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let (arrived_tx, mut arrived) = mpsc::channel(1);
    let server = Server::start(&options(), move |request: Request<Incoming>| {
        let (gate, arrived) = (Arc::clone(&gate), arrived_tx.clone());
        async move {
            if request.uri().path() == "/wait" {
                arrived.send(()).await.unwrap();
                let _ = gate.acquire().await;
            }
            Ok(empty(StatusCode::OK))
        }
    });
    let mut client = connect(&server).await;
    let mut other = client.clone();
    let answer =
        tokio::spawn(async move { client.send_request(request("/wait", "")).await.unwrap() });
    arrived.recv().await.unwrap();
    server.stop.stop();
    // The client learns of it, and asks for nothing more.
    while other.send_request(request("/", "")).await.is_ok() {}
    opened.close();
    let answer = answer.await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(!answer.headers().contains_key(CONNECTION));
    assert_eq!(server.end().await, [true, true]);
}

#[tokio::test]
async fn a_stop_waits_for_no_client_that_is_silent() {
    let server = Server::start(&options(), ok);
    let mut client = server.connect().await;
    client.write_all(&[start(), frame(HEADERS, WHOLE, 1, GET_BLOCK)].concat()).await.unwrap();
    while client.read_u8().await.unwrap() != HEADERS {}
    assert_eq!(server.end().await, [true, true]);
}

#[tokio::test]
async fn a_stop_cuts_streams_that_do_not_end_in_time() {
    let options = Options { stop_timeout: SHORT, workers: 1, ..options() };
    let (arrived_tx, mut arrived) = mpsc::channel(1);
    let server = Server::start(&options, move |_| {
        let arrived = arrived_tx.clone();
        async move {
            arrived.send(()).await.unwrap();
            std::future::pending::<Answer>().await
        }
    });
    let mut client = connect(&server).await;
    let answer = tokio::spawn(async move { client.send_request(request("/", "")).await });
    arrived.recv().await.unwrap();
    assert_eq!(server.end().await, [false]);
    assert!(answer.await.unwrap().is_err());
}

#[tokio::test]
async fn a_panic_ends_its_stream_only() {
    let server = Server::start(&options(), |request: Request<Incoming>| async move {
        assert_ne!(request.uri().path(), "/panic", "on purpose");
        Ok(empty(StatusCode::OK))
    });
    let mut client = connect(&server).await;
    assert!(client.send_request(request("/panic", "")).await.is_err());
    assert_eq!(client.send_request(request("/", "")).await.unwrap().status(), StatusCode::OK);
    assert_eq!(server.end().await, [true, true]);
}

#[tokio::test]
async fn an_idle_client_is_told_goodbye_and_may_come_again() {
    let options = Options { header_timeout: SHORT, client_idle_timeout: LONG, ..options() };
    let server = Server::start(&options, ok);
    for _ in 0..2 {
        let mut client = connect(&server).await;
        assert_eq!(client.send_request(request("/", "")).await.unwrap().status(), StatusCode::OK);
        while client.ready().await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
