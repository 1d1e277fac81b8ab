//! What came from the store and was not taken yet.

use std::{
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use tokio::io::ReadBuf;
use tokio_util::io::poll_read_buf;

use super::socket::Io;

/// A first read takes as much: most answers whole.
const SMALL: usize = 8 * 1024;

/// A read of a body that fills the small one takes as much.
const LARGE: usize = 64 * 1024;

/// Bytes in the order in which they came. It takes no memory while it holds none.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) held: BytesMut,
    /// The last read was filled.
    filled: bool,
}

impl Inbox {
    /// Reads once. False at the connection's end.
    pub(super) fn poll_fill(
        &mut self,
        io: &mut dyn Io,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<bool>> {
        let read = if self.filled {
            ready!(self.poll_large(io, cx))?
        } else {
            ready!(self.poll_small(io, cx))?
        };
        Poll::Ready(Ok(read > 0))
    }

    /// By way of the stack, so that what is kept is as large as what came.
    fn poll_small(&mut self, io: &mut dyn Io, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut room = [const { MaybeUninit::uninit() }; SMALL];
        let mut room = ReadBuf::uninit(&mut room);
        ready!(Pin::new(io).poll_read(cx, &mut room))?;
        let came = room.filled();
        self.filled = came.len() == SMALL;
        self.held.extend_from_slice(came);
        Poll::Ready(Ok(came.len()))
    }

    fn poll_large(&mut self, io: &mut dyn Io, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.held.reserve(LARGE);
        let read = ready!(poll_read_buf(Pin::new(io), cx, &mut self.held))?;
        if self.held.len() < LARGE / 2 {
            // A slow client must not hold far more memory than there is data.
            self.filled = false;
            self.held = BytesMut::from(&self.held[..]);
        }
        Poll::Ready(Ok(read))
    }
}
