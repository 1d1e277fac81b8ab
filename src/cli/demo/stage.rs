//! The real proxy of the story: this program as a process of its own, in a directory of its own.

use std::{
    env,
    fs::{self, DirBuilder},
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

/// How long a start may take.
const START: Duration = Duration::from_secs(3);
/// How long a stop may take before it is made one.
const STOP: Duration = Duration::from_secs(1);

/// `drain_timeout` is short, so that the story is.
const CONFIG: &str = r#"[server]
listen = "127.0.0.1:0"
workers = 1
stop_timeout = "1s"

[store]
path = "fences"

[upstreams.files]
directory = "files"

[[routes]]
path = "/{*object}"
upstream = "files"
drain_timeout = "800ms"
"#;

/// A running proxy. Dropping it ends the process and removes the directory.
pub(super) struct Stage {
    // Dropped in this order.
    process: Process,
    directory: Directory,
    pub(super) address: SocketAddr,
}

impl Stage {
    /// Starts a proxy in front of a built-in file store, and waits until it listens.
    pub(super) fn set() -> Result<Self, String> {
        let directory = Directory::make()?;
        let config = directory.0.join("palisade.toml");
        let prepared = fs::write(&config, CONFIG)
            .and_then(|()| DirBuilder::new().create(directory.0.join("files")));
        prepared.map_err(|error| format!("cannot write in {}: {error}", directory.0.display()))?;
        let (process, address) = Process::start(&directory.0, &config)?;
        Ok(Self { process, directory, address })
    }

    /// A file as it lies in the store's directory, seen past the proxy; empty where there is none.
    pub(super) fn file(&self, path: &str) -> String {
        let path = self.directory.0.join("files").join(path.trim_start_matches('/'));
        fs::read_to_string(path).unwrap_or_default()
    }

    pub(super) fn process_id(&self) -> u32 {
        self.process.child.id()
    }
}

/// A directory that only this user may look into. Dropping it removes it.
struct Directory(PathBuf);

impl Directory {
    fn make() -> Result<Self, String> {
        let name = format!("palisade-demo-{:016x}", fastrand::u64(..));
        let path = env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Nobody can be told; what is left lies where temporary files do.
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Process {
    child: Child,
    /// Reads the log to its end, so that the process never waits for a reader.
    log: Option<JoinHandle<()>>,
    ended: mpsc::Receiver<()>,
}

impl Process {
    fn start(directory: &Path, config: &Path) -> Result<(Self, SocketAddr), String> {
        let program = env::current_exe().map_err(|error| format!("cannot find itself: {error}"))?;
        let mut child = Command::new(program)
            .args(["serve", "--fresh", "--config"])
            .arg(config)
            .current_dir(directory)
            .env("PALISADE_LOG", "info")
            .env("PALISADE_LOG_FORMAT", "text")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start palisade serve: {error}"))?;
        let stderr = child.stderr.take();
        let (lines, said) = mpsc::sync_channel(1);
        let (end, ended) = mpsc::sync_channel(1);
        let log = stderr.map(|stderr| thread::spawn(move || read(stderr, &lines, &end)));
        let process = Self { child, log, ended };
        let address = said.recv_timeout(START).map_err(|_| "palisade serve does not listen")?;
        Ok((process, address?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if self.ended.recv_timeout(STOP).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        if let Some(log) = self.log.take() {
            let _ = log.join();
        }
    }
}

/// Says where it listens, or what it said last instead; then that it has ended.
fn read(
    stderr: ChildStderr,
    said: &mpsc::SyncSender<Result<SocketAddr, String>>,
    end: &mpsc::SyncSender<()>,
) {
    let mut last = "palisade serve ended at once".to_owned();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if let Some((_, address)) = line.split_once("listening on http://")
            && let Ok(address) = address.trim().parse()
        {
            let _ = said.try_send(Ok(address));
        }
        last = line;
    }
    let _ = said.try_send(Err(last));
    let _ = end.try_send(());
}
