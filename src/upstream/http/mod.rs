//! The store as an HTTP/1.1 server: our own client, which knows "not sent" from "unknown" (R4).
//!
//! It owns the connections of one worker to one upstream. Each request has a connection to itself,
//! which can be ended by a reset at any time, from any thread, and joined. It never sends a request
//! twice (R7), never resends one by itself, and never closes a connection with a clean end.

mod body;
mod dial;
mod lease;
mod pool;
#[cfg(test)]
mod tests;
mod wire;

pub use body::{BodyFault, BodyLimits, Outgoing, Progress};
pub use dial::Unreachable;
pub use lease::{Lease, SendError};
pub use wire::Account;

use std::{io, sync::Arc};

use http::{HeaderMap, header::TRANSFER_ENCODING};
use http_body::Body as _;
use hyper::body::Incoming;

use self::{lease::Link, pool::Pool};
use super::Options;

/// One upstream, as one worker reaches it. Must be used within the runtime that it was made for.
#[derive(Clone, Debug)]
pub struct HttpUpstream {
    options: Arc<Options>,
    pool: Arc<Pool>,
}

impl HttpUpstream {
    /// An upstream with no connection yet.
    pub fn new(options: Arc<Options>) -> Self {
        let pool = Arc::new(Pool::new(options.pool_max_idle, options.pool_idle_timeout));
        Self { options, pool }
    }

    /// What it was made with.
    pub fn options(&self) -> &Arc<Options> {
        &self.options
    }

    /// A connection for one request: the idle one used last, or a new one.
    pub async fn checkout(&self) -> Result<Lease, Unreachable> {
        match self.pool.take() {
            Some(link) => Ok(Lease::new(link, Arc::clone(&self.pool))),
            None => self.dial().await,
        }
    }

    /// A new connection for one request.
    pub async fn dial(&self) -> Result<Lease, Unreachable> {
        let (address, stream) = dial::dial(&self.options).await?;
        let failed = |error| Unreachable::Failed { address, source: io::Error::other(error) };
        let link = Link::start(stream).await.map_err(failed)?;
        Ok(Lease::new(link, Arc::clone(&self.pool)))
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
