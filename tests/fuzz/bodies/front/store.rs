//! A store that keeps nothing but what it has seen.

use std::{
    collections::{HashMap, HashSet},
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::JoinHandle,
};

use super::{
    super::shown,
    HANG,
    strict::{Read as Parsed, Request, request},
};

pub struct Store {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
    accepting: JoinHandle<Vec<JoinHandle<()>>>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    ids: HashSet<String>,
    /// The token of the last write of each path.
    tokens: HashMap<Vec<u8>, u64>,
    faults: Vec<String>,
}

impl Store {
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (seen, ending) = (Arc::new(Mutex::default()), Arc::new(AtomicBool::new(false)));
        let (log, end) = (Arc::clone(&seen), Arc::clone(&ending));
        let accepting = std::thread::spawn(move || {
            let mut connections = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                if end.load(SeqCst) {
                    break;
                }
                let log = Arc::clone(&log);
                connections.push(std::thread::spawn(move || serve(stream, &log)));
            }
            connections
        });
        Self { address, ending, accepting, seen }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for every connection, which the other side has ended, and gives what was wrong.
    pub fn end(self) -> Vec<String> {
        self.ending.store(true, SeqCst);
        drop(TcpStream::connect(self.address));
        for connection in self.accepting.join().expect("no panic") {
            connection.join().expect("no panic");
        }
        std::mem::take(&mut self.seen.lock().expect("no panic").faults)
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Seen>) {
    stream.set_read_timeout(Some(HANG)).expect("a time-out");
    let (mut buffer, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => buffer.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let fault = "a connection outlived its proxy".to_owned();
                return seen.lock().expect("no panic").faults.push(fault);
            }
            // A cut connection is reset.
            Err(_) => return,
        }
        loop {
            match request(&buffer) {
                Parsed::Part => break,
                Parsed::Wrong(why) => {
                    let fault = format!("{why}: {}", shown(&buffer));
                    return seen.lock().expect("no panic").faults.push(fault);
                }
                Parsed::Whole(request, length) => {
                    buffer.drain(..length);
                    seen.lock().expect("no panic").note(&request);
                    let body = if request.method == b"GET" { "ok" } else { "" };
                    let length = body.len();
                    let answer =
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
                    let _ = stream.write_all(answer.as_bytes());
                }
            }
        }
    }
}

impl Seen {
    fn note(&mut self, request: &Request) {
        // A client's own id is taken over, and it may send one twice; ours are sixteen digits.
        if let Some(id) = &request.id
            && id.len() == 16
            && !self.ids.insert(id.clone())
        {
            self.faults.push(format!("sent twice: {id}"));
        }
        let Some(token) = request.token else { return };
        let highest = self.tokens.entry(request.path.clone()).or_default();
        if token < *highest {
            self.faults.push(format!("{}: {token} after {highest}", shown(&request.path)));
        }
        *highest = token;
    }
}
