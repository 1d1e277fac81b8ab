//! Certificates made for the day, the servers that show them, and our settings for them.

use std::{fs, path::PathBuf, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::{
    ServerConfig, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
    version::{TLS12, TLS13},
};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

use crate::upstream::http::Tls;

/// A certificate authority, and a folder of files for us to be configured with.
pub(super) struct World {
    pub(super) authority: CertifiedIssuer<'static, KeyPair>,
    pub(super) folder: TempDir,
}

pub(super) struct Identity {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) certificate_file: PathBuf,
    pub(super) key_file: PathBuf,
}

impl World {
    pub(super) fn new() -> Self {
        Self::under("the authority")
    }

    pub(super) fn under(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca"), authority.pem()).unwrap();
        Self { authority, folder }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn identity(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        let file = |extension: &str, content: String| {
            let file = self.file(&format!("{name}.{extension}"));
            fs::write(&file, content).unwrap();
            file
        };
        Identity {
            certificate_file: file("pem", certificate.pem()),
            key_file: file("key", key.serialize_pem()),
            certificate: certificate.der().clone(),
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }

    /// Trusting this authority alone.
    pub(super) fn tls(&self, name: &str) -> Tls {
        Tls::load(name, Some(&self.file("ca")), None).unwrap()
    }
}

pub(super) fn server(identity: Identity, change: impl FnOnce(&mut ServerConfig)) -> TlsAcceptor {
    server_of(&[&TLS13, &TLS12], identity, change)
}

pub(super) fn server_of(
    versions: &[&'static SupportedProtocolVersion],
    identity: Identity,
    change: impl FnOnce(&mut ServerConfig),
) -> TlsAcceptor {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth();
    let mut config = builder.with_single_cert(vec![identity.certificate], identity.key).unwrap();
    change(&mut config);
    TlsAcceptor::from(Arc::new(config))
}
