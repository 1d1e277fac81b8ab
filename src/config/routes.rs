//! `[[routes]]`.

use std::{sync::Arc, time::Duration};

use http::{HeaderName, StatusCode};

use super::{
    defaults,
    error::Wrong,
    methods::{self, Methods},
    raw::{Placed, Section},
    rewrite,
    upstreams::{Upstream, place_of},
    values,
};
use crate::{
    fence::Token,
    gate::{Mode, Policy, Takeover},
    proxy::{Pattern, Route, Template},
};

/// A route, and where it stands.
pub(super) struct RouteAt {
    pub(super) route: Route,
    /// The line of its path.
    pub(super) line: usize,
    /// The line of its template, or of its path where it has none.
    pub(super) fence_line: usize,
}

/// Keys that mean something only where tokens are read.
const TOKEN_KEYS: [&str; 10] = [
    "drain_timeout",
    "enforce",
    "generations",
    "max_jump",
    "max_token",
    "max_waiters",
    "reveal_highest",
    "stale_status",
    "takeover",
    "token_headers",
];

pub(super) fn routes(root: &mut Section<'_>, upstreams: &[Upstream]) -> Vec<RouteAt> {
    let Some(sections) = root.listed_sections("routes") else { return Vec::new() };
    if sections.is_empty() {
        let what = "there is none, and nothing is forwarded that no route names";
        let remedy = "write [[routes]] with path = \"/{*object}\" and the name of an upstream";
        root.error("routes", Wrong::new(what, remedy));
    }
    sections.into_iter().filter_map(|section| route(section, upstreams)).collect()
}

/// Reads the whole section whatever is wrong with it, so that all mistakes are reported.
fn route(mut section: Section<'_>, upstreams: &[Upstream]) -> Option<RouteAt> {
    let pattern = pattern(&mut section);
    let place = upstream(&mut section, upstreams);
    let upstream = place.and_then(|place| upstreams.get(place));
    let template = template(&mut section, pattern.as_ref(), upstream);
    let hosts = section.texts("host", host).unwrap_or_default();
    let methods = methods::read(&mut section);
    let policy = policy(&mut section, upstream);
    if policy.mode == Mode::Off {
        section.refuse(&TOKEN_KEYS, "beside token = \"off\"");
        if methods.check_reads {
            let wrong = Wrong::new("it has no meaning beside token = \"off\"", "remove it");
            section.error("reads", wrong);
        }
    }
    let token_headers = token_headers(&mut section);
    let stale_status = stale_status(&mut section);
    let reveal_highest = section.flag("reveal_highest", true);
    let max_body = section.text("max_body", values::size).map(|found| found.value);
    let line = section.line_of("path");
    let fence_line = if section.has("fence") { section.line_of("fence") } else { line };
    let rewrite = rewrite::read(&mut section, upstream, &token_headers);
    section.unsupported(&["auth", "dialect"]);
    section.finish();

    let (pattern, template) = (pattern?, template?);
    let Methods { narrowed, reads, writes, check_reads } = methods;
    let route = Route {
        path: pattern.as_str().to_owned(),
        pattern,
        template,
        fold_case: upstream.is_some_and(|upstream| upstream.fold_case),
        hosts: hosts.into_iter().map(|host| host.value).collect(),
        methods: narrowed,
        upstream: place?,
        policy: Arc::new(policy),
        reads,
        writes,
        check_reads,
        token_headers,
        stale_status,
        reveal_highest,
        max_body,
        rewrite: Arc::new(rewrite),
    };
    Some(RouteAt { route, line, fence_line })
}

fn pattern(section: &mut Section<'_>) -> Option<Pattern> {
    if !section.has("path") {
        section.error("path", Wrong::new("it is missing", "write path = \"/{*object}\""));
    }
    let read = |text: &str| {
        Pattern::parse(text).map_err(|error| split(&format!("\"{text}\" is no path"), &error))
    };
    section.text("path", read).map(|found| found.value)
}

fn upstream(section: &mut Section<'_>, upstreams: &[Upstream]) -> Option<usize> {
    if !section.has("upstream") {
        section.error("upstream", Wrong::new("it is missing", "name one of [upstreams.NAME]"));
    }
    section.text("upstream", |name| place_of(name, upstreams)).map(|found| found.value)
}

fn template(
    section: &mut Section<'_>,
    pattern: Option<&Pattern>,
    upstream: Option<&Upstream>,
) -> Option<Template> {
    if !section.has("fence") {
        return Some(Template::whole_path());
    }
    let read = |text: &str| {
        // Without its pattern it cannot be judged; the pattern's own mistake is reported.
        let Some(pattern) = pattern else { return Ok(None) };
        let template = Template::parse(text, pattern)
            .map_err(|error| split(&format!("\"{text}\" is no key"), &error))?;
        honoured(template, upstream).map(Some)
    };
    section.text("fence", read)?.value
}

