//! The keys in memory, bounded in bytes. Forgetting one loses nothing that the store does not have.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use dashmap::{DashMap, mapref::entry::Entry};
use parking_lot::Mutex;

use super::{slot::Slot, standing::Count};
use crate::fence::{Key, UpstreamId};

/// About what a cached key costs besides its own bytes: the slot, its two places, allocations.
const OVERHEAD: u64 = 320;
/// How many candidates one newcomer looks at: eviction must not stall a request.
const CANDIDATES: usize = 16;

/// Slots by key, with second-chance eviction (CLOCK).
///
/// Lock order: a shard of the map, then a slot. Nothing takes a shard while it holds a slot.
pub(super) struct Cache {
    slots: DashMap<Key, Arc<Slot>>,
    ring: Mutex<VecDeque<Arc<Slot>>>,
    bytes: AtomicU64,
    budget: u64,
    /// How many keys there are of each upstream.
    lengths: Vec<(UpstreamId, Count)>,
}

impl Cache {
    pub(super) fn new(budget: u64, upstreams: impl Iterator<Item = UpstreamId>) -> Self {
        Self {
            slots: DashMap::new(),
            ring: Mutex::default(),
            bytes: AtomicU64::new(0),
            budget,
            lengths: upstreams.map(|id| (id, Count::default())).collect(),
        }
    }

    /// The slot of a key, a new one if it is not in memory. While the caller holds it, it stays.
    pub(super) fn slot(&self, key: &Key, forgettable: impl Fn(&Slot) -> bool) -> Arc<Slot> {
        if let Some(slot) = self.slots.get(key) {
            slot.touch();
            return Arc::clone(&slot);
        }
        let slot = match self.slots.entry(key.clone()) {
            Entry::Occupied(slot) => return Arc::clone(slot.get()),
            Entry::Vacant(place) => Arc::clone(&place.insert(Arc::new(Slot::new(key.clone())))),
        };
        // Before an eviction can find it, so that no number falls below zero.
        self.length(key.upstream()).map(Count::more).unwrap_or_default();
        self.bytes.fetch_add(cost(key), Ordering::Relaxed);
        self.ring.lock().push_back(Arc::clone(&slot));
        self.evict(forgettable);
        slot
    }

    /// The slot of a key if it is in memory.
    #[cfg(test)]
    pub(super) fn peek(&self, key: &Key) -> Option<Arc<Slot>> {
        self.slots.get(key).map(|slot| Arc::clone(&slot))
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many keys of an upstream are in memory.
    pub(super) fn len_of(&self, upstream: UpstreamId) -> usize {
        self.length(upstream).map_or(0, Count::now)
    }

    fn length(&self, upstream: UpstreamId) -> Option<&Count> {
        self.lengths.iter().find(|(id, _)| *id == upstream).map(|(_, count)| count)
    }

    fn evict(&self, forgettable: impl Fn(&Slot) -> bool) {
        for _ in 0..CANDIDATES {
            if self.bytes.load(Ordering::Relaxed) <= self.budget {
                return;
            }
            let Some(candidate) = self.ring.lock().pop_front() else { return };
            // The map's reference and ours: nobody else can be about to change it, and nobody can
            // take another while the shard is locked for the removal.
            let removed = !candidate.was_touched()
                && self
                    .slots
                    .remove_if(&candidate.key, |_, slot| {
                        Arc::ptr_eq(slot, &candidate)
                            && Arc::strong_count(slot) == 2
                            && forgettable(slot)
                    })
                    .is_some();
            if removed {
                self.bytes.fetch_sub(cost(&candidate.key), Ordering::Relaxed);
                self.length(candidate.key.upstream()).map(Count::less).unwrap_or_default();
            } else {
                self.ring.lock().push_back(candidate);
            }
        }
    }
}

fn cost(key: &Key) -> u64 {
    OVERHEAD + key.as_bytes().len() as u64
}
