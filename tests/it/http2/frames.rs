//! HTTP/2 frame by frame: resets, lengths, windows. A permit is settled whatever a client does.

use std::{net::SocketAddr, time::Duration};

use super::assert_at_rest;
use crate::harness::{
    Act, Backend, Config, Latch, Palisade, Request, endless,
    frames::{CANCEL, End, Raw},
    http2::Http2,
    kernel::peak_memory_kib,
    put, send, until,
};

const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;

/// The fields of a request, Host first, as HTTP/2 writes them.
pub(super) fn fields_of(request: &Request) -> Vec<(String, String)> {
    let head = String::from_utf8(request.head()).unwrap();
    let lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    lines.map(|(name, value)| (name.to_ascii_lowercase(), value.to_string())).collect()
}

/// A PUT of `payload` with this head, which must be answered with 201.
pub(super) fn whole_put(to: SocketAddr, head: &[(&str, &str)]) {
    let mut client = Raw::connect(to);
    client.headers(1, head, false);
    client.data(1, b"payload", true);
    let answer = client.answer(1);
    assert_eq!((answer.status, answer.end), (201, End::Whole), "{head:?}: {answer:?}");
}

fn head<'a>(method: &'a str, path: &'a str, token: &'a str) -> Vec<(&'a str, &'a str)> {
    let head = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)];
    let token = (token != "-").then_some(("fencing-token", token));
    head.into_iter().chain(token).collect()
}

fn discards(upstream: SocketAddr) -> Config {
    endless(upstream).upstream("partial_body", "discarded")
}

/// Waits until the store has so many bytes of a write.
fn until_begun(backend: &Backend, token: &str) {
    backend.log().until("a begun write", |arrival| arrival.token() == Some(token));
}

#[test]
fn a_length_and_the_frames_must_agree() {
    for (config, doubt) in [(endless as fn(SocketAddr) -> Config, true), (discards, false)] {
        for length in ["3", "6", "8", "1000000"] {
            let backend = Backend::start();
            let palisade = Palisade::start(&config(backend.addr()));
            let mut client = Raw::connect(palisade.addr());
            let head = [head("PUT", "/k", "5"), vec![("content-length", length)]].concat();
            client.headers(1, &head, false);
            until_begun(&backend, "5");
            client.data(1, b"payload", true);
            let answer = client.answer(1);
            assert_eq!(answer.end, End::Reset(PROTOCOL_ERROR), "{length}: {answer:?}");
            palisade.until_quiet();
            backend.until_settled("5");
            assert!(backend.log().effects("/k").is_empty(), "{length}: it took effect");
            palisade.until_metric("palisade_in_doubt_keys", f64::from(u8::from(doubt)));
            let next = put("/k", "6").send(palisade.addr());
            assert_eq!(next.status(), if doubt { 503 } else { 201 }, "{length}");
            assert_at_rest(&palisade);
        }
    }
}

/// A write that was whole by its length is over, whatever follows it.
#[test]
fn more_than_a_length_that_was_reached() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    for (path, length, first) in [("/a", "0", ""), ("/b", "3", "pay")] {
        let mut client = Raw::connect(palisade.addr());
        let head = [head("PUT", path, "5"), vec![("content-length", length)]].concat();
        client.headers(1, &head, false);
        client.data(1, first.as_bytes(), false);
        client.ping();
        client.data(1, b"load", true);
        let _ = client.answer(1);
        palisade.until_quiet();
        // Applied once, or given up before it was forwarded; never something longer.
        let arrivals = backend.log().arrivals();
        let sent: Vec<_> = arrivals.iter().filter(|arrival| arrival.key() == path).collect();
        assert!(sent.len() <= 1, "{sent:#?}");
        assert!(sent.iter().all(|arrival| arrival.body == first.len() as u64), "{sent:#?}");
    }
    assert_at_rest(&palisade);
}

