//! Exclusive use of one connection, for one request.

use std::{
    future::poll_fn,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::Response;

use super::{
    Request, Sent,
    link::{Broken, Link},
    pool::Pool,
    response::BodyEnd,
};
use crate::upstream::Closer;

/// No response came.
#[derive(Debug)]
pub enum SendError {
    /// No byte of the request was handed to the kernel or to TLS, and here it is again.
    NotSent(Box<Request>),
    /// The request is gone; [`Lease::sent`] tells how much of it was sent.
    Lost(String),
    /// The same, because the store took nothing, or did not answer, for too long.
    Late,
}

/// A response's body ended before its end.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Cut {
    why: String,
    late: bool,
}

impl Cut {
    /// Because the store was silent for too long.
    pub fn is_late(&self) -> bool {
        self.late
    }
}

/// Exclusive use of one connection to the store. Dropping it resets the connection.
///
/// Nothing moves while nobody polls it: whoever holds it must also listen for a takeover.
#[derive(Debug)]
pub struct Lease {
    link: Box<Link>,
    pool: Arc<Pool>,
}

impl Lease {
    /// Over a link that is new, or was cleared.
    pub(super) fn new(link: Box<Link>, pool: Arc<Pool>) -> Self {
        Self { link, pool }
    }

    /// Where it goes; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.link.address()
    }

    /// The handle that ends the connection, by a reset, from anywhere. Let it go before
    /// [`Lease::put_back`]: it would end a later request's connection.
    pub fn closer(&self) -> Closer {
        self.link.closer().clone()
    }

    /// Sends a request and waits for the final response's head, for `patience` once the request was
    /// sent whole.
    ///
    /// Informational responses are swallowed; a 101 is returned, and to be treated as a failure. A
    /// response that comes before the request was sent whole ends the sending: see [`Lease::sent`].
    /// After an error the connection has ended.
    pub async fn send(
        &mut self,
        mut request: Box<Request>,
        patience: Duration,
    ) -> Result<Response<()>, SendError> {
        self.link.begin(&mut request);
        let answered = poll_fn(|cx| self.link.poll_exchange(&mut request, patience, cx)).await;
        answered.map_err(|broken| self.fail(&broken, request))
    }

    fn fail(&mut self, broken: &Broken, mut request: Box<Request>) -> SendError {
        self.link.end();
        let by_store = matches!(broken, Broken::Closed | Broken::Io(_));
        if by_store && !self.sent().any {
            self.link.give_back(&mut request);
            return SendError::NotSent(request);
        }
        if broken.is_late() { SendError::Late } else { SendError::Lost(broken.explain()) }
    }

    /// How much of this lease's request was handed to the kernel. Exact: never too early, and never
    /// late.
    pub fn sent(&self) -> Sent {
        self.link.sent()
    }

    /// Whether the response says where it ends; one that does not ends where its connection ends,
    /// which a cut looks like.
    pub fn is_framed(&self) -> bool {
        self.link.answer().is_none_or(BodyEnd::is_told)
    }

    /// How many bytes of the response's body are to come, where its head has said it.
    pub fn left(&self) -> Option<u64> {
        self.link.answer().and_then(BodyEnd::left)
    }

    /// Whether the response's body was read to its end.
    pub fn is_read(&self) -> bool {
        self.link.answer().is_none_or(BodyEnd::is_reached)
    }

    /// The next bytes of the response's body; `None` at its end. `idle` is the longest silence.
    pub async fn data(&mut self, idle: Duration) -> Option<Result<Bytes, Cut>> {
        poll_fn(|cx| self.poll_data(idle, cx)).await
    }

    /// The same, as a poll.
    pub fn poll_data(
        &mut self,
        idle: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Cut>>> {
        self.link
            .poll_data(idle, cx)
            .map_err(|broken| Cut { why: broken.explain(), late: broken.is_late() })
    }

    /// Gives the connection to the next request, if there is no doubt about it: call it once the
    /// response's body was read to its end.
    pub fn put_back(self) {
        let Self { mut link, pool } = self;
        if link.is_reusable() {
            link.clear();
            pool.push(link);
        }
    }

    /// Whether the store has sent bytes that are no answer, or the start of one.
    pub fn has_unread(&self) -> bool {
        self.link.has_unread()
    }

    /// Ends the connection by a reset. It has ended, and nothing more can be sent, when the account
    /// is given: of what may have been sent, for a TLS that fails may send on what it holds.
    pub fn close(mut self) -> Sent {
        self.link.end();
        self.link.sent_at_most()
    }
}
