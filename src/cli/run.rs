//! The life of `palisade serve`: builds the rooms, runs them, and stops them in order.

use std::{io, net::TcpListener, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::control::Control;
use crate::{
    admin::{self, Admin, ProcessState},
    config::Config,
    gate::{Gate, RealmOptions},
    metrics::Metrics,
    proxy::{Proxy, Shared, UpstreamSetup, overlaps_text},
    server::{self, Listeners, Serving, Stop},
    store::{self, Boot, Store, UpstreamFacts},
    upstream::{Kind, files::FileStore},
};

/// Signals so close to each other are one.
const TOGETHER: Duration = Duration::from_secs(1);

/// Runs until a signal, or until the store fails.
///
/// # Errors
/// Why it did not start, or that it must not go on; in words for the operator.
pub(super) fn run(config: &Config) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    raise_file_limit(config.server.max_connections);
    // Before the store: a start that fails from here on must not have cost its clean mark.
    let signals = runtime.block_on(async { Signals::new() }).map_err(words)?;
    let listeners = Listeners::bind(&config.server).map_err(words)?;
    let admin_listener = config.admin.as_ref().map(bind_admin).transpose()?;
    let files = open_files(config)?;
    let metrics = Metrics::new(&route_names(config));
    let (store, boot) = open_store(config, &files, &metrics)?;

    let rooms = build(config, files, &store, &boot, &metrics);
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    for address in listeners.addresses() {
        tracing::info!("listening on {scheme}://{address}");
    }
    let stop = Stop::new();
    let worker = Arc::clone(&rooms.shared);
    let make = move |_| Proxy::new(Arc::clone(&worker));
    // The last tenth of `stop_timeout` is for what follows when the tasks have been waited for.
    let limit = config.server.stop_timeout * 9 / 10;
    let connections = metrics.connections.clone();
    let options = server::Options { stop_timeout: limit, ..config.server.clone() };
    let serving = server::serve(listeners, &options, &stop, &connections, make)
        .map_err(|error| format!("cannot start the workers: {error}"))?;
    // Before the admin listener is announced, so that its first answer is not "starting".
    rooms.control.set(ProcessState::Ready);
    let admin_stop = CancellationToken::new();
    let control: Arc<dyn admin::Control> = Arc::clone(&rooms.control) as _;
    let admin = admin_listener.zip(config.admin.clone()).map(|(listener, options)| {
        let address = listener.local_addr().unwrap_or(options.listen);
        tracing::info!("admin listening on http://{address}");
        admin::spawn(listener, Admin::new(options, control, metrics), admin_stop.clone())
    });
    let place = config.store.path.clone();
    let running = Running { rooms, serving, stop, limit, place };
    let ended = runtime.block_on(running.until_the_end(signals, &store));
    let ended = ended.leave(&store);
    admin_stop.cancel();
    if let Some(Ok(thread)) = admin {
        drop(thread.join());
    }
    ended
}

/// Takes what the system allows, and says so where that cannot be enough: a connection of a client
/// and one to a store each need a descriptor.
fn raise_file_limit(max_connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let _ = setrlimit(Resource::Nofile, raised);
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let wanted = 2 * max_connections as u64 + 64;
    if allowed < wanted {
        tracing::warn!(
            allowed,
            wanted,
            "too few open files are allowed for max_connections; raise the limit (ulimit -n)"
        );
    }
}

/// What a running process is made of.
struct Rooms {
    shared: Arc<Shared>,
    control: Arc<Control>,
}

