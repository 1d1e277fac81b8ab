//! HTTP/1.1 by hand, as much of it as the story needs: one message, then the connection ends.

use std::{
    fmt::Write as _,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

/// No answer in the story takes so long.
const PATIENCE: Duration = Duration::from_secs(4);

/// Bytes of a line, and of a body.
const MOST: u64 = 64 * 1024;

const MOST_FIELDS: usize = 100;

/// A request or an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    /// `PUT /path HTTP/1.1` or `HTTP/1.1 200 OK`.
    pub(super) start: String,
    /// Names in lower case.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Message {
    pub(super) fn new(start: &str, body: &str) -> Self {
        let fields = vec![("connection".to_owned(), "close".to_owned())];
        Self { start: start.to_owned(), fields, body: body.as_bytes().to_vec() }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Its head, saying that a body of so many bytes follows.
    pub(super) fn head(&self, length: usize) -> String {
        let mut head = format!("{}\r\n", self.start);
        for (name, value) in self.fields.iter().filter(|(name, _)| name != "content-length") {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head + &format!("content-length: {length}\r\n\r\n")
    }

    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = self.head(self.body.len()).into_bytes();
        bytes.extend_from_slice(&self.body);
        to.write_all(&bytes)
    }

    /// Reads one; its body ends by its length, and without one there is none.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut message = Self { start: line(from)?, ..Self::default() };
        while message.fields.len() < MOST_FIELDS {
            let line = line(from)?;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            message.fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length: u64 = message.field("content-length").unwrap_or("0").parse().unwrap_or(0);
        from.take(length.min(MOST)).read_to_end(&mut message.body)?;
        if (message.body.len() as u64) < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(message)
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Its `fencing-...` fields.
    pub(super) fn fencing(&self) -> impl Iterator<Item = (String, Value)> {
        let fields = self.fields.iter().filter(|(name, _)| name.starts_with("fencing-"));
        fields.map(|(name, value)| (name.clone(), Value::from(value.as_str())))
    }

    /// Of an answer; 0 where it is none.
    pub(super) fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Of a refusal: why, from its problem document.
    pub(super) fn detail(&self) -> Option<String> {
        let document: Value = serde_json::from_slice(&self.body).ok()?;
        document["detail"].as_str().map(str::to_owned)
    }
}

/// A connection that gives up in the end.
pub(super) fn connect(to: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    patient(&stream)?;
    Ok(BufReader::new(stream))
}

/// Gives a connection the story's time-outs.
pub(super) fn patient(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

/// Sends a request on a connection of its own, and reads the answer.
pub(super) fn ask(to: SocketAddr, request: &Message) -> io::Result<Message> {
    let mut stream = connect(to)?;
    request.write(stream.get_mut())?;
    Message::read(&mut stream)
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.take(MOST).read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.trim_end_matches('\r').to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let sent = Message::new("PUT /k HTTP/1.1", "text").with("fencing-token", "5");
        let mut bytes = Vec::new();
        sent.write(&mut bytes).unwrap();
        let read = Message::read(&mut bytes.as_slice()).unwrap();
        assert_eq!((read.start.as_str(), read.text().as_str()), ("PUT /k HTTP/1.1", "text"));
        assert_eq!(read.field("fencing-token"), Some("5"));
        assert_eq!(read.field("content-length"), Some("4"));
        bytes.pop();
        assert!(Message::read(&mut bytes.as_slice()).is_err(), "a body that was cut");
        assert!(Message::read(&mut &b"HTTP/1.1 200 OK\r\n"[..]).is_err(), "a head that was cut");
    }

    #[test]
    fn an_answer_is_understood() {
        let text = "HTTP/1.1 412 Precondition Failed\r\nFencing-Result: stale-token\r\nDate: x\r\n\
                    Content-Length: 16\r\n\r\n{\"detail\":\"low\"}";
        let answer = Message::read(&mut text.as_bytes()).unwrap();
        assert_eq!((answer.status(), answer.detail().as_deref()), (412, Some("low")));
        let fields: Vec<_> = answer.fencing().collect();
        assert_eq!(fields, [("fencing-result".to_owned(), Value::from("stale-token"))]);
    }
}
