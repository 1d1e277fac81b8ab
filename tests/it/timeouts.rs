//! Every wait has an end: heads, bodies, dials, answers, stops. And what each end settles.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use rustix::process::Signal;
use socket2::{Domain, Socket, Type};

use crate::harness::{
    Act, Backend, Client, Latch, Palisade, Request, endless, put, send, until, write,
};

use Act::{Answer, Apply, Flood, Read, ReadSome, Wait};

/// The write may still take effect: the next token must wait.
fn assert_unknown(palisade: &Palisade) {
    palisade.until_quiet();
    palisade.until_metric("palisade_in_doubt_keys", 1.0);
    write(palisade, "6").assert_refused(503, "in-doubt");
}

/// Nothing of the write is left: the next token goes on.
fn assert_settled(palisade: &Palisade) {
    palisade.until_quiet();
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
    write(palisade, "6").assert_status(201);
}

/// An answer of our own, or none.
fn assert_408_or_closed(client: &mut Client) {
    if let Ok(Some(response)) = client.try_response() {
        response.assert_refused(408, "request-timeout");
    }
}

#[test]
fn a_head_that_does_not_end() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()).server("header_timeout", "300ms"));
    for begun in ["", "P", "PUT /k HTTP/1.1\r\n", "PUT /k HTTP/1.1\r\nHost: a\r\nFencing-Tok"] {
        let mut client = Client::connect(palisade.addr());
        client.send(begun.as_bytes());
        assert_408_or_closed(&mut client);
        client.until_closed();
    }
    // So is a connection that falls silent after an answer.
    let mut client = put("/k", "5").start(palisade.addr());
    client.response().assert_status(201);
    client.until_closed();
    assert_settled(&palisade);
}

#[test]
fn an_upload_that_stops_in_its_middle() {
    for (partial_body, unknown) in [("unknown", true), ("discarded", false)] {
        let backend = Backend::start();
        let config = endless(backend.addr())
            .upstream("body_idle_timeout", "300ms")
            .upstream("partial_body", partial_body);
        let palisade = Palisade::start(&config);
        backend.script("5", [ReadSome(10), Read]);
        let mut client = Client::connect(palisade.addr());
        client.send(&put("/k", "5").body([b'x'; 100]).head());
        client.send(b"0123456789");
        let response = client.response();
        response.assert_refused(408, "request-timeout");
        assert_eq!(response.outcome(), if unknown { "unknown" } else { "not-applied" });
        client.until_closed();
        assert!(!backend.until_settled("5").whole, "the store's connection is cut");
        if unknown { assert_unknown(&palisade) } else { assert_settled(&palisade) }
    }
}

#[test]
fn a_client_that_leaves_within_its_body() {
    for (partial_body, unknown) in [("unknown", true), ("discarded", false)] {
        let backend = Backend::start();
        let config = endless(backend.addr()).upstream("partial_body", partial_body);
        let palisade = Palisade::start(&config);
        let request = Request::new("PUT", "/k").token("5").field("Transfer-Encoding", "chunked");
        let mut client = Client::connect(palisade.addr());
        client.send(&request.head());
        client.send(b"a\r\n0123456789\r\n");
        backend.log().until("the head of 5", |arrival| arrival.token() == Some("5"));
        drop(client);
        assert!(!backend.until_settled("5").whole, "a cut body never ends as a whole one");
        if unknown { assert_unknown(&palisade) } else { assert_settled(&palisade) }
    }
}

#[test]
fn a_store_that_is_not_there() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let palisade = Palisade::start(&endless(unused));
    for token in ["5", "6"] {
        let response = write(&palisade, token);
        response.assert_refused(502, "upstream-unreachable");
        assert_eq!((response.result(), response.outcome()), ("admitted", "not-applied"));
        // Where the store is, is for the operator.
        assert_eq!(response.member("detail"), "it refuses connections");
    }
    let logged = format!("upstream-unreachable: no connection to {unused}: Connection refused");
    until("a warning of each", || palisade.stderr().matches(&logged).count() == 2);
    // Its tokens are the mark all the same.
    write(&palisade, "5").assert_refused(412, "stale-token");
    let read = Request::new("GET", "/k").send(palisade.addr());
    read.assert_refused(502, "upstream-unreachable");
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
}

