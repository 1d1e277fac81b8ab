//! The contract's answers: what each says about the fence and about the write's outcome.

use crate::harness::{
    Act, Backend, Client, Config, Latch, Palisade, Request, answer, endless, put, send, until,
    write,
};

use Act::{Apply, Close, Flood, Read, Reset, Wait};

#[test]
fn every_answer_says_what_the_fence_said() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let written = write(&palisade, "5");
    assert_eq!(
        (written.status(), written.result(), written.outcome()),
        (201, "admitted", "applied")
    );
    assert_eq!(written.field("fencing-highest"), Some("5"));

    let read = Request::new("GET", "/k").send(palisade.addr());
    assert_eq!((read.status(), read.result(), read.field("fencing-highest")), (200, "read", None));
    assert_eq!(read.body, b"hello");
    let read = Request::new("GET", "/k").token("1").send(palisade.addr());
    assert_eq!(
        (read.status(), read.result(), read.field("fencing-highest")),
        (200, "read", Some("5"))
    );
    let read = Request::new("GET", "/k").token("99").send(palisade.addr());
    assert_eq!((read.status(), read.result()), (200, "read"));
    write(&palisade, "6").assert_status(201);

    let stale = write(&palisade, "5");
    stale.assert_refused(412, "stale-token");
    assert_eq!((stale.result(), stale.outcome()), ("stale-token", "not-applied"));
    assert_eq!((stale.field("fencing-highest"), stale.member("highest")), (Some("6"), "6".into()));
    let missing = Request::new("PUT", "/k").body("x").send(palisade.addr());
    missing.assert_refused(428, "token-missing");
    let method = Request::new("BREW", "/k").token("7").send(palisade.addr());
    method.assert_refused(405, "method-not-allowed");
    assert!(method.field("allow").unwrap().contains("PUT"));
    palisade.until_metric("palisade_stale_writes_total", 1.0);
}

#[test]
fn a_status_of_the_upstream_is_passed_on_with_what_it_settles() {
    let cases: [(u16, &str); 16] = [
        (200, "applied"),
        (204, "applied"),
        (202, "unknown"),
        (303, "not-applied"),
        (400, "not-applied"),
        (404, "not-applied"),
        (409, "not-applied"),
        (412, "not-applied"),
        (429, "not-applied"),
        (501, "not-applied"),
        (505, "not-applied"),
        (408, "unknown"),
        (500, "unknown"),
        (502, "unknown"),
        (503, "unknown"),
        (504, "unknown"),
    ];
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    for (status, outcome) in cases {
        let body = if status == 204 { "" } else { "the store's own words" };
        let mut text = answer(status, body);
        if status == 204 {
            text = "HTTP/1.1 204 No Content\r\n\r\n".to_string();
        }
        backend.script("5", [Read, send(&text)]);
        let key = format!("/{status}");
        let response = put(&key, "5").send(palisade.addr());
        assert_eq!((response.status(), response.outcome()), (status, outcome));
        assert_eq!((response.result(), response.body.as_slice()), ("admitted", body.as_bytes()));
        let next = put(&key, "6").send(palisade.addr()).status();
        assert_eq!(next, if outcome == "unknown" { 503 } else { 201 }, "after {status}");
    }
}

#[test]
fn more_statuses_can_be_declared_settled() {
    let backend = Backend::start();
    let config = Config::http(backend.addr())
        .upstream("max_write_lifetime", "1h")
        .upstream("eof_is_end", true);
    let palisade = Palisade::start(&config);
    backend.script("5", [Read, Apply, send("HTTP/1.1 200 OK\n\nunframed"), Close]);
    let response = write(&palisade, "5");
    assert_eq!((response.status(), response.outcome()), (200, "applied"));
    assert_eq!(response.body, b"unframed");
    write(&palisade, "6").assert_status(201);
}

#[test]
fn our_own_502_is_for_no_answer_or_a_cut_one() {
    let cases: [(&str, Vec<Act>); 7] = [
        ("/reset", vec![Read, Reset]),
        ("/close", vec![Read, Close]),
        ("/garbage", vec![Read, send("SMTP ready\n\n")]),
        ("/switch", vec![Read, send("HTTP/1.1 101 Switching Protocols\nUpgrade: x\n\n")]),
        ("/cut", vec![Read, send("HTTP/1.1 200 OK\nContent-Length: 9\n\nok"), Close]),
        ("/cut-by-reset", vec![Read, send("HTTP/1.1 200 OK\nContent-Length: 9\n\nok"), Reset]),
        (
            "/cut-chunk",
            vec![Read, send("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n"), Close],
        ),
    ];
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    for (key, acts) in cases {
        backend.script("5", acts);
        let response = put(key, "5").send(palisade.addr());
        assert_eq!(
            (response.status(), response.member("code")),
            (502, "upstream-failed".into()),
            "{key}"
        );
        response.assert_problem();
        assert_eq!((response.result(), response.outcome()), ("admitted", "unknown"), "{key}");
        put(key, "6").send(palisade.addr()).assert_refused(503, "in-doubt");
    }
    palisade.until_metric("palisade_in_doubt_keys", 7.0);
    palisade.until_quiet();
}

