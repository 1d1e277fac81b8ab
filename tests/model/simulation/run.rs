//! One run: processes one after the other in a hostile world, then calm, in which all must end well.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use palisade::store::OpenError;
use tempfile::TempDir;
use tokio::{
    runtime::Builder,
    time::{Instant, sleep, timeout},
};

use super::{
    backend::backend,
    book::{At, KEYS, SETS, STRAY, Write},
    breakage::Breakage,
    life::Life,
    people::{ask, ask_several, client, plain},
    plan::{Config, Upstream},
    sets::Several,
    world::{Counts, World},
};

/// Longer than anything may take once the world is calm: quarantines, doubts, drains, the patience
/// with a store.
const PATIENCE: Duration = Duration::from_mins(1);

/// What came of a run.
pub(super) struct Report {
    pub(super) violations: Vec<String>,
    pub(super) counts: Counts,
    /// Of the trace: equal for equal runs.
    pub(super) digest: u64,
    /// In words, where they were asked for.
    pub(super) lines: Vec<String>,
}

/// Plays a seed. The same seed gives the same run.
pub(super) fn play(seed: u64, broken: Option<Breakage>, traced: bool) -> Report {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let world = World::new(seed, broken, traced);
        let home = home();
        let mut run = Run::new(Arc::clone(&world), &home);
        run.live().await;
        world.set_life(None);
        let violations = world.book.lock().violations.clone();
        let (counts, digest, lines) = (world.counts(), world.digest(), world.lines());
        Report { violations, counts, digest, lines }
    })
}

/// In memory where the system has such a place: what a crash leaves is drawn, not waited for.
fn home() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory for the run")
}

struct Run {
    world: Arc<World>,
    home: PathBuf,
    config: Config,
    /// Upstreams as they were last configured.
    known: Vec<Upstream>,
    /// The store's directory: a new one after each crash.
    path: PathBuf,
    lives: u32,
    /// The longest lifetime of an upstream's processes since its last clean stop.
    unclean: [Option<Duration>; SETS + 1],
    /// Its last process left a clean mark.
    stopped_clean: [bool; SETS + 1],
    /// The store knows it.
    seen: [bool; SETS + 1],
}

impl Run {
    fn new(world: Arc<World>, home: &TempDir) -> Self {
        let config = world.draw(Config::draw);
        let home = home.path().to_owned();
        let path = home.join("first");
        Self {
            known: config.upstreams.clone(),
            world,
            home,
            config,
            path,
            lives: 0,
            unclean: [None; SETS + 1],
            stopped_clean: [false; SETS + 1],
            seen: [false; SETS + 1],
        }
    }

    async fn live(&mut self) {
        let world = Arc::clone(&self.world);
        tokio::spawn(backend(Arc::clone(&world)));
        for name in 0..world.profile.clients {
            world.crowd(client(Arc::clone(&world), name));
        }
        for _ in 0..world.profile.lives {
            let Some(life) = self.start() else { return };
            world.set_life(Some(Arc::clone(&life)));
            self.one_life(&life).await;
            world.set_life(None);
            if !world.book.lock().violations.is_empty() {
                return;
            }
            world.nap(0..200).await;
            self.edit();
        }
        self.end_well().await;
    }

    fn edit(&mut self) {
        self.config.rekey.clear();
        if self.world.chance(self.world.profile.restless) {
            self.world.count("changed configurations");
            self.world.draw(|chance| self.config.edit(&mut self.known, chance));
        }
    }

    fn start(&mut self) -> Option<Arc<Life>> {
        let number = self.lives;
        self.lives += 1;
        self.world.count("starts");
        self.strays(number);
        if !self.config.rekey.is_empty() {
            self.world.count("rekeys");
            self.refused_without_rekey(number);
        }
        match Life::start(&self.world, number, &self.config, &self.path) {
            Ok(life) => {
                self.check_quarantines(&life);
                Some(life)
            }
            Err(error) => {
                self.world.violated(&format!("a start was refused: {error}"));
                None
            }
        }
    }

    /// R10: of an upstream that the store has not seen, nothing is known but what the operator says.
    fn strays(&mut self, number: u32) {
        let said = number == 0 && self.world.profile.fresh;
        for upstream in self.config.all() {
            let is_new = !std::mem::replace(&mut self.seen[upstream.number], true);
            for key in (0..KEYS).filter(|_| is_new && !said) {
                let at = At { upstream: upstream.number, key };
                let token = self.world.chance(70).then(|| self.world.pick(0..3));
                let mut write = Write::new((STRAY, 0), at, token, upstream);
                (write.enforced, write.held) = (false, false);
                self.world.stray(write);
            }
        }
    }

    /// R5: a quarantine as long as the longest lifetime since the last clean stop, and none after
    /// one.
    fn check_quarantines(&mut self, life: &Life) {
        for (upstream, boot) in life.config.all().zip(&life.boot.upstreams) {
            let before = &mut self.unclean[upstream.number];
            let found = boot.quarantine.unwrap_or_default();
            let is_known = self.stopped_clean[upstream.number] && !boot.rekeyed;
            if before.is_some_and(|lifetime| found < lifetime) || (is_known && !found.is_zero()) {
                let name = upstream.name();
                self.world.violated(&format!("{name}: a quarantine of {found:?} after {before:?}"));
            }
            *before = (*before).max(Some(upstream.lifetime));
            self.stopped_clean[upstream.number] = false;
        }
    }

