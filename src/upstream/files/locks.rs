//! One lock per path, from a write's conditions to its sync, so that no other write of that path
//! comes between them. A path that nobody writes costs nothing.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::{Mutex, OwnedMutexGuard};

/// The locks of the paths that are being written, or waited for.
#[derive(Debug, Default)]
pub(super) struct PathLocks {
    paths: parking_lot::Mutex<HashMap<Vec<u8>, Arc<Mutex<()>>>>,
}

/// The right to change what a path names; or, until it is granted, the wait for it.
#[derive(Debug)]
pub(super) struct PathGuard {
    locks: Arc<PathLocks>,
    path: Vec<u8>,
    held: Option<OwnedMutexGuard<()>>,
}

impl PathLocks {
    /// Waits for a path's lock, first come, first served. Dropping the future leaves no trace.
    pub(super) async fn lock(self: &Arc<Self>, path: &[u8]) -> PathGuard {
        let lock = Arc::clone(self.paths.lock().entry(path.to_vec()).or_default());
        // Before the wait, so that a waiter that is dropped tidies up too.
        let mut guard = PathGuard { locks: Arc::clone(self), path: path.to_vec(), held: None };
        guard.held = Some(lock.lock_owned().await);
        guard
    }
}

impl Drop for PathGuard {
    fn drop(&mut self) {
        self.held = None;
        let mut paths = self.locks.paths.lock();
        if paths.get(&self.path).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            paths.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn locks_exclude_and_leave_no_trace() {
        let locks = Arc::new(PathLocks::default());
        let held = locks.lock(b"a").await;
        let mut second = Box::pin(locks.lock(b"a"));
        let mut third = Box::pin(locks.lock(b"a"));
        assert!(matches!(futures_poll(second.as_mut()), Poll::Pending));
        assert!(matches!(futures_poll(third.as_mut()), Poll::Pending));
        drop(locks.lock(b"b").await);
        drop(held);
        drop(third);
        drop(second.await);
        assert!(locks.paths.lock().is_empty());
        let held = locks.lock(b"a").await;
        let mut waiter = Box::pin(locks.lock(b"a"));
        assert!(matches!(futures_poll(waiter.as_mut()), Poll::Pending));
        drop(held);
        drop(waiter);
        assert!(locks.paths.lock().is_empty());
    }

    fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}
