//! A bad line between the proxy and its store: it resets connections within a body, holds bytes back,
//! cuts answers and swallows them. What it has accepted it may still deliver after the proxy has cut
//! its side, but no later than [`LONGEST_HOLD`]: a gateway whose queue is part of the promise's bound.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::sleep,
};

use super::{http2::runtime, tally::Tally};

/// The longest time for which bytes are held back.
pub const LONGEST_HOLD: Duration = Duration::from_millis(300);

/// A line to a store. Once dropped it takes no more connections.
pub struct Toxic {
    addr: SocketAddr,
    accepting: AbortHandle,
    shared: Arc<Shared>,
}

struct Shared {
    rng: Mutex<Rng>,
    calm: AtomicBool,
    tally: Arc<Tally>,
}

/// What goes wrong on one connection, once, behind so many bytes.
#[derive(Clone, Copy, Debug)]
enum Poison {
    Nothing,
    /// The bytes towards the store wait.
    Hold(u64, Duration),
    /// Both sides are reset, within a request.
    Reset(u64),
    /// The proxy's side ends within an answer; by a reset or a clean end.
    CutAnswer(u64, bool),
    /// Nothing of the answers arrives any more.
    Swallow(u64),
}

impl Toxic {
    /// A line to this store; `seed` decides what goes wrong on which of its connections.
    pub fn start(store: SocketAddr, seed: u64, tally: &Arc<Tally>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let (rng, calm) = (Mutex::new(Rng::with_seed(seed)), AtomicBool::new(false));
        let shared = Arc::new(Shared { rng, calm, tally: tally.clone() });
        let line = shared.clone();
        let accepting = runtime().spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((proxy, _)) = listener.accept().await {
                let line = line.clone();
                tokio::spawn(async move {
                    let store = TcpStream::connect(store).await?;
                    let poison = line.draw();
                    Connection { proxy, store, poison, up: 0, down: 0, line }.run().await
                });
            }
        });
        Self { addr, accepting: accepting.abort_handle(), shared }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// From now on nothing goes wrong.
    pub fn calm(&self) {
        self.shared.calm.store(true, Ordering::SeqCst);
    }
}

impl Drop for Toxic {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn draw(&self) -> Poison {
        let mut rng = self.rng.lock().unwrap();
        // Most requests are small, some are long: so are the places.
        let at = if rng.u8(..3) > 0 { rng.u64(..2_000) } else { rng.u64(..300_000) };
        match rng.u8(..14) {
            0 | 1 => Poison::Hold(at, LONGEST_HOLD.mul_f64(rng.f64())),
            2 | 3 => Poison::Reset(at),
            4 => Poison::CutAnswer(at % 200, rng.bool()),
            5 => Poison::Swallow(at % 200),
            _ => Poison::Nothing,
        }
    }

    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }
}

struct Connection {
    proxy: TcpStream,
    store: TcpStream,
    poison: Poison,
    /// Bytes that came for the store and from it.
    up: u64,
    down: u64,
    line: Arc<Shared>,
}

impl Connection {
    /// Carries bytes until an end. An end of one side is the other's: a reset a reset.
    async fn run(mut self) -> io::Result<()> {
        let (mut request, mut answer) = (vec![0; 1 << 14], vec![0; 1 << 14]);
        loop {
            let going_on = tokio::select! {
                got = self.proxy.read(&mut request) => match got {
                    Ok(0) => false,
                    Ok(got) => self.carry_up(&request[..got]).await?,
                    Err(_) => {
                        reset(&self.store)?;
                        false
                    }
                },
                got = self.store.read(&mut answer) => match got {
                    Ok(0) => false,
                    Ok(got) => self.carry_down(&answer[..got]).await?,
                    Err(_) => {
                        reset(&self.proxy)?;
                        false
                    }
                },
            };
            if !going_on {
                return Ok(());
            }
        }
    }

    async fn carry_up(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let before = self.up;
        self.up += bytes.len() as u64;
        if let Poison::Hold(at, time) = self.poison
            && self.is_due(at, self.up)
        {
            self.happens("line holds a request");
            sleep(time).await;
        }
        if let Poison::Reset(at) = self.poison
            && self.is_due(at, self.up)
        {
            self.happens("line resets within a request");
            self.store.write_all(&bytes[..at.saturating_sub(before) as usize]).await?;
            reset(&self.store)?;
            reset(&self.proxy)?;
            return Ok(false);
        }
        self.store.write_all(bytes).await?;
        Ok(true)
    }

    async fn carry_down(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let before = self.down;
        self.down += bytes.len() as u64;
        if let Poison::CutAnswer(at, by_reset) = self.poison
            && self.is_due(at, self.down)
        {
            self.happens("line cuts an answer");
            self.proxy.write_all(&bytes[..at.saturating_sub(before) as usize]).await?;
            if by_reset {
                reset(&self.proxy)?;
            }
            return Ok(false);
        }
        if let Poison::Swallow(at) = self.poison
            && self.is_due(at, self.down)
        {
            self.line.tally.count("line swallows an answer");
            return Ok(true);
        }
        self.proxy.write_all(bytes).await?;
        Ok(true)
    }

    fn is_due(&self, at: u64, passed: u64) -> bool {
        passed > at && !self.line.is_calm()
    }

    /// It happens once.
    fn happens(&mut self, what: &'static str) {
        self.line.tally.count(what);
        self.poison = Poison::Nothing;
    }
}

/// Its end will be a reset.
fn reset(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}
