//! The keys in memory; those at rest are bounded in bytes. Forgetting one loses nothing that the store
//! does not have.
//!
//! A key at rest is a [`Record`] in a table. While anything is going on with it there is a
//! [`Slot`], made from the record by the first user and folded back into one by the last. A refusal
//! is nothing that goes on.

use std::{
    convert::Infallible,
    hash::{BuildHasher, RandomState},
    mem,
    ops::Deref,
    sync::{Arc, atomic::Ordering},
};

use parking_lot::Mutex;

use super::{
    places::{INLINE, Name, Places},
    realm::Realms,
    record::{Record, Rest},
    slot::{Slot, State},
};
use crate::fence::{Fence, Key, UpstreamId};

/// At most what a key at rest costs in a table: its place (64), its part of an index that is as empty
/// as it gets (22, where keys come and go), and of its block. `benches/memory.rs` measures 72 to 79.
const RESTING: u64 = 92;
/// What an allocation costs besides its bytes.
const ALLOCATION: u64 = 16;
/// How many candidates one look for room takes: eviction must not stall a request.
const CANDIDATES: usize = 16;
/// Enough that the locks of the tables are seldom contended.
const MOST_SHARDS: u64 = 64;
/// Smaller shares would make the bound of a small cache coarse.
const LEAST_SHARE: u64 = 64 << 10;

/// Keys by their hash, in shards that are bounded each for itself.
pub(super) struct Cache {
    shards: Box<[Arc<Shard>]>,
    hasher: RandomState,
}

/// Part of the keys, with second-chance eviction (CLOCK).
///
/// Lock order: a shard, then a slot. Nothing takes a shard while it holds a slot.
struct Shard {
    table: Mutex<Table>,
    budget: u64,
    realms: Arc<Realms>,
}

struct Table {
    places: Places<Place>,
    /// Where the next look for room begins.
    hand: usize,
    bytes: u64,
}

enum Place {
    Live { slot: Arc<Slot>, touched: bool },
    Resting(Record),
}

/// A slot in use. While one is held, the key has no other slot and its state stays.
///
/// Two facts make it safe to fold a slot whose number of users is seen to be 0 under the shard's
/// lock. It rises from 0 under that lock only (a clone is made by a user), so nobody can come to
/// the slot meanwhile. And whoever lets it fall to 0 looks at it under that lock afterwards, so
/// that none is left behind; who comes too late finds users, another slot, or none.
pub(super) struct InUse {
    slot: Arc<Slot>,
    shard: Arc<Shard>,
}

impl Cache {
    pub(super) fn new(budget: u64, realms: &Arc<Realms>) -> Self {
        let shards = (budget / LEAST_SHARE).clamp(1, MOST_SHARDS);
        let hasher = RandomState::new();
        let shard = |_| {
            let places = Places::new(hasher.clone());
            Arc::new(Shard {
                table: Mutex::new(Table { places, hand: 0, bytes: 0 }),
                budget: (budget / shards).min(Places::<Place>::MOST * RESTING),
                realms: Arc::clone(realms),
            })
        };
        Self { shards: (0..shards).map(shard).collect(), hasher }
    }

    /// The slot of a key, a new one if it is not in memory.
    pub(super) fn slot(&self, key: &Key) -> InUse {
        let Ok(slot) = self.slot_unless::<Infallible>(key, |_| None);
        slot
    }

    /// The same, unless a key at rest is refused: that changes nothing of it, and needs no slot.
    pub(super) fn slot_unless<R>(
        &self,
        key: &Key,
        refuse: impl FnOnce(&Fence) -> Option<R>,
    ) -> Result<InUse, R> {
        let hash = self.hasher.hash_one(key.as_bytes());
        let shard = self.shard(hash);
        let mut table = shard.table.lock();
        let slot = table.slot(key, hash, &shard.realms, refuse)?;
        slot.users.fetch_add(1, Ordering::AcqRel);
        table.make_room(shard);
        drop(table);
        Ok(InUse { slot, shard: Arc::clone(shard) })
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.table.lock().places.len()).sum()
    }

    /// Whether a key is in memory, and if so whether it has a slot.
    #[cfg(test)]
    pub(super) fn is_live(&self, key: &Key) -> Option<bool> {
        let hash = self.hasher.hash_one(key.as_bytes());
        let mut table = self.shard(hash).table.lock();
        let found = table.places.find_mut(key.as_bytes(), hash);
        found.map(|(_, place)| matches!(place, Place::Live { .. }))
    }

    /// What the keys at rest take of the budget, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.table.lock().bytes).sum()
    }

    fn shard(&self, hash: u64) -> &Arc<Shard> {
        // Not by the bits that a table chooses its places by.
        &self.shards[(hash.rotate_left(32) % self.shards.len() as u64) as usize]
    }
}

impl Shard {
    /// Folds a slot that its last user has left.
    fn rest(&self, slot: &Arc<Slot>) {
        let mut table = self.table.lock();
        if slot.users.load(Ordering::Acquire) == 0 {
            table.rest(slot, &self.realms);
            table.make_room(self);
        }
    }
}

impl Table {
    /// The slot of a key, made if it has none, unless its record is refused.
    fn slot<R>(
        &mut self,
        key: &Key,
        hash: u64,
        realms: &Realms,
        refuse: impl FnOnce(&Fence) -> Option<R>,
    ) -> Result<Arc<Slot>, R> {
        let Some((at, place)) = self.places.find_mut(key.as_bytes(), hash) else {
            return Ok(self.add(key, hash, realms));
        };
        let state = match place {
            Place::Live { slot, touched } => {
                *touched = true;
                return Ok(Arc::clone(slot));
            }
            Place::Resting(record) => {
                record.touched = true;
                let fence = record.fence();
                if let Some(refusal) = refuse(&fence) {
                    return Err(refusal);
                }
                record.state(fence)
            }
        };
        let slot = Arc::new(Slot::new(key.clone(), hash, state));
        self.replace(at, Place::Live { slot: Arc::clone(&slot), touched: true });
        Ok(slot)
    }

