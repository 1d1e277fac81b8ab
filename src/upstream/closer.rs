//! The one handle by which a connection, or a file's write, is ended and joined.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use atomic_waker::AtomicWaker;
use tokio_util::sync::CancellationToken;

/// Ends what carries a request, abortively, and tells when it has ended.
///
/// Cheap to clone, and `Send`: a takeover on another core aborts here, and joins by awaiting.
#[derive(Clone, Debug, Default)]
pub struct Closer {
    abort: Arc<Abort>,
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct Abort {
    asked: AtomicBool,
    carrier: AtomicWaker,
}

impl Closer {
    /// Asks for the end. It may not be an end yet when this returns.
    pub fn abort(&self) {
        self.abort.asked.store(true, Ordering::Release);
        self.abort.carrier.wake();
    }

    /// Resolves once nothing of ours can reach the store through it any more.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// For the carrier, of which there is one: resolves when the end was asked for.
    pub async fn aborted(&self) {
        poll_fn(|cx| self.poll_aborted(cx)).await;
    }

    /// The same, as a poll. It is looked at once more after the waker is there, for an abort that
    /// came in between.
    pub fn poll_aborted(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.abort.carrier.register(cx.waker());
        if self.is_aborted() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// For the carrier: whether the end was asked for.
    pub fn is_aborted(&self) -> bool {
        self.abort.asked.load(Ordering::Acquire)
    }

    /// For the carrier: it has ended and its descriptors are closed.
    pub fn mark_ended(&self) {
        self.ended.cancel();
    }
}
