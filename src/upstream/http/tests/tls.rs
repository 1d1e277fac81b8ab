//! TLS, against servers with certificates made for the day.

use std::{fs, io::ErrorKind, sync::Arc};

use http::HeaderName;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::yield_now,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    LATE, LIMITS, PART, WHOLE, incoming, read_until, read_whole, request, request_with, store,
    store_with,
    world::{World, server, server_of},
};
use crate::upstream::http::{
    HttpUpstream, Lease, Link, Outgoing, SendError, Tls, TlsError, TlsSetting, Unreachable,
    dial::Dialled, pool::Pool,
};

/// A store that speaks TLS, and us as its client.
async fn secure() -> (TcpListener, TlsAcceptor, HttpUpstream) {
    let world = World::new();
    // A ticket that nobody reads would make a reset of any close.
    let acceptor = server(world.identity("127.0.0.1", |_| {}), |c| c.send_tls13_tickets = 0);
    let (listener, upstream) = store_with(|o| o.tls = Some(world.tls("127.0.0.1"))).await;
    (listener, acceptor, upstream)
}

/// A connection, seen from both ends.
async fn connected(
    listener: &TcpListener,
    acceptor: &TlsAcceptor,
    upstream: &HttpUpstream,
) -> (Lease, TlsStream<TcpStream>) {
    let accept = async { acceptor.accept(listener.accept().await.unwrap().0).await.unwrap() };
    let (lease, stream) = tokio::join!(upstream.dial(None), accept);
    (lease.unwrap(), stream)
}

/// Why no connection comes about with a server.
async fn refusal(world: &World, acceptor: &TlsAcceptor, tls: Tls) -> String {
    let (listener, upstream) = store_with(|options| options.tls = Some(tls)).await;
    let accept = async {
        let _ = acceptor.accept(listener.accept().await.unwrap().0).await;
    };
    let (lease, ()) = tokio::join!(upstream.dial(None), accept);
    let Err(Unreachable::Tls { why, .. }) = lease else { panic!("{lease:?} {:?}", world.folder) };
    why
}

