//! What a backend saw, and the judge: tokens that take effect never go down.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Condvar, Mutex},
};

use super::{
    message::Head,
    wait::{DEADLINE, now},
};

/// A token as the judge compares it; a write without one is the lowest of all.
pub type Rank = Option<(u64, u64)>;

/// Reads a token's text. One that is none, which a route that does not enforce forwards, counts as
/// no token.
pub fn rank(token: Option<&str>) -> Rank {
    let token = token?;
    let (generation, counter) = token.split_once('.').unwrap_or(("0", token));
    Some((generation.parse().ok()?, counter.parse().ok()?))
}

/// How much of a body is kept.
pub const KEPT: usize = 4096;

/// A request that reached the backend.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub head: Head,
    /// Which of the backend's connections it came by.
    pub connection: usize,
    /// Bytes of its body that were read.
    pub body: u64,
    /// The first of them, at most [`KEPT`].
    pub start: Vec<u8>,
    /// It was read to its end.
    pub whole: bool,
    /// Its script has run to its end.
    pub settled: bool,
    /// Its script waits for the test.
    pub held: bool,
}

impl Arrival {
    pub fn token(&self) -> Option<&str> {
        self.head.field("fencing-token")
    }

    /// What the backend names the object: the path.
    pub fn key(&self) -> &str {
        self.head.word(1).split('?').next().unwrap_or_default()
    }

    pub fn is_write(&self) -> bool {
        !matches!(self.head.word(0), "GET" | "HEAD" | "OPTIONS")
    }
}

/// A write that took effect, or a claim that was answered.
#[derive(Clone, Debug)]
pub struct Effect {
    pub key: String,
    pub rank: Rank,
    pub claim: bool,
    /// What its writer called it, by `Write-Id`.
    pub id: Option<String>,
}

#[derive(Default)]
struct Seen {
    arrivals: Vec<Arrival>,
    effects: Vec<Effect>,
}

/// The backend's log, shared by its connections and the test.
#[derive(Default)]
pub struct Log {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Log {
    pub fn arrive(&self, arrival: Arrival) -> usize {
        let mut seen = self.seen.lock().unwrap();
        seen.arrivals.push(arrival);
        self.changed.notify_all();
        seen.arrivals.len() - 1
    }

    pub fn update(&self, n: usize, change: impl FnOnce(&mut Arrival)) {
        change(&mut self.seen.lock().unwrap().arrivals[n]);
        self.changed.notify_all();
    }

    /// The write takes effect now.
    pub fn take_effect(&self, n: usize) {
        let mut seen = self.seen.lock().unwrap();
        let arrival = &seen.arrivals[n];
        let (key, rank) = (arrival.key().to_string(), rank(arrival.token()));
        let id = arrival.head.field("write-id").map(str::to_string);
        seen.effects.push(Effect { key, rank, claim: false, id });
        self.changed.notify_all();
    }

    /// A write was seen to have taken effect at a store that keeps no log.
    pub fn observed(&self, key: &str, token: &str, id: &str) {
        let (key, rank, id) = (key.to_string(), rank(Some(token)), Some(id.to_string()));
        self.seen.lock().unwrap().effects.push(Effect { key, rank, claim: false, id });
    }

    /// A claim was answered: from now on nothing lower may take effect.
    pub fn claimed(&self, key: &str, token: &str) {
        let (key, rank) = (key.to_string(), rank(Some(token)));
        self.seen.lock().unwrap().effects.push(Effect { key, rank, claim: true, id: None });
    }

    /// Forgets the effects so far: the promise starts here.
    pub fn forget_effects(&self) {
        self.seen.lock().unwrap().effects.clear();
    }

    /// All effects and claims, in order.
    pub fn history(&self) -> Vec<Effect> {
        self.seen.lock().unwrap().effects.clone()
    }

    pub fn arrivals(&self) -> Vec<Arrival> {
        self.seen.lock().unwrap().arrivals.clone()
    }

    /// Whether a request was read to its end.
    pub fn is_whole(&self, n: usize) -> bool {
        self.seen.lock().unwrap().arrivals[n].whole
    }

    /// Writes that arrived with this token.
    pub fn count(&self, token: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.arrivals.iter().filter(|a| a.is_write() && a.token() == Some(token)).count()
    }

    /// The tokens that took effect on a key, in order; "-" for none.
    pub fn effects(&self, key: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let of_key = seen.effects.iter().filter(|effect| effect.key == key && !effect.claim);
        of_key.map(|effect| show(effect.rank)).collect()
    }

    /// Waits until an arrival fits, and answers with the latest one that does.
    pub fn until(&self, what: &str, fits: impl Fn(&Arrival) -> bool) -> Arrival {
        let start = now();
        let mut seen = self.seen.lock().unwrap();
        loop {
            if let Some(arrival) = seen.arrivals.iter().rev().find(|arrival| fits(arrival)) {
                return arrival.clone();
            }
            let left = DEADLINE.saturating_sub(start.elapsed());
            assert!(!left.is_zero(), "no such arrival: {what}; seen: {:#?}", seen.arrivals);
            seen = self.changed.wait_timeout(seen, left).unwrap().0;
        }
    }

    /// The judge: the first fall of a token on any key, in words.
    pub fn fall(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap();
        let mut highest: HashMap<&str, Rank> = HashMap::new();
        for (n, effect) in seen.effects.iter().enumerate() {
            let highest = highest.entry(&effect.key).or_default();
            if effect.rank < *highest && !effect.claim {
                return Some(story(&seen.effects[..=n], &effect.key));
            }
            *highest = effect.rank.max(*highest);
        }
        None
    }

    pub fn assert_never_down(&self) {
        if let Some(story) = self.fall() {
            panic!("the promise is broken: {story}");
        }
    }
}

fn story(effects: &[Effect], key: &str) -> String {
    effects.iter().filter(|effect| effect.key == key).fold(format!("{key}:"), |mut text, effect| {
        let _ = write!(text, " {}{}", if effect.claim { "claim " } else { "" }, show(effect.rank));
        text
    })
}

fn show(rank: Rank) -> String {
    match rank {
        None => "-".to_string(),
        Some((0, counter)) => counter.to_string(),
        Some((generation, counter)) => format!("{generation}.{counter}"),
    }
}
