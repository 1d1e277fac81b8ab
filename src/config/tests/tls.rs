//! `[server] tls`, with certificates made for the test.

use std::path::Path;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;

use super::*;

/// A folder with the files that the tests name, written as `DIR` in what they expect.
fn files() -> TempDir {
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(files.path().join(name), text).unwrap();
    for (name, until) in [("a", 2100), ("b", 2100), ("old", 2020), ("new", 2100)] {
        let mut params = CertificateParams::new(vec![format!("{name}.test")]).unwrap();
        params.not_after = date_time_ymd(until, 2, 1);
        if name == "new" {
            params.not_before = date_time_ymd(2099, 2, 1);
        }
        let key = KeyPair::generate().unwrap();
        write(&format!("{name}.pem"), &params.self_signed(&key).unwrap().pem());
        write(&format!("{name}.key"), &key.serialize_pem());
    }
    write("empty", "");
    write("damaged", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    write("nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    fs::create_dir_all(files.path().join("served")).unwrap();
    write("served/a.key", &fs::read_to_string(files.path().join("a.key")).unwrap());
    files
}

fn with(files: &Path, tls: &str) -> String {
    let text = After(13, &format!("[server]\ntls = {tls}")).text();
    let text = text.replace("d/files", "DIR/served").replace("d/fences", "DIR/fences");
    let text = text.replace("//store:9000", "//127.0.0.1:9000");
    text.replace("DIR", files.to_str().unwrap())
}

#[test]
fn good_files_are_read() {
    let files = files();
    let a = "{ certificate = \"DIR/a.pem\", key = \"DIR/a.key\" }";
    let b = "{ certificate = \"DIR/b.pem\", key = \"DIR/b.key\", client_ca = \"DIR/a.pem\" }";
    for tls in [a, b, &format!("[{a}]"), &format!("[{a}, {b}]")] {
        let config = read(&with(files.path(), tls)).unwrap();
        assert!(config.server.tls.is_some() && config.server.http2, "{tls}");
        assert_eq!(config.warnings, []);
    }
    assert!(read(BASE).unwrap().server.tls.is_none());
    let plain = After(13, "[server]\nhttp2 = false").text();
    assert!(!read(&plain).unwrap().server.http2);
}

#[test]
fn each_mistake_in_the_files_has_its_words() {
    let files = files();
    let good = "{ certificate = \"DIR/a.pem\", key = \"DIR/a.key\" }";
    let pem = "name a PEM file with BEGIN CERTIFICATE in it";
    let no_key = "name a PEM file with BEGIN PRIVATE KEY in it, one that is not encrypted";
    let pair = |certificate: &str, key: &str| {
        format!("{{ certificate = \"DIR/{certificate}\", key = \"DIR/{key}\" }}")
    };
    let ca = |name: &str, ca: &str| {
        format!(
            "{{ certificate = \"DIR/{name}.pem\", key = \"DIR/{name}.key\", client_ca = \"DIR/{ca}\" }}"
        )
    };
    for (tls, mistake) in [
        (
            pair("gone", "a.key"),
            format!("certificate: \"DIR/gone\" cannot be read: No such file or directory (os error 2); {pem}"),
        ),
        (
            pair("empty", "a.key"),
            format!("certificate: there is no certificate in \"DIR/empty\"; {pem}"),
        ),
        (
            pair("a.key", "a.key"),
            format!("certificate: there is no certificate in \"DIR/a.key\"; {pem}"),
        ),
        (
            pair("a.pem", "a.pem"),
            format!("key: there is no private key in \"DIR/a.pem\"; {no_key}"),
        ),
        (
            pair("a.pem", "gone"),
            format!("key: \"DIR/gone\" cannot be read: No such file or directory (os error 2); {no_key}"),
        ),
        (
            pair("a.pem", "b.key"),
            "key: the key in \"DIR/b.key\" is not that of \"DIR/a.pem\"; name the key that the \
             certificate was made for"
                .to_owned(),
        ),
        (
            pair("a.pem", "served/a.key"),
            "key: DIR/served/a.key lies in [upstreams.files] directory; keep it where no client can \
             read it"
                .to_owned(),
        ),
        (ca("a", "empty"), format!("client_ca: there is no certificate in \"DIR/empty\"; {pem}")),
        (
            format!("[{}, {}]", ca("a", "a.pem"), ca("b", "b.pem")),
            "client_ca: \"DIR/b.pem\" is not \"DIR/a.pem\" of line 15; write it once, it is for all \
             of them; or use two processes"
                .to_owned(),
        ),
        (
            format!("[{good}, {good}]"),
            "certificate: a name in \"DIR/a.pem\" is in a certificate before it too; let each name \
             be in one certificate, or it is not clear which to show"
                .to_owned(),
        ),
    ] {
        let found = mistakes(&with(files.path(), &tls));
        let found = found.replace(files.path().to_str().unwrap(), "DIR");
        assert_eq!(found, format!("p.toml:15: [server] tls {mistake}"));
    }
    for (certificate, what) in [("damaged", "is damaged: "), ("nonsense", "cannot be used: ")] {
        let found = mistakes(&with(files.path(), &pair(certificate, "a.key")));
        assert!(found.starts_with("p.toml:15: [server] tls certificate: "), "{found}");
        assert!(found.contains(what), "{found}");
    }
}

#[test]
fn a_certificate_out_of_its_time_is_said() {
    let files = files();
    for (name, words) in [
        ("old", "has expired: Feb  1 00:00:00 2020 +00:00; clients refuse it"),
        ("new", "is not valid before Feb  1 00:00:00 2099 +00:00; clients refuse it"),
    ] {
        let tls = format!("{{ certificate = \"DIR/{name}.pem\", key = \"DIR/{name}.key\" }}");
        let warnings = read(&with(files.path(), &tls)).unwrap().warnings;
        let file = files.path().join(format!("{name}.pem"));
        let text = format!("the certificate in \"{}\" {words}", file.display());
        assert_eq!(warnings, [Warning { file: "p.toml".to_owned(), line: 15, text }]);
    }
}
