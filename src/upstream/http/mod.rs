//! The store as an HTTP/1.1 server: our own client, which knows "not sent" from "unknown" (R4).
//!
//! It owns the connections of one worker to one upstream, over TCP, TLS or a Unix socket. Each request has a connection to itself,
//! which can be ended by a reset at any time, from any thread, and joined. It never sends a request
//! twice (R7), never resends one by itself, and never closes a connection with a clean end.

mod body;
mod dial;
mod lease;
mod names;
mod pool;
mod socket;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

pub use body::{BodyFault, BodyLimits, Outgoing, Progress};
pub use dial::Unreachable;
pub use lease::{Lease, SendError};
pub use tls::{Tls, TlsError, TlsSetting};
pub use wire::Account;

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, header::TRANSFER_ENCODING};
use http_body::Body as _;
use hyper::body::Incoming;

use self::{
    dial::Dialler,
    lease::Link,
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
        match self.pool.take(pinned) {
            Some(link) => Ok(Lease::new(link, Arc::clone(&self.pool))),
            None => self.dial(pinned).await,
        }
    }

    /// A new connection for one request; `pinned` as for [`checkout`](Self::checkout). The name is
    /// looked up anew, unless that was done seconds ago, or an address is pinned.
    pub async fn dial(&self, pinned: Option<SocketAddr>) -> Result<Lease, Unreachable> {
        // Boxed: every request's future has room for what is in it, and few of them dial.
        let link = Box::pin(async {
            let dialled = self.dialler.dial(pinned).await?;
            Link::start(dialled).await.map_err(|error| Unreachable::Http(error.to_string()))
        });
        Ok(Lease::new(link.await?, Arc::clone(&self.pool)))
    }
}

/// Whether a response, fresh from [`Lease::send`], says where it ends; one that does not ends where
/// its connection ends, which a cut looks like.
pub fn is_framed(headers: &HeaderMap, body: &Incoming) -> bool {
    body.is_end_stream() || body.size_hint().exact().is_some() || chunked(headers)
}

/// hyper's rule: the last coding of the last line.
fn chunked(headers: &HeaderMap) -> bool {
    let last = headers.get_all(TRANSFER_ENCODING).iter().next_back();
    last.and_then(|line| line.to_str().ok()?.rsplit(',').next())
        .is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"))
}
