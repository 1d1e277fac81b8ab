//! `tls` of `[upstreams.NAME]`.

use std::{net::IpAddr, path::PathBuf};

use super::{
    build,
    error::Wrong,
    raw::{Placed, Section},
    url::{Url, host_and_port},
};
use crate::upstream::http::{Tls, TlsError, TlsSetting};

/// How to speak TLS with an upstream, and where the private key lies. Reads the files, so that one
/// that cannot work is a mistake of the configuration.
pub(super) fn tls(url: &Url, section: &mut Section<'_>) -> (Option<Tls>, Option<Placed<PathBuf>>) {
    let Url::Server { host, secure: true, .. } = url else {
        if section.has("tls") {
            let remedy = "write url = \"https://host:port\", or remove it";
            section.error("tls", Wrong::new("it stands beside a url without TLS", remedy));
        }
        return (None, None);
    };
    let secure_line = section.line_of("url");
    let mut table = section.section("tls");
    let mut sound = true;
    let mut file = |key| {
        let found = table.text(key, build::path);
        sound &= found.is_some() || !table.has(key);
        found
    };
    let (ca, certificate, key) = (file("ca"), file("certificate"), file("key"));
    let name = table.text("server_name", server_name);
    sound &= name.is_some() || !table.has("server_name");
    sound &= is_pair(&mut table);
    let path = |file: &'_ Option<Placed<PathBuf>>| file.as_ref().map(|file| file.value.clone());
    let (ca, certificate, key_file) = (path(&ca), path(&certificate), path(&key));
    let name = name.map_or_else(|| host.clone(), |name| name.value);
    let identity = certificate.as_deref().zip(key_file.as_deref());
    let loaded = sound.then(|| Tls::load(&name, ca.as_deref(), identity));
    let tls = match loaded {
        Some(Ok(tls)) => Some(tls),
        Some(Err(error)) => {
            report(&mut table, secure_line, &error);
            None
        }
        None => None,
    };
    table.finish();
    (tls, key)
}

/// A certificate needs its key, and the other way round.
fn is_pair(table: &mut Section<'_>) -> bool {
    let (there, missing) = match (table.has("certificate"), table.has("key")) {
        (true, false) => ("certificate", "key"),
        (false, true) => ("key", "certificate"),
        _ => return true,
    };
    let remedy = format!("write {missing} = \"...\", or remove both");
    table.error(there, Wrong::new(format!("it stands without {missing}"), remedy));
    false
}

/// At the key that is wrong; what is not written comes from the url and the system.
fn report(table: &mut Section<'_>, url_line: usize, error: &TlsError) {
    let key = match error.setting {
        TlsSetting::Ca => "ca",
        TlsSetting::Certificate => "certificate",
        TlsSetting::Key => "key",
        TlsSetting::ServerName => "server_name",
    };
    let wrong = Wrong::new(error.what.clone(), error.remedy);
    if table.has(key) {
        table.error(key, wrong);
    } else {
        table.error_on(url_line, key, wrong);
    }
}

/// A name, or an IP address without brackets; never with a port.
fn server_name(text: &str) -> Result<String, Wrong> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_canonical().to_string());
    }
    let known = host_and_port(text, 443).filter(|_| !text.contains([':', '[']));
    known.map(|(host, _)| host).ok_or_else(|| {
        let what = format!("\"{text}\" is no name of a server");
        Wrong::new(what, "write the name, or the IP address, that its certificate is for")
    })
}
