//! The store as an HTTP/1.1 server: our own client, which knows "not sent" from "unknown" (R4).
//!
//! It owns the connections of one worker to one upstream, over TCP, TLS or a Unix socket. Each request has a connection to itself,
//! whose holder drives it: whoever asks for its end, from any thread,
//! wakes the holder, who resets it, and can wait for that. It never sends a request
//! twice (R7), never resends one by itself, and never closes a connection with a clean end.

mod alarm;
mod body;
mod dial;
mod inbox;
mod lease;
mod link;
mod names;
mod outbox;
mod pool;
mod request;
mod response;
mod socket;
#[cfg(test)]
mod tests;
mod tls;

pub use body::{BodyFault, BodyLimits, Outgoing, Progress};
pub use dial::Unreachable;
pub use lease::{Cut, Lease, SendError};
pub use request::{Draft, Request};
pub use tls::{Tls, TlsError, TlsSetting};

use std::{net::SocketAddr, sync::Arc};

use self::{
    dial::Dialler,
    link::Link,
    names::{FRESH, Names, System},
    pool::Pool,
};
use super::Options;

/// One upstream, as one worker reaches it. Must be used within the runtime that it was made for.
#[derive(Clone, Debug)]
pub struct HttpUpstream {
    options: Arc<Options>,
    dialler: Arc<Dialler>,
    pool: Arc<Pool>,
}

impl HttpUpstream {
    /// An upstream with no connection yet.
    pub fn new(options: Arc<Options>) -> Self {
        Self::with_names(options, Names::new(Arc::new(System), FRESH))
    }

    fn with_names(options: Arc<Options>, names: Names) -> Self {
        let pool = Arc::new(Pool::new(options.pool_max_idle, options.pool_idle_timeout));
        let dialler = Arc::new(Dialler::new(Arc::clone(&options), names));
        Self { options, dialler, pool }
    }

    /// What it was made with.
    pub fn options(&self) -> &Arc<Options> {
        &self.options
    }

    /// A connection for one request: the idle one used last, or a new one. With `pinned`, as
    /// [`Lease::address`] told it, to that address only; without, to whichever answers.
    pub async fn checkout(&self, pinned: Option<SocketAddr>) -> Result<Lease, Unreachable> {
        match self.at_hand(pinned) {
            Some(lease) => Ok(lease),
            None => self.dial(pinned).await,
        }
    }

    /// The idle connection that [`checkout`](Self::checkout) would give, if there is one.
    pub fn at_hand(&self, pinned: Option<SocketAddr>) -> Option<Lease> {
        self.pool.take(pinned).map(|link| Lease::new(link, Arc::clone(&self.pool)))
    }

    /// A new connection for one request; `pinned` as for [`checkout`](Self::checkout). The name is
    /// looked up anew, unless that was done seconds ago, or an address is pinned.
    pub async fn dial(&self, pinned: Option<SocketAddr>) -> Result<Lease, Unreachable> {
        // Boxed: every request's future has room for what is in it, and few of them dial.
        let dialled = Box::pin(self.dialler.dial(pinned)).await?;
        Ok(Lease::new(Box::new(Link::new(dialled)), Arc::clone(&self.pool)))
    }
}

/// How much of a request was handed to the kernel.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sent {
    /// A byte of it, or one to TLS.
    pub any: bool,
    /// All of it, head and body.
    pub whole: bool,
}
