//! One key, several writers: who goes side by side, who waits, who is cut, who is refused.

use crate::harness::{
    Act, Backend, Client, Config, Latch, Palisade, Request, Response, claim, put, send,
};

use Act::{Answer, Apply, Read, ReadSome, Reset, Wait};

fn patient(backend: &Backend) -> Config {
    Config::http(backend.addr()).set("drain_timeout", "60s")
}

/// A write of this token that stands at the store until the latch opens.
fn hold(backend: &Backend, palisade: &Palisade, target: &str, token: &str) -> (Client, Latch) {
    let latch = Latch::new();
    backend.script(token, [Read, Wait(latch.clone()), Apply, Answer(201)]);
    let client = put(target, token).start(palisade.addr());
    backend.until_held(token);
    (client, latch)
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

fn write(palisade: &Palisade, token: &str) -> Response {
    put("/k", token).send(palisade.addr())
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
    let config =
        Config::http(backend.addr()).set("takeover", "wait").set("drain_timeout", "1500ms");
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

#[test]
fn after_a_fault_every_waiter_gets_an_answer() {
    for (lifetime, drain) in [("1h", "60s"), ("300ms", "60s"), ("300ms", "100ms")] {
        let backend = Backend::start();
        let config = Config::http(backend.addr())
            .upstream("max_write_lifetime", lifetime)
            .set("drain_timeout", drain);
        let palisade = Palisade::start(&config);
        let latch = Latch::new();
        backend.script("5", [Read, Wait(latch.clone()), Reset]);
        let mut old = put("/k", "5").start(palisade.addr());
        backend.until_held("5");
        let mut waiters: Vec<_> = (0..8).map(|_| put("/k", "6").start(palisade.addr())).collect();
        waiters.extend((7..11).map(|token| put("/k", &token.to_string()).start(palisade.addr())));
        let early = drain == "100ms";
        if !early {
            // Those of a lower token are refused as soon as a higher one is offered.
            waiters.drain(..8).for_each(|mut waiter| {
                let status = waiter.response().status();
                assert!([412, 503].contains(&status), "{status}");
            });
            palisade.until_metric("palisade_waiting_writes", 1.0);
        }
        latch.open();
        let status = old.response().status();
        assert!([502, 409].contains(&status), "{status}");
        let statuses: Vec<_> = waiters.iter_mut().map(|w| w.response().status()).collect();
        assert!(statuses.iter().all(|s| [201, 412, 503].contains(s)), "{statuses:?}");
        palisade.until_quiet();
    }
}

#[test]
fn waiters_of_one_token_all_go_on() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "/k", "5");
    let mut waiters: Vec<_> = (0..20).map(|_| put("/k", "6").start(palisade.addr())).collect();
    palisade.until_metric("palisade_waiting_writes", 20.0);
    latch.open();
    old.response().assert_status(201);
    for waiter in &mut waiters {
        waiter.response().assert_status(201);
    }
    backend.log().assert_never_down();
    palisade.until_quiet();
}

#[test]
fn waiters_are_bounded() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend).set("max_waiters", 2));
    let (mut old, latch) = hold(&backend, &palisade, "/k", "5");
    let mut waiters = [put("/k", "6"), put("/k", "6")].map(|put| put.start(palisade.addr()));
    palisade.until_metric("palisade_waiting_writes", 2.0);
    let beyond = write(&palisade, "6");
    beyond.assert_refused(503, "overloaded");
    assert!(beyond.field("retry-after").is_some());
    put("/other", "6").send(palisade.addr()).assert_status(201);
    latch.open();
    old.response().assert_status(201);
    for waiter in &mut waiters {
        waiter.response().assert_status(201);
    }
}

#[test]
fn a_waiter_that_hangs_up_leaves_no_trace() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "/k", "5");
    let waiter = put("/k", "6").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    drop(waiter);
    palisade.until_metric("palisade_waiting_writes", 0.0);
    latch.open();
    old.response().assert_status(201);
    palisade.until_quiet();
    write(&palisade, "5").assert_refused(412, "stale-token");
    write(&palisade, "7").assert_status(201);
    assert_eq!(backend.log().count("6"), 0, "its write never reaches the store");
}

/// A client that has ended its side cannot be told from one that left: while it waits, it is given
/// up. Once forwarded, it gets its answer (`forward`).
#[test]
fn a_waiter_that_ends_its_side_is_given_up() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "/k", "5");
    let mut waiter = put("/k", "6").start(palisade.addr());
    waiter.half_close();
    let given_up = waiter.response();
    given_up.assert_refused(400, "bad-request");
    assert_eq!(given_up.outcome(), "not-applied");
    palisade.until_metric("palisade_waiting_writes", 0.0);
    latch.open();
    old.response().assert_status(201);
    write(&palisade, "7").assert_status(201);
    assert_eq!(backend.log().effects("/k"), ["5", "7"]);
}

