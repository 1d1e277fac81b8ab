//! What a route or an upstream can be told, and what no setting changes: reads that are checked,
//! doubt of one's own token, statuses that settle, marks that outlive the write that made them.

use crate::harness::{
    Act, Backend, Client, Config, Latch, Palisade, Request, Response, claim, endless, put, write,
};

use Act::{Answer, Apply, ApplyLate, Close, Read, Reset, Wait};

fn read(palisade: &Palisade, token: &str) -> Response {
    Request::new("GET", "/k").token(token).send(palisade.addr())
}

#[test]
fn reads_that_are_checked() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()).set("reads", "check"));
    read(&palisade, "4").assert_status(200);
    write(&palisade, "6").assert_status(201);
    for again in [false, true] {
        if again {
            // From disk, and in a quarantine too.
            palisade.kill9();
            palisade.restart();
        }
        let before = backend.log().arrivals().len();
        let stale = read(&palisade, "5");
        stale.assert_refused(412, "stale-token");
        assert_eq!((stale.result(), stale.field("fencing-highest")), ("stale-token", Some("6")));
        assert_eq!(stale.field("fencing-outcome"), None, "there was nothing to apply");
        let head = Request::new("HEAD", "/k").token("5").start(palisade.addr()).response();
        assert_eq!((head.status(), head.result()), (412, "stale-token"));
        assert_eq!(backend.log().arrivals().len(), before, "refused before the store");
        for token in ["-", "6", "7"] {
            assert_eq!(read(&palisade, token).assert_status(200).result(), "read", "{token}");
        }
        // A read raises nothing.
        write(&palisade, "6").assert_status(201);
    }
}

/// The answer to 5 is lost; its holder writes again while the first may yet take effect.
#[test]
fn doubt_of_ones_own_token() {
    for (rule, admitted) in [("pass", true), ("wait", false)] {
        let backend = Backend::start();
        let palisade = Palisade::start(&endless(backend.addr()).upstream("same_token_doubt", rule));
        backend.script("5", [Read, Reset]);
        write(&palisade, "5").assert_refused(502, "upstream-failed");
        let again = write(&palisade, "5");
        if admitted {
            assert_eq!(again.assert_status(201).outcome(), "applied");
        } else {
            again.assert_refused(503, "in-doubt");
            claim("/k", "5").send(palisade.addr()).assert_refused(503, "in-doubt");
            assert_eq!(backend.log().count("5"), 1);
        }
    }
}

#[test]
fn a_wait_for_ones_own_token_ends_with_the_doubt() {
    let backend = Backend::start();
    let config = Config::http(backend.addr())
        .upstream("same_token_doubt", "wait")
        .set("drain_timeout", "60s");
    let palisade = Palisade::start(&config);
    let late = Latch::new();
    backend.script("5", [Read, Answer(503), Wait(late.clone()), ApplyLate]);
    write(&palisade, "5").assert_status(503);
    let mut again = put("/k", "5").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    late.open();
    backend.until_settled("5");
    again.response().assert_status(201);
    // Equal tokens in flight still run side by side.
    let held = Latch::new();
    backend.script("6", [Read, Wait(held.clone()), Apply, Answer(201)]);
    let mut first = put("/k", "6").start(palisade.addr());
    backend.until_held("6");
    write(&palisade, "6").assert_status(201);
    held.open();
    first.response().assert_status(201);
}

#[test]
fn statuses_that_an_upstream_settles_with() {
    let backend = Backend::start();
    let text = endless(backend.addr());
    let palisade = Palisade::start(&text.upstream("settled_statuses", vec![202, 408, 503]));
    for (status, outcome, next) in [
        (202, "applied", 201),
        (503, "unknown", 201),
        (408, "unknown", 201),
        (500, "unknown", 503),
        (504, "unknown", 503),
    ] {
        let key = format!("/{status}");
        backend.script("5", [Read, Answer(status)]);
        let answer = put(&key, "5").send(palisade.addr());
        assert_eq!((answer.status(), answer.outcome()), (status, outcome));
        assert_eq!(put(&key, "6").send(palisade.addr()).status(), next, "after {status}");
    }
    // A status settles nothing when the connection broke behind it.
    let cut = "HTTP/1.1 503 Cut\r\nContent-Length: 9\r\n\r\nok";
    backend.script("5", [Read, Act::Send(cut.into()), Close]);
    put("/cut", "5").send(palisade.addr()).assert_refused(502, "upstream-failed");
    put("/cut", "6").send(palisade.addr()).assert_refused(503, "in-doubt");
}

