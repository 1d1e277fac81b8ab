//! The README, held against the program: the tour runs as it is printed, and each table lists what
//! there is, all of it and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]
#![allow(clippy::print_stderr, reason = "a test that cannot run says so")]

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Lines},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
};

use palisade::{
    config,
    metrics::{Format, Metrics, ResultLabel},
    proxy::{fields::TokenFault, refusal::Refusal, target::Ambiguity},
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
        let candidates = words.union(&listed);
        let taken = candidates.filter(|word| is_taken(section, word)).cloned().collect();
        assert_eq!(listed, taken, "{heading}");
    }
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

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// What stands below a heading, up to the next one.
fn below(heading: &str) -> Vec<String> {
    let readme = readme();
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
        Refusal::UpstreamUnreachable(String::new()),
        Refusal::UpstreamFailed(String::new()),
        Refusal::UpstreamTimeout,
        Refusal::RedirectRefused,
        Refusal::BodyTooLarge,
        Refusal::RequestTimeout,
        Refusal::ExpectationFailed,
        Refusal::BadRequest(""),
    ]
}

/// Whatever stands in quotes in the sources and could be a key.
fn words_of_the_configuration() -> BTreeSet<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config");
    let mut words = BTreeSet::new();
    for name in ["build.rs", "methods.rs", "routes.rs", "upstreams.rs"] {
        let text = fs::read_to_string(sources.join(name)).unwrap();
        let word = |piece: &&str| {
            !piece.is_empty() && piece.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        };
        words.extend(text.split('"').filter(word).map(str::to_owned));
    }
    words
}

/// Whether a section takes a key: given a value of no use, it complains of the value.
fn is_taken(section: &str, key: &str) -> bool {
    let at = format!("{section} {key}");
    let refused = ["unknown key", "it is not supported by this version"];
    // One of them is wrong for any key: by its type, or beside a url without TLS.
    let probes = ["KEY = {}", "KEY = 7", "url = \"http://a\"\nKEY = 7"];
    probes.iter().any(|probe| {
        let text = format!("{section}\n{}\n", probe.replace("KEY", key));
        let errors = config::parse("test", &text, &|_| None).unwrap_err().0;
        let mut said = errors.iter().filter(|error| error.key == at).peekable();
        said.peek().is_some() && said.all(|error| !refused.contains(&error.what.as_str()))
    })
}
