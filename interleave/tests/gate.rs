//! Writers of one key on threads of their own, in every order that the scheduler can think of: no
//! wake-up is lost (that would be a deadlock), and no lower write is let in after a higher one or
//! still in flight beside it.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use palisade_interleave::{
    fence::{Key, Outcome, Token, UpstreamId},
    gate::{
        Admitted, Ask, Connection, Denied, Gate, Mode, Permit, Policy, RealmOptions, Reason,
        Takeover,
    },
    metrics::Metrics,
    store::{Memory, TokenStore},
};
use shuttle::{
    future::block_on,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

const RUNS: usize = 3_000;

/// Runs a scenario under random orders, and under few switches at chosen places. Time stands still
/// but for what a scenario moves it: else no wait may need its end.
fn explore(scenario: impl Fn(&Clock) + Clone + Send + Sync + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let clock = Clock(Arc::new(runtime));
    let _within = clock.0.enter();
    let (random, chosen) = (scenario.clone(), scenario);
    let (one, two) = (clock.clone(), clock.clone());
    shuttle::check_random(move || random(&one), RUNS);
    shuttle::check_pct(move || chosen(&two), RUNS, 3);
}

#[derive(Clone)]
struct Clock(Arc<tokio::runtime::Runtime>);

impl Clock {
    /// Far less than the gate's patience with anything.
    fn moves(&self) {
        self.0.block_on(tokio::time::advance(Duration::from_micros(10)));
    }
}

/// A gate on a store that answers from a thread of its own.
struct World {
    gate: Gate,
    store: Memory,
    answering: thread::JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
}

/// What the other side would see: the writes that are in flight on each key, and the highest.
#[derive(Default)]
struct Seen {
    open: Vec<(&'static str, u64)>,
    highest: std::collections::BTreeMap<&'static str, u64>,
}

impl World {
    fn new(cache: u64) -> Self {
        let (store, answering) = Memory::start();
        let realm = RealmOptions {
            name: "store".into(),
            id: UpstreamId(1),
            lifetime: Duration::ZERO,
            quarantine: None,
            all_contested: false,
            unfenced: false,
            void_unfenced: false,
        };
        let memory: Arc<dyn TokenStore> = Arc::new(store.clone());
        let gate = Gate::new(cache, vec![realm], memory, Metrics::new(&[]));
        Self { gate, store, answering, seen: Arc::default() }
    }

    /// Threads that each do one thing; all end.
    fn side_by_side(&self, jobs: Vec<Box<dyn FnOnce(Actor) + Send>>) {
        let spawn = |job: Box<dyn FnOnce(Actor) + Send>| {
            let actor = Actor { gate: self.gate.clone(), seen: Arc::clone(&self.seen) };
            thread::spawn(move || job(actor))
        };
        let threads: Vec<_> = jobs.into_iter().map(spawn).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// Nothing is left, and a stop would leave its clean mark.
    fn end(self) {
        assert!(self.seen.lock().unwrap().open.is_empty());
        self.gate.close();
        block_on(self.gate.settled());
        assert!(self.gate.is_clean());
        self.store.close();
        self.answering.join().unwrap();
    }
}

struct Actor {
    gate: Gate,
    seen: Arc<Mutex<Seen>>,
}

impl Actor {
    fn key(&self, name: &str) -> Key {
        self.gate.key(0, name.as_bytes()).unwrap()
    }

    async fn ask(
        &self,
        key: &'static str,
        token: u64,
        claim: bool,
        drain: Duration,
    ) -> Result<Admitted, Denied> {
        let policy = Policy {
            enforce: true,
            mode: Mode::Required,
            takeover: Takeover::Abort,
            drain_timeout: drain,
            max_waiters: 10,
            max_jump: None,
            max_token: None,
            generations: false,
            same_token_doubt_waits: false,
        };
        let key = self.key(key);
        let token = Some(Token::new(token));
        let ask = Ask { key: &key, token, holder: None, claim, policy: &policy };
        match self.gate.admit_at_once(&ask) {
            Some(answer) => answer,
            None => self.gate.admit(ask).await,
        }
    }

    /// A write from admission to outcome; what the store sees lies in between.
    fn write(&self, key: &'static str, token: u64) {
        match block_on(self.ask(key, token, false, LONG)) {
            Ok(admitted) => self.carry_out(key, token, admitted.permit.unwrap()),
            Err(denied) => self.is_stale(token, &denied),
        }
    }

    fn carry_out(&self, key: &'static str, token: u64, permit: Permit) {
        self.opens(key, token);
        thread::yield_now();
        self.closes(key, token);
        permit.settle(Outcome::Answered);
    }

    fn claim(&self, key: &'static str, token: u64) {
        match block_on(self.ask(key, token, true, LONG)) {
            Ok(_) => {
                self.opens(key, token);
                self.closes(key, token);
            }
            Err(denied) => self.is_stale(token, &denied),
        }
    }

    fn is_stale(&self, token: u64, denied: &Denied) {
        let closing = denied.reason == Reason::ShuttingDown;
        assert!(closing || denied.reason == Reason::Stale, "{denied:?}");
        assert!(closing || denied.highest > Some(Token::new(token)), "{denied:?}");
    }

    /// R1 and R3, as the other side sees them.
    fn opens(&self, key: &'static str, token: u64) {
        let mut seen = self.seen.lock().unwrap();
        let highest = seen.highest.entry(key).or_default();
        assert!(token >= *highest, "{key}: {token} after {highest}");
        *highest = token;
        let lower = seen.open.iter().find(|(other, open)| *other == key && *open < token);
        assert_eq!(lower, None, "{key}: beside {token}");
        seen.open.push((key, token));
    }

    fn closes(&self, key: &'static str, token: u64) {
        let mut seen = self.seen.lock().unwrap();
        let at = seen.open.iter().position(|open| *open == (key, token)).unwrap();
        seen.open.remove(at);
    }
}

const LONG: Duration = Duration::from_secs(3600);

fn writes(key: &'static str, token: u64) -> Box<dyn FnOnce(Actor) + Send> {
    Box::new(move |actor| actor.write(key, token))
}

fn claims(key: &'static str, token: u64) -> Box<dyn FnOnce(Actor) + Send> {
    Box::new(move |actor| actor.claim(key, token))
}

#[test]
fn writers_of_one_key_are_let_in_in_order_and_none_is_forgotten() {
    explore(|_| {
        let world = World::new(1 << 20);
        world.side_by_side(vec![writes("k", 1), writes("k", 2), writes("k", 2), claims("k", 3)]);
        world.end();
    });
}

/// A key that its last user puts to rest just as another comes has one state all the same.
#[test]
fn a_key_goes_to_rest_and_comes_back_between_its_users() {
    explore(|_| {
        let world = World::new(1 << 20);
        world.side_by_side(vec![writes("k", 1)]);
        let twice = || -> Box<dyn FnOnce(Actor) + Send> {
            Box::new(|actor| {
                actor.write("k", 1);
                actor.write("k", 1);
            })
        };
        world.side_by_side(vec![twice(), twice(), writes("k", 2)]);
        world.end();
    });
}

/// A cache without room: each newcomer evicts, and a key comes back from the disk.
#[test]
fn a_key_that_is_forgotten_comes_back_as_it_was() {
    explore(|_| {
        let world = World::new(0);
        world.side_by_side(vec![
            Box::new(|actor| {
                actor.write("a", 2);
                actor.write("b", 1);
                actor.write("a", 2);
            }),
            Box::new(|actor| {
                actor.write("b", 2);
                actor.write("a", 1);
            }),
            writes("a", 3),
        ]);
        world.end();
    });
}

/// A connection whose end is the writer's own thread's to bring about.
struct Line;

impl Connection for Line {
    fn cut(&self) {}

    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn client_silent_since(&self) -> Option<tokio::time::Instant> {
        None
    }
}

/// R3: whenever the cut comes, before the writer listens or while it does, it is heard.
#[test]
fn a_takeover_is_heard_by_the_write_that_it_cuts() {
    explore(|clock| {
        let world = World::new(1 << 20);
        let (clock, done) = (clock.clone(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&done);
        world.side_by_side(vec![
            Box::new(|actor| {
                let Ok(admitted) = block_on(actor.ask("k", 1, false, LONG)) else { return };
                let permit = admitted.permit.unwrap();
                permit.attach(Arc::new(Line));
                actor.opens("k", 1);
                // It ends for no other reason than the cut.
                block_on(permit.cut());
                assert!(permit.was_cut());
                actor.closes("k", 1);
                permit.settle(Outcome::Unknown);
            }),
            Box::new(move |actor| {
                let admitted = block_on(actor.ask("k", 2, false, Duration::ZERO)).unwrap();
                actor.carry_out("k", 2, admitted.permit.unwrap());
                done.store(true, Ordering::SeqCst);
            }),
            Box::new(move |_| {
                while !over.load(Ordering::SeqCst) {
                    clock.moves();
                    thread::yield_now();
                }
            }),
        ]);
        world.end();
    });
}

/// A stop: whoever waits is sent away, whoever is in is waited for.
#[test]
fn a_stop_sends_waiters_away_and_waits_for_writes() {
    explore(|_| {
        let world = World::new(1 << 20);
        let closing = world.gate.clone();
        world.side_by_side(vec![
            writes("k", 1),
            writes("k", 2),
            Box::new(move |actor| {
                closing.close();
                block_on(closing.settled());
                assert!(actor.seen.lock().unwrap().open.is_empty(), "settled too early");
            }),
        ]);
        world.end();
    });
}

/// A permit that is dropped settles itself, and the next one is woken.
#[test]
fn a_write_that_is_given_up_holds_nobody_back() {
    explore(|_| {
        let world = World::new(1 << 20);
        world.side_by_side(vec![
            Box::new(|actor| {
                let Ok(admitted) = block_on(actor.ask("k", 1, false, LONG)) else { return };
                actor.opens("k", 1);
                thread::yield_now();
                actor.closes("k", 1);
                drop(admitted);
            }),
            writes("k", 2),
        ]);
        world.end();
    });
}
