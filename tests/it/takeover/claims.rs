//! Who holds the key: claims, and what a token may be.

use super::*;

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