#[tokio::test]
async fn an_exchange_over_each_version_and_by_name_or_address() {
    let world = World::new();
    for (name, versions) in [("127.0.0.1", &TLS13), ("store.internal", &TLS12), ("::1", &TLS13)] {
        let acceptor = server_of(&[versions], world.identity(name, |_| {}), |config| {
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        });
        let (listener, upstream) = store_with(|o| o.tls = Some(world.tls(name))).await;
        let (lease, mut store) = connected(&listener, &acceptor, &upstream).await;
        assert_eq!(store.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(lease.address(), Some(listener.local_addr().unwrap()));
        lease.put_back();
        // Twice over one connection.
        for body in ["ab", "cd"] {
            yield_now().await;
            let mut lease = upstream.checkout(None).await.unwrap();
            let script = async {
                read_until(&mut store, "\r\n\r\n").await;
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}");
                store.write_all(answer.as_bytes()).await.unwrap();
            };
            let (response, ()) =
                tokio::join!(lease.send(request("PUT", Outgoing::empty()), LATE), script);
            response.unwrap();
            assert_eq!(read_whole(&mut lease).await, body);
            assert_eq!(lease.sent(), WHOLE);
            lease.put_back();
        }
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_certificate_is_said_plainly() {
    let world = World::new();
    let good = server(world.identity("127.0.0.1", |_| {}), |_| {});
    // Another authority, and one that only has the same name.
    for other in [World::under("another"), World::new()] {
        let why = refusal(&world, &good, other.tls("127.0.0.1")).await;
        assert!(why.contains("signed by no root that is trusted here"), "{why}");
    }
    let why = refusal(&world, &good, world.tls("127.0.0.2")).await;
    assert!(why.contains("not for 127.0.0.2") && why.contains("server_name"), "{why}");
    let why = refusal(&world, &good, world.tls("store.internal")).await;
    assert!(why.contains("not for store.internal"), "{why}");

    let old = world.identity("127.0.0.1", |p| p.not_after = rcgen::date_time_ymd(2001, 1, 1));
    let why = refusal(&world, &server(old, |_| {}), world.tls("127.0.0.1")).await;
    assert_eq!(why, "its certificate has expired");
    let new = world.identity("127.0.0.1", |p| p.not_before = rcgen::date_time_ymd(2999, 1, 1));
    let why = refusal(&world, &server(new, |_| {}), world.tls("127.0.0.1")).await;
    assert!(why.contains("not valid yet"), "{why}");

    let h2 = server(world.identity("127.0.0.1", |_| {}), |config| {
        config.alpn_protocols = vec![b"h2".to_vec()];
    });
    let why = refusal(&world, &h2, world.tls("127.0.0.1")).await;
    assert_eq!(why, "it does not speak HTTP/1.1 over TLS");
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_told() {
    let world = World::new();
    let plain: [&[u8]; 2] = [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""];
    for (answer, expected) in plain.into_iter().zip(["is it http?", "does it speak TLS?"]) {
        let (listener, upstream) = store_with(|o| o.tls = Some(world.tls("127.0.0.1"))).await;
        let script = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap();
            stream.write_all(answer).await.unwrap();
            stream.shutdown().await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        };
        let (lease, ()) = tokio::join!(upstream.dial(None), script);
        assert!(
            matches!(&lease, Err(Unreachable::Tls { why, .. }) if why.contains(expected)),
            "{lease:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_speaks_tls_is_told() {
    let world = World::new();
    let acceptor = server(world.identity("127.0.0.1", |_| {}), |_| {});
    let (listener, upstream) = store().await;
    let mut lease = upstream.dial(None).await.unwrap();
    let accept = async {
        let accepted = acceptor.accept(listener.accept().await.unwrap().0).await;
        assert!(accepted.is_err());
    };
    let (sent, ()) = tokio::join!(lease.send(request("PUT", Outgoing::empty()), LATE), accept);
    assert!(matches!(&sent, Err(SendError::Lost(why)) if why.contains("is it https?")), "{sent:?}");
    assert!(lease.sent().any);
}

#[tokio::test]
async fn a_client_certificate_is_shown_and_its_lack_is_told() {
    let world = World::new();
    let mut roots = RootCertStore::empty();
    roots.add(world.authority.der().clone()).unwrap();
    for versions in [&TLS12, &TLS13] {
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider.clone())
                .build()
                .unwrap();
        let identity = world.identity("127.0.0.1", |_| {});
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[versions])
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![identity.certificate], identity.key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));

        let us = world.identity("palisade", |_| {});
        let pair = Some((us.certificate_file.as_path(), us.key_file.as_path()));
        let tls = Tls::load("127.0.0.1", Some(&world.file("ca")), pair).unwrap();
        let (listener, upstream) = store_with(|options| options.tls = Some(tls)).await;
        let (_lease, store) = connected(&listener, &acceptor, &upstream).await;
        assert_eq!(store.get_ref().1.peer_certificates(), Some(&[us.certificate][..]));

        // TLS 1.3 refuses only when the handshake is over for us.
        let (listener, upstream) = store_with(|o| o.tls = Some(world.tls("127.0.0.1"))).await;
        let accept = async {
            let accepted = acceptor.accept(listener.accept().await.unwrap().0).await;
            assert!(accepted.is_err());
        };
        let send = async {
            let mut lease = upstream.dial(None).await.map_err(|error| error.to_string())?;
            let sent = lease.send(request("PUT", Outgoing::empty()), LATE).await;
            sent.map(drop).map_err(|error| format!("{error:?}"))
        };
        let (sent, ()) = tokio::join!(send, accept);
        let why = sent.unwrap_err();
        assert!(why.contains("demands a client certificate"), "{versions:?} {why}");
    }
}

/// Only a `close_notify` is an end: without it, whoever can cut a connection could shorten a body.
#[tokio::test]
async fn a_truncation_is_no_end() {
    for notified in [true, false] {
        let (listener, acceptor, upstream) = secure().await;
        let (mut lease, mut store) = connected(&listener, &acceptor, &upstream).await;
        let script = async {
            read_until(&mut store, "\r\n\r\n").await;
            store.write_all(b"HTTP/1.1 200 OK\r\n\r\npart").await.unwrap();
            store.flush().await.unwrap();
            if notified {
                store.shutdown().await.unwrap();
            } else {
                store.get_mut().0.shutdown().await.unwrap();
            }
        };
        let (response, ()) =
            tokio::join!(lease.send(request("GET", Outgoing::empty()), LATE), script);
        response.unwrap();
        assert!(!lease.is_framed());
        assert_eq!(lease.data(LATE).await.unwrap().unwrap(), "part");
        let end = lease.data(LATE).await;
        assert_eq!(end.is_none(), notified, "{end:?}");
    }
}

