//! What both sides have agreed on is what is spoken.

use rustls::version::{TLS12, TLS13};

use super::put_at;
use crate::harness::{Backend, Palisade, endless, tls::Authority, tls::TlsClient};

const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// HTTP/1.1 where HTTP/2 was agreed on, and the other way about, reach nobody; nor is there a
/// protocol that nobody knows.
#[test]
fn what_was_agreed_on_is_spoken() {
    let (backend, authority) = (Backend::start(), Authority::new("authority"));
    let tls = authority.certificate(&["a.test"], &[]);
    let palisade = Palisade::start(&endless(backend.addr()).server("tls", tls));
    for version in [&TLS13, &TLS12] {
        let connect = |alpn: &str| {
            let client = authority.client(&[version], &[alpn], None);
            TlsClient::connect(palisade.addr(), &client, "a.test")
        };
        assert!(connect("http/1.0").is_err(), "{version:?}");
        let told = connect("h2").unwrap().tell(&put_at("a.test", "/k", "9").bytes());
        assert!(!told.windows(5).any(|word| word == b"HTTP/"), "{version:?}: {told:?}");
        let told = connect("http/1.1").unwrap().tell(PREFACE.as_bytes());
        assert!(told.is_empty() || told.starts_with(b"HTTP/1.1 400 "), "{version:?}: {told:?}");
    }
    assert!(backend.log().arrivals().is_empty());
    palisade.until_quiet();
}
