//! TLS towards clients: TLS 1.2 and 1.3, certificates by server name, client certificates.
//!
//! It owns one policy for all addresses of a server, so that a session made under one can never be
//! resumed under another. No early data. Where client certificates are asked for, no session is
//! resumed at all: each connection is judged by its certificate as it is now.

mod files;
mod names;
mod peer;

pub use files::{Certificate, ClientCa, TlsError, TlsFile};
pub use peer::{ClientCertificate, TlsPeer};

use std::{io, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    server::{
        NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier,
    },
    version::{TLS12, TLS13},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use self::names::Names;
use super::socket::ClientIo;

/// What a server shows its clients, and what it asks of them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
}

impl Tls {
    /// The policy of a server with these certificates. The first is for clients that name no
    /// server. A name that none of several certificates holds is refused; a lone certificate is
    /// shown whatever the name. With a `client_ca` every client needs a certificate of it.
    ///
    /// # Errors
    /// No certificate, two for one name, or one beside others that no name leads to.
    pub fn new(
        certificates: &[Certificate],
        client_ca: Option<&ClientCa>,
        http2: bool,
    ) -> Result<Self, TlsError> {
        let names = Names::new(certificates)?;
        let clients = match client_ca {
            Some(ca) => verifier(ca)?,
            None => Arc::new(NoClientAuth),
        };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| TlsError::unusable(TlsFile::Certificate, &error))?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(names));
        config.max_early_data_size = 0;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if http2 {
            config.alpn_protocols.insert(0, b"h2".to_vec());
        }
        if client_ca.is_some() {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self { config: Arc::new(config) })
    }

    /// Shakes hands. The socket comes back with the reason where that fails; it has no time-out.
    pub(super) async fn accept(
        &self,
        io: ClientIo,
    ) -> Result<TlsStream<ClientIo>, (io::Error, ClientIo)> {
        TlsAcceptor::from(Arc::clone(&self.config)).accept(io).into_fallible().await
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn verifier(ca: &ClientCa) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    WebPkiClientVerifier::builder_with_provider(Arc::clone(&ca.roots), provider())
        .build()
        .map_err(|error| TlsError::unusable(TlsFile::ClientCa, &error))
}
