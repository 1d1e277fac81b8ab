//! Which admin listener is asked, and with which token.

use std::{
    env, fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

use super::{Fault, Listener, fault::reason};
use crate::config;

/// Where a token is looked for.
const TOKEN_VARIABLE: &str = "PALISADE_ADMIN_TOKEN";

/// An admin listener.
#[derive(Debug)]
pub(super) struct Target {
    /// Name or address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Who says so, for messages.
    pub(super) origin: String,
    pub(super) token: Option<Token>,
}

/// A bearer token, and where it comes from, for messages.
pub(super) struct Token {
    pub(super) secret: String,
    pub(super) origin: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Target {
    /// The one that the flags name, else the configuration's.
    pub(super) fn find(listener: &Listener) -> Result<Self, Fault> {
        let named = given_token(listener.token_file.as_deref())?;
        match &listener.admin {
            Some(url) => {
                let (host, port) = read(url).ok_or_else(|| {
                    let what = format!("--admin {url} names no admin listener");
                    Fault::usage(what, "write http://HOST:PORT, as in http://127.0.0.1:9180")
                })?;
                Ok(Self { host, port, origin: "--admin".into(), token: named })
            }
            None => Self::configured(listener, named),
        }
    }

    /// How it is written.
    pub(super) fn url(&self) -> String {
        if self.host.contains(':') {
            format!("http://[{}]:{}", self.host, self.port)
        } else {
            format!("http://{}:{}", self.host, self.port)
        }
    }

    /// The token of the file goes to the listener of the file only.
    fn configured(listener: &Listener, named: Option<Token>) -> Result<Self, Fault> {
        let config = config::load(listener.config.config.as_deref()).map_err(|errors| {
            let what = format!("the configuration does not say where to ask\n{errors}");
            Fault::failed(what, "mend it, or name the admin listener with --admin http://HOST:PORT")
        })?;
        let file = config.file;
        let Some(admin) = config.admin else {
            let what = format!("{file} has no [admin] section: its palisade cannot be asked");
            return Err(Fault::failed(what, "add one, or name a listener with --admin"));
        };
        if admin.listen.port() == 0 {
            let what = format!("{file} leaves the admin listener's port to the system");
            return Err(Fault::failed(what, "its log says which; name it with --admin"));
        }
        let own = admin.token.map(|secret| Token { secret, origin: format!("{file} token_file") });
        let address = reachable(admin.listen);
        Ok(Self {
            host: address.ip().to_string(),
            port: address.port(),
            origin: format!("[admin] listen, {file}"),
            token: named.or(own),
        })
    }
}

/// `http://HOST[:PORT]`, a slash after it or not.
fn read(url: &str) -> Option<(String, u16)> {
    let authority = url.strip_prefix("http://")?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (authority, 80),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().ok()?.to_string(),
        None if !host.is_empty() && host.chars().all(plain) => host.to_owned(),
        None => return None,
    };
    (port != 0).then_some((host, port))
}

/// "Every address" is none to connect to.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let loopback: IpAddr =
        if listen.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    let ip = if listen.ip().is_unspecified() { loopback } else { listen.ip() };
    SocketAddr::new(ip, listen.port())
}

fn given_token(file: Option<&Path>) -> Result<Option<Token>, Fault> {
    let (text, origin) = match file {
        Some(file) => {
            let text = fs::read_to_string(file).map_err(|error| {
                let what = format!("--token-file {}: {}", file.display(), reason(&error));
                Fault::failed(what, "name a file that exists and may be read")
            })?;
            (text, format!("--token-file {}", file.display()))
        }
        None => match env::var(TOKEN_VARIABLE) {
            Ok(text) if !text.is_empty() => (text, TOKEN_VARIABLE.to_owned()),
            Ok(_) | Err(env::VarError::NotPresent) => return Ok(None),
            Err(env::VarError::NotUnicode(_)) => (String::new(), TOKEN_VARIABLE.to_owned()),
        },
    };
    let secret = text.trim_end_matches(['\r', '\n']).to_owned();
    if secret.is_empty() || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!("{origin} holds no token");
        return Err(Fault::failed(what, "it is one line of visible ASCII, as [admin] token_file"));
    }
    Ok(Some(Token { secret, origin }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_listener_or_nothing() {
        for (url, expected) in [
            ("http://127.0.0.1:9180", Some(("127.0.0.1", 9180))),
            ("http://localhost:9180/", Some(("localhost", 9180))),
            ("http://[::1]:9180", Some(("::1", 9180))),
            ("http://[::1]", Some(("::1", 80))),
            ("http://palisade.internal", Some(("palisade.internal", 80))),
            ("127.0.0.1:9180", None),
            ("https://127.0.0.1:9180", None),
            ("http://", None),
            ("http://:9180", None),
            ("http://a:0", None),
            ("http://a:99999", None),
            ("http://a:x", None),
            ("http://a:9180/v1", None),
            ("http://user@a:9180", None),
            ("http://::1:9180", None),
            ("http://[a]:9180", None),
        ] {
            let found = read(url);
            let found = found.as_ref().map(|(host, port)| (host.as_str(), *port));
            assert_eq!(found, expected, "{url}");
        }
    }

    #[test]
    fn every_address_is_reached_by_loopback() {
        for (listen, expected) in [
            ("0.0.0.0:9180", "127.0.0.1:9180"),
            ("[::]:9180", "[::1]:9180"),
            ("10.0.0.5:9180", "10.0.0.5:9180"),
        ] {
            let expected: SocketAddr = expected.parse().unwrap();
            assert_eq!(reachable(listen.parse().unwrap()), expected, "{listen}");
        }
    }
}
