//! `[upstreams.NAME]`.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use http::HeaderName;

use super::{build, defaults, error::Wrong, raw::Section, values::any_of};
use crate::upstream::{Kind, Options, PartialBody};

/// An upstream, and what only the configuration knows of it.
pub(super) struct Upstream {
    pub(super) options: Options,
    /// The line of its `url` or `directory`.
    pub(super) line: usize,
    pub(super) fold_case: bool,
    /// `store_honours`: as `Template::splits_by` names them.
    pub(super) honours: Vec<String>,
}

/// Keys that mean something for a server only.
const SERVER_KEYS: [&str; 9] = [
    "connect_timeout",
    "eof_is_end",
    "max_write_lifetime",
    "partial_body",
    "pass_redirects",
    "pool_idle_timeout",
    "pool_max_idle",
    "response_timeout",
    "settled_statuses",
];

pub(super) fn upstreams(root: &mut Section<'_>) -> Vec<Upstream> {
    let Some(sections) = root.named_sections("upstreams") else { return Vec::new() };
    if sections.is_empty() {
        let remedy = "write [upstreams.files] with directory = \"data/files\", or with a url";
        root.error("upstreams", Wrong::new("there is none", remedy));
    }
    sections.into_iter().map(|(name, section)| upstream(name, section)).collect()
}

fn upstream(name: String, mut section: Section<'_>) -> Upstream {
    check_name(&name, &section);
    let kind = kind(&mut section);
    let files = matches!(kind, Some(Kind::Files { .. }));
    if files {
        section.refuse(&SERVER_KEYS, "for a directory");
        section.refuse(&["store_honours"], "for a directory");
    }
    let honours = section.texts("store_honours", honoured).unwrap_or_default();
    let line = section.line_of(if files { "directory" } else { "url" });
    let fold_case = section.flag("fold_case", false);
    let options = options(name, kind, &mut section);
    section.unsupported(&["guard", "host", "tls"]);
    section.finish();
    let honours = honours.into_iter().map(|honour| honour.value).collect();
    Upstream { options, line, fold_case, honours }
}

fn options(name: String, kind: Option<Kind>, section: &mut Section<'_>) -> Options {
    let partial = [("unknown", PartialBody::Unknown), ("discarded", PartialBody::Discarded)];
    let same_token = [("pass", false), ("wait", true)];
    let max_write_lifetime = lifetime(kind.as_ref(), section);
    let idle = section.number("pool_max_idle", defaults::POOL_MAX_IDLE_RANGE);
    Options {
        name,
        // A kind that cannot be read is a mistake already, and nothing is started.
        kind: kind.unwrap_or(Kind::Http { host: String::new(), port: 0 }),
        connect_timeout: section.duration("connect_timeout", defaults::CONNECT_TIMEOUT),
        response_timeout: section.duration("response_timeout", defaults::RESPONSE_TIMEOUT),
        body_idle_timeout: section.duration("body_idle_timeout", defaults::BODY_IDLE_TIMEOUT),
        max_write_lifetime,
        partial_body: section.word("partial_body", &partial, PartialBody::Unknown),
        settled_statuses: settled(section),
        eof_is_end: section.flag("eof_is_end", false),
        host: None,
        pass_redirects: section.flag("pass_redirects", false),
        same_token_doubt_waits: section.word("same_token_doubt", &same_token, false),
        pool_max_idle: idle.unwrap_or(defaults::POOL_MAX_IDLE) as usize,
        pool_idle_timeout: section.duration("pool_idle_timeout", defaults::POOL_IDLE_TIMEOUT),
    }
}

/// The name is part of a key as operators write it, and of the admin listener's paths.
fn check_name(name: &str, section: &Section<'_>) {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !starts || name.len() > 64 || !name.chars().all(plain) {
        let what = format!("\"{name}\" is no name for an upstream");
        let remedy = "use 1 to 64 letters, digits and -_. starting with a letter or digit";
        section.error_on(section.line, "", Wrong::new(what, remedy));
    }
}

