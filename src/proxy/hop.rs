//! The hop by which a request came: who sent it, and over what.
//!
//! It owns what the connection says of a request, as opposed to its fields. It trusts nobody.

use std::net::IpAddr;

use http::{HeaderValue, Uri, uri::Scheme};

use super::refusal::Refusal;
use crate::server::Peer;

/// The connection that a request came by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hop<'a> {
    /// The other end; `None` where it is not known.
    pub remote: Option<Remote<'a>>,
    /// `None` on a plain connection.
    pub tls: Option<Tls<'a>>,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Remote<'a> {
    /// Its address.
    pub ip: IpAddr,
    /// The same as text.
    pub text: &'a HeaderValue,
}

/// What a TLS handshake said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tls<'a> {
    /// The name that the client asked for (SNI); `None` where it asked for none.
    pub server_name: Option<&'a str>,
}

impl<'a> Hop<'a> {
    /// What the server knows of the other end; a request that nobody has sent yet has none.
    pub fn of(peer: Option<&'a Peer>) -> Self {
        let tls = peer.and_then(Peer::tls);
        Self {
            remote: peer.map(|peer| Remote { ip: peer.ip(), text: peer.ip_text() }),
            tls: tls.map(|tls| Tls { server_name: tls.server_name() }),
        }
    }

    /// Checks the scheme of a target that names one.
    ///
    /// # Errors
    /// [`Refusal::BadRequest`]: it is not the connection's.
    pub fn check_scheme(&self, uri: &Uri) -> Result<(), Refusal> {
        let own = if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        match uri.scheme() {
            Some(scheme) if *scheme != own => {
                Err(Refusal::BadRequest("the target's scheme is not the connection's"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a request is for the host that the connection was made to: the connection's
    /// certificates and demands are that host's. `host` is without its port.
    ///
    /// # Errors
    /// [`Refusal::Misdirected`].
    pub fn check_server_name(&self, host: &str) -> Result<(), Refusal> {
        let Some(name) = self.tls.and_then(|tls| tls.server_name) else { return Ok(()) };
        let host = host.strip_suffix('.').unwrap_or(host);
        if name.eq_ignore_ascii_case(host) { Ok(()) } else { Err(Refusal::Misdirected) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(server_name: Option<&str>) -> Hop<'_> {
        Hop { remote: None, tls: Some(Tls { server_name }) }
    }

    #[test]
    fn a_request_is_for_the_host_that_the_connection_was_made_to() {
        for (name, host, fits) in [
            (Some("a.example"), "a.example", true),
            (Some("A.Example"), "a.example", true),
            (Some("a.example"), "a.example.", true),
            (Some("a.example"), "b.example", false),
            (Some("a.example"), "www.a.example", false),
            (Some("a.example"), "127.0.0.1", false),
            (None, "b.example", true),
        ] {
            assert_eq!(over(name).check_server_name(host).is_ok(), fits, "{name:?} {host}");
        }
        assert!(Hop::default().check_server_name("b.example").is_ok(), "a plain connection");
    }

    #[test]
    fn a_scheme_is_the_connections() {
        for (uri, plain, tls) in [
            ("/k", true, true),
            ("http://a/k", true, false),
            ("https://a/k", false, true),
            ("HTTP://a/k", true, false),
            ("ftp://a/k", false, false),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(Hop::default().check_scheme(&uri).is_ok(), plain, "{uri}");
            assert_eq!(over(None).check_scheme(&uri).is_ok(), tls, "{uri}");
        }
    }
}
