//! What must hold among the sections: addresses, directories, routes (R11).

use std::{
    ffi::OsStr,
    io,
    net::{IpAddr, SocketAddr},
    path::{Component, Path, PathBuf},
};

use super::{
    build::{Admin, Server, Store},
    error::Wrong,
    raw::{Placed, Source},
    routes::RouteAt,
    upstreams::Upstream,
    url::written_address,
};
use crate::{
    proxy::{Route, RouteTable, TableError},
    upstream::Kind,
};

/// Two listeners on one address, and an upstream that is one of them.
pub(super) fn listeners(
    source: &Source<'_>,
    server: &Server,
    admin: Option<&Admin>,
    upstreams: &[Upstream],
) {
    let own = server.listen.iter().map(|placed| (placed.value, placed.line, "[server] listen"));
    let admin = admin.map(|admin| (admin.options.listen, admin.line, "[admin] listen"));
    let own: Vec<_> = own.chain(admin).collect();
    for (at, (address, line, key)) in own.iter().enumerate() {
        if let Some((other, ..)) = own[..at].iter().find(|(other, ..)| clash(*other, *address)) {
            let what = format!("{address} is taken by {other}");
            source.error(*line, *key, Wrong::new(what, "give each listener its own port"));
        }
    }
    for upstream in upstreams {
        let Kind::Http { host, port } = &upstream.options.kind else { continue };
        let Some(ip) = ip_of(host) else { continue };
        let ours = |(address, ..): &&(SocketAddr, _, _)| is_own(*address, ip, *port);
        if let Some((address, _, key)) = own.iter().find(ours) {
            let what = format!("it is palisade's own listener, {key} = \"{address}\"");
            let remedy = "name the store's address; requests would go in a circle";
            source.error(upstream.line, key_of(upstream), Wrong::new(what, remedy));
        }
    }
}

/// R11: two upstreams never share an address. Returns the addresses, one per upstream.
pub(super) fn addresses(source: &Source<'_>, upstreams: &[Upstream]) -> Vec<String> {
    let addresses: Vec<String> = upstreams.iter().map(address).collect();
    for (at, upstream) in upstreams.iter().enumerate() {
        // A url that is a mistake has port 0; directories are compared otherwise.
        let named =
            matches!(upstream.options.kind, Kind::Http { port: 1.., .. } | Kind::Unix { .. });
        let is_same = |(place, other): (usize, &Upstream)| {
            addresses[place] == addresses[at] || share_loopback(other, upstream)
        };
        let same = upstreams[..at].iter().enumerate().position(is_same);
        let Some(same) = same.filter(|_| named) else { continue };
        let what =
            format!("{} is upstream \"{}\" already", addresses[at], upstreams[same].options.name);
        let remedy = "keep one of them and let its routes share it: one store, one set of keys";
        source.error(upstream.line, key_of(upstream), Wrong::new(what, remedy));
    }
    addresses
}

/// The store's directory and those of upstreams lie beside each other.
pub(super) fn directories(
    source: &Source<'_>,
    store: &Store,
    server: &Server,
    admin: Option<&Admin>,
    upstreams: &[Upstream],
) {
    let mut known: Vec<(PathBuf, String)> = Vec::new();
    let store = (&store.options.path, store.line, "[store] path".to_owned());
    let directories = upstreams.iter().filter_map(|upstream| match &upstream.options.kind {
        Kind::Files { directory } => Some((directory, upstream.line, key_of(upstream))),
        Kind::Http { .. } | Kind::Unix { .. } => None,
    });
    for (path, line, key) in std::iter::once(store).chain(directories) {
        if path.as_os_str().is_empty() {
            continue;
        }
        let settled = match settle(path) {
            Ok(settled) => settled,
            Err(error) => {
                let what = format!("\"{}\" cannot be followed: {error}", path.display());
                source.error(
                    line,
                    key,
                    Wrong::new(what, "name a directory, or one that can be made"),
                );
                continue;
            }
        };
        let overlaps = |(other, _): &&(PathBuf, String)| {
            other.starts_with(&settled) || settled.starts_with(other)
        };
        if let Some((other, name)) = known.iter().find(overlaps) {
            let what = format!("{} overlaps {name}, {}", settled.display(), other.display());
            source.error(line, key.clone(), Wrong::new(what, "put the directories side by side"));
        }
        known.push((settled, key));
    }
    if let Some(file) = admin.and_then(|admin| admin.token_file.as_ref()) {
        secret(source, file, "[admin] token_file", &known);
    }
    for upstream in upstreams {
        if let Some(file) = &upstream.key_file {
            let key = format!("[upstreams.{}.tls] key", upstream.options.name);
            secret(source, file, &key, &known);
        }
    }
    for file in &server.tls.keys {
        secret(source, file, "[server] tls key", &known);
    }
}

/// What lies in an upstream's directory can be read by every client.
fn secret(source: &Source<'_>, file: &Placed<PathBuf>, key: &str, known: &[(PathBuf, String)]) {
    let Ok(settled) = settle(&file.value) else { return };
    if let Some((_, name)) = known.iter().find(|(directory, _)| settled.starts_with(directory)) {
        let what = format!("{} lies in {name}", settled.display());
        let wrong = Wrong::new(what, "keep it where no client can read it");
        source.error(file.line, key, wrong);
    }
}

