//! The real binary: started, asked, killed and restarted over one directory.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{
    client::{Request, Response},
    config::Config,
    wait::{DEADLINE, happens, until},
};

/// A `palisade serve` and the directory it lives in.
pub struct Palisade {
    dir: TempDir,
    config: Config,
    child: Child,
    stderr: Arc<Mutex<Vec<String>>>,
    addr: SocketAddr,
    admin: SocketAddr,
}

impl Palisade {
    /// Starts it for the first time: `--fresh`, so that nothing waits for an earlier life.
    pub fn start(config: &Config) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("files")).unwrap();
        Self::start_in(dir, config, &["--fresh"])
    }

    /// Starts it in a directory, with these flags.
    pub fn start_in(dir: TempDir, config: &Config, flags: &[&str]) -> Self {
        let (child, stderr) = launch(dir.path(), config, flags);
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = config.clone();
        let mut palisade = Self { dir, config, child, stderr, addr: unknown, admin: unknown };
        palisade.until_listening();
        palisade
    }

    /// Starts what must refuse to start over this palisade's directory: exit code and words.
    pub fn refuses_to_start(&self, config: &Config, flags: &[&str]) -> (Option<i32>, String) {
        refuses_to_start(self.dir.path(), config, flags)
    }

    fn until_listening(&mut self) {
        let mut addresses = (None, None);
        let started = happens(DEADLINE, || {
            addresses = self.announced();
            let ended = self.child.try_wait().unwrap().is_some();
            ended || matches!(addresses, (Some(_), Some(_)))
        });
        let (Some(addr), Some(admin)) = addresses else {
            panic!("did not start (waited: {}): {}", !started, self.stderr());
        };
        (self.addr, self.admin) = (addr, admin);
    }

    /// The addresses in `listening on http[s]://ADDR` and `admin listening on http://ADDR`.
    fn announced(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let mut addresses = (None, None);
        for line in self.stderr.lock().unwrap().iter() {
            let Some((before, after)) = line.split_once("listening on http") else { continue };
            let after = after.trim_start_matches('s').trim_start_matches("://");
            let end = after.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
            let address = after[..end.unwrap_or(after.len())].parse().ok();
            if before.ends_with("admin ") {
                addresses.1 = address;
            } else {
                addresses.0 = address;
            }
        }
        addresses
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The directory it lives in.
    pub fn home(&self) -> &Path {
        self.dir.path()
    }

    /// The file store's directory.
    pub fn files(&self) -> PathBuf {
        self.dir.path().join("files")
    }

    /// What it has logged in this life.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().join("\n")
    }

    /// Waits until it has logged these words: the last of them may be read after its end.
    pub fn until_said(&self, words: &str) {
        until(&format!("{words:?} in {}", self.stderr()), || self.stderr().contains(words));
    }

    /// kill -9, joined.
    pub fn kill9(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Stops it as an operator would, and answers with its exit status.
    pub fn sigterm_and_wait(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.until_ended()
    }

    /// Waits for its end.
    pub fn until_ended(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = happens(DEADLINE * 2, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(ended, "the process does not end: {}", self.stderr());
        status.unwrap()
    }

    /// Starts it again over the same directory.
    pub fn restart(&mut self) {
        let config = self.config.clone();
        self.restart_with(&config);
    }

    /// The same with another configuration. Its addresses change.
    pub fn restart_with(&mut self, config: &Config) {
        self.restart_with_flags(config, &[]);
    }

    /// The same with flags.
    pub fn restart_with_flags(&mut self, config: &Config, flags: &[&str]) {
        self.config = config.clone();
        (self.child, self.stderr) = launch(self.dir.path(), config, flags);
        self.until_listening();
    }

    /// A metric's value: the sum over its labels, 0 where it has not been counted yet.
    pub fn metric(&self, name: &str) -> f64 {
        let metrics = Request::new("GET", "/metrics").field("Connection", "close");
        let text = metrics.send(self.admin).body;
        let text = String::from_utf8(text).unwrap();
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let rest = rest.strip_prefix('{').map_or(Some(rest), behind_labels)?;
            rest.strip_prefix(' ')?.split(' ').next()?.parse::<f64>().ok()
        });
        values.sum()
    }

    /// Waits until a metric has a value.
    #[expect(clippy::float_cmp, reason = "gauges of whole numbers")]
    pub fn until_metric(&self, name: &str, value: f64) {
        until(&format!("{name} {value}; stderr: {}", self.stderr()), || self.metric(name) == value);
    }

    /// Waits until nothing is in flight and nothing waits.
    pub fn until_quiet(&self) {
        self.until_metric("palisade_in_flight_writes", 0.0);
        self.until_metric("palisade_waiting_writes", 0.0);
    }

    /// `GET /v1/keys/{key}` of the upstream `store`.
    pub fn show(&self, key: &str) -> Response {
        self.admin_request("GET", key, "", "")
    }

    /// `POST /v1/keys/{key}/{change}` with a JSON document.
    pub fn change(&self, key: &str, change: &str, document: &str) -> Response {
        self.admin_request("POST", key, &format!("/{change}"), document)
    }

    fn admin_request(&self, method: &str, key: &str, rest: &str, document: &str) -> Response {
        let key = key.replace('/', "%2F");
        let request = Request::new(method, &format!("/v1/keys/store:{key}{rest}"));
        let request = request.host(&self.admin.to_string());
        let request = if document.is_empty() {
            request
        } else {
            request.field("Content-Type", "application/json").body(document)
        };
        request.send(self.admin)
    }
}

impl Drop for Palisade {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- palisade's stderr:\n{}\n---", self.stderr());
        }
    }
}

fn launch(dir: &Path, config: &Config, flags: &[&str]) -> (Child, Arc<Mutex<Vec<String>>>) {
    let file = dir.join("palisade.toml");
    fs::write(&file, config.text(dir)).unwrap();
    let mut child = binary(dir)
        .args(["serve", "--config"])
        .arg(&file)
        .args(flags)
        .envs(config.variables(dir))
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let stderr = keep_lines(child.stderr.take().unwrap());
    (child, stderr)
}

/// Runs what must end by itself before it listens.
pub fn refuses_to_start(dir: &Path, config: &Config, flags: &[&str]) -> (Option<i32>, String) {
    let (mut child, stderr) = launch(dir, config, flags);
    let mut status = None;
    let ended = happens(DEADLINE, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    let _ = child.kill();
    let text = || stderr.lock().unwrap().join("\n");
    assert!(ended, "it started: {}", text());
    until("the end of stderr: its reader lets go", || Arc::strong_count(&stderr) == 1);
    (status.unwrap().code(), text())
}

/// What follows the labels of a sample; braces within a value, as in `/{*object}`, end nothing.
fn behind_labels(labels: &str) -> Option<&str> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in labels.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(&labels[at + 1..]),
            _ => {}
        }
    }
    None
}

/// The binary, to be run in a directory.
pub fn binary(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
    command.current_dir(dir).stdin(Stdio::null());
    for name in ["RUST_LOG", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

fn keep_lines(stderr: ChildStderr) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            kept.lock().unwrap().push(line);
        }
    });
    lines
}