/// R11: what the store does not tell apart must not split a key.
fn honoured(template: Template, upstream: Option<&Upstream>) -> Result<Template, Wrong> {
    let Some(upstream) = upstream else { return Ok(template) };
    let missing = template.splits_by().find(|part| !upstream.honours.contains(part));
    let Some(part) = missing else { return Ok(template) };
    let name = &upstream.options.name;
    Err(Wrong::new(
        format!("{{{part}}} would give one object of upstream \"{name}\" several keys"),
        format!(
            "make the key of the path alone, or, if the store tells objects apart by it, write \
             store_honours = [\"{part}\"] in [upstreams.{name}]"
        ),
    ))
}

fn policy(section: &mut Section<'_>, upstream: Option<&Upstream>) -> Policy {
    let modes = [("required", Mode::Required), ("sticky", Mode::Sticky), ("off", Mode::Off)];
    let takeovers = [("abort", Takeover::Abort), ("wait", Takeover::Wait)];
    let generations = section.flag("generations", false);
    let waiters = section.number("max_waiters", defaults::MAX_WAITERS_RANGE);
    Policy {
        enforce: section.flag("enforce", true),
        mode: section.word("token", &modes, Mode::Required),
        takeover: section.word("takeover", &takeovers, Takeover::Abort),
        drain_timeout: drain_timeout(section),
        max_waiters: waiters.unwrap_or(defaults::MAX_WAITERS) as usize,
        max_jump: section.number("max_jump", (1, u64::MAX)),
        max_token: section.text_or_number("max_token", |text| token(text, generations)),
        generations,
        same_token_doubt_waits: upstream.is_some_and(|up| up.options.same_token_doubt_waits),
    }
}

/// Zero is a time here: a takeover cuts at once.
fn drain_timeout(section: &mut Section<'_>) -> Duration {
    let found = section.text("drain_timeout", values::duration);
    found.map_or(defaults::DRAIN_TIMEOUT, |found| found.value)
}

fn token(text: &str, generations: bool) -> Result<Token, Wrong> {
    Token::parse(text.as_bytes(), generations).map_err(|error| {
        let pair = text.contains('.') && !generations;
        let remedy = if pair { "set generations = true" } else { "write it like \"1000000\"" };
        Wrong::new(format!("\"{text}\" is no token: {error}"), remedy)
    })
}

fn host(text: &str) -> Result<String, Wrong> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let address = text.starts_with('[') && text.ends_with(']');
    if text.is_empty() || !(address || text.chars().all(plain)) {
        let what = format!("\"{text}\" is no host");
        return Err(Wrong::new(what, "write a name or an address, without scheme and port"));
    }
    Ok(text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase())
}

fn token_headers(section: &mut Section<'_>) -> Vec<HeaderName> {
    let default = || defaults::TOKEN_HEADERS.map(HeaderName::from_static).to_vec();
    let Some(found) = section.texts("token_headers", token_header) else { return default() };
    let names: Vec<HeaderName> = found.iter().map(|name: &Placed<_>| name.value.clone()).collect();
    let twice = names.iter().enumerate().any(|(at, name)| names[..at].contains(name));
    let what = match names.len() {
        0 => "it is empty",
        _ if twice => "a name stands twice",
        1..=defaults::MAX_TOKEN_HEADERS => return names,
        _ => "it has more than 8 names",
    };
    section.error("token_headers", Wrong::new(what, "name each field once, one to eight of them"));
    default()
}

/// Fields with a meaning of their own cannot carry the token.
fn token_header(text: &str) -> Result<HeaderName, Wrong> {
    let taken = |name: &HeaderName| {
        let name = name.as_str();
        let fencing = name.starts_with("fencing-") && name != "fencing-token";
        let own = ["authorization", "connection", "content-length", "content-type", "cookie"];
        let more = ["expect", "host", "te", "trailer", "transfer-encoding", "upgrade"];
        fencing || own.contains(&name) || more.contains(&name)
    };
    match HeaderName::from_bytes(text.as_bytes()) {
        Ok(name) if !taken(&name) => Ok(name),
        Ok(_) => {
            let what = format!("\"{text}\" has a meaning of its own");
            Err(Wrong::new(what, "name a field that carries nothing but the token"))
        }
        Err(_) => Err(Wrong::new(
            format!("\"{text}\" is no field name"),
            "write it like \"Fencing-Token\"",
        )),
    }
}

fn stale_status(section: &mut Section<'_>) -> StatusCode {
    let allowed = [412, 409, 403, 423];
    let number = section.number("stale_status", (100, 999)).unwrap_or(defaults::STALE_STATUS);
    let status = StatusCode::from_u16(number as u16).unwrap_or(StatusCode::PRECONDITION_FAILED);
    if !allowed.contains(&number) {
        let what = format!("{number} cannot say that a token is stale");
        section.error("stale_status", Wrong::new(what, "write 412, 409, 403 or 423"));
    }
    status
}

/// An error of a pattern or template says what and, after a semicolon, what to do.
fn split(subject: &str, error: &dyn std::error::Error) -> Wrong {
    let text = error.to_string();
    let (what, remedy) = text.split_once("; ").unwrap_or((&text, ""));
    Wrong::new(format!("{subject}: {what}"), remedy)
}
