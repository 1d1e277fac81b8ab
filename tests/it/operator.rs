//! The operator's hand (R12) in every state of a key: idle, in flight, waiting, in doubt, in a
//! quarantine, unknown; and who may use it.

use crate::harness::{
    Backend, Config, Palisade, Request, Response, client::Request as Raw, doubt, endless, hold,
    put, until, write,
};

const ADVANCE_9: &str = r#"{"token":"9","reason":"a test"}"#;
const REASON: &str = r#"{"reason":"a test"}"#;
const CONFIRMED: &str = r#"{"reason":"a test","i_know_the_store_will_not_apply_it":true}"#;

fn patient(backend: &Backend) -> Config {
    endless(backend.addr()).set("drain_timeout", "60s")
}

fn in_json(response: &Response) -> serde_json::Value {
    serde_json::from_slice(&response.body).unwrap()
}

/// A refusal of the admin listener changed nothing.
fn assert_busy(response: &Response) {
    assert_eq!(response.assert_status(409).member("code"), "busy");
}

#[test]
fn an_idle_key() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&patient(&backend));
    put("/k", "5").field("Fencing-Holder", "worker-7").send(palisade.addr()).assert_status(201);
    let shown = palisade.show("k");
    shown.assert_status(200);
    assert_eq!(shown.member("highest"), "5");
    assert!(in_json(&shown)["highest"].is_string(), "tokens are strings in JSON");
    assert!(String::from_utf8_lossy(&shown.body).contains("worker-7"));

    palisade.change("k", "advance", ADVANCE_9).assert_status(200);
    assert_eq!(palisade.show("k").member("highest"), "9");
    write(&palisade, "8").assert_refused(412, "stale-token");
    let lower = palisade.change("k", "advance", r#"{"token":"7","reason":"a test"}"#);
    assert_eq!(lower.assert_status(412).member("code"), "stale-token");
    palisade.kill9();
    palisade.restart();
    write(&palisade, "8").assert_refused(412, "stale-token");
    write(&palisade, "9").assert_status(201);
}

#[test]
fn an_idle_key_is_reset() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&patient(&backend));
    write(&palisade, "5").assert_status(201);
    palisade.change("k", "release", CONFIRMED).assert_status(200);
    write(&palisade, "4").assert_refused(412, "stale-token");
    palisade.change("k", "reset", REASON).assert_status(200);
    assert_eq!(palisade.show("k").member("highest"), "");
    write(&palisade, "1").assert_status(201);
    palisade.change("k", "reset", REASON).assert_status(200);
    palisade.kill9();
    palisade.restart();
    // Its record is contested: it is no free key.
    write(&palisade, "1").assert_refused(503, "in-doubt");
}

#[test]
fn a_key_with_a_write_in_flight_and_one_that_waits() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "/k", "5");
    let shown = in_json(&palisade.show("k"));
    assert_eq!(shown["in_flight"][0]["token"], "5", "{shown}");
    let advanced = palisade.change("k", "advance", ADVANCE_9);
    assert_eq!(advanced.assert_status(200).member("lower_open"), "1", "{advanced:#?}");
    assert_busy(&palisade.change("k", "reset", REASON));
    palisade.change("k", "release", CONFIRMED).assert_status(200);
    // A release ends doubts, not writes: the next one waits on.
    let mut waiter = put("/k", "9").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    assert_eq!(palisade.show("k").member("waiting"), "1");
    assert_busy(&palisade.change("k", "reset", REASON));
    palisade.change("k", "release", CONFIRMED).assert_status(200);
    palisade.until_metric("palisade_waiting_writes", 1.0);
    // An advance beyond the one that waits makes it stale.
    palisade.change("k", "advance", r#"{"token":"10","reason":"a test"}"#).assert_status(200);
    waiter.response().assert_refused(412, "stale-token");
    latch.open();
    old.response().assert_status(201);
    write(&palisade, "10").assert_status(201);
    assert_eq!(backend.log().effects("/k"), ["5", "10"]);
}

#[test]
fn a_key_in_doubt() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    doubt(&backend, &palisade);
    let shown = in_json(&palisade.show("k"));
    assert_eq!(shown["in_doubt"][0]["token"], "5", "{shown}");
    assert!(shown["in_doubt"][0]["seconds_left"].as_f64() > Some(3000.0), "{shown}");
    write(&palisade, "6").assert_refused(503, "in-doubt");
    let advanced = palisade.change("k", "advance", ADVANCE_9);
    assert_eq!(advanced.assert_status(200).member("lower_open"), "1");
    write(&palisade, "9").assert_refused(503, "in-doubt");
    assert_busy(&palisade.change("k", "reset", REASON));
    let released = palisade.change("k", "release", CONFIRMED);
    assert_eq!(released.assert_status(200).member("doubts_ended"), "1");
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
    write(&palisade, "9").assert_status(201);
}

#[test]
fn a_release_wakes_those_who_wait() {
    let backend = Backend::start();
    let config = patient(&backend).upstream("max_write_lifetime", "30s");
    let palisade = Palisade::start(&config);
    doubt(&backend, &palisade);
    // The end of the doubt is known to lie within the drain time-out: this one waits for it.
    let mut waiter = put("/k", "6").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    palisade.change("k", "release", CONFIRMED).assert_status(200);
    waiter.response().assert_status(201);
}

