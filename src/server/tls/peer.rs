//! What a handshake tells of the client.

use std::net::IpAddr;

use rustls::{ServerConnection, pki_types::CertificateDer};
use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, ParsedExtension},
    prelude::FromDer,
};

/// A client's side of a TLS connection.
#[derive(Clone, Debug)]
pub struct TlsPeer {
    server_name: Option<String>,
    certificate: Option<ClientCertificate>,
}

impl TlsPeer {
    pub(in crate::server) fn of(session: &ServerConnection) -> Self {
        let chain = session.peer_certificates();
        Self {
            server_name: session.server_name().map(str::to_ascii_lowercase),
            certificate: chain.and_then(<[_]>::first).map(ClientCertificate::of),
        }
    }

    /// The server's name that it asked for (SNI), in lower case.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// Its certificate, which was verified: there is none where none is asked for.
    pub fn certificate(&self) -> Option<&ClientCertificate> {
        self.certificate.as_ref()
    }
}

/// Whom a client's certificate is for, as its authority wrote it. What cannot be read as text, or
/// is there twice where one is wanted, is left out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClientCertificate {
    /// The subject's common name.
    pub common_name: Option<String>,
    /// Alternative names of the kind DNS.
    pub dns_names: Vec<String>,
    /// Those of the kind URI, such as SPIFFE identities.
    pub uris: Vec<String>,
    /// Those of the kind email.
    pub emails: Vec<String>,
    /// Those of the kind IP address.
    pub addresses: Vec<IpAddr>,
}

impl ClientCertificate {
    fn of(der: &CertificateDer<'static>) -> Self {
        let Ok((_, certificate)) = X509Certificate::from_der(der) else { return Self::default() };
        let mut names = certificate.subject().iter_common_name();
        let common_name = match (names.next(), names.next()) {
            (Some(name), None) => name.as_str().ok().and_then(text),
            _ => None,
        };
        Self { common_name, ..alternative_names(&certificate) }
    }
}

/// A certificate's alternative names; no common name.
pub(super) fn alternative_names(certificate: &X509Certificate<'_>) -> ClientCertificate {
    let mut found = ClientCertificate::default();
    for extension in certificate.extensions() {
        let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
            continue;
        };
        for name in &names.general_names {
            add(&mut found, name);
        }
    }
    found
}

#[expect(clippy::wildcard_enum_match_arm, reason = "foreign; the other kinds name nobody here")]
fn add(found: &mut ClientCertificate, name: &GeneralName<'_>) {
    match name {
        GeneralName::DNSName(name) => found.dns_names.extend(text(name)),
        GeneralName::URI(name) => found.uris.extend(text(name)),
        GeneralName::RFC822Name(name) => found.emails.extend(text(name)),
        GeneralName::IPAddress(bytes) => found.addresses.extend(address(bytes)),
        _ => {}
    }
}

/// A name with a control character in it is made to deceive.
fn text(name: &str) -> Option<String> {
    (!name.is_empty() && !name.chars().any(char::is_control)).then(|| name.to_owned())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}
