//! What the memory promises, whatever keeps it: the trait, its records, its errors.

use crate::fence::{Key, Mark, Token, UpstreamId};

/// Called once with the answer, on a thread of the store's. It must not block.
pub type Done<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// The highest durable token per key.
///
/// The store never says no to a token: it answers "the record is now this". No call blocks; each
/// answer comes through its [`Done`], exactly once, also when the store is poisoned or closed.
pub trait TokenStore: Send + Sync {
    /// Looks a key up. `None` means that the store has no record of it.
    fn find(&self, key: Key, done: Done<Option<Mark>>);

    /// Makes `mark` the record unless the record's token is greater, and answers, once it is
    /// synced, with the record as it then is.
    ///
    /// An equal token keeps `contested` if either has it and takes the holder if the record has
    /// none: only [`TokenStore::clear`] turns `contested` off.
    fn raise(&self, key: Key, mark: Mark, done: Done<Mark>);

    /// Turns `contested` off if the record's token is exactly `token`. Not urgent: it rides in the
    /// next commit, and forgetting it in a crash only costs a wait.
    fn clear(&self, key: Key, token: Token);

    /// The operator's release: turns `contested` off if the record's token is exactly `token`
    /// (`None` is a reset record), and answers once synced.
    fn release(&self, key: Key, token: Option<Token>, done: Done<()>);

    /// The operator's reset: a record without a token, contested; answers once synced.
    fn reset(&self, key: Key, done: Done<()>);

    /// Records whose key starts with `prefix` (stored bytes), after `after`, in key order: at most
    /// `limit`, and at most ten thousand.
    fn list(&self, prefix: Vec<u8>, after: Option<Key>, limit: usize, done: Done<Vec<(Key, Mark)>>);

    /// Writes whether writes that no rule holds back are possible at an upstream (R10).
    fn set_unfenced(&self, upstream: UpstreamId, unfenced: bool, done: Done<()>);

    /// True after a failed write or sync: nothing is raised any more and the process must end (R2).
    fn poisoned(&self) -> bool;
}

/// What went wrong, named by what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// This one call failed and nothing was changed; another may succeed.
    #[error("the store cannot be read: {0}")]
    Unavailable(String),
    /// A write or sync failed: nothing more is raised, the process must end, and the next start
    /// recovers what is on disk. Never retried.
    #[error("the store failed and takes no more writes: {0}")]
    Poisoned(String),
    /// What is on disk is not what this program wrote. An operator must look.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
}
