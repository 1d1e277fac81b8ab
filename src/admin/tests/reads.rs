//! Health, metrics, and a key shown.

use std::time::Duration;

use serde_json::json;

use super::Running;
use crate::{
    admin::ProcessState,
    metrics::{MethodClass, ResultLabel},
    store::StoreError,
};

#[test]
fn alive_and_ready_are_two_things() {
    let running = Running::start();
    let poisoned = ProcessState::Poisoned("fsync failed".into());
    for (state, live, ready, word) in [
        (ProcessState::Starting, 200, 503, "starting"),
        (ProcessState::Ready, 200, 200, "ready"),
        (ProcessState::Stopping, 200, 503, "stopping"),
        (poisoned, 503, 503, "poisoned"),
    ] {
        *running.fake.state.lock() = state;
        let (livez, readyz) =
            (running.ask("GET", "/livez", &[]), running.ask("GET", "/readyz", &[]));
        assert_eq!((livez.status, readyz.status), (live, ready), "{word}");
        assert_eq!(readyz.json()["state"], word);
        assert_eq!(livez.body.contains("fsync failed"), word == "poisoned");
        assert_eq!(readyz.json()["reason"] == "fsync failed", word == "poisoned");
    }
}

#[test]
fn a_quarantine_is_ready_and_says_how_long() {
    let running = Running::start();
    *running.fake.quarantines.lock() = vec![
        ("files".into(), Duration::from_millis(12_500)),
        ("s3".into(), Duration::from_mins(1)),
    ];
    let readyz = running.ask("GET", "/readyz", &[]);
    assert_eq!(readyz.status, 200);
    assert_eq!(
        readyz.json(),
        json!({"state": "ready", "quarantines": [
            {"upstream": "files", "seconds_left": 12.5},
            {"upstream": "s3", "seconds_left": 60.0},
        ]})
    );
    let longest = "\npalisade_quarantine_seconds 60.000000000\n";
    assert!(running.ask("GET", "/metrics", &[]).body.contains(longest));
    running.fake.quarantines.lock().clear();
    let none = "\npalisade_quarantine_seconds 0.000000000\n";
    assert!(running.ask("GET", "/metrics", &[]).body.contains(none));
}

#[test]
fn metrics_come_in_the_format_that_is_asked_for() {
    let running = Running::start();
    running.metrics.request(Some(0), ResultLabel::Admitted, Duration::from_millis(2));
    running.metrics.upstream(MethodClass::Write, Duration::from_millis(1));
    let old = running.ask("GET", "/metrics", &[]);
    assert_eq!(old.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let line = "palisade_requests_total{route=\"/{*object}\",result=\"admitted\"} 1\n";
    assert!(old.body.contains(line) && !old.body.contains("# EOF"));
    let accept = [("Accept", "text/plain;q=0.2"), ("Accept", "application/openmetrics-text;q=0.5")];
    let new = running.ask("GET", "/metrics", &accept);
    assert_eq!(
        new.field("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(new.body.contains(line) && new.body.ends_with("# EOF\n"));
}

#[test]
fn a_key_is_shown_with_tokens_as_strings() {
    let running = Running::start();
    for path in ["files:busy/key", "files:busy%2Fkey", "files%3Abusy%2fkey"] {
        let shown = running.ask("GET", &format!("/v1/keys/{path}"), &[]);
        assert_eq!(shown.status, 200, "{path}");
        assert_eq!(shown.field("content-type"), Some("application/json"));
        assert_eq!(shown.field("cache-control"), Some("no-store"));
        assert_eq!(
            shown.json(),
            json!({
                "key": "files:busy/key",
                "highest": "2.43",
                "durable": {
                    "token": "18446744073709551615", "contested": true, "holder": "worker-7",
                },
                "in_flight": [{"token": "42", "count": 2}, {"token": null, "count": 1}],
                "in_doubt": [{"token": null, "seconds_left": 12.345}],
                "waiting": 3,
                "quarantine_seconds_left": 60.0,
            })
        );
    }
    let reset = running.ask("GET", "/v1/keys/files:reset", &[]);
    assert_eq!(reset.json()["durable"], json!({"token": null, "contested": true, "holder": null}));
    assert_eq!(running.ask("GET", "/v1/keys/files:waits", &[]).json()["waiting"], 1);
}

#[test]
fn what_is_not_there_is_not_found() {
    let running = Running::start();
    let long = format!("/v1/keys/files:{}", "x".repeat(1025));
    for (path, status, code) in [
        ("/v1/keys/files:nothing", 404, "unknown-key"),
        ("/v1/keys/files:busy%252Fkey", 404, "unknown-key"),
        ("/v1/keys/files:busy/key/reset", 404, "unknown-key"),
        ("/v1/keys/files:", 404, "unknown-key"),
        ("/v1/keys/other:busy/key", 404, "unknown-upstream"),
        ("/v1/keys/:busy/key", 404, "unknown-upstream"),
        ("/v1/keys/%ff:busy/key", 404, "unknown-upstream"),
        ("/v1/keys/files", 400, "bad-request"),
        ("/v1/keys/", 400, "bad-request"),
        ("/v1/keys/files:a%2", 400, "bad-request"),
        ("/v1/keys/files:a?b", 400, "bad-request"),
        (&long, 400, "bad-request"),
        ("/v2/keys/files:a", 404, "not-found"),
        ("/", 404, "not-found"),
    ] {
        running.ask("GET", path, &[]).refuses(status, code);
    }
    let document = running.ask("GET", "/v1/keys/files:a%22%0Ab", &[]).refuses(404, "unknown-key");
    assert_eq!(document["key"], "files:a\"\nb");
}

#[test]
fn a_head_is_a_get_without_its_body() {
    let running = Running::start();
    for path in
        ["/livez", "/readyz", "/metrics", "/v1/status", "/v1/routes", "/v1/keys/files:busy/key"]
    {
        let (head, get) = (running.ask("HEAD", path, &[]), running.ask("GET", path, &[]));
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
        assert_eq!(head.field("content-length"), get.field("content-length"), "{path}");
    }
}

#[test]
fn other_methods_are_told_what_is_allowed() {
    let running = Running::start();
    for (method, path, allow) in [
        ("POST", "/livez", "GET, HEAD"),
        ("PUT", "/metrics", "GET, HEAD"),
        ("POST", "/v1/status", "GET, HEAD"),
        ("PUT", "/v1/routes", "GET, HEAD"),
        ("DELETE", "/v1/keys", "GET, HEAD"),
        ("DELETE", "/v1/keys/files:a", "GET, HEAD"),
        ("POST", "/v1/keys/files:a", "GET, HEAD"),
        ("PUT", "/v1/keys/files:a/reset", "GET, HEAD, POST"),
        ("OPTIONS", "/v1/keys/files:a/reset", "GET, HEAD, POST"),
    ] {
        let reply = running.ask(method, path, &[]);
        reply.refuses(405, "method-not-allowed");
        assert_eq!(reply.field("allow"), Some(allow), "{method} {path}");
    }
}

#[test]
fn a_store_that_cannot_be_asked_is_said_to_be_one() {
    let running = Running::start();
    *running.fake.error.lock() = Some(StoreError::Unavailable("no".into()).into());
    running.ask("GET", "/v1/keys/files:busy/key", &[]).refuses(503, "store-unavailable");
    *running.fake.state.lock() = ProcessState::Starting;
    running.ask("GET", "/v1/keys/files:busy/key", &[]).refuses(503, "not-ready");
}
