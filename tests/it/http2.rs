//! HTTP/2 with prior knowledge: what comes by it is fenced, and reaches the store, as what comes by
//! HTTP/1.1.

mod floods;
mod frames;
mod heads;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::mpsc,
    thread,
};

use rustix::process::Signal;

use crate::harness::{
    Act, Backend, Client, Config, Latch, Palisade, Request, claim, endless, http2::Http2, put,
    send, until,
};

use Act::{Answer, Apply, Flood, Read as ReadBody, Reset, Wait};

fn start() -> (Backend, Palisade, Http2) {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let client = Http2::connect(palisade.addr());
    (backend, palisade, client)
}

/// Nothing is left of what a test did, and both protocols are served.
pub(super) fn assert_at_rest(palisade: &Palisade) {
    palisade.until_quiet();
    put("/at-rest", "1").send(palisade.addr()).assert_status(201);
    Http2::connect(palisade.addr()).send(&put("/at-rest", "1")).assert_status(201);
    palisade.until_quiet();
}

/// A store that answers each connection's one request with 201, and tells its bytes.
fn capture() -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (sender, bytes) = mpsc::channel();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut seen, mut block) = (stream.unwrap(), Vec::new(), [0; 4096]);
            while !seen.ends_with(b"payload") && !seen.ends_with(b"\r\n0\r\n\r\n") {
                let read = stream.read(&mut block).unwrap();
                assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
                seen.extend_from_slice(&block[..read]);
            }
            let created = "HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(created.as_bytes()).unwrap();
            sender.send(String::from_utf8(seen).unwrap()).unwrap();
        }
    });
    (addr, bytes)
}

#[test]
fn a_write_reaches_the_store_as_the_same_bytes_by_both_protocols() {
    let (store, bytes) = capture();
    let palisade = Palisade::start(&Config::http(store));
    let request = Request::new("PUT", "/a/b%20c?x=%2F&y").host("store.test:81").token("5");
    let request = request
        .field("X-Two", "1")
        .field("Cookie", "a=b; c=d")
        .field("X-Two", "2")
        .field("Accept-Encoding", "gzip")
        .field("Content-Encoding", "gzip")
        .field("Expect", "100-continue")
        .field("X-Quoted", "caf=%C3%A9, \"a\\\"b\"; c");
    let lower = frames::fields_of(&request);
    for chunked in [false, true] {
        let mut client = Client::connect(palisade.addr());
        let (framing, body) = if chunked {
            ("Transfer-Encoding: chunked", "7\r\npayload\r\n0\r\n\r\n")
        } else {
            ("Content-Length: 7", "payload")
        };
        let head = String::from_utf8(request.head()).unwrap();
        let head = head.trim_end();
        client.send(format!("{head}\r\n{framing}\r\n\r\n{body}").as_bytes());
        client.response().assert_status(201);

        let mut head = vec![
            (":method", "PUT"),
            (":scheme", "http"),
            (":authority", "store.test:81"),
            (":path", "/a/b%20c?x=%2F&y"),
        ];
        head.extend(lower.iter().skip(1).map(|(name, value)| (name.as_str(), value.as_str())));
        if !chunked {
            head.push(("content-length", "7"));
        }
        frames::whole_put(palisade.addr(), &head);

        let (by_1, by_2) = (bytes.recv().unwrap(), bytes.recv().unwrap());
        assert!(by_1.contains("\r\nvia: 1.1 palisade\r\n"), "{by_1}");
        assert!(by_2.contains("\r\nvia: 2 palisade\r\n"), "{by_2}");
        let known = |text: &str| {
            let own = ["via: ", "x-request-id: "];
            let lines = text.split("\r\n").filter(|line| !own.iter().any(|o| line.starts_with(o)));
            lines.map(str::to_string).collect::<Vec<_>>()
        };
        assert_eq!(known(&by_1), known(&by_2));
        assert!(by_2.starts_with("PUT /a/b%20c?x=%2F&y HTTP/1.1\r\nhost: store.test:81\r\n"));
    }
    palisade.until_quiet();
}

