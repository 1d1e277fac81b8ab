//! The writers' side in the test's process: a thread per writer that takes locks for it, gives it
//! orders, notes what it tells, and starts another where it was killed.

use std::{
    io::{BufRead, BufReader, Write as _},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use super::{
    KEYS, pause,
    store::{Shared, World},
    writer::{NONE, ROLE},
};

/// How many.
pub const WRITERS: usize = 6;

/// How a writer speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Speaks {
    /// HTTP/1.1 with a connection per request.
    Http1,
    /// HTTP/1.1 over one that is kept.
    Kept,
    /// HTTP/2 over one that is kept.
    Http2,
}

impl Speaks {
    /// By its name in `Debug`.
    pub fn named(name: &str) -> Self {
        let all = [Self::Http1, Self::Kept, Self::Http2];
        all.into_iter().find(|speaks| format!("{speaks:?}") == name).expect("a protocol")
    }
}

/// All writers of a world.
pub struct Crew {
    posts: Vec<Arc<Post>>,
    threads: Vec<JoinHandle<()>>,
}

/// A writer's place.
#[derive(Default)]
struct Post {
    /// Who is there; none between two. It is reaped only once it is out of here, so that its number
    /// is nobody else's.
    pid: Mutex<Option<Pid>>,
    over: AtomicBool,
}

impl Crew {
    pub fn start(world: &World, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0xc4e3);
        let mut crew = Self { posts: Vec::new(), threads: Vec::new() };
        for number in 0..WRITERS {
            let speaks = world.subject.speaks();
            let speaks = speaks[number % speaks.len()];
            let (post, shared, rng) = (Arc::<Post>::default(), world.shared.clone(), rng.fork());
            crew.posts.push(post.clone());
            let manager = Manager { number, speaks, post, shared, rng };
            crew.threads.push(thread::spawn(move || manager.run()));
        }
        crew
    }

    /// Sends one of them a signal; false where nobody is there.
    pub fn signal(&self, number: usize, signal: Signal) -> bool {
        let pid = self.posts[number].pid.lock().unwrap();
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// Ends them all where they are: what they have sent is on its way.
    pub fn end(self, world: &World) {
        for (number, post) in self.posts.iter().enumerate() {
            post.over.store(true, Ordering::SeqCst);
            self.signal(number, Signal::KILL);
        }
        for thread in self.threads {
            thread.join().unwrap_or_else(|_| panic!("a manager has failed, seed {}", world.seed));
        }
    }
}

struct Manager {
    number: usize,
    speaks: Speaks,
    post: Arc<Post>,
    shared: Arc<Shared>,
    rng: Rng,
}

impl Manager {
    fn run(mut self) {
        for life in 0.. {
            let Some(mut child) = self.hire(life) else { return };
            let worked = self.work(&mut child);
            *self.post.pid.lock().unwrap() = None;
            let _ = child.kill();
            child.wait().unwrap();
            // Its end shows as a pipe that ends; anything else is this test's fault.
            worked.unwrap_or_default();
        }
    }

    /// A new writer, unless all is over.
    fn hire(&mut self, life: usize) -> Option<Child> {
        let mut pid = self.post.pid.lock().unwrap();
        if self.post.over.load(Ordering::SeqCst) {
            return None;
        }
        let name = format!("w{}.{life}", self.number);
        let role = format!("{name} {} {:?}", self.rng.u64(..), self.speaks);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["torture::writer::writes", "--exact", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        *pid = Some(Pid::from_child(&child));
        Some(child)
    }

    /// Hands it locks and notes what it tells, until it is killed.
    fn work(&mut self, child: &mut Child) -> std::io::Result<()> {
        let mut orders = child.stdin.take().unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        while !self.post.over.load(Ordering::SeqCst) {
            let key = self.rng.choice(KEYS).unwrap();
            let lease = Duration::from_millis(self.rng.u64(200..500));
            let Some(token) = self.shared.locks.acquire(key, lease) else {
                pause(Duration::from_millis(5));
                continue;
            };
            // A careless one trusts its lease for long after its end.
            let careless = self.rng.u8(..4) == 0;
            let trust = if careless { lease + Duration::from_secs(1) } else { lease };
            let to = *self.shared.addr.lock().unwrap();
            orders.write_all(format!("{key} {token} {} {to}\n", trust.as_millis()).as_bytes())?;
            for line in told.by_ref() {
                let line = line?;
                if line == "done" {
                    break;
                }
                self.note(&line);
            }
        }
        Ok(())
    }

    /// `write|claim KEY TOKEN ID STATUS RESULT OUTCOME`; what the test runner says is no such line.
    fn note(&self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        let (Some("write" | "claim"), true) = (words.first().copied(), words.len() > 4) else {
            return;
        };
        let [what, key, token, id] = words[..4] else { return };
        let [status, result, outcome] = words[4..] else {
            self.shared.answers.count(&format!("{what} without an answer"));
            return;
        };
        self.shared.answers.count(&format!("{what} {status} {result} {outcome}"));
        let status: u16 = status.parse().unwrap();
        if what == "claim" {
            if result == "claimed" || result == NONE && status == 200 {
                self.shared.claimed(key, token);
            }
        } else {
            self.shared.told(key, token, id, result, outcome);
        }
    }
}
