//! SOCKETS. Listeners, TLS, HTTP/1.1 and HTTP/2 with their time-outs and limits, graceful stop.
//!
//! It owns accepted connections and hands hyper a service that it is given. It knows no proxying.
//!
//! One thread per worker, each with a single-threaded runtime, its own listening sockets and its own
//! service: a request stays on the core that accepted it. A stop runs in this order: the listeners
//! close, connections end ([`Serving::drained`]), the caller settles what is still running on the
//! workers' runtimes and says so ([`Stop::let_exit`]), the runtimes end ([`Serving::join`]).

mod alarm;
mod burst;
mod connection;
mod http1;
mod http2;
mod listen;
mod peer;
mod socket;
mod stop;
mod streams;
#[cfg(test)]
mod tests;
mod tls;
mod transport;
mod worker;

pub use listen::{BindError, Listeners};
pub use peer::Peer;
pub use stop::Stop;
pub use tls::{Certificate, ClientCa, ClientCertificate, Tls, TlsError, TlsFile, TlsPeer};
pub use worker::{Serving, serve};

use std::{net::SocketAddr, pin::Pin, time::Duration};

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;

/// `[server]`, validated.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Where set, every address speaks TLS and nothing else.
    pub tls: Option<Tls>,
    /// Whether clients may speak HTTP/2: over TLS by ALPN, else with prior knowledge.
    pub http2: bool,
    /// From a connection's start, or its last answer, to a whole request head. A TLS handshake has
    /// as long before that, and so has a client that hesitates within the first bytes by which the
    /// protocol is told. An HTTP/2 connection without a stream is closed after six times as long.
    pub header_timeout: Duration,
    /// How long a client may take none of an answer's bytes before it is cut.
    pub client_idle_timeout: Duration,
    /// Most bytes of a request head; on HTTP/2 as RFC 9113 counts them, 32 more a field.
    pub max_header_size: usize,
    /// Most fields of a request head; on HTTP/2 their size is their limit.
    pub max_headers: usize,
    /// Most connections at once; more wait in the kernel's queue.
    pub max_connections: usize,
    /// How long a stop may take.
    pub stop_timeout: Duration,
    /// Worker threads, each with a runtime and a listener of its own.
    pub workers: usize,
}

/// What answers requests, with hyper's bounds; functions of the same form do.
pub trait Answers: Send + Sync + 'static {
    /// The body of its answers.
    type Body: Body<Data: Send, Error: Into<BoxError>> + Send + 'static;
    /// Why there is no answer: the connection, or the stream, is cut.
    type Error: Into<BoxError>;
    /// The answer, once it is there.
    type Future: Future<Output = Result<Response<Self::Body>, Self::Error>> + Send + Unpin + 'static;

    /// Answers a request of that client.
    fn answer(&self, peer: Peer, request: Request<Incoming>) -> Self::Future;
}

impl<F, A, B, E> Answers for F
where
    F: Fn(Peer, Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    E: Into<BoxError>,
{
    type Body = B;
    type Error = E;
    type Future = Pin<Box<A>>;

    fn answer(&self, peer: Peer, request: Request<Incoming>) -> Pin<Box<A>> {
        Box::pin(self(peer, request))
    }
}

/// What hyper takes from a service or a body as an error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
