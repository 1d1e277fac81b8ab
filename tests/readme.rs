//! The README, held against the program: the tour runs as it is printed, and each table lists what
//! there is, all of it and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]
#![allow(clippy::print_stderr, reason = "a test that cannot run says so")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Lines},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    sync::Arc,
};

use palisade::{
    config,
    metrics::{Format, Metrics, ResultLabel},
    proxy::{fields::TokenFault, refusal::Refusal, target::Ambiguity},
    upstream::http::Unreachable,
};
use tempfile::TempDir;

#[test]
fn the_tour_runs_as_it_is_printed() {
    if Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no curl");
        return;
    }
    let palisade = Palisade::start();
    let steps = tour();
    assert!(steps.len() >= 6, "the tour is found: {steps:?}");
    for (command, printed) in steps {
        let output = palisade.run(&command);
        assert_eq!(without_chance(&output), without_chance(&printed), "$ {command}");
    }
}

#[test]
fn every_series_is_listed() {
    let metrics = Metrics::new(&["/{*object}".to_owned()]).encode(Format::Text);
    let served: BTreeSet<String> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .map(str::to_owned)
        .collect();
    assert!(served.len() > 10, "the series are found: {served:?}");
    assert_eq!(first_column("### Metrics"), served);
}

#[test]
fn every_refusal_is_listed_with_its_status() {
    let passes = ["admitted", "claimed", "read", "would-refuse"];
    let codes = ResultLabel::ALL.iter().map(|label| label.as_str().to_owned());
    let codes: BTreeSet<String> = codes.filter(|code| !passes.contains(&code.as_str())).collect();
    assert_eq!(first_column("### Refusals"), codes);
    let rows = rows("### Refusals");
    for refusal in refusals() {
        let row = rows.iter().find(|row| bare(&row[0]) == refusal.code()).unwrap();
        assert_eq!(row[1], refusal.status().as_str(), "{}", refusal.code());
    }
}

/// In both directions: what the table has is taken, and every word of the sources that is taken as
/// a key is in the table.
#[test]
fn every_configuration_key_is_listed() {
    let words = words_of_the_configuration();
    for (heading, section) in [
        ("### `[server]`", "[server]"),
        ("### `[admin]`", "[admin]"),
        ("### `[store]`", "[store]"),
        ("### `[upstreams.NAME]`", "[upstreams.x]"),
        ("### `[[routes]]`", "[[routes]]"),
    ] {
        let listed = first_column(heading);
        assert_eq!(listed, taken(section, &(&words | &listed)), "{heading}");
    }
}

/// Without its lines that show a default it is the same configuration, and each line that is
/// commented out can be put in.
#[test]
fn the_full_configuration_shows_every_key_and_its_default() {
    let parse = |text: &str| config::parse("full.toml", text, &|_| Some("value".to_owned()));
    let shown = |text: &str| {
        let mut config = parse(text).unwrap();
        config.warnings.clear();
        format!("{config:#?}")
    };
    let full = file("config/full.toml");
    assert_eq!(shown(&full), shown(&without_defaults(&full)));

    let mut shows: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for line in lines_with_keys(&full) {
        shows.entry(line.section).or_default().insert(line.key.to_owned());
        let nested = line.text.split(['{', ',']).skip(1).filter(|_| line.key == "tls");
        let nested = nested.filter_map(|part| Some(part.split_once(" =")?.0.trim().to_owned()));
        let table = if line.section == "[server]" { "[server] tls" } else { "[upstreams.x.tls]" };
        shows.entry(table).or_default().extend(nested);
        if line.is_comment {
            let there = format!("# {}", line.text);
            let errors = parse(&full.replacen(&there, line.text, 1)).err();
            // Files that are not there, and a url that is not https.
            let excused = ["cannot be read", "stands beside a url without TLS"];
            let fault = errors
                .into_iter()
                .flat_map(|errors| errors.0)
                .find(|error| !excused.iter().any(|excuse| error.what.contains(excuse)));
            assert!(fault.is_none(), "{there}: {fault:?}");
        }
    }
    let words = words_of_the_configuration();
    for (section, shown) in &shows {
        assert_eq!(*shown, taken(section, &(&words | shown)), "{section}");
    }
    assert_eq!(shows.len(), 7, "every section is found");
}

