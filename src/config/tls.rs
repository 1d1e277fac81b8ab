//! `[server] tls`: one table, or a list of them for several certificates.

use std::path::PathBuf;

use super::{
    build::path,
    error::Wrong,
    raw::{Placed, Section},
};
use crate::server::{Certificate, ClientCa, Tls, TlsError, TlsFile};

/// A server's TLS, and what else is to be known of its files.
#[derive(Default)]
pub(super) struct ServerTls {
    pub(super) tls: Option<Tls>,
    pub(super) keys: Vec<Placed<PathBuf>>,
    /// Lines, and what to know of the certificates there.
    pub(super) doubts: Vec<(usize, String)>,
}

/// Reads the tables and the files that they name.
pub(super) fn server(section: &mut Section<'_>, http2: bool) -> ServerTls {
    let mut found = ServerTls::default();
    let Some(tables) = section.tables("tls") else { return found };
    let mut certificates = Vec::new();
    let mut client_ca: Option<Placed<PathBuf>> = None;
    let count = tables.len();
    for mut table in tables {
        certificates.extend(certificate(&mut table, &mut found));
        if let Some(ca) = table.text("client_ca", path) {
            match &client_ca {
                Some(first) if first.value != ca.value => differ(&table, &ca, first),
                Some(_) => {}
                None => client_ca = Some(ca),
            }
        }
        table.finish();
    }
    let authorities = client_ca.map(|ca| {
        let loaded = ClientCa::load(&ca.value);
        loaded.map_err(|error| report(section, ca.line, error))
    });
    // What is missing was reported, and without it the rest cannot be judged.
    let Ok(authorities) = authorities.transpose() else { return found };
    if certificates.len() == count {
        let made = Tls::new(&certificates, authorities.as_ref(), http2);
        let line = section.line_of("tls");
        found.tls = made.map_err(|error| report(section, line, error)).ok();
    }
    found
}

fn certificate(table: &mut Section<'_>, found: &mut ServerTls) -> Option<Certificate> {
    let certificate = file(table, "certificate", "server.pem");
    let key = file(table, "key", "server.key");
    let (certificate, key) = (certificate?, key?);
    let loaded = Certificate::load(&certificate.value, &key.value);
    found.keys.push(Placed { value: key.value, line: key.line });
    match loaded {
        Ok(loaded) => {
            found.doubts.extend(loaded.doubt().map(|doubt| (certificate.line, doubt.to_owned())));
            Some(loaded)
        }
        Err(error) => {
            let line = if error.file == TlsFile::Key { key.line } else { certificate.line };
            table.error_on(line, name(error.file), Wrong::new(error.what, error.remedy));
            None
        }
    }
}

fn file(table: &mut Section<'_>, key: &'static str, example: &str) -> Option<Placed<PathBuf>> {
    if !table.has(key) {
        table.error(key, Wrong::new("it is missing", format!("write {key} = \"{example}\"")));
    }
    table.text(key, path)
}

/// One policy for all names: a client must not get past it by naming another server.
fn differ(table: &Section<'_>, ca: &Placed<PathBuf>, first: &Placed<PathBuf>) {
    let what = format!(
        "\"{}\" is not \"{}\" of line {}",
        ca.value.display(),
        first.value.display(),
        first.line
    );
    let remedy = "write it once, it is for all of them; or use two processes";
    table.error_on(ca.line, "client_ca", Wrong::new(what, remedy));
}

fn report(section: &Section<'_>, line: usize, error: TlsError) {
    let key = format!("tls {}", name(error.file));
    section.error_on(line, &key, Wrong::new(error.what, error.remedy));
}

fn name(file: TlsFile) -> &'static str {
    match file {
        TlsFile::Certificate => "certificate",
        TlsFile::Key => "key",
        TlsFile::ClientCa => "client_ca",
    }
}
