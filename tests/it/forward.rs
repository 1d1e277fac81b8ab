//! What goes on to the store and how: connections, fields, `Expect`, and that nothing goes twice.

use crate::harness::{
    Act, Backend, Client, Config, Latch, Palisade, Request, answer, claim, config::Value, endless,
    log::Arrival, put, send, write,
};

use Act::{Answer, Apply, Close, Read, Reset, Wait};

/// Each worker has its own connections to the store: where it matters which one is used again.
fn one_pool(backend: &Backend) -> Config {
    endless(backend.addr()).server("workers", 1)
}

fn arrival(backend: &Backend, token: &str) -> Arrival {
    backend.log().until("a request", |arrival| arrival.token() == Some(token))
}

#[test]
fn expect_is_answered_after_admission() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let expecting = |token: &str| put("/k", token).field("Expect", "100-continue");
    let mut client = Client::connect(palisade.addr());
    client.send(&expecting("6").head());
    assert_eq!(client.head().status(), 100);
    client.send(b"payload");
    client.response().assert_status(201);
    let arrived = arrival(&backend, "6");
    assert_eq!((arrived.head.field("expect"), arrived.body), (None, 7));

    let mut client = Client::connect(palisade.addr());
    client.send(&expecting("5").head());
    let stale = client.response();
    stale.assert_refused(412, "stale-token");
    assert_eq!((stale.interim.as_slice(), stale.field("connection")), (&[][..], Some("close")));
    client.until_closed();
    let other = put("/k", "6").field("Expect", "a-miracle").send(palisade.addr());
    other.assert_status(417);
}

/// A refusal waits for no body; one that is there already is taken, and the connection is kept.
#[test]
fn a_refused_write_keeps_its_connection_where_its_body_is_there() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    put("/k", "6").send(palisade.addr()).assert_status(201);
    let mut client = Client::connect(palisade.addr());
    for body in [1, 1024, 8192] {
        let stale = put("/k", "5").body(vec![b'x'; body]);
        client.send(&stale.bytes());
        client.response().assert_refused(412, "stale-token");
    }
    let (more, less) = (b"PUT /k HTTP/1.1\r\n".repeat(9), put("/k", "6").body(*b"whole"));
    client.send(&[put("/k", "5").body(more).bytes(), less.bytes()].concat());
    client.response().assert_refused(412, "stale-token");
    client.response().assert_status(201);

    for (body, length) in [(&b"a part"[..], "7"), (b"", "65537"), (b"", "1")] {
        let mut client = Client::connect(palisade.addr());
        let stale = Request::new("PUT", "/k").token("5").field("Content-Length", length);
        client.send(&[stale.bytes(), body.to_vec()].concat());
        let refused = client.response();
        refused.assert_refused(412, "stale-token");
        assert_eq!(refused.field("connection"), Some("close"), "{length}");
    }
    assert_eq!((backend.log().count("5"), backend.log().count("6")), (0, 2));
}

#[test]
fn expect_is_not_answered_while_the_write_waits() {
    let backend = Backend::start();
    let config = endless(backend.addr()).set("takeover", "wait");
    let palisade = Palisade::start(&config);
    backend.script("5", [Read, Wait(Latch::new())]);
    let _old = put("/k", "5").start(palisade.addr());
    backend.until_held("5");
    let mut client = Client::connect(palisade.addr());
    client.send(&put("/k", "6").field("Expect", "100-continue").head());
    let refused = client.response();
    refused.assert_refused(503, "draining-writes");
    assert!(refused.interim.is_empty());
}

#[test]
fn expect_is_not_answered_before_the_store_is_reached() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let palisade = Palisade::start(&Config::http(unused));
    let mut client = Client::connect(palisade.addr());
    client.send(&put("/k", "6").field("Expect", "100-continue").head());
    let refused = client.response();
    refused.assert_refused(502, "upstream-unreachable");
    assert!(refused.interim.is_empty());
}

#[test]
fn the_token_goes_on_and_the_connections_own_fields_do_not() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let request = put("/k?v=1&v=2", "5")
        .field("Connection", "Fencing-Token, X-Mine")
        .field("X-Mine", "1")
        .field("X-Other", "2")
        .field("TE", "trailers")
        .field("Keep-Alive", "9")
        .field("Proxy-Connection", "keep-alive");
    request.send(palisade.addr()).assert_status(201);
    let head = arrival(&backend, "5").head;
    assert_eq!(head.line, "PUT /k?v=1&v=2 HTTP/1.1");
    assert_eq!((head.field("host"), head.field("x-other")), (Some("a"), Some("2")));
    for dropped in ["x-mine", "te", "keep-alive", "proxy-connection"] {
        assert_eq!(head.field(dropped), None, "{dropped}");
    }

    let older = Request::new("PUT", "/k").field("X-Fencing-Token", "6").body("x");
    older.send(palisade.addr()).assert_status(201);
    let upgrade = put("/k", "7").field("Connection", "Upgrade").field("Upgrade", "h2c");
    upgrade.send(palisade.addr()).assert_status(201);
    assert_eq!(arrival(&backend, "7").head.field("upgrade"), None);
}