#[test]
fn a_short_answer_is_held_and_a_longer_one_streams() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    for size in [0, 1000, 65_536] {
        backend.script("5", [Read, Apply, send(&answer(200, &"z".repeat(size)))]);
        let response = write(&palisade, "5");
        assert_eq!((response.body.len(), response.outcome()), (size, "applied"));
    }
    let latch = Latch::new();
    let head = format!("HTTP/1.1 200 OK\nContent-Length: {}\n\n", 1 << 20);
    let half = 1 << 19;
    let halves = [Read, Apply, send(&head), Flood(half), Wait(latch.clone()), Flood(half)];
    backend.script("5", halves);
    let mut client = put("/k", "5").start(palisade.addr());
    let mut begun = [0; 1000];
    let head = client.head();
    assert_eq!((head.status(), head.field("fencing-outcome")), (200, None));
    let first = client.read(&mut begun).unwrap();
    assert!(first > 0, "it streams before its end");
    palisade.until_metric("palisade_in_flight_writes", 1.0);
    latch.open();
    let mut left = (1 << 20) - first;
    let mut rest = vec![0; 1 << 16];
    while left > 0 {
        let got = client.read(&mut rest).unwrap();
        assert!(got > 0, "cut, {left} bytes before its end");
        left -= got.min(left);
    }
    palisade.until_quiet();
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
}

/// However small the pieces in which the store sends it, and however many come at once.
#[test]
fn a_client_that_keeps_up_gets_all_of_a_long_answer() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    for (pieces, size) in [(200, 1024), (1000, 100), (100, 8192)] {
        let piece = format!("{size:x}\n{}\n", "z".repeat(size));
        let body = piece.repeat(pieces) + "0\n\n";
        let answer = format!("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n{body}");
        backend.script("5", [Read, Apply, send(&answer)]);
        let response = write(&palisade, "5");
        assert_eq!((response.body.len(), response.whole), (pieces * size, true));
        palisade.until_quiet();
    }
}

/// One length, or none; and no coding that nobody asked for. hyper drops an answer to HEAD that has two,
/// and clients of HTTP/2 the whole connection.
#[test]
fn an_answer_has_one_length_and_one_coding() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let twice = "HTTP/1.1 200 OK\nContent-Length: 7\nContent-Length: 7\n\n";
    backend.script("HEAD", [Read, send(twice)]);
    let head = Request::new("HEAD", "/k").send(palisade.addr());
    assert_eq!((head.status(), head.field("content-length")), (200, Some("7")));
    for answer in [
        "HTTP/1.1 204 No Content\nContent-Length: none\n\n",
        "HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked\n\n2\nok\n0\n\n",
    ] {
        backend.script("GET", [Read, send(answer)]);
        let read = Request::new("GET", "/k").send(palisade.addr());
        read.assert_refused(502, "upstream-failed");
    }
}

/// A store that never comes to an answer.
#[test]
fn informational_answers_without_end_are_no_answer() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let endless = send(&"HTTP/1.1 102 Processing\n\n".repeat(10_000));
    backend.script("5", [Read, Apply, endless.clone()]);
    let response = write(&palisade, "5");
    response.assert_refused(502, "upstream-failed");
    assert_eq!(response.outcome(), "unknown");
    backend.script("GET", [Read, endless]);
    Request::new("GET", "/k").send(palisade.addr()).assert_refused(502, "upstream-failed");
}

#[test]
fn a_long_answer_that_fails_is_cut() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    for head in ["Content-Length: 1000000", "Transfer-Encoding: chunked"] {
        let key = format!("/{}", head.len());
        let begun =
            format!("HTTP/1.1 200 OK\n{head}\n\n{}", if head.len() > 23 { "30000\n" } else { "" });
        backend.script("5", [Read, Apply, send(&begun), Flood(0x30000 - 1), Close]);
        let response = put(&key, "5").send(palisade.addr());
        assert!(response.status() == 200 && !response.whole, "it does not look whole");
        palisade.until_quiet();
        put(&key, "6").send(palisade.addr()).assert_refused(503, "in-doubt");
    }
}

/// It comes before the body, which then goes nowhere: the client is told that the connection ends.
#[test]
fn an_early_answer_ends_the_connection_however_long_it_is() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    for size in [5, 70_000] {
        let early = format!("HTTP/1.1 413 Too Large\nContent-Length: {size}\n\n");
        backend.script("5", [send(&early), Flood(size), Close]);
        let mut client = Client::connect(palisade.addr());
        client.send(&put("/k", "5").body(vec![b'x'; 100_000]).head());
        let head = client.head();
        assert_eq!((head.status(), head.field("connection")), (413, Some("close")), "{size}");
    }
}