fn kind(section: &mut Section<'_>) -> Option<Kind> {
    let url = section.text("url", url);
    let directory = section.text("directory", build::path);
    match (section.has("url"), section.has("directory")) {
        (true, true) => {
            section.error("directory", Wrong::new("it stands beside url", "keep one of the two"));
            None
        }
        (false, false) => {
            let remedy = "write url = \"http://host:port\" or directory = \"data/files\"";
            section.error("", Wrong::new("it has neither url nor directory", remedy));
            None
        }
        (true, false) => url.map(|url| Kind::Http { host: url.value.0, port: url.value.1 }),
        (false, true) => directory.map(|found| Kind::Files { directory: found.value }),
    }
}

/// There is no safe default behind a network, and nothing to declare for a directory.
fn lifetime(kind: Option<&Kind>, section: &mut Section<'_>) -> Duration {
    let files = matches!(kind, Some(Kind::Files { .. }));
    if files {
        return Duration::ZERO;
    }
    if section.has("url") && !section.has("max_write_lifetime") {
        let what = "it is missing, and there is no safe default";
        let remedy = "write the longest time for which the store, and whatever stands in between, \
                      may still apply a write after its connection was cut, like \"90s\"";
        section.error("max_write_lifetime", Wrong::new(what, remedy));
    }
    section.duration("max_write_lifetime", Duration::ZERO)
}

fn settled(section: &mut Section<'_>) -> Vec<u16> {
    let statuses = section.numbers("settled_statuses", (200, 599));
    statuses.into_iter().map(|status| status.value as u16).collect()
}

fn honoured(text: &str) -> Result<String, Wrong> {
    let header = |name: &str| HeaderName::from_bytes(name.as_bytes()).ok();
    let known = match text.split_once('.') {
        None if text == "host" => Some(text.to_owned()),
        Some(("query", name)) if !name.is_empty() => Some(text.to_owned()),
        Some(("header", name)) => header(name).map(|name| format!("header.{name}")),
        _ => None,
    };
    known.ok_or_else(|| {
        let remedy = any_of(&["\"host\"", "\"query.NAME\"", "\"header.NAME\""].map(str::to_owned));
        Wrong::new(format!("\"{text}\" is no part of a request"), format!("write {remedy}"))
    })
}

/// `http://host[:port]`: the host in its one spelling, an IPv6 address without brackets.
fn url(text: &str) -> Result<(String, u16), Wrong> {
    let wrong = |what: &str, remedy: String| Err(Wrong::new(format!("\"{text}\" {what}"), remedy));
    let scheme = |name: &str| text.get(..name.len()).is_some_and(|s| s.eq_ignore_ascii_case(name));
    if scheme("https://") {
        return wrong(
            "is not supported by this version, which speaks plain HTTP only",
            "write an http:// url within a network that you trust".to_owned(),
        );
    }
    if !scheme("http://") {
        return wrong("is no http url", "write \"http://host:port\"".to_owned());
    }
    let authority = &text["http://".len()..];
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
            format!("write \"http://{plain}\""),
        );
    }
    match host_and_port(plain) {
        Some(found) => Ok(found),
        None => wrong("has no valid host and port", "write \"http://host:port\"".to_owned()),
    }
}

fn host_and_port(authority: &str) -> Option<(String, u16)> {
    let (host, port) = match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => {
            (&authority[..colon], Some(&authority[colon + 1..]))
        }
        _ => (authority, None),
    };
    let port = match port {
        None => 80,
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

/// How an address is written in words: brackets around IPv6.
pub(super) fn written_address(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("http://[{host}]:{port}")
    } else {
        format!("http://{host}:{port}")
    }
}

/// The upstream of a name, and the nearest name where there is none.
pub(super) fn place_of(name: &str, upstreams: &[Upstream]) -> Result<usize, Wrong> {
    let names = || upstreams.iter().map(|upstream| upstream.options.name.as_str());
    if let Some(place) = names().position(|known| known == name) {
        return Ok(place);
    }
    let nearest = names().min_by_key(|known| strsim::damerau_levenshtein(name, known));
    let remedy = nearest.map_or_else(
        || format!("write [upstreams.{name}]"),
        |nearest| format!("the nearest known one is \"{nearest}\""),
    );
    Err(Wrong::new(format!("there is no upstream \"{name}\""), remedy))
}
