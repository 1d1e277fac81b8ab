//! The answer to a write: held until it is whole, or, if it is long, read at the upstream's pace
//! while it goes out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use tokio::{
    sync::{Semaphore, mpsc},
    task::yield_now,
};

use super::body::{Chunk, Fed};
use crate::upstream::{Options, http::Lease};

/// The longest answer that is held until it is whole.
const MOST_HELD: usize = 64 * 1024;

/// How much all clients together may be behind, in bytes.
const MOST_BEHIND_IN_ALL: usize = 64 << 20;

/// How many chunks a client may be behind; a chunk is a part of what one read of the upstream gave.
const MOST_BEHIND: usize = 64;

/// A piece of an answer that is shorter than this, in bytes, is copied for a client that may be slow.
const MOST_COPIED: usize = 32 * 1024;

/// How an answer's body came.
pub(super) enum Reply {
    /// To its end.
    Whole(Bytes),
    /// It is longer than what is held, and this is its start.
    Long(Bytes),
    /// It ended before its end.
    Cut,
    /// The upstream fell silent within it.
    Late,
}

/// Reads a long body to its end, and feeds the client what it can take.
pub(super) struct Feed {
    held: Bytes,
    client: Option<mpsc::Sender<Chunk>>,
    behind: Arc<Semaphore>,
    whole: Arc<AtomicBool>,
}

/// Reads an answer's body as far as it is held.
pub(super) async fn collect(lease: &mut Lease, eof_is_end: bool, idle: Duration) -> Reply {
    let ends = eof_is_end || lease.is_framed();
    let mut held = BytesMut::new();
    loop {
        match lease.data(idle).await {
            None if ends => return Reply::Whole(held.freeze()),
            Some(Err(cut)) if cut.is_late() => return Reply::Late,
            None | Some(Err(_)) => return Reply::Cut,
            Some(Ok(data)) if ends && held.is_empty() && lease.is_read() => {
                return Reply::Whole(data);
            }
            Some(Ok(data)) => held.extend_from_slice(&data),
        }
        if held.len() > MOST_HELD {
            return Reply::Long(held.freeze());
        }
    }
}

/// What goes on with a long body, of which `held` has been read; and what its client is sent.
/// `behind` is what all clients of the process may be behind, from [`room_behind`].
pub(super) fn feed(held: Bytes, behind: &Arc<Semaphore>) -> (Feed, Fed) {
    let (client, chunks) = mpsc::channel(MOST_BEHIND);
    let whole = Arc::new(AtomicBool::new(false));
    let fed = Fed::new(chunks, Arc::clone(&whole));
    (Feed { held, client: Some(client), behind: Arc::clone(behind), whole }, fed)
}

impl Feed {
    /// Whether the body came to its end. The client sees one only if it got all of it.
    pub(super) async fn run(mut self, lease: &mut Lease, options: &Options) -> bool {
        let start = std::mem::take(&mut self.held);
        self.give(start);
        let ends = options.eof_is_end || lease.is_framed();
        while let Some(data) = lease.data(options.body_idle_timeout).await {
            let Ok(data) = data else { return false };
            self.give(data);
            if self.client.is_some() {
                // The client's connection has its turn, in which it makes room.
                yield_now().await;
            }
        }
        self.whole.store(ends && self.client.is_some(), Ordering::Release);
        ends
    }

    /// A client that has left, or is too far behind, is cut; the reading goes on (R8).
    fn give(&mut self, data: Bytes) {
        let Some(client) = &self.client else { return };
        // A short piece of a long read would hold all of it, uncounted.
        let data = if data.len() < MOST_COPIED { Bytes::copy_from_slice(&data) } else { data };
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let given = match Arc::clone(&self.behind).try_acquire_many_owned(bytes) {
            Ok(room) => client.try_send(Chunk { data, _room: room }).is_ok(),
            Err(_) => false,
        };
        if !given {
            if !client.is_closed() {
                tracing::info!("a client is too far behind the answer to its write, and is cut");
            }
            self.client = None;
        }
    }
}

/// What all clients of a process together may be behind.
pub(super) fn room_behind() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MOST_BEHIND_IN_ALL))
}
