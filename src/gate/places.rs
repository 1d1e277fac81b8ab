//! A shard's keys, each with what is kept of it: found by a hash, walked in an order of their own.
//!
//! They lie in blocks that never move: what a key takes of memory is the same however many there
//! are, whatever the allocator, but for the index, which takes 6 to 22 bytes of it.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use smallvec::SmallVec;

/// A key's bytes: keys of up to twelve bytes and the upstream's number need no allocation.
pub(super) type Name = SmallVec<[u8; INLINE]>;
pub(super) const INLINE: usize = 16;

/// Keys in a block: with 64 bytes each just below the two KiB that allocators have a class for.
const BLOCK: usize = 31;

/// Values by name, each at a number: they are numbered without gaps, and the last one takes the
/// number of one that is removed.
pub(super) struct Places<V> {
    /// Numbers, by the hashes of the names.
    index: HashTable<u32>,
    blocks: Vec<Vec<(Name, V)>>,
    hasher: RandomState,
}

impl<V> Places<V> {
    /// More than that need not be numbered: half of what could be.
    pub(super) const MOST: u64 = 1 << 31;

    /// None. All that comes with a hash was hashed by `hasher`.
    pub(super) fn new(hasher: RandomState) -> Self {
        Self { index: HashTable::new(), blocks: Vec::new(), hasher }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    fn find(&self, name: &[u8], hash: u64) -> Option<usize> {
        let is_it = |at: &u32| self.get(*at as usize).is_some_and(|(known, _)| **known == *name);
        self.index.find(hash, is_it).map(|at| *at as usize)
    }

    /// Where a name is, and its value.
    pub(super) fn find_mut(&mut self, name: &[u8], hash: u64) -> Option<(usize, &mut V)> {
        let at = self.find(name, hash)?;
        self.get_mut(at).map(|(_, value)| (at, value))
    }

    fn get(&self, at: usize) -> Option<(&Name, &V)> {
        self.blocks.get(at / BLOCK)?.get(at % BLOCK).map(|(name, value)| (name, value))
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<(&Name, &mut V)> {
        self.blocks.get_mut(at / BLOCK)?.get_mut(at % BLOCK).map(|(name, value)| (&*name, value))
    }

    /// Adds a name that is not there.
    pub(super) fn push(&mut self, name: Name, hash: u64, value: V) {
        let at = self.len();
        let Self { index, blocks, hasher } = self;
        let hash_of = |at: &u32| hash_at(blocks, hasher, *at as usize);
        index.insert_unique(hash, number(at), hash_of);
        if at.is_multiple_of(BLOCK) {
            blocks.push(Vec::with_capacity(BLOCK));
        }
        if let Some(block) = blocks.last_mut() {
            block.push((name, value));
        }
    }

    pub(super) fn swap_remove(&mut self, at: usize) -> Option<(Name, V)> {
        let last = self.len().checked_sub(1)?;
        let hash = |at| hash_at(&self.blocks, &self.hasher, at);
        let (gone, moved) = (hash(at), hash(last));
        self.index.find_entry(gone, |number| *number as usize == at).ok()?.remove();
        if at != last
            && let Some(number_of_last) =
                self.index.find_mut(moved, |number| *number as usize == last)
        {
            *number_of_last = number(at);
        }
        let taken = self.blocks.last_mut()?.pop()?;
        if self.blocks.last().is_some_and(Vec::is_empty) {
            self.blocks.pop();
        }
        if at == last {
            return Some(taken);
        }
        let place = self.blocks.get_mut(at / BLOCK)?.get_mut(at % BLOCK)?;
        Some(std::mem::replace(place, taken))
    }
}

fn hash_at<V>(blocks: &[Vec<(Name, V)>], hasher: &RandomState, at: usize) -> u64 {
    let place = blocks.get(at / BLOCK).and_then(|block| block.get(at % BLOCK));
    place.map_or(0, |(name, _)| hasher.hash_one(name.as_slice()))
}

/// The cache keeps far fewer than [`Places::MOST`] at rest, and the machine fewer in use.
fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn name(n: u64) -> Name {
        // Some with and some without an allocation.
        Name::from_slice("k".repeat(1 + (n % 30) as usize).as_bytes())
            .into_iter()
            .chain(n.to_be_bytes())
            .collect()
    }

    /// Everything it says, beside a map that is right.
    fn check(places: &Places<u64>, right: &HashMap<Name, u64>, hasher: &RandomState) {
        assert_eq!(places.len(), right.len());
        for (name, value) in right {
            let at = places.find(name, hasher.hash_one(name.as_slice())).unwrap();
            assert_eq!(places.get(at), Some((name, value)));
        }
        let walked = (0..places.len()).map(|at| places.get(at).unwrap());
        let walked: HashMap<Name, u64> =
            walked.map(|(name, value)| (name.clone(), *value)).collect();
        assert_eq!(walked, *right);
        assert_eq!(places.get(places.len()), None);
        let needed = places.len().div_ceil(BLOCK);
        assert_eq!(places.blocks.len(), needed, "no block is empty, and each but the last is full");
    }

    #[test]
    fn it_holds_what_a_map_holds() {
        let hasher = RandomState::new();
        let mut places = Places::new(hasher.clone());
        let mut right = HashMap::new();
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..3000_u64 {
            // Grows, shrinks to nothing and grows again, past several blocks and resizes.
            let grows = round % 1000 < 500;
            if random.u8(..) < if grows { 230 } else { 60 } {
                let name = name(random.u64(..400));
                let hash = hasher.hash_one(name.as_slice());
                match places.find(&name, hash) {
                    Some(at) => *places.get_mut(at).unwrap().1 = round,
                    None => places.push(name.clone(), hash, round),
                }
                right.insert(name, round);
            } else if places.len() > 0 {
                let (name, value) = places.swap_remove(random.usize(..places.len())).unwrap();
                assert_eq!(right.remove(&name), Some(value));
                assert_eq!(places.find(&name, hasher.hash_one(name.as_slice())), None);
            }
            if round % 50 == 0 || places.len() < 3 {
                check(&places, &right, &hasher);
            }
        }
        while places.len() > 0 {
            let (name, value) = places.swap_remove(places.len() - 1).unwrap();
            assert_eq!(right.remove(&name), Some(value));
        }
        check(&places, &right, &hasher);
        assert_eq!(places.swap_remove(0), None);
    }
}
