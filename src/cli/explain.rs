//! `palisade explain`: what would be done with a request, and why, without sending it.
//!
//! It makes a head of the command line and asks the proxy about it. No store is opened, so that the
//! key's mark is not known: what a lower, an equal and a higher token would get is all said.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header, request::Parts};
use serde_json::{Value, json};

use super::{
    ConfigArgument, Exit, check,
    style::harmless,
    table::pairs,
    terminal::{Screen, Terminal},
};
use crate::{
    config::{self, Config},
    fence::UpstreamId,
    gate::{Gate, Mode, RealmOptions},
    metrics::Metrics,
    proxy::{Beside, Preview, Route, Shared, classify::Action, refusal::Refusal},
    store::MemoryStore,
};

#[derive(clap::Args, Debug)]
pub(super) struct Arguments {
    /// The method, in capital letters as it is sent
    method: String,
    /// The URL as it is sent, byte by byte; or a path alone
    url: String,
    /// A field of the request, as often as there are fields
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    #[command(flatten)]
    config: ConfigArgument,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn command(arguments: &Arguments, terminal: &mut Terminal<'_>) -> Exit {
    let head = match head(arguments) {
        Ok(head) => head,
        Err(why) => {
            terminal.error(&why);
            return Exit::Usage;
        }
    };
    let config = match config::load(arguments.config.config.as_deref()) {
        Ok(config) => config,
        Err(errors) => {
            terminal.errors(&errors);
            return Exit::Failed;
        }
    };
    let preview = Preview::of(&shared(&config), &head, true);
    let report = Report { config: &config, preview: &preview };
    if arguments.json {
        terminal.say(&format!("{:#}\n", report.json(arguments)));
    } else {
        let request = format!("{} {}", arguments.method, arguments.url);
        terminal.say(&report.text(&request, terminal.screen));
    }
    if preview.refusal.is_some() { Exit::Failed } else { Exit::Done }
}

/// The head that a client would send: the target in origin form, the authority as Host.
fn head(arguments: &Arguments) -> Result<Parts, String> {
    let method = Method::from_bytes(arguments.method.as_bytes())
        .map_err(|_| format!("{:?} is no method", arguments.method))?;
    let url: Uri = arguments.url.parse().map_err(|error| {
        format!("{:?} cannot be sent as a URL: {error}; percent-encode it", arguments.url)
    })?;
    let scheme = url.scheme_str().unwrap_or_default();
    if !matches!(scheme, "" | "http" | "https") {
        return Err(format!(
            "{scheme}:// is spoken by no listener; write http://, or a path alone"
        ));
    }
    let mut headers = HeaderMap::new();
    for line in &arguments.headers {
        let (name, value) = field(line)?;
        headers.append(name, value);
    }
    let mut parts = Request::new(()).into_parts().0;
    parts.method = method;
    if !headers.contains_key(header::HOST) {
        let authority = url.authority().map_or("localhost", |authority| authority.as_str());
        let host = authority.rsplit('@').next().unwrap_or(authority);
        let host = HeaderValue::from_str(host).map_err(|_| format!("{host:?} is no host"))?;
        headers.insert(header::HOST, host);
    }
    parts.uri = match url.path_and_query().cloned() {
        Some(path) if url.scheme().is_some() => Uri::from(path),
        _ => url,
    };
    parts.headers = headers;
    Ok(parts)
}

fn field(line: &str) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = || format!("-H {line:?} is no field; write it like -H 'Fencing-Token: 5'");
    let (name, value) = line.split_once(':').ok_or_else(wrong)?;
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
    let value = value.trim_matches([' ', '\t']);
    Ok((name, HeaderValue::from_bytes(value.as_bytes()).map_err(|_| wrong())?))
}