#[test]
fn the_fence_is_the_same() {
    let (backend, palisade, client) = start();
    let written = client.send(&put("/k", "5"));
    assert_eq!(
        (written.assert_status(201).result(), written.outcome(), written.field("fencing-highest")),
        ("admitted", "applied", Some("5"))
    );
    // HTTP/1.1 and HTTP/2 share the mark.
    put("/k", "6").send(palisade.addr()).assert_status(201);
    let stale = client.send(&put("/k", "5"));
    stale.assert_refused(412, "stale-token");
    assert_eq!((stale.result(), stale.outcome()), ("stale-token", "not-applied"));
    assert_eq!((stale.member("key"), stale.member("highest")), ("store:k".into(), "6".into()));
    assert_eq!((stale.field("connection"), stale.field("fencing-highest")), (None, Some("6")));

    let claimed = client.send(&claim("/k", "7"));
    assert_eq!(
        (claimed.assert_status(200).result(), claimed.body.as_slice()),
        ("claimed", &b"hello"[..])
    );
    client.send(&put("/k", "6")).assert_refused(412, "stale-token");
    client.send(&Request::new("PUT", "/k").body("x")).assert_refused(428, "token-missing");
    let method = client.send(&Request::new("BREW", "/k").token("7"));
    method.assert_refused(405, "method-not-allowed");
    assert!(method.field("allow").unwrap().contains("PUT"));

    backend.script("7", [ReadBody, Reset]);
    let lost = client.send(&put("/k", "7"));
    lost.assert_refused(502, "upstream-failed");
    assert_eq!(lost.outcome(), "unknown");
    let waits = client.send(&put("/k", "8"));
    waits.assert_refused(503, "in-doubt");
    assert!(waits.field("retry-after").is_some());
    client.send(&put("/k", "8")).assert_refused(503, "in-doubt");
    put("/k", "8").send(palisade.addr()).assert_refused(503, "in-doubt");
    palisade.until_metric("palisade_in_doubt_keys", 1.0);
    assert_eq!(backend.log().effects("/k"), ["5", "6"]);
    assert_at_rest(&palisade);
}

#[test]
fn the_crumbs_of_a_cookie_are_joined() {
    let (backend, palisade, client) = start();
    let request = put("/k", "5").field("Cookie", "a=b").field("Cookie", "c=d").field("Cookie", "e");
    client.send(&request).assert_status(201);
    let arrival = backend.until_settled("5");
    assert_eq!(arrival.head.field("cookie"), Some("a=b; c=d; e"));
    assert_at_rest(&palisade);
}

#[test]
fn a_read_has_no_body_and_head_has_an_answer_without_one() {
    let (backend, palisade, client) = start();
    let read = client.send(&Request::new("GET", "/k"));
    assert_eq!((read.assert_status(200).result(), read.body.as_slice()), ("read", &b"hello"[..]));
    let head = client.send(&Request::new("HEAD", "/k"));
    assert_eq!((head.assert_status(200).field("content-length"), head.body.len()), (Some("5"), 0));
    assert!(head.whole);
    // Nor has a refusal of HEAD.
    put("/k", "6").send(palisade.addr()).assert_status(201);
    for (token, status, result) in [("5", 412, "stale-token"), ("-", 428, "token-missing")] {
        let claim = Request::new("HEAD", "/k").field("Fencing-Claim", "true").token(token);
        let refused = client.send(&claim);
        assert_eq!((refused.assert_status(status).result(), refused.whole), (result, true));
        let length: usize = refused.field("content-length").unwrap().parse().unwrap();
        assert!(length > 0 && refused.body.is_empty());
    }
    let before = backend.log().arrivals().len();
    for request in [Request::new("GET", "/k"), Request::new("HEAD", "/k"), claim("/k", "7")] {
        let request = request.body("a body");
        let refused = client.send(&request);
        assert_eq!((refused.assert_status(400).result(), refused.whole), ("bad-request", true));
        request.send(palisade.addr()).assert_status(400);
    }
    assert_eq!(backend.log().arrivals().len(), before);
    assert_eq!(palisade.show("k").member("highest"), "6", "nothing was raised");
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
    assert_at_rest(&palisade);
}

#[test]
fn large_bodies_go_both_ways() {
    const SIZE: usize = 8 << 20;
    /// Longer than what is held, and short enough that no reader is ever too far behind.
    const ANSWER: usize = 256 << 10;
    let (backend, palisade, client) = start();
    let head = format!("HTTP/1.1 200 OK\nContent-Length: {SIZE}\n\n");
    backend.script("GET", [ReadBody, send(&head), Flood(SIZE as u64)]);
    let read = client.send(&Request::new("GET", "/k"));
    assert!(read.whole && read.body.len() == SIZE);
    assert!(read.body.iter().all(|byte| *byte == b'z'));

    let head = format!("HTTP/1.1 200 OK\nContent-Length: {ANSWER}\n\n");
    backend.script("5", [ReadBody, Apply, send(&head), Flood(ANSWER as u64)]);
    let written = client.send(&put("/k", "5").body(vec![b'y'; SIZE]));
    assert_eq!((written.assert_status(200).body.len(), written.whole), (ANSWER, true));
    let arrival = backend.until_settled("5");
    assert_eq!((arrival.body, arrival.whole), (SIZE as u64, true));
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
    assert_at_rest(&palisade);
}

/// A failed answer does not look whole.
#[test]
fn an_answer_that_breaks_off_is_a_reset() {
    let (backend, palisade, client) = start();
    let head = "HTTP/1.1 200 OK\nContent-Length: 1000000\n\n";
    backend.script("GET", [ReadBody, send(head), Flood(100_000), Act::Close]);
    assert!(!client.send(&Request::new("GET", "/k")).whole);
    backend.script("5", [ReadBody, Apply, send(head), Flood(100_000), Act::Close]);
    assert!(!client.send(&put("/k", "5")).whole);
    // Both were of one stream each: the connection goes on.
    client.send(&put("/k", "6")).assert_refused(503, "in-doubt");
    assert_at_rest(&palisade);
}