#[test]
fn one_connection_serves_many_requests_in_both_directions() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let mut client = Client::connect(palisade.addr());
    for token in 1..=20_u64 {
        let request = if token % 5 == 0 {
            Request::new("DELETE", "/k").token(&token.to_string())
        } else {
            put("/k", &token.to_string())
        };
        client.send(&request.bytes());
        assert!(client.response().is_success());
    }
    assert!(backend.connections() < 20, "upstream connections are used again");
    assert_eq!(backend.log().effects("/k").len(), 20);
    // Pipelined ones are answered in their order.
    client
        .send(&[put("/k", "21").bytes(), put("/k", "3").bytes(), put("/k", "22").bytes()].concat());
    let statuses = [(); 3].map(|()| client.try_response().ok().flatten().map_or(0, |r| r.status()));
    assert_eq!(statuses[..2], [201, 412]);
    assert!([0, 201].contains(&statuses[2]), "closed after the refusal, or in order: {statuses:?}");
}

#[test]
fn an_idle_connection_that_the_store_closed_is_replaced() {
    let backend = Backend::start();
    let palisade = Palisade::start(&one_pool(&backend));
    for (token, next, end) in [("5", "6", Close), ("7", "8", Reset)] {
        let idle = Latch::new();
        backend.script(token, [Read, Apply, Answer(201), Wait(idle.clone()), end]);
        write(&palisade, token).assert_status(201);
        backend.until_held(token);
        idle.open();
        backend.until_settled(token);
        write(&palisade, next).assert_status(201);
        assert_eq!(backend.log().count(next), 1);
    }
    assert_eq!(backend.log().effects("/k").len(), 4);
}

#[test]
fn no_write_is_sent_twice() {
    for (n, end) in [Close, Reset].into_iter().enumerate() {
        let backend = Backend::start();
        let palisade = Palisade::start(&one_pool(&backend));
        write(&palisade, "5").assert_status(201);
        let connection = arrival(&backend, "5").connection;
        backend.script("6", [Read, Apply, end]);
        let response = write(&palisade, "6");
        response.assert_refused(502, "upstream-failed");
        assert_eq!(response.outcome(), "unknown");
        let lost = arrival(&backend, "6");
        assert_eq!(lost.connection, connection, "it came by a connection that had been idle");
        palisade.until_quiet();
        assert_eq!(backend.log().count("6"), 1, "case {n}");
    }
}

#[test]
fn a_client_that_ends_its_side_gets_its_answer() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let latch = Latch::new();
    backend.script("5", [Read, Wait(latch.clone()), Apply, Answer(201)]);
    let mut client = put("/k", "5").start(palisade.addr());
    client.half_close();
    backend.until_held("5");
    latch.open();
    assert_eq!(client.response().assert_status(201).outcome(), "applied");
}

#[test]
fn interim_answers_are_not_final_ones() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let early = "HTTP/1.1 103 Early Hints\nLink: x\n\n";
    backend.script("5", [Read, send(early), Apply, Answer(201)]);
    assert_eq!(write(&palisade, "5").assert_status(201).outcome(), "applied");
}

#[test]
fn an_answer_with_more_behind_it_poisons_nothing() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let two = format!("{}{}", answer(200, ""), answer(200, "smuggled"));
    backend.script("5", [Read, Apply, send(&two)]);
    write(&palisade, "5").assert_status(200);
    let read = Request::new("GET", "/k").send(palisade.addr());
    assert_eq!(read.body, b"hello", "the next answer is its own");
}

/// The values of these fields as the store got them, each "-" where there was none.
fn got(arrival: &Arrival, names: [&str; 5]) -> [String; 5] {
    names.map(|name| arrival.head.field(name).unwrap_or("-").to_string())
}