#[test]
fn a_dial_that_does_not_end() {
    // A listener whose queue is full: the kernel drops what comes next.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let addr = socket.local_addr().unwrap().as_socket().unwrap();
    let limit = Duration::from_millis(100);
    let mut queued = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&addr, limit) {
        queued.push(stream);
        assert!(queued.len() < 64, "the queue is bounded");
    }
    let palisade = Palisade::start(&endless(addr).upstream("connect_timeout", "300ms"));
    for token in ["5", "6"] {
        let response = write(&palisade, token);
        response.assert_refused(502, "upstream-unreachable");
        assert_eq!(response.outcome(), "not-applied");
    }
    palisade.until_quiet();
}

#[test]
fn an_answer_that_does_not_come() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()).upstream("response_timeout", "300ms"));
    backend.script("5", [Read, Wait(Latch::new())]);
    let response = write(&palisade, "5");
    response.assert_refused(504, "upstream-timeout");
    assert_eq!((response.result(), response.outcome()), ("admitted", "unknown"));
    assert_unknown(&palisade);
    backend.script("GET", [Read, Wait(Latch::new())]);
    let read = Request::new("GET", "/k").send(palisade.addr());
    read.assert_refused(504, "upstream-timeout");
}

#[test]
fn an_answer_that_stops_in_its_middle() {
    let backend = Backend::start();
    let config = endless(backend.addr()).upstream("body_idle_timeout", "300ms");
    let palisade = Palisade::start(&config);
    let half = "HTTP/1.1 200 OK\nContent-Length: 9\n\nok";
    backend.script("5", [Read, Apply, send(half), Wait(Latch::new())]);
    let response = write(&palisade, "5");
    response.assert_refused(504, "upstream-timeout");
    assert_eq!((response.result(), response.outcome()), ("admitted", "unknown"));
    assert_unknown(&palisade);
    // Of a read it is passed on as far as it came, and does not look whole.
    backend.script("GET", [Read, send(half), Wait(Latch::new())]);
    let read = Request::new("GET", "/k").send(palisade.addr());
    assert!(read.status() == 504 || !read.whole, "{read:#?}");
}

#[test]
fn a_store_that_stops_reading() {
    let backend = Backend::start();
    let config = endless(backend.addr())
        .upstream("body_idle_timeout", "500ms")
        .upstream("response_timeout", "60s");
    let palisade = Palisade::start(&config);
    backend.script("5", [ReadSome(10), Wait(Latch::new())]);
    let mut client = Client::connect(palisade.addr());
    client.send(&Request::new("PUT", "/k").token("5").field("Content-Length", "100000000").head());
    let stream = client.stream();
    let sender = std::thread::spawn(move || flood(stream));
    let response = client.response();
    assert!([504, 408].contains(&response.status()), "{response:#?}");
    assert_eq!(response.outcome(), "unknown");
    drop(client);
    let _ = sender.join();
    assert_unknown(&palisade);
}

/// Writes zeros until the other side has had enough.
fn flood(mut stream: TcpStream) {
    use std::io::Write as _;
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let block = vec![0; 1 << 16];
    while stream.write_all(&block).is_ok() {}
}

/// R8: the answer is read at the store's pace; a client that falls behind is cut.
#[test]
fn a_client_that_does_not_read_a_large_answer() {
    const LARGE: u64 = 64 << 20;
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let head = format!("HTTP/1.1 200 OK\nContent-Length: {LARGE}\n\n");
    backend.script("5", [Read, Apply, send(&head), Flood(LARGE)]);
    let mut client = put("/k", "5").start(palisade.addr());
    backend.until_settled("5");
    assert_settled(&palisade);
    let response = client.response();
    assert!(!response.whole && response.body.len() < LARGE as usize, "it was cut");
}

