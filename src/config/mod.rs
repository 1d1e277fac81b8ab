//! CONFIGURATION. The file, read and validated into each room's options.
//!
//! It owns the spelling of the file, its defaults and its mistakes, all of which are reported
//! together with line, key and remedy. It is the only reader of the file, and starts nothing: what
//! it hands out is sound (R11), or it is not handed out.

mod build;
mod cross;
mod defaults;
mod error;
mod lints;
mod methods;
mod raw;
mod rewrite;
mod routes;
mod tls;
mod upstream_tls;
mod upstreams;
mod url;
mod values;

#[cfg(test)]
mod tests;

pub use error::{ConfigError, ConfigErrors, Warning};
pub use values::written_duration;

use std::{
    cell::RefCell,
    fs,
    io::{self, Read},
    path::Path,
};

use toml::de::DeTable;

use self::{
    error::Wrong,
    raw::{Section, Source},
    upstreams::Upstream,
};
use crate::{
    admin,
    proxy::{Forwarding, Route, RouteTable},
    server,
    store::{self, Keying, UpstreamFacts},
    upstream,
};

/// Where the file is looked for when none is named.
pub const DEFAULT_FILE: &str = "config/palisade.toml";

/// What is used where that file does not exist either: the file of that name in the sources.
pub const BUILT_IN: &str = include_str!("../../config/palisade.toml");

/// How the built-in default is named in messages.
const BUILT_IN_NAME: &str = "built-in default";

/// Largest file in bytes.
const MAX_FILE: usize = 4 << 20;

/// A configuration that is sound.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file, as the operator named it.
    pub file: String,
    /// `[server]`.
    pub server: server::Options,
    /// `trusted_proxies` and `forwarded` of `[server]`.
    pub forwarding: Forwarding,
    /// `[admin]`; without the section there is no admin listener.
    pub admin: Option<admin::Options>,
    /// `[store]`, with the facts of every upstream, and without what only flags can say.
    pub store: store::Options,
    /// `[store] cache` in bytes: a half of it is for keys, the other for the database's pages.
    pub cache: u64,
    /// `[upstreams.NAME]` in the file's order.
    pub upstreams: Vec<upstream::Options>,
    /// `[[routes]]`.
    pub routes: RouteTable,
    /// What is allowed and should be known.
    pub warnings: Vec<Warning>,
}

/// Reads a file; without one [`DEFAULT_FILE`], and without that [`BUILT_IN`].
///
/// # Errors
/// Every mistake in it, or why it cannot be read. Nothing was changed.
pub fn load(path: Option<&Path>) -> Result<Config, ConfigErrors> {
    let file = path.unwrap_or(Path::new(DEFAULT_FILE));
    let name = file.display().to_string();
    let text = match read_at_most(file, MAX_FILE) {
        Ok(text) => text,
        Err(error) if path.is_none() && error.kind() == io::ErrorKind::NotFound => {
            return parse(BUILT_IN_NAME, BUILT_IN, &variable);
        }
        Err(error) => return Err(unreadable(&name, &error)),
    };
    parse(&name, &text, &variable)
}

/// Reads a configuration's text. `env` answers for `${NAME}`; `file` is what messages call it.
///
/// # Errors
/// Every mistake in it.
pub fn parse(
    file: &str,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigErrors> {
    let source = Source { file, text, env, errors: RefCell::default() };
    if text.len() > MAX_FILE {
        let wrong = Wrong::new("the file is larger than 4 MiB", "split what does not belong to it");
        source.error(1, "", wrong);
        return Err(errors(source));
    }
    let (table, syntax) = DeTable::parse_recoverable(text);
    for error in &syntax {
        let span = error.span().unwrap_or_default();
        let message = error.message().replace('\n', ", ");
        source.error(
            source.line(&span),
            "",
            Wrong::new(message, "the file must be TOML, where a text stands in \"quotes\""),
        );
    }
    // What follows a syntax error would be guesswork.
    if !syntax.is_empty() {
        return Err(errors(source));
    }
    match sections(&source, table.get_ref()) {
        Some(config) if source.errors.borrow().is_empty() => Ok(config),
        _ => Err(errors(source)),
    }
}

/// `None` where there are errors; a configuration is only to be used where there are none.
fn sections(source: &Source<'_>, table: &DeTable<'_>) -> Option<Config> {
    let mut root = Section::root(source, table);
    let server = build::server(root.section("server"));
    let admin = build::admin(root.section("admin"));
    let store = build::store(root.section("store"));
    let upstreams = upstreams::upstreams(&mut root);
    let routes = routes::routes(&mut root, &upstreams);
    root.finish();

    cross::listeners(source, &server, admin.as_ref(), &upstreams);
    cross::directories(source, &store, &server, admin.as_ref(), &upstreams);
    let addresses = cross::addresses(source, &upstreams);
    let lines = lints::lines(&routes);
    let routes = cross::table(source, routes, &upstreams)?;
    let mut store_options = store.options;
    store_options.upstreams = facts(&upstreams, addresses, &routes);
    Some(Config {
        file: source.file.to_owned(),
        server: server.options,
        forwarding: server.forwarding,
        admin: admin.map(|admin| admin.options),
        store: store_options,
        cache: store.cache,
        warnings: lints::warnings(source.file, server.tls.doubts, &upstreams, &routes, &lines),
        upstreams: upstreams.into_iter().map(|upstream| upstream.options).collect(),
        routes,
    })
}

/// What the store remembers of each upstream (R5, R10, R11).
fn facts(upstreams: &[Upstream], addresses: Vec<String>, table: &RouteTable) -> Vec<UpstreamFacts> {
    let fact = |(place, (upstream, address)): (usize, (&Upstream, String))| {
        let routes = || table.routes().iter().filter(move |route| route.upstream == place);
        let mut keying: Vec<Keying> = Vec::new();
        for form in routes().map(Route::key_form) {
            let new = Keying { pattern: form.pattern(), template: form.template() };
            if !keying.contains(&new) {
                keying.push(new);
            }
        }
        UpstreamFacts {
            name: upstream.options.name.clone(),
            address,
            lifetime: upstream.options.max_write_lifetime,
            unfenced: routes().any(Route::unfenced),
            keying,
        }
    };
    upstreams.iter().zip(addresses).enumerate().map(fact).collect()
}

/// All mistakes, in the file's order.
fn errors(source: Source<'_>) -> ConfigErrors {
    let mut errors = source.errors.into_inner();
    errors.sort_by_key(|error| error.line);
    ConfigErrors(errors)
}

/// A file's text, or a byte more than `most` of it: a name may lead to what has no end.
fn read_at_most(file: &Path, most: usize) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(file)?.take(most as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn unreadable(file: &str, error: &io::Error) -> ConfigErrors {
    ConfigErrors(vec![ConfigError {
        file: file.to_owned(),
        line: None,
        key: String::new(),
        what: format!("it cannot be read: {error}"),
        remedy: "name a file that exists and may be read with --config".to_owned(),
    }])
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
