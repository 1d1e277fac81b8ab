//! Sizes, time-outs, malformed bytes, and the end.

use std::{
    convert::Infallible,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use hyper::body::{Body, Frame};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{Fake, Reply, Running};
use crate::{
    admin::{Admin, Ends, Options, serve},
    metrics::Metrics,
};

const RESET: &str = "/v1/keys/files:reset/reset";

/// A change's document of exactly `length` bytes.
fn padded(length: usize) -> String {
    let body = r#"{"reason":"x"}"#;
    body.to_owned() + &" ".repeat(length - body.len())
}

#[test]
fn a_body_has_a_limit() {
    let running = Running::start();
    assert_eq!(running.post(RESET, &padded(64 * 1024)).status, 200);
    for length in [64 * 1024 + 1, 512 * 1024] {
        running.post(RESET, &padded(length)).refuses(413, "body-too-large");
    }
    assert_eq!(running.fake.done().len(), 1);
}

#[test]
fn a_body_without_a_length_has_the_same_limit() {
    let running = Running::start();
    let head = format!(
        "POST {RESET} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        running.at
    );
    let chunk = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
    let small = running.raw(&format!("{head}E\r\n{}\r\n0\r\n\r\n", padded(14)));
    assert_eq!(small.status, 200);
    running.raw(&format!("{head}{}0\r\n\r\n", chunk.repeat(5))).refuses(413, "body-too-large");
    running.raw(&format!("{head}E\r\n{}\r\nxyz\r\n", padded(14))).refuses(400, "bad-request");
}

#[test]
fn a_refusal_from_the_head_can_be_read() {
    let running = Running::start();
    let reply = running.send("POST", RESET, &[], &padded(512 * 1024));
    reply.refuses(415, "unsupported-media-type");
    let expect = [("Expect", "100-continue")];
    let mut stream = TcpStream::connect(running.at).unwrap();
    write!(
        stream,
        "POST {RESET} HTTP/1.1\r\nHost: {}\r\n{}: {}\r\nContent-Length: 14\r\n\r\n",
        running.at, expect[0].0, expect[0].1
    )
    .unwrap();
    Reply::read(stream).refuses(415, "unsupported-media-type");
}

#[test]
fn malformed_bytes_are_refused_or_cut_and_nothing_else_happens() {
    let running = Running::start();
    let long = format!("GET /livez HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(64 * 1024));
    let many = format!("GET /livez HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    for bytes in [
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET /livez\r\n\r\n",
        "GET /livez HTTP/9.9\r\n\r\n",
        "GET /li vez HTTP/1.1\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost : x\r\n\r\n",
        "POST /v1/keys/files:reset/reset HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &long,
        &many,
    ] {
        let mut stream = TcpStream::connect(running.at).unwrap();
        // It may be cut before all is written, and then the rest is of no matter.
        _ = stream.write_all(bytes.as_bytes());
        _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{bytes:.40?}: {answer}");
    }
    assert_eq!(running.ask("GET", "/livez", &[]).status, 200);
    assert_eq!(running.fake.done(), [""; 0]);
}

#[test]
fn a_connection_is_kept_for_the_next_request() {
    let running = Running::start();
    let one = format!("GET /livez HTTP/1.1\r\nHost: {}\r\n\r\n", running.at);
    let last = one.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let replies = running.raw(&format!("{one}{last}"));
    assert_eq!(replies.body.matches("HTTP/1.1 200 OK").count(), 1, "a second one after the first");
}

/// A body that never comes.
struct Never;

impl Body for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

/// A body of so many frames of 16 KiB, which counts those that are taken.
struct Frames {
    left: usize,
    taken: Arc<AtomicUsize>,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        self.taken.fetch_add(1, Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b' '; 16 * 1024])))))
    }
}

#[tokio::test]
async fn what_is_refused_is_read_to_a_limit_so_that_the_answer_is_seen() {
    let (admin, listener) = admin();
    let local = listener.local_addr().unwrap();
    // (media type, status, frames sent, frames taken): 1 MiB beyond what was of use.
    for (media, status, sent, most) in [
        ("text/plain", 415, 32, 32),
        ("text/plain", 415, usize::MAX, 65),
        ("application/json", 413, 32, 32),
        ("application/json", 413, usize::MAX, 70),
    ] {
        let taken = Arc::new(AtomicUsize::new(0));
        let request = Request::post(RESET)
            .header("Host", local.to_string())
            .header("Content-Type", media)
            .body(Frames { left: sent, taken: Arc::clone(&taken) })
            .unwrap();
        let answer = Arc::clone(&admin).handle(Ends { peer: local, local }, request).await;
        assert_eq!(answer.status(), status);
        assert_eq!(taken.load(Relaxed), most, "{media} {sent}");
    }
}

fn admin() -> (Arc<Admin>, TcpListener) {
    let (admin, listener, _) = admin_with_fake();
    (admin, listener)
}

fn admin_with_fake() -> (Arc<Admin>, TcpListener, Arc<Fake>) {
    let fake = Arc::new(Fake::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = Options { listen: listener.local_addr().unwrap(), token: None };
    let control = Arc::<Fake>::clone(&fake);
    (Admin::new(options, control, Metrics::new(&[])), listener, fake)
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let (admin, listener) = admin();
    let local = listener.local_addr().unwrap();
    for (media, status) in [("application/json", 408), ("text/plain", 415)] {
        let request = Request::post(RESET)
            .header("Host", local.to_string())
            .header("Content-Type", media)
            .body(Never)
            .unwrap();
        let answering = Arc::clone(&admin).handle(Ends { peer: local, local }, request);
        let answer = timeout(Duration::from_mins(1), answering).await.unwrap();
        assert_eq!(answer.status(), status);
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_end_is_not_waited_for() {
    let (admin, listener) = admin();
    let at = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, admin, stop.clone()));
    for sent in ["", "GET /livez HTTP/1.1\r\nHost: x\r\n"] {
        let mut stream = tokio::net::TcpStream::connect(at).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let ended = timeout(Duration::from_hours(1), stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "the connection is still open after {sent:?}");
    }
    stop.cancel();
    serving.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_closes_the_listener_and_idle_connections() {
    let (admin, listener) = admin();
    let at = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, admin, stop.clone()));
    let mut idle = tokio::net::TcpStream::connect(at).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let told = Instant::now();
    stop.cancel();
    serving.await.unwrap().unwrap();
    assert!(told.elapsed() < Duration::from_secs(1), "it waited for an idle connection");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    assert!(tokio::net::TcpStream::connect(at).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_stop_cuts_what_does_not_end() {
    let (admin, listener, fake) = admin_with_fake();
    let at = listener.local_addr().unwrap();
    fake.go.forget_permits(1000);
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, admin, stop.clone()));
    let mut stuck = tokio::net::TcpStream::connect(at).await.unwrap();
    let head = format!(
        "POST {RESET} HTTP/1.1\r\nHost: {at}\r\nContent-Type: application/json\r\n\
         Content-Length: 14\r\n\r\n"
    );
    stuck.write_all((head + &padded(14)).as_bytes()).await.unwrap();
    fake.begun.acquire().await.unwrap().forget();
    stop.cancel();
    timeout(Duration::from_mins(1), serving).await.unwrap().unwrap().unwrap();
    let mut rest = Vec::new();
    stuck.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
    assert_eq!(fake.done(), [""; 0]);
    fake.go.add_permits(1);
    fake.ended.acquire().await.unwrap().forget();
    assert_eq!(fake.done(), ["reset 7:reset"]);
}
