//! TLS to the store: who it must be, who we are, and what is wrong when it does not come about.
//!
//! TLS 1.2 and 1.3 with HTTP/1.1 alone, and never early data: a request must not be sent twice (R7).

use std::{fmt, io, path::Path, sync::Arc};

use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, RootCertStore,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName,
        pem::{self, PemObject},
    },
    version::{TLS12, TLS13},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::socket::Io;

/// How to speak TLS with one upstream.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Which setting is wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TlsSetting {
    /// The roots that are trusted; those of the system where the setting is not there.
    Ca,
    /// Our certificate.
    Certificate,
    /// Our private key.
    Key,
    /// The name that the upstream's certificate must be for.
    ServerName,
}

/// Settings that cannot work.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct TlsError {
    /// The setting.
    pub setting: TlsSetting,
    /// What is wrong with it.
    pub what: String,
    /// What to do about it.
    pub remedy: &'static str,
}

impl TlsError {
    fn new(setting: TlsSetting, what: impl Into<String>, remedy: &'static str) -> Self {
        Self { setting, what: what.into(), remedy }
    }
}

impl Tls {
    /// Reads the files. `name` is what the upstream's certificate must be for, a name or an
    /// address; `ca` holds the roots to trust, else the system's are; `identity` are our
    /// certificate, with its chain, and its key. Blocks on the disk.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn load(
        name: &str,
        ca: Option<&Path>,
        identity: Option<(&Path, &Path)>,
    ) -> Result<Self, TlsError> {
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            let what = format!("\"{name}\" is no name that a certificate could be for");
            TlsError::new(TlsSetting::ServerName, what, "write a DNS name or an IP address")
        })?;
        let roots = ca.map_or_else(system_roots, roots)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| TlsError::new(TlsSetting::Ca, error.to_string(), ""))?
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate, TlsSetting::Certificate)?;
                let unfit = |error| unfit(certificate, key, &error);
                builder.with_client_auth_cert(chain, private_key(key)?).map_err(unfit)?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.enable_early_data = false;
        Ok(Self { config: Arc::new(config), name })
    }

    /// The handshake, without a time-out.
    pub(super) async fn connect<S: Io>(&self, stream: S) -> io::Result<TlsStream<S>> {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        connector.connect(self.name.clone(), stream).await
    }

    /// Why a handshake failed, in words that say what to do.
    pub(super) fn explain(&self, error: &io::Error) -> String {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
        match cause {
            Some(Error::InvalidCertificate(wrong)) => certificate_wrong(wrong, &self.name),
            Some(Error::InvalidMessage(_)) => {
                "the upstream does not answer in TLS; is it http?".to_owned()
            }
            Some(Error::AlertReceived(alert)) => alert_words(*alert),
            Some(Error::NoCertificatesPresented) => "it presents no certificate".to_owned(),
            Some(other) => other.to_string(),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                "the upstream ended the connection in the handshake; does it speak TLS?".to_owned()
            }
            None => format!("the handshake broke off: {error}"),
        }
    }
}

/// Nothing of the key or the certificates.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

fn certificate_wrong(wrong: &CertificateError, name: &ServerName<'_>) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
        NotValidYet, NotValidYetContext, UnknownIssuer,
    };
    let name = name.to_str();
    // A root that was renewed under its old name shows as a bad signature.
    if matches!(wrong, UnknownIssuer | BadSignature) {
        return "its certificate is signed by no root that is trusted here; name its root in tls \
                = { ca = \"...\" }"
            .to_owned();
    }
    if let NotValidForNameContext { presented, .. } = wrong {
        let presented = presented.join(", ");
        return format!(
            "its certificate is for {presented}, not for {name}; where that is the store, write \
             tls = {{ server_name = \"...\" }}"
        );
    }
    if matches!(wrong, NotValidForName) {
        return format!("its certificate is not for {name}");
    }
    if matches!(wrong, Expired | ExpiredContext { .. }) {
        return "its certificate has expired".to_owned();
    }
    if matches!(wrong, NotValidYet | NotValidYetContext { .. }) {
        return "its certificate is not valid yet; is the clock right?".to_owned();
    }
    format!("its certificate is not accepted: {wrong}")
}

