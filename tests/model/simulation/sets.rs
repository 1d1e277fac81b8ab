//! Requests of several keys (R6). No dialect has them yet and the gate knows none, so this is a gate
//! of their own, as small as can be: the real fences under one lock, on the real store.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use palisade::{
    fence::{
        Admission, Fence, Limits, Mark, Moment, Offer, Outcome, Regime, SetAdmission, Token,
        offer_all,
    },
    gate::RealmOptions,
    store::TokenStore,
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::sleep_until,
};
use tokio_util::sync::CancellationToken;

use super::{
    book::{Asked, At, KEYS, SETS, Write},
    breakage::Breakage,
    exchange::Exchange,
    life::Life,
    world::World,
};

/// How long such a request waits, in microseconds.
const PATIENCE: u64 = 2_000_000;

/// A write of several keys with one token.
#[derive(Clone, Debug)]
pub(super) struct Several {
    /// In ascending order, each once.
    pub(super) keys: Vec<usize>,
    pub(super) token: u64,
    pub(super) parts: Vec<Option<u64>>,
}

/// The fences of one process.
pub(super) struct Sets {
    fences: Arc<Mutex<Vec<Fence>>>,
    bell: Arc<Notify>,
    /// How often the store failed a raise: who waits gives up then.
    failures: Arc<AtomicU32>,
    quarantine: Option<Moment>,
    all_contested: bool,
    /// `max_write_lifetime`, in microseconds.
    lifetime: u64,
}

impl Sets {
    pub(super) fn new(world: &World, realm: &RealmOptions) -> Self {
        let micros = |length: std::time::Duration| length.as_micros() as u64;
        let ends = |length| Moment(world.now() + micros(length) + 1);
        Self {
            fences: Arc::new(Mutex::new(vec![Fence::default(); KEYS])),
            bell: Arc::default(),
            failures: Arc::default(),
            quarantine: realm.quarantine.map(ends),
            all_contested: realm.all_contested,
            lifetime: micros(realm.lifetime),
        }
    }

    /// What the store remembers of a key.
    pub(super) fn load(&self, key: usize, record: Option<Mark>) {
        self.fences.lock()[key] = Fence::new(record);
    }

    pub(super) fn highest(&self) -> Option<u64> {
        let fences = self.fences.lock();
        fences.iter().filter_map(Fence::highest).max().map(|token| token.counter)
    }

    /// Nothing is in flight, in doubt or being raised.
    pub(super) fn is_quiet(&self) -> bool {
        self.fences.lock().iter().all(Fence::is_quiet)
    }

    fn offer(&self, request: &Several, now: u64, only_the_first: bool) -> SetAdmission {
        let (quarantine, all_contested) = (self.quarantine, self.all_contested);
        let regime = Regime { now: Moment(now), quarantine, all_contested };
        let token = Some(Token::new(request.token));
        let offer = Offer { token, holder: None, claim: false, limits: Limits::default() };
        let fences = &mut *self.fences.lock();
        let judged = if only_the_first { &request.keys[..1] } else { &request.keys };
        let touched = fences.iter_mut().enumerate();
        let mut touched: Vec<&mut Fence> =
            touched.filter(|(key, _)| judged.contains(key)).map(|(_, fence)| fence).collect();
        let verdict = offer_all(&mut touched, &offer, regime);
        if matches!(verdict, SetAdmission::Forward(_)) {
            for key in &request.keys[judged.len()..] {
                fences[*key].track(token);
            }
        }
        verdict
    }

    fn settle(&self, request: &Several, outcome: Outcome, now: u64) {
        let until = Moment(if self.lifetime == 0 { now } else { now + self.lifetime + 1 });
        for key in &request.keys {
            let fence = &mut self.fences.lock()[*key];
            fence.settle(Some(Token::new(request.token)), outcome, until);
            fence.expire(Moment(now));
        }
        self.bell.notify_waiters();
    }
}

/// A request to its end, as `proxy::handle`.
pub(super) async fn handle(life: Arc<Life>, request: Several, answer: oneshot::Sender<bool>) {
    life.step().await;
    if !admit(&life, &request).await {
        let _ = answer.send(false);
        return;
    }
    let world = &life.world;
    world.count("writes of several keys");
    let writes: Vec<usize> =
        request.keys.iter().map(|key| let_through(&life, *key, &request)).collect();
    world.note(format_args!("sets: {request:?} is write {writes:?}"));
    let exchange = Exchange {
        life: Arc::clone(&life),
        options: life.config.sets.options(),
        parts: request.parts.clone(),
        leaves: CancellationToken::new(),
        writes,
    };
    let mut line = None;
    let outcome = if let Some(fate) = exchange.run(None, &mut line).await {
        life.step().await;
        exchange.conclude(fate)
    } else {
        // As a permit that is dropped.
        exchange.lost();
        if let Some(line) = line {
            line.close().await;
        }
        Outcome::Unknown
    };
    life.alive().await;
    life.sets.settle(&request, outcome, world.now());
    let _ = answer.send(true);
}

fn let_through(life: &Life, key: usize, request: &Several) -> usize {
    let at = At { upstream: SETS, key };
    let token = Some(request.token);
    let write = Write::new(life.of(at), at, token, &life.config.sets);
    let epoch = write.epoch;
    let asked = Asked { at, token, holder: None, claim: false, enforced: true, epoch };
    life.world.judge(|book, now| book.let_through(&asked, write, now))
}

/// Waits until all keys let it in. No write is cut for it.
async fn admit(life: &Life, request: &Several) -> bool {
    let (world, sets) = (&life.world, &life.sets);
    let deadline = world.now() + PATIENCE;
    let failures = sets.failures.load(Ordering::Relaxed);
    let only_the_first = world.broken == Some(Breakage::JudgesOneOfSeveral);
    loop {
        let changed = sets.bell.notified();
        let until = match sets.offer(request, world.now(), only_the_first) {
            SetAdmission::Forward(clears) => {
                for (place, token) in clears {
                    clear(life, request.keys[place], token);
                }
                return true;
            }
            SetAdmission::Raise(marks) => {
                for (place, mark) in marks {
                    raise(life, request.keys[place], mark);
                }
                deadline
            }
            SetAdmission::Held(_, Admission::InDoubt { until: Moment(until) }) => until,
            SetAdmission::Held(_, verdict) if verdict.is_refusal() => return false,
            SetAdmission::Held(..) => deadline,
        };
        if world.now() >= deadline || sets.failures.load(Ordering::Relaxed) != failures {
            return false;
        }
        tokio::select! {
            biased;
            () = changed => {}
            () = sleep_until(world.instant(until.min(deadline))) => {}
        }
        life.alive().await;
    }
}

fn clear(life: &Life, key: usize, token: Token) {
    if let Some(key) = life.key(At { upstream: SETS, key }) {
        life.disk.clear(key, token);
    }
}

fn raise(life: &Life, place: usize, mark: Mark) {
    let Some(key) = life.key(At { upstream: SETS, key: place }) else { return };
    let (fences, bell) = (Arc::clone(&life.sets.fences), Arc::clone(&life.sets.bell));
    let failures = Arc::clone(&life.sets.failures);
    let submitted = mark.clone();
    let done = Box::new(move |answer| {
        let fence = &mut fences.lock()[place];
        if let Ok(record) = answer {
            fence.raised(&submitted, record);
        } else {
            fence.raise_failed(&submitted);
            failures.fetch_add(1, Ordering::Relaxed);
        }
        bell.notify_waiters();
    });
    life.disk.raise(key, mark, done);
}
