//! `[server]`, `[admin]` and `[store]`.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    thread,
};

use super::{
    defaults,
    error::Wrong,
    raw::{Placed, Section},
    tls::{self, ServerTls},
};
use crate::{
    admin,
    proxy::{ForwardedFields, Forwarding, Network, NetworkError},
    server, store,
};

/// Addresses to listen on keep their lines: they are compared with others later.
pub(super) struct Server {
    pub(super) options: server::Options,
    pub(super) listen: Vec<Placed<SocketAddr>>,
    pub(super) forwarding: Forwarding,
    pub(super) tls: ServerTls,
}

pub(super) struct Admin {
    pub(super) options: admin::Options,
    pub(super) line: usize,
    pub(super) token_file: Option<Placed<PathBuf>>,
}

pub(super) struct Store {
    pub(super) options: store::Options,
    pub(super) cache: u64,
    pub(super) line: usize,
}

pub(super) fn server(mut section: Section<'_>) -> Server {
    let line = section.line;
    let default = || vec![Placed { value: SocketAddr::from(([127, 0, 0, 1], 8080)), line }];
    let listen = section.texts("listen", address).unwrap_or_else(default);
    if listen.is_empty() {
        section
            .error("listen", Wrong::new("it is empty", "name an address, like \"127.0.0.1:8080\""));
    }
    let number = |section: &mut Section<'_>, key, default: u64, bounds| {
        section.number(key, bounds).unwrap_or(default) as usize
    };
    let http2 = section.flag("http2", true);
    let mut tls = tls::server(&mut section, http2);
    let workers = thread::available_parallelism().map_or(1, usize::from) as u64;
    let options = server::Options {
        listen: listen.iter().map(|address| address.value).collect(),
        tls: tls.tls.take(),
        http2,
        header_timeout: section.duration("header_timeout", defaults::HEADER_TIMEOUT),
        client_idle_timeout: section.duration("client_idle_timeout", defaults::CLIENT_IDLE_TIMEOUT),
        max_header_size: section.size(
            "max_header_size",
            defaults::MAX_HEADER_SIZE,
            defaults::MAX_HEADER_SIZES,
        ) as usize,
        max_headers: number(
            &mut section,
            "max_headers",
            defaults::MAX_HEADERS,
            defaults::MAX_HEADERS_RANGE,
        ),
        max_connections: number(
            &mut section,
            "max_connections",
            defaults::MAX_CONNECTIONS,
            defaults::MAX_CONNECTIONS_RANGE,
        ),
        stop_timeout: section.duration("stop_timeout", defaults::STOP_TIMEOUT),
        workers: number(&mut section, "workers", workers, defaults::WORKERS_RANGE),
    };
    let forwarding = forwarding(&mut section);
    section.finish();
    Server { options, listen, forwarding, tls }
}

fn forwarding(section: &mut Section<'_>) -> Forwarding {
    let words = [
        ("x-forwarded", ForwardedFields::XForwarded),
        ("forwarded", ForwardedFields::Forwarded),
        ("both", ForwardedFields::Both),
        ("none", ForwardedFields::None),
    ];
    let trusted = section.texts("trusted_proxies", network).unwrap_or_default();
    if trusted.len() > defaults::MAX_TRUSTED_PROXIES {
        let wrong = Wrong::new("it has more than 64 entries", "put addresses into networks");
        section.error("trusted_proxies", wrong);
    }
    Forwarding {
        trusted: trusted.into_iter().map(|network| network.value).collect(),
        fields: section.word("forwarded", &words, ForwardedFields::default()),
    }
}

fn network(text: &str) -> Result<Network, Wrong> {
    text.parse().map_err(|error| match error {
        NetworkError::Malformed => {
            let what = format!("\"{text}\" is no address and no network");
            Wrong::new(what, "write it like \"127.0.0.1\", \"10.0.0.0/8\" or \"fd00::/8\"")
        }
        NetworkError::MoreBits(network) => {
            let what = format!("\"{text}\" has bits beyond its prefix");
            Wrong::new(what, format!("write \"{network}\" for the network, or the address alone"))
        }
        NetworkError::Mapped(address) => {
            let what = format!("\"{text}\" is an IPv4 address in IPv6 form");
            Wrong::new(what, format!("write \"{address}\", or a network of such addresses"))
        }
    })
}

/// No section, no listener.
pub(super) fn admin(mut section: Section<'_>) -> Option<Admin> {
    if !section.is_present() {
        return None;
    }
    let line = section.line_of("listen");
    let default = SocketAddr::from(([127, 0, 0, 1], 9180));
    let listen = section.text("listen", address).map_or(default, |found| found.value);
    let token_file = section.text("token_file", path);
    let token = token_file.as_ref().and_then(|file| {
        bearer_token(&file.value)
            .map_err(|wrong| section.error_on(file.line, "token_file", wrong))
            .ok()
    });
    if !listen.ip().to_canonical().is_loopback() && !section.has("token_file") {
        let what = format!("{listen} can be reached from other machines without a token");
        let remedy = "name a token_file, or listen on 127.0.0.1";
        section.error("listen", Wrong::new(what, remedy));
    }
    section.unsupported(&["tls"]);
    section.finish();
    Some(Admin { options: admin::Options { listen, token }, line, token_file })
}

pub(super) fn store(mut section: Section<'_>) -> Store {
    let path = section.text("path", path).map(|found| found.value);
    if !section.has("path") {
        section.error("path", Wrong::new("it is missing", "write path = \"data/fences\""));
    }
    let line = section.line_of("path");
    let words = [("never", store::Create::Never), ("if-missing", store::Create::IfMissing)];
    let create = section.word("create", &words, store::Create::Never);
    let cache = section.size("cache", defaults::CACHE, defaults::CACHE_RANGE);
    section.finish();
    let options = store::Options {
        path: path.unwrap_or_default(),
        create,
        page_cache: cache / 2,
        fresh: false,
        rekey: Vec::new(),
        upstreams: Vec::new(),
    };
    Store { options, cache, line }
}

/// A path on this machine.
pub(super) fn path(text: &str) -> Result<PathBuf, Wrong> {
    if text.is_empty() || text.contains('\0') {
        return Err(Wrong::new(
            "it names no file",
            "write a path, relative to where palisade starts",
        ));
    }
    Ok(PathBuf::from(text))
}

fn address(text: &str) -> Result<SocketAddr, Wrong> {
    text.parse().map_err(|_| {
        let what = format!("\"{text}\" is no address to listen on");
        let remedy = "write an IP address and a port, like \"127.0.0.1:8080\" or \"[::]:8080\"";
        Wrong::new(what, remedy)
    })
}

/// Largest file of a token in bytes: a token and some line ends.
const TOKEN_FILE_MAX: usize = 4096;

/// At least 16 characters: a shorter one can be guessed.
fn bearer_token(file: &Path) -> Result<String, Wrong> {
    let name = file.display();
    let content = super::read_at_most(file, TOKEN_FILE_MAX).map_err(|error| {
        Wrong::new(format!("\"{name}\" cannot be read: {error}"), "write a token into that file")
    })?;
    let token = content.trim_end_matches(['\r', '\n']);
    let fits = (16..=1024).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    if !fits {
        let what = format!("\"{name}\" holds no token");
        return Err(Wrong::new(
            what,
            "write one line of 16 to 1024 visible ASCII characters into it",
        ));
    }
    Ok(token.to_owned())
}