    fn add(&mut self, key: &Key, hash: u64, realms: &Realms) -> Arc<Slot> {
        let slot = Arc::new(Slot::new(key.clone(), hash, State::default()));
        let place = Place::Live { slot: Arc::clone(&slot), touched: false };
        self.places.push(Name::from_slice(key.as_bytes()), hash, place);
        realms.of(key.upstream()).counts.keys.more();
        slot
    }

    /// Puts what stays of a slot without users in its place, if it is still there.
    fn rest(&mut self, left: &Arc<Slot>, realms: &Realms) {
        let found = self.places.find_mut(left.key.as_bytes(), left.hash);
        let Some((at, place)) = found else { return };
        let touched = match place {
            Place::Live { slot, touched } if Arc::ptr_eq(slot, left) => *touched,
            Place::Live { .. } | Place::Resting(_) => return,
        };
        let rest = left.state.lock().rest();
        match rest {
            Rest::Slot => {}
            Rest::Record(mut record) => {
                record.touched = touched;
                self.replace(at, Place::Resting(record));
            }
            Rest::Nothing => self.remove(at, realms),
        }
    }

    /// Forgets keys at rest while there are too many bytes. Each is given a second chance, but the
    /// last candidate: the bound is kept even where all are in demand.
    fn make_room(&mut self, shard: &Shard) {
        for left in (0..CANDIDATES).rev() {
            if self.bytes <= shard.budget || self.places.len() == 0 {
                return;
            }
            self.hand %= self.places.len();
            if self.is_to_go(self.hand, left == 0, &shard.realms) {
                self.remove(self.hand, &shard.realms);
            }
            // Also past the one that took its place: it was the last, and so often the newest.
            self.hand += 1;
        }
    }

    fn is_to_go(&mut self, at: usize, is_last: bool, realms: &Realms) -> bool {
        let Some((name, Place::Resting(record))) = self.places.get_mut(at) else {
            return false;
        };
        let is_spared = mem::take(&mut record.touched) && !is_last;
        !is_spared && record.is_forgettable(realms.regime(UpstreamId::of(name)))
    }

    fn replace(&mut self, at: usize, new: Place) {
        if let Some((name, place)) = self.places.get_mut(at) {
            self.bytes += cost(name, &new);
            self.bytes -= cost(name, place);
            *place = new;
        }
    }

    fn remove(&mut self, at: usize, realms: &Realms) {
        if let Some((name, place)) = self.places.swap_remove(at) {
            self.bytes -= cost(&name, &place);
            realms.of(UpstreamId::of(&name)).counts.keys.less();
        }
    }
}

impl Clone for InUse {
    fn clone(&self) -> Self {
        self.slot.users.fetch_add(1, Ordering::AcqRel);
        Self { slot: Arc::clone(&self.slot), shard: Arc::clone(&self.shard) }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if self.slot.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shard.rest(&self.slot);
        }
    }
}

impl Deref for InUse {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        &self.slot
    }
}

/// What a key costs of the budget, in bytes. A slot in use (about 1,200) is there whatever the
/// budget: to reckon with it would only put out others, as many keys in doubt would.
fn cost(name: &[u8], place: &Place) -> u64 {
    let Place::Resting(record) = place else { return 0 };
    let apart = |bytes: usize| if bytes == 0 { 0 } else { bytes as u64 + ALLOCATION };
    let long = if name.len() > INLINE { name.len() } else { 0 };
    RESTING + apart(long) + apart(record.heap_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        fence::{Mark, Token},
        gate::{RealmOptions, clock::Clock, slot::Load},
    };

    /// The order of steps that is too rare to wait for: whoever let the users fall to 0 looks when
    /// others have come, gone and come again.
    #[tokio::test]
    async fn who_comes_too_late_to_fold_a_slot_changes_nothing() {
        let realm = RealmOptions {
            name: "store".into(),
            id: UpstreamId(1),
            lifetime: Duration::ZERO,
            quarantine: None,
            all_contested: false,
            unfenced: false,
            void_unfenced: false,
        };
        let realms = Arc::new(Realms::new(vec![realm], Clock::start()));
        let cache = Cache::new(1 << 20, &realms);
        let key = Key::new(UpstreamId(1), b"k").unwrap();
        let first = cache.slot(&key);
        let mark = Mark { token: Some(Token::new(5)), ..Mark::default() };
        *first.state.lock() = State::new(Fence::new(Some(mark)), Load::Ready, None);
        let (old, shard) = (Arc::clone(&first.slot), Arc::clone(&first.shard));
        shard.rest(&old);
        assert_eq!(cache.is_live(&key), Some(true), "it has a user");
        drop(first);
        assert_eq!(cache.is_live(&key), Some(false));
        shard.rest(&old);
        assert_eq!(cache.is_live(&key), Some(false), "it is folded already");
        let second = cache.slot(&key);
        shard.rest(&old);
        assert!(Arc::ptr_eq(&second.slot, &cache.slot(&key).slot), "the key has another slot");
        assert_eq!(second.users.load(Ordering::Acquire), 1);
    }

    #[test]
    fn a_place_is_small() {
        assert_eq!((size_of::<Name>(), size_of::<Place>()), (24, 40));
    }
}
