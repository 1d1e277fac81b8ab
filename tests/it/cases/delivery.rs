//! Group E where the store follows a script, or time passes.

use std::{fmt::Write as _, io::Write as _, thread, time::Duration};

use crate::harness::{
    Act, Backend, Client, Latch, Palisade, Request, endless, palisade::refuses_to_start, put, send,
};

use Act::{Answer, Apply, Close, Read, Wait};

/// E14: each byte is in time, the head is not.
#[test]
fn a_head_that_comes_byte_by_byte_has_an_end() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()).server("header_timeout", "300ms"));
    let mut client = Client::connect(palisade.addr());
    let mut stream = client.stream();
    let sender = thread::spawn(move || {
        let head = b"PUT /k HTTP/1.1\r\nHost: a\r\nFencing-Token: 9\r\nX: ".iter();
        for byte in head.chain(std::iter::repeat(&b'y')) {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            // The pace is the case: all at once would be a head too large.
            thread::sleep(Duration::from_millis(20));
        }
    });
    client.until_closed();
    drop(client);
    sender.join().unwrap();
    palisade.until_quiet();
    assert!(backend.log().arrivals().is_empty());
    put("/k", "9").send(palisade.addr()).assert_status(201);
}

/// E08: the sending side ends within the body, with a length and with chunks.
#[test]
fn a_body_that_breaks_off_is_never_a_whole_one() {
    let length = "Content-Length: 10\r\n\r\nhello";
    let chunks = ["5\r\nhello\r\n", "5\r\nhel", "5\r\nhello\r\n0", "5\r\nhello\r\n0\r\n", "5"];
    let chunks = chunks.map(|chunks| format!("Transfer-Encoding: chunked\r\n\r\n{chunks}"));
    for rest in chunks.iter().map(String::as_str).chain([length]) {
        let backend = Backend::start();
        let config = endless(backend.addr()).upstream("partial_body", "discarded");
        let palisade = Palisade::start(&config);
        let mut client = Client::connect(palisade.addr());
        let head = "PUT /k HTTP/1.1\r\nHost: a\r\nFencing-Token: 9\r\n";
        client.send(format!("{head}{rest}").as_bytes());
        client.half_close_if_open();
        if let Ok(Some(response)) = client.try_response() {
            response.assert_refused(400, "bad-request");
        }
        palisade.until_quiet();
        assert!(backend.log().effects("/k").is_empty(), "{rest:?} took effect");
        put("/k", "10").send(palisade.addr()).assert_status(201);
    }
}

/// E18: a store's head is not endless either.
#[test]
fn an_answers_head_has_a_limit() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    for fields in ["X: y\r\n".repeat(5_000), format!("X: {}\r\n", "y".repeat(1 << 20))] {
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{fields}\r\n");
        backend.script("GET", [Read, send(&text)]);
        let read = Request::new("GET", "/k").send(palisade.addr());
        read.assert_refused(502, "upstream-failed");
        backend.script("5", [Read, Apply, send(&text)]);
        let written = put("/k", "5").send(palisade.addr());
        written.assert_refused(502, "upstream-failed");
        assert_eq!(written.outcome(), "unknown");
    }
    palisade.until_quiet();
}

/// E21, E29: what stands behind an answer without a body is nobody's.
#[test]
fn an_answer_that_has_no_body_has_none() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()).server("workers", 1));
    let behind = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    for head in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    ] {
        for token in ["GET", "5"] {
            backend.script(token, [Read, Apply, send(&format!("{head}{behind}"))]);
        }
        let mut client = Client::connect(palisade.addr());
        for request in [Request::new("GET", "/k"), put("/k", "5"), Request::new("GET", "/k")] {
            client.send(&request.bytes());
            let response = client.response();
            assert!(!response.body.starts_with(b"evil"), "{head:?} {response:#?}");
            if response.status() == 200 {
                assert_eq!(response.body, b"hello", "{head:?}");
            } else {
                assert!([204, 304].contains(&response.status()), "{head:?} {response:#?}");
                assert!(response.body.is_empty());
            }
        }
        palisade.until_quiet();
    }
    let head = Request::new("HEAD", "/k").send(palisade.addr());
    assert_eq!((head.status(), head.field("content-length")), (200, Some("5")));
}

