//! The two steps of a stop.

use tokio_util::sync::CancellationToken;

/// Ends a server, in two steps. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    stop: CancellationToken,
    exit: CancellationToken,
}

impl Stop {
    /// A handle that stops nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first step: listeners close at once, idle connections close, the others after the answer
    /// they are at.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Whether the first step was taken.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Resolves at the first step. A worker that panics takes it too.
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// The second step: no task on a worker's runtime matters any more.
    pub fn let_exit(&self) {
        self.exit.cancel();
    }

    pub(super) async fn exiting(&self) {
        self.exit.cancelled().await;
    }

    pub(super) fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }
}