#[test]
fn the_client_is_told_of_by_trusted_proxies_only() {
    let names = [
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "forwarded",
        "x-forwarded-port",
    ];
    let foreign = ["127.0.0.1", "http", "a", "-", "-"];
    let trusted = ["198.51.100.1, 127.0.0.1", "https", "public", "for=x", "443"];
    let both = "for=x, for=127.0.0.1;proto=http;host=a";
    for (list, style, expected) in [
        (&["10.0.0.0/8", "::1"][..], "x-forwarded", foreign),
        (&["127.0.0.0/8"], "x-forwarded", trusted),
        (&["127.0.0.1"], "forwarded", ["198.51.100.1", "https", "public", both, "443"]),
        (&[], "none", ["-"; 5]),
    ] {
        let backend = Backend::start();
        let config =
            endless(backend.addr()).server("trusted_proxies", list).server("forwarded", style);
        let palisade = Palisade::start(&config);
        let said = put("/k", "5")
            .field("X-Forwarded-For", "198.51.100.1")
            .field("X-Forwarded-Proto", "https")
            .field("X-Forwarded-Host", "public")
            .field("X-Forwarded-Port", "443")
            .field("Forwarded", "for=x");
        said.send(palisade.addr()).assert_status(201);
        assert_eq!(got(&arrival(&backend, "5"), names), expected, "{list:?} {style}");
    }
}

#[test]
fn a_request_has_one_id_everywhere() {
    let backend = Backend::start();
    let palisade =
        Palisade::start(&endless(backend.addr()).route("/open/{*o}").set("token", "off"));
    let send = |request: Request, id: &str| request.field("X-Request-Id", id).send(palisade.addr());
    let written = send(put("/k", "5"), "job-7/a");
    assert_eq!((written.status(), written.field("x-request-id")), (201, Some("job-7/a")));
    assert_eq!(written.field("via"), Some("1.1 palisade"));
    let arrived = arrival(&backend, "5").head;
    assert_eq!(
        (arrived.field("x-request-id"), arrived.field("via")),
        (Some("job-7/a"), Some("1.1 palisade"))
    );

    let stale = send(put("/k", "4"), "job-8");
    stale.assert_refused(412, "stale-token");
    let malformed = send(put("/b//k", "4"), "job-8");
    malformed.assert_refused(400, "target-ambiguous");
    for refused in [&stale, &malformed] {
        assert_eq!(refused.field("x-request-id"), Some("job-8"));
        assert_eq!(refused.member("request_id"), "job-8");
        assert_eq!(refused.field("via"), None, "it is our own");
    }
    let read = send(Request::new("GET", "/open/k"), "job-9");
    assert_eq!((read.status(), read.field("x-request-id")), (200, Some("job-9")));

    let anew = send(put("/k", "3"), "a \" b");
    let id = anew.field("x-request-id").unwrap_or_default();
    assert!(id.len() == 16 && id == anew.member("request_id"), "{anew:#?}");
}

#[test]
fn a_route_sets_and_removes_fields() {
    let backend = Backend::start();
    let config = endless(backend.addr()).set("remove_headers", &["Cookie", "Via"][..]).set(
        "set_headers",
        Value::table(&[("X-Store-Key", "hush"), ("X-Forwarded-Proto", "https")]),
    );
    let palisade = Palisade::start(&config);
    let request = put("/k", "5").field("Cookie", "a=1").field("X-Store-Key", "forged");
    request.send(palisade.addr()).assert_status(201);
    let names = ["cookie", "via", "x-store-key", "x-forwarded-proto", "x-forwarded-for"];
    let expected = ["-", "-", "hush", "https", "127.0.0.1"];
    assert_eq!(got(&arrival(&backend, "5"), names), expected);
    assert!(!palisade.stderr().contains("hush"));
}

#[test]
fn a_write_in_early_data_is_refused_and_a_read_says_so_upstream() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()));
    let early = |request: Request| request.field("Early-Data", "1").send(palisade.addr());
    early(put("/k", "5")).assert_refused(425, "too-early");
    early(claim("/k", "5")).assert_refused(425, "too-early");
    early(Request::new("GET", "/k")).assert_status(200);
    let arrivals = backend.log().arrivals();
    assert_eq!(arrivals.len(), 1, "{arrivals:#?}");
    assert_eq!(arrivals[0].head.field("early-data"), Some("1"));
    write(&palisade, "4").assert_status(201);
}

/// R11: what the key is made of must reach the store.
#[test]
fn connection_may_not_take_away_what_the_key_is_made_of() {
    let backend = Backend::start();
    let config = endless(backend.addr())
        .upstream("store_honours", Value::list(["header.X-Tenant".into()]))
        .set("fence", "{header.X-Tenant}/{object}");
    let palisade = Palisade::start(&config);
    let write = put("/k", "5").field("X-Tenant", "b");
    write.send(palisade.addr()).assert_status(201);
    assert_eq!(palisade.show("b/k").member("highest"), "5");
    let taken = write.field("Connection", "X-Tenant").send(palisade.addr());
    taken.assert_refused(400, "target-ambiguous");
    assert_eq!(backend.log().count("5"), 1);
}
