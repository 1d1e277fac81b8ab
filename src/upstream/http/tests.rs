//! Over real sockets, against raw servers that follow a script.

mod body;
mod differential;
mod early;
mod exchange;
mod framing;
mod outbox;
mod places;
mod pool;
mod reading;
mod response;
mod script;
mod tls;
mod world;

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use http_body_util::Empty;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::TcpListener,
    sync::oneshot,
};

use super::{BodyLimits, Draft, HttpUpstream, Lease, Outgoing, Sent};
use crate::upstream::{Kind, Options, PartialBody};

const LIMITS: BodyLimits = BodyLimits { idle: Duration::from_secs(30), max: None };

/// More than any test takes.
const LATE: Duration = Duration::from_secs(30);

const NOTHING: Sent = Sent { any: false, whole: false };
const PART: Sent = Sent { any: true, whole: false };
const WHOLE: Sent = Sent { any: true, whole: true };

fn options(port: u16) -> Options {
    Options {
        name: "up".into(),
        kind: Kind::Http { host: "127.0.0.1".into(), port },
        connect_timeout: Duration::from_secs(30),
        response_timeout: Duration::from_secs(30),
        body_idle_timeout: Duration::from_secs(30),
        max_write_lifetime: Duration::from_secs(30),
        partial_body: PartialBody::Unknown,
        settled_statuses: Vec::new(),
        eof_is_end: false,
        pass_redirects: false,
        same_token_doubt_waits: false,
        pool_max_idle: 8,
        pool_idle_timeout: Duration::from_secs(30),
        tls: None,
        host: None,
    }
}

impl HttpUpstream {
    /// For rooms above: an upstream at a port of 127.0.0.1.
    pub(crate) fn at(port: u16) -> Self {
        Self::new(Arc::new(options(port)))
    }
}

/// A listening store, and us as its client.
async fn store() -> (TcpListener, HttpUpstream) {
    store_with(|_| {}).await
}

async fn store_with(change: impl FnOnce(&mut Options)) -> (TcpListener, HttpUpstream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = options(listener.local_addr().unwrap().port());
    change(&mut options);
    (listener, HttpUpstream::new(Arc::new(options)))
}

fn request(method: &str, body: Outgoing) -> Box<super::Request> {
    request_with(method, &[], body)
}

fn request_with(
    method: &str,
    fields: &[(HeaderName, &str)],
    body: Outgoing,
) -> Box<super::Request> {
    let mut draft = Draft::new(method.parse().unwrap(), "/k", body);
    draft.field(&header::HOST, &HeaderValue::from_static("a"));
    for (name, value) in fields {
        draft.field(name, &value.parse().unwrap());
    }
    draft.end(HeaderMap::new())
}

/// A client's request body as hyper's server gives it, and the client, who has sent `raw` so far.
async fn incoming(raw: &str) -> (Incoming, DuplexStream) {
    let (mut client, server) = tokio::io::duplex(1 << 20);
    client.write_all(raw.as_bytes()).await.unwrap();
    let (tx, rx) = oneshot::channel();
    tokio::spawn(async move {
        let tx = Mutex::new(Some(tx));
        let service = service_fn(|request: Request<Incoming>| {
            let _ = tx.lock().take().unwrap().send(request.into_body());
            std::future::pending::<Result<Response<Empty<Bytes>>, Infallible>>()
        });
        let _ = http1::Builder::new().serve_connection(TokioIo::new(server), service).await;
    });
    (rx.await.unwrap(), client)
}

/// The rest of a response's body.
async fn read_whole(lease: &mut Lease) -> String {
    let mut text = String::new();
    while let Some(data) = lease.data(LATE).await {
        text += std::str::from_utf8(&data.unwrap()).unwrap();
    }
    text
}

/// Reads up to and with `end`.
async fn read_until(stream: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        read.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(read).unwrap()
}