#[test]
fn configurations_that_are_printed_load() {
    let parse = |name: &str, text: &str| {
        let loaded = config::parse(name, text, &|_| None);
        assert!(loaded.is_ok(), "{name}: {}\n{text}", loaded.unwrap_err());
    };
    parse("config/palisade.toml", &file("config/palisade.toml"));
    for name in ["README.md", "docs/choosing.md"] {
        let blocks = blocks_of("toml", &file(name));
        assert!(!blocks.is_empty(), "{name} has some");
        for block in blocks {
            parse(name, &completed(&block));
        }
    }
}

/// A block with what it leaves out for brevity.
fn completed(block: &str) -> String {
    let mut text = block.to_owned();
    if !block.contains("[store]") {
        text.push_str("[store]\npath = \"d/store\"\n");
    }
    if !block.contains("[upstreams.") {
        text.push_str("[upstreams.blobs]\nurl = \"http://a\"\nmax_write_lifetime = \"1s\"\n");
    }
    if !block.contains("[[routes]]") {
        text.push_str("[[routes]]\npath = \"/{*object}\"\nupstream = \"blobs\"\n");
    }
    text
}

/// What stands in the fenced blocks of a language.
fn blocks_of(language: &str, text: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let blocks = text.split(&opening).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// A line of a configuration that sets a key, or would.
struct KeyLine<'t> {
    /// As [`taken`] calls it.
    section: &'static str,
    key: &'t str,
    /// Without the sign of a comment.
    text: &'t str,
    is_comment: bool,
}

fn lines_with_keys(text: &str) -> Vec<KeyLine<'_>> {
    let mut section = "";
    let mut found = Vec::new();
    for line in text.lines() {
        let sections = ["[server]", "[admin]", "[store]", "[[routes]]"];
        if line.starts_with('[') {
            section = sections.into_iter().find(|name| *name == line).unwrap_or("[upstreams.x]");
        }
        let text = line.strip_prefix("# ").unwrap_or(line);
        let Some((key, _)) = text.split_once(" = ") else { continue };
        if key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'2') {
            found.push(KeyLine { section, key, text, is_comment: text != line });
        }
    }
    found
}

fn without_defaults(text: &str) -> String {
    let is_default = |line: &&str| line.contains(" = ") && !line.contains("[example]");
    text.lines().filter(|line| !is_default(line)).collect::<Vec<_>>().join("\n")
}

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The proxy as a newcomer starts it, but on ports that are free.
struct Palisade {
    child: Child,
    /// Kept open: it goes on logging.
    _stderr: Lines<BufReader<ChildStderr>>,
    dir: TempDir,
    listen: String,
    admin: String,
}

impl Palisade {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = config::BUILT_IN.replace(LISTEN, ANY_PORT).replace(ADMIN, ANY_PORT);
        fs::write(dir.path().join("palisade.toml"), config).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_palisade"))
            .args(["serve", "--config", "palisade.toml"])
            .env_remove("PALISADE_LOG")
            .env_remove("PALISADE_LOG_FORMAT")
            .current_dir(dir.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut address = |before: &str| {
            let line = lines.find_map(|line| Some(line.unwrap().split_once(before)?.1.to_owned()));
            line.expect("it starts")
        };
        let listen = address(" listening on http://");
        let admin = address("admin listening on http://");
        Self { child, _stderr: lines, dir, listen, admin }
    }

    /// Runs a printed command as a shell does.
    fn run(&self, command: &str) -> String {
        let command = command.replace(LISTEN, &self.listen).replace(ADMIN, &self.admin);
        let shell = Command::new("sh").args(["-c", &command]).current_dir(self.dir.path()).output();
        String::from_utf8(shell.unwrap().stdout).unwrap()
    }
}