#[test]
fn trailers_of_an_answer_are_dropped() {
    let (backend, palisade, client) = start();
    let text = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: X-Late\n\n2\nok\n0\nX-Late: 1\nFencing-Highest: 99\n\n";
    backend.script("GET", [ReadBody, send(text)]);
    let read = client.send(&Request::new("GET", "/k"));
    assert_eq!((read.assert_status(200).body.as_slice(), read.whole), (&b"ok"[..], true));
    for name in ["x-late", "trailer", "transfer-encoding", "fencing-highest"] {
        assert_eq!(read.field(name), None);
    }
    backend.script("5", [ReadBody, Apply, send(text)]);
    let written = client.send(&put("/k", "5"));
    assert_eq!((written.field("x-late"), written.field("fencing-highest")), (None, Some("5")));
    assert_at_rest(&palisade);
}

#[test]
fn a_hundred_keys_at_once_over_one_connection() {
    const STREAMS: usize = 100;
    let (backend, palisade, client) = start();
    let latch = Latch::new();
    for _ in 0..STREAMS {
        backend.script("5", [ReadBody, Wait(latch.clone()), Apply, Answer(201)]);
    }
    let key = |n: usize| format!("/k{n}");
    let pending: Vec<_> = (0..STREAMS).map(|n| client.start(&put(&key(n), "5"))).collect();
    palisade.until_metric("palisade_in_flight_writes", STREAMS as f64);
    until("all are at the store", || {
        backend.log().arrivals().iter().filter(|arrival| arrival.held).count() == STREAMS
    });
    latch.open();
    for pending in pending {
        assert_eq!(pending.response().assert_status(201).outcome(), "applied");
    }
    for n in 0..STREAMS {
        assert_eq!(backend.log().effects(&key(n)), ["5"]);
    }
    assert_at_rest(&palisade);
}

#[test]
fn a_hundred_writes_of_one_key_over_one_connection() {
    let (backend, palisade, client) = start();
    let pending: Vec<_> = (0..100).map(|_| client.start(&put("/k", "5"))).collect();
    for pending in pending {
        pending.response().assert_status(201);
    }
    assert_eq!(backend.log().effects("/k").len(), 100);
    // Of many tokens at once none falls, and the highest gets through.
    let pending: Vec<_> =
        (6..56).map(|n: u64| client.start(&put("/k", &(6 + n * 7 % 50).to_string()))).collect();
    for pending in pending {
        let response = pending.response();
        assert!([201, 412, 409, 503].contains(&response.status()), "{response:#?}");
    }
    client.send(&put("/k", "55")).assert_status(201);
    backend.log().assert_never_down();
    assert_at_rest(&palisade);
}

#[test]
fn a_takeover_cuts_the_write_of_a_lower_token() {
    let (backend, palisade, client) = start();
    let latch = Latch::new();
    backend.script("5", [ReadBody, Wait(latch.clone()), Act::ApplyLate, Answer(201)]);
    let old = client.start(&put("/k", "5"));
    backend.until_held("5");
    client.send(&put("/k", "6")).assert_refused(503, "in-doubt");
    let cut = old.response();
    cut.assert_refused(409, "superseded");
    assert_eq!(cut.outcome(), "unknown");
    latch.open();
    assert_at_rest(&palisade);
}

/// A long answer was cut: what came of it does not look whole.
#[test]
fn a_takeover_cuts_the_answer_of_a_lower_token() {
    let (backend, palisade, client) = start();
    let begun = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n30000\n";
    for (key, by_2) in [("/by-2", true), ("/by-1", false)] {
        backend.script("5", [ReadBody, Apply, send(begun), Flood(0x30000), Wait(Latch::new())]);
        let whole = if by_2 {
            let old = client.start(&put(key, "5"));
            backend.until_held("5");
            put(key, "6").send(palisade.addr()).assert_refused(503, "in-doubt");
            old.response().whole
        } else {
            let mut old = put(key, "5").start(palisade.addr());
            backend.log().until("a held write", |a| a.key() == key && a.held);
            put(key, "6").send(palisade.addr()).assert_refused(503, "in-doubt");
            old.response().whole
        };
        assert!(!whole, "{key}");
    }
    assert_at_rest(&palisade);
}

#[test]
fn a_stop_lets_the_streams_end() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    let client = Http2::connect(palisade.addr());
    let latch = Latch::new();
    backend.script("5", [ReadBody, Wait(latch.clone()), Apply, Answer(201)]);
    let pending = client.start(&put("/k", "5"));
    backend.until_held("5");
    palisade.signal(Signal::TERM);
    until("it stops", || palisade.stderr().to_lowercase().contains("stopping"));
    latch.open();
    assert_eq!(pending.response().assert_status(201).outcome(), "applied");
    assert_eq!(palisade.until_ended().code(), Some(0), "{}", palisade.stderr());
    // A clean stop: nobody waits.
    palisade.restart();
    Http2::connect(palisade.addr()).send(&put("/k", "6")).assert_status(201);
}
