//! One upstream as the gate sees it.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{
    clock::{Clock, after},
    standing::Counts,
};
use crate::fence::{Moment, Regime, UpstreamId};

/// What a start knows of an upstream.
#[derive(Clone, Debug)]
pub struct RealmOptions {
    /// Its name in the configuration.
    pub name: String,
    /// Its number in the store.
    pub id: UpstreamId,
    /// `max_write_lifetime`: how long a write stays in doubt (R4).
    pub lifetime: Duration,
    /// How long this start's quarantine lasts (R5).
    pub quarantine: Option<Duration>,
    /// In it every key is contested (R10).
    pub all_contested: bool,
    /// The store holds `unfenced` (R10).
    pub unfenced: bool,
    /// The store holds `unfenced` though no route is unfenced now: to be voided after a lifetime.
    pub void_unfenced: bool,
}

pub(super) struct Realm {
    pub(super) name: String,
    pub(super) id: UpstreamId,
    lifetime: Duration,
    quarantine: Option<Moment>,
    all_contested: bool,
    void_unfenced_at: Moment,
    void_unfenced: AtomicBool,
    /// Turned off when the store has voided it.
    pub(super) unfenced: Arc<AtomicBool>,
    pub(super) counts: Counts,
}

/// The upstreams of the configuration, in its order, and their time.
pub(super) struct Realms {
    clock: Clock,
    realms: Vec<Realm>,
}

impl Realms {
    pub(super) fn new(options: Vec<RealmOptions>, clock: Clock) -> Self {
        let now = clock.now();
        Self { clock, realms: options.into_iter().map(|one| Realm::new(one, now)).collect() }
    }

    pub(super) fn of(&self, id: UpstreamId) -> &Realm {
        // Keys are made by this gate, so the upstream is one of its own.
        self.realms.iter().find(|realm| realm.id == id).unwrap_or(&self.realms[0])
    }

    /// What holds at an upstream now.
    pub(super) fn regime(&self, id: UpstreamId) -> Regime {
        self.of(id).regime(self.clock.now())
    }
}

impl Deref for Realms {
    type Target = [Realm];

    fn deref(&self) -> &[Realm] {
        &self.realms
    }
}

impl Realm {
    pub(super) fn new(options: RealmOptions, now: Moment) -> Self {
        let longest = options.quarantine.unwrap_or_default().max(options.lifetime);
        Self {
            name: options.name,
            id: options.id,
            lifetime: options.lifetime,
            quarantine: options.quarantine.map(|length| after(now, length)),
            all_contested: options.all_contested,
            void_unfenced_at: after(now, longest),
            void_unfenced: AtomicBool::new(options.void_unfenced),
            unfenced: Arc::new(AtomicBool::new(options.unfenced)),
            counts: Counts::default(),
        }
    }

    pub(super) fn regime(&self, now: Moment) -> Regime {
        Regime { now, quarantine: self.quarantine, all_contested: self.all_contested }
    }

    /// The end of a doubt that begins now (R4).
    pub(super) fn doubt_end(&self, now: Moment) -> Moment {
        if self.lifetime.is_zero() { now } else { after(now, self.lifetime) }
    }

    /// True once, when `unfenced` may be voided.
    pub(super) fn may_void_unfenced(&self, now: Moment) -> bool {
        now >= self.void_unfenced_at && self.void_unfenced.swap(false, Ordering::Relaxed)
    }
}
