//! `palisade check`: the routes and what each fences, then what should be known.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use super::{
    ConfigArgument, Exit, say,
    style::wrapped,
    table::Table,
    terminal::{Screen, Terminal},
};
use crate::{
    config::{self, Config, ConfigErrors, written_duration},
    gate::{Mode, Takeover},
    proxy::Route,
};

#[derive(clap::Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the last column means.
const WORST_WAIT: &str = "\
WORST WAIT is how long writes of an old holder can hold back a new one's first: drain_timeout until \
they are cut, and max_write_lifetime for as long as the store may still apply them. With \
takeover = \"wait\" a write whose client keeps sending is not cut: no bound.";

pub(super) fn command(arguments: &Arguments, terminal: &mut Terminal<'_>) -> Exit {
    match config::load(arguments.config.config.as_deref()) {
        Ok(config) if arguments.json => {
            terminal.say(&format!("{:#}\n", as_json(&config)));
            Exit::Done
        }
        Ok(config) => {
            terminal.say(&as_text(&config, terminal.screen));
            Exit::Done
        }
        Err(errors) => {
            if arguments.json {
                terminal.say(&format!("{:#}\n", errors_as_json(&errors)));
            } else {
                refused(&errors, terminal);
            }
            Exit::Failed
        }
    }
}

fn refused(errors: &ConfigErrors, terminal: &mut Terminal<'_>) {
    terminal.errors(errors);
    let count = counted(errors.0.len(), "error");
    say(terminal.err, &(terminal.err_screen.style.wrong(&count) + "\n"));
}

fn as_text(config: &Config, screen: Screen) -> String {
    let head = ["ROUTE", "MATCHES", "UPSTREAM", "KEY", "TOKEN", "WORST WAIT"];
    let rows: Vec<_> = in_order(config).map(|route| row(config, route)).collect();
    let table = Table::new(head, screen).lines(&rows);
    let mut text = format!("{table}\n{}\n\n", wrapped(WORST_WAIT, screen.prose(), 0));
    let warnings = config.warnings.iter();
    text.extend(warnings.map(|warning| screen.warning(&warning.to_string()) + "\n"));
    let counts = [
        counted(config.routes.routes().len(), "route"),
        counted(config.upstreams.len(), "upstream"),
        counted(config.warnings.len(), "warning"),
    ];
    text + &screen.message(&format!("{}: {}\n", config.file, counts.join(", ")))
}

/// In the order in which they are tried.
pub(super) fn in_order(config: &Config) -> impl Iterator<Item = &Route> {
    config.routes.order().iter().filter_map(|at| config.routes.get(*at))
}

fn row(config: &Config, route: &Route) -> Vec<String> {
    let wait = worst_wait(config, route).to_string();
    vec![
        route.path.clone(),
        matches(route),
        upstream(config, route).to_owned(),
        key(route),
        token(route).to_owned() + if route.policy.enforce { "" } else { ", not enforced" },
        wait,
    ]
}

fn matches(route: &Route) -> String {
    let methods: Vec<&str> = route.methods.iter().map(http::Method::as_str).collect();
    let parts = [methods.join(","), route.hosts.join(",")];
    let given: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if given.is_empty() { "all".to_owned() } else { given.join(" at ") }
}

pub(super) fn upstream<'c>(config: &'c Config, route: &Route) -> &'c str {
    config.upstreams.get(route.upstream).map_or("", |upstream| upstream.name.as_str())
}

fn key(route: &Route) -> String {
    let key = route.template.as_str().unwrap_or("the whole path");
    key.to_owned() + if route.fold_case { ", in lower case" } else { "" }
}

pub(super) fn token(route: &Route) -> &'static str {
    match route.policy.mode {
        Mode::Required => "required",
        Mode::Sticky => "sticky",
        Mode::Off => "off",
    }
}

/// How long a takeover can take on a route.
pub(super) enum Wait {
    /// Nothing waits.
    None,
    Bounded(Duration),
    Unbounded,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("-"),
            Self::Bounded(wait) => f.write_str(&written_duration(*wait)),
            Self::Unbounded => f.write_str("no bound"),
        }
    }
}

pub(super) fn worst_wait(config: &Config, route: &Route) -> Wait {
    let policy = &route.policy;
    match (policy.mode, policy.enforce, policy.takeover) {
        (Mode::Off, ..) | (_, false, _) => Wait::None,
        (_, _, Takeover::Wait) => Wait::Unbounded,
        (_, _, Takeover::Abort) => {
            let upstream = config.upstreams.get(route.upstream);
            let lifetime = upstream.map_or(Duration::ZERO, |upstream| upstream.max_write_lifetime);
            Wait::Bounded(policy.drain_timeout.saturating_add(lifetime))
        }
    }
}

fn as_json(config: &Config) -> Value {
    let route = |route: &Route| {
        let (wait, bounded) = match worst_wait(config, route) {
            Wait::None => (None, true),
            Wait::Bounded(wait) => (Some(wait.as_millis() as u64), true),
            Wait::Unbounded => (None, false),
        };
        json!({
            "path": route.path,
            "methods": route.methods.iter().map(http::Method::as_str).collect::<Vec<_>>(),
            "hosts": route.hosts,
            "upstream": upstream(config, route),
            "key": route.template.as_str(),
            "fold_case": route.fold_case,
            "token": token(route),
            "enforce": route.policy.enforce,
            "worst_wait_ms": wait,
            "worst_wait_bounded": bounded,
        })
    };
    let warning = |warning: &config::Warning| json!({"line": warning.line, "text": warning.text});
    json!({
        "file": config.file,
        "routes": in_order(config).map(route).collect::<Vec<_>>(),
        "warnings": config.warnings.iter().map(warning).collect::<Vec<_>>(),
        "errors": [],
    })
}

fn errors_as_json(errors: &ConfigErrors) -> Value {
    let error = |error: &config::ConfigError| {
        json!({
            "file": error.file,
            "line": error.line,
            "key": error.key,
            "what": error.what,
            "remedy": error.remedy,
        })
    };
    json!({"errors": errors.0.iter().map(error).collect::<Vec<_>>()})
}

fn counted(count: usize, noun: &str) -> String {
    let many = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{many}")
}

#[cfg(test)]
pub(super) mod tests;