/// Puts the routes in a table; reports those that cannot stand beside each other.
pub(super) fn table(
    source: &Source<'_>,
    routes: Vec<RouteAt>,
    upstreams: &[Upstream],
) -> Option<RouteTable> {
    let mut plain = Vec::with_capacity(routes.len());
    let mut lines = Vec::with_capacity(routes.len());
    for RouteAt { route, line, fence_line } in routes {
        plain.push(route);
        lines.push((line, fence_line));
    }
    let copies = plain.clone();
    let errors = match RouteTable::new(plain) {
        Ok(table) => return Some(table),
        Err(errors) => errors,
    };
    for error in errors {
        match error {
            TableError::Alike(one, two) => {
                let what = format!(
                    "\"{}\" is like \"{}\" on line {}: the same paths, hosts and methods",
                    copies[two].path, copies[one].path, lines[one].0
                );
                let remedy = "remove one, or tell them apart by host or methods";
                source.error(lines[two].0, "[[routes]] path", Wrong::new(what, remedy));
            }
            TableError::KeysDiffer(one, two) => {
                let wrong = keys_differ(&copies[one], &copies[two], lines[one].0, upstreams);
                source.error(lines[two].1, "[[routes]] fence", wrong);
            }
        }
    }
    None
}

fn keys_differ(one: &Route, two: &Route, line: usize, upstreams: &[Upstream]) -> Wrong {
    let key = |route: &Route| match route.template.as_str() {
        Some(text) => format!("\"{text}\""),
        None => "the whole path".to_owned(),
    };
    let name = upstreams.get(two.upstream).map_or("", |upstream| upstream.options.name.as_str());
    let what = format!(
        "\"{}\" (key {}) and \"{}\" on line {line} (key {}) can match the same path of upstream \
         \"{name}\", and would fence it by different keys",
        two.path,
        key(two),
        one.path,
        key(one),
    );
    let remedy = "leave fence out of both for the whole path, or write both so that a path spells \
                  the same key in either, whatever its host and method";
    Wrong::new(what, remedy)
}

/// Whether one is named by an address and the other by the one name that means it everywhere.
fn share_loopback(one: &Upstream, two: &Upstream) -> bool {
    let place = |upstream: &Upstream| match &upstream.options.kind {
        Kind::Http { host, port } => Some((host.clone(), *port)),
        Kind::Unix { .. } | Kind::Files { .. } => None,
    };
    let (Some((one, first)), Some((two, second))) = (place(one), place(two)) else { return false };
    let is_its_address = |host: &str| matches!(host, "127.0.0.1" | "::1");
    let named = |name: &str, address: &str| name == "localhost" && is_its_address(address);
    first == second && (named(&one, &two) || named(&two, &one))
}

/// `http://host:port`, `unix:PATH` or `dir:PATH`, each in one spelling.
fn address(upstream: &Upstream) -> String {
    match &upstream.options.kind {
        Kind::Http { host, port } => written_address(host, *port),
        Kind::Unix { socket } => {
            let settled = settle(socket).unwrap_or_else(|_| socket.clone());
            format!("unix:{}", settled.display())
        }
        Kind::Files { directory } => {
            let settled = settle(directory).unwrap_or_else(|_| directory.clone());
            format!("dir:{}", settled.display())
        }
    }
}

fn key_of(upstream: &Upstream) -> String {
    let key = match upstream.options.kind {
        Kind::Http { .. } | Kind::Unix { .. } => "url",
        Kind::Files { .. } => "directory",
    };
    format!("[upstreams.{}] {key}", upstream.options.name)
}

/// Whether one socket could be both. Port 0 is any free port, never another's.
fn clash(one: SocketAddr, two: SocketAddr) -> bool {
    let (first, second) = (one.ip().to_canonical(), two.ip().to_canonical());
    let every =
        |ip: IpAddr, other: IpAddr| ip.is_unspecified() && (ip.is_ipv6() || other.is_ipv4());
    let meet = first == second || every(first, second) || every(second, first);
    one.port() != 0 && one.port() == two.port() && meet
}

/// Whether a request to an address arrives at a listener, as far as the addresses tell: of another
/// machine's address and of one of this machine's own they do not.
fn is_own(listener: SocketAddr, ip: IpAddr, port: u16) -> bool {
    let (listens, ip) = (listener.ip().to_canonical(), ip.to_canonical());
    let here = ip.is_loopback() || ip.is_unspecified();
    listener.port() == port && (listens == ip || here && listens.is_unspecified())
}

/// The address that a host is for certain; names are the operator's duty.
pub(super) fn ip_of(host: &str) -> Option<IpAddr> {
    match host {
        "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
        _ => host.parse().ok(),
    }
}

/// The absolute path without links, as far as it exists.
fn settle(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    for ancestor in absolute.ancestors() {
        let real = match ancestor.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let missing = absolute.strip_prefix(ancestor).unwrap_or(Path::new(""));
        if missing.components().any(|part| part.as_os_str() == OsStr::new("..")) {
            let text = "\"..\" below a directory that does not exist";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        if missing.components().next().is_some() && !real.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        return Ok(missing.components().fold(real, join));
    }
    Ok(absolute)
}

fn join(mut path: PathBuf, part: Component<'_>) -> PathBuf {
    path.push(part);
    path
}
