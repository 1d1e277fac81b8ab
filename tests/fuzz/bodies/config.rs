//! A configuration's text: every mistake has its line and its words, and what loads is sound.

use palisade::{
    config::{self, Config, ConfigErrors},
    proxy::{Found, KeyParts, PartError, Route},
};

use super::shown;

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Certificates and secrets are read while a configuration is: not from devices.
    if ["/dev", "/proc", "/sys"].iter().any(|path| text.contains(path)) {
        return;
    }
    let read = || config::parse("fuzz.toml", text, &variable);
    match read() {
        Ok(config) => is_sound(&config),
        Err(errors) => {
            say_where_and_what(&errors, text);
            assert_eq!(read().err(), Some(errors), "the same each time");
        }
    }
}

fn variable(name: &str) -> Option<String> {
    (name == "STORE").then(|| "store.internal".to_owned())
}

fn say_where_and_what(errors: &ConfigErrors, text: &str) {
    let last = text.split('\n').count();
    let mut before = 1;
    assert!(!errors.0.is_empty());
    for error in &errors.0 {
        let line = error.line.expect("a mistake in a text has a line");
        assert!((before..=last).contains(&line), "{error}: {before} to {last}");
        before = line;
        assert!(!error.what.is_empty(), "{error}");
        let told = error.to_string();
        assert!(!told.contains(['\n', '\r']), "one line: {told:?}");
        assert!(told.starts_with(&format!("fuzz.toml:{line}: ")), "{told}");
    }
}

/// R11 by trial: the routes of one upstream make one key of one path.
fn is_sound(config: &Config) {
    let routes = config.routes.routes();
    assert_eq!(config.store.upstreams.len(), config.upstreams.len());
    assert!(!routes.is_empty() && !config.server.listen.is_empty());
    let paths: Vec<Vec<u8>> = routes.iter().take(16).flat_map(paths).collect();
    for path in &paths {
        let made = |route: &Route| {
            let captures = route.pattern.matches(path)?;
            Some((route.upstream, route.key(&captures, path, &Parts).ok()?.into()))
        };
        let keys: Vec<(usize, Vec<u8>)> = routes.iter().filter_map(made).collect();
        for (upstream, key) in &keys {
            let mut same = keys.iter().filter(|(other, _)| other == upstream);
            assert!(same.all(|(_, other)| other == key), "{}: {keys:?}", shown(path));
        }
        let (method, host) = (http::Method::PUT, "host.example");
        if let Found::Route(at, captures) = config.routes.find(host.as_bytes(), &method, path) {
            assert!(routes[at].takes(&method) && routes[at].takes_host(host.as_bytes()));
            assert_eq!(routes[at].pattern.matches(path), Some(captures));
        }
    }
}

/// Paths that a route matches: its names filled with one word, and its rest with one and two.
fn paths(route: &Route) -> Vec<Vec<u8>> {
    let fill = |rest: &str| {
        let part = |part: &str| match part {
            part if part.starts_with("{*") => rest.to_owned(),
            part if part.starts_with('{') => "x".to_owned(),
            part => part.to_owned(),
        };
        route.path.split('/').map(part).collect::<Vec<_>>().join("/").into_bytes()
    };
    vec![fill("x"), fill("x/y")]
}

struct Parts;

impl KeyParts for Parts {
    fn host(&self) -> Result<std::borrow::Cow<'_, [u8]>, PartError> {
        Ok(b"host.example"[..].into())
    }

    fn query(&self, name: &str) -> Result<std::borrow::Cow<'_, [u8]>, PartError> {
        Ok(format!("query-{name}").into_bytes().into())
    }

    fn header(&self, name: &http::HeaderName) -> Result<std::borrow::Cow<'_, [u8]>, PartError> {
        Ok(format!("header-{name}").into_bytes().into())
    }
}