#[test]
fn a_read_with_a_body_is_refused() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    for method in ["GET", "HEAD", "OPTIONS"] {
        for more in [vec![], vec![("content-length", "7")]] {
            let mut client = Raw::connect(palisade.addr());
            client.headers(1, &[head(method, "/k", "-"), more.clone()].concat(), false);
            let answer = client.answer(1);
            assert_eq!(answer.status, 400, "{method} {more:?}: {answer:?}");
        }
    }
    let claim = [head("GET", "/k", "5"), vec![("fencing-claim", "true")]].concat();
    let mut client = Raw::connect(palisade.addr());
    client.headers(1, &claim, false);
    assert_eq!(client.answer(1).status, 400);
    assert!(backend.log().arrivals().is_empty());
    assert_at_rest(&palisade);
}

#[test]
fn trailers_of_a_request_are_dropped() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let trailers = [("x-late", "1"), ("fencing-token", "9"), ("content-length", "3")];
    for (path, token, status) in [("/k", "5", 201), ("/without", "-", 428)] {
        let mut client = Raw::connect(palisade.addr());
        client.headers(1, &head("PUT", path, token), false);
        client.data(1, b"payload", false);
        let sent = client.try_headers(1, &trailers, true);
        assert!(sent.is_ok() || status == 428);
        assert_eq!(client.answer(1).status, status);
    }
    let arrival = backend.until_settled("5");
    assert!(arrival.whole && arrival.body == 7, "a trailer would not be whole: {arrival:#?}");
    assert_eq!(palisade.show("k").member("highest"), "5");
    // Trailers end a stream.
    let mut client = Raw::connect(palisade.addr());
    client.headers(1, &head("PUT", "/k2", "5"), false);
    client.data(1, b"payload", false);
    client.headers(1, &trailers, false);
    assert_eq!(client.answer(1).end, End::Reset(PROTOCOL_ERROR));
    palisade.until_quiet();
    assert!(backend.log().effects("/k2").is_empty());
    assert_at_rest(&palisade);
}

#[test]
fn a_reset_or_a_lost_connection_within_an_upload() {
    // Without an error code, as proxies in front say that their own client has left.
    for reset in [Some(CANCEL), Some(NO_ERROR), None] {
        for (config, doubt) in [(endless as fn(SocketAddr) -> Config, true), (discards, false)] {
            let backend = Backend::start();
            let palisade = Palisade::start(&config(backend.addr()));
            let mut client = Raw::connect(palisade.addr());
            client.headers(1, &head("PUT", "/k", "5"), false);
            client.data(1, b"pay", false);
            until_begun(&backend, "5");
            palisade.until_metric("palisade_in_flight_writes", 1.0);
            if let Some(code) = reset {
                client.reset(1, code).unwrap();
                client.headers(3, &head("GET", "/other", "-"), true);
                assert_eq!(client.answer(3).status, 200, "the connection goes on");
            } else {
                drop(client);
            }
            palisade.until_quiet();
            backend.until_settled("5");
            assert!(backend.log().effects("/k").is_empty(), "it took effect");
            palisade.until_metric("palisade_in_doubt_keys", f64::from(u8::from(doubt)));
            put("/k", "6").send(palisade.addr()).assert_status(if doubt { 503 } else { 201 });
            assert_at_rest(&palisade);
        }
    }
}

/// A part of a body must never pass for the whole, whatever the reset says.
#[test]
fn a_reset_within_an_upload_makes_no_file() {
    let palisade = Palisade::start(&Config::files());
    for code in [NO_ERROR, CANCEL] {
        let mut client = Raw::connect(palisade.addr());
        client.headers(1, &head("PUT", "/k", "5"), false);
        client.data(1, b"pay", false);
        palisade.until_metric("palisade_in_flight_writes", 1.0);
        client.reset(1, code).unwrap();
        palisade.until_quiet();
        client.headers(3, &head("GET", "/k", "-"), true);
        assert_eq!(client.answer(3).status, 404, "{code}");
    }
}

