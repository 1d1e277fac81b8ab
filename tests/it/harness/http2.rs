//! HTTP/2 by hyper's client: whole requests.

use std::{
    future::{Future, pending},
    net::SocketAddr,
    sync::{OnceLock, mpsc},
    thread,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::{Builder, Handle},
};

use super::{
    client::{Request, Response},
    message::Head,
    wait::DEADLINE,
};

/// Where the test process's asynchronous clients and stores run.
pub fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        thread::spawn(move || runtime.block_on(pending::<()>()));
        handle
    })
}

fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    runtime().spawn(async move { sender.send(future.await) });
    receiver
}

/// A connection of hyper's client.
pub struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    scheme: &'static str,
}

/// An answer that is still to come.
pub struct Pending(mpsc::Receiver<hyper::Result<Response>>);

impl Http2 {
    /// With prior knowledge, over TCP.
    pub fn connect(to: SocketAddr) -> Self {
        Self::over("http", async move { tokio::net::TcpStream::connect(to).await.unwrap() })
    }

    /// The same where nobody may be listening.
    pub fn try_connect(to: SocketAddr) -> Option<Self> {
        let connected = spawn(async move {
            let stream = tokio::net::TcpStream::connect(to).await.ok()?;
            let io = TokioIo::new(stream);
            let (sender, connection) = handshake(TokioExecutor::new(), io).await.ok()?;
            tokio::spawn(connection);
            Some(sender)
        });
        let sender = connected.recv_timeout(DEADLINE).ok()??;
        Some(Self { sender, scheme: "http" })
    }

    /// Over another connection.
    pub fn over<T>(scheme: &'static str, io: impl Future<Output = T> + Send + 'static) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let connected = spawn(async move {
            let io = TokioIo::new(io.await);
            let (sender, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            sender
        });
        Self { sender: connected.recv_timeout(DEADLINE).expect("a connection"), scheme }
    }

    /// Sends a request on a stream of its own.
    pub fn start(&self, request: &Request) -> Pending {
        let (mut sender, request) = (self.sender.clone(), self.convert(request));
        Pending(spawn(async move {
            let (parts, mut body) = sender.send_request(request).await?.into_parts();
            let line = format!("HTTP/2 {}", parts.status);
            let text = |value: &http::HeaderValue| value.to_str().unwrap().to_string();
            let mut head = Head { line, fields: Vec::new(), raw: Vec::new() };
            head.fields.extend(parts.headers.iter().map(|(n, v)| (n.to_string(), text(v))));
            let (mut bytes, mut whole) = (Vec::new(), true);
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else {
                    whole = false;
                    break;
                };
                match frame.into_data() {
                    Ok(data) => bytes.extend_from_slice(&data),
                    Err(other) => {
                        let trailers = other.into_trailers().unwrap_or_default();
                        head.fields.extend(trailers.iter().map(|(n, v)| (n.to_string(), text(v))));
                    }
                }
            }
            Ok(Response { head, body: bytes, whole, interim: Vec::new() })
        }))
    }

    /// Sends a request and reads its answer.
    pub fn send(&self, request: &Request) -> Response {
        self.start(request).response()
    }

    fn convert(&self, request: &Request) -> http::Request<Full<Bytes>> {
        let (host, fields) = request.fields.split_first().unwrap();
        let uri = format!("{}://{}{}", self.scheme, host.1, request.target);
        let mut built = http::Request::builder().method(request.method.as_str()).uri(uri);
        for (name, value) in fields {
            built = built.header(name, value);
        }
        built.body(Full::new(request.body.clone().unwrap_or_default().into())).unwrap()
    }
}

impl Pending {
    /// Waits for it; fails the test where there is none.
    pub fn response(self) -> Response {
        self.0.recv_timeout(DEADLINE * 2).expect("an answer in time").expect("an answer")
    }

    /// The same where there may be none.
    pub fn try_response(self) -> Option<Response> {
        self.0.recv_timeout(DEADLINE).ok()?.ok()
    }
}