fn alert_words(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    if alert == Alert::CertificateRequired {
        return "it demands a client certificate; write tls = { certificate = \"...\", key = \
                \"...\" }"
            .to_owned();
    }
    if alert == Alert::NoApplicationProtocol {
        return "it does not speak HTTP/1.1 over TLS".to_owned();
    }
    let ours = [
        Alert::BadCertificate,
        Alert::UnsupportedCertificate,
        Alert::CertificateRevoked,
        Alert::CertificateExpired,
        Alert::CertificateUnknown,
        Alert::UnknownCA,
        Alert::AccessDenied,
    ];
    if ours.contains(&alert) {
        return format!("it refuses our client certificate: {alert:?}");
    }
    format!("it refuses the handshake: {alert:?}")
}

/// What a failed exchange says of TLS, where that was the reason: with TLS 1.3 a client certificate
/// is refused only after the handshake.
pub(super) fn refused_later(error: &io::Error) -> Option<String> {
    let cause = error.get_ref()?.downcast_ref::<Error>()?;
    let Error::AlertReceived(alert) = cause else { return None };
    Some(alert_words(*alert))
}

fn roots(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file, TlsSetting::Ca)? {
        roots.add(certificate).map_err(|error| {
            let what =
                format!("\"{}\" holds a certificate that is no root: {error}", file.display());
            TlsError::new(TlsSetting::Ca, what, "write the roots' certificates into it, as PEM")
        })?;
    }
    Ok(roots)
}

/// Some of a system's roots may be too odd to read; none at all trusts nobody.
fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let remedy = "install the system's ca-certificates, or name the roots with ca = \"...\"";
        return Err(TlsError::new(TlsSetting::Ca, "this system trusts no roots", remedy));
    }
    Ok(roots)
}

fn certificates(
    file: &Path,
    setting: TlsSetting,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unreadable(file, setting, &error))?;
    if found.is_empty() {
        return Err(unreadable(file, setting, &pem::Error::NoItemsFound));
    }
    Ok(found)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| unreadable(file, TlsSetting::Key, &error))
}

/// What stands in the file is not repeated: it may be a key.
fn unreadable(file: &Path, setting: TlsSetting, error: &pem::Error) -> TlsError {
    let file = file.display();
    let thing = match setting {
        TlsSetting::Key => "private key",
        TlsSetting::Ca | TlsSetting::Certificate | TlsSetting::ServerName => "certificate",
    };
    let what = if let pem::Error::Io(error) = error {
        format!("\"{file}\" cannot be read: {error}")
    } else if let pem::Error::NoItemsFound = error {
        format!("\"{file}\" holds no {thing}")
    } else {
        format!("\"{file}\" is no PEM file")
    };
    let remedy = match setting {
        TlsSetting::Key => "name a PEM file with a private key that is not encrypted",
        TlsSetting::Ca | TlsSetting::Certificate | TlsSetting::ServerName => {
            "name a PEM file with certificates, which palisade may read"
        }
    };
    TlsError::new(setting, what, remedy)
}

fn unfit(certificate: &Path, key: &Path, error: &Error) -> TlsError {
    let (certificate, key) = (certificate.display(), key.display());
    if matches!(error, Error::InconsistentKeys(_)) {
        let what = format!("\"{key}\" is not the key of \"{certificate}\"");
        return TlsError::new(TlsSetting::Key, what, "name the key that the certificate is for");
    }
    if matches!(error, Error::InvalidCertificate(_)) {
        let what = format!("\"{certificate}\" holds a broken certificate: {error}");
        let remedy = "name a PEM file with our certificate, and after it its chain";
        return TlsError::new(TlsSetting::Certificate, what, remedy);
    }
    let what = format!("\"{key}\" holds a key of no kind that is known: {error}");
    TlsError::new(TlsSetting::Key, what, "use an ECDSA, Ed25519 or RSA key")
}
