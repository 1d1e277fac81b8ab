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
            Self::Plain { head, io } if head.from < head.to => {
                let rest = head.rest();
                let fits = rest.len().min(buf.remaining());
                buf.put_slice(&rest[..fits]);
                head.from += fits;
                // With what has come after them: hyper would double its buffer for the connection's
                // life, were the first bytes a read of their own.
                match Pin::new(io).poll_read(cx, buf) {
                    Poll::Pending => Poll::Ready(Ok(())),
                    read @ Poll::Ready(_) => read,
                }
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

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::{
        io::AsyncWriteExt,
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// The server's end of a connection over which `sent` came, and the client's.
    async fn connection(sent: &[u8]) -> (Transport, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.write_all(sent).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut io = ClientIo::new(stream, Duration::from_mins(1), Arc::default());
        let (protocol, head) = detect(&mut io).await.unwrap();
        assert_eq!(protocol, Protocol::Http1);
        (Transport::Plain { head, io }, client)
    }

    #[tokio::test]
    async fn the_first_bytes_are_read_again_with_what_follows_them() {
        let sent = b"GET /as/long/as/a/request HTTP/1.1\r\nHost: a\r\n\r\n";
        let (mut transport, _client) = connection(sent).await;
        let mut got = [0; 100];
        assert_eq!(transport.read(&mut got).await.unwrap(), sent.len());
        assert_eq!(&got[..sent.len()], sent);
    }

    #[tokio::test]
    async fn the_first_bytes_wait_for_nothing() {
        let sent = b"GET / HTTP/1.0\r\n\r\n";
        let (mut transport, client) = connection(sent).await;
        let (mut some, mut rest) = ([0; 10], [0; 100]);
        assert_eq!(transport.read(&mut some).await.unwrap(), some.len());
        assert_eq!(transport.read(&mut rest).await.unwrap(), sent.len() - some.len());
        assert_eq!([&some, &rest[..sent.len() - some.len()]].concat(), sent);
        drop(client);
        assert_eq!(transport.read(&mut rest).await.unwrap(), 0);
    }
}
