//! THE OTHER SIDE. The store behind the proxy: an HTTP server, or the built-in file store.
//!
//! It owns connections and files. It knows no tokens and no keys; it reports what it knows of a
//! request's fate (R4) and never sends one twice (R7).

mod closer;
pub mod files;
pub mod http;

pub use closer::Closer;

use std::{path::PathBuf, time::Duration};

use ::http::HeaderValue;

/// One `[upstreams.NAME]`, validated.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// From the start of a dial to a connection.
    pub connect_timeout: Duration,
    /// From the request sent whole to the response's head.
    pub response_timeout: Duration,
    /// The longest silence within a body, either way.
    pub body_idle_timeout: Duration,
    /// R4: the longest time it may still apply a write after its connection was cut.
    pub max_write_lifetime: Duration,
    /// R4: what it does with a request that was cut.
    pub partial_body: PartialBody,
    /// R4: more statuses that settle a write.
    pub settled_statuses: Vec<u16>,
    /// R4: a response without a length ends where its connection ends.
    pub eof_is_end: bool,
    /// A redirect of a write to another authority is passed on.
    pub pass_redirects: bool,
    /// A retried write of the same token waits for the doubt of the first.
    pub same_token_doubt_waits: bool,
    /// Idle connections kept per worker.
    pub pool_max_idle: usize,
    /// How long an idle connection is kept.
    pub pool_idle_timeout: Duration,
    /// TLS to it; `None` for plain HTTP, and always over a Unix socket.
    pub tls: Option<http::Tls>,
    /// The Host field that it is sent; `None` for what the client sent.
    pub host: Option<HeaderValue>,
}

/// The kinds of upstream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `url = "http://host:port"`, or `https` where there is [`Options::tls`].
    Http {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// `url = "unix:/path"`: an HTTP server on a Unix socket.
    Unix {
        /// Its path.
        socket: PathBuf,
    },
    /// `directory = "DIR"`: the built-in file store.
    Files {
        /// Its root.
        directory: PathBuf,
    },
}

/// `partial_body`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PartialBody {
    /// It may apply what it got.
    #[default]
    Unknown,
    /// It applies whole requests only.
    Discarded,
}
