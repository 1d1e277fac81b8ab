//! TLS towards clients and towards the store, and a store behind a Unix socket.

mod agreed;

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
};

use rustls::{
    ClientConfig, SupportedProtocolVersion,
    version::{TLS12, TLS13},
};

use crate::harness::{
    Act, Backend, Client, Config, Latch, Palisade, Request, Response,
    config::Value,
    endless,
    http2::Http2,
    put, send,
    tls::{Authority, Ends, TlsClient, behind_socket, behind_tls, http2_over_tls},
    until,
    wait::DEADLINE,
};

const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

fn put_at(host: &str, key: &str, token: &str) -> Request {
    put(key, token).host(host)
}

/// Sends a request over a connection of its own.
fn ask(
    palisade: &Palisade,
    config: &Arc<ClientConfig>,
    name: &str,
    request: &Request,
) -> std::io::Result<Response> {
    TlsClient::connect(palisade.addr(), config, name)?.send(request)
}

#[test]
fn both_protocols_are_agreed_on() {
    let (backend, authority) = (Backend::start(), Authority::new("authority"));
    let config =
        endless(backend.addr()).server("tls", authority.certificate(&["a.test", "127.0.0.1"], &[]));
    let palisade = Palisade::start(&config);
    let cases: [(&[&SupportedProtocolVersion], &[&str], &str); 4] = [
        (&[&TLS13], &["http/1.1"], "http/1.1"),
        (&[&TLS12], &["http/1.1"], "http/1.1"),
        (&[&TLS13], &[], ""),
        (&[&TLS12], &["unknown", "http/1.1"], "http/1.1"),
    ];
    for (versions, alpn, agreed) in cases {
        let client = authority.client(versions, alpn, None);
        let mut client = TlsClient::connect(palisade.addr(), &client, "a.test").unwrap();
        assert_eq!(client.alpn(), agreed);
        for _ in 0..2 {
            let written = client.send(&put_at("a.test", "/k", "5")).unwrap();
            assert_eq!(written.assert_status(201).outcome(), "applied");
        }
    }
    for version in [&TLS13, &TLS12] {
        let client = authority.client(&[version], &["h2", "http/1.1"], None);
        assert_eq!(TlsClient::connect(palisade.addr(), &client, "a.test").unwrap().alpn(), "h2");
        let client = http2_over_tls(palisade.addr(), &client, "a.test");
        client.send(&put_at("a.test", "/k", "6")).assert_status(201);
        client.send(&put_at("a.test", "/k", "5")).assert_refused(412, "stale-token");
        client.send(&put_at("a.test", "/large", "6").body(vec![b'x'; 1 << 20])).assert_status(201);
    }
    // An address is no server name: the connection is anybody's.
    let client = authority.client(BOTH, &["http/1.1"], None);
    for host in ["a.test", "x.test"] {
        let request = put_at(host, "/k", "6");
        ask(&palisade, &client, "127.0.0.1", &request).unwrap().assert_status(201);
    }
    let none = authority.client(BOTH, &["unknown"], None);
    assert!(TlsClient::connect(palisade.addr(), &none, "a.test").is_err());
    let told = backend.until_settled("6").head;
    assert_eq!(told.field("x-forwarded-proto"), Some("https"));
    palisade.until_quiet();
}

#[test]
fn a_certificate_for_each_name() {
    let (backend, authority) = (Backend::start(), Authority::new("authority"));
    let tls = Value::list([
        authority.certificate(&["a.test"], &[]),
        authority.certificate(&["b.test", "*.b.test", "127.0.0.1"], &[]),
    ]);
    let palisade = Palisade::start(&endless(backend.addr()).server("tls", tls));
    let client = authority.client(BOTH, &["h2", "http/1.1"], None);
    // The client checks that the certificate is for the name.
    for name in ["a.test", "b.test", "x.b.test"] {
        let client = http2_over_tls(palisade.addr(), &client, name);
        client.send(&put_at(name, "/k", "5")).assert_status(201);
        client.send(&put_at(&format!("{name}:8443"), "/k", "5")).assert_status(201);
        let client_1 = authority.client(BOTH, &["http/1.1"], None);
        ask(&palisade, &client_1, name, &put_at(name, "/k", "5")).unwrap().assert_status(201);
        // The connection is one host's.
        for other in ["a.testing", "other.test", "b.tests", "x.x.b.test", "127.0.0.1"] {
            let misdirected = client.send(&put_at(other, "/k", "9"));
            assert_eq!(misdirected.assert_status(421).outcome(), "not-applied", "{other}");
            misdirected.assert_problem();
            ask(&palisade, &client_1, name, &put_at(other, "/k", "9")).unwrap().assert_status(421);
        }
    }
    for unknown in ["c.test", "x.a.test", "x.x.b.test"] {
        assert!(TlsClient::connect(palisade.addr(), &client, unknown).is_err(), "{unknown}");
    }
    assert_eq!(backend.log().count("9"), 0);
    palisade.until_quiet();
}

