//! The latch of R2: the first failed write or sync, and who is told of it.

use std::sync::OnceLock;

use parking_lot::Mutex;

use super::StoreError;

type Hook = Box<dyn FnOnce(String) + Send>;

/// Set once, never reset: a failed sync that is tried again may succeed falsely.
#[derive(Default)]
pub(super) struct Poison {
    reason: OnceLock<String>,
    hooks: Mutex<Vec<Hook>>,
}

impl Poison {
    /// The first reason stands; the hooks run once, on the caller's thread.
    pub(super) fn set(&self, reason: String) {
        if self.reason.set(reason).is_err() {
            return;
        }
        let hooks = std::mem::take(&mut *self.hooks.lock());
        for hook in hooks {
            hook(self.reason.get().cloned().unwrap_or_default());
        }
    }

    /// The error that every write gets from now on, if there is one.
    pub(super) fn error(&self) -> Option<StoreError> {
        self.reason.get().map(|reason| StoreError::Poisoned(reason.clone()))
    }

    pub(super) fn is_set(&self) -> bool {
        self.reason.get().is_some()
    }

    /// Runs `hook` when the latch falls, or at once if it has fallen.
    pub(super) fn on_set(&self, hook: Hook) {
        // The lock orders this against `set`, which takes the hooks after it wrote the reason.
        let mut hooks = self.hooks.lock();
        match self.reason.get() {
            None => hooks.push(hook),
            Some(reason) => {
                drop(hooks);
                hook(reason.clone());
            }
        }
    }
}