    fn stopped_clean(&mut self, life: &Life) {
        for upstream in life.config.all() {
            self.unclean[upstream.number] = None;
            self.stopped_clean[upstream.number] = true;
        }
    }

    /// R11: keys that are made differently are refused without the operator's word.
    fn refused_without_rekey(&self, number: u32) {
        let silent = Config { rekey: Vec::new(), ..self.config.clone() };
        let refused = Life::start(&self.world, number, &silent, &self.path);
        if !matches!(refused, Err(OpenError::Rekeyed { .. })) {
            self.world.violated("keys are made differently, and nobody minds");
        }
    }

    /// Until a kill, a failure of the store or a stop.
    async fn one_life(&mut self, life: &Arc<Life>) {
        let world = Arc::clone(&self.world);
        let killed = world.chance(world.profile.killed);
        if killed && world.chance(50) {
            life.kill_after(world.pick(1..600));
        }
        tokio::select! {
            biased;
            () = life.killed() => {}
            () = life.disk.failed.cancelled() => world.count("poisoned stores"),
            () = world.nap(0..world.profile.longest) => {
                if killed {
                    life.kill();
                } else if world.chance(60) {
                    // Nobody asks for a while, so that nothing is in doubt at the stop.
                    world.set_life(None);
                    world.nap(0..8000).await;
                }
            }
        }
        let closed = tokio::select! {
            biased;
            () = life.killed() => None,
            closed = life.stop() => closed,
        };
        match closed {
            Some(true) => {
                world.count("clean stops");
                self.stopped_clean(life);
            }
            Some(false) => world.count("stops that are not clean"),
            None => {
                world.count("crashes");
                world.note(format_args!("life {}: crashes", life.number));
                let image = self.home.join(format!("after-{}", life.number));
                life.bury(&image).await;
                self.path = image;
                return;
            }
        }
        world.connections_ended(life.number);
    }

    /// The faults are over: everybody who waits is answered, every key can be written, and the
    /// process stops clean.
    async fn end_well(&mut self) {
        let world = Arc::clone(&self.world);
        world.calm.cancel();
        let Some(life) = self.start() else { return };
        world.set_life(Some(Arc::clone(&life)));
        if timeout(PATIENCE, self.crowd_leaves()).await.is_err() {
            return world.violated("somebody was never answered");
        }
        for upstream in &self.config.upstreams {
            for key in 0..KEYS {
                self.gets_through(&life, upstream, key).await;
            }
        }
        self.sets_get_through(&life).await;
        self.comes_to_rest(&life).await;
        world.set_life(None);
        if life.stop().await != Some(true) {
            return world.violated("a stop with nothing open was not clean");
        }
        world.connections_ended(life.number);
        self.stopped_clean(&life);
        self.config.rekey.clear();
        let Some(last) = self.start() else { return };
        last.stop().await;
    }

    async fn crowd_leaves(&self) {
        loop {
            let mut crowd = std::mem::take(&mut *self.world.crowd.lock());
            if crowd.is_empty() {
                return;
            }
            while let Some(left) = crowd.join_next().await {
                if let Err(error) = left {
                    self.world.violated(&format!("a client failed: {error}"));
                }
            }
        }
    }

    /// A new holder gets his write through, however often he must ask.
    async fn gets_through(&self, life: &Arc<Life>, upstream: &Upstream, key: usize) {
        let request = plain(upstream, key, 0);
        let Some(stored) = life.key(request.at) else { return };
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let highest = life.gate.show(&stored).await.ok().and_then(|key| key.highest);
            let token = highest.map_or(1, |token| token.counter + 1);
            if ask(Arc::clone(life), plain(upstream, key, token)).await {
                return self.world.count("keys written in the end");
            }
            sleep(Duration::from_millis(50)).await;
        }
        self.world.violated(&format!("{} can never be written again", request.at));
    }

    /// So does one of all keys at once.
    async fn sets_get_through(&self, life: &Arc<Life>) {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let token = life.sets.highest().map_or(1, |token| token + 1);
            let request = Several { keys: (0..KEYS).collect(), token, parts: vec![Some(0)] };
            if ask_several(Arc::clone(life), request).await {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        self.world.violated("a request of several keys never gets through");
    }

    /// Nothing stays in flight, in doubt, waiting or in quarantine.
    async fn comes_to_rest(&self, life: &Life) {
        let until = Instant::now() + PATIENCE;
        let busy = || {
            life.gate.standings().into_iter().find(|standing| {
                standing.in_flight + standing.waiting + standing.in_doubt > 0
                    || standing.quarantine.is_some()
            })
        };
        while Instant::now() < until && (busy().is_some() || !life.sets.is_quiet()) {
            sleep(Duration::from_millis(50)).await;
        }
        if let Some(busy) = busy() {
            self.world.violated(&format!("never at rest: {busy:?}"));
        }
        let open = self.world.judge(|book, _| book.open(life.number));
        if !open.is_empty() {
            self.world.violated(&format!("writes without an outcome: {open:?}"));
        }
    }
}