#[test]
fn client_certificates() {
    let (backend, authority) = (Backend::start(), Authority::new("authority"));
    let (clients, strangers) = (Authority::new("clients"), Authority::new("strangers"));
    let forged = Authority::new("clients");
    let ca = clients.file();
    let tls = authority.certificate(&["a.test"], &[("client_ca", ca.as_str())]);
    let palisade = Palisade::start(&endless(backend.addr()).server("tls", tls));
    for version in [&TLS13, &TLS12] {
        let request = put_at("a.test", "/k", "5");
        let good = authority.client(&[version], &["http/1.1"], Some(&clients));
        ask(&palisade, &good, "a.test", &request).unwrap().assert_status(201);
        let good = authority.client(&[version], &["h2"], Some(&clients));
        http2_over_tls(palisade.addr(), &good, "a.test").send(&request).assert_status(201);
        let request = put_at("a.test", "/k", "9");
        for identity in [None, Some(&strangers), Some(&forged)] {
            let bad = authority.client(&[version], &["http/1.1"], identity);
            assert!(ask(&palisade, &bad, "a.test", &request).is_err(), "{version:?}");
        }
    }
    assert_eq!(backend.log().count("9"), 0);
    palisade.until_quiet();
}

/// A connection that never becomes TLS is ended, and harms no other.
#[test]
fn what_is_no_handshake_ends() {
    let (backend, authority) = (Backend::start(), Authority::new("authority"));
    let tls = authority.certificate(&["a.test"], &[]);
    let config = endless(backend.addr()).server("tls", tls).server("header_timeout", "1s");
    let palisade = Palisade::start(&config);
    let plain = put("/k", "9").bytes();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // A record of 512 bytes, a ClientHello, of which little comes.
    let half = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03half";
    let sent: [&[u8]; 6] = [&plain, preface, half, b"", b"\x16", b"\x16\x03\x01\xff\xff"];
    let mut open: Vec<_> = sent
        .iter()
        .map(|bytes| {
            let mut stream = TcpStream::connect(palisade.addr()).unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        })
        .collect();
    let client = authority.client(BOTH, &["h2"], None);
    http2_over_tls(palisade.addr(), &client, "a.test")
        .send(&put_at("a.test", "/k", "5"))
        .assert_status(201);
    for (stream, sent) in open.iter_mut().zip(sent) {
        let mut told = Vec::new();
        if let Err(error) = stream.read_to_end(&mut told) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{sent:?} is kept");
        }
        assert!(told.is_empty() || told[0] == 0x15, "only an alert is told: {told:?}");
    }
    assert_eq!(backend.log().count("9"), 0);
    palisade.until_quiet();
}

/// A store behind TLS, of which `adjust` makes the configuration.
fn secure(backend: &Backend, authority: &Authority, ends: Ends, tls: &[(&str, &str)]) -> Config {
    let addr = behind_tls(backend.addr(), authority.server("127.0.0.1", None), ends);
    let config = endless(backend.addr()).upstream("url", format!("https://{addr}"));
    if tls.is_empty() { config } else { config.upstream("tls", Value::table(tls)) }
}

#[test]
fn a_store_over_tls() {
    let (backend, authority) = (Backend::start(), Authority::new("authority"));
    let ca = authority.file();
    let config = secure(&backend, &authority, Ends::Told, &[("ca", &ca)]);
    let palisade = Palisade::start(&config.set("drain_timeout", "60s"));
    let client = Http2::connect(palisade.addr());
    for n in 0..5 {
        let size = n << 18;
        let request = put("/k", "5").body(vec![b'x'; size]);
        assert_eq!(client.send(&request).assert_status(201).outcome(), "applied");
        assert_eq!(backend.until_settled("5").body, size as u64);
    }
    assert_eq!(backend.connections(), 1, "the connection is used again");
    assert_eq!(client.send(&Request::new("GET", "/k")).assert_status(200).body, b"hello");
    client.send(&put("/k", "4")).assert_refused(412, "stale-token");

    // A takeover waits for the write that is at the store.
    let latch = Latch::new();
    backend.script("5", [Act::Read, Act::Wait(latch.clone()), Act::Apply, Act::Answer(201)]);
    let old = client.start(&put("/k", "5"));
    backend.until_held("5");
    let new = client.start(&put("/k", "6"));
    palisade.until_metric("palisade_waiting_writes", 1.0);
    latch.open();
    old.response().assert_status(201);
    new.response().assert_status(201);

    backend.script("6", [Act::Read, Act::Reset]);
    let lost = put("/k", "6").send(palisade.addr());
    lost.assert_refused(502, "upstream-failed");
    assert_eq!(lost.outcome(), "unknown");
    put("/k", "7").send(palisade.addr()).assert_refused(503, "in-doubt");
    palisade.until_quiet();
    backend.log().assert_never_down();
}

