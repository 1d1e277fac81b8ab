mod errors;
mod tls;
mod upstreams;
mod values;
mod warnings;

use super::*;

/// A configuration without a mistake, for tests to change one line of.
const BASE: &str = r#"[store]
path = "d/fences"
[upstreams.files]
directory = "d/files"
[upstreams.http]
url = "http://store:9000"
max_write_lifetime = "90s"
[[routes]]
path = "/{*object}"
upstream = "files"
[[routes]]
path = "/http/{*object}"
upstream = "http"
"#;

/// A change of [`BASE`], by line.
enum Change<'t> {
    /// The line is replaced; `""` takes it out.
    At(usize, &'t str),
    /// Lines are put after it.
    After(usize, &'t str),
}

use Change::{After, At};

impl Change<'_> {
    fn text(&self) -> String {
        let mut lines: Vec<&str> = BASE.lines().collect();
        match self {
            At(line, text) => lines[line - 1] = text,
            After(line, text) => lines.insert(*line, text),
        }
        lines.join("\n")
    }
}

fn env(name: &str) -> Option<String> {
    match name {
        "STORE" => Some("store.internal:9000".to_owned()),
        _ => None,
    }
}

fn read(text: &str) -> Result<Config, ConfigErrors> {
    parse("p.toml", text, &env)
}

/// What is wrong, one mistake a line; empty where nothing is.
fn mistakes(text: &str) -> String {
    read(text).err().map_or_else(String::new, |errors| errors.to_string())
}
