//! Advance, release, reset: what is carried out, what is not, and what is written down.

use std::{
    io::{self, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{runtime::Runtime, time::timeout};

use super::{Fake, Running};
use crate::{
    admin::{Admin, Ends, Options, ProcessState},
    fence::Token,
    gate::OperatorError,
    metrics::Metrics,
    store::StoreError,
};

const CONFIRMED: &str = r#"{"reason":"gone","i_know_the_store_will_not_apply_it":true}"#;

#[test]
fn each_change_is_carried_out_on_the_key_that_is_named() {
    let running = Running::start();
    let key = "/v1/keys/files:busy/key";
    for (path, body, answer, done) in [
        (
            format!("{key}/advance"),
            r#"{"token":"43","reason":"restored"}"#,
            json!({"key": "files:busy/key", "highest": "43", "lower_open": 2}),
            "advance 7:busy/key 43 force=false",
        ),
        (
            "/v1/keys/files:new%2Fkey/advance".into(),
            r#"{"token":"2.18446744073709551615","reason":"restored","force":true}"#,
            json!({"key": "files:new/key", "highest": "2.18446744073709551615", "lower_open": 2}),
            "advance 7:new/key 2.18446744073709551615 force=true",
        ),
        (
            format!("{key}/release"),
            CONFIRMED,
            json!({"key": "files:busy/key", "doubts_ended": 1, "quarantine_ended": true}),
            "release 7:busy/key",
        ),
        (
            "/v1/keys/files:reset/reset".into(),
            r#"{"reason":"a typing error"}"#,
            json!({"key": "files:reset", "reset": true}),
            "reset 7:reset",
        ),
    ] {
        let reply = running.post(&path, body);
        assert_eq!((reply.status, reply.json()), (200, answer), "{path}");
        assert_eq!(running.fake.done(), [done], "{path}");
        running.fake.done.lock().clear();
    }
}

#[test]
fn a_document_that_is_not_right_changes_nothing() {
    let running = Running::start();
    let long = format!(r#"{{"reason":"{}"}}"#, "x".repeat(1025));
    for (action, body, code) in [
        ("advance", "", "bad-request"),
        ("advance", "[]", "bad-request"),
        ("advance", "{", "bad-request"),
        ("advance", "\u{0}\u{7f}", "bad-request"),
        ("advance", r#"{"token":"43"}"#, "bad-request"),
        ("advance", r#"{"reason":"x"}"#, "bad-request"),
        ("advance", r#"{"token":43,"reason":"x"}"#, "bad-request"),
        ("advance", r#"{"token":"43","reason":""}"#, "bad-request"),
        ("advance", r#"{"token":"43","reason":" \t\n"}"#, "bad-request"),
        ("advance", r#"{"token":"43","reason":"x","forced":true}"#, "bad-request"),
        ("advance", r#"{"token":"43","token":"44","reason":"x"}"#, "bad-request"),
        ("advance", r#"{"token":"43","reason":"x","force":"true"}"#, "bad-request"),
        ("advance", r#"{"token":"43","reason":"x"} {}"#, "bad-request"),
        ("advance", r#"["43","x"]"#, "bad-request"),
        ("advance", r#"{"token":"+43","reason":"x"}"#, "token-malformed"),
        ("advance", r#"{"token":"18446744073709551616","reason":"x"}"#, "token-malformed"),
        ("release", r#"{"reason":"x"}"#, "confirmation-missing"),
        (
            "release",
            r#"{"reason":"x","i_know_the_store_will_not_apply_it":false}"#,
            "confirmation-missing",
        ),
        ("release", r#"{"i_know_the_store_will_not_apply_it":true}"#, "bad-request"),
        ("reset", "{}", "bad-request"),
        ("reset", &long, "bad-request"),
    ] {
        let document = running.post(&format!("/v1/keys/files:busy/key/{action}"), body);
        document.refuses(400, code);
    }
    let number = running.post("/v1/keys/files:busy/key/advance", r#"{"token":43,"reason":"x"}"#);
    assert!(number.body.contains("tokens are strings"), "{number:?}");
    assert_eq!(running.fake.done(), [""; 0]);
}

#[test]
fn a_key_that_nothing_is_known_of_is_not_made_by_mistake() {
    let running = Running::start();
    running.post("/v1/keys/files:typo/release", CONFIRMED).refuses(404, "unknown-key");
    running.post("/v1/keys/files:typo/reset", r#"{"reason":"x"}"#).refuses(404, "unknown-key");
    running
        .post("/v1/keys/typo:busy/key/reset", r#"{"reason":"x"}"#)
        .refuses(404, "unknown-upstream");
    assert_eq!(running.fake.done(), [""; 0]);
}

#[test]
fn what_the_gate_refuses_is_said_in_words() {
    let running = Running::start();
    let store = |error: StoreError| OperatorError::Store(error);
    for (error, status, code) in [
        (OperatorError::Lower(Token::new(50)), 412, "stale-token"),
        (OperatorError::Implausible, 422, "token-implausible"),
        (OperatorError::Generation, 400, "bad-request"),
        (OperatorError::Busy, 409, "busy"),
        (store(StoreError::Poisoned("no".into())), 503, "store-unavailable"),
        (store(StoreError::Corrupt("no".into())), 503, "store-unavailable"),
    ] {
        *running.fake.error.lock() = Some(error);
        let reply = running.post("/v1/keys/files:a/advance", r#"{"token":"43","reason":"x"}"#);
        let document = reply.refuses(status, code);
        assert_eq!(document["key"], "files:a");
        assert_eq!(document["highest"] == "50", code == "stale-token");
    }
}

#[test]
fn a_process_that_comes_or_goes_changes_nothing() {
    let running = Running::start();
    for (state, code) in
        [(ProcessState::Starting, "not-ready"), (ProcessState::Stopping, "shutting-down")]
    {
        *running.fake.state.lock() = state;
        running.post("/v1/keys/files:reset/reset", r#"{"reason":"x"}"#).refuses(503, code);
    }
    assert_eq!(running.fake.done(), [""; 0]);
}

#[test]
fn a_fault_in_a_change_is_an_answer() {
    let running = Running::start();
    let reply = running.post("/v1/keys/files:panics/advance", r#"{"token":"1","reason":"x"}"#);
    reply.refuses(500, "internal-error");
    assert_eq!(running.ask("GET", "/livez", &[]).status, 200);
}

#[test]
fn a_change_goes_on_when_the_operator_hangs_up() {
    let running = Running::start();
    running.fake.go.forget_permits(1000);
    let body = r#"{"token":"43","reason":"x"}"#;
    let mut stream = TcpStream::connect(running.at).unwrap();
    write!(
        stream,
        "POST /v1/keys/files:a/advance HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        running.at,
        body.len()
    )
    .unwrap();
    let runtime = runtime();
    runtime.block_on(running.fake.begun.acquire()).unwrap().forget();
    drop(stream);
    // The listener has one thread: it has seen the end of the connection before it answers this.
    assert_eq!(running.ask("GET", "/livez", &[]).status, 200);
    assert_eq!(running.fake.done(), [""; 0]);
    running.fake.go.add_permits(1);
    let ended = runtime.block_on(async {
        timeout(Duration::from_mins(1), running.fake.ended.acquire()).await.map(drop)
    });
    assert!(ended.is_ok(), "the change was given up");
    assert_eq!(running.fake.done(), ["advance 7:a 43 force=false"]);
}

#[test]
fn each_change_is_written_down_with_who_what_and_why() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let fake = Arc::new(Fake::default());
    let local: SocketAddr = "127.0.0.1:9180".parse().unwrap();
    let ends = Ends { peer: "127.0.0.1:40000".parse().unwrap(), local };
    let options = Options { listen: local, token: None };
    let control = Arc::<Fake>::clone(&fake);
    let admin = Admin::new(options, control, Metrics::new(&[]));
    let runtime = runtime();
    let change = |reason: &str| {
        let body = json!({"token": "43", "reason": reason}).to_string();
        let request = Request::post("/v1/keys/files:a%0Ab/advance")
            .header("Host", "127.0.0.1:9180")
            .header("Content-Type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        runtime.block_on(Arc::clone(&admin).handle(ends, request)).status().as_u16()
    };
    let both = || {
        *fake.error.lock() = None;
        assert_eq!(change(" line one\nline two "), 200);
        *fake.error.lock() = Some(OperatorError::Lower(Token::new(50)));
        assert_eq!(change("again"), 412);
    };
    // Another test's thread, which has no subscriber, may have been the first to come by.
    both();
    tracing::callsite::rebuild_interest_cache();
    lines.0.lock().clear();
    both();
    let text = String::from_utf8(lines.0.lock().clone()).unwrap();
    let audit: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(audit.len(), 2, "{text}");
    for (line, reason, result) in
        [(&audit[0], "line one\nline two", "lower_open"), (&audit[1], "again", "stale-token")]
    {
        assert_eq!((&line["target"], &line["level"]), (&json!("audit"), &json!("INFO")));
        assert_eq!(line["peer"], "127.0.0.1:40000");
        assert_eq!(line["key"], "files:a\nb");
        assert_eq!(line["reason"], reason);
        assert_eq!(line["order"], "advance to 43", "{line}");
        assert!(line["result"].as_str().unwrap().contains(result), "{line}");
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// Collects log lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
