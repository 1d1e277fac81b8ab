//! `[upstreams.NAME]`.

use std::{path::PathBuf, time::Duration};

use http::{HeaderName, HeaderValue};

use super::{
    build, defaults,
    error::Wrong,
    raw::{Placed, Section},
    upstream_tls,
    url::{self, Url},
    values::any_of,
};
use crate::upstream::{Kind, Options, PartialBody};

/// An upstream, and what only the configuration knows of it.
pub(super) struct Upstream {
    pub(super) options: Options,
    /// The line of its `url` or `directory`.
    pub(super) line: usize,
    pub(super) fold_case: bool,
    /// `store_honours`: as `Template::splits_by` names them.
    pub(super) honours: Vec<String>,
    /// `tls = { key = "..." }`, which no client may read.
    pub(super) key_file: Option<Placed<PathBuf>>,
}

/// Keys that mean something for a server only.
const SERVER_KEYS: [&str; 11] = [
    "connect_timeout",
    "eof_is_end",
    "host",
    "max_write_lifetime",
    "partial_body",
    "pass_redirects",
    "pool_idle_timeout",
    "pool_max_idle",
    "response_timeout",
    "settled_statuses",
    "tls",
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
    let target = target(&mut section);
    let files = matches!(target, Some(Target::Directory(_)));
    if files {
        section.refuse(&SERVER_KEYS, "for a directory");
        section.refuse(&["store_honours"], "for a directory");
    }
    let honours = section.texts("store_honours", honoured).unwrap_or_default();
    let line = section.line_of(if files { "directory" } else { "url" });
    let fold_case = section.flag("fold_case", false);
    let (options, key_file) = options(name, target, &mut section);
    if let Some(honour) = honours.iter().find(|honour| honour.value == "host")
        && options.host.is_some()
    {
        let wrong = Wrong::new(
            "the store cannot tell objects apart by the host: host = \"...\" sends it one only",
            "remove \"host\" here, or the key host",
        );
        section.error_on(honour.line, "store_honours", wrong);
    }
    section.unsupported(&["guard"]);
    section.finish();
    let honours = honours.into_iter().map(|honour| honour.value).collect();
    Upstream { options, line, fold_case, honours, key_file }
}

fn options(
    name: String,
    target: Option<Target>,
    section: &mut Section<'_>,
) -> (Options, Option<Placed<PathBuf>>) {
    let partial = [("unknown", PartialBody::Unknown), ("discarded", PartialBody::Discarded)];
    let same_token = [("pass", false), ("wait", true)];
    let max_write_lifetime = lifetime(target.as_ref(), section);
    let idle = section.number("pool_max_idle", defaults::POOL_MAX_IDLE_RANGE);
    let (tls, key_file) = match &target {
        Some(Target::Url(url)) => upstream_tls::tls(url, section),
        _ => (None, None),
    };
    let host = section.text("host", host_field).map(|found| found.value);
    section.has("tls");
    let options = Options {
        name,
        kind: kind(target),
        connect_timeout: section.duration("connect_timeout", defaults::CONNECT_TIMEOUT),
        response_timeout: section.duration("response_timeout", defaults::RESPONSE_TIMEOUT),
        body_idle_timeout: section.duration("body_idle_timeout", defaults::BODY_IDLE_TIMEOUT),
        max_write_lifetime,
        partial_body: section.word("partial_body", &partial, PartialBody::Unknown),
        settled_statuses: settled(section),
        eof_is_end: section.flag("eof_is_end", false),
        pass_redirects: section.flag("pass_redirects", false),
        same_token_doubt_waits: section.word("same_token_doubt", &same_token, false),
        pool_max_idle: idle.unwrap_or(defaults::POOL_MAX_IDLE) as usize,
        pool_idle_timeout: section.duration("pool_idle_timeout", defaults::POOL_IDLE_TIMEOUT),
        tls,
        host,
    };
    (options, key_file)
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

/// What an upstream is.
enum Target {
    Url(Url),
    Directory(PathBuf),
}

fn target(section: &mut Section<'_>) -> Option<Target> {
    let url = section.text("url", url::read);
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
        (true, false) => url.map(|url| Target::Url(url.value)),
        (false, true) => directory.map(|found| Target::Directory(found.value)),
    }
}

fn kind(target: Option<Target>) -> Kind {
    match target {
        Some(Target::Url(Url::Server { host, port, .. })) => Kind::Http { host, port },
        Some(Target::Url(Url::Socket(socket))) => Kind::Unix { socket },
        Some(Target::Directory(directory)) => Kind::Files { directory },
        // A target that cannot be read is a mistake already, and nothing is started.
        None => Kind::Http { host: String::new(), port: 0 },
    }
}

/// There is no safe default behind a socket, and nothing to declare for a directory.
fn lifetime(target: Option<&Target>, section: &mut Section<'_>) -> Duration {
    if matches!(target, Some(Target::Directory(_))) {
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

/// As it is sent: `host` or `host:port`.
fn host_field(text: &str) -> Result<HeaderValue, Wrong> {
    let host = url::host_and_port(text, 80).and_then(|_| HeaderValue::from_str(text).ok());
    host.ok_or_else(|| {
        let remedy = "write what the store is to see, like \"store.internal\" or \"store:9000\"";
        Wrong::new(format!("\"{text}\" is no host and port"), remedy)
    })
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

/// The upstream of a name, and the nearest name where there is none.
pub(super) fn place_of(name: &str, upstreams: &[Upstream]) -> Result<usize, Wrong> {
    let names = || upstreams.iter().map(|upstream| upstream.options.name.as_str());
    if let Some(place) = names().position(|known| known == name) {
        return Ok(place);
    }
    let distance = |known: &&str| strsim::damerau_levenshtein(name, known);
    let nearest = names().min_by_key(distance).filter(|known| distance(known) <= name.len() / 2);
    let remedy = nearest.map_or_else(
        || format!("write [upstreams.{name}]"),
        |nearest| format!("the nearest known one is \"{nearest}\""),
    );
    Err(Wrong::new(format!("there is no upstream \"{name}\""), remedy))
}
