//! One key, several writers: who goes side by side, who waits, who is cut, who is refused.

mod claims;
mod waiters;

use crate::harness::{
    Act, Backend, Client, Config, Latch, Palisade, Request, claim, hold, put, send, write,
};

use Act::{Answer, Apply, Read, ReadSome, Reset, Wait};

fn patient(backend: &Backend) -> Config {
    Config::http(backend.addr()).set("drain_timeout", "60s")
}

/// A writer whose upload has stopped in its middle.
fn freeze(backend: &Backend, palisade: &Palisade, token: &str) -> Client {
    backend.script(token, [ReadSome(10), Wait(Latch::new())]);
    let mut client = Client::connect(palisade.addr());
    client.send(&put("/k", token).body([b'x'; 100]).head());
    client.send(b"0123456789");
    backend.until_held(token);
    client
}

#[test]
fn equal_tokens_run_side_by_side() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let (mut first, latch) = hold(&backend, &palisade, "/k", "5");
    write(&palisade, "5").assert_status(201);
    palisade.until_metric("palisade_in_flight_writes", 1.0);
    latch.open();
    first.response().assert_status(201);
    palisade.until_quiet();
}

#[test]
fn keys_do_not_wait_for_each_other() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let (mut first, latch) = hold(&backend, &palisade, "/a", "5");
    let mut waiting = put("/a", "6").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    put("/b", "6").send(palisade.addr()).assert_status(201);
    put("/b", "7").send(palisade.addr()).assert_status(201);
    latch.open();
    first.response().assert_status(201);
    waiting.response().assert_status(201);
    assert_eq!(backend.log().effects("/a"), ["5", "6"]);
}

#[test]
fn a_higher_token_waits_for_the_lower_write_and_goes_on() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "/k", "5");
    let mut new = put("/k", "6").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    write(&palisade, "5").assert_refused(412, "stale-token");
    assert_eq!(backend.log().count("6"), 0);
    latch.open();
    assert_eq!(old.response().assert_status(201).outcome(), "applied");
    new.response().assert_status(201);
    assert_eq!(backend.log().effects("/k"), ["5", "6"]);
}

#[test]
fn abort_cuts_the_old_writer_and_leaves_doubt() {
    let backend = Backend::start();
    let config = Config::http(backend.addr()).upstream("max_write_lifetime", "1h");
    let palisade = Palisade::start(&config);
    let (mut old, _latch) = hold(&backend, &palisade, "/k", "5");
    let new = write(&palisade, "6");
    new.assert_refused(503, "in-doubt");
    assert_eq!(new.outcome(), "not-applied");
    let old = old.response();
    old.assert_refused(409, "superseded");
    assert_eq!((old.result(), old.outcome()), ("superseded", "unknown"));
    assert_eq!(old.member("outcome"), "unknown");
    palisade.until_metric("palisade_in_doubt_keys", 1.0);
    palisade.until_metric("palisade_takeovers_total", 1.0);
    palisade.until_quiet();
}

#[test]
fn abort_goes_on_where_the_cut_settled_the_old_write() {
    let backend = Backend::start();
    let config = Config::http(backend.addr())
        .upstream("max_write_lifetime", "1h")
        .upstream("partial_body", "discarded");
    let palisade = Palisade::start(&config);
    let mut old = freeze(&backend, &palisade, "5");
    write(&palisade, "6").assert_status(201);
    let old = old.response();
    old.assert_refused(409, "superseded");
    assert_eq!(old.outcome(), "not-applied");
    assert_eq!(backend.log().effects("/k"), ["6"]);
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
}

/// No patience with lower writes is no impatience with the store that makes a token durable.
#[test]
fn a_drain_timeout_of_nothing_cuts_at_once_and_lets_the_rest_go_on() {
    let backend = Backend::start();
    let config = Config::http(backend.addr())
        .upstream("max_write_lifetime", "1h")
        .set("drain_timeout", "0s");
    let mut palisade = Palisade::start(&config);
    write(&palisade, "4").assert_status(201);
    claim("/k", "5").send(palisade.addr()).assert_status(200);
    palisade.sigterm_and_wait();
    palisade.restart();
    write(&palisade, "5").assert_status(201);
    let (mut old, _latch) = hold(&backend, &palisade, "/k", "6");
    write(&palisade, "7").assert_refused(503, "in-doubt");
    old.response().assert_refused(409, "superseded");
}

