//! The built-in file store through the proxy: what a newcomer's first `serve` runs.

use std::{fs, os::unix::fs::symlink};

use crate::harness::{Client, Config, Palisade, Request, Response, put, until};

fn get(palisade: &Palisade, target: &str) -> Response {
    Request::new("GET", target).send(palisade.addr())
}

fn delete(palisade: &Palisade, target: &str, token: &str) -> Response {
    Request::new("DELETE", target).token(token).send(palisade.addr())
}

#[test]
fn put_get_head_and_delete() {
    let palisade = Palisade::start(&Config::files());
    let target = "/deep/down/report.txt";
    get(&palisade, target).assert_status(404);
    let made = put(target, "5").body("first").send(palisade.addr());
    assert_eq!((made.assert_status(201).result(), made.outcome()), ("admitted", "applied"));
    assert_eq!(fs::read(palisade.files().join("deep/down/report.txt")).unwrap(), b"first");
    let replaced = put(target, "6").body("second").send(palisade.addr());
    assert!(replaced.is_success());
    let read = get(&palisade, target);
    assert_eq!((read.status(), read.body.as_slice()), (200, &b"second"[..]));
    let etag = read.field("etag").unwrap();
    assert!(etag.starts_with('"'), "a strong one: {etag}");

    let mut client = Request::new("HEAD", target).start(palisade.addr());
    let head = client.response();
    assert_eq!((head.status(), head.field("content-length")), (200, Some("6")));
    assert_eq!(head.field("etag"), Some(etag));

    put(target, "5").send(palisade.addr()).assert_refused(412, "stale-token");
    delete(&palisade, target, "5").assert_refused(412, "stale-token");
    assert_eq!(delete(&palisade, target, "6").assert_status(204).outcome(), "applied");
    get(&palisade, target).assert_status(404);
    delete(&palisade, target, "6").assert_status(404);
    put(target, "5").send(palisade.addr()).assert_refused(412, "stale-token");
    delete(&palisade, "/deep/down", "1").assert_status(409);
}

#[test]
fn ranges() {
    let palisade = Palisade::start(&Config::files());
    put("/k", "5").body("0123456789").send(palisade.addr());
    let cases = [
        ("bytes=0-3", 206, "0123"),
        ("bytes=4-", 206, "456789"),
        ("bytes=-3", 206, "789"),
        ("bytes=8-99", 206, "89"),
        ("bytes=10-", 416, ""),
        ("bytes=3-1", 200, "0123456789"),
        ("lines=1-2", 200, "0123456789"),
    ];
    for (range, status, body) in cases {
        let response = Request::new("GET", "/k").field("Range", range).send(palisade.addr());
        assert_eq!(response.status(), status, "{range}");
        if status != 416 {
            assert_eq!(response.body, body.as_bytes(), "{range}");
        }
        if status == 206 {
            let given = response.field("content-range").unwrap();
            assert!(given.starts_with("bytes ") && given.ends_with("/10"), "{given}");
        }
    }
}

#[test]
fn conditions_are_the_stores_own_and_its_412_is_not_ours() {
    let palisade = Palisade::start(&Config::files());
    let only_new = put("/k", "5").field("If-None-Match", "*");
    assert_eq!(only_new.send(palisade.addr()).status(), 201);
    let again = only_new.send(palisade.addr());
    assert_eq!((again.status(), again.result(), again.outcome()), (412, "admitted", "not-applied"));
    let etag = get(&palisade, "/k").field("etag").unwrap().to_string();
    let over = put("/k", "5").body("new").field("If-Match", &etag);
    assert!(over.send(palisade.addr()).is_success());
    assert_eq!(over.send(palisade.addr()).assert_status(412).result(), "admitted");
    put("/none", "5").field("If-Match", "*").send(palisade.addr()).assert_status(412);
    let now = get(&palisade, "/k").field("etag").unwrap().to_string();
    assert_ne!(now, etag);
    let cached = Request::new("GET", "/k").field("If-None-Match", &now);
    cached.send(palisade.addr()).assert_status(304);
    // Our own refusal comes first.
    put("/k", "4").field("If-Match", &now).send(palisade.addr()).assert_refused(412, "stale-token");
}

