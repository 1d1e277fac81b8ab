//! One process: its gate, its store, its tasks, and the ways in which it ends.

use std::{
    future::Future,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use palisade::{
    fence::Key,
    gate::{Gate, RealmOptions},
    metrics::Metrics,
    store::{Boot, OpenError},
};
use parking_lot::Mutex;
use tokio::{
    task::{JoinSet, yield_now},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    book::{At, KEYS, SETS},
    breakage::Breakage,
    disk::Disk,
    plan::Config,
    sets::Sets,
    world::World,
};

/// How long a stop may wait for open writes, in milliseconds.
const STOP_TIMEOUTS: [u64; 3] = [0, 500, 9000];

/// A process that runs, or ran.
pub(super) struct Life {
    pub(super) world: Arc<World>,
    pub(super) number: u32,
    pub(super) config: Config,
    pub(super) gate: Gate,
    pub(super) disk: Arc<Disk>,
    pub(super) sets: Sets,
    /// What its start found.
    pub(super) boot: Boot,
    /// When it started.
    began: u64,
    /// It was killed.
    dead: CancellationToken,
    /// It has ended, in whichever way.
    pub(super) over: CancellationToken,
    /// Await points until it is killed.
    steps: AtomicU64,
    tasks: Mutex<JoinSet<()>>,
}

impl Life {
    /// What `serve` does at a start.
    pub(super) fn start(
        world: &Arc<World>,
        number: u32,
        config: &Config,
        path: &Path,
    ) -> Result<Arc<Self>, OpenError> {
        let fresh = number == 0 && world.profile.fresh;
        let (disk, boot) = Disk::open(world, config, path, fresh)?;
        world.note(format_args!("life {number}: {boot:?} {:?}", config.upstreams));
        let store = Arc::clone(&disk);
        let realms = realms(world, config, &boot);
        let sets = Sets::new(world, realms.last().expect("the last is theirs"));
        let gate = Gate::new(world.profile.cache, realms, store, Metrics::new(&[]));
        let life = Arc::new(Self {
            world: Arc::clone(world),
            number,
            config: config.clone(),
            gate,
            disk,
            sets,
            boot,
            began: world.now(),
            dead: CancellationToken::new(),
            over: CancellationToken::new(),
            steps: AtomicU64::new(u64::MAX),
            tasks: Mutex::default(),
        });
        life.begin_books();
        let (disk, gate) = (Arc::clone(&life.disk), life.gate.clone());
        life.spawn(async move { disk.work().await });
        life.spawn(async move { gate.maintain().await });
        Ok(life)
    }

    /// What the store has found is what was answered for, unless the operator voided it.
    fn begin_books(&self) {
        for (upstream, boot) in self.config.all().zip(&self.boot.upstreams) {
            self.world.judge(|book, _| book.begin(upstream.number, upstream.is_enforced()));
            if boot.quarantine.is_some() {
                self.world.count("quarantines");
            }
            for key in 0..KEYS {
                let at = At { upstream: upstream.number, key };
                if boot.rekeyed {
                    self.world.judge(|book, _| book.void(at));
                }
                let Some(key) = self.key(at) else { continue };
                let found = self.disk.look(key).expect("a store that was just opened can be read");
                let token = found.as_ref().and_then(|mark| mark.token).map(|token| token.counter);
                self.world.judge(|book, _| book.found(at, token));
                if at.upstream == SETS {
                    self.sets.load(at.key, found);
                }
            }
        }
    }

    /// A key, if this process has its upstream.
    pub(super) fn key(&self, at: At) -> Option<Key> {
        let place = self.config.place(at.upstream)?;
        self.gate.key(place, at.path().as_bytes())
    }

    /// The end of an upstream's quarantine, in the world's microseconds.
    pub(super) fn quarantined_until(&self, upstream: usize) -> u64 {
        let place = self.config.place(upstream);
        let boot = place.and_then(|place| self.boot.upstreams.get(place));
        let length = boot.and_then(|boot| boot.quarantine).unwrap_or_default();
        self.began + u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
    }

    /// What a write of this process is known by: the process, and its key's epoch.
    pub(super) fn of(&self, at: At) -> (u32, u32) {
        (self.number, self.world.judge(|book, _| book.key(at).epoch))
    }

    /// A task of this process, if that still takes any.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if !self.over.is_cancelled() {
            self.tasks.lock().spawn(task);
        }
    }

    /// An await point: others run, time may pass, and the process may die.
    pub(super) async fn step(&self) {
        let left = self.steps.load(Ordering::Relaxed).saturating_sub(1);
        self.steps.store(left, Ordering::Relaxed);
        if left == 0 {
            self.kill();
        }
        match self.world.pick(0..8) {
            0 => self.world.nap(0..20).await,
            1..5 => yield_now().await,
            _ => {}
        }
        self.alive().await;
    }

    /// Goes no further in a process that is dead.
    pub(super) async fn alive(&self) {
        if self.dead.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// From now on nothing of it reaches anybody.
    pub(super) fn kill(&self) {
        self.dead.cancel();
    }

    pub(super) fn kill_after(&self, steps: u64) {
        self.steps.store(steps, Ordering::Relaxed);
    }

    pub(super) async fn killed(&self) {
        self.dead.cancelled().await;
    }

    /// What is left of a process that is dead: its connections are ended by the system, its tasks
    /// are gone, and the disk has what it has.
    pub(super) async fn bury(&self, image: &Path) {
        self.kill();
        self.over.cancel();
        if !self.gate.quarantines().is_empty() {
            self.world.count("crashes within a quarantine");
        }
        self.disk.image(image);
        self.world.connections_ended(self.number);
        self.end_tasks().await;
        // Only its threads are of interest here.
        drop(self.disk.close(false));
    }

    /// Ends its tasks. One that has panicked is a fault.
    async fn end_tasks(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.abort_all();
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                self.world.violated(&format!("a task panicked: {error}"));
            }
        }
    }

    /// A stop by the operator, or after the store has failed. Whether it left a clean mark; `None`
    /// where it did not come to the end.
    pub(super) async fn stop(&self) -> Option<bool> {
        self.world.note(format_args!("life {}: stops", self.number));
        self.gate.close();
        let limit = STOP_TIMEOUTS[self.world.draw(|chance| chance.usize(..STOP_TIMEOUTS.len()))];
        let settled = timeout(Duration::from_millis(limit), self.gate.settled());
        let in_time = settled.await.is_ok() && self.sets.is_quiet();
        // The last writes of a stop may be lost as well.
        if self.disk.failed.is_cancelled() || self.world.fault(20) {
            return None;
        }
        let mut clean = in_time && self.gate.is_clean();
        if self.world.broken == Some(Breakage::MarksCleanInDoubt) {
            clean = in_time;
        }
        self.over.cancel();
        self.end_tasks().await;
        let closed = self.disk.close(clean);
        self.world.note(format_args!("life {}: clean={clean}, {closed:?}", self.number));
        closed.ok().map(|()| clean)
    }
}

fn realms(world: &World, config: &Config, boot: &Boot) -> Vec<RealmOptions> {
    let realms = config.all().zip(&boot.upstreams).map(|(upstream, boot)| {
        let facts = upstream.facts();
        let quarantine = match world.broken {
            Some(Breakage::SkipsQuarantine) => None,
            Some(Breakage::ForgetsTheLongerLifetime) => boot.quarantine.map(|_| facts.lifetime),
            _ => boot.quarantine,
        };
        let forgets = world.broken == Some(Breakage::ForgetsUnfenced);
        RealmOptions {
            name: facts.name,
            id: boot.id,
            lifetime: facts.lifetime,
            quarantine,
            all_contested: boot.all_contested && !forgets,
            unfenced: boot.unfenced,
            void_unfenced: boot.unfenced && !facts.unfenced,
        }
    });
    realms.collect()
}
