//! TLS, with certificates made for the test.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::{
    ClientConfig, HandshakeKind, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{GET, SHORT, Server, empty, http2, ok, options};
use crate::server::{Certificate, ClientCa, Options, Peer, Tls};

/// An authority, and the files of what it signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    files: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, files: tempfile::tempdir().unwrap() }
    }

    fn sign(&self, params: &CertificateParams) -> (String, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn certificate(&self, names: &[&str]) -> Certificate {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let (pem, key) = self.sign(&CertificateParams::new(names).unwrap());
        let key = self.write("key", &key.serialize_pem());
        Certificate::load(&self.write("certificate", &pem), &key).unwrap()
    }

    fn client_ca(&self) -> ClientCa {
        ClientCa::load(&self.write("ca", &self.issuer.pem())).unwrap()
    }

    /// The certificate of a client and its key.
    fn client(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec!["worker.test".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "worker-7");
        params.subject_alt_names.push(SanType::URI("spiffe://test/worker".try_into().unwrap()));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        roots
    }

    /// What a client believes and offers.
    fn config(&self, alpn: &[&str], client_of: Option<&Self>) -> Arc<ClientConfig> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots());
        let mut config = match client_of {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let (certificate, key) = authority.client();
                config.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

fn with(tls: Tls) -> Options {
    Options { tls: Some(tls), ..options() }
}

fn one(authority: &Authority) -> Options {
    with(Tls::new(&[authority.certificate(&["a.test"])], None, true).unwrap())
}

type Stream = TlsStream<TcpStream>;

async fn connect(server: &Server, config: &Arc<ClientConfig>, name: &str) -> io::Result<Stream> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connector = TlsConnector::from(Arc::clone(config));
    connector.connect(name, server.connect().await).await
}

/// Sends a request over HTTP/1.1 and reads to the end, which must be a `close_notify`.
async fn ask(stream: &mut Stream) -> io::Result<String> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Says which protocol it was asked by, and what the handshake told.
async fn tell(request: Request<Incoming>) -> super::Answer {
    let peer = request.extensions().get::<Peer>().unwrap();
    let tls = peer.tls().unwrap();
    let text = format!("{:?} {:?} {:?}", request.version(), tls.server_name(), tls.certificate());
    Ok(Response::new(Full::new(Bytes::from(text))))
}

#[tokio::test]
async fn the_protocol_is_agreed_on() {
    let authority = Authority::new();
    let server = Server::start(&one(&authority), tell);
    for alpn in [&["http/1.1"][..], &[], &["http/1.1", "http/1.0"]] {
        let mut stream = connect(&server, &authority.config(alpn, None), "a.test").await.unwrap();
        let answer = ask(&mut stream).await.unwrap();
        assert!(answer.ends_with("HTTP/1.1 Some(\"a.test\") None"), "{alpn:?}: {answer}");
    }
    for alpn in [&["h2", "http/1.1"][..], &["http/1.1", "h2"], &["h2"]] {
        let stream = connect(&server, &authority.config(alpn, None), "a.test").await.unwrap();
        let mut client = http2::client(stream).await;
        let answer = client.send_request(http2::request("/", "")).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "HTTP/2.0 Some(\"a.test\") None");
    }
    let old = authority.config(&["http/1.0"], None);
    assert!(connect(&server, &old, "a.test").await.is_err());
}

#[tokio::test]
async fn without_http2_none_is_agreed_on() {
    let authority = Authority::new();
    let tls = Tls::new(&[authority.certificate(&["a.test"])], None, false).unwrap();
    let server = Server::start(&Options { http2: false, ..with(tls) }, tell);
    let both = authority.config(&["h2", "http/1.1"], None);
    let mut stream = connect(&server, &both, "a.test").await.unwrap();
    assert!(ask(&mut stream).await.unwrap().contains("HTTP/1.1 Some"));
    assert!(connect(&server, &authority.config(&["h2"], None), "a.test").await.is_err());
}

