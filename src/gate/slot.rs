//! One key in use: its fence, its writes in flight, and who waits on it.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicUsize},
};

use parking_lot::Mutex;
use tokio::sync::{Notify, futures::OwnedNotified};

use super::{Inner, cache::InUse, permit::Link};
use crate::fence::{Fence, Key, Mark, Moment};

pub(super) struct Slot {
    pub(super) key: Key,
    /// The key's, by which the cache finds it again.
    pub(super) hash: u64,
    pub(super) state: Mutex<State>,
    /// How many [`InUse`] there are of it.
    pub(super) users: AtomicUsize,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) fence: Fence,
    pub(super) load: Load,
    /// How often the store failed this key: a waiter that sees it grow gives up.
    pub(super) failures: u32,
    /// The writes in flight, to be cut by a takeover: numbered, since a crowd may settle at once.
    pub(super) links: BTreeMap<u64, Arc<Link>>,
    /// The address that the writes in flight go to: one at a time, where an upstream has several.
    pub(super) place: Option<SocketAddr>,
    pub(super) waiting: usize,
    /// The first and the last write under the highest token, for `hold_seconds`.
    pub(super) held: Option<(Moment, Moment)>,
    bell: Option<Arc<Notify>>,
    in_doubt: bool,
}

/// A key in doubt, in the order in which doubts end.
pub(super) struct Doubtful {
    pub(super) until: Moment,
    pub(super) slot: InUse,
}

impl Ord for Doubtful {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.until.cmp(&self.until)
    }
}

impl PartialOrd for Doubtful {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Doubtful {
    fn eq(&self, other: &Self) -> bool {
        self.until == other.until
    }
}

impl Eq for Doubtful {}

/// Whether the fence knows what the store knows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Load {
    #[default]
    Cold,
    UnderWay,
    Ready,
}

impl Slot {
    pub(super) fn new(key: Key, hash: u64, state: State) -> Self {
        Self { key, hash, state: Mutex::new(state), users: AtomicUsize::new(0) }
    }

    /// Changes the state by an answer of the store's, then wakes all who wait: after the lock is
    /// free, since whoever is woken may run at once and would only wait for it.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let bell = {
            let state = &mut *self.state.lock();
            change(state);
            state.bell.clone()
        };
        if let Some(bell) = bell {
            bell.notify_waiters();
        }
    }
}

impl State {
    /// Of a key that nobody uses yet.
    pub(super) fn new(fence: Fence, load: Load, held: Option<(Moment, Moment)>) -> Self {
        Self { fence, load, held, ..Self::default() }
    }

    /// A future that hears the next [`State::wake`], also one before it is first polled.
    pub(super) fn listen(&mut self) -> OwnedNotified {
        Arc::clone(self.bell.get_or_insert_default()).notified_owned()
    }

    /// Wakes all who wait. Called only for changes after which each of them can go on, leave, or
    /// must reckon anew, so that a crowd is not woken to lie down again.
    pub(super) fn wake(&self) {
        if let Some(bell) = &self.bell {
            bell.notify_waiters();
        }
    }

    /// Whether a lower write in flight holds the highest token back.
    pub(super) fn is_draining(&self) -> bool {
        let highest = self.fence.highest();
        self.fence.in_flight().first().is_some_and(|(rank, _)| *rank < highest)
    }
}

impl Inner {
    /// Keeps the numbers of keys in doubt; says whether this one is.
    pub(super) fn note_doubt(&self, key: &Key, state: &mut State) -> bool {
        let is = !state.fence.in_doubt().is_empty();
        match (state.in_doubt, is) {
            (false, true) => {
                self.metrics.in_doubt_keys.inc();
                self.realm(key).counts.in_doubt.more();
            }
            (true, false) => {
                self.metrics.in_doubt_keys.dec();
                self.realm(key).counts.in_doubt.less();
            }
            _ => {}
        }
        state.in_doubt = is;
        is
    }

    /// Whether a doubt of this slot has just begun, so that the sweep must know of it.
    pub(super) fn doubt_began(&self, key: &Key, state: &mut State) -> bool {
        let before = state.in_doubt;
        self.note_doubt(key, state) && !before
    }

    /// Looks the key up; its waiters are woken by the answer.
    pub(super) fn find(self: &Arc<Self>, slot: &InUse) {
        let waiting = slot.clone();
        let done = Box::new(move |found: Result<Option<Mark>, crate::store::StoreError>| {
            waiting.change(|state| match found {
                Ok(record) => {
                    state.fence.remember(record);
                    state.load = Load::Ready;
                }
                Err(error) => {
                    tracing::warn!(%error, "a key cannot be looked up");
                    state.load = Load::Cold;
                    state.failures = state.failures.wrapping_add(1);
                }
            });
        });
        self.store.find(slot.key.clone(), done);
    }

    /// Hands a raise to the store; the key's waiters are woken by the answer.
    pub(super) fn raise(self: &Arc<Self>, slot: &InUse, mark: Mark) {
        let (inner, raised, submitted) = (Arc::clone(self), slot.clone(), mark.clone());
        let began = self.clock.now();
        let done = Box::new(move |answer: Result<Mark, crate::store::StoreError>| {
            raised.change(|state| match answer {
                Ok(record) => {
                    state.fence.raised(&submitted, record);
                    inner.metrics.raised(super::Clock::between(began, inner.clock.now()));
                }
                Err(error) => {
                    tracing::error!(%error, "a raise was not made durable");
                    state.fence.raise_failed(&submitted);
                    state.failures = state.failures.wrapping_add(1);
                }
            });
        });
        self.store.raise(slot.key.clone(), mark, done);
    }
}
