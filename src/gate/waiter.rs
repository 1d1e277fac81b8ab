//! One admission while it lasts: its deadlines, its place in the crowd, and no trace after it.

use std::time::Duration;

use super::{
    Ask, Inner, Policy,
    clock::after,
    slot::{Slot, State},
};
use crate::fence::Moment;

/// How long a write waits at least for the store's look-up or sync, however short `drain_timeout`.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// The part of an admission that outlives one step.
pub(super) struct Waiter<'a> {
    inner: &'a Inner,
    slot: &'a Slot,
    pub(super) arrived: Moment,
    /// The end of `drain_timeout`, or of the grace after a cut.
    pub(super) deadline: Moment,
    /// The end of the patience with the store, which `drain_timeout` does not bound.
    pub(super) store_deadline: Moment,
    pub(super) failures: Option<u32>,
    pub(super) counted: bool,
    pub(super) drains: bool,
    pub(super) cut: bool,
}

impl<'a> Waiter<'a> {
    pub(super) fn new(inner: &'a Inner, slot: &'a Slot, policy: &Policy) -> Self {
        let arrived = inner.clock.now();
        let deadline = after(arrived, policy.drain_timeout);
        Self {
            inner,
            slot,
            arrived,
            deadline,
            store_deadline: deadline.max(after(arrived, STORE_PATIENCE)),
            failures: None,
            counted: false,
            drains: false,
            cut: false,
        }
    }
}

impl Waiter<'_> {
    /// Whether the key has its fill of waiters, and this one is not among them.
    pub(super) fn is_one_too_many(&self, state: &State, ask: &Ask<'_>) -> bool {
        !self.counted && state.waiting >= ask.policy.max_waiters
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.slot.state.lock().waiting -= 1;
            self.inner.metrics.waiting_writes.dec();
            self.inner.realm(&self.slot.key).counts.waiting.less();
        }
    }
}