#[tokio::test]
async fn the_certificate_is_chosen_by_name() {
    let authority = Authority::new();
    let lists = [&["a.test", "127.0.0.1"][..], &["*.b.test", "b.test"], &["c.b.test", "C.test"]];
    let certificates = lists.map(|names| authority.certificate(names));
    let leaves = certificates.each_ref().map(|it| it.key.cert[0].clone());
    let tls = Tls::new(&certificates, None, true).unwrap();
    let server = Server::start(&with(tls), ok);
    let config = authority.config(&[], None);
    for (name, wanted) in [
        ("a.test", Some(0)),
        ("A.test", Some(0)),
        ("127.0.0.1", Some(0)),
        ("b.test", Some(1)),
        ("x.b.test", Some(1)),
        ("c.b.test", Some(2)),
        ("c.test", Some(2)),
        ("x.y.b.test", None),
        ("x.a.test", None),
        ("test", None),
    ] {
        let found = connect(&server, &config, name).await.ok();
        let found = found.map(|it| it.get_ref().1.peer_certificates().unwrap()[0].clone());
        assert_eq!(found, wanted.map(|at: usize| leaves[at].clone()), "{name}");
    }
}

#[tokio::test]
async fn a_lone_certificate_is_for_every_name() {
    let authority = Authority::new();
    let server = Server::start(&one(&authority), ok);
    let connector = TlsConnector::from(authority.config(&[], None));
    let name = ServerName::try_from("b.test").unwrap();
    let error = connector.connect(name, server.connect().await).await.unwrap_err();
    // It is the client that minds.
    assert!(error.to_string().contains("not valid for name"), "{error}");
}

#[tokio::test]
async fn certificates_that_no_name_tells_apart_are_refused() {
    let authority = Authority::new();
    let make = |lists: &[&[&str]]| {
        let certificates: Vec<_> = lists.iter().map(|it| authority.certificate(it)).collect();
        Tls::new(&certificates, None, true).map(drop).map_err(|error| error.what)
    };
    assert_eq!(make(&[&[]]), Ok(()));
    assert_eq!(make(&[&["a.test"], &["*.a.test"]]), Ok(()));
    assert!(make(&[]).unwrap_err().contains("there is none"));
    assert!(make(&[&["a.test"], &["127.0.0.1"]]).unwrap_err().contains("names no host"));
    assert!(make(&[&["a.test"], &["b.test", "A.TEST"]]).unwrap_err().contains("before it too"));
}

