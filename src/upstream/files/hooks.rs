//! Where tests stand in the way of a write's final step; nothing at all outside of them.

use rustix::io;

/// The places that a test can hold up, or make fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// The final step has begun, nothing is applied yet.
    Begin,
    /// The file is staged whole; its sync is next.
    SyncFile,
    /// The rename or unlink is next.
    Apply,
    /// It is applied; the directory's sync is next.
    SyncDirectory,
}

#[cfg(test)]
type Hook = std::sync::Arc<dyn Fn(Step) -> io::Result<()> + Send + Sync>;

/// What a test asked for.
#[derive(Default)]
pub(super) struct Hooks {
    #[cfg(test)]
    hook: parking_lot::Mutex<Option<Hook>>,
}

#[cfg(not(test))]
impl Hooks {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "a test's hook may fail")]
    pub(super) fn reach(&self, _: Step) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
impl Hooks {
    pub(super) fn set(&self, hook: impl Fn(Step) -> io::Result<()> + Send + Sync + 'static) {
        *self.hook.lock() = Some(std::sync::Arc::new(hook));
    }

    pub(super) fn reach(&self, step: Step) -> io::Result<()> {
        let hook = self.hook.lock().clone();
        hook.map_or(Ok(()), |hook| hook(step))
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooks")
    }
}
