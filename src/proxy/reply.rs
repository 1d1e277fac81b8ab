//! The answer to a write: held until it is whole, or, if it is long, read at the upstream's pace
//! while it goes out.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::response::Parts;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::{sync::mpsc, time::timeout};

use crate::upstream::http::is_framed;

/// The longest answer that is held until it is whole.
const MOST_HELD: usize = 64 * 1024;

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
    client: Option<mpsc::Sender<Bytes>>,
    given_whole: Arc<AtomicBool>,
}

/// What a client is fed. It ends in an error unless all of it was given: a client that was cut, or
/// whose answer was, must not take a part for the whole.
pub struct Fed {
    chunks: mpsc::Receiver<Bytes>,
    given_whole: Arc<AtomicBool>,
}

impl Fed {
    /// The next chunk, or `None` at the end.
    ///
    /// # Errors
    /// There was more, which does not come.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let chunk = ready!(self.chunks.poll_recv(cx));
        // The word was given before the sender was dropped.
        let whole = || self.given_whole.load(Ordering::Acquire);
        Poll::Ready(match chunk {
            Some(chunk) => Some(Ok(chunk)),
            None if whole() => None,
            None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }
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
    pub(super) fn split(self) -> (Feed, Fed) {
        let (client, chunks) = mpsc::channel(MOST_BEHIND);
        let given_whole = Arc::new(AtomicBool::new(false));
        let fed = Fed { chunks, given_whole: Arc::clone(&given_whole) };
        (Feed { tail: self, client: Some(client), given_whole }, fed)
    }
}

impl Feed {
    /// Whether the body came to its end.
    pub(super) async fn run(mut self, idle: Duration) -> bool {
        let start = std::mem::take(&mut self.tail.held);
        self.give(start);
        loop {
            let frame = timeout(idle, self.tail.body.frame()).await;
            let whole = match frame {
                Ok(None) => self.tail.eof_is_end,
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.give(data);
                    }
                    continue;
                }
                Ok(Some(Err(_))) | Err(_) => false,
            };
            if whole && self.client.is_some() {
                self.given_whole.store(true, Ordering::Release);
            }
            return whole;
        }
    }

    /// A client that has left, or is too far behind, is cut; the reading goes on (R8).
    fn give(&mut self, chunk: Bytes) {
        let Some(client) = &self.client else { return };
        if client.try_send(chunk).is_err() {
            self.client = None;
        }
    }
}
