//! TLS: authorities made for a test, a blocking client, and stores behind TLS or a Unix socket.

use std::{
    fs,
    io::{self, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned,
    SupportedProtocolVersion,
    crypto::ring,
    pki_types::{PrivateKeyDer, ServerName},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncWriteExt, copy, copy_bidirectional, split},
    net::{TcpListener, UnixListener},
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{
    Framing,
    client::{Request, Response},
    config::Value,
    http2::{Http2, runtime},
    message::Head,
    wait::DEADLINE,
};

/// An authority, and the files of what it signed.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    files: TempDir,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let files = tempfile::tempdir().unwrap();
        fs::write(files.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, files }
    }

    /// The file of its own certificate.
    pub fn file(&self) -> String {
        self.path("ca.pem")
    }

    /// The files of a certificate for a name, and of its key.
    pub fn files(&self, name: &str) -> (String, String) {
        self.certificate(&[name], &[]);
        (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")))
    }

    /// A certificate for these names: the `tls` of a configuration, with more in it.
    pub fn certificate(&self, names: &[&str], more: &[(&str, &str)]) -> Value {
        let (certificate, key) = self.sign(names);
        let (at, key_at) = (format!("{}.pem", names[0]), format!("{}.key", names[0]));
        fs::write(self.files.path().join(&at), certificate.pem()).unwrap();
        fs::write(self.files.path().join(&key_at), key.serialize_pem()).unwrap();
        let (at, key_at) = (self.path(&at), self.path(&key_at));
        Value::table(&[&[("certificate", at.as_str()), ("key", &key_at)], more].concat())
    }

    /// A client that believes this authority, offers these protocols, and has a certificate of
    /// another.
    pub fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        alpn: &[&str],
        identity: Option<&Self>,
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let (certificate, key) = authority.sign(&["worker.test"]);
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                config.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// A server with a certificate for this name, which demands one of `clients`.
    pub fn server(&self, name: &str, clients: Option<&Self>) -> Arc<ServerConfig> {
        let (certificate, key) = self.sign(&[name]);
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let verifier = match clients {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.issuer.der().clone()).unwrap();
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
                    .build()
                    .unwrap()
            }
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Arc::new(config)
    }

    fn sign(&self, names: &[&str]) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(|name| (*name).to_string()).collect();
        let params = CertificateParams::new(names).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }
}

/// A client's connection.
pub struct TlsClient(StreamOwned<ClientConnection, TcpStream>);

impl TlsClient {
    /// Shakes hands, asking for a server of this name; an address asks for none.
    pub fn connect(to: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> io::Result<Self> {
        let mut stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let name = ServerName::try_from(name.to_string()).unwrap();
        let mut connection = ClientConnection::new(config.clone(), name).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(Self(StreamOwned::new(connection, stream)))
    }

    /// What both sides have agreed to speak.
    pub fn alpn(&self) -> &str {
        str::from_utf8(self.0.conn.alpn_protocol().unwrap_or_default()).unwrap()
    }

    /// Sends bytes, and reads what is told until the connection's end.
    pub fn tell(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut told = Vec::new();
        // A side that has gone needs no more bytes; what it has said is read all the same.
        let _ = self.0.write_all(bytes);
        if let Err(error) = self.0.read_to_end(&mut told) {
            let ended = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
            assert!(ended.contains(&error.kind()), "the connection is kept: {error}");
        }
        told
    }

    /// Sends a request and reads its answer, by HTTP/1.1.
    pub fn send(&mut self, request: &Request) -> io::Result<Response> {
        self.0.write_all(&request.bytes())?;
        self.0.flush()?;
        let mut from = BufReader::new(&mut self.0);
        let head = Head::read(&mut from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut body = Vec::new();
        let framing = head.framing(false);
        assert_ne!(framing, Framing::UntilClose, "{head:?}");
        let whole = framing.read(&mut from, &mut |bytes| body.extend_from_slice(bytes)).is_ok();
        Ok(Response { head, body, whole, interim: Vec::new() })
    }
}

/// HTTP/2 over TLS.
pub fn http2_over_tls(to: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> Http2 {
    let connector = TlsConnector::from(config.clone());
    let name = ServerName::try_from(name.to_string()).unwrap();
    Http2::over("https", async move {
        let stream = tokio::net::TcpStream::connect(to).await.unwrap();
        let stream = connector.connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        stream
    })
}

/// How the end of a store's connection shows behind TLS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ends {
    /// By a `close_notify`.
    Told,
    /// By TCP alone, as if somebody in between had cut it.
    Cut,
}

/// Puts TLS before a store; answers with the address.
pub fn behind_tls(store: SocketAddr, config: Arc<ServerConfig>, ends: Ends) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(config);
    runtime().spawn(async move {
        let listener = TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut tls = acceptor.accept(stream).await?;
                let mut plain = tokio::net::TcpStream::connect(store).await?;
                if ends == Ends::Told {
                    return copy_bidirectional(&mut tls, &mut plain).await.map(drop);
                }
                let (mut from_tls, mut to_tls) = split(tls);
                let (mut from_plain, mut to_plain) = plain.split();
                tokio::select! {
                    copied = copy(&mut from_plain, &mut to_tls) => copied?,
                    copied = copy(&mut from_tls, &mut to_plain) => copied?,
                };
                to_tls.flush().await
            });
        }
    });
    addr
}

/// Puts a Unix socket before a store.
pub fn behind_socket(store: SocketAddr, path: &Path) {
    let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    listener.set_nonblocking(true).unwrap();
    runtime().spawn(async move {
        let listener = UnixListener::from_std(listener).unwrap();
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut plain = tokio::net::TcpStream::connect(store).await?;
                copy_bidirectional(&mut stream, &mut plain).await
            });
        }
    });
}
