//! A connection to the store, driven by whoever uses it: no task of its own.

use std::{
    error::Error,
    fmt::Write as _,
    io::{self, ErrorKind::TimedOut},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Response};
use tokio::io::{AsyncRead as _, ReadBuf};

use super::{
    BodyFault, Request, Sent,
    alarm::Alarm,
    dial::Dialled,
    inbox::Inbox,
    outbox::{Outbox, Unsent},
    response::{BodyEnd, Malformed, Taken, take_head},
    socket::Io,
    tls,
};
use crate::upstream::Closer;

/// How long an answer may take to be seen after its connection was found dead: it is there or not.
const LAST_WORD: Duration = Duration::from_secs(1);

/// A connection, between two requests or at one. Dropping it resets it.
///
/// Whatever goes wrong resets it at once; so does [`Closer::abort`], at the next poll, which it asks
/// for. The end is told when the socket is closed.
#[derive(Debug)]
pub(super) struct Link {
    /// `None` once it has ended.
    io: Option<Box<dyn Io>>,
    tls: bool,
    address: Option<SocketAddr>,
    closer: Closer,
    outbox: Outbox,
    inbox: Inbox,
    /// Where the present answer ends, once its head was read.
    answer: Option<BodyEnd>,
    /// The last answer lets the connection be used again.
    keeps: bool,
    /// Informational answers to the present request.
    forerunners: usize,
    /// The request could not be sent whole, and why; an answer may be there all the same.
    unsent: Option<io::Error>,
    alarm: Alarm,
}

/// Why an exchange failed.
#[derive(Debug)]
pub(super) enum Broken {
    /// The store ended the connection, or sent what nobody had asked for.
    Closed,
    Io(io::Error),
    /// The client's part did not arrive.
    Body(BodyFault),
    Malformed(Malformed),
    /// The store was silent for too long.
    Late,
    /// Somebody asked for the end.
    Aborted,
    /// It speaks TLS, of which we know nothing here.
    AnswersInTls,
}

impl Link {
    /// A new connection, over which nothing was sent.
    pub(super) fn new(dialled: Dialled) -> Self {
        Self {
            io: Some(dialled.io),
            tls: dialled.tls,
            address: dialled.address,
            closer: Closer::default(),
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            answer: None,
            keeps: true,
            forerunners: 0,
            unsent: None,
            alarm: Alarm::default(),
        }
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Whether it goes to that address, where one is asked for.
    pub(super) fn leads_to(&self, pinned: Option<SocketAddr>) -> bool {
        pinned.is_none() || self.address.is_none() || self.address == pinned
    }

    pub(super) fn closer(&self) -> &Closer {
        &self.closer
    }

    /// The account of the last request that was begun.
    pub(super) fn sent(&self) -> Sent {
        self.outbox.sent()
    }

    /// The same of a connection that has failed: TLS may have sent on what it held.
    pub(super) fn sent_at_most(&self) -> Sent {
        let sent = self.sent();
        Sent { whole: sent.whole || (sent.any && self.outbox.is_given()), ..sent }
    }

    /// Whether bytes came that are no answer, or not a whole head.
    pub(super) fn has_unread(&self) -> bool {
        self.answer.is_none() && !self.inbox.held.is_empty()
    }

    /// Makes a request whole again, of which nothing was sent.
    pub(super) fn give_back(&mut self, request: &mut Request) {
        let (head, data) = self.outbox.take_unsent();
        request.head = head;
        request.body.give_back(data);
    }

    /// Where the present answer ends; `None` before its head.
    pub(super) fn answer(&self) -> Option<&BodyEnd> {
        self.answer.as_ref()
    }

    /// Whether it owes the store nothing, nor the store it.
    pub(super) fn is_reusable(&self) -> bool {
        let settled = match &self.answer {
            Some(end) => self.sent().whole && self.keeps && end.is_reached(),
            None => self.outbox.is_unused(),
        };
        settled && self.io.is_some() && self.inbox.held.is_empty() && !self.closer.is_aborted()
    }

    /// Makes it forget the last exchange, and let go of all memory for it.
    pub(super) fn clear(&mut self) {
        self.outbox = Outbox::default();
        self.inbox = Inbox::default();
        self.answer = None;
        self.forerunners = 0;
        self.unsent = None;
        self.alarm.stop();
    }

    /// Between requests: pending as long as the store neither says anything nor ends the connection,
    /// after either of which it is of no use.
    pub(super) fn poll_disturbed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(io) = &mut self.io else { return Poll::Ready(()) };
        let mut room = [0];
        Pin::new(io).poll_read(cx, &mut ReadBuf::new(&mut room)).map(drop)
    }

    /// A request is about to be sent, the first since [`Link::clear`].
    pub(super) fn begin(&mut self, request: &mut Request) {
        self.outbox = Outbox::of(request);
    }