/// R8: it was sent whole, so it runs to its outcome.
#[test]
fn a_reset_after_the_upload_changes_nothing() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let latch = Latch::new();
    backend.script("5", [Act::Read, Act::Wait(latch.clone()), Act::Apply, Act::Answer(201)]);
    let mut client = Raw::connect(palisade.addr());
    client.headers(1, &head("PUT", "/k", "5"), false);
    client.data(1, b"payload", true);
    backend.until_held("5");
    client.reset(1, CANCEL).unwrap();
    client.ping();
    palisade.until_metric("palisade_in_flight_writes", 1.0);
    latch.open();
    palisade.until_quiet();
    assert_eq!(backend.log().effects("/k"), ["5"]);
    put("/k", "6").send(palisade.addr()).assert_status(201);
    assert_at_rest(&palisade);
}

#[test]
fn a_reset_at_the_gate_leaves_no_trace() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()).set("drain_timeout", "60s"));
    let latch = Latch::new();
    backend.script("5", [Act::Read, Act::Wait(latch.clone()), Act::Apply, Act::Answer(201)]);
    let old = put("/k", "5").start(palisade.addr());
    backend.until_held("5");
    let mut client = Raw::connect(palisade.addr());
    client.headers(1, &head("PUT", "/k", "6"), true);
    client.headers(3, &head("PUT", "/k", "6"), false);
    client.data(3, b"pay", false);
    palisade.until_metric("palisade_waiting_writes", 2.0);
    client.reset(1, CANCEL).unwrap();
    client.reset(3, CANCEL).unwrap();
    palisade.until_metric("palisade_waiting_writes", 0.0);
    palisade.until_metric("palisade_in_flight_writes", 1.0);
    latch.open();
    let mut old = old;
    old.response().assert_status(201);
    assert_eq!(backend.log().count("6"), 0);
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
    client.headers(5, &head("PUT", "/k", "6"), true);
    assert_eq!(client.answer(5).status, 201, "the connection goes on");
    assert_at_rest(&palisade);
}

/// A client that sends a large body with a stale token learns why, and the stream ends without an
/// error (RFC 9113 section 8.1).
#[test]
fn a_refused_upload_is_answered_and_then_stopped() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    put("/k", "6").send(palisade.addr()).assert_status(201);
    let mut client = Raw::connect(palisade.addr());
    client.ping();
    client.headers(1, &head("PUT", "/k", "5"), false);
    let left = client.fill(1, 8 << 20);
    assert!(left > 0, "the window is bounded");
    let answer = client.answer(1);
    assert_eq!((answer.status, answer.end), (412, End::Whole), "{answer:?}");
    assert_eq!(client.answer(1).end, End::Reset(NO_ERROR));
    client.headers(3, &head("PUT", "/other", "6"), true);
    let answer = client.answer(3);
    assert_eq!(answer.end, End::Whole, "the connection goes on");
    assert_eq!(backend.log().count("5"), 0);
    let large = Http2::connect(palisade.addr()).send(&put("/k", "5").body(vec![b'x'; 4 << 20]));
    large.assert_refused(412, "stale-token");
    assert_at_rest(&palisade);
}

