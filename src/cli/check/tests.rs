use std::fs;

use super::*;
use crate::cli::snapshots::compare;

/// All kinds of routes, and a warning or two.
pub(in crate::cli) const CONFIG: &str = r#"
[store]
path = "d/fences"
[upstreams.files]
directory = "d/files"
[upstreams.s3]
url = "http://store:9000"
max_write_lifetime = "90s"
[[routes]]
path = "/{*object}"
upstream = "files"
[[routes]]
path = "/s3/{bucket}/{*object}"
upstream = "s3"
fence = "{bucket}"
host = "s3.example"
methods = ["GET", "PUT"]
[[routes]]
path = "/slow/{*o}"
upstream = "files"
takeover = "wait"
[[routes]]
path = "/open/{*o}"
upstream = "files"
token = "off"
[[routes]]
path = "/watched/{*o}"
upstream = "files"
enforce = false
"#;

/// As if the file were in the current directory: its real name would not always fit the same way.
const FILE: &str = "palisade.toml";

fn load(text: &str) -> Result<Config, ConfigErrors> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    fs::write(&path, text).unwrap();
    config::load(Some(&path))
}

#[test]
fn the_table_and_the_warnings() {
    let mut config = load(CONFIG).unwrap();
    config.file = FILE.to_owned();
    config.warnings.iter_mut().for_each(|warning| warning.file = FILE.to_owned());
    compare("check", |screen| as_text(&config, screen));
}

#[test]
fn the_errors() {
    let mut errors =
        load(&format!("{CONFIG}tokn = \"off\"\ndrain_timeout = \"10\"\n")).unwrap_err();
    errors.0.iter_mut().for_each(|error| error.file = FILE.to_owned());
    compare("check-errors", |screen| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut terminal = Terminal { out: &mut out, err: &mut err, screen, err_screen: screen };
        refused(&errors, &mut terminal);
        assert!(out.is_empty());
        String::from_utf8(err).unwrap()
    });
}

#[test]
fn a_file_that_is_not_there() {
    compare("check-no-file", |screen| {
        let (exit, text) = crate::cli::snapshots::ran(&["check", "--config", "nope.toml"], screen);
        assert_eq!(exit, Exit::Failed);
        text
    });
}