    /// Sends, and reads the head of the final answer. It reads first: an answer that is there before
    /// the request is whole ends the sending. From the whole request on the store has `patience`.
    pub(super) fn poll_exchange(
        &mut self,
        request: &mut Request,
        patience: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<()>, Broken>> {
        self.check_abort(cx)?;
        if let Poll::Ready(answered) = self.poll_head(request, cx) {
            return Poll::Ready(answered);
        }
        if self.unsent.is_none() && !self.sent().whole {
            let io = self.io.as_deref_mut().ok_or(Broken::Closed)?;
            match ready!(self.outbox.poll_send(&mut request.body, io, self.tls, cx)) {
                Err(Unsent::Io(error)) if self.sent().any && error.kind() != TimedOut => {
                    self.unsent = Some(error);
                }
                sent => sent?,
            }
        }
        if self.unsent.is_some() {
            return self.poll_last_word(request, cx);
        }
        self.alarm.poll(patience, cx).map(|()| Err(Broken::Late))
    }

    /// A store that answers to a part of a request, and takes no more of it, may have closed the
    /// connection before we come to read.
    fn poll_last_word(
        &mut self,
        request: &mut Request,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<()>, Broken>> {
        let said = match self.poll_head(request, cx) {
            Poll::Ready(said) => said.ok(),
            Poll::Pending => ready!(self.alarm.poll(LAST_WORD, cx).map(|()| None)),
        };
        let why = self.unsent.take();
        Poll::Ready(said.ok_or_else(|| why.map_or(Broken::Closed, Broken::Io)))
    }

    fn poll_head(
        &mut self,
        request: &mut Request,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<()>, Broken>> {
        loop {
            let io = self.io.as_deref_mut().ok_or(Broken::Closed)?;
            let came = ready!(self.inbox.poll_fill(io, cx));
            if !self.sent().any {
                // Whatever it is, it is no answer to this request.
                return Poll::Ready(Err(Broken::Closed));
            }
            if !came? {
                return Poll::Ready(Err(Broken::Closed));
            }
            let head = match take_head(
                &mut self.inbox.held,
                request.method == Method::HEAD,
                &mut request.spare,
                &mut self.forerunners,
            ) {
                Ok(head) => head,
                Err(_) if self.answers_in_tls() => {
                    return Poll::Ready(Err(Broken::AnswersInTls));
                }
                Err(malformed) => return Poll::Ready(Err(Broken::Malformed(malformed))),
            };
            if let Some(head) = head {
                self.alarm.stop();
                self.answer = Some(head.body);
                self.keeps = head.keeps;
                return Poll::Ready(Ok(head.response));
            }
        }
    }

    /// A handshake or an alert of any version begins so, and no HTTP does.
    fn answers_in_tls(&self) -> bool {
        !self.tls && matches!(self.inbox.held[..], [0x15 | 0x16, 0x03, ..])
    }

    /// The next bytes of the answer's body; `None` at its end. `idle` is the longest silence.
    pub(super) fn poll_data(
        &mut self,
        idle: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        let data = ready!(self.poll_taken(idle, cx));
        self.alarm.stop();
        if data.is_err() {
            self.end();
        }
        Poll::Ready(data.transpose())
    }

    fn poll_taken(
        &mut self,
        idle: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Broken>> {
        loop {
            let Some(end) = &mut self.answer else { return Poll::Ready(Ok(None)) };
            match end.take(&mut self.inbox.held).map_err(Broken::Malformed)? {
                Taken::Data(data) => return Poll::Ready(Ok(Some(data))),
                Taken::End => return Poll::Ready(Ok(None)),
                Taken::More => {}
            }
            // Before each read: a store that sends without a pause must not put off a takeover.
            if self.closer.poll_aborted(cx).is_ready() {
                return Poll::Ready(Err(Broken::Aborted));
            }
            let io = self.io.as_deref_mut().ok_or(Broken::Closed)?;
            match self.inbox.poll_fill(io, cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) if end.close() => return Poll::Ready(Ok(None)),
                Poll::Ready(Ok(false)) => return Poll::Ready(Err(Broken::Closed)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Broken::Io(error))),
                Poll::Pending => return self.alarm.poll(idle, cx).map(|()| Err(Broken::Late)),
            }
        }
    }

    fn check_abort(&self, cx: &mut Context<'_>) -> Result<(), Broken> {
        match self.closer.poll_aborted(cx) {
            Poll::Ready(()) => Err(Broken::Aborted),
            Poll::Pending => Ok(()),
        }
    }

    /// Resets the connection.
    pub(super) fn end(&mut self) {
        self.io = None;
        self.closer.abort();
        self.closer.mark_ended();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end();
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Unsent> for Broken {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::Io(error) => Self::Io(error),
            Unsent::Body(fault) => Self::Body(fault),
        }
    }
}

impl Broken {
    /// Whether the store took, or gave, nothing for too long: by our own clocks, or by
    /// TCP_USER_TIMEOUT.
    pub(super) fn is_late(&self) -> bool {
        match self {
            Self::Late => true,
            Self::Io(error) => error.kind() == TimedOut,
            Self::Closed
            | Self::Body(_)
            | Self::Malformed(_)
            | Self::Aborted
            | Self::AnswersInTls => false,
        }
    }

    /// What happened, in words.
    pub(super) fn explain(&self) -> String {
        match self {
            Self::Closed => {
                "the upstream closed the connection before its answer was whole".to_owned()
            }
            Self::Io(error) => tls::refused_later(error)
                .unwrap_or_else(|| format!("connection error: {}", chain(error))),
            Self::Body(fault) => fault.to_string(),
            Self::Malformed(malformed) => malformed.to_string(),
            Self::Late => "the upstream was silent for too long".to_owned(),
            Self::Aborted => "the connection was cut".to_owned(),
            Self::AnswersInTls => "the upstream answered in TLS; is it https?".to_owned(),
        }
    }
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
