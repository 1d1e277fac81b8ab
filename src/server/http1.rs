//! A connection that speaks HTTP/1.1.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use http::{HeaderValue, Request, header::CONNECTION};
use http_body::Body;
use hyper::{body::Incoming, server::conn::http1::Builder, service::service_fn};
use hyper_util::rt::TokioIo;

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
    let busy = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request: Request<Incoming>| {
        link.owes(!request.body().is_end_stream());
        busy.store(true, Relaxed);
        let answer = shared.service.answer(peer.clone(), request);
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

    let mut http = shared.http1.clone();
    http.timer(Alarm::default());
    let mut connection = pin!(http.serve_connection(TokioIo::new(io), service));
    let result = tokio::select! {
        biased;
        result = connection.as_mut() => result,
        () = shared.stop.cancelled() => {
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
            let _ = socket.lock().set_zero_linger();
        }
        tracing::debug!(remote = %peer.remote(), error = %error, "connection ends");
    }
}