#[test]
fn a_key_in_a_quarantine() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&patient(&backend));
    write(&palisade, "5").assert_status(201);
    palisade.kill9();
    palisade.restart();
    write(&palisade, "6").assert_refused(503, "in-doubt");
    let shown = in_json(&palisade.show("k"));
    assert!(shown["quarantine_seconds_left"].as_f64() > Some(3000.0), "{shown}");
    assert_eq!(shown["durable"]["contested"], true, "{shown}");
    assert_busy(&palisade.change("k", "reset", REASON));
    palisade.change("k", "advance", ADVANCE_9).assert_status(200);
    write(&palisade, "9").assert_refused(503, "in-doubt");
    palisade.change("k", "release", CONFIRMED).assert_status(200);
    write(&palisade, "9").assert_status(201);
    // Of one key, and durably.
    put("/other", "1").send(palisade.addr()).assert_status(201);
    palisade.kill9();
    palisade.restart();
    write(&palisade, "9").assert_status(201);
    write(&palisade, "10").assert_refused(503, "in-doubt");
}

#[test]
fn an_unknown_key() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let shown = palisade.show("never-seen");
    assert_eq!(shown.assert_status(404).member("code"), "unknown-key");
    palisade.change("made", "advance", ADVANCE_9).assert_status(200);
    put("/made", "8").send(palisade.addr()).assert_refused(412, "stale-token");
    put("/made", "9").send(palisade.addr()).assert_status(201);
    for (change, document) in [("release", CONFIRMED), ("reset", REASON)] {
        let status = palisade.change("never-seen", change, document).status();
        assert_eq!(status, 404, "{change}: a mistyped key must not get a record");
    }
    put("/never-seen", "1").send(palisade.addr()).assert_status(201);
    let request = Request::new("GET", "/v1/keys/nowhere:k").host(&palisade.admin().to_string());
    request.send(palisade.admin()).assert_status(404);
}

#[test]
fn a_change_needs_a_reason_and_an_operators_hand() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    write(&palisade, "5").assert_status(201);
    let admin = palisade.admin().to_string();
    let advance = || Raw::new("POST", "/v1/keys/store:k/advance").body(ADVANCE_9);
    let json = |request: Request| request.field("Content-Type", "application/json");
    let refused = [
        ("no content type", advance().host(&admin)),
        ("a form", advance().host(&admin).field("Content-Type", "text/plain")),
        ("another host", json(advance()).host("evil.example")),
        ("another origin", json(advance()).host(&admin).field("Origin", "http://evil.example")),
        ("no origin to speak of", json(advance()).host(&admin).field("Origin", "null")),
        ("a read", json(Raw::new("GET", "/v1/keys/store:k/advance").host(&admin))),
    ];
    for (what, request) in refused {
        let status = request.send(palisade.admin()).status();
        assert!((400..500).contains(&status), "{what}: {status}");
    }
    let bad = [
        r#"{"token":"9"}"#,
        r#"{"token":"9","reason":""}"#,
        r#"{"token":9,"reason":"a number"}"#,
        r#"{"token":"09","reason":"a test"}"#,
        r#"{"reason":"no token"}"#,
        r#"{"token":"9","reason":"a test""#,
        "[]",
    ];
    for document in bad {
        let status = palisade.change("k", "advance", document).status();
        assert!([400, 422].contains(&status), "{document}: {status}");
    }
    let unconfirmed = palisade.change("k", "release", REASON);
    assert_eq!(unconfirmed.assert_status(400).member("code"), "confirmation-missing");
    assert_eq!(palisade.show("k").member("highest"), "5");
    let from_itself = json(advance()).host(&admin).field("Origin", &format!("http://{admin}"));
    from_itself.send(palisade.admin()).assert_status(200);
    palisade.change("k", "release", &CONFIRMED.replace("a test", "ledger 17")).assert_status(200);
    until("who, what and why are logged", || palisade.stderr().contains("ledger 17"));
}

#[test]
fn tokens_beyond_what_a_double_holds_are_exact() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    write(&palisade, "9007199254740993").assert_status(201);
    assert_eq!(palisade.show("k").member("highest"), "9007199254740993");
    write(&palisade, "9007199254740992").assert_refused(412, "stale-token");
    let most = u64::MAX.to_string();
    let document = format!(r#"{{"token":"{most}","reason":"a test"}}"#);
    palisade.change("k", "advance", &document).assert_status(200);
    assert_eq!(palisade.show("k").member("highest"), most);
}

#[test]
fn health_and_metrics() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    write(&palisade, "5").assert_status(201);
    for path in ["/livez", "/readyz", "/metrics", "/v1/status", "/v1/routes"] {
        let request = Request::new("GET", path).host(&palisade.admin().to_string());
        let response = request.send(palisade.admin());
        let later = path == "/v1/routes" || path == "/v1/status";
        assert!(response.status() == 200 || later && response.status() == 404, "{path}");
    }
    let metrics = Request::new("GET", "/metrics").send(palisade.admin());
    let text = String::from_utf8(metrics.body).unwrap();
    let series = [
        "requests_total",
        "stale_writes_total",
        "takeovers_total",
        "raises_total",
        "raise_seconds",
        "drain_seconds",
        "hold_seconds",
        "in_flight_writes",
        "waiting_writes",
        "in_doubt_keys",
        "quarantine_seconds",
        "upstream_seconds",
        "request_seconds",
        "store_sync_seconds",
        "keys",
    ];
    for name in series {
        assert!(text.contains(&format!("# TYPE palisade_{name}")), "{name} is missing:\n{text}");
    }
    assert!(!text.contains("store:k") && !text.contains("\"5\""), "no key and no token in a label");
    assert!(palisade.metric("palisade_raises_total") >= 1.0);
}
