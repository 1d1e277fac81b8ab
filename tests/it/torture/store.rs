//! The world of one round: the store and what goes wrong at it, the line to it, the proxy, and what
//! is known of the writes.

use std::{
    collections::HashMap,
    fs,
    mem::take,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use fastrand::Rng;

use super::{KEYS, Subject, locks::Locks, pause, proxy::Proxy, writer::NONE};
use crate::harness::{
    Act, Backend,
    tally::Tally,
    toxic::{LONGEST_HOLD, Toxic},
    wait::LIFETIME,
};

/// The latest moment after a request's arrival at which it may take effect. With the line's own hold
/// it leaves a quarter of the promised lifetime to a machine that is slow.
const LATEST: Duration = Duration::from_millis(1_200);

/// The field of a write that is to be lost sight of, and applied late.
pub const LATE: &str = "Write-Late";

/// All of a round.
pub struct World {
    pub subject: Subject,
    pub seed: u64,
    pub proxy: Proxy,
    pub backend: Arc<Backend>,
    line: Option<Toxic>,
    watch: Option<JoinHandle<()>>,
    pub shared: Arc<Shared>,
    pub tally: Arc<Tally>,
    pub answers: Arc<Tally>,
    /// Marks that were compared after a restart.
    pub marks: usize,
}

/// What the writers' managers share.
pub struct Shared {
    pub locks: Locks,
    /// Where the proxy listens now.
    pub addr: Mutex<SocketAddr>,
    pub answers: Arc<Tally>,
    backend: Arc<Backend>,
    told: Mutex<Told>,
    /// Claims that were answered, to be noted behind the next look at the files.
    claims: Option<Mutex<Vec<(String, String)>>>,
    /// Nothing goes wrong at the store any more, and nobody watches the files.
    calm: Arc<AtomicBool>,
}

/// What the writers were told, by a write's id, and the highest token per key that must be durable.
#[derive(Clone, Default)]
pub struct Told {
    pub writes: HashMap<String, Write>,
    pub floors: HashMap<String, u64>,
}

/// A write whose writer knows what became of it.
#[derive(Clone)]
pub struct Write {
    pub key: String,
    pub token: u64,
    pub applied: bool,
}

impl World {
    pub fn new(subject: Subject, seed: u64) -> Self {
        let (tally, answers) = (Arc::<Tally>::default(), Arc::<Tally>::default());
        let calm = Arc::new(AtomicBool::new(false));
        assert!(LATEST + LONGEST_HOLD < LIFETIME);
        let plan = Plan {
            rng: Mutex::new(Rng::with_seed(seed ^ 0x5708)),
            tally: tally.clone(),
            calm: calm.clone(),
            parts: subject != Subject::Wait,
        };
        let plan = Box::new(move |head: &Head| plan.of(head));
        let backend = Arc::new(Backend::planned(Some(LATEST), plan));
        let line = (subject != Subject::Files)
            .then(|| Toxic::start(backend.addr(), seed ^ 0x11e5, &tally));
        let to = line.as_ref().map_or(backend.addr(), Toxic::addr);
        let mut proxy = Proxy::start(subject, to);
        let shared = Arc::new(Shared {
            locks: Locks::default(),
            addr: Mutex::new(proxy.addr()),
            answers: answers.clone(),
            backend: backend.clone(),
            told: Mutex::default(),
            claims: (subject == Subject::Files).then(Mutex::default),
            calm,
        });
        let files = (subject == Subject::Files).then(|| proxy.palisade().unwrap().files());
        let watch = files.map(|files| {
            let shared = shared.clone();
            thread::spawn(move || shared.watch(&files))
        });
        Self { subject, seed, proxy, backend, line, watch, shared, tally, answers, marks: 0 }
    }

    /// From now on nothing goes wrong.
    pub fn calm(&mut self) {
        if let Some(line) = &self.line {
            line.calm();
        }
        self.shared.calm.store(true, Ordering::SeqCst);
    }

    /// Waits for the last look at the files.
    pub fn until_watched(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.join().unwrap();
        }
    }

    /// The proxy listens elsewhere now.
    pub fn moved(&self) {
        *self.shared.addr.lock().unwrap() = self.proxy.addr();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.backend.close();
    }
}