#[tokio::test]
async fn an_abort_resets_the_connection_below_tls() {
    let (listener, acceptor, upstream) = secure().await;
    let (mut lease, mut store) = connected(&listener, &acceptor, &upstream).await;
    tokio::select! {
        sent = lease.send(request("PUT", Outgoing::empty()), LATE) => panic!("{sent:?}"),
        _ = read_until(&mut store, "\r\n\r\n") => {}
    }
    assert_eq!(lease.close(), WHOLE);
    let (mut raw, _) = store.into_inner();
    let error = raw.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_body_that_the_kernel_did_not_take_is_not_whole() {
    const SIZE: usize = 256 << 20;
    let (listener, acceptor, upstream) = secure().await;
    let (mut lease, _store) = connected(&listener, &acceptor, &upstream).await;
    let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {SIZE}\r\n\r\n");
    let (body, mut client) = incoming(&head).await;
    tokio::spawn(async move {
        let chunk = vec![b'x'; 1 << 20];
        while client.write_all(&chunk).await.is_ok() {}
    });
    let body = Outgoing::new(body, LIMITS);
    let progress = body.progress();
    tokio::select! {
        sent = lease.send(request("PUT", body), LATE) => panic!("{sent:?}"),
        () = async { while progress.taken() < 1 << 20 { yield_now().await } } => {}
    }
    assert_eq!(lease.sent(), PART);
}

/// TLS takes a request at once, and the wire a part of it: sent, but not whole until TLS is empty.
#[tokio::test]
async fn what_tls_holds_is_sent_but_not_whole() {
    let world = World::new();
    let acceptor = server(world.identity("127.0.0.1", |_| {}), |_| {});
    for read in [false, true] {
        let (ours, theirs) = tokio::io::duplex(256);
        let tls = world.tls("127.0.0.1");
        let (stream, store) = tokio::join!(tls.connect(ours), acceptor.accept(theirs));
        let dialled = Dialled { io: Box::new(stream.unwrap()), address: None, tls: true };
        let pool = Arc::new(Pool::new(0, LIMITS.idle));
        let mut lease = Lease::new(Box::new(Link::new(dialled)), pool);
        let mut store = store.unwrap();

        let (body, _client) =
            incoming("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").await;
        let fields = [(HeaderName::from_static("x-long"), &*"x".repeat(4000))];
        let long = request_with("PUT", &fields, Outgoing::new(body, LIMITS));
        let progress = long.body.progress();
        let taken = async {
            while !progress.is_whole() {
                yield_now().await;
            }
            if read {
                assert!(read_until(&mut store, "hello").await.contains("x-long"));
            }
            for _ in 0..10 {
                yield_now().await;
            }
        };
        tokio::select! {
            sent = lease.send(long, LATE) => panic!("{sent:?}"),
            () = taken => {}
        }
        assert_eq!(lease.sent(), if read { WHOLE } else { PART }, "TLS took it, the wire a part");
    }
}

#[tokio::test]
async fn files_that_cannot_work_are_mistakes() {
    let world = World::new();
    let (one, two) = (world.identity("one", |_| {}), world.identity("two", |_| {}));
    let write = |name: &str, text: &str| {
        let file = world.file(name);
        fs::write(&file, text).unwrap();
        file
    };
    let broken = write("broken", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let garbled = write("garbled", "-----BEGIN CERTIFICATE-----\n@@@@\n");
    let empty = write("empty", "no PEM here\n");
    let (ca, none) = (world.file("ca"), world.file("none"));
    let load = |ca, certificate, key| Tls::load("store", Some(ca), Some((certificate, key)));
    let (good, key) = (&one.certificate_file, &one.key_file);
    assert!(load(&ca, good, key).is_ok());
    for (result, setting, what) in [
        (load(&none, good, key), TlsSetting::Ca, "cannot be read"),
        (load(&broken, good, key), TlsSetting::Ca, "holds a certificate that is no root"),
        (load(&garbled, good, key), TlsSetting::Ca, "is no PEM file"),
        (load(&empty, good, key), TlsSetting::Ca, "holds no certificate"),
        (load(key, good, key), TlsSetting::Ca, "holds no certificate"),
        (load(&ca, &none, key), TlsSetting::Certificate, "cannot be read"),
        (load(&ca, &broken, key), TlsSetting::Certificate, "holds a broken certificate"),
        (load(&ca, good, &none), TlsSetting::Key, "cannot be read"),
        (load(&ca, good, good), TlsSetting::Key, "holds no private key"),
        (load(&ca, good, &two.key_file), TlsSetting::Key, "is not the key of"),
        (Tls::load("a b", Some(&ca), None), TlsSetting::ServerName, "is no name"),
    ] {
        let TlsError { setting: found, what: words, remedy } = result.unwrap_err();
        assert_eq!(found, setting, "{words}");
        assert!(words.contains(what) && !remedy.is_empty(), "{words}");
    }
    let shown = format!("{:?}", load(&ca, good, key).unwrap());
    assert!(shown.len() < 100, "no keys in logs: {shown}");
}
