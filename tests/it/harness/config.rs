//! The configuration of a palisade under test, as TOML.

use std::{collections::BTreeMap, fmt::Write as _, net::SocketAddr, path::Path};

/// A value as TOML writes it.
pub struct Value(String);

impl Value {
    /// An inline table of strings.
    pub fn table(entries: &[(&str, &str)]) -> Self {
        let entries = entries.iter().map(|(name, value)| format!("{name:?} = {value:?}"));
        Self(format!("{{ {} }}", entries.collect::<Vec<_>>().join(", ")))
    }

    /// A list.
    pub fn list(values: impl IntoIterator<Item = Self>) -> Self {
        let values = values.into_iter().map(|value| value.0);
        Self(format!("[{}]", values.collect::<Vec<_>>().join(", ")))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self(format!("{text:?}"))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self(value.to_string())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self(value.to_string())
    }
}

impl From<&[&str]> for Value {
    fn from(list: &[&str]) -> Self {
        Self(format!("{list:?}"))
    }
}

impl From<Vec<u16>> for Value {
    fn from(list: Vec<u16>) -> Self {
        Self(format!("{list:?}"))
    }
}

type Table = BTreeMap<String, String>;

/// One upstream named `store`, and routes to it. `DIR` in a value is the test's directory.
#[derive(Clone, Debug)]
pub struct Config {
    server: Table,
    store: Table,
    upstream: Table,
    routes: Vec<Table>,
    environment: Table,
}

impl Config {
    /// Everything under `/`, fenced by the whole path, at an HTTP upstream whose rules take little
    /// time.
    pub fn http(upstream: SocketAddr) -> Self {
        Self::empty()
            .upstream("url", format!("http://{upstream}"))
            .upstream("max_write_lifetime", "2s")
            .route("/{*object}")
            .set("drain_timeout", "200ms")
    }

    /// The built-in file store.
    pub fn files() -> Self {
        Self::empty().upstream("directory", "DIR/files").route("/{*object}")
    }

    fn empty() -> Self {
        let (server, store, upstream, environment) = Default::default();
        let config = Self { server, store, upstream, routes: Vec::new(), environment };
        config.server("listen", "127.0.0.1:0").store("path", "DIR/fences")
    }

    /// An option of `[server]`.
    pub fn server(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.server.insert(name.to_string(), value.into().0);
        self
    }

    /// An option of `[store]`.
    pub fn store(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.store.insert(name.to_string(), value.into().0);
        self
    }

    /// An option of the upstream.
    pub fn upstream(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.upstream.insert(name.to_string(), value.into().0);
        self
    }

    /// A variable of the process's environment.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_string(), value.to_string());
        self
    }

    /// The variables, for a test that lives in `dir`.
    pub fn variables(&self, dir: &Path) -> impl Iterator<Item = (&String, String)> {
        let dir = dir.display().to_string();
        self.environment.iter().map(move |(name, value)| (name, value.replace("DIR", &dir)))
    }

    /// One more route; the same path replaces nothing.
    pub fn route(mut self, path: &str) -> Self {
        let route = [("path", path), ("upstream", "store"), ("token", "required")];
        let route = route.map(|(name, value)| (name.to_string(), Value::from(value).0));
        self.routes.push(route.into_iter().collect());
        self
    }

    /// No routes yet.
    pub fn without_routes(mut self) -> Self {
        self.routes.clear();
        self
    }

    /// An option of the last route.
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        let route = self.routes.last_mut().expect("a route");
        route.insert(name.to_string(), value.into().0);
        self
    }

    /// The last route without the drain time-out that every test's route has.
    pub fn without_drain(mut self) -> Self {
        self.routes.last_mut().expect("a route").remove("drain_timeout");
        self
    }

    /// The file, for a test that lives in `dir`.
    pub fn text(&self, dir: &Path) -> String {
        let mut text = String::new();
        let mut table = |header: &str, table: &Table| {
            let _ = writeln!(text, "{header}");
            for (name, value) in table {
                let _ = writeln!(text, "{name} = {value}");
            }
        };
        table("[server]", &self.server);
        table("[admin]\nlisten = \"127.0.0.1:0\"", &Table::new());
        table("[store]", &self.store);
        table("[upstreams.store]", &self.upstream);
        for route in &self.routes {
            table("[[routes]]", route);
        }
        text.replace("DIR", &dir.display().to_string())
    }
}