fn build(
    config: &Config,
    files: Vec<Option<FileStore>>,
    store: &Store,
    boot: &Boot,
    metrics: &Arc<Metrics>,
) -> Rooms {
    let facts = &config.store.upstreams;
    let realms = facts.iter().zip(&boot.upstreams).map(|(facts, boot)| RealmOptions {
        name: facts.name.clone(),
        id: boot.id,
        lifetime: facts.lifetime,
        quarantine: boot.quarantine,
        all_contested: boot.all_contested,
        unfenced: boot.unfenced,
        void_unfenced: boot.unfenced && !facts.unfenced,
    });
    let memory = Arc::new(store.clone());
    let gate = Gate::new(config.cache / 2, realms.collect(), memory, Arc::clone(metrics));
    let options = config.upstreams.iter().cloned().map(Arc::new);
    let upstreams =
        options.zip(files).map(|(options, files)| UpstreamSetup { options, files }).collect();
    let routes = config.routes.clone();
    let control = Arc::new(Control::new(gate.clone(), config));
    let forwarding = config.forwarding.clone();
    let metrics = Arc::clone(metrics);
    let max_headers = config.server.max_headers;
    let shared = Arc::new(Shared::new(routes, gate, metrics, upstreams, forwarding, max_headers));
    Rooms { shared, control }
}

fn open_files(config: &Config) -> Result<Vec<Option<FileStore>>, String> {
    let open = |kind: &Kind| match kind {
        Kind::Files { directory } => FileStore::open(directory).map(Some).map_err(words),
        Kind::Http { .. } | Kind::Unix { .. } => Ok(None),
    };
    config.upstreams.iter().map(|upstream| open(&upstream.kind)).collect()
}

fn open_store(
    config: &Config,
    files: &[Option<FileStore>],
    metrics: &Arc<Metrics>,
) -> Result<(Store, Boot), String> {
    let mut options = config.store.clone();
    for (facts, files) in options.upstreams.iter_mut().zip(files) {
        // A directory is known by what it is, not by how it is written (R11).
        if let Some(files) = files {
            facts.address = files.identity();
        }
    }
    let syncs = Arc::clone(metrics);
    let observer = Box::new(move |took| syncs.store_synced(took));
    let opened = store::open(&options, overlaps_text, Some(observer)).map_err(words)?;
    tell(&options.upstreams, &opened.boot);
    Ok((opened.store, opened.boot))
}

/// What a start found, for the operator.
fn tell(upstreams: &[UpstreamFacts], boot: &Boot) {
    let created = boot.created;
    if boot.created {
        tracing::info!("made a new store");
    }
    for (facts, boot) in upstreams.iter().zip(&boot.upstreams) {
        let upstream = &facts.name;
        if boot.rekeyed {
            tracing::warn!(upstream, "its keys are made differently now: all its marks are void");
        }
        if let Some(quarantine) = boot.quarantine {
            let every_key = boot.all_contested;
            if created {
                tracing::warn!(
                    upstream,
                    ?quarantine,
                    "a new store knows nothing of earlier writes: all keys wait for them"
                );
                continue;
            }
            tracing::warn!(
                upstream,
                ?quarantine,
                every_key,
                "no clean stop before: contested keys wait for the writes of the last run"
            );
        }
    }
}

fn bind_admin(options: &admin::Options) -> Result<TcpListener, String> {
    let bound = TcpListener::bind(options.listen);
    let listen = options.listen;
    bound.map_err(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            return format!(
                "the admin address {listen} is in use; choose another in [admin] listen, or end \
                 the program that has it"
            );
        }
        format!("cannot listen on the admin address {listen}: {error}")
    })
}

fn route_names(config: &Config) -> Vec<String> {
    config.routes.routes().iter().map(|route| route.path.clone()).collect()
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Everything, between the start and the end.
struct Running {
    rooms: Rooms,
    serving: Serving,
    stop: Stop,
    limit: Duration,
    /// The store's directory.
    place: PathBuf,
}

/// A store that was removed under the running process must not look healthy until the next raise.
async fn watch(store: Store) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tick.tick().await;
        store.verify();
    }
}

/// What is left to do when all tasks have been waited for.
struct Ended {
    gate: Gate,
    serving: Serving,
    stop: Stop,
    in_time: bool,
    poisoned: Option<String>,
}

