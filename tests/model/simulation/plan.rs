//! What a run is like, drawn from its seed: how hostile its world, and how its proxy is configured.

use std::time::Duration;

use fastrand::Rng;
use palisade::{
    gate::{self, Policy, Takeover},
    proxy::overlaps_text,
    store::{Create, Keying, Options, UpstreamFacts},
    upstream::PartialBody,
};

use super::book::{KEYS, SETS, UPSTREAMS};

/// How a run differs from others. Percents, unless it says otherwise.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) clients: u64,
    pub(super) keys: u64,
    /// Processes, one after the other.
    pub(super) lives: u64,
    /// Longest life, in milliseconds.
    pub(super) longest: u64,
    /// Longest pause between a client's requests, in milliseconds.
    pub(super) pause: u64,
    /// Of the store's answers, how many are not plain.
    pub(super) hostile: u64,
    /// Of commits, how many fail, and how many are slow.
    pub(super) failing: u64,
    pub(super) slow: u64,
    /// Of processes, how many are killed, the others are stopped.
    pub(super) killed: u64,
    /// Of clients, how many stall or leave.
    pub(super) fickle: u64,
    /// Of pauses between requests, how many an operator uses.
    pub(super) operators: u64,
    /// Of restarts, how many change the configuration.
    pub(super) restless: u64,
    /// Bytes of keys in memory.
    pub(super) cache: u64,
    /// `--fresh` at the first start.
    pub(super) fresh: bool,
}

impl Profile {
    pub(super) fn draw(chance: &mut Rng) -> Self {
        Self {
            clients: chance.u64(2..6),
            keys: chance.u64(1..=KEYS as u64),
            lives: chance.u64(1..6),
            longest: one_of(chance, &[300, 1500, 4000]),
            pause: one_of(chance, &[60, 150, 500]),
            hostile: one_of(chance, &[0, 25, 60]),
            failing: one_of(chance, &[0, 0, 3]),
            slow: one_of(chance, &[0, 5, 30]),
            killed: one_of(chance, &[30, 80, 100]),
            fickle: one_of(chance, &[0, 10, 30]),
            operators: one_of(chance, &[0, 5, 15]),
            restless: one_of(chance, &[0, 30]),
            cache: one_of(chance, &[0, 1 << 20]),
            fresh: chance.bool(),
        }
    }
}

fn one_of(chance: &mut Rng, choices: &[u64]) -> u64 {
    choices[chance.usize(..choices.len())]
}

/// Which rules hold writes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mode {
    Required,
    Sticky,
    /// `enforce = false`.
    Observe,
    Off,
}

/// One upstream and the one route to it.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    /// Its place in the world.
    pub(super) number: usize,
    pub(super) mode: Mode,
    pub(super) lifetime: Duration,
    pub(super) partial_body: PartialBody,
    pub(super) takeover: Takeover,
    pub(super) drain_timeout: Duration,
    pub(super) max_waiters: usize,
    pub(super) same_token_doubt_waits: bool,
    /// How its keys are made.
    pub(super) template: u32,
}

impl Upstream {
    fn draw(number: usize, chance: &mut Rng) -> Self {
        let mut drawn = Self {
            number,
            mode: Mode::Required,
            lifetime: Duration::ZERO,
            partial_body: if chance.bool() { PartialBody::Unknown } else { PartialBody::Discarded },
            takeover: Takeover::Abort,
            drain_timeout: Duration::ZERO,
            max_waiters: if chance.u8(..8) == 0 { 1 } else { 1000 },
            same_token_doubt_waits: chance.bool(),
            template: 0,
        };
        drawn.redraw(chance);
        drawn
    }

    /// What may change from start to start without any word of the operator's.
    fn redraw(&mut self, chance: &mut Rng) {
        use Mode::{Observe, Off, Required, Sticky};
        let modes = [Required, Required, Required, Required, Sticky, Sticky, Observe, Off];
        self.mode = modes[chance.usize(..modes.len())];
        self.lifetime = Duration::from_millis(one_of(chance, &[0, 50, 400, 1500, 4000]));
        self.takeover = if chance.bool() { Takeover::Abort } else { Takeover::Wait };
        self.drain_timeout = Duration::from_millis(one_of(chance, &[0, 30, 500, 3000]));
    }

    /// Verdicts hold back, once a token was seen at the latest.
    pub(super) fn is_enforced(&self) -> bool {
        matches!(self.mode, Mode::Required | Mode::Sticky)
    }

