//! A bounded queue between callers that must not block and threads that may.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

/// Many push, one or more take. A push that finds no room is refused, never delayed.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    limit: usize,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
}

/// Why an item was not taken; it comes back.
pub(super) enum Refused<T> {
    Full(T),
    Closed(T),
}

impl<T> Queue<T> {
    pub(super) fn new(limit: usize) -> Self {
        let state = State { items: VecDeque::new(), closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new(), limit }
    }

    pub(super) fn push(&self, item: T) -> Result<(), Refused<T>> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Refused::Closed(item));
        }
        if state.items.len() >= self.limit {
            return Err(Refused::Full(item));
        }
        state.items.push_back(item);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// The next item; waits for one. `None` once the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<T> {
        self.wait().items.pop_front()
    }

    /// Waits until there is an item, or the queue is closed. How many there are.
    pub(super) fn wait_for_one(&self) -> usize {
        self.wait().items.len()
    }

    /// All that waits, at least one; `None` once the queue is closed and empty.
    pub(super) fn take_all(&self) -> Option<VecDeque<T>> {
        let items = std::mem::take(&mut self.wait().items);
        (!items.is_empty()).then_some(items)
    }

    /// No push succeeds any more; what is in the queue can still be taken.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_all();
    }

    fn wait(&self) -> parking_lot::MutexGuard<'_, State<T>> {
        let mut state = self.state.lock();
        while state.items.is_empty() && !state.closed {
            self.filled.wait(&mut state);
        }
        state
    }
}
