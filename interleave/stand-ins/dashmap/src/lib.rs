//! As much of `dashmap` as the cache of keys uses: one shard, under a lock that the scheduler sees.

use std::{collections::HashMap, hash::Hash};

use shuttle::sync::RwLock;

pub struct DashMap<K, V>(RwLock<HashMap<K, V>>);

impl<K: Clone + Eq + Hash, V> DashMap<K, V> {
    pub fn new() -> Self {
        Self(RwLock::new(HashMap::new()))
    }

    pub fn get(&self, key: &K) -> Option<mapref::one::Ref<'_, K, V>> {
        let shard = self.0.read().unwrap();
        shard.contains_key(key).then(|| mapref::one::Ref { shard, key: key.clone() })
    }

    pub fn entry(&self, key: K) -> mapref::entry::Entry<'_, K, V> {
        let shard = self.0.write().unwrap();
        if shard.contains_key(&key) {
            mapref::entry::Entry::Occupied(mapref::entry::OccupiedEntry { shard, key })
        } else {
            mapref::entry::Entry::Vacant(mapref::entry::VacantEntry { shard, key })
        }
    }

    /// `fits` is asked under the shard's lock.
    pub fn remove_if(&self, key: &K, fits: impl FnOnce(&K, &V) -> bool) -> Option<(K, V)> {
        let mut shard = self.0.write().unwrap();
        let fits = shard.get_key_value(key).is_some_and(|(key, value)| fits(key, value));
        if fits { shard.remove_entry(key) } else { None }
    }

    pub fn len(&self) -> usize {
        self.0.read().unwrap().len()
    }
}

pub mod mapref {
    pub mod one {
        use std::{collections::HashMap, hash::Hash, ops::Deref};

        use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};

        pub struct Ref<'a, K, V> {
            pub(crate) shard: RwLockReadGuard<'a, HashMap<K, V>>,
            pub(crate) key: K,
        }

        pub struct RefMut<'a, K, V> {
            pub(crate) shard: RwLockWriteGuard<'a, HashMap<K, V>>,
            pub(crate) key: K,
        }

        impl<K: Eq + Hash, V> Deref for Ref<'_, K, V> {
            type Target = V;

            fn deref(&self) -> &V {
                &self.shard[&self.key]
            }
        }

        impl<K: Eq + Hash, V> Deref for RefMut<'_, K, V> {
            type Target = V;

            fn deref(&self) -> &V {
                &self.shard[&self.key]
            }
        }
    }

    pub mod entry {
        use std::{collections::HashMap, hash::Hash};

        use shuttle::sync::RwLockWriteGuard;

        use super::one::RefMut;

        pub enum Entry<'a, K, V> {
            Occupied(OccupiedEntry<'a, K, V>),
            Vacant(VacantEntry<'a, K, V>),
        }

        pub struct OccupiedEntry<'a, K, V> {
            pub(crate) shard: RwLockWriteGuard<'a, HashMap<K, V>>,
            pub(crate) key: K,
        }

        pub struct VacantEntry<'a, K, V> {
            pub(crate) shard: RwLockWriteGuard<'a, HashMap<K, V>>,
            pub(crate) key: K,
        }

        impl<K: Eq + Hash, V> OccupiedEntry<'_, K, V> {
            pub fn get(&self) -> &V {
                &self.shard[&self.key]
            }
        }

        impl<'a, K: Clone + Eq + Hash, V> VacantEntry<'a, K, V> {
            pub fn insert(mut self, value: V) -> RefMut<'a, K, V> {
                self.shard.insert(self.key.clone(), value);
                RefMut { shard: self.shard, key: self.key }
            }
        }
    }
}