#[tokio::test]
async fn a_client_needs_a_certificate_of_the_authority() {
    let (authority, clients, wrong) = (Authority::new(), Authority::new(), Authority::new());
    let ca = clients.client_ca();
    let tls = Tls::new(&[authority.certificate(&["a.test"])], Some(&ca), true).unwrap();
    let server = Server::start(&with(tls), tell);
    for (who, wanted) in [(None, false), (Some(&wrong), false), (Some(&clients), true)] {
        let config = authority.config(&["http/1.1"], who);
        // With TLS 1.3 the client learns of a refusal only when it reads.
        let answer = match connect(&server, &config, "a.test").await {
            Ok(mut stream) => ask(&mut stream).await,
            Err(error) => Err(error),
        };
        assert_eq!(answer.is_ok(), wanted, "{answer:?}");
        let Ok(answer) = answer else { continue };
        for part in ["Some(\"worker-7\")", "[\"worker.test\"]", "[\"spiffe://test/worker\"]"] {
            assert!(answer.contains(part), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_session_is_resumed_only_where_no_certificate_is_asked_for() {
    let authority = Authority::new();
    let certificate = [authority.certificate(&["a.test"])];
    for (ca, wanted) in
        [(None, HandshakeKind::Resumed), (Some(authority.client_ca()), HandshakeKind::Full)]
    {
        let tls = Tls::new(&certificate, ca.as_ref(), true).unwrap();
        let server = Server::start(&Options { workers: 1, ..with(tls) }, ok);
        let config = authority.config(&["http/1.1"], Some(&authority));
        let mut first = connect(&server, &config, "a.test").await.unwrap();
        ask(&mut first).await.unwrap();
        let second = connect(&server, &config, "a.test").await.unwrap();
        assert_eq!(second.get_ref().1.handshake_kind(), Some(wanted));
    }
}

#[tokio::test]
async fn a_slow_handshake_is_closed() {
    let authority = Authority::new();
    let options = Options { header_timeout: SHORT, ..one(&authority) };
    let server = Server::start(&options, ok);
    // The head of a record that holds a hello of 512 bytes, and a part of it.
    for sent in [&[][..], &[22], &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]] {
        let mut client = server.connect().await;
        client.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"", "after {sent:?}");
    }
    for alpn in ["h2", "http/1.1"] {
        let mut silent =
            connect(&server, &authority.config(&[alpn], None), "a.test").await.unwrap();
        let _ = silent.read_to_end(&mut Vec::new()).await;
    }
}

#[tokio::test]
async fn what_is_not_what_was_agreed_on_is_closed() {
    let authority = Authority::new();
    let server = Server::start(&one(&authority), ok);
    for (alpn, sent) in [("h2", GET), ("http/1.1", http2::PREFACE)] {
        let mut stream =
            connect(&server, &authority.config(&[alpn], None), "a.test").await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.windows(4).any(|part| part == b" 200"), "{answer:?}");
    }
    let mut plain = server.connect().await;
    plain.write_all(GET).await.unwrap();
    let mut alert = Vec::new();
    plain.read_to_end(&mut alert).await.unwrap();
    assert_eq!(alert[0], 21, "an alert, and then the end");
}

#[tokio::test]
async fn an_early_answer_is_read_by_a_client_that_sends_everything_first() {
    const SIZE: usize = 20 << 20;
    let authority = Authority::new();
    let server =
        Server::start(&one(&authority), |_| async { Ok(empty(StatusCode::PRECONDITION_FAILED)) });
    let config = authority.config(&["http/1.1"], None);
    let mut stream = connect(&server, &config, "a.test").await.unwrap();
    let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {SIZE}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'x'; SIZE]).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 412 "), "{answer}");
    assert_eq!(server.end().await, [true, true]);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut() {
    let authority = Authority::new();
    let options = Options { client_idle_timeout: SHORT, max_connections: 1, ..one(&authority) };
    let server = Server::start(&options, |request: Request<Incoming>| async move {
        assert_eq!(request.version(), Version::HTTP_11);
        Ok(Response::new(Full::new(Bytes::from(vec![b'x'; 64 << 20]))))
    });
    let config = authority.config(&["http/1.1"], None);
    let mut stuck = connect(&server, &config, "a.test").await.unwrap();
    stuck.write_all(GET).await.unwrap();
    stuck.read_u8().await.unwrap();
    // The one slot is free again only when the first connection was cut.
    connect(&server, &config, "a.test").await.unwrap();
    assert!(stuck.read_to_end(&mut Vec::new()).await.is_err());
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed() {
    let authority = Authority::new();
    let (seen_tx, mut seen) = mpsc::channel::<SocketAddr>(1);
    let server = Server::start(&one(&authority), move |request: Request<Incoming>| {
        let seen = seen_tx.clone();
        async move {
            let peer = request.extensions().get::<Peer>().unwrap().clone();
            seen.send(peer.remote()).await.unwrap();
            peer.gone().await;
            seen.send(peer.remote()).await.unwrap();
            drop(request);
            Ok(empty(StatusCode::OK))
        }
    });
    let config = authority.config(&["http/1.1"], None);
    let mut client = connect(&server, &config, "a.test").await.unwrap();
    let address = client.get_ref().0.local_addr().unwrap();
    let put = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhello";
    client.write_all(put).await.unwrap();
    assert_eq!(seen.recv().await, Some(address));
    drop(client);
    assert_eq!(seen.recv().await, Some(address));
}
