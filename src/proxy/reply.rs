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
use http::response::Parts;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::{
    sync::{Semaphore, mpsc},
    time::timeout,
};

use super::body::{Chunk, Fed};
use crate::upstream::http::is_framed;

/// The longest answer that is held until it is whole.
const MOST_HELD: usize = 64 * 1024;

/// How much all clients together may be behind, in bytes.
const MOST_BEHIND_IN_ALL: usize = 64 << 20;

/// How many chunks a client may be behind; a chunk is what one read of the upstream gave, at most
/// 64 KiB.
const MOST_BEHIND: usize = 64;

/// How an answer's body came.
pub(super) enum Reply {
    /// To its end.
    Whole(Bytes),
    /// It is longer than what is held.
    Long(Tail),
    /// It ended before its end.
    Cut,
    /// The upstream fell silent within it.
    Late,
}

/// The start of a long body, and the rest of it, still to be read.
pub(super) struct Tail {
    held: Bytes,
    body: Incoming,
    eof_is_end: bool,
}

/// Reads a long body to its end, and feeds the client what it can take.
pub(super) struct Feed {
    tail: Tail,
    client: Option<mpsc::Sender<Chunk>>,
    behind: Arc<Semaphore>,
    whole: Arc<AtomicBool>,
}

/// Reads an answer's body as far as it is held.
pub(super) async fn collect(
    parts: &Parts,
    mut body: Incoming,
    eof_is_end: bool,
    idle: Duration,
) -> Reply {
    let eof_is_end = eof_is_end || is_framed(&parts.headers, &body);
    let mut held = BytesMut::new();
    loop {
        let Ok(frame) = timeout(idle, body.frame()).await else {
            return Reply::Late;
        };
        match frame {
            None if eof_is_end => return Reply::Whole(held.freeze()),
            None | Some(Err(_)) => return Reply::Cut,
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                if held.is_empty()
                    && data.len() <= MOST_HELD
                    && http_body::Body::is_end_stream(&body)
                {
                    return Reply::Whole(data);
                }
                held.extend_from_slice(&data);
            }
        }
        if held.len() > MOST_HELD {
            return Reply::Long(Tail { held: held.freeze(), body, eof_is_end });
        }
    }
}

impl Tail {
    /// `behind` is what all clients of the process may be behind, from [`room_behind`].
    pub(super) fn split(self, behind: &Arc<Semaphore>) -> (Feed, Fed) {
        let (client, chunks) = mpsc::channel(MOST_BEHIND);
        let whole = Arc::new(AtomicBool::new(false));
        let fed = Fed::new(chunks, Arc::clone(&whole));
        let behind = Arc::clone(behind);
        (Feed { tail: self, client: Some(client), behind, whole }, fed)
    }
}

impl Feed {
    /// Whether the body came to its end. The client sees one only if it got all of it.
    pub(super) async fn run(mut self, idle: Duration) -> bool {
        let start = std::mem::take(&mut self.tail.held);
        self.give(start);
        loop {
            match timeout(idle, self.tail.body.frame()).await {
                Ok(None) => break,
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.give(data);
                    }
                }
                Ok(Some(Err(_))) | Err(_) => return false,
            }
        }
        let whole = self.tail.eof_is_end;
        self.whole.store(whole && self.client.is_some(), Ordering::Release);
        whole
    }

    /// A client that has left, or is too far behind, is cut; the reading goes on (R8).
    fn give(&mut self, data: Bytes) {
        let Some(client) = &self.client else { return };
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
