//! The process as a whole, its routes, and its keys page by page.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::Running;
use crate::{
    admin::ProcessState,
    fence::{Holder, Key, Mark, Token, UpstreamId},
    gate::{Gate, RealmOptions},
    metrics::Metrics,
    store::{MemoryStore, TokenStore},
};

const SECRET: &str = "a-secret-of-the-operator";

/// A listener over two upstreams whose records are in memory.
fn with_keys(keys: &[(u32, &[u8], Mark)]) -> (Running, MemoryStore) {
    let running = Running::start();
    let store = MemoryStore::new();
    for (upstream, path, mark) in keys {
        let key = Key::new(UpstreamId(*upstream), path).unwrap();
        store.raise(key, mark.clone(), Box::new(|record| assert!(record.is_ok())));
    }
    let realm = |name: &str, id| RealmOptions {
        name: name.into(),
        id: UpstreamId(id),
        lifetime: Duration::ZERO,
        quarantine: None,
        all_contested: false,
        unfenced: false,
        void_unfenced: false,
    };
    let realms = vec![realm("files", 7), realm("blobs", 3)];
    let gate = Gate::new(1 << 20, realms, Arc::new(store.clone()), Metrics::new(&[]));
    *running.fake.gate.lock() = Some(gate);
    (running, store)
}

fn mark(token: u64) -> Mark {
    Mark { token: Some(Token::new(token)), ..Mark::default() }
}

fn words(page: &Value) -> Vec<&str> {
    page["keys"].as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap()).collect()
}

#[test]
fn the_status_says_how_each_upstream_stands() {
    let running = Running::start();
    let expected = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "state": "ready",
        "uptime_seconds": 61.25,
        "store": {"path": "data/fences"},
        "upstreams": [{
            "name": "files",
            "kind": "http",
            "address": "http://store:9000",
            "quarantine_seconds_left": 12.5,
            "unfenced": true,
            "keys_in_memory": 4,
            "in_flight_writes": 3,
            "waiting_writes": 2,
            "in_doubt_keys": 1,
        }],
    });
    let status = running.ask("GET", "/v1/status", &[]);
    assert_eq!((status.status, status.json()), (200, expected));
    assert_eq!(status.field("cache-control"), Some("no-store"));
    for (state, word) in [
        (ProcessState::Starting, "starting"),
        (ProcessState::Stopping, "stopping"),
        (ProcessState::Poisoned("disk".into()), "poisoned"),
    ] {
        *running.fake.state.lock() = state;
        let status = running.ask("GET", "/v1/status", &[]);
        assert_eq!((status.status, &status.json()["state"]), (200, &json!(word)));
        assert_eq!(status.json()["reason"] == "disk", word == "poisoned");
    }
}

#[test]
fn the_routes_say_what_they_fence() {
    let expected = json!({"routes": [{
        "path": "/{*object}",
        "hosts": [],
        "methods": ["GET", "PUT"],
        "upstream": "files",
        "key": null,
        "fold_case": false,
        "token": "required",
        "enforce": true,
        "takeover": "abort",
        "drain_timeout_seconds": 10.0,
        "worst_wait_seconds": 12.5,
        "worst_wait_bounded": true,
    }]});
    assert_eq!(Running::start().ask("GET", "/v1/routes", &[]).json(), expected);
}

#[test]
fn a_page_shows_records_and_where_to_go_on() {
    let holder = Holder::parse(b"worker-7");
    let pinned = Mark { token: Some(Token { generation: 2, counter: 9 }), contested: true, holder };
    let (running, _) = with_keys(&[
        (7, b"a", mark(u64::MAX)),
        (7, b"b\"\n\xc3\xa9", pinned),
        (7, b"c\xff", mark(1)),
        (3, b"z", Mark { token: None, contested: true, holder: None }),
    ]);
    let record = |key: &str, token: Option<&str>, contested: bool, holder: Option<&str>| json!({"key": key, "token": token, "contested": contested, "holder": holder});
    let all = running.ask("GET", "/v1/keys", &[]);
    let mut lossy = record("files:c\u{fffd}", Some("1"), false, None);
    lossy["key_hex"] = "63ff".into();
    let expected = json!({"next": null, "keys": [
        record("blobs:z", None, true, None),
        record("files:a", Some("18446744073709551615"), false, None),
        record("files:b\"\n\u{e9}", Some("2.9"), true, Some("worker-7")),
        lossy,
    ]});
    assert_eq!((all.status, all.json()), (200, expected));

    let mut after = String::new();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let page = running.ask("GET", &format!("/v1/keys?limit=1{after}"), &[]).json();
        seen.extend(words(&page).into_iter().map(str::to_owned));
        after = page["next"].as_str().map(|next| format!("&after={next}")).unwrap_or_default();
    }
    assert_eq!(seen, words(&all.json()));
    assert_eq!(after, "", "the last page is known to be the last");
    let by_bytes = running.ask("GET", "/v1/keys?prefix=files:c%FF", &[]).json();
    assert_eq!(words(&by_bytes), ["files:c\u{fffd}"]);
    let head = running.ask("HEAD", "/v1/keys", &[]);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.field("content-length"), all.field("content-length"));
}

#[test]
fn pages_reach_over_more_keys_than_one_may_have() {
    let paths: Vec<String> = (0..2500).map(|number| format!("k/{number:04}")).collect();
    let keys: Vec<(u32, &[u8], Mark)> =
        paths.iter().map(|path| (7, path.as_bytes(), mark(1))).collect();
    let (running, _) = with_keys(&keys);
    assert_eq!(words(&running.ask("GET", "/v1/keys", &[]).json()).len(), 100);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = running.ask("GET", &format!("/v1/keys?limit=1000{after}"), &[]).json();
        seen.extend(words(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let expected: Vec<_> = paths.iter().map(|path| format!("files:{path}")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn what_cannot_be_listed_is_refused() {
    let (running, store) = with_keys(&[(7, b"a", mark(1))]);
    for (query, status, code) in [
        ("prefix=other:", 404, "unknown-upstream"),
        ("prefix=file:a", 404, "unknown-upstream"),
        ("limit=0", 400, "bad-request"),
        ("limit=1001", 400, "bad-request"),
        ("perfix=files:", 400, "bad-request"),
        ("after=files:a", 400, "bad-request"),
        ("prefix=%", 400, "bad-request"),
    ] {
        running.ask("GET", &format!("/v1/keys?{query}"), &[]).refuses(status, code);
    }
    assert_eq!(words(&running.ask("GET", "/v1/keys?prefix=file", &[]).json()), ["files:a"]);
    store.fail_reads(true);
    running.ask("GET", "/v1/keys", &[]).refuses(503, "store-unavailable");
    *running.fake.state.lock() = ProcessState::Starting;
    running.ask("GET", "/v1/keys", &[]).refuses(503, "not-ready");
}

#[test]
fn all_of_it_needs_the_token() {
    let running = Running::with_token(Some(SECRET));
    let bearer = format!("Bearer {SECRET}");
    for path in ["/v1/status", "/v1/routes", "/v1/keys"] {
        running.ask("GET", path, &[]).refuses(401, "unauthenticated");
        let known = running.ask("GET", path, &[("Authorization", &bearer)]);
        assert_ne!(known.status, 401, "{path}");
        assert!(!known.body.contains(SECRET));
    }
}
