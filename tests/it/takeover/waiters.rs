//! Those who wait: bounded, woken, given up.

use super::*;

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