#[test]
fn the_upstreams_fencing_fields_are_removed() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let lies = "HTTP/1.1 200 OK\nFencing-Result: claimed\nFencing-Highest: 99\nFencing-Outcome: unknown\nFencing-New: x\nETag: \"e\"\nContent-Length: 0\n\n";
    backend.script("5", [Read, send(lies)]);
    let response = write(&palisade, "5");
    assert_eq!((response.result(), response.outcome()), ("admitted", "applied"));
    assert_eq!(
        (response.field("fencing-highest"), response.field("fencing-new")),
        (Some("5"), None)
    );
    assert_eq!(response.field("etag"), Some("\"e\""));
}

#[test]
fn a_redirect_of_a_write_does_not_lead_past_the_fence() {
    let backend = Backend::start();
    let redirect =
        |to: &str| send(&format!("HTTP/1.1 307 Over There\nLocation: {to}\nContent-Length: 0\n\n"));
    let palisade = Palisade::start(&endless(backend.addr()));
    for to in ["http://other/k", "//other/k", "https://a/k", "http://a:81/k", "http://a@other/k"] {
        backend.script("5", [Read, redirect(to)]);
        let response = write(&palisade, "5");
        response.assert_refused(502, "redirect-refused");
        assert_eq!((response.outcome(), response.field("location")), ("not-applied", None), "{to}");
    }
    for to in ["/elsewhere", "http://a/elsewhere", "elsewhere"] {
        backend.script("5", [Read, redirect(to)]);
        assert_eq!(write(&palisade, "5").assert_status(307).field("location"), Some(to));
    }
    backend.script("GET", [Read, redirect("http://other/k")]);
    Request::new("GET", "/k").send(palisade.addr()).assert_status(307);

    let passing = Palisade::start(&endless(backend.addr()).upstream("pass_redirects", true));
    backend.script("5", [Read, redirect("http://other/k")]);
    assert_eq!(write(&passing, "5").assert_status(307).outcome(), "not-applied");
}

#[test]
fn observed_routes_say_what_they_would_have_done() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()).set("enforce", false));
    write(&palisade, "6").assert_status(201);
    let cases = [
        (put("/k", "5"), "would-refuse; code=stale-token"),
        (put("/k", "-"), "would-refuse; code=token-missing"),
        (put("/k", "five"), "would-refuse; code=token-malformed"),
        (put("/k", "6"), "admitted"),
    ];
    for (request, result) in cases {
        let response = request.send(palisade.addr());
        assert_eq!(response.assert_status(201).field("fencing-result"), Some(result));
    }
    put("/k%00", "7").send(palisade.addr()).assert_refused(400, "target-ambiguous");
}

#[test]
fn sticky_and_off_routes() {
    let backend = Backend::start();
    let config = endless(backend.addr())
        .without_routes()
        .route("/sticky/{*object}")
        .set("token", "sticky")
        .route("/off/{*object}")
        .set("token", "off");
    let palisade = Palisade::start(&config);
    let at = |target: &str, token: &str| put(target, token).send(palisade.addr());
    at("/sticky/k", "-").assert_status(201);
    at("/sticky/k", "5").assert_status(201);
    at("/sticky/k", "-").assert_refused(428, "token-missing");
    at("/sticky/other", "-").assert_status(201);
    let off = at("/off/k", "-");
    let fencing = |field: &&(String, String)| field.0.to_ascii_lowercase().starts_with("fencing-");
    assert_eq!(off.assert_status(201).head.fields.iter().find(fencing), None);
    let nowhere = at("/elsewhere", "5");
    nowhere.assert_refused(404, "no-route");
    until("nothing is forwarded that no route names", || {
        backend.log().arrivals().iter().all(|arrival| arrival.key() != "/elsewhere")
    });
}

/// A client of HTTP/1.0 sees the end of a body in the end of the connection: an answer that broke
/// off must not end it cleanly.
#[test]
fn an_answer_that_breaks_off_is_a_reset_to_http_1_0() {
    use std::io::{Read as _, Write as _};
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let begun = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n30000\n";
    for (token, request) in [
        ("5", "PUT /k HTTP/1.0\r\nHost: a\r\nFencing-Token: 5\r\nContent-Length: 0\r\n\r\n"),
        ("GET", "GET /k HTTP/1.0\r\nHost: a\r\n\r\n"),
    ] {
        backend.script(token, [Read, send(begun), Flood(0x30000 - 1), Close]);
        let mut client = std::net::TcpStream::connect(palisade.addr()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let ended = client.read_to_end(&mut answer);
        assert!(answer.starts_with(b"HTTP/1.1 200") || answer.starts_with(b"HTTP/1.0 200"));
        let kind = ended.expect_err("it looks whole").kind();
        assert_eq!(kind, std::io::ErrorKind::ConnectionReset, "{token}");
    }
}