/// E22, E23: a cut answer of a read never looks whole.
#[test]
fn a_reads_answer_that_was_cut_is_cut() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    for text in [
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
    ] {
        for end in [Close, Act::Reset] {
            backend.script("GET", [Read, send(text), end]);
            let read = Request::new("GET", "/k").start(palisade.addr()).try_response();
            let whole = matches!(&read, Ok(Some(read)) if read.status() == 200 && read.whole);
            assert!(!whole, "{text:?}: {read:#?}");
        }
        let next = Request::new("GET", "/k").send(palisade.addr());
        assert_eq!(next.body, b"hello");
    }
    // One that ends with its connection has no other end.
    backend.script("GET", [Read, send("HTTP/1.1 200 OK\r\n\r\nall"), Close]);
    assert_eq!(Request::new("GET", "/k").send(palisade.addr()).body, b"all");
}

/// E27: the second of two processes over one store starts nothing.
#[test]
fn a_store_has_one_process() {
    let backend = Backend::start();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("one");
    let config = endless(backend.addr()).store("path", folder.display().to_string());
    let palisade = Palisade::start(&config);
    let other = tempfile::tempdir().unwrap();
    let (code, words) = refuses_to_start(other.path(), &config, &[]);
    assert_eq!(code, Some(1), "{words}");
    put("/k", "5").send(palisade.addr()).assert_status(201);
}

/// E34: no coding, tag or sum of an answer is touched.
#[test]
fn an_answers_codings_go_on_as_they_came() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let body = b"\x1f\x8b\x00\r\n\xff";
    let fields = [
        ("content-encoding", "gzip"),
        ("etag", "\"e\""),
        ("content-md5", "x=="),
        ("vary", "accept-encoding"),
        ("content-range", "bytes 0-5/9"),
    ];
    let mut text = format!("HTTP/1.1 206 Partial\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in fields {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let text = [text.as_bytes(), b"\r\n", body].concat();
    for (script, request) in [("GET", Request::new("GET", "/k")), ("5", put("/k", "5"))] {
        backend.script(script, [Read, Apply, Act::Send(text.clone())]);
        let response = request.field("Accept-Encoding", "br").send(palisade.addr());
        assert_eq!((response.status(), response.body.as_slice()), (206, &body[..]));
        for (name, value) in fields {
            assert_eq!(response.field(name), Some(value));
        }
    }
}

/// E35: each of many writers that wait for one key gets an answer, and others are served meanwhile.
#[test]
fn many_writers_of_one_key() {
    const WRITERS: usize = 300;
    let backend = Backend::start();
    let config = endless(backend.addr()).set("drain_timeout", "60s").set("max_waiters", 200);
    let palisade = Palisade::start(&config);
    let latch = Latch::new();
    backend.script("5", [Read, Wait(latch.clone()), Apply, Answer(201)]);
    let mut old = put("/k", "5").start(palisade.addr());
    backend.until_held("5");
    let writers = (0..WRITERS).map(|_| put("/k", "6").start(palisade.addr()));
    let mut writers: Vec<_> = writers.collect();
    palisade.until_metric("palisade_waiting_writes", 200.0);
    // The others have their answers.
    palisade.until_metric("palisade_requests_total", 100.0);
    put("/other", "1").send(palisade.addr()).assert_status(201);
    latch.open();
    old.response().assert_status(201);
    let statuses = writers.iter_mut().map(|writer| writer.response().status());
    let mut statuses: Vec<_> = statuses.collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![201; 200], vec![503; 100]].concat());
    palisade.until_quiet();
    backend.log().assert_never_down();
}
