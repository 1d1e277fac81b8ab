//! SOCKETS. Listeners, protocol time-outs, limits, graceful stop.
//!
//! It owns accepted connections and hands hyper a service that it is given. It knows no proxying.

use std::{net::SocketAddr, time::Duration};

/// `[server]`, validated.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// From a connection's start, or its last answer, to a whole request head.
    pub header_timeout: Duration,
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
