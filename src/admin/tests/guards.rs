//! Who may ask, and what a browser must not be able to do.

use super::Running;

const RESET: &str = "/v1/keys/files:reset/reset";
const BODY: &str = r#"{"reason":"x"}"#;
const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn a_change_comes_from_here_and_is_json() {
    let running = Running::start();
    let port = running.at.port();
    let own = format!("http://127.0.0.1:{port}");
    let local = format!("localhost:{port}");
    let local_origin = format!("http://localhost:{port}");
    let ipv6 = format!("[::1]:{port}");
    let rebound = format!("evil.example:{port}");
    let https = format!("https://127.0.0.1:{port}");
    for (fields, status) in [
        (&[JSON][..], 200),
        (&[("Content-Type", "Application/JSON; charset=utf-8")], 200),
        (&[JSON, ("Host", &local)], 200),
        (&[JSON, ("Host", &ipv6)], 200),
        (&[JSON, ("Origin", &own)], 200),
        (&[JSON, ("Host", &local), ("Origin", &local_origin)], 200),
        (&[JSON, ("Sec-Fetch-Site", "same-origin")], 200),
        (&[JSON, ("Sec-Fetch-Site", "none")], 200),
        (&[], 415),
        (&[("Content-Type", "text/plain")], 415),
        (&[("Content-Type", "application/jsonp")], 415),
        (&[("Content-Type", "text/plain; application/json")], 415),
        (&[("Content-Type", "application/x-www-form-urlencoded")], 415),
        (&[JSON, ("Content-Type", "text/plain")], 415),
        (&[JSON, ("Host", &rebound)], 403),
        (&[JSON, ("Host", "127.0.0.1")], 403),
        (&[JSON, ("Host", "127.0.0.1:1")], 403),
        (&[JSON, ("Host", "")], 403),
        (&[JSON, ("Host", &local), ("Host", &local)], 403),
        (&[JSON, ("Origin", "null")], 403),
        (&[JSON, ("Origin", "")], 403),
        (&[JSON, ("Origin", "http://evil.example")], 403),
        (&[JSON, ("Origin", &https)], 403),
        (&[JSON, ("Origin", &local_origin)], 403),
        (&[JSON, ("Origin", &own), ("Origin", "http://evil.example")], 403),
        (&[JSON, ("Host", &rebound), ("Origin", &rebound)], 403),
        (&[JSON, ("Sec-Fetch-Site", "cross-site")], 403),
        (&[JSON, ("Sec-Fetch-Site", "same-site")], 403),
        (&[JSON, ("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")], 403),
    ] {
        let reply = running.send("POST", RESET, fields, BODY);
        match status {
            200 => assert_eq!(reply.status, 200, "{fields:?} {reply:?}"),
            403 => _ = reply.refuses(403, "forbidden"),
            _ => _ = reply.refuses(415, "unsupported-media-type"),
        }
        let done = running.fake.done.lock().drain(..).count();
        assert_eq!(done, usize::from(status == 200), "{fields:?}");
    }
}

#[test]
fn an_absolute_target_must_name_the_listener_too() {
    let running = Running::start();
    let at = running.at;
    for (authority, status) in [(at.to_string(), 200), ("evil.example".into(), 403)] {
        let reply = running.raw(&format!(
            "POST http://{authority}{RESET} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{BODY}",
            BODY.len()
        ));
        assert_eq!(reply.status, status, "{authority}");
    }
    let no_host = running.raw(&format!(
        "POST {RESET} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    ));
    no_host.refuses(403, "forbidden");
}

#[test]
fn reads_ask_nothing_of_host_or_origin() {
    let running = Running::start();
    for path in ["/livez", "/readyz", "/metrics", "/v1/keys/files:busy/key"] {
        let fields = [("Host", "palisade.internal"), ("Origin", "http://elsewhere.example")];
        assert_eq!(running.ask("GET", path, &fields).status, 200, "{path}");
    }
}

#[test]
fn with_a_token_every_path_but_health_needs_it() {
    let running = Running::with_token(Some("s3cret"));
    for (authorization, status) in [
        (None, 401),
        (Some("Bearer s3cret"), 200),
        (Some("bearer s3cret"), 200),
        (Some("Bearer s3cre"), 401),
        (Some("Bearer s3cret2"), 401),
        (Some("Bearer "), 401),
        (Some("Bearer"), 401),
        (Some("Basic s3cret"), 401),
        (Some("s3cret"), 401),
    ] {
        let mut fields = vec![JSON];
        fields.extend(authorization.map(|value| ("Authorization", value)));
        let key = "/v1/keys/files:busy/key";
        for (method, path, body) in
            [("GET", "/metrics", ""), ("GET", key, ""), ("POST", RESET, BODY)]
        {
            let reply = running.send(method, path, &fields, body);
            assert_eq!(reply.status, status, "{path} {authorization:?}");
            if status == 401 {
                reply.refuses(401, "unauthenticated");
                assert!(reply.field("www-authenticate").unwrap().starts_with("Bearer "));
                assert!(!reply.body.contains("s3cret"));
            }
        }
        for path in ["/livez", "/readyz"] {
            assert_eq!(running.ask("GET", path, &fields).status, 200, "{path}");
        }
    }
    let twice = [("Authorization", "Bearer s3cret"), ("Authorization", "Bearer s3cret")];
    running.ask("GET", "/metrics", &twice).refuses(401, "unauthenticated");
    running.ask("GET", "/no/such/path", &[]).refuses(401, "unauthenticated");
    running.ask("POST", "/metrics", &[]).refuses(401, "unauthenticated");
    assert_eq!(running.fake.done().len(), 2);
}

#[test]
fn an_empty_token_lets_nothing_in_and_none_is_printed() {
    let running = Running::with_token(Some(""));
    for value in ["Bearer ", "Bearer", "Bearer  "] {
        running.ask("GET", "/metrics", &[("Authorization", value)]).refuses(401, "unauthenticated");
    }
    let options = crate::admin::Options { listen: running.at, token: Some("s3cret".into()) };
    assert!(!format!("{options:?}").contains("s3cret"));
}
