//! One connection, for one request at a time.

use std::{error::Error, fmt::Write as _, io, net::SocketAddr, sync::Arc, time::Duration};

use http::{
    HeaderValue, Method, Request, Response, Version,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::{
    Account, Outgoing,
    dial::Dialled,
    pool::Pool,
    tls,
    wire::{CountedIo, Wire},
};
use crate::upstream::Closer;

/// How long a connection may take to be ready again once its response was read whole. It takes one
/// turn of its task; a connection that needs longer is in doubt.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// Most bytes of a response head, and of hyper's buffers on either side. Most fields are hyper's
/// default, 100: to set that number, even to itself, costs an allocation per response.
const BUFFER_SIZE: usize = 64 * 1024;

/// No response came.
#[derive(Debug)]
pub enum SendError {
    /// No byte of the request was handed to the kernel or to TLS, and here it is again.
    NotSent(Box<Request<Outgoing>>),
    /// The request is gone; [`Lease::sent_any`] tells whether a byte of it was sent.
    Lost(String),
    /// The same, because the store took nothing for `body_idle_timeout`.
    Stalled,
}

/// A connection and its task. Dropping it aborts the connection.
#[derive(Debug)]
pub(super) struct Link {
    sender: SendRequest<Outgoing>,
    closer: Closer,
    wire: Arc<Wire>,
    address: Option<SocketAddr>,
}

impl Link {
    /// Starts the connection's task.
    pub(super) async fn start(dialled: Dialled) -> hyper::Result<Self> {
        let address = dialled.address;
        let (io, wire) = CountedIo::new(dialled);
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER_SIZE)
            .max_header_size(BUFFER_SIZE)
            .handshake(TokioIo::new(io))
            .await?;
        let closer = Closer::default();
        tokio::spawn(Carrier { connection, ended: Ended(closer.clone()) }.run());
        Ok(Self { sender, closer, wire, address })
    }

    /// Whether it goes to that address, where one is asked for.
    pub(super) fn leads_to(&self, pinned: Option<SocketAddr>) -> bool {
        pinned.is_none() || self.address.is_none() || self.address == pinned
    }

    /// Whether it can take a request, as far as is known.
    pub(super) fn is_idle(&self) -> bool {
        self.sender.is_ready() && !self.sender.is_closed() && !self.closer.is_aborted()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.closer.abort();
    }
}

/// Fields drop in this order, so the end is told when the socket is closed, however the task ends.
struct Carrier {
    connection: Connection<TokioIo<CountedIo>, Outgoing>,
    ended: Ended,
}

struct Ended(Closer);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.mark_ended();
    }
}

impl Carrier {
    async fn run(mut self) {
        let closer = self.ended.0.clone();
        tokio::select! {
            biased;
            () = closer.aborted() => {}
            result = &mut self.connection => {
                if let Err(error) = result {
                    tracing::debug!(error = chain(&error), "upstream connection ends");
                }
            }
        }
    }
}

/// Exclusive use of one connection to the store. Dropping it aborts the connection.
#[derive(Debug)]
pub struct Lease {
    link: Link,
    pool: Arc<Pool>,
}

impl Lease {
    pub(super) fn new(link: Link, pool: Arc<Pool>) -> Self {
        link.wire.clear();
        Self { link, pool }
    }

    /// Where it goes; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.link.address
    }

    /// The handle that ends the connection, by a reset, from anywhere. Let it go before
    /// [`Lease::put_back`]: it would end a later request's connection.
    pub fn closer(&self) -> Closer {
        self.link.closer.clone()
    }

    /// Sends a request and waits for the final response's head, without a time-out.
    ///
    /// The URI goes out as it is and should be in origin form; the caller sets `Host`. The framing
    /// fields are made anew from the body, the version is HTTP/1.1. Informational responses are
    /// swallowed; a 101 is returned, and to be treated as a failure. A response may come before the
    /// request was sent whole: see [`Lease::sent_whole`].
    pub async fn send(
        &mut self,
        mut request: Box<Request<Outgoing>>,
    ) -> Result<Response<Incoming>, SendError> {
        frame(&mut request);
        self.link.wire.begin(request.body().progress());
        match self.link.sender.try_send_request(*request).await {
            Ok(response) => Ok(response),
            Err(mut error) => Err(match error.take_message() {
                Some(request) if !self.sent_any() => SendError::NotSent(Box::new(request)),
                Some(_) | None if timed_out(error.error()) => SendError::Stalled,
                Some(_) | None => SendError::Lost(self.explain(error.error())),
            }),
        }
    }

    /// The account of what was sent, to be looked at while [`Lease::send`] runs. It is this lease's
    /// only until [`Lease::put_back`].
    pub fn account(&self) -> Account {
        Account::new(Arc::clone(&self.link.wire))
    }

    /// Whether a byte of this lease's request was handed to the kernel or to TLS.
    pub fn sent_any(&self) -> bool {
        self.link.wire.any()
    }

    /// Whether this lease's request was handed to the kernel whole, head and body. Never true
    /// too early; once the response's head is there, not late either.
    pub fn sent_whole(&self) -> bool {
        self.link.wire.whole()
    }

    /// Why there is no answer, in words.
    fn explain(&self, error: &hyper::Error) -> String {
        if self.link.wire.answers_in_tls() {
            return "the upstream answered in TLS; is it https?".to_owned();
        }
        if error.is_incomplete_message() {
            return "the upstream closed the connection before its answer was whole".to_owned();
        }
        io_cause(error).and_then(tls::refused_later).unwrap_or_else(|| chain(error))
    }

    /// Gives the connection to the next request, if there is no doubt about it: call it once the
    /// response's body was read to its end.
    pub fn put_back(self) {
        let Self { mut link, pool } = self;
        if !link.wire.settled() || link.closer.is_aborted() || link.sender.is_closed() {
            return;
        }
        if link.is_idle() {
            return pool.push(link);
        }
        tokio::spawn(async move {
            if let Ok(Ok(())) = timeout(READY_WITHIN, link.sender.ready()).await {
                pool.push(link);
            }
        });
    }

    /// Ends the connection by a reset, and resolves when it has ended.
    pub async fn close(self) {
        self.link.closer.abort();
        self.link.closer.ended().await;
    }
}

/// The framing is ours alone: no field of the client's may contradict it.
fn frame(request: &mut Request<Outgoing>) {
    *request.version_mut() = Version::HTTP_11;
    let length = request.body().length();
    // A bare write says that it has no body (RFC 9110, 8.6); other methods say nothing.
    let silent = length == Some(0)
        && !matches!(*request.method(), Method::PUT | Method::POST | Method::PATCH);
    let headers = request.headers_mut();
    match length {
        Some(length) if !silent => {
            headers.remove(TRANSFER_ENCODING);
            headers.insert(CONTENT_LENGTH, length.into());
        }
        Some(_) => {
            headers.remove(TRANSFER_ENCODING);
            headers.remove(CONTENT_LENGTH);
        }
        None => {
            headers.remove(CONTENT_LENGTH);
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
}

/// Whether the store took nothing for too long: by our own clock, or by TCP_USER_TIMEOUT.
fn timed_out(error: &hyper::Error) -> bool {
    io_cause(error).is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
}

/// The failure of the connection that an error comes from.
fn io_cause(error: &hyper::Error) -> Option<&io::Error> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref() {
            return Some(io);
        }
        cause = error.source();
    }
    None
}

/// An error and its causes, in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
