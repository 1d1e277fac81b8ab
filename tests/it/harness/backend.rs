//! A store that a test scripts: raw HTTP/1.1, one thread per connection, a script per request.

use std::{
    collections::{HashMap, VecDeque},
    io::{BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use socket2::{Domain, Socket, Type};

use super::{
    log::{Arrival, KEPT, Log},
    message::Head,
    wait::{LIFETIME, Latch, now, until},
};

/// One step of a script.
#[derive(Clone)]
pub enum Act {
    /// Reads the request's body to its end; what was cut is not whole.
    Read,
    /// Reads so many bytes of the body, and leaves the rest.
    ReadSome(u64),
    /// Waits until the test opens the latch.
    Wait(Latch),
    /// Lets so much time pass.
    Pause(Duration),
    /// The write takes effect, if it was read whole.
    Apply,
    /// The same behind an answer or a cut, but only within the backend's bound: a store that keeps
    /// to its `max_write_lifetime` (the facts of the promise). Too late, it ends the connection: what
    /// has not taken effect is not answered either.
    ApplyLate,
    /// As `ApplyLate`, whether or not the request was read whole.
    ApplyPart,
    /// Answers with a status and no body.
    Answer(u16),
    /// Writes these bytes.
    Send(Vec<u8>),
    /// Writes so many bytes of a body.
    Flood(u64),
    /// Ends the connection with a reset.
    Reset,
    /// Ends the connection with a clean end.
    Close,
}

/// A script in one word.
pub fn send(text: &str) -> Act {
    Act::Send(text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes())
}

#[derive(Default)]
struct Scripts {
    by_token: HashMap<String, VecDeque<Vec<Act>>>,
    /// Connections, in the order of their arrival, that are not read before the latch opens.
    stalled: VecDeque<Latch>,
    /// Accepted so far.
    connections: usize,
    /// Of these, stalled ones that have ended.
    stalls_ended: usize,
}

/// What becomes of a request that no script waits for; `None`: what any store would do.
pub type Plan = Box<dyn Fn(&Head) -> Option<Vec<Act>> + Send + Sync>;

struct Shared {
    log: Log,
    scripts: Mutex<Scripts>,
    bound: Option<Duration>,
    plan: Option<Plan>,
    closed: AtomicBool,
}

/// A running backend. It ends with the test's process, unless it is closed.
pub struct Backend {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

impl Backend {
    /// Keeps to the bound of the tests' upstreams.
    pub fn start() -> Self {
        Self::with_bound(Some(LIFETIME))
    }

    /// `bound`: how long after a request's arrival it may still take effect once it was answered or
    /// cut. Counted from the arrival, so that a slow machine never breaks it.
    pub fn with_bound(bound: Option<Duration>) -> Self {
        Self::build(bound, None)
    }

    /// The same, by a plan.
    pub fn planned(bound: Option<Duration>, plan: Plan) -> Self {
        Self::build(bound, Some(plan))
    }

    fn build(bound: Option<Duration>, plan: Option<Plan>) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(128).unwrap();
        let listener = TcpListener::from(socket);
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            log: Log::default(),
            scripts: Mutex::default(),
            bound,
            plan,
            closed: AtomicBool::new(false),
        });
        let for_thread = shared.clone();
        thread::spawn(move || accept(&listener, &for_thread));
        Self { addr, shared }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Takes no more connections.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.addr);
    }

    /// The script of the next request with this token ("-": none). More are queued.
    pub fn script(&self, token: &str, acts: impl Into<Vec<Act>>) {
        let mut scripts = self.shared.scripts.lock().unwrap();
        scripts.by_token.entry(token.to_string()).or_default().push_back(acts.into());
    }

    /// The next connection is accepted and not read before the latch opens: the kernels keep what
    /// is sent, the sender's all that is more than some 64 KiB.
    pub fn stall_next_connection(&self, latch: &Latch) {
        self.shared.scripts.lock().unwrap().stalled.push_back(latch.clone());
    }

    /// Waits until a stalled connection was read to its end.
    pub fn until_stall_ended(&self) {
        until("a stalled connection's end", || {
            self.shared.scripts.lock().unwrap().stalls_ended > 0
        });
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.scripts.lock().unwrap().connections
    }

    /// Waits until a write with this token stands at a `Wait` of its script.
    pub fn until_held(&self, token: &str) -> Arrival {
        let token = (token != "-").then_some(token);
        let held = |a: &Arrival| a.is_write() && a.token() == token && a.held;
        self.log().until(&format!("a held write of token {token:?}"), held)
    }

    /// Waits until a write with this token has run its script to the end.
    pub fn until_settled(&self, token: &str) -> Arrival {
        let token = (token != "-").then_some(token);
        let settled = |a: &Arrival| a.is_write() && a.token() == token && a.settled;
        self.log().until(&format!("a settled write of token {token:?}"), settled)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        let (shared, (number, stall)) = (shared.clone(), next_connection(shared));
        thread::spawn(move || {
            let accepted = stall.as_ref().map(|_| now());
            if let Some(latch) = &stall {
                latch.wait();
            }
            Connection::new(stream, number, &shared).serve(accepted);
            if stall.is_some() {
                shared.scripts.lock().unwrap().stalls_ended += 1;
            }
        });
    }
}

fn next_connection(shared: &Shared) -> (usize, Option<Latch>) {
    let mut scripts = shared.scripts.lock().unwrap();
    scripts.connections += 1;
    (scripts.connections, scripts.stalled.pop_front())
}

