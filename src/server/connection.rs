//! One client's connection, from its accept to its close.

use std::{io, net::SocketAddr, sync::Arc};

use hyper::server::conn::http1 as hyper_http1;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{error::Elapsed, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Answers, Options, Peer, Tls, TlsPeer,
    burst::Burst,
    http1, http2,
    socket::{ClientIo, Link},
    transport::{Head, Protocol, Transport, detect},
};
use crate::metrics::Gauge;

/// What all connections of a worker share.
#[derive(Debug)]
pub(super) struct Shared<S> {
    pub(super) options: Options,
    pub(super) http1: hyper_http1::Builder,
    pub(super) service: Arc<S>,
    /// What connections send at the end of a turn.
    pub(super) burst: Arc<Burst>,
    /// Counts the connections that are open.
    pub(super) connections: Gauge,
    /// Connections, and the streams of those that speak HTTP/2.
    pub(super) tasks: TaskTracker,
    /// Connections end after the answer they are at.
    pub(super) stop: CancellationToken,
    /// Connections end.
    pub(super) cut: CancellationToken,
}

/// A connection whose protocol is known, and who is at its other end.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) io: Transport,
    pub(super) peer: Peer,
    pub(super) link: Arc<Link>,
}

/// Serves a connection to its end.
pub(super) async fn serve<S: Answers>(
    stream: TcpStream,
    remote: SocketAddr,
    shared: Arc<Shared<S>>,
) {
    let _log = LogPanic(remote);
    let opened = tokio::select! {
        biased;
        opened = open(stream, remote, &shared) => opened,
        // Nobody has asked for anything yet.
        () = shared.stop.cancelled() => return,
    };
    match opened {
        Ok((Protocol::Http1, client)) => http1::serve(client, shared).await,
        // Apart, so that a connection that speaks HTTP/1.1 need not have room for it.
        Ok((Protocol::Http2, client)) => Box::pin(http2::serve(client, shared)).await,
        Err(why) => tracing::debug!(%remote, error = %why, "connection ends before a request"),
    }
}

/// Up to where the protocol is known.
async fn open<S>(
    stream: TcpStream,
    remote: SocketAddr,
    shared: &Shared<S>,
) -> Result<(Protocol, Client), OpenError> {
    let options = &shared.options;
    stream.set_nodelay(true)?;
    let local = stream.local_addr()?;
    let io = ClientIo::new(stream, options.client_idle_timeout, Arc::clone(&shared.burst));
    let (socket, link) = (io.socket(), io.link());
    let (protocol, io, tls) = if let Some(tls) = &options.tls {
        // Apart: it is over before the first request, and larger than all that comes after it.
        let (protocol, io, peer) = Box::pin(handshake(io, tls, options)).await?;
        (protocol, io, Some(peer))
    } else {
        let (protocol, io) = plain(io, options).await?;
        (protocol, io, None)
    };
    let peer = Peer::new(remote, local, tls, socket);
    Ok((protocol, Client { io, peer, link }))
}

/// Without TLS the first bytes say it.
async fn plain(mut io: ClientIo, options: &Options) -> Result<(Protocol, Transport), OpenError> {
    let (protocol, head) = if options.http2 {
        timeout(options.header_timeout, detect(&mut io)).await??
    } else {
        (Protocol::Http1, Head::default())
    };
    Ok((protocol, Transport::Plain { head, io }))
}

/// With TLS it was agreed on (ALPN); nothing agreed on is HTTP/1.1.
async fn handshake(
    io: ClientIo,
    tls: &Tls,
    options: &Options,
) -> Result<(Protocol, Transport, TlsPeer), OpenError> {
    match timeout(options.header_timeout, tls.accept(io)).await? {
        Ok(stream) => {
            let session = stream.get_ref().1;
            let http2 = session.alpn_protocol() == Some(b"h2");
            let protocol = if http2 { Protocol::Http2 } else { Protocol::Http1 };
            let peer = TlsPeer::of(session);
            Ok((protocol, Transport::Tls(Box::new(stream)), peer))
        }
        Err((why, mut io)) => {
            // The client can read the alert: what it sent meanwhile is read before the close.
            let _ = io.shutdown().await;
            Err(OpenError::Handshake(why))
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("TLS handshake failed: {0}")]
    Handshake(io::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("too slow before its first request")]
    Slow(#[from] Elapsed),
}

/// A panic ends its connection, or its stream, only; tokio catches it, this says whose it was.
pub(super) struct LogPanic(pub(super) SocketAddr);

impl Drop for LogPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(remote = %self.0, "a request panicked; its connection or stream is cut");
        }
    }
}
