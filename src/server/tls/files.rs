//! Certificates and keys as they lie in PEM files.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use rustls::{
    RootCertStore,
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use x509_parser::{certificate::X509Certificate, prelude::FromDer, time::ASN1Time};

/// Largest file in bytes.
const MAX_FILE: u64 = 4 << 20;

/// A certificate that ends sooner than this is worth a word.
const SOON_DAYS: u64 = 7;

/// Which file a mistake is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TlsFile {
    /// The server's certificate, with those between it and its authority.
    Certificate,
    /// Its private key.
    Key,
    /// The authorities of clients' certificates.
    ClientCa,
}

/// Why a server cannot speak TLS.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct TlsError {
    /// The file that it is in.
    pub file: TlsFile,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl TlsError {
    pub(super) fn new(file: TlsFile, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { file, what: what.into(), remedy: remedy.into() }
    }

    pub(super) fn unusable(file: TlsFile, why: &dyn fmt::Display) -> Self {
        Self::new(file, format!("it cannot be used: {why}"), "make it anew")
    }
}

/// A server's certificate and its key.
#[derive(Clone, Debug)]
pub struct Certificate {
    pub(in crate::server) key: Arc<CertifiedKey>,
    /// The DNS names that it is for, in lower case; `*.` for one label.
    pub(super) names: Vec<String>,
    /// How it is called in messages.
    pub(super) file: String,
    doubt: Option<String>,
}

impl Certificate {
    /// Reads both files.
    ///
    /// # Errors
    /// One that cannot be read or holds nothing of the kind, or a key of another certificate.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = certificates(TlsFile::Certificate, certificate)?;
        let file = certificate.display().to_string();
        let bad = |why: &dyn fmt::Display| {
            let what = format!("the first certificate in \"{file}\" cannot be used: {why}");
            TlsError::new(TlsFile::Certificate, what, "put the server's own certificate first")
        };
        let Some(leaf) = chain.first() else { return Err(bad(&"there is none")) };
        let (names, doubt) = {
            let (_, leaf) = X509Certificate::from_der(leaf).map_err(|error| bad(&error))?;
            (dns_names(&leaf), doubt(&leaf))
        };
        let signing = any_supported_type(&private_key(key)?).map_err(|error| {
            let what = format!("the key in \"{}\" cannot be used: {error}", key.display());
            TlsError::new(TlsFile::Key, what, "use an RSA key from 2048 bits, ECDSA or Ed25519")
        })?;
        let certified = CertifiedKey::new(chain, signing);
        certified.keys_match().map_err(|_| {
            let what = format!("the key in \"{}\" is not that of \"{file}\"", key.display());
            TlsError::new(TlsFile::Key, what, "name the key that the certificate was made for")
        })?;
        let doubt = doubt.map(|doubt| format!("the certificate in \"{file}\" {doubt}"));
        Ok(Self { key: Arc::new(certified), names, file, doubt })
    }

    /// What the operator should know of it now: that its time is over, is near its end, or has not
    /// begun.
    pub fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
    }
}

/// The authorities whose certificates clients may show.
#[derive(Clone, Debug)]
pub struct ClientCa {
    pub(super) roots: Arc<RootCertStore>,
}

impl ClientCa {
    /// Reads the file; all certificates in it are authorities.
    ///
    /// # Errors
    /// It cannot be read, or one of them is no authority.
    pub fn load(file: &Path) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(TlsFile::ClientCa, file)? {
            roots.add(certificate).map_err(|error| {
                let what =
                    format!("a certificate in \"{}\" cannot be used: {error}", file.display());
                TlsError::new(TlsFile::ClientCa, what, "keep only authorities' certificates in it")
            })?;
        }
        Ok(Self { roots: Arc::new(roots) })
    }
}

fn certificates(kind: TlsFile, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let remedy = "name a PEM file with BEGIN CERTIFICATE in it";
    let text = contents(kind, file, remedy)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| {
        TlsError::new(kind, format!("\"{}\" is damaged: {error}", file.display()), remedy)
    })?;
    if found.is_empty() {
        let what = format!("there is no certificate in \"{}\"", file.display());
        return Err(TlsError::new(kind, what, remedy));
    }
    Ok(found)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let remedy = "name a PEM file with BEGIN PRIVATE KEY in it, one that is not encrypted";
    let text = contents(TlsFile::Key, file, remedy)?;
    // What is wrong with a key is not told further: it could say what is in it.
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        let what = format!("there is no private key in \"{}\"", file.display());
        TlsError::new(TlsFile::Key, what, remedy)
    })
}

fn contents(kind: TlsFile, file: &Path, remedy: &str) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|open| open.take(MAX_FILE).read_to_end(&mut bytes));
    let read = read.and_then(|read| match read as u64 {
        MAX_FILE => Err(io::ErrorKind::FileTooLarge.into()),
        _ => Ok(()),
    });
    read.map_err(|error| {
        let what = format!("\"{}\" cannot be read: {error}", file.display());
        TlsError::new(kind, what, remedy)
    })?;
    Ok(bytes)
}

fn dns_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = super::peer::alternative_names(certificate);
    names.dns_names.into_iter().map(|name| name.to_ascii_lowercase()).collect()
}

fn doubt(certificate: &X509Certificate<'_>) -> Option<String> {
    let validity = certificate.validity();
    let now = ASN1Time::now();
    if now < validity.not_before {
        return Some(format!("is not valid before {}; clients refuse it", validity.not_before));
    }
    if now > validity.not_after {
        return Some(format!("has expired: {}; clients refuse it", validity.not_after));
    }
    let left = validity.time_to_expiration()?.whole_days().unsigned_abs();
    (left < SOON_DAYS).then(|| format!("expires soon: {}; renew it", validity.not_after))
}
