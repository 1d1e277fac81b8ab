//! One write or claim that is being admitted: how long it waits, and what it leaves behind.

use std::time::Duration;

use super::{Inner, Policy, clock::after, slot::Slot};
use crate::fence::Moment;

/// How long an admission waits for the store, whatever its patience with lower writes: as long as
/// a commit may take.
const STORE_PATIENCE: Duration = Duration::from_secs(10);

/// The part of an admission that outlives one step. Dropping it ends its being counted.
pub(super) struct Waiter<'a> {
    inner: &'a Inner,
    slot: &'a Slot,
    pub(super) arrived: Moment,
    /// The end of its patience with lower writes.
    pub(super) deadline: Moment,
    /// The end of its patience with the store.
    pub(super) store_deadline: Moment,
    pub(super) failures: Option<u32>,
    pub(super) counted: bool,
    pub(super) drains: bool,
    pub(super) cut: bool,
}

impl<'a> Waiter<'a> {
    pub(super) fn new(inner: &'a Inner, slot: &'a Slot, policy: &Policy) -> Self {
        let arrived = inner.clock.now();
        let patience = STORE_PATIENCE.max(policy.drain_timeout);
        Self {
            inner,
            slot,
            arrived,
            deadline: after(arrived, policy.drain_timeout),
            store_deadline: after(arrived, patience),
            failures: None,
            counted: false,
            drains: false,
            cut: false,
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.slot.state.lock().waiting -= 1;
            self.inner.metrics.waiting_writes.dec();
        }
    }
}
