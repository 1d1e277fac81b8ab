//! The lock service of the story: whoever asks when no lease runs gets the next token, and nobody is
//! asked whether the last holder has noticed.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::harness::now;

/// A lock per key.
#[derive(Default)]
pub struct Locks(Mutex<HashMap<&'static str, Lock>>);

#[derive(Default)]
struct Lock {
    token: u64,
    until: Option<Instant>,
}

impl Locks {
    /// A new token for a key, unless another's lease runs.
    pub fn acquire(&self, key: &'static str, lease: Duration) -> Option<u64> {
        let mut locks = self.0.lock().unwrap();
        let lock = locks.entry(key).or_default();
        if lock.until.is_some_and(|until| now() < until) {
            return None;
        }
        lock.until = Some(now() + lease);
        lock.token += 1;
        Some(lock.token)
    }

    /// The same, whoever holds it.
    pub fn seize(&self, key: &'static str) -> u64 {
        let mut locks = self.0.lock().unwrap();
        let lock = locks.entry(key).or_default();
        lock.token += 1;
        lock.token
    }
}
