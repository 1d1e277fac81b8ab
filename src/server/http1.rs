//! A connection that speaks HTTP/1.1.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use http::{HeaderValue, Request, Response, header::CONNECTION};
use http_body::Body;
use hyper::{body::Incoming, server::conn::http1::Builder, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

use super::{
    Answers, Options,
    alarm::Alarm,
    connection::{Client, Shared},
};

/// hyper's buffer, each way and connection; larger only where a head may be.
const BUFFER_SIZE: usize = 64 * 1024;

/// hyper's default number of fields, which costs no allocation per request.
const DEFAULT_MAX_HEADERS: usize = 100;

/// The protocol's limits, without a timer, which each connection has for itself. No upgrades, no
/// pipelined flushes; a half close is a client that waits.
pub(super) fn protocol(options: &Options) -> Builder {
    let mut http = Builder::new();
    http.header_read_timeout(options.header_timeout)
        .half_close(true)
        .keep_alive(true)
        .max_header_size(options.max_header_size)
        .max_buf_size(options.max_header_size.max(BUFFER_SIZE));
    if options.max_headers != DEFAULT_MAX_HEADERS {
        http.max_headers(options.max_headers);
    }
    http
}

/// Serves it to its end.
pub(super) async fn serve<S: Answers>(client: Client, shared: Arc<Shared<S>>) {
    let Client { io, peer, link } = client;
    let socket = peer.socket();
    let (busy, stop) = (&AtomicBool::new(false), &shared.stop);
    let service = service_fn(|request: Request<Incoming>| {
        link.owes(!request.body().is_end_stream());
        busy.store(true, Relaxed);
        Answered { answer: shared.service.answer(peer.clone(), request), busy, stop }
    });

    let mut http = shared.http1.clone();
    http.timer(Alarm::new(Arc::clone(&link)));
    let mut connection = pin!(http.serve_connection(TokioIo::new(io), service));
    let result = tokio::select! {
        biased;
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            if !busy.load(Relaxed) {
                link.owes(false);
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
        if error.is_user()
            && let Some(socket) = socket.upgrade()
        {
            // An answer that broke off. To a client of HTTP/1.0 a clean end would make it whole.
            let _ = socket.lock().stream.set_zero_linger();
        }
        tracing::debug!(remote = %peer.remote(), error = %error, "connection ends");
    }
}

/// The service's answer, with what the connection has to say to it.
struct Answered<'a, F> {
    answer: F,
    busy: &'a AtomicBool,
    stop: &'a CancellationToken,
}

impl<F, B, E> Future for Answered<'_, F>
where
    F: Future<Output = Result<Response<B>, E>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut answer = ready!(Pin::new(&mut self.answer).poll(cx));
        self.busy.store(false, Relaxed);
        // hyper says so by itself only once it was told of the stop, which can be a turn later.
        if let Ok(answer) = &mut answer
            && self.stop.is_cancelled()
        {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Poll::Ready(answer)
    }
}