impl Drop for Palisade {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

const LISTEN: &str = "127.0.0.1:8080";
const ADMIN: &str = "127.0.0.1:9180";
const ANY_PORT: &str = "127.0.0.1:0";

/// What stands below a heading, up to the next one.
fn below(heading: &str) -> Vec<String> {
    let readme = file("README.md");
    let lines = readme.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// The commands of the tour, each with what is printed after it.
fn tour() -> Vec<(String, String)> {
    let mut steps: Vec<(String, String)> = Vec::new();
    let mut within = false;
    for line in below("## A short tour") {
        match line.strip_prefix("$ ") {
            _ if line.starts_with("```") => within = line == "```console",
            Some(command) if within => steps.push((command.to_owned(), String::new())),
            None if within => {
                let (_, printed) = steps.last_mut().expect("a command comes first");
                printed.push_str(&line);
                printed.push('\n');
            }
            _ => {}
        }
    }
    steps
}

/// An output without what differs from run to run.
fn without_chance(output: &str) -> String {
    let masked = |line: &str| {
        let line = line.trim_end();
        for name in ["date:", "etag:", "last-modified:", "x-request-id:"] {
            if line.starts_with(name) {
                return name.to_owned();
            }
        }
        match line.split_once("\"request_id\":") {
            Some((before, _)) => before.to_owned(),
            None => line.to_owned(),
        }
    };
    let lines: Vec<String> = output.lines().map(masked).collect();
    lines.join("\n").trim_end().to_owned()
}

/// The rows of the tables below a heading, without their heads.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let cells = |line: String| {
        let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(inner.split(" | ").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>())
    };
    let rows = below(heading).into_iter().filter_map(cells);
    rows.filter(|row| row[0].starts_with('`')).collect()
}

fn first_column(heading: &str) -> BTreeSet<String> {
    let names: BTreeSet<String> = rows(heading).iter().map(|row| bare(&row[0])).collect();
    assert!(!names.is_empty(), "{heading} is found");
    names
}

fn bare(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}

/// One of each kind.
fn refusals() -> Vec<Refusal> {
    vec![
        Refusal::StaleToken,
        Refusal::Superseded,
        Refusal::TokenMissing,
        Refusal::TokenMalformed(TokenFault::NotOne),
        Refusal::TokenImplausible,
        Refusal::HolderConflict,
        Refusal::TargetAmbiguous(Ambiguity::TooLong),
        Refusal::NotFenceable(""),
        Refusal::MethodNotAllowed(String::new()),
        Refusal::NoRoute,
        Refusal::DrainingWrites,
        Refusal::InDoubt(std::time::Duration::ZERO),
        Refusal::StoreUnavailable,
        Refusal::Overloaded,
        Refusal::ShuttingDown,
        Refusal::UpstreamUnreachable(Arc::new(Unreachable::NotHttp)),
        Refusal::UpstreamFailed(String::new()),
        Refusal::UpstreamTimeout,
        Refusal::RedirectRefused,
        Refusal::BodyTooLarge,
        Refusal::RequestTimeout,
        Refusal::ExpectationFailed,
        Refusal::BadRequest(""),
    ]
}

/// The readers of the configuration's sections.
const SOURCES: [&str; 7] = [
    "build.rs",
    "methods.rs",
    "rewrite.rs",
    "routes.rs",
    "tls.rs",
    "upstream_tls.rs",
    "upstreams.rs",
];

/// Whatever stands in quotes in the sources and could be a key.
fn words_of_the_configuration() -> BTreeSet<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config");
    let mut words = BTreeSet::new();
    for name in SOURCES {
        let text = fs::read_to_string(sources.join(name)).unwrap();
        let word = |piece: &&str| {
            !piece.is_empty()
                && piece.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'2')
        };
        words.extend(text.split('"').filter(word).map(str::to_owned));
    }
    words
}

/// The keys that a section takes: given a value of no use, it complains of the value.
fn taken(section: &str, keys: &BTreeSet<String>) -> BTreeSet<String> {
    let head = match section {
        "[server] tls" => "[server.tls]",
        "[upstreams.x.tls]" => "[upstreams.x]\nurl = \"https://a\"\n[upstreams.x.tls]",
        section => section,
    };
    let refused = ["unknown key", "it is not supported by this version"];
    // One of them is wrong for any key: by its type, or beside a url without TLS.
    let probes = [("", "{}"), ("", "7"), ("url = \"http://a\"", "7")];
    let found = probes.iter().flat_map(|(first, value)| {
        let targets = ["url", "directory"];
        let others = keys.iter().filter(|key| first.is_empty() || !targets.contains(&key.as_str()));
        let lines: Vec<_> = others.map(|key| format!("{key} = {value}")).collect();
        let text = format!("{head}\n{first}\n{}\n", lines.join("\n"));
        let errors = config::parse("test", &text, &|_| None).unwrap_err().0;
        let complaint = |key: &&String| {
            let at = format!("{section} {key}");
            let mut said = errors.iter().filter(|error| error.key == at).peekable();
            said.peek().is_some() && said.all(|error| !refused.contains(&error.what.as_str()))
        };
        keys.iter().filter(complaint).cloned().collect::<Vec<_>>()
    });
    found.collect()
}