#[test]
fn nothing_leaves_the_directory() {
    let palisade = Palisade::start(&Config::files());
    let outside = palisade.files().parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink(&outside, palisade.files().join("link")).unwrap();
    symlink(outside.join("secret"), palisade.files().join("file-link")).unwrap();
    for target in [
        "/../outside/secret",
        "/%2e%2e/outside/secret",
        "/..%2foutside/secret",
        "/link/secret",
        "/link/new",
        "/file-link",
        "//outside/secret",
        "/x/../../outside/secret",
    ] {
        let read = get(&palisade, target);
        assert!((400..500).contains(&read.status()), "GET {target}: {read:#?}");
        let write = put(target, "5").send(palisade.addr());
        let replaced = target == "/file-link" && write.is_success();
        assert!((400..500).contains(&write.status()) || replaced, "PUT {target}: {write:#?}");
    }
    delete(&palisade, "/link/secret", "6");
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn an_upload_appears_whole_or_not_at_all() {
    let palisade = Palisade::start(&Config::files());
    put("/k", "5").body("old").send(palisade.addr()).assert_status(201);
    let mut client = Client::connect(palisade.addr());
    client.send(&put("/k", "5").body([b'x'; 100]).head());
    client.send(b"0123456789");
    palisade.until_metric("palisade_in_flight_writes", 1.0);
    assert_eq!(get(&palisade, "/k").body, b"old");
    drop(client);
    palisade.until_quiet();
    assert_eq!(get(&palisade, "/k").body, b"old");
    // The file store's own lifetime is 0: there is no doubt about it.
    put("/k", "6").body("new").send(palisade.addr());
    assert_eq!(get(&palisade, "/k").body, b"new");
    until("no temporary file is left", || visible(&palisade) == ["k"]);
}

/// Names in the store's directory that a client could mean.
fn visible(palisade: &Palisade) -> Vec<String> {
    let entries = fs::read_dir(palisade.files()).unwrap().map(Result::unwrap);
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

#[test]
fn a_frozen_upload_is_cut_and_the_next_holder_goes_on_at_once() {
    let palisade = Palisade::start(&Config::files().set("drain_timeout", "200ms"));
    let mut frozen = Client::connect(palisade.addr());
    frozen.send(&put("/k", "5").body([b'x'; 100]).head());
    frozen.send(b"0123456789");
    palisade.until_metric("palisade_in_flight_writes", 1.0);
    assert!(put("/k", "6").body("new").send(palisade.addr()).is_success());
    let frozen = frozen.response();
    frozen.assert_refused(409, "superseded");
    assert_eq!(frozen.outcome(), "not-applied");
    assert_eq!(get(&palisade, "/k").body, b"new");
}

#[test]
fn nobody_waits_after_a_kill() {
    let mut palisade = Palisade::start(&Config::files());
    put("/k", "5").body("old").send(palisade.addr()).assert_status(201);
    palisade.kill9();
    palisade.restart();
    assert_eq!(get(&palisade, "/k").body, b"old");
    assert!(put("/k", "6").send(palisade.addr()).is_success());
    put("/k", "5").send(palisade.addr()).assert_refused(412, "stale-token");
}

#[test]
fn a_directory_has_one_process() {
    let palisade = Palisade::start(&Config::files());
    let other = Config::files().store("path", "DIR/other-fences");
    let (code, words) = palisade.refuses_to_start(&other, &["--fresh"]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains(&palisade.pid().to_string()), "names the other process: {words}");
    assert!(words.contains("files"), "names the directory: {words}");
    put("/k", "5").send(palisade.addr()).assert_status(201);
}

#[test]
fn what_was_answered_is_there_after_a_kill_and_what_was_not_is_whole_or_absent() {
    let mut palisade = Palisade::start(&Config::files());
    for round in 1..=5_u64 {
        let body = vec![b'a' + round as u8; 300_000];
        let token = round.to_string();
        assert!(put("/k", &token).body(body.clone()).send(palisade.addr()).is_success());
        let _lost = put("/k", &token).body(vec![b'z'; 300_000]).start(palisade.addr());
        palisade.kill9();
        palisade.restart();
        let found = get(&palisade, "/k").body;
        assert!(found == body || found == vec![b'z'; 300_000], "round {round}: {}", found.len());
    }
}