impl Running {
    async fn until_the_end(mut self, mut signals: Signals, store: &Store) -> Ended {
        let poison = Poison::watch(store, self.place.clone());
        let gate = self.rooms.shared.gate.clone();
        let upkeep = gate.clone();
        let upkeep = tokio::spawn(async move { upkeep.maintain().await });
        let home = tokio::spawn(watch(store.clone()));
        let poisoned = tokio::select! {
            () = signals.stop() => None,
            reason = poison.told() => Some(reason),
            () = self.stop.stopping() => Some("a worker has failed".to_owned()),
        };
        self.rooms.control.set(match &poisoned {
            None => ProcessState::Stopping,
            Some(reason) => ProcessState::Poisoned(reason.clone()),
        });
        match &poisoned {
            None => tracing::info!("stopping: no new writes, open ones end"),
            Some(reason) => tracing::error!(reason, "stopping: the process must be restarted"),
        }
        gate.close();
        self.stop.stop();
        let deadline = Instant::now() + self.limit;
        let ended = async {
            let drained = self.serving.drained().await;
            gate.settled().await;
            drained.into_iter().all(|in_time| in_time)
        };
        let in_time = tokio::select! {
            in_time = timeout_at(deadline, ended) => in_time.unwrap_or(false),
            () = signals.insist() => false,
        };
        upkeep.abort();
        home.abort();
        Ended { gate, serving: self.serving, stop: self.stop, in_time, poisoned }
    }
}

impl Ended {
    /// The last steps: every task joined, then the clean mark as the last write (R5).
    fn leave(self, store: &Store) -> Result<(), String> {
        self.stop.let_exit();
        let joined = self.serving.join().into_iter().all(|joined| joined);
        if let Some(reason) = self.poisoned {
            // A sync that hangs must not hold the end back; there is nothing left to write.
            std::mem::forget(store.clone());
            return Err(format!(
                "stopped because {reason}\n  put the cause right (room, permission, the disk itself), \
                 then start it again: a start looks at what is there, and refuses where marks are missing"
            ));
        }
        let clean = self.in_time && joined && self.gate.is_clean();
        store.close(clean).map_err(|error| format!("the store was not closed: {error}"))?;
        if clean {
            tracing::info!("stopped clean");
            return Ok(());
        }
        for standing in self.gate.standings() {
            let (upstream, open, in_doubt) =
                (standing.upstream, standing.in_flight, standing.in_doubt);
            let quarantine = standing.quarantine.unwrap_or_default();
            if open > 0 || in_doubt > 0 || !quarantine.is_zero() {
                tracing::warn!(upstream, open, in_doubt, ?quarantine, "not settled");
            }
        }
        let why = match (self.in_time, joined) {
            (false, _) => "not all requests ended before stop_timeout, or before a second signal",
            (true, false) => "a worker has failed",
            (true, true) => "writes may still take effect",
        };
        tracing::warn!("stopped, but not clean ({why}): the next start is a quarantine");
        Ok(())
    }
}

/// The store's failure, to be awaited.
struct Poison {
    place: PathBuf,
    told: Arc<(Notify, Mutex<Option<String>>)>,
}

impl Poison {
    fn watch(store: &Store, place: PathBuf) -> Self {
        let told = Arc::new((Notify::new(), Mutex::new(None)));
        let tell = Arc::clone(&told);
        store.on_poison(Box::new(move |reason| {
            *tell.1.lock() = Some(reason);
            tell.0.notify_one();
        }));
        Self { place, told }
    }

    async fn told(&self) -> String {
        self.told.0.notified().await;
        let reason = self.told.1.lock().take().unwrap_or_default();
        format!("the store at {} failed: {reason}", self.place.display())
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        // Heard by nobody. Not left to its default, a write beyond a limit of file sizes fails, as on
        // a full disk, which has words for the operator; by default it ends the process without one.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Resolves when the process, which is stopping, is told once more. A supervisor or a terminal
    /// may send one stop twice, to the process and to its group: that is no impatience.
    async fn insist(&mut self) {
        let together = Instant::now() + TOGETHER;
        loop {
            self.stop().await;
            if Instant::now() > together {
                return;
            }
        }
    }

    /// Resolves when the process is told to stop.
    async fn stop(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => {
                    tracing::warn!("this version does not reload its configuration; restart it");
                }
            }
        }
    }
}