#[test]
fn wait_refuses_the_new_writer_and_leaves_the_old_one() {
    let backend = Backend::start();
    let config = Config::http(backend.addr()).set("takeover", "wait");
    let palisade = Palisade::start(&config);
    let (mut old, latch) = hold(&backend, &palisade, "/k", "5");
    let new = write(&palisade, "6");
    new.assert_refused(503, "draining-writes");
    assert!(new.field("retry-after").is_some());
    latch.open();
    assert_eq!(old.response().assert_status(201).outcome(), "applied");
    write(&palisade, "6").assert_status(201);
    assert_eq!(backend.log().effects("/k"), ["5", "6"]);
}

#[test]
fn a_frozen_writer_is_cut_in_both_modes() {
    for mode in ["abort", "wait"] {
        let backend = Backend::start();
        let config = Config::http(backend.addr())
            .upstream("partial_body", "discarded")
            .upstream("max_write_lifetime", "1h")
            .set("takeover", mode);
        let palisade = Palisade::start(&config);
        let mut old = freeze(&backend, &palisade, "5");
        write(&palisade, "6").assert_status(201);
        old.response().assert_refused(409, "superseded");
        assert_eq!(backend.log().effects("/k"), ["6"], "{mode}");
        palisade.until_quiet();
    }
}

#[test]
fn a_slow_writer_that_still_sends_is_not_cut_by_a_waiting_takeover() {
    let backend = Backend::start();
    let config = Config::http(backend.addr()).set("takeover", "wait").set("drain_timeout", "3s");
    let palisade = Palisade::start(&config);
    let mut old = Client::connect(palisade.addr());
    old.send(&put("/k", "5").body([b'x'; 20]).head());
    old.send(b"0123456789");
    backend.log().until("the head of 5", |arrival| arrival.token() == Some("5"));
    let mut new = put("/k", "6").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    old.send(b"01234");
    new.response().assert_refused(503, "draining-writes");
    old.send(b"56789");
    old.response().assert_status(201);
    write(&palisade, "6").assert_status(201);
    assert_eq!(backend.log().effects("/k"), ["5", "6"]);
}

/// R4: a final answer to a part of the request ends the sending. What the store has whole all the
/// same is in doubt, whatever it answered to the part.
#[test]
fn an_early_answer_settles_nothing_that_the_store_has_whole() {
    let backend = Backend::start();
    let config = Config::http(backend.addr())
        .upstream("partial_body", "discarded")
        .upstream("max_write_lifetime", "1h");
    let palisade = Palisade::start(&config);
    let (half, later) = (Latch::new(), Latch::new());
    let early = b"HTTP/1.1 408 Early\r\nContent-Length: 5\r\n\r\n".to_vec();
    let rest = Act::Send(b"hello".to_vec());
    backend.script(
        "5",
        [Act::Send(early), Wait(half.clone()), Read, rest, Wait(later.clone()), Apply],
    );
    let mut client = Client::connect(palisade.addr());
    client.send(&put("/k", "5").body(vec![b'x'; 1000]).head());
    client.send(&[b'x'; 500]);
    backend.until_held("5");
    client.send(&[b'x'; 500]);
    half.open();
    let answer = client.response();
    let six = put("/k", "6").send(palisade.addr());
    later.open();
    let whole = backend.until_settled("5").whole;
    if whole || answer.outcome() == "unknown" {
        assert_eq!(answer.outcome(), "unknown", "{answer:#?}");
        six.assert_refused(503, "in-doubt");
    } else {
        assert_eq!(answer.outcome(), "not-applied", "{answer:#?}");
        six.assert_status(201);
    }
    backend.log().assert_never_down();
}

/// R3: a store that takes nothing is not a client that sends nothing.
#[test]
fn a_slow_store_is_not_a_silent_client() {
    let backend = Backend::start();
    let config = Config::http(backend.addr()).set("takeover", "wait").set("drain_timeout", "500ms");
    let palisade = Palisade::start(&config);
    let latch = Latch::new();
    backend.script("5", [Wait(latch.clone()), Read, Apply, Answer(201)]);
    let to = palisade.addr();
    let eager = std::thread::spawn(move || {
        let mut client = Client::connect(to);
        client.send(&put("/k", "5").body(vec![b'x'; 8 << 20]).bytes());
        client.response()
    });
    backend.until_held("5");
    let stuck = || crate::harness::kernel::queued_bytes(backend.addr()) > 1 << 16;
    crate::harness::wait::until("the store's queue is full", stuck);
    put("/k", "6").send(palisade.addr()).assert_refused(503, "draining-writes");
    latch.open();
    eager.join().unwrap().assert_status(201);
}
