//! Bytes of a client, to a real server over a loopback socket, and behind it a store that takes
//! nothing but the strictest HTTP/1.1: it answers in time, no task panics, nothing is left over, and
//! what reaches the store is well-formed, each once, with tokens that never go down.

mod store;
mod strict;

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc, Once,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use palisade::{
    gate::Gate,
    metrics::{Gauge, Metrics},
    proxy::{Proxy, Shared, UpstreamSetup},
    server::{self, Listeners, Serving, Stop},
};
use tokio::time::timeout;

use self::store::Store;
use super::{
    shown,
    world::{configuration, gate},
};

/// Longer than any time-out that such a request can meet.
const HANG: Duration = Duration::from_secs(20);

/// The largest input; more would fill the sockets' buffers.
const MAX: usize = 32 * 1024;

/// How an HTTP/2 connection begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const ROUTES: &str = r#"
[[routes]]
path = "/{*object}"
upstream = "store"
drain_timeout = "1s"
max_body = "16KiB"
[[routes]]
path = "/sticky/{*object}"
upstream = "store"
token = "sticky"
"#;

static PANICS: AtomicUsize = AtomicUsize::new(0);

pub fn run(data: &[u8]) {
    watch_panics();
    if data.len() > MAX {
        return;
    }
    let panics = PANICS.load(SeqCst);
    let store = Store::start();
    let world = World::start(store.address());
    let answers = converse(world.address, data);
    world.end();
    let faults = store.end();
    assert!(faults.is_empty(), "{faults:#?} of {}", shown(data));
    assert_eq!(PANICS.load(SeqCst), panics, "a task panicked: {}", shown(data));
    if let Some(answers) = answers.filter(|_| !data.starts_with(PREFACE))
        && let Err(why) = strict::answers(&answers)
    {
        panic!("{why} in {} to {}", shown(&answers), shown(data));
    }
}

/// A panic within a task ends the task only; here it must not be missed.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            if thread.name().is_some_and(|name| name.starts_with("worker-")) {
                PANICS.fetch_add(1, SeqCst);
            }
            before(info);
        }));
    });
}

/// Sends everything, says that there is no more, and reads to the end; `None` after a reset.
fn converse(address: SocketAddr, data: &[u8]) -> Option<Vec<u8>> {
    let mut client = TcpStream::connect(address).expect("a connection");
    client.set_read_timeout(Some(HANG)).expect("a time-out");
    client.set_write_timeout(Some(HANG)).expect("a time-out");
    // It may have been closed already.
    let _ = client.write_all(data);
    let _ = client.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    match client.read_to_end(&mut answers) {
        Ok(_) => Some(answers),
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("it hangs: {}", shown(data)),
        Err(_) => None,
    }
}

struct World {
    address: SocketAddr,
    gate: Gate,
    metrics: Arc<Metrics>,
    connections: Gauge,
    stop: Stop,
    serving: Serving,
}

impl World {
    fn start(store: SocketAddr) -> Self {
        let config = configuration(&format!("http://{store}"), "", ROUTES);
        let options = server::Options {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            workers: 1,
            ..config.server
        };
        let metrics = Metrics::new(&[]);
        let gate = gate(&metrics);
        let upstreams = config.upstreams.into_iter().map(Arc::new);
        let upstreams = upstreams.map(|options| UpstreamSetup { options, files: None }).collect();
        let shared = Shared::new(
            config.routes,
            gate.clone(),
            Arc::clone(&metrics),
            upstreams,
            config.forwarding,
            options.max_headers,
        );
        let shared = Arc::new(shared);
        let listeners = Listeners::bind(&options).expect("a free port");
        let address = listeners.addresses()[0];
        let (stop, connections) = (Stop::new(), Gauge::default());
        let make = move |_| Proxy::new(Arc::clone(&shared));
        let serving =
            server::serve(listeners, &options, &stop, &connections, make).expect("a server");
        Self { address, gate, metrics, connections, stop, serving }
    }

    /// The stop of a process, in order; everything has ended by itself.
    fn end(mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            timeout(HANG, self.gate.settled()).await.expect("every write has its outcome");
            self.gate.close();
            self.stop.stop();
            let drained = timeout(HANG, self.serving.drained()).await;
            assert_eq!(drained, Ok(vec![true]), "connections end by themselves");
        });
        self.stop.let_exit();
        assert_eq!(self.serving.join(), [true], "no worker panicked");
        assert_eq!(self.metrics.in_flight_writes.value(), 0);
        assert_eq!(self.metrics.waiting_writes.value(), 0);
        assert_eq!(self.connections.value(), 0);
    }
}
