//! A raw HTTP/1.1 client: bytes in, a parsed answer out, nothing done that was not asked for.

use std::{
    fmt::Write as _,
    io::{self, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
};

use super::{
    message::{Framing, Head},
    wait::DEADLINE,
};

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Response {
    pub head: Head,
    pub body: Vec<u8>,
    /// The body ended as its head said.
    pub whole: bool,
    /// The 1xx answers before it.
    pub interim: Vec<u16>,
}

impl Response {
    pub fn status(&self) -> u16 {
        self.head.status()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    /// `Fencing-Result`, without its parameters.
    pub fn result(&self) -> &str {
        let value = self.field("fencing-result").unwrap_or_default();
        value.split(';').next().unwrap_or_default()
    }

    pub fn outcome(&self) -> &str {
        self.field("fencing-outcome").unwrap_or_default()
    }

    /// A member of the problem document, or of any JSON object, as text; empty where there is none.
    pub fn member(&self, name: &str) -> String {
        let document: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let member = &document[name];
        match member.as_str() {
            Some(text) => text.to_string(),
            None if member.is_null() => String::new(),
            None => member.to_string(),
        }
    }

    /// Checks a refusal against the contract: status, document, and `Fencing-Result` if fenced.
    pub fn assert_refused(&self, status: u16, code: &str) {
        assert_eq!((self.status(), self.member("code").as_str()), (status, code), "{self:#?}");
        self.assert_problem();
    }

    /// Checks that it is one of ours: a problem document of a known form.
    pub fn assert_problem(&self) {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:#?}");
        assert_eq!(self.member("status"), self.status().to_string(), "{self:#?}");
        let code = self.member("code");
        assert_eq!(self.member("type"), format!("urn:palisade:problem:{code}"), "{self:#?}");
        assert!(!self.member("title").is_empty() && !self.member("detail").is_empty(), "{self:#?}");
    }

    pub fn assert_status(&self, status: u16) -> &Self {
        assert_eq!(self.status(), status, "{}: {self:#?}", String::from_utf8_lossy(&self.body));
        self
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status())
    }
}

/// A request in the making.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) method: String,
    pub(super) target: String,
    /// Host is the first.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Option<Vec<u8>>,
}

impl Request {
    pub fn new(method: &str, target: &str) -> Self {
        let fields = vec![("Host".to_string(), "a".to_string())];
        Self { method: method.to_string(), target: target.to_string(), fields, body: None }
    }

    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_string(), value.to_string()));
        self
    }

    /// Another Host than "a".
    pub fn host(mut self, host: &str) -> Self {
        self.fields[0].1 = host.to_string();
        self
    }

    pub fn token(self, token: &str) -> Self {
        if token == "-" { self } else { self.field("Fencing-Token", token) }
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Only the head, with whatever length it names.
    pub fn head(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.fields {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        if let Some(body) = &self.body {
            let _ = write!(text, "Content-Length: {}\r\n", body.len());
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }

    /// Sends it on a connection of its own; the answer is read later.
    pub fn start(&self, to: SocketAddr) -> Client {
        let mut client = Client::connect(to);
        client.expect_head = self.method == "HEAD";
        client.send(&self.bytes());
        client
    }

    /// The same to what may be gone: `None` where there is no answer.
    pub fn try_send(&self, to: SocketAddr) -> Option<Response> {
        let mut client = Client::try_connect(to).ok()?;
        client.try_send(&self.bytes()).ok()?;
        client.try_response().ok()?
    }

    /// Sends it on a connection of its own and reads the answer.
    pub fn send(&self, to: SocketAddr) -> Response {
        self.start(to).response()
    }
}

/// A small PUT.
pub fn put(target: &str, token: &str) -> Request {
    Request::new("PUT", target).token(token).body("payload")
}

/// A claim.
pub fn claim(target: &str, token: &str) -> Request {
    Request::new("GET", target).token(token).field("Fencing-Claim", "true")
}

/// A connection.
pub struct Client {
    stream: TcpStream,
    from: BufReader<TcpStream>,
    expect_head: bool,
}

impl Client {
    pub fn connect(to: SocketAddr) -> Self {
        Self::try_connect(to).unwrap()
    }

    /// The same where nobody may be listening.
    pub fn try_connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let from = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, from, expect_head: false })
    }

    /// For what takes long on a slow machine.
    pub fn wait_long(&self) {
        self.stream.set_read_timeout(Some(DEADLINE * 15)).unwrap();
    }

    /// Writes; fails the test where the other side has closed.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Ends our side of the connection, if it is still open: nothing more will come.
    pub fn half_close_if_open(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends our side of the connection.
    pub fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// The underlying stream, for a second thread.
    pub fn stream(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    /// The next answer to its end; fails the test where there is none.
    pub fn response(&mut self) -> Response {
        self.try_response().expect("an answer").expect("an answer before the connection's end")
    }

    /// The next answer; `None` where the connection ends before it.
    pub fn try_response(&mut self) -> io::Result<Option<Response>> {
        let mut interim = Vec::new();
        loop {
            let Some(head) = Head::read(&mut self.from)? else { return Ok(None) };
            if (100..200).contains(&head.status()) {
                interim.push(head.status());
                continue;
            }
            let mut body = Vec::new();
            let framing = self.framing(&head);
            let whole = framing.read(&mut self.from, &mut |bytes| body.extend_from_slice(bytes));
            return Ok(Some(Response { head, body, whole: whole.is_ok(), interim }));
        }
    }

    /// Only the next head, a 1xx too.
    pub fn head(&mut self) -> Head {
        Head::read(&mut self.from).expect("a head").expect("a head before the connection's end")
    }

    /// Reads body bytes, at most so many; 0 at the end, an error where it was cut.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.from.read(into)
    }

    /// Waits for the connection's end, whatever comes before it.
    pub fn until_closed(&mut self) {
        let mut rest = [0; 4096];
        loop {
            match self.from.read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return,
                Err(error) => panic!("the connection was not closed: {error}"),
            }
        }
    }

    fn framing(&self, head: &Head) -> Framing {
        if self.expect_head || matches!(head.status(), 204 | 304) {
            Framing::Length(0)
        } else {
            head.framing(false)
        }
    }
}
