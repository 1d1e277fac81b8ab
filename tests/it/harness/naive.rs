//! The proxy that everybody writes first: check and forward. It keeps the highest token per key, as
//! if on disk, refuses lower ones, and remembers nothing of the writes it has forwarded. The
//! promise's scenarios must fail on it, or they show nothing.

use std::{
    collections::HashMap,
    io::{BufReader, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::{
    backend::answer,
    log::{Rank, rank},
    message::Head,
};

/// A naive proxy in this process. A kill closes its sockets as the kernel would those of a killed
/// process: what was written is delivered, with a clean end.
pub struct Naive {
    upstream: SocketAddr,
    timeout: Duration,
    marks: Arc<Mutex<HashMap<String, Rank>>>,
    life: Option<Life>,
}

struct Life {
    addr: SocketAddr,
    dead: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Naive {
    pub fn start(upstream: SocketAddr, timeout: Duration) -> Self {
        let mut naive = Self { upstream, timeout, marks: Arc::default(), life: None };
        naive.restart();
        naive
    }

    pub fn addr(&self) -> SocketAddr {
        self.life.as_ref().expect("a running proxy").addr
    }

    pub fn kill9(&mut self) {
        let Some(life) = self.life.take() else { return };
        life.dead.store(true, Ordering::SeqCst);
        for stream in life.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = TcpStream::connect(life.addr);
    }

    pub fn restart(&mut self) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let life = Life {
            addr: listener.local_addr().unwrap(),
            dead: Arc::default(),
            open: Arc::default(),
        };
        let (dead, open) = (life.dead.clone(), life.open.clone());
        let (upstream, timeout, marks) = (self.upstream, self.timeout, self.marks.clone());
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if dead.load(Ordering::SeqCst) {
                    return;
                }
                let (open, marks) = (open.clone(), marks.clone());
                thread::spawn(move || {
                    let _ = forward(client, upstream, timeout, &marks, &open);
                });
            }
        });
        self.life = Some(life);
    }
}

fn forward(
    mut client: TcpStream,
    upstream: SocketAddr,
    timeout: Duration,
    marks: &Mutex<HashMap<String, Rank>>,
    open: &Mutex<Vec<TcpStream>>,
) -> std::io::Result<()> {
    open.lock().unwrap().push(client.try_clone()?);
    let mut from = BufReader::new(client.try_clone()?);
    let Some(head) = Head::read(&mut from)? else { return Ok(()) };
    if is_stale(&head, marks) {
        return client.write_all(answer(412, "").as_bytes());
    }
    let mut up = TcpStream::connect(upstream)?;
    open.lock().unwrap().push(up.try_clone()?);
    up.set_read_timeout(Some(timeout))?;
    up.write_all(&head_bytes(&head))?;
    let pump = thread::spawn({
        let mut up = up.try_clone()?;
        move || {
            let framing = head.framing(true);
            let _ = framing.read(&mut from, &mut |bytes| drop(up.write_all(bytes)));
        }
    });
    if relay(&mut up, &mut client).is_err() {
        client.write_all(answer(504, "").as_bytes())?;
    }
    // Only an answer ends the connection: a request still on its way is left to its pump.
    let _ = up.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
    let _ = pump.join();
    Ok(())
}

/// Check and raise, in one step: it is not that naive.
fn is_stale(head: &Head, marks: &Mutex<HashMap<String, Rank>>) -> bool {
    let token = rank(head.field("fencing-token"));
    let read = head.word(0) == "GET" && head.field("fencing-claim").is_none();
    let mut marks = marks.lock().unwrap();
    let mark = marks.entry(head.word(1).to_string()).or_default();
    if read || token < *mark {
        return !read;
    }
    *mark = token;
    false
}

fn head_bytes(head: &Head) -> Vec<u8> {
    let fields = head.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("{}\r\n{}\r\n", head.line, fields.collect::<String>()).into_bytes()
}

/// Copies the answer as it comes; an error where there is none, or none to its end.
fn relay(up: &mut TcpStream, client: &mut TcpStream) -> std::io::Result<()> {
    let mut from = BufReader::new(up.try_clone()?);
    let head = Head::read(&mut from)?.ok_or(std::io::ErrorKind::UnexpectedEof)?;
    client.write_all(&head_bytes(&head))?;
    let framing = head.framing(false);
    let mut body = Vec::new();
    let result = framing.read(&mut from, &mut |bytes| body.extend_from_slice(bytes));
    client.write_all(&body)?;
    result
}

impl Drop for Naive {
    fn drop(&mut self) {
        self.kill9();
    }
}