#[test]
fn a_stop_lets_open_writes_end() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    let latch = Latch::new();
    backend.script("5", [Read, Wait(latch.clone()), Apply, Answer(201)]);
    let mut idle = put("/idle", "1").start(palisade.addr());
    idle.response().assert_status(201);
    let mut open = put("/k", "5").start(palisade.addr());
    backend.until_held("5");
    palisade.signal(Signal::TERM);
    until("the listener is closed", || TcpStream::connect(palisade.addr()).is_err());
    idle.until_closed();
    latch.open();
    assert_eq!(open.response().assert_status(201).outcome(), "applied");
    assert_eq!(palisade.until_ended().code(), Some(0), "{}", palisade.stderr());
    palisade.restart();
    write(&palisade, "6").assert_status(201);
}

#[test]
fn a_stop_has_an_end_itself() {
    let backend = Backend::start();
    let config = endless(backend.addr()).server("stop_timeout", "500ms");
    let mut palisade = Palisade::start(&config);
    backend.script("5", [Read, Wait(Latch::new())]);
    let _open = put("/k", "5").start(palisade.addr());
    backend.until_held("5");
    assert_eq!(palisade.sigterm_and_wait().code(), Some(0), "{}", palisade.stderr());
    palisade.restart();
    write(&palisade, "6").assert_refused(503, "in-doubt");
}

#[test]
fn a_second_signal_ends_a_stop_at_once() {
    let backend = Backend::start();
    let config = endless(backend.addr()).server("stop_timeout", "10m");
    let mut palisade = Palisade::start(&config);
    backend.script("5", [Read, Wait(Latch::new())]);
    let mut open = put("/k", "5").start(palisade.addr());
    backend.until_held("5");
    palisade.signal(Signal::TERM);
    until("the listener is closed", || TcpStream::connect(palisade.addr()).is_err());
    // Again and again: what comes within a second of the first counts as one with it.
    until("it gives up", || {
        palisade.signal(Signal::TERM);
        palisade.stderr().contains("stopped, but not clean (not all requests ended")
    });
    assert_eq!(palisade.until_ended().code(), Some(0), "{}", palisade.stderr());
    open.until_closed();
    // It was not clean: what was cut may still take effect.
    palisade.restart();
    write(&palisade, "6").assert_refused(503, "in-doubt");
}

/// As `timeout` and terminals send them: to the process, and to its group.
#[test]
fn signals_that_come_together_are_one_stop() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    let latch = Latch::new();
    backend.script("5", [Read, Wait(latch.clone()), Answer(201)]);
    let mut open = put("/k", "5").start(palisade.addr());
    backend.until_held("5");
    palisade.signal(Signal::TERM);
    palisade.signal(Signal::INT);
    until("the listener is closed", || TcpStream::connect(palisade.addr()).is_err());
    latch.open();
    open.response().assert_status(201);
    assert_eq!(palisade.until_ended().code(), Some(0), "{}", palisade.stderr());
    palisade.restart();
    write(&palisade, "6").assert_status(201);
}

#[test]
fn a_stop_answers_those_who_wait() {
    let backend = Backend::start();
    let config = endless(backend.addr()).set("drain_timeout", "60s");
    let mut palisade = Palisade::start(&config);
    let latch = Latch::new();
    backend.script("5", [Read, Wait(latch.clone()), Apply, Answer(201)]);
    let mut open = put("/k", "5").start(palisade.addr());
    backend.until_held("5");
    let mut waiter = put("/k", "6").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    palisade.signal(Signal::TERM);
    waiter.response().assert_refused(503, "shutting-down");
    latch.open();
    open.response().assert_status(201);
    assert_eq!(palisade.until_ended().code(), Some(0), "{}", palisade.stderr());
    assert_eq!(backend.log().count("6"), 0);
}

#[test]
fn ctrl_c_is_a_clean_stop_too() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    write(&palisade, "5").assert_status(201);
    palisade.signal(Signal::INT);
    assert_eq!(palisade.until_ended().code(), Some(0), "{}", palisade.stderr());
    palisade.restart();
    write(&palisade, "6").assert_status(201);
}
