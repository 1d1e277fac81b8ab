//! The one handle by which a connection, or a file's write, is ended and joined.

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Ends what carries a request, abortively, and tells when it has ended.
///
/// Cheap to clone, and `Send`: a takeover on another core aborts here, and joins by awaiting.
#[derive(Clone, Debug, Default)]
pub struct Closer {
    abort: CancellationToken,
    ended: CancellationToken,
}

impl Closer {
    /// Asks for the end. It may not be an end yet when this returns.
    pub fn abort(&self) {
        self.abort.cancel();
    }

    /// Resolves once nothing of ours can reach the store through it any more.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// For the carrier: resolves when the end was asked for.
    pub async fn aborted(&self) {
        self.abort.cancelled().await;
    }

    /// The same, to be kept.
    pub fn until_aborted(&self) -> WaitForCancellationFutureOwned {
        self.abort.clone().cancelled_owned()
    }

    /// For the carrier: whether the end was asked for.
    pub fn is_aborted(&self) -> bool {
        self.abort.is_cancelled()
    }

    /// For the carrier: it has ended and its descriptors are closed.
    pub fn mark_ended(&self) {
        self.ended.cancel();
    }
}
