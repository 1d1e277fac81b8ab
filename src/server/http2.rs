//! A connection that speaks HTTP/2.
//!
//! Flow control goes end to end: a stream's window opens as the service reads its body, and the
//! connection's window holds every stream's, so that a request that waits never stops another.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use http::{Method, Request, Response, header::CONTENT_LENGTH};
use http_body::Body;
use hyper::{body::Incoming, rt::Executor, server::conn::http2::Builder, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::TaskTracker;

use super::{
    Answers, Options,
    connection::{Client, LogPanic, Shared},
    socket::Link,
    streams::{Limits, Streams, Verdict},
};

/// Most streams of a connection at once.
const MAX_STREAMS: u32 = 100;

/// Bytes of a stream's body that wait for the service, at most.
const STREAM_WINDOW: u32 = 64 * 1024;

/// The same of a connection.
const CONNECTION_WINDOW: u32 = MAX_STREAMS * STREAM_WINDOW;

/// Bytes of a stream's answer that wait for the client: no more of it is asked for with so many.
const SEND_BUFFER: usize = 64 * 1024;

/// A connection without a stream may wait for so many times `header_timeout`.
const IDLE_TIMES: u32 = 6;

/// How long a connection that was asked to end, and has no stream open, may write nothing.
const GOODBYE: Duration = Duration::from_secs(2);

/// The protocol's limits; those of resets are left as they are. No extended CONNECT.
fn protocol(options: &Options, tasks: Tasks) -> Builder<Tasks> {
    let mut http = Builder::new(tasks);
    http.timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(options.max_header_size).unwrap_or(u32::MAX))
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        // Pings, so that a client that is no longer there is noticed.
        .keep_alive_interval(options.client_idle_timeout)
        .keep_alive_timeout(options.header_timeout);
    http
}

fn limits(options: &Options) -> Limits {
    Limits {
        first: options.header_timeout,
        idle: options.header_timeout.saturating_mul(IDLE_TIMES),
        taken: options.client_idle_timeout,
    }
}

/// Serves it to its end.
pub(super) async fn serve<S: Answers>(client: Client, shared: Arc<Shared<S>>) {
    let Client { io, peer, link } = client;
    let remote = peer.remote();
    let streams = Streams::new(limits(&shared.options));
    let service = service_fn(|request: Request<Incoming>| {
        let stream = streams.open();
        let head_alone = request.method() == Method::HEAD;
        let answer = shared.service.answer(peer.clone(), request);
        async move {
            match answer.await {
                Ok(mut answer) => {
                    if head_alone {
                        say_length(&mut answer);
                    }
                    Ok(answer.map(|body| stream.answer((!head_alone).then_some(body))))
                }
                Err(error) => {
                    stream.fail();
                    Err(error)
                }
            }
        }
    });

    let http = protocol(&shared.options, Tasks { tracker: shared.tasks.clone(), remote });
    let mut connection = pin!(http.serve_connection(TokioIo::new(io), service));
    let end = tokio::select! {
        biased;
        result = connection.as_mut() => return log(remote, result),
        () = shared.stop.cancelled() => None,
        end = watch(&streams, false) => Some(end),
    };
    if let Some(end @ (End::Stuck | End::Flooded)) = end {
        return tracing::debug!(%remote, "connection is cut: {end}");
    }
    link.owes(!streams.none_open());
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        result = connection => log(remote, result),
        () = shared.cut.cancelled() => {}
        end = watch(&streams, true) => tracing::debug!(%remote, "connection is cut: {end}"),
        () = silence(&streams, &link, shared.options.client_idle_timeout) => {}
    }
}

/// The length of a body that is not sent, as far as it is known.
fn say_length<B: Body>(answer: &mut Response<B>) {
    if let Some(length @ 1..) = answer.body().size_hint().exact() {
        answer.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
    }
}

/// Why a connection ends from our side.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("idle")]
    Idle,
    #[error("the client takes nothing of an answer")]
    Stuck,
    #[error("the client cancels most of what it asks for")]
    Flooded,
}

/// Resolves when a connection must end; one that is ending already may be idle.
async fn watch(streams: &Streams, ending: bool) -> End {
    loop {
        let until = match streams.verdict(Instant::now()) {
            Verdict::Fine { until } => until,
            Verdict::Idle if ending => Instant::now() + GOODBYE,
            Verdict::Idle => return End::Idle,
            Verdict::Stuck => return End::Stuck,
        };
        tokio::select! {
            () = streams.flooded() => return End::Flooded,
            () = sleep_until(until) => {}
        }
    }
}

/// Resolves when a connection that was asked to end has no stream and says nothing more, or goes on
/// for longer than `limit`: an answer's last bytes may still be on their way.
async fn silence(streams: &Streams, link: &Link, limit: Duration) {
    let mut deadline = Instant::now() + limit;
    loop {
        let written = link.written();
        sleep(GOODBYE).await;
        let now = Instant::now();
        if !streams.none_open() {
            deadline = now + limit;
        } else if link.written() == written || now >= deadline {
            return;
        }
    }
}

fn log(remote: SocketAddr, result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%remote, error = %error, "connection ends");
    }
}

/// Where hyper's tasks run, one a stream: the worker waits for them as for its connections.
#[derive(Clone, Debug)]
struct Tasks {
    tracker: TaskTracker,
    remote: SocketAddr,
}

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let remote = self.remote;
        self.tracker.spawn(async move {
            let _log = LogPanic(remote);
            future.await
        });
    }
}