struct Connection<'a> {
    from: BufReader<TcpStream>,
    /// `None` once a script has ended it.
    to: Option<TcpStream>,
    number: usize,
    shared: &'a Shared,
}

impl<'a> Connection<'a> {
    fn new(stream: TcpStream, number: usize, shared: &'a Shared) -> Self {
        stream.set_nodelay(true).unwrap();
        let to = Some(stream.try_clone().unwrap());
        Self { from: BufReader::with_capacity(1 << 17, stream), to, number, shared }
    }

    /// `accepted`: when a request came that was not read at once.
    fn serve(mut self, mut accepted: Option<Instant>) {
        while self.to.is_some() {
            let Ok(Some(head)) = Head::read(&mut self.from) else { return };
            let arrived = accepted.take().unwrap_or_else(now);
            let arrival = Arrival {
                head: head.clone(),
                connection: self.number,
                body: 0,
                start: Vec::new(),
                whole: false,
                settled: false,
                held: false,
            };
            let n = self.shared.log.arrive(arrival);
            for act in self.next_script(&head) {
                if self.carry_out(act, n, &head, arrived).is_err() {
                    self.end();
                }
            }
            self.shared.log.update(n, |arrival| arrival.settled = true);
        }
    }

    fn next_script(&self, head: &Head) -> Vec<Act> {
        let token = head.field("fencing-token").unwrap_or("-");
        let mut scripts = self.shared.scripts.lock().unwrap();
        let queued = match head.word(0) {
            "OPTIONS" => None,
            // A claim or a read is scripted by its method, so that a writer's token is its own.
            method @ ("GET" | "HEAD") => scripts.by_token.get_mut(method),
            _ => scripts.by_token.get_mut(token),
        };
        let planned = || self.shared.plan.as_ref()?(head);
        let script = queued.and_then(VecDeque::pop_front).or_else(planned);
        script.unwrap_or_else(|| default_script(head.word(0)))
    }

    fn carry_out(
        &mut self,
        act: Act,
        n: usize,
        head: &Head,
        arrived: Instant,
    ) -> std::io::Result<()> {
        let log = &self.shared.log;
        let in_time = self.shared.bound.is_none_or(|bound| arrived.elapsed() < bound);
        let whole = log.is_whole(n);
        match act {
            Act::Read => self.read_body(n, head, u64::MAX)?,
            Act::ReadSome(most) => self.read_body(n, head, most)?,
            Act::Wait(latch) => {
                log.update(n, |arrival| arrival.held = true);
                latch.wait();
                log.update(n, |arrival| arrival.held = false);
            }
            Act::Pause(time) => thread::sleep(time),
            Act::Apply if whole => log.take_effect(n),
            Act::ApplyLate if whole && in_time => log.take_effect(n),
            Act::ApplyPart if in_time => log.take_effect(n),
            Act::ApplyLate if !in_time => self.end(),
            Act::Apply | Act::ApplyLate | Act::ApplyPart => {}
            Act::Answer(status) => self.send(answer(status, "").as_bytes())?,
            Act::Send(bytes) => self.send(&bytes)?,
            Act::Flood(mut left) => {
                let block = vec![b'z'; 1 << 16];
                while left > 0 {
                    let size = left.min(block.len() as u64);
                    self.send(&block[..size as usize])?;
                    left -= size;
                }
            }
            Act::Reset => {
                if let Some(stream) = &self.to {
                    let socket = Socket::from(stream.try_clone()?);
                    socket.set_linger(Some(Duration::ZERO))?;
                }
                self.end();
            }
            Act::Close => self.end(),
        }
        Ok(())
    }

    fn read_body(&mut self, n: usize, head: &Head, most: u64) -> std::io::Result<()> {
        let log = &self.shared.log;
        let (mut body, mut start) = (0, Vec::new());
        let framing = head.framing(true);
        let framing = if most == u64::MAX { framing } else { super::Framing::Length(most) };
        let result = framing.read(&mut self.from, &mut |bytes| {
            body += bytes.len() as u64;
            let left = KEPT - start.len();
            start.extend_from_slice(&bytes[..left.min(bytes.len())]);
        });
        log.update(n, |arrival| {
            arrival.body += body;
            arrival.start.extend(start);
            arrival.whole = result.is_ok() && most == u64::MAX;
        });
        result
    }

    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.to.as_mut().map_or(Ok(()), |stream| stream.write_all(bytes))
    }

    /// Ends the connection now: the last descriptor of it is closed.
    fn end(&mut self) {
        if self.to.take().is_none() {
            return;
        }
        // The reader holds the same socket: put a dead one in its place, so that this one closes.
        let dead = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| TcpStream::connect(listener.local_addr()?));
        if let Ok(dead) = dead {
            self.from = BufReader::new(dead);
        }
    }
}

fn default_script(method: &str) -> Vec<Act> {
    match method {
        "GET" => vec![Act::Read, send(&answer(200, "hello"))],
        "HEAD" => vec![send("HTTP/1.1 200 OK\nContent-Length: 5\n\n")],
        "DELETE" => vec![Act::Read, Act::Apply, send("HTTP/1.1 204 No Content\n\n")],
        _ => vec![Act::Read, Act::Apply, Act::Answer(201)],
    }
}

/// A response with a body of known length.
pub fn answer(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
