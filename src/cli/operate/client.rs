//! One question to an admin listener, within limits of size and time.

use std::{io, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode,
    header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::{net::TcpStream, runtime::Runtime, time::timeout};

use super::{
    Target, document,
    fault::{Fault, Refused},
};

/// From the first packet to a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// From a connection to the whole answer: a change waits for the store, which has ten seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of an answer: a page of a thousand keys has its room several times over.
const MAX_ANSWER: usize = 32 << 20;

/// Asks one listener. Each question has a connection of its own.
pub(super) struct Client {
    target: Target,
    runtime: Runtime,
}

/// A document that the listener answered with.
pub(super) struct Answer {
    pub(super) body: String,
}

impl Client {
    pub(super) fn new(target: Target) -> Result<Self, Fault> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Fault::failed(format!("cannot start: {error}"), ""))?;
        Ok(Self { target, runtime })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn get(&self, path: &str) -> Result<Answer, Fault> {
        self.ask(Method::GET, path, String::new())
    }

    /// A change: first it is made sure that this is an admin listener.
    pub(super) fn post(&self, path: &str, document: String) -> Result<Answer, Fault> {
        self.get("/v1/status")?.read::<document::Status>()?;
        self.ask(Method::POST, path, document)
    }

    fn ask(&self, method: Method, path: &str, body: String) -> Result<Answer, Fault> {
        self.runtime.block_on(async {
            let stream = self.connect().await?;
            let request = self.request(&stream, method, path, body)?;
            match timeout(ANSWER_TIMEOUT, exchange(stream, request)).await {
                Ok(answer) => answer,
                Err(_) => Err(Fault::Silent),
            }
        })
    }

    async fn connect(&self) -> Result<TcpStream, Fault> {
        let connecting = TcpStream::connect((self.target.host.as_str(), self.target.port));
        match timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(connected) => connected.map_err(Fault::Unreachable),
            Err(_) => Err(Fault::Unreachable(io::ErrorKind::TimedOut.into())),
        }
    }

    fn request(
        &self,
        stream: &TcpStream,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Request<Full<Bytes>>, Fault> {
        // The address, not the name: the listener takes no name that others could own.
        let address = stream.peer_addr().map_err(Fault::Unreachable)?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, address.to_string())
            .header(CONNECTION, "close");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.target.token {
            let bearer = HeaderValue::try_from(format!("Bearer {}", token.secret));
            let mut bearer = bearer.map_err(|error| Fault::failed(error.to_string(), ""))?;
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        let request = request.body(Full::new(Bytes::from(body)));
        request.map_err(|error| Fault::failed(error.to_string(), ""))
    }
}

impl Answer {
    /// Reads it as a document of a known form.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        serde_json::from_str(&self.body).map_err(|error| Fault::NotOurs(error.to_string()))
    }
}

async fn exchange(stream: TcpStream, request: Request<Full<Bytes>>) -> Result<Answer, Fault> {
    let broken = |error: hyper::Error| Fault::NotOurs(error.to_string());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(broken)?;
    let (head, body) = response.into_parts();
    let is_proxy = head.headers.contains_key("fencing-result");
    let is_json = is_json(&head.headers);
    let collected = Limited::new(body, MAX_ANSWER).collect().await;
    let bytes = collected.map_err(|error| Fault::NotOurs(error.to_string()))?.to_bytes();
    if is_proxy || head.headers.contains_key("x-request-id") {
        return Err(if is_proxy { Fault::Proxy } else { Fault::not_ours(head.status) });
    }
    let body = String::from_utf8(bytes.to_vec()).map_err(|_| Fault::not_ours(head.status))?;
    match head.status {
        _ if !is_json => Err(Fault::not_ours(head.status)),
        StatusCode::OK => Ok(Answer { body }),
        status => Err(match Refused::read(body) {
            Some(refused) => Fault::Refused(refused),
            None => Fault::not_ours(status),
        }),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media.is_some_and(|media| ["application/json", "application/problem+json"].contains(&media))
}