/// A store that reads nothing stops the client, not the memory; the other streams go on.
#[test]
fn flow_control_goes_end_to_end() {
    const STREAMS: u32 = 6;
    const SIZE: usize = 32 << 20;
    /// What the uploads may cost at most: some windows, of 64 KiB each.
    const MORE_KIB: u64 = 16 << 10;
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let latch = Latch::new();
    let mut client = Raw::connect(palisade.addr());
    client.ping();
    let streams: Vec<u32> = (0..STREAMS).map(|n| 2 * n + 1).collect();
    let path = |stream: u32| format!("/k{stream}");
    for stream in &streams {
        backend.stall_next_connection(&latch);
        client.headers(*stream, &head("PUT", &path(*stream), "5"), false);
    }
    until("each has a connection", || backend.connections() == STREAMS as usize);
    let before = peak_memory_kib(palisade.pid());
    let assert_bounded = || {
        let peak = peak_memory_kib(palisade.pid());
        assert!(peak < before + MORE_KIB, "{before} KiB, and then {peak}");
    };
    let mut left = vec![SIZE; streams.len()];
    let mut fill = |client: &mut Raw, limit: Duration| loop {
        for (stream, left) in streams.iter().zip(&mut left) {
            *left = client.fill(*stream, *left);
        }
        if left.iter().all(|left| *left == 0) || !client.window_moves(limit) {
            return left.clone();
        }
    };
    let closed = fill(&mut client, Duration::from_secs(1));
    assert!(closed.iter().all(|left| *left > SIZE / 4), "the windows close: {closed:?}");
    let other = 2 * STREAMS + 1;
    client.headers(other, &head("PUT", "/other", "5"), true);
    assert_eq!(client.answer(other).end, End::Whole, "another stream goes on");
    assert_bounded();

    latch.open();
    assert_eq!(fill(&mut client, Duration::from_secs(20)), vec![0; streams.len()]);
    palisade.until_quiet();
    for stream in &streams {
        assert_eq!(backend.log().effects(&path(*stream)), ["5"]);
    }
    assert!(backend.log().arrivals().iter().all(|arrival| arrival.whole));
    assert_bounded();
    assert_at_rest(&palisade);
}

/// R8: an answer is read at the store's pace. What a client that is too far behind has lost of it
/// does not look whole, least of all where no length tells.
#[test]
fn a_client_that_takes_no_answer_holds_no_write() {
    const SIZE: u64 = 64 << 20;
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let starts = [
        format!("Content-Length: {SIZE}\n\n"),
        format!("Transfer-Encoding: chunked\n\n{SIZE:x}\n"),
    ];
    for (n, start) in starts.iter().enumerate() {
        let path = format!("/k{n}");
        let script = || {
            let begin = send(&format!("HTTP/1.1 200 OK\n{start}"));
            let end = send(if n == 0 { "" } else { "\n0\n\n" });
            backend.script("5", [Act::Read, Act::Apply, begin, Act::Flood(SIZE), end]);
        };
        let until_read = |answers: usize| {
            until("the answer is read", || {
                backend.log().arrivals().iter().filter(|arrival| arrival.settled).count() == answers
            });
            palisade.until_quiet();
        };
        script();
        let mut client = Raw::connect(palisade.addr());
        client.headers(1, &head("PUT", &path, "5"), true);
        until_read(3 * n + 1);
        client.open_windows(1);
        let answer = client.answer(1);
        assert_eq!(answer.status, 200);
        assert!(matches!(answer.end, End::Reset(_)), "{answer:?}");
        assert!(answer.body.len() < SIZE as usize);

        script();
        let mut client = put(&path, "5").start(palisade.addr());
        until_read(3 * n + 2);
        let answer = client.response();
        assert_eq!((answer.status(), answer.whole), (200, false));
        assert!(answer.body.len() < SIZE as usize);

        put(&path, "6").send(palisade.addr()).assert_status(201);
    }
    assert_at_rest(&palisade);
}

/// A client that resets all it asks for harms nobody else, and leaves nothing behind.
#[test]
fn a_flood_of_resets() {
    for (method, token, whole) in [("GET", "-", true), ("PUT", "5", true), ("PUT", "5", false)] {
        let backend = Backend::start();
        let palisade = Palisade::start(&endless(backend.addr()));
        let other = Http2::connect(palisade.addr());
        other.send(&put("/other", "1")).assert_status(201);
        let mut client = Raw::connect(palisade.addr());
        for n in 0..500 {
            let path = format!("/k{n}");
            let stream = 2 * n + 1;
            let sent = client.try_headers(stream, &head(method, &path, token), whole);
            if sent.and_then(|()| client.reset(stream, CANCEL)).is_err() {
                break; // it had enough
            }
        }
        for _ in 0..20 {
            other.send(&put("/other", "1")).assert_status(201);
        }
        drop(client);
        palisade.until_quiet();
        if whole {
            palisade.until_metric("palisade_in_doubt_keys", 0.0);
        }
        assert_at_rest(&palisade);
    }
}
