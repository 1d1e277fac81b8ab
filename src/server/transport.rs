//! The bytes of a connection: plain or under TLS, and which protocol they speak.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::socket::ClientIo;

/// What a client that speaks HTTP/2 sends first.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a connection speaks, from its first byte to its last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// A client's bytes, without TLS.
#[derive(Debug)]
pub(super) enum Transport {
    /// What was read to tell the protocol is read again first.
    Plain {
        head: Head,
        io: ClientIo,
    },
    Tls(Box<TlsStream<ClientIo>>),
}

/// The first bytes of a connection.
#[derive(Debug, Default)]
pub(super) struct Head {
    bytes: [u8; PREFACE.len()],
    from: usize,
    to: usize,
}

impl Head {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }
}

/// Tells the protocol of plain bytes from as few of them as decide it. It has no time-out.
pub(super) async fn detect(io: &mut ClientIo) -> io::Result<(Protocol, Head)> {
    let mut head = Head::default();
    loop {
        let read = io.read(&mut head.bytes[head.to..]).await?;
        head.to += read;
        if read == 0 || !PREFACE.starts_with(head.rest()) {
            return Ok((Protocol::Http1, head));
        }
        if head.to == PREFACE.len() {
            return Ok((Protocol::Http2, head));
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain { head, .. } if head.from < head.to => {
                let rest = head.rest();
                let fits = rest.len().min(buf.remaining());
                buf.put_slice(&rest[..fits]);
                head.from += fits;
                Poll::Ready(Ok(()))
            }
            Self::Plain { io, .. } => Pin::new(io).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain { io, .. } => Pin::new(io).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain { io, .. } => Pin::new(io).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain { io, .. } => Pin::new(io).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain { io, .. } => Pin::new(io).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
