//! A body in pieces of a good size for the disk, copied, so that small frames pin no large buffers.

use bytes::{Buf as _, Bytes};
use http::{HeaderMap, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt as _;

use super::super::{answer::Refusal, publish::Stop};
use crate::upstream::Closer;

/// Most bytes of a body in memory, besides the frame that is being taken in.
pub(in crate::upstream::files) const PIECE: usize = 256 * 1024;

/// Part of a body.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// The body ends with it, as it should.
    pub(super) last: bool,
}

/// A body that is being read.
pub(super) struct Intake<'a, B> {
    body: B,
    closer: &'a Closer,
    buffer: Vec<u8>,
    /// What of a frame did not fit the last piece.
    rest: Bytes,
    received: u64,
    /// `Content-Length`.
    declared: Option<u64>,
}

impl<'a, B> Intake<'a, B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error,
{
    pub(super) fn new(headers: &HeaderMap, body: B, closer: &'a Closer) -> Result<Self, Refusal> {
        let declared = match headers.get(header::CONTENT_LENGTH) {
            None => None,
            Some(length) => Some(number(length.as_bytes()).ok_or_else(|| {
                Refusal::new(StatusCode::BAD_REQUEST, "Content-Length is not a number")
            })?),
        };
        Ok(Self { body, closer, buffer: Vec::new(), rest: Bytes::new(), received: 0, declared })
    }

    /// The next piece, full unless it is the last. `Stop::Cut` as soon as that is asked for, when
    /// the body fails, and when it ends before its declared length or goes on beyond it.
    pub(super) async fn next(&mut self) -> Result<Piece, Stop> {
        loop {
            let fits = self.rest.len().min(PIECE - self.buffer.len());
            self.buffer.extend_from_slice(&self.rest[..fits]);
            self.rest.advance(fits);
            if self.buffer.len() == PIECE {
                return Ok(self.piece(false));
            }
            let frame = tokio::select! {
                biased;
                () = self.closer.aborted() => return Err(Stop::Cut),
                frame = self.body.frame() => frame,
            };
            match frame {
                // Trailers say nothing to a file.
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    tracing::debug!(%error, "the body of a write failed");
                    return Err(Stop::Cut);
                }
                None if self.declared.is_some_and(|n| n != self.received) => return Err(Stop::Cut),
                None => return Ok(self.piece(true)),
            }
            self.received += self.rest.len() as u64;
            if self.declared.is_some_and(|n| n < self.received) {
                return Err(Stop::Cut);
            }
        }
    }

    /// Takes a piece's memory back, to be filled again.
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.buffer = buffer;
    }

    fn piece(&mut self, last: bool) -> Piece {
        Piece { bytes: std::mem::take(&mut self.buffer), last }
    }
}

/// Digits only: `parse` alone takes a sign.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}
