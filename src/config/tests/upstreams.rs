//! What an upstream may be, and how it is reached.

use std::{fs, path::PathBuf};

use rcgen::{CertificateParams, KeyPair};

use super::*;
use crate::upstream::Kind;

fn upstream(text: &str) -> upstream::Options {
    read(text).unwrap().upstreams.remove(1)
}

#[test]
fn a_unix_socket_is_an_upstream() {
    let config =
        read(&BASE.replace("http://store:9000", "unix:/nonexistent/./store.sock")).unwrap();
    let socket = PathBuf::from("/nonexistent/./store.sock");
    assert_eq!(config.upstreams[1].kind, Kind::Unix { socket });
    assert!(config.upstreams[1].tls.is_none());
    assert_eq!(config.store.upstreams[1].address, "unix:/nonexistent/store.sock");

    let longest = |length: usize| {
        BASE.replace("http://store:9000", &format!("unix:/{}", "x".repeat(length - 1)))
    };
    assert_eq!(mistakes(&longest(107)), "");
    assert!(
        mistakes(&longest(108)).ends_with("more than 107 bytes; move the socket to a shorter path")
    );
    let without = BASE.replace("http://store:9000", "unix:/s").replace("max_write_lifetime", "#");
    assert!(mistakes(&without).contains("max_write_lifetime: it is missing"));
}

/// R11: links are followed before sockets are compared.
#[test]
fn one_socket_by_two_names_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("real")).unwrap();
    std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
    let text = |first: &str, second: &str| {
        let url = |name: &str| format!("url = \"unix:{}\"", at(name).display());
        let first = BASE.replace("url = \"http://store:9000\"", &url(first));
        first + &format!("[upstreams.two]\n{}\nmax_write_lifetime = \"1s\"\n", url(second))
    };
    assert_eq!(mistakes(&text("real/a", "link/b")), "");
    assert!(mistakes(&text("real/a", "link/a")).contains("is upstream \"http\" already"));
}

/// R11: the one name that means the same everywhere. Others are the operator's to know.
#[test]
fn localhost_is_its_address() {
    let text = |first: &str, second: &str| {
        let first = BASE.replace("http://store:9000", first);
        first + &format!("[upstreams.two]\nurl = \"{second}\"\nmax_write_lifetime = \"1s\"\n")
    };
    for (first, second, same) in [
        ("http://localhost:9000", "http://127.0.0.1:9000", true),
        ("http://127.0.0.1:9000", "https://LocalHost:9000", true),
        ("http://[::1]", "http://localhost", true),
        ("http://localhost:9000", "http://127.0.0.1:9001", false),
        ("http://127.0.0.2:9000", "http://localhost:9000", false),
        ("http://127.0.0.1:9000", "http://[::1]:9000", false),
        ("http://store:9000", "http://localhost:9000", false),
    ] {
        let found = mistakes(&text(first, second));
        assert_eq!(
            found.contains("is upstream \"http\" already"),
            same,
            "{first} {second}: {found}"
        );
    }
}

#[test]
fn the_host_that_is_sent_is_kept_as_it_is_written() {
    assert_eq!(upstream(BASE).host, None);
    for host in ["Store.Internal", "store:9000", "[::1]:80"] {
        let text = After(7, &format!("host = \"{host}\"")).text();
        assert_eq!(upstream(&text).host.unwrap(), host);
    }
    let both = After(7, "host = \"a\"\nstore_honours = \"query.v\"").text();
    assert_eq!(mistakes(&both), "");
}

#[test]
fn an_https_url_has_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["store".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    let file = |name: &str, content: String| {
        fs::write(folder.path().join(name), content).unwrap();
        folder.path().join(name).display().to_string()
    };
    let (pem, key) = (file("pem", certificate.pem()), file("key", key.serialize_pem()));
    let tls = format!(
        "tls = {{ ca = \"{pem}\", certificate = \"{pem}\", key = \"{key}\", server_name = \"s.example\" }}"
    );
    let text =
        |url: &str| BASE.replace("url = \"http://store:9000\"", &format!("url = \"{url}\"\n{tls}"));
    for (url, port) in
        [("https://store", 443), ("HTTPS://store:9000", 9000), ("https://[::1]", 443)]
    {
        let options = upstream(&text(url));
        assert!(matches!(options.kind, Kind::Http { port: found, .. } if found == port), "{url}");
        assert!(format!("{:?}", options.tls.unwrap()).contains("s.example"));
    }
    // The name that is checked is the url's, where no other is written.
    let plain = text("https://Store").replace(", server_name = \"s.example\"", "");
    assert!(format!("{:?}", upstream(&plain).tls.unwrap()).contains("\"store\""));
    // One server is one store, with and without TLS.
    let config = read(&text("https://store:9000")).unwrap();
    assert_eq!(config.store.upstreams[1].address, "http://store:9000");

    let served = text("https://store").replace("d/files", folder.path().to_str().unwrap());
    let found = mistakes(&served);
    assert!(
        found.contains("[upstreams.http.tls] key: ")
            && found.contains("lies in [upstreams.files] directory"),
        "{found}"
    );
}