    pub(super) fn name(&self) -> String {
        format!("store-{}", self.number)
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            enforce: self.mode != Mode::Observe,
            mode: match self.mode {
                Mode::Required | Mode::Observe => gate::Mode::Required,
                Mode::Sticky => gate::Mode::Sticky,
                Mode::Off => gate::Mode::Off,
            },
            takeover: self.takeover,
            drain_timeout: self.drain_timeout,
            max_waiters: self.max_waiters,
            max_jump: None,
            max_token: None,
            generations: false,
            same_token_doubt_waits: self.same_token_doubt_waits,
        }
    }

    pub(super) fn facts(&self) -> UpstreamFacts {
        let pattern = "/{path...}".to_owned();
        UpstreamFacts {
            name: self.name(),
            address: format!("http://{}:80", self.name()),
            lifetime: self.lifetime,
            unfenced: self.mode != Mode::Required,
            keying: vec![Keying { pattern, template: format!("{{path}}-{}", self.template) }],
        }
    }

    /// What `Fate` judges by.
    pub(super) fn options(&self) -> palisade::upstream::Options {
        palisade::upstream::Options {
            name: self.name(),
            kind: palisade::upstream::Kind::Http { host: self.name(), port: 80 },
            connect_timeout: Duration::from_millis(500),
            response_timeout: Duration::from_millis(800),
            body_idle_timeout: Duration::from_millis(600),
            max_write_lifetime: self.lifetime,
            partial_body: self.partial_body,
            settled_statuses: Vec::new(),
            eof_is_end: false,
            pass_redirects: false,
            same_token_doubt_waits: self.same_token_doubt_waits,
            pool_max_idle: 0,
            pool_idle_timeout: Duration::ZERO,
            tls: None,
            host: None,
        }
    }
}

/// The configuration of one process.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) upstreams: Vec<Upstream>,
    /// Where requests of several keys go. The gate has none yet: the fences are driven beside it.
    pub(super) sets: Upstream,
    /// `--rekey`: whose keys are made differently from now on.
    pub(super) rekey: Vec<usize>,
}

impl Config {
    pub(super) fn draw(chance: &mut Rng) -> Self {
        let upstreams =
            (0..chance.usize(1..UPSTREAMS)).map(|number| Upstream::draw(number, chance));
        let upstreams = upstreams.collect();
        let sets = Upstream { mode: Mode::Required, ..Upstream::draw(SETS, chance) };
        Self { upstreams, sets, rekey: Vec::new() }
    }

    /// Every upstream, in the order of the configuration.
    pub(super) fn all(&self) -> impl Iterator<Item = &Upstream> {
        self.upstreams.iter().chain([&self.sets])
    }

    /// The operator edits the file and restarts: there is no reload yet.
    pub(super) fn edit(&mut self, all: &mut Vec<Upstream>, chance: &mut Rng) {
        let at = chance.usize(..self.upstreams.len());
        match chance.u8(..4) {
            0 => self.add_or_remove(all, chance),
            1 => {
                self.upstreams[at].template += 1;
                self.rekey.push(self.upstreams[at].number);
            }
            _ => self.upstreams[at].redraw(chance),
        }
        self.sets = Upstream { mode: Mode::Required, ..Upstream::draw(SETS, chance) };
        all.retain(|known| self.upstreams.iter().all(|one| one.number != known.number));
        all.extend(self.upstreams.iter().cloned());
    }

    /// One that was taken out comes back as it was, but for what may change.
    fn add_or_remove(&mut self, all: &[Upstream], chance: &mut Rng) {
        if self.upstreams.len() > 1 && chance.bool() {
            self.upstreams.remove(chance.usize(..self.upstreams.len()));
            return;
        }
        let missing = |number: &usize| self.upstreams.iter().all(|one| one.number != *number);
        let Some(number) = (0..UPSTREAMS).find(missing) else { return };
        let known = all.iter().find(|known| known.number == number).cloned();
        self.upstreams.push(known.unwrap_or_else(|| Upstream::draw(number, chance)));
    }

    /// What the store is opened with.
    pub(super) fn options(&self, path: &std::path::Path, fresh: bool) -> Options {
        Options {
            path: path.to_owned(),
            create: Create::IfMissing,
            page_cache: 1 << 20,
            fresh,
            rekey: self.rekey.iter().map(|number| format!("store-{number}")).collect(),
            upstreams: self.all().map(Upstream::facts).collect(),
        }
    }

    /// The place of an upstream, if this process has it.
    pub(super) fn place(&self, number: usize) -> Option<usize> {
        self.all().position(|upstream| upstream.number == number)
    }
}

/// Patterns are compared as the program compares them.
pub(super) const OVERLAPS: palisade::store::Overlaps = overlaps_text;
