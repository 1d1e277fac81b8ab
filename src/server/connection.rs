//! One client's connection, from its accept to its close.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use http::{HeaderValue, Request, Response, header::CONNECTION};
use http_body::Body;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{BoxError, Options, socket::ClientIo};

/// hyper's buffer, each way and connection; larger only where a head may be.
const BUFFER_SIZE: usize = 64 * 1024;

/// hyper's default number of fields, which costs no allocation per request.
const DEFAULT_MAX_HEADERS: usize = 100;

/// What all connections of a worker share.
#[derive(Debug)]
pub(super) struct Shared<S> {
    pub(super) options: Options,
    pub(super) http: http1::Builder,
    pub(super) service: Arc<S>,
    /// Connections end after the answer they are at.
    pub(super) stop: CancellationToken,
    /// Connections end.
    pub(super) cut: CancellationToken,
}

/// The protocol's limits. No upgrades, no pipelined flushes; a half close is a client that waits.
pub(super) fn protocol(options: &Options) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout)
        .half_close(true)
        .keep_alive(true)
        .max_header_size(options.max_header_size)
        .max_buf_size(options.max_header_size.max(BUFFER_SIZE));
    if options.max_headers != DEFAULT_MAX_HEADERS {
        http.max_headers(options.max_headers);
    }
    http
}

/// Serves a connection to its end.
pub(super) async fn serve<S, B>(stream: TcpStream, remote: SocketAddr, shared: Arc<Shared<S>>)
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    let _log = LogPanic(remote);
    let local = match prepare(&stream) {
        Ok(local) => local,
        Err(error) => return tracing::debug!(%remote, %error, "connection lost at once"),
    };
    let io = ClientIo::new(stream, shared.options.client_idle_timeout);
    let (peer, owes) = (io.peer(remote, local), io.owes());
    let busy = Arc::new(AtomicBool::new(false));
    let service = service_fn(|mut request: Request<Incoming>| {
        owes.set(!request.body().is_end_stream());
        busy.store(true, Relaxed);
        request.extensions_mut().insert(peer.clone());
        let answer = shared.service.call(request);
        let (busy, shared) = (Arc::clone(&busy), Arc::clone(&shared));
        async move {
            let mut answer = answer.await;
            busy.store(false, Relaxed);
            // hyper says so by itself only once it was told of the stop, which can be a turn later.
            if let Ok(answer) = &mut answer
                && shared.stop.is_cancelled()
            {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            answer
        }
    });

    let mut connection = pin!(shared.http.serve_connection(TokioIo::new(io), service));
    let result = tokio::select! {
        biased;
        result = connection.as_mut() => result,
        () = shared.stop.cancelled() => {
            if !busy.load(Relaxed) {
                owes.set(false);
            }
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                result = connection => result,
                () = shared.cut.cancelled() => Ok(()),
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%remote, error = %error, "connection ends");
    }
}

fn prepare(stream: &TcpStream) -> io::Result<SocketAddr> {
    stream.set_nodelay(true)?;
    stream.local_addr()
}

/// A panic ends its connection only; tokio catches it, this says whose it was.
struct LogPanic(SocketAddr);

impl Drop for LogPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(remote = %self.0, "a request panicked; its connection is cut");
        }
    }
}