/// What the proxy needs to read a head. The gate knows the upstreams' names; nobody asks it more.
fn shared(config: &Config) -> Arc<Shared> {
    let realm = |(place, upstream): (usize, &crate::upstream::Options)| RealmOptions {
        name: upstream.name.clone(),
        id: UpstreamId(u32::try_from(place).unwrap_or(u32::MAX)),
        lifetime: upstream.max_write_lifetime,
        quarantine: None,
        all_contested: false,
        unfenced: false,
        void_unfenced: false,
    };
    let realms = config.upstreams.iter().enumerate().map(realm).collect();
    let metrics = Metrics::new(&[]);
    let gate = Gate::new(1 << 20, realms, Arc::new(MemoryStore::new()), Arc::clone(&metrics));
    let (routes, forwarding) = (config.routes.clone(), config.forwarding.clone());
    let max_headers = config.server.max_headers;
    Arc::new(Shared::new(routes, gate, metrics, Vec::new(), forwarding, max_headers))
}

/// A preview in words.
struct Report<'a> {
    config: &'a Config,
    preview: &'a Preview,
}

impl Report<'_> {
    fn route(&self) -> Option<&Route> {
        self.config.routes.get(self.preview.route?)
    }

    /// The request, and below it what would be done.
    fn text(&self, request: &str, screen: Screen) -> String {
        let (style, verdict) = (screen.style, self.verdict());
        let unfenced = self.route().is_some_and(|route| {
            let reads = self.preview.action == Some(Action::Read);
            !reads && (route.policy.mode == Mode::Off || !route.policy.enforce)
        });
        let verdict = match &self.preview.refusal {
            Some(_) => style.wrong(&verdict),
            None if unfenced => style.bad(&verdict),
            None => style.good(&verdict),
        };
        let mut rows = vec![("verdict", verdict)];
        rows.extend(self.rows());
        format!("{}\n\n{}", style.strong(request), pairs(&rows, 12, screen))
    }

    /// Below the verdict.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        rows.extend(self.why().map(|why| ("why", why)));
        rows.push(("route", self.route().map_or("none".to_owned(), |route| self.named(route))));
        let names = std::iter::once("beside").chain(std::iter::repeat(""));
        rows.extend(names.zip(self.beside().map(|(route, why)| format!("{}: {why}", route.path))));
        rows.extend(self.preview.key.as_deref().map(|key| ("key", harmless(key))));
        let Some(route) = self.route() else { return rows };
        let enforced = if route.policy.enforce { "" } else { ", not enforced" };
        rows.push(("mode", format!("token = \"{}\"{enforced}", check::token(route))));
        rows.extend(self.preview.token.map(|token| ("token", token.to_string())));
        if self.preview.refusal.is_none() {
            let names = std::iter::once("then").chain(std::iter::repeat(""));
            rows.extend(names.zip(self.consequences(route).into_iter().map(|(_, text)| text)));
        }
        if self.preview.action != Some(Action::Read) {
            rows.push(("worst wait", check::worst_wait(self.config, route).to_string()));
        }
        rows
    }

    fn verdict(&self) -> String {
        if let Some(refusal) = &self.preview.refusal {
            return format!("refused: {} {}", refusal.status().as_u16(), refusal.code());
        }
        let off = self.route().is_some_and(|route| route.policy.mode == Mode::Off);
        match self.preview.action {
            Some(Action::Write) if off => "a write, passed on without the fence".to_owned(),
            Some(Action::Write) => "a write, offered to the fence".to_owned(),
            Some(Action::Claim) => "a claim, offered to the fence".to_owned(),
            Some(Action::Read) | None => "a read, passed on".to_owned(),
        }
    }

    /// As the client would read it.
    fn why(&self) -> Option<String> {
        let refusal = self.preview.refusal.as_ref()?;
        Some(format!("{}: {}", refusal.title(), refusal.detail()))
    }

    fn named(&self, route: &Route) -> String {
        format!("{} to the upstream {}", route.path, check::upstream(self.config, route))
    }

    fn beside(&self) -> impl Iterator<Item = (&Route, &'static str)> {
        let route = |(at, why): &(usize, Beside)| {
            let why = match why {
                Beside::OtherHost => "matches the path, but not the host",
                Beside::OtherMethod => "matches the path, but not the method",
                Beside::TriedLater => "matches too, but is tried later",
            };
            Some((self.config.routes.get(*at)?, why))
        };
        self.preview.beside.iter().filter_map(route)
    }

    /// What is decided where the key's mark is known; a name for programs, and words.
    fn consequences(&self, route: &Route) -> Vec<(&'static str, String)> {
        let policy = &route.policy;
        let token = self.preview.token;
        if self.preview.action == Some(Action::Read) {
            if route.check_reads && token.is_some() {
                return vec![("lower", stale(route))];
            }
            return vec![("any", "reads are not fenced".to_owned())];
        }
        if policy.mode == Mode::Off {
            return vec![("any", "goes on unfenced: nothing orders it after others".to_owned())];
        }
        if token.is_none() {
            return vec![("any", self.without_token(policy.enforce))];
        }
        let mut texts = vec![
            ("lower", stale(route)),
            ("equal", "equal to the mark: goes on, without the disk".to_owned()),
            (
                "higher",
                "above the mark: the mark is raised on disk first, then it goes on".to_owned(),
            ),
        ];
        let jump = policy.max_jump.map(|jump| format!("more than {jump} above the mark"));
        let most = policy.max_token.map(|most| format!("above max_token, {most}"));
        let implausible = Refusal::TokenImplausible;
        let status = implausible.status().as_u16();
        let code = implausible.code();
        texts.extend(
            jump.into_iter().chain(most).map(|it| ("limit", format!("{it}: {status} {code}"))),
        );
        let text = match (policy.enforce, policy.same_token_doubt_waits) {
            (false, _) => "not enforced: it goes on whatever is said here, as would-refuse",
            (true, false) => "waits while lower writes are in flight or in doubt",
            (true, true) => "waits while lower writes are in flight, or lower or equal in doubt",
        };
        texts.push(("wait", text.to_owned()));
        texts
    }

    fn without_token(&self, enforce: bool) -> String {
        let missing = Refusal::TokenMissing;
        match &self.preview.would_refuse {
            Some(would) => format!("goes on as would-refuse; code={}", would.code()),
            None if enforce => format!(
                "goes on until the key has seen its first token; from then on {} {}",
                missing.status().as_u16(),
                missing.code()
            ),
            None => "goes on; not enforced".to_owned(),
        }
    }

    fn json(&self, arguments: &Arguments) -> Value {
        let preview = self.preview;
        let action = preview.action.map(|action| match action {
            Action::Read => "read",
            Action::Claim => "claim",
            Action::Write => "write",
        });
        let refused = preview.refusal.as_ref().map(|refusal| {
            json!({
                "status": refusal.status().as_u16(),
                "code": refusal.code(),
                "title": refusal.title(),
                "detail": refusal.detail(),
            })
        });
        let beside = self.beside().map(|(route, why)| json!({"path": route.path, "why": why}));
        let consequences = match self.route() {
            Some(route) if preview.refusal.is_none() => self.consequences(route),
            _ => Vec::new(),
        };
        let consequences =
            consequences.iter().map(|(mark, text)| json!({"if": mark, "then": text}));
        json!({
            "method": arguments.method,
            "url": arguments.url,
            "action": action,
            "refused": refused,
            "would_refuse": preview.would_refuse.as_ref().map(Refusal::code),
            "route": self.route().map(|route| &route.path),
            "upstream": self.route().map(|route| check::upstream(self.config, route)),
            "beside": beside.collect::<Vec<_>>(),
            "key": preview.key,
            "mode": self.route().map(check::token),
            "enforce": self.route().map(|route| route.policy.enforce),
            "token": preview.token.map(|token| token.to_string()),
            "then": consequences.collect::<Vec<_>>(),
            "worst_wait": self.route().map(|it| check::worst_wait(self.config, it).to_string()),
        })
    }
}

fn stale(route: &Route) -> String {
    let code = Refusal::StaleToken.code();
    format!("below the mark: {} {code}, from the head alone", route.stale_status.as_u16())
}

#[cfg(test)]
mod tests;