/// R9: once offered to the fence, a mark stays, whatever becomes of the write.
#[test]
fn the_mark_outlives_a_write_that_failed() {
    let backend = Backend::start();
    let config = endless(backend.addr()).set("takeover", "wait").set("max_body", "64KiB");
    let mut palisade = Palisade::start(&config);
    let ways: [(&str, Vec<Act>, u16); 5] = [
        ("/reset", vec![Read, Reset], 502),
        ("/close", vec![Close], 502),
        ("/403", vec![Read, Answer(403)], 403),
        ("/503", vec![Read, Answer(503)], 503),
        ("/202", vec![Read, Answer(202)], 202),
    ];
    for (key, acts, status) in &ways {
        backend.script("6", acts.clone());
        put(key, "6").send(palisade.addr()).assert_status(*status);
    }
    // One that never got past the gate.
    let held = Latch::new();
    backend.script("4", [Read, Wait(held.clone()), Apply, Answer(201)]);
    let mut old = put("/waited", "4").start(palisade.addr());
    backend.until_held("4");
    put("/waited", "6").send(palisade.addr()).assert_refused(503, "draining-writes");
    held.open();
    old.response().assert_status(201);
    // One whose client left within its body.
    let mut client = Client::connect(palisade.addr());
    client.send(&Request::new("PUT", "/left").token("6").field("Content-Length", "100").head());
    backend.log().until("the head", |arrival| arrival.key() == "/left");
    drop(client);
    palisade.until_quiet();
    let keys = ways.iter().map(|way| way.0).chain(["/waited", "/left"]);
    let keys: Vec<_> = keys.collect();
    for life in 0..2 {
        for key in &keys {
            let below = put(key, "5").send(palisade.addr());
            below.assert_refused(412, "stale-token");
            assert_eq!(below.field("fencing-highest"), Some("6"), "{key}, life {life}");
        }
        palisade.kill9();
        palisade.restart();
    }
    // What was refused from the head raised nothing.
    let large = put("/large", "6").body(vec![b'x'; 65_537]);
    large.send(palisade.addr()).assert_refused(413, "body-too-large");
    put("/large", "1").send(palisade.addr()).assert_status(201);
}

/// A key that must be looked up first waits for that and for nothing that happens on other keys.
#[test]
fn a_cold_key_waits_for_no_other() {
    let backend = Backend::start();
    let config = endless(backend.addr()).set("drain_timeout", "60s");
    let mut palisade = Palisade::start(&config);
    for key in ["/held", "/doubt", "/cold", "/cold-stale"] {
        put(key, "5").send(palisade.addr()).assert_status(201);
    }
    palisade.sigterm_and_wait();
    palisade.restart();
    let held = Latch::new();
    backend.script("5", [Read, Wait(held.clone()), Apply, Answer(201)]);
    let mut old = put("/held", "5").start(palisade.addr());
    backend.until_held("5");
    backend.script("6", [Read, Answer(503)]);
    put("/doubt", "6").send(palisade.addr()).assert_status(503);
    let mut waiter = put("/held", "6").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    put("/doubt", "7").send(palisade.addr()).assert_refused(503, "in-doubt");
    put("/cold", "5").send(palisade.addr()).assert_status(201);
    put("/cold", "6").send(palisade.addr()).assert_status(201);
    put("/cold-stale", "4").send(palisade.addr()).assert_refused(412, "stale-token");
    put("/new", "1").send(palisade.addr()).assert_status(201);
    palisade.until_metric("palisade_waiting_writes", 1.0);
    held.open();
    old.response().assert_status(201);
    waiter.response().assert_status(201);
}
