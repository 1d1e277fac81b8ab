//! RULE + MEMORY + TIME. Lets a write in, keeps it counted until it is settled, makes others wait.
//!
//! It owns the cached keys, the waiting writes and the clock: nothing else reads one for a rule. It
//! drives each key's fence and carries out what a verdict asks: look up, raise, wait, cut. It knows
//! no HTTP; the connection of a write is known to it by the trait [`Connection`] alone.

mod admit;
mod ask;
mod cache;
mod clock;
mod list;
mod operator;
mod permit;
mod places;
mod policy;
mod realm;
mod record;
mod slot;
mod standing;
mod waiter;

#[cfg(test)]
mod tests;

use std::{
    collections::BinaryHeap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use ask::{Admitted, Ask, Denied, Reason};
pub use list::{ListError, Listing};
pub use operator::{Advanced, OperatorError, Released, Snapshot};
pub use permit::{Connection, Permit};
pub use policy::{Mode, Policy, Takeover};
pub use realm::RealmOptions;
pub use standing::Standing;

use self::{
    cache::Cache,
    clock::Clock,
    realm::{Realm, Realms},
    slot::Doubtful,
};
use crate::{
    fence::{Key, Moment, UpstreamId},
    metrics::Metrics,
    store::TokenStore,
};

/// The gate, shared by all workers. Cheap to clone.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

pub(crate) struct Inner {
    clock: Clock,
    realms: Arc<Realms>,
    cache: Cache,
    store: Arc<dyn TokenStore>,
    metrics: Arc<Metrics>,
    closing: CancellationToken,
    open: Open,
    doubtful: Mutex<BinaryHeap<Doubtful>>,
}

/// How many writes are in flight on all keys, and a bell for when none is.
#[derive(Default)]
struct Open {
    writes: AtomicUsize,
    none: Notify,
}

impl Gate {
    /// A gate over the upstreams of the configuration, in their order, with at most about
    /// `cache_bytes` of keys kept in memory.
    pub fn new(
        cache_bytes: u64,
        realms: Vec<RealmOptions>,
        store: Arc<dyn TokenStore>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let clock = Clock::start();
        let realms = Arc::new(Realms::new(realms, clock));
        Self(Arc::new(Inner {
            cache: Cache::new(cache_bytes, &realms),
            realms,
            clock,
            store,
            metrics,
            closing: CancellationToken::new(),
            open: Open::default(),
            doubtful: Mutex::default(),
        }))
    }

    /// The canonical key of an upstream (by its place in the configuration), `None` if too long.
    pub fn key(&self, upstream: usize, path: &[u8]) -> Option<Key> {
        Key::new(self.0.realms[upstream].id, path)
    }

    /// The upstream of a key, by its place in the configuration.
    pub fn place(&self, key: &Key) -> Option<usize> {
        self.0.realms.iter().position(|realm| realm.id == key.upstream())
    }

    /// A key as operators write it, `UPSTREAM:KEY`.
    pub fn display(&self, key: &Key) -> String {
        [self.upstream(key), ":", &String::from_utf8_lossy(key.path())].concat()
    }

    /// The name of a key's upstream in the configuration.
    pub fn upstream(&self, key: &Key) -> &str {
        &self.0.realm(key).name
    }

    /// The store's number of an upstream by its name.
    pub fn resolve(&self, upstream: &str) -> Option<UpstreamId> {
        self.0.realms.iter().find(|realm| realm.name == upstream).map(|realm| realm.id)
    }

    /// Admits nothing more and sends every waiter away. Writes in flight go on.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    /// Resolves once no write is in flight.
    pub async fn settled(&self) {
        loop {
            let none = self.0.open.none.notified();
            if self.0.open.writes.load(Ordering::SeqCst) == 0 {
                return;
            }
            none.await;
        }
    }

    /// Whether a clean mark may be written now (R5): closed, nothing in flight or in doubt, and no
    /// quarantine.
    pub fn is_clean(&self) -> bool {
        let now = self.0.clock.now();
        self.0.sweep_doubts(Moment(u64::MAX));
        self.0.closing.is_cancelled()
            && self.0.open.writes.load(Ordering::SeqCst) == 0
            && self.0.doubtful.lock().is_empty()
            && self.0.realms.iter().all(|realm| realm.regime(now).quarantined().is_none())
    }

    /// The quarantines that run: upstream and what is left.
    pub fn quarantines(&self) -> Vec<(String, Duration)> {
        let now = self.0.clock.now();
        let left = |realm: &Realm| {
            let end = realm.regime(now).quarantined()?;
            Some((realm.name.clone(), Clock::between(now, end)))
        };
        self.0.realms.iter().filter_map(left).collect()
    }

    /// Upkeep that no request waits for: gauges of doubt, and `unfenced` of R10. Runs until the
    /// process ends; nothing depends on how often.
    pub async fn maintain(&self) {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.0.sweep_doubts(self.0.clock.now());
            self.0.void_unfenced();
            self.0.metrics.keys.set(i64::try_from(self.0.cache.len()).unwrap_or(i64::MAX));
        }
    }
}

impl Inner {
    fn realm(&self, key: &Key) -> &Realm {
        self.realms.of(key.upstream())
    }

    /// Looks at the keys whose doubt should have ended by `by`, for the gauge and the clean mark.
    fn sweep_doubts(&self, by: Moment) {
        let now = self.clock.now();
        let mut doubtful = self.doubtful.lock();
        let mut later = Vec::new();
        while doubtful.peek().is_some_and(|next| next.until <= by) {
            let Some(due) = doubtful.pop() else { break };
            let state = &mut *due.slot.state.lock();
            state.fence.expire(now);
            if self.note_doubt(&due.slot.key, state) {
                let until = state.fence.in_doubt().iter().map(|(_, until)| *until).max();
                later.push((until.unwrap_or(now), due.slot.clone()));
            }
        }
        doubtful.extend(later.into_iter().map(|(until, slot)| Doubtful { until, slot }));
    }

    /// R10: a fully enforced run of `max_write_lifetime` voids `unfenced`.
    fn void_unfenced(&self) {
        let now = self.clock.now();
        for realm in self.realms.iter().filter(|realm| realm.may_void_unfenced(now)) {
            let (name, unfenced) = (realm.name.clone(), Arc::clone(&realm.unfenced));
            let done = Box::new(move |result: Result<(), crate::store::StoreError>| match result {
                Ok(()) => {
                    unfenced.store(false, Ordering::Relaxed);
                    tracing::info!(upstream = name, "no unfenced write can be left");
                }
                Err(error) => tracing::warn!(upstream = name, %error, "cannot void `unfenced`"),
            });
            self.store.set_unfenced(realm.id, false, done);
        }
    }
}
