//! Which certificate a client is shown.

use std::{collections::HashMap, sync::Arc};

use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::files::{Certificate, TlsError, TlsFile};

/// Certificates by the server's name that a client asks for.
#[derive(Debug)]
pub(super) struct Names {
    /// For a client that names no server.
    first: Arc<CertifiedKey>,
    /// There is no other.
    lone: bool,
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// `b.c` of `*.b.c`, which is for `a.b.c` alone.
    below: HashMap<String, Arc<CertifiedKey>>,
}

impl Names {
    pub(super) fn new(certificates: &[Certificate]) -> Result<Self, TlsError> {
        let Some(first) = certificates.first() else {
            let remedy = "name a certificate and its key";
            return Err(TlsError::new(TlsFile::Certificate, "there is none", remedy));
        };
        let (first, lone) = (Arc::clone(&first.key), certificates.len() == 1);
        let mut names = Self { first, lone, exact: HashMap::new(), below: HashMap::new() };
        if !lone {
            names.add_all(certificates)?;
        }
        Ok(names)
    }

    fn add_all(&mut self, certificates: &[Certificate]) -> Result<(), TlsError> {
        for certificate in certificates {
            if certificate.names.is_empty() {
                let what = format!("the certificate in \"{}\" names no host", certificate.file);
                let remedy = "make one with DNS names (subjectAltName), by which it is chosen";
                return Err(TlsError::new(TlsFile::Certificate, what, remedy));
            }
            for name in &certificate.names {
                let (names, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut self.below, parent),
                    None => (&mut self.exact, name.as_str()),
                };
                let key = Arc::clone(&certificate.key);
                let other = names.insert(name.to_owned(), Arc::clone(&key));
                // A certificate may name a host twice.
                if other.is_some_and(|other| !Arc::ptr_eq(&other, &key)) {
                    let file = &certificate.file;
                    let what = format!("a name in \"{file}\" is in a certificate before it too");
                    let remedy =
                        "let each name be in one certificate, or it is not clear which to show";
                    return Err(TlsError::new(TlsFile::Certificate, what, remedy));
                }
            }
        }
        Ok(())
    }

    fn find(&self, name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let Some(name) = name.filter(|_| !self.lone) else { return Some(&self.first) };
        let name = name.to_ascii_lowercase();
        let below = || self.below.get(name.split_once('.')?.1);
        self.exact.get(&name).or_else(below)
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.find(hello.server_name()).cloned()
    }
}