#[test]
fn a_store_that_cannot_be_trusted_is_not_reached() {
    let (backend, authority) = (Backend::start(), Authority::new("authority"));
    let other = Authority::new("other");
    let (ca, other_ca) = (authority.file(), other.file());
    let cases: [&[(&str, &str)]; 4] = [
        &[("ca", &ca), ("server_name", "store.test")],
        &[("ca", &other_ca)],
        &[],
        &[("ca", &ca), ("server_name", "127.0.0.2")],
    ];
    for tls in cases {
        let palisade = Palisade::start(&secure(&backend, &authority, Ends::Told, tls));
        assert_unreachable(&palisade);
    }
    // It does not speak TLS at all.
    let url = format!("https://{}", backend.addr());
    let config = endless(backend.addr())
        .upstream("url", url)
        .upstream("tls", Value::table(&[("ca", &ca)]))
        .upstream("connect_timeout", "1s");
    assert_unreachable(&Palisade::start(&config));
    let whole = backend.log().arrivals();
    assert!(whole.is_empty(), "{whole:#?}");
}

/// Nothing was sent, so nothing is in doubt.
fn assert_unreachable(palisade: &Palisade) {
    for token in ["5", "6"] {
        let response = put("/k", token).send(palisade.addr());
        response.assert_refused(502, "upstream-unreachable");
        assert_eq!((response.result(), response.outcome()), ("admitted", "not-applied"));
    }
    palisade.until_metric("palisade_in_doubt_keys", 0.0);
    palisade.until_quiet();
}

#[test]
fn a_store_that_demands_our_certificate() {
    let (backend, authority) = (Backend::start(), Authority::new("authority"));
    let (clients, strangers) = (Authority::new("clients"), Authority::new("strangers"));
    let server = authority.server("127.0.0.1", Some(&clients));
    let addr = behind_tls(backend.addr(), server, Ends::Told);
    let config = endless(backend.addr()).upstream("url", format!("https://{addr}"));
    let ca = authority.file();
    for (identity, accepted) in [(Some(&clients), true), (Some(&strangers), false), (None, false)] {
        let files = identity.map(|authority| authority.files("palisade.test"));
        let mut tls = vec![("ca", ca.as_str())];
        if let Some((certificate, key)) = &files {
            tls.extend([("certificate", certificate.as_str()), ("key", key)]);
        }
        let palisade = Palisade::start(&config.clone().upstream("tls", Value::table(&tls)));
        let response = put("/k", "5").send(palisade.addr());
        if accepted {
            assert_eq!(response.assert_status(201).outcome(), "applied");
        } else {
            // With TLS 1.3 it may be told only once the write was on its way.
            let code = response.member("code");
            response.assert_status(502).assert_problem();
            assert!(["upstream-unreachable", "upstream-failed"].contains(&code.as_str()), "{code}");
        }
        palisade.until_quiet();
    }
    assert_eq!(backend.log().count("5"), 1);
}

#[test]
fn a_store_that_wants_tls_and_gets_none() {
    let (backend, authority) = (Backend::start(), Authority::new("authority"));
    let addr = behind_tls(backend.addr(), authority.server("127.0.0.1", None), Ends::Told);
    let palisade =
        Palisade::start(&endless(backend.addr()).upstream("url", format!("http://{addr}")));
    let response = put("/k", "5").send(palisade.addr());
    response.assert_refused(502, "upstream-failed");
    assert_eq!(response.outcome(), "unknown", "bytes were sent");
    put("/k", "6").send(palisade.addr()).assert_refused(503, "in-doubt");
    palisade.until_quiet();
    assert!(backend.log().arrivals().is_empty());
}