#[test]
fn a_client_that_hangs_up_once_forwarded_decides_nothing() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let (old, latch) = hold(&backend, &palisade, "/k", "5");
    drop(old);
    let mut new = put("/k", "6").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    palisade.until_metric("palisade_in_flight_writes", 1.0);
    latch.open();
    new.response().assert_status(201);
    assert_eq!(backend.log().effects("/k"), ["5", "6"]);
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
}

#[test]
fn a_claim_before_a_takeover_shuts_the_old_holder_out() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    write(&palisade, "5").assert_status(201);
    let claimed = claim("/k", "6").send(palisade.addr());
    assert_eq!(claimed.assert_status(200).result(), "claimed");
    assert_eq!(claimed.field("cache-control"), Some("no-store"));
    assert_eq!(claimed.field("fencing-highest"), Some("6"));
    assert_eq!(claimed.body, b"hello");
    let stale = write(&palisade, "5");
    stale.assert_refused(412, "stale-token");
    assert_eq!((stale.member("token"), stale.member("highest")), ("5".into(), "6".into()));
    assert_eq!(stale.member("key"), "store:k");
    write(&palisade, "6").assert_status(201);
}

#[test]
fn a_claim_within_a_takeover_waits_for_the_old_write() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "/k", "5");
    let mut claimed = claim("/k", "6").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    let reads = |a: &crate::harness::log::Arrival| !a.is_write();
    assert!(!backend.log().arrivals().iter().any(reads), "it reads after the drain");
    latch.open();
    old.response().assert_status(201);
    assert_eq!(claimed.response().assert_status(200).result(), "claimed");
    assert_eq!(backend.log().effects("/k"), ["5"]);
}

#[test]
fn a_claim_after_a_takeover_is_stale_or_an_equal() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    write(&palisade, "6").assert_status(201);
    claim("/k", "5").send(palisade.addr()).assert_refused(412, "stale-token");
    backend.script("GET", [send("HTTP/1.1 404 Not Found\nContent-Length: 0\n\n")]);
    let claimed = claim("/k", "6").send(palisade.addr());
    assert_eq!(claimed.assert_status(404).result(), "claimed");
}

#[test]
fn a_delete_forgets_nothing() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&patient(&backend));
    write(&palisade, "6").assert_status(201);
    let delete = Request::new("DELETE", "/k").token("6").send(palisade.addr());
    assert_eq!(delete.assert_status(204).outcome(), "applied");
    write(&palisade, "5").assert_refused(412, "stale-token");
    palisade.sigterm_and_wait();
    palisade.restart();
    write(&palisade, "5").assert_refused(412, "stale-token");
    Request::new("DELETE", "/k").token("5").send(palisade.addr()).assert_status(412);
}

#[test]
fn two_generations() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&patient(&backend).set("generations", true));
    for (token, status) in
        [("900", 201), ("1.1", 201), ("901", 412), ("0.902", 412), ("1.2", 201), ("3.1", 422)]
    {
        assert_eq!(write(&palisade, token).status(), status, "{token}");
    }
    palisade.kill9();
    palisade.restart();
    assert_eq!(write(&palisade, "1.1").assert_status(412).field("fencing-highest"), Some("1.2"));
    write(&palisade, "1.2").assert_status(201);
    backend.log().assert_never_down();

    let plain = Palisade::start(&patient(&backend));
    write(&plain, "1.2").assert_refused(400, "token-malformed");
}

#[test]
fn a_token_is_pinned_to_its_holder() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&patient(&backend));
    let by = |holder: &str| put("/k", "5").field("Fencing-Holder", holder);
    write(&palisade, "5").assert_status(201);
    by("a").send(palisade.addr()).assert_status(201);
    by("b").send(palisade.addr()).assert_refused(409, "holder-conflict");
    write(&palisade, "5").assert_status(201);
    palisade.kill9();
    palisade.restart();
    by("b").send(palisade.addr()).assert_refused(409, "holder-conflict");
    by("a").send(palisade.addr()).assert_status(201);
}

#[test]
fn implausible_tokens_raise_nothing() {
    let backend = Backend::start();
    let config = patient(&backend).set("max_jump", 10).set("max_token", 1000);
    let palisade = Palisade::start(&config);
    write(&palisade, "1001").assert_refused(422, "token-implausible");
    write(&palisade, "900").assert_status(201);
    write(&palisade, "911").assert_refused(422, "token-implausible");
    write(&palisade, "910").assert_status(201);
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
