//! The short body of a refused write, taken so that its connection can be kept.

use std::{future::poll_fn, mem, pin::Pin, task::Poll};

use http_body::Body as _;
use hyper::body::Incoming;
use tokio::task::yield_now;

/// The longest body that is taken.
pub(super) const MOST_SPENT: u64 = 64 * 1024;

/// How often the rest of it is looked for: hyper hands over what it has read when it was asked and
/// its own task has had a turn, and reads what the kernel has in the next.
const LOOKS: usize = 3;

/// Whether nothing is left of a body, after what there was of it was taken.
pub(super) async fn is_spent(mut body: Incoming) -> bool {
    let mut looks = 0;
    while !body.is_end_stream() && looks < LOOKS {
        match poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(_)) | None) => return false,
            Poll::Pending => {
                looks += 1;
                if looks == 1 { next_turn().await } else { yield_now().await }
            }
        }
    }
    body.is_end_stream()
}

/// Resolves in the task's next turn, without a look at its sockets.
async fn next_turn() {
    let mut waited = false;
    poll_fn(|cx| {
        if mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
