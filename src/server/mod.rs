//! SOCKETS. Listeners, protocol time-outs, limits, graceful stop.
//!
//! It owns accepted connections and hands hyper a service that it is given. It knows no proxying.
//!
//! One thread per worker, each with a single-threaded runtime, its own listening sockets and its own
//! service: a request stays on the core that accepted it. A stop runs in this order: the listeners
//! close, connections end ([`Serving::drained`]), the caller settles what is still running on the
//! workers' runtimes and says so ([`Stop::let_exit`]), the runtimes end ([`Serving::join`]).

mod connection;
mod listen;
mod peer;
mod socket;
mod stop;
#[cfg(test)]
mod tests;
mod worker;

pub use listen::{BindError, Listeners};
pub use peer::Peer;
pub use stop::Stop;
pub use worker::{Serving, serve};

use std::{net::SocketAddr, time::Duration};

/// `[server]`, validated.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// From a connection's start, or its last answer, to a whole request head.
    pub header_timeout: Duration,
    /// How long a client may take none of an answer's bytes before it is cut.
    pub client_idle_timeout: Duration,
    /// Most bytes of a request head.
    pub max_header_size: usize,
    /// Most fields of a request head.
    pub max_headers: usize,
    /// Most connections at once; more wait in the kernel's queue.
    pub max_connections: usize,
    /// How long a stop may take.
    pub stop_timeout: Duration,
    /// Worker threads, each with a runtime and a listener of its own.
    pub workers: usize,
}

/// What hyper takes from a service or a body as an error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