impl Shared {
    /// A claim was answered.
    pub fn claimed(&self, key: &str, token: &str) {
        match &self.claims {
            None => self.backend.log().claimed(key, token),
            Some(claims) => claims.lock().unwrap().push((key.to_string(), token.to_string())),
        }
        self.told.lock().unwrap().raise(key, token.parse().unwrap());
    }

    /// A write was answered. A refusal of the fence's says by its code that nothing was forwarded.
    pub fn told(&self, key: &str, token: &str, id: &str, result: &str, outcome: &str) {
        let applied = match (outcome, result) {
            ("applied", _) => true,
            ("not-applied", _) => false,
            (NONE, result) if !["admitted", NONE].contains(&result) => false,
            _ => return,
        };
        let (token, mut told) = (token.parse().unwrap(), self.told.lock().unwrap());
        told.writes.insert(id.to_string(), Write { key: key.to_string(), token, applied });
        if applied {
            told.raise(key, token);
        }
    }

    pub fn so_far(&self) -> Told {
        self.told.lock().unwrap().clone()
    }

    /// Notes each content of the files that it finds there. It may miss some; it sees none that was
    /// not there.
    fn watch(&self, files: &Path) {
        let mut last = [const { String::new() }; KEYS.len()];
        loop {
            let calm = self.calm.load(Ordering::SeqCst);
            // What these claims found is seen below, and comes before them.
            let claims = self.claims.as_ref().map(|claims| take(&mut *claims.lock().unwrap()));
            for (key, last) in KEYS.iter().zip(&mut last) {
                let Ok(content) = fs::read_to_string(files.join(&key[1..])) else { continue };
                let mut words = content.split(' ');
                let (token, id) = (words.next().unwrap(), words.next().unwrap());
                if *id != **last {
                    self.backend.log().observed(key, token, id);
                    *last = id.to_string();
                }
            }
            for (key, token) in claims.into_iter().flatten() {
                self.backend.log().claimed(&key, &token);
            }
            if calm {
                return;
            }
            pause(Duration::from_millis(1));
        }
    }
}

impl Told {
    fn raise(&mut self, key: &str, token: u64) {
        let floor = self.floors.entry(key.to_string()).or_default();
        *floor = token.max(*floor);
    }
}

type Head = crate::harness::message::Head;

/// What becomes of each write at the store.
struct Plan {
    rng: Mutex<Rng>,
    tally: Arc<Tally>,
    calm: Arc<AtomicBool>,
    /// The store may apply what did not come whole.
    parts: bool,
}

impl Plan {
    fn of(&self, head: &Head) -> Option<Vec<Act>> {
        use Act::{Answer, Apply, ApplyLate, ApplyPart, Close, Pause, Read, ReadSome, Reset};
        if self.calm.load(Ordering::SeqCst) || head.word(0) == "GET" {
            return None;
        }
        let mut rng = self.rng.lock().unwrap();
        if head.field(LATE).is_some() {
            self.tally.count("store loses sight of a write and applies it late");
            return Some(vec![Read, Reset, Pause(Duration::from_millis(1_100)), ApplyLate]);
        }
        let late = Pause(Duration::from_millis(rng.u64(..1_150)));
        let (what, acts) = match rng.u8(..120) {
            0..3 => ("store is slow", vec![Read, late, ApplyLate, Answer(201)]),
            3..5 => ("store says 503 and applies late", vec![Read, Answer(503), late, ApplyLate]),
            5 => ("store says 202 and applies late", vec![Read, Answer(202), late, ApplyLate]),
            6..8 => ("store resets and applies late", vec![Read, Reset, late, ApplyLate]),
            8 => ("store closes and applies late", vec![Read, Close, late, ApplyLate]),
            9 => ("store applies and resets", vec![Read, Apply, Reset]),
            10 => ("store refuses", vec![Read, Answer(409)]),
            11 => ("store resets within a request", vec![ReadSome(10), Reset]),
            12 => ("store answers within a request", vec![ReadSome(10), Answer(403), Close]),
            13 if self.parts => (
                "store applies a part late",
                vec![ReadSome(10), Answer(500), late, ApplyPart, Close],
            ),
            14 if self.parts => ("store applies what came", vec![Read, late, ApplyPart, Reset]),
            _ => return None,
        };
        self.tally.count(what);
        Some(acts)
    }
}