/// Only a `close_notify` ends an answer without a length.
#[test]
fn an_answer_that_is_cut_below_tls_is_not_whole() {
    for (ends, outcome) in [(Ends::Told, "applied"), (Ends::Cut, "unknown")] {
        let (backend, authority) = (Backend::start(), Authority::new("authority"));
        let ca = authority.file();
        let config = secure(&backend, &authority, ends, &[("ca", &ca)]);
        let palisade = Palisade::start(&config.upstream("eof_is_end", true));
        let unframed = || [Act::Read, Act::Apply, send("HTTP/1.1 200 OK\n\nunframed"), Act::Close];
        backend.script("5", unframed());
        let response = put("/k", "5").send(palisade.addr());
        assert_eq!(response.outcome(), outcome, "{ends:?}: {response:#?}");
        let next = put("/k", "6").send(palisade.addr());
        assert_eq!(next.status(), if ends == Ends::Told { 201 } else { 503 });
        let framed = "HTTP/1.1 200 OK\nContent-Length: 9\n\nok";
        backend.script("5", [Act::Read, send(framed), Act::Close]);
        let cut = put("/framed", "5").send(palisade.addr());
        cut.assert_refused(502, "upstream-failed");
        assert_eq!(cut.outcome(), "unknown");
        backend.script("GET", unframed());
        let read = Request::new("GET", "/k").send(palisade.addr());
        assert_eq!((read.status(), read.whole), (200, ends == Ends::Told));
        palisade.until_quiet();
    }
}

/// What a killed process had written over TLS may still take effect; a takeover waits for it.
#[test]
fn kill_9_with_a_write_in_flight_over_tls() {
    let (backend, authority) = (Backend::start(), Authority::new("authority"));
    let ca = authority.file();
    let config = secure(&backend, &authority, Ends::Told, &[("ca", &ca)])
        .upstream("max_write_lifetime", "2s");
    let mut palisade = Palisade::start(&config);
    put("/k", "5").send(palisade.addr()).assert_status(201);
    let latch = Latch::new();
    backend.script("5", [Act::Read, Act::Wait(latch.clone()), Act::ApplyLate]);
    let _writer = put("/k", "5").body(vec![b'x'; 1 << 20]).start(palisade.addr());
    backend.until_held("5");
    palisade.kill9();
    palisade.restart();
    put("/k", "6").send(palisade.addr()).assert_refused(503, "in-doubt");
    latch.open();
    backend.until_settled("5");
    until("6 is let through", || put("/k", "6").send(palisade.addr()).is_success());
    backend.log().assert_never_down();
    palisade.until_quiet();
}

/// SO_LINGER lies below TLS: of a half-sent write nothing more comes once the process is gone.
#[test]
fn kill_9_within_an_upload_over_tls() {
    let (backend, authority) = (Backend::start(), Authority::new("authority"));
    let ca = authority.file();
    let config = secure(&backend, &authority, Ends::Told, &[("ca", &ca)]);
    let mut palisade = Palisade::start(&config);
    let request = put("/k", "5").body(vec![b'x'; 1 << 20]);
    let mut writer = Client::connect(palisade.addr());
    let bytes = request.bytes();
    writer.send(&bytes[..bytes.len() - 1]);
    backend.log().until("a begun write", |arrival| arrival.token() == Some("5"));
    palisade.kill9();
    let arrival = backend.until_settled("5");
    assert!(!arrival.whole && backend.log().effects("/k").is_empty(), "{arrival:#?}");
}

#[test]
fn a_store_behind_a_unix_socket() {
    let backend = Backend::start();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.sock");
    let config = endless(backend.addr()).upstream("url", format!("unix:{}", path.display()));
    let palisade = Palisade::start(&config);
    assert_unreachable(&palisade);
    behind_socket(backend.addr(), &path);
    let client = Http2::connect(palisade.addr());
    for body in ["", "payload"] {
        let written = client.send(&put_at("store.test", "/k", "6").body(body));
        assert_eq!(written.assert_status(201).outcome(), "applied");
    }
    let arrival = backend.until_settled("6");
    assert_eq!((arrival.head.field("host"), arrival.body), (Some("store.test"), 7));
    put("/k", "5").send(palisade.addr()).assert_refused(412, "stale-token");
    let large = put("/k", "6").body(vec![b'x'; 1 << 20]);
    large.send(palisade.addr()).assert_status(201);
    assert_eq!(client.send(&Request::new("GET", "/k")).assert_status(200).body, b"hello");

    backend.script("6", [Act::Read, Act::Close]);
    let lost = client.send(&put("/k", "6"));
    lost.assert_refused(502, "upstream-failed");
    assert_eq!(lost.outcome(), "unknown");
    client.send(&put("/k", "7")).assert_refused(503, "in-doubt");
    palisade.until_quiet();
}
