//! The admin listener over real sockets, with a control that is made up.

mod changes;
mod fake;
mod guards;
mod limits;
mod lists;
mod reads;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread::JoinHandle,
};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Admin, Control, Options, spawn};
use crate::metrics::Metrics;
use fake::Fake;

/// A running listener; stopped on drop.
struct Running {
    at: SocketAddr,
    fake: Arc<Fake>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Self {
        Self::with_token(None)
    }

    fn with_token(token: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let options = Options { listen: at, token: token.map(str::to_owned) };
        let (fake, metrics) = (Arc::new(Fake::default()), Metrics::new(&["/{*object}".into()]));
        let control: Arc<dyn Control> = Arc::<Fake>::clone(&fake);
        let admin = Admin::new(options, control, Arc::clone(&metrics));
        let stop = CancellationToken::new();
        let thread = Some(spawn(listener, admin, stop.clone()).unwrap());
        Self { at, fake, metrics, stop, thread }
    }

    /// Sends bytes and reads to the connection's end.
    fn raw(&self, request: &str) -> Reply {
        let mut stream = TcpStream::connect(self.at).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        Reply::read(stream)
    }

    fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.send(method, path, fields, "")
    }

    /// A well-formed change.
    fn post(&self, path: &str, body: &str) -> Reply {
        self.send("POST", path, &[("Content-Type", "application/json")], body)
    }

    /// A request with a Host that names the listener unless `fields` has one.
    fn send(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Reply {
        let host = (!fields.iter().any(|(name, _)| *name == "Host")).then(|| self.at.to_string());
        let length = (!body.is_empty()).then(|| body.len().to_string());
        let own = [Some(("Connection", "close")), host.as_deref().map(|host| ("Host", host))];
        let length = length.as_deref().map(|length| ("Content-Length", length));
        let fields = own.into_iter().chain([length]).flatten().chain(fields.iter().copied());
        let lines: Vec<_> = fields.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("{method} {path} HTTP/1.1\r\n{}", lines.concat());
        self.raw(&(head + "\r\n" + body))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))));
    }
}

/// What came back.
#[derive(Debug)]
struct Reply {
    status: u16,
    fields: Vec<(String, String)>,
    body: String,
}

impl Reply {
    fn read(mut stream: TcpStream) -> Self {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let fields = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Self { status, fields, body: body.to_owned() }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts a problem document through and through.
    fn refuses(&self, status: u16, code: &str) -> Value {
        let document = self.json();
        assert_eq!((self.status, document["code"].as_str()), (status, Some(code)), "{self:?}");
        assert_eq!(self.field("content-type"), Some("application/problem+json"));
        assert_eq!(document["type"], format!("urn:palisade:problem:{code}"));
        assert_eq!(document["status"], status);
        for member in ["title", "detail"] {
            assert!(document[member].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        }
        document
    }
}
