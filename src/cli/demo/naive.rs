//! What people build first: a proxy that checks the token and forwards, and a store that is slow.
//!
//! Both are threads of this process with sockets of their own. The proxy is not even careless: it
//! checks and raises in one step. It forgets what it has forwarded, and that is enough.

use std::{
    io::{self, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::wire::{Message, ask, patient};

/// The longest that the store holds a write back, whatever happens.
const MOST_HELD: Duration = Duration::from_secs(3);

/// The proxy and its store. Dropping it ends both.
pub(super) struct Naive {
    // Dropped in this order: the proxy's connections end when the store's do.
    store: Listener,
    proxy: Listener,
    disk: Arc<Disk>,
}

impl Naive {
    pub(super) fn start() -> io::Result<Self> {
        let disk = Arc::new(Disk::default());
        let written = Arc::clone(&disk);
        let store = Listener::start(move |request| Ok(written.answer(request)))?;
        let (to, highest) = (store.address, Mutex::new(0));
        let proxy = Listener::start(move |request| check_and_forward(request, &highest, to))?;
        Ok(Self { store, proxy, disk })
    }

    /// Where the proxy listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.proxy.address
    }

    /// Waits until the store has a write that it has not finished.
    pub(super) fn until_held(&self) -> bool {
        self.disk.until(|state| state.held)
    }

    /// Lets the store finish what it has begun.
    pub(super) fn finish(&self) {
        self.disk.finish();
    }

    pub(super) fn file(&self) -> String {
        self.disk.state.lock().content.clone()
    }
}

impl Drop for Naive {
    fn drop(&mut self) {
        self.disk.finish();
        self.store.dead.store(true, Ordering::SeqCst);
    }
}

fn check_and_forward(
    request: &Message,
    highest: &Mutex<u64>,
    store: SocketAddr,
) -> io::Result<Message> {
    let token = request.field("fencing-token").and_then(|text| text.parse().ok()).unwrap_or(0);
    {
        let mut highest = highest.lock();
        if token < *highest {
            return Ok(Message::new("HTTP/1.1 412 Precondition Failed", ""));
        }
        *highest = token;
    }
    ask(store, request)
}

/// One file. The first write takes long.
#[derive(Default)]
struct Disk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    content: String,
    held: bool,
    finish: bool,
}

impl Disk {
    fn answer(&self, request: &Message) -> Message {
        if request.start.starts_with("GET ") {
            return Message::new("HTTP/1.1 200 OK", &self.state.lock().content);
        }
        let first = !std::mem::replace(&mut self.state.lock().held, true);
        self.changed.notify_all();
        if first {
            self.until(|state| state.finish);
        }
        self.state.lock().content = request.text();
        Message::new("HTTP/1.1 200 OK", "")
    }

    fn finish(&self) {
        self.state.lock().finish = true;
        self.changed.notify_all();
    }

    fn until(&self, happened: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !happened(state), MOST_HELD);
        happened(&state)
    }
}

/// A thread that accepts, and one for each connection. Dropping it ends and joins them.
struct Listener {
    address: SocketAddr,
    dead: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    fn start(
        answer: impl Fn(&Message) -> io::Result<Message> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let dead = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&dead);
        let accept = move || accept(&listener, &ending, &answer);
        let thread = thread::Builder::new().name("demo-naive".to_owned()).spawn(accept)?;
        Ok(Self { address, dead, thread: Some(thread) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.dead.store(true, Ordering::SeqCst);
        // Wakes the one that accepts; where nothing can connect, it is left to the process's end.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn accept(
    listener: &TcpListener,
    ending: &AtomicBool,
    answer: &(impl Fn(&Message) -> io::Result<Message> + Sync),
) {
    thread::scope(|scope| {
        while let Ok((stream, _)) = listener.accept() {
            if ending.load(Ordering::SeqCst) {
                return;
            }
            scope.spawn(move || serve(&stream, answer));
        }
    });
}

/// A connection that fails has nobody to be told: the story sees it at its own end.
fn serve(stream: &TcpStream, answer: &impl Fn(&Message) -> io::Result<Message>) {
    let served = || -> io::Result<()> {
        patient(stream)?;
        let request = Message::read(&mut BufReader::new(stream))?;
        answer(&request)?.write(&mut &*stream)
    };
    let _ = served();
}
