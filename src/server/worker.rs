//! The workers: a thread, a runtime, its listeners, its connections.

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    panic::resume_unwind,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Answers, Listeners, Options, Stop,
    connection::{self, Shared},
    http1,
};
use crate::metrics::{Entered, Gauge};

/// Blocking calls (files, name look-ups) at once per worker.
const BLOCKING_THREADS: usize = 64;

/// How long the end of a runtime waits for blocking calls that nobody waits for.
const EXIT_WITHIN: Duration = Duration::from_secs(1);

/// The pause after an accept that failed for want of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running server.
#[derive(Debug)]
pub struct Serving {
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    thread: JoinHandle<()>,
    drained: oneshot::Receiver<bool>,
    in_time: Option<bool>,
}

impl Serving {
    /// Resolves after [`Stop::stop`], when no client's connection is left. Per worker, whether all
    /// ended by themselves within `stop_timeout`; the others were cut. May be dropped and called
    /// again.
    pub async fn drained(&mut self) -> Vec<bool> {
        let mut all = Vec::with_capacity(self.workers.len());
        for worker in &mut self.workers {
            let in_time = match worker.in_time {
                Some(in_time) => in_time,
                // A worker that panicked has told nothing.
                None => (&mut worker.drained).await.unwrap_or(false),
            };
            worker.in_time = Some(in_time);
            all.push(in_time);
        }
        all
    }

    /// Blocks until the workers' threads have ended, after [`Stop::let_exit`]. Per worker, whether
    /// it ended without a panic.
    pub fn join(self) -> Vec<bool> {
        self.workers.into_iter().map(|worker| worker.thread.join().is_ok()).collect()
    }
}

/// Starts the workers. `connections` counts the open ones. `make` is called once on each, within its
/// runtime, with its number.
pub fn serve<F, S>(
    listeners: Listeners,
    options: &Options,
    stop: &Stop,
    connections: &Gauge,
    make: F,
) -> io::Result<Serving>
where
    F: Fn(usize) -> S + Send + Sync + 'static,
    S: Answers,
{
    let make = Arc::new(make);
    let slots = Arc::new(Semaphore::new(options.max_connections.clamp(1, Semaphore::MAX_PERMITS)));
    let mut workers = Vec::new();
    // A worker that cannot be started takes those before it along.
    let undo = stop.stop_token().clone().drop_guard();
    for (index, sockets) in listeners.into_workers().into_iter().enumerate() {
        let runtime = runtime()?;
        let sockets = register(&runtime, sockets)?;
        let (drained_tx, drained) = oneshot::channel();
        let (options, stop, make) = (options.clone(), stop.clone(), Arc::clone(&make));
        let (slots, connections) = (Arc::clone(&slots), connections.clone());
        let body = move || {
            // A server must not go on with a part of its listeners: a worker's end is the stop.
            let _stop = stop.stop_token().clone().drop_guard();
            runtime.block_on(async {
                let shared = share(make(index), options, &stop, connections);
                let in_time = run(sockets, shared, slots, &stop).await;
                let _ = drained_tx.send(in_time);
                stop.exiting().await;
            });
            runtime.shutdown_timeout(EXIT_WITHIN);
        };
        let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(body)?;
        workers.push(Worker { thread, drained, in_time: None });
    }
    undo.disarm();
    Ok(Serving { workers })
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build()
}

fn register(runtime: &Runtime, sockets: Vec<StdListener>) -> io::Result<Vec<TcpListener>> {
    let _within = runtime.enter();
    sockets.into_iter().map(TcpListener::from_std).collect()
}

fn share<S>(service: S, options: Options, stop: &Stop, connections: Gauge) -> Shared<S> {
    Shared {
        http1: http1::protocol(&options),
        options,
        service: Arc::new(service),
        burst: Arc::default(),
        connections,
        tasks: TaskTracker::new(),
        // Its own child: connections look at it on every turn, and must share no lock for that.
        stop: stop.stop_token().child_token(),
        cut: CancellationToken::new(),
    }
}

