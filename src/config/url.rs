//! `url`: where an upstream is, in one spelling.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
};

use super::error::Wrong;

/// Most bytes of a Unix socket's path that the kernel takes.
const SOCKET_PATH_MAX: usize = 107;

/// The kinds of url.
#[derive(Debug)]
pub(super) enum Url {
    /// `http://host[:port]` or `https://host[:port]`: the host in its one spelling, an IPv6 address
    /// without brackets.
    Server { host: String, port: u16, secure: bool },
    /// `unix:/path`.
    Socket(PathBuf),
}

pub(super) fn read(text: &str) -> Result<Url, Wrong> {
    let wrong = |what: &str, remedy: String| Err(Wrong::new(format!("\"{text}\" {what}"), remedy));
    let scheme = |name: &str| text.get(..name.len()).is_some_and(|s| s.eq_ignore_ascii_case(name));
    if scheme("unix:") {
        return socket(text, &text["unix:".len()..]);
    }
    let (scheme, secure) = match (scheme("http://"), scheme("https://")) {
        (true, _) => ("http://", false),
        (_, true) => ("https://", true),
        _ => {
            let remedy = "write \"http://host:port\", \"https://host:port\" or \"unix:/path\"";
            return wrong("is no http url", remedy.to_owned());
        }
    };
    let authority = &text[scheme.len()..];
    let (plain, more) =
        authority.split_at(authority.find(['/', '?', '#']).unwrap_or(authority.len()));
    if plain.contains('@') {
        // Not repeated: a password may stand there.
        let remedy = "remove it; clients' own Authorization is passed on";
        return Err(Wrong::new("it holds a user", remedy));
    }
    if !more.is_empty() {
        return wrong(
            "has a path, and paths go on as they came",
            format!("write \"{scheme}{plain}\""),
        );
    }
    match host_and_port(plain, if secure { 443 } else { 80 }) {
        Some((host, _)) if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) => {
            wrong("is no address to connect to", format!("write \"{scheme}127.0.0.1:port\""))
        }
        Some((host, port)) => Ok(Url::Server { host, port, secure }),
        None => wrong("has no valid host and port", format!("write \"{scheme}host:port\"")),
    }
}

fn socket(text: &str, path: &str) -> Result<Url, Wrong> {
    let wrong = |what: &str, remedy: &str| Err(Wrong::new(format!("\"{text}\" {what}"), remedy));
    // `//` is refused since others take what follows it for a host.
    if !path.starts_with('/') || path.starts_with("//") || path.contains('\0') {
        return wrong("has no absolute path", "write \"unix:/path/of/the.sock\"");
    }
    if path.len() > SOCKET_PATH_MAX {
        return wrong("has a path of more than 107 bytes", "move the socket to a shorter path");
    }
    Ok(Url::Socket(PathBuf::from(path)))
}

/// `host[:port]`, the host in its one spelling.
pub(super) fn host_and_port(authority: &str, default: u16) -> Option<(String, u16)> {
    let (host, port) = match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => {
            (&authority[..colon], Some(&authority[colon + 1..]))
        }
        _ => (authority, None),
    };
    let port = match port {
        None => default,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok()?,
        Some(_) => return None,
    };
    (port != 0).then_some((host_in_one_spelling(host)?, port))
}

fn host_in_one_spelling(host: &str) -> Option<String> {
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return inner.parse::<Ipv6Addr>().ok().map(|address| address.to_canonical().to_string());
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    // A last label of digits, or of hex, is read as a number by some resolvers: `127.1`, `0x7f.1`.
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.starts_with(|c: char| c.is_ascii_digit()) {
        let digits = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
        if digits {
            return name.parse::<Ipv4Addr>().ok().map(|address| address.to_string());
        }
    }
    let label = |label: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&label.len()) && label.chars().all(plain)
    };
    (name.len() <= 253 && name.split('.').all(label)).then_some(name)
}

/// How the store knows a server (R11): by host and port, brackets around IPv6. `http` stands for
/// `https` as well: a server that learns TLS is the same store.
pub(super) fn written_address(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("http://[{host}]:{port}")
    } else {
        format!("http://{host}:{port}")
    }
}