/// Accepts until the stop, then waits for the connections, but not beyond [`Stop::let_exit`];
/// whether they ended in time.
async fn run<S: Answers>(
    sockets: Vec<TcpListener>,
    shared: Shared<S>,
    slots: Arc<Semaphore>,
    stop: &Stop,
) -> bool {
    let shared = Arc::new(shared);
    let mut bursts = JoinSet::new();
    bursts.spawn(Arc::clone(&shared.burst).run());
    let mut accepting = JoinSet::new();
    for listener in sockets {
        let (shared, slots) = (Arc::clone(&shared), Arc::clone(&slots));
        accepting.spawn(accept(listener, shared, slots));
    }
    tokio::select! {
        () = shared.stop.cancelled() => {}
        // It has no end but a panic, after which no small answer would go out.
        Some(Err(ended)) = bursts.join_next() => resume_unwind(ended.into_panic()),
    }
    while accepting.join_next().await.is_some() {}
    shared.tasks.close();
    let in_time = tokio::select! {
        biased;
        ended = timeout(shared.options.stop_timeout, shared.tasks.wait()) => ended.is_ok(),
        () = stop.exiting() => false,
    };
    shared.cut.cancel();
    shared.tasks.wait().await;
    // The last connections may have had the last turn.
    shared.burst.finish();
    in_time
}

/// Accepts on one socket until the stop, which closes it.
///
/// The slot is taken after the accept, not before: sockets that share a port each get their part of
/// its connections from the kernel, so each must always have one accept open.
async fn accept<S: Answers>(listener: TcpListener, shared: Arc<Shared<S>>, slots: Arc<Semaphore>) {
    let next = async {
        loop {
            let (stream, remote) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    pause(&error).await;
                    continue;
                }
            };
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            let held = (slot, shared.connections.enter());
            shared.tasks.spawn(serve_one(stream, remote, Arc::clone(&shared), held));
        }
    };
    tokio::select! {
        biased;
        () = shared.stop.cancelled() => {}
        () = next => {}
    }
}

/// Its future is the memory of an idle connection: what it awaits is made within it, since a future
/// that is handed in has its place twice.
async fn serve_one<S: Answers>(
    stream: TcpStream,
    remote: SocketAddr,
    shared: Arc<Shared<S>>,
    held: (OwnedSemaphorePermit, Entered),
) {
    connection::serve(stream, remote, shared).await;
    drop(held);
}

/// A connection that was lost in the queue is no reason to pause; want of descriptors or memory is.
async fn pause(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
    {
        return;
    }
    tracing::warn!(%error, "cannot accept connections");
    sleep(ACCEPT_PAUSE).await;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use hyper::body::Incoming;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::server::{Peer, socket::ClientIo, tests::options};

    fn size_of_future<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    fn size_with<S: Answers>(_: &S) -> usize {
        size_of_future(serve_one::<S>)
    }

    /// Thousands of connections may be idle. With HTTP/2's future and the handshake's in it, and all
    /// of that twice, this was 6,984.
    #[test]
    fn a_connections_future_is_small() {
        let answer = |_: Peer, _: Request<Incoming>| async {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        };
        let size = size_with(&answer);
        assert!(size < 2048, "{size}");
    }

    /// tokio turns to a worker's end after as many turns of tasks, before one that then became ready.
    const TURNS: usize = 61;

    /// What was given in the last turn of the last connections goes out, though nothing turns any more.
    #[tokio::test]
    async fn the_last_burst_is_sent() {
        for connections in TURNS - 2..=TURNS + 2 {
            let answers = last_answers(connections).await;
            assert!(answers.iter().all(|answer| answer == "last"), "of {connections}: {answers:?}");
        }
    }

    /// Of so many connections, which are given something and end when they are cut.
    async fn last_answers(connections: usize) -> Vec<String> {
        let answer = |_: Peer, _: Request<Incoming>| async {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        };
        let (stop, options) = (Stop::new(), Options { stop_timeout: Duration::ZERO, ..options() });
        let shared = share(answer, options, &stop, Gauge::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut clients = Vec::new();
        for _ in 0..connections {
            let address = listener.local_addr().unwrap();
            clients.push(TcpStream::connect(address).await.unwrap());
            let (stream, _) = listener.accept().await.unwrap();
            let io = ClientIo::new(stream, Duration::from_mins(1), Arc::clone(&shared.burst));
            shared.tasks.spawn(give_at_the_end(shared.cut.clone(), io));
        }
        stop.stop();
        run(vec![], shared, Arc::new(Semaphore::new(1)), &stop).await;
        let mut answers = Vec::new();
        for mut client in clients {
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answers.push(answer);
        }
        answers
    }

    async fn give_at_the_end(cut: CancellationToken, mut io: ClientIo) {
        cut.cancelled().await;
        io.write_all(b"last").await.unwrap();
    }
}
