//! Runs cases against a palisade: what the client gets, what the store got, and what is left.

use std::{
    fmt::{Debug, Write as _},
    io::{BufReader, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use super::table::{Answer, Case, Stored, Table};
use crate::harness::{
    Backend, Config, Framing, Palisade, Request, log::Arrival, message::Head, put, wait::happens,
};

/// Behind each request, in the same write: it is a request of its own, or it is nothing.
const MARKER: &str = "GET /smug HTTP/1.1\r\nHost: a\r\n\r\n";

/// Answers that palisade does not count: the HTTP library's own.
const NOT_OURS: [&str; 2] = ["bare", "interim"];

/// How long a verdict is waited for; only a case that fails takes so long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a file's cases, one after the other, and fails with all that did not hold.
pub fn run(file: &str, adjust: impl FnOnce(Config) -> Config) {
    let mut world = World::start(adjust);
    let faults = Table::read(file).cases.iter().fold(String::new(), |mut faults, case| {
        if let Err(fault) = world.run(case) {
            let _ = writeln!(faults, "{} {}: {fault}", case.id, case.about);
        }
        faults
    });
    assert!(faults.is_empty(), "{file}:\n{faults}");
}

struct World {
    backend: Backend,
    palisade: Palisade,
    /// Requests that palisade must have counted.
    counted: f64,
    /// Arrivals at the store that are dealt with.
    dealt: usize,
}

impl World {
    fn start(adjust: impl FnOnce(Config) -> Config) -> Self {
        let backend = Backend::start();
        let config = Config::http(backend.addr())
            .server("workers", 1)
            .server("header_timeout", "1s")
            .upstream("max_write_lifetime", "1h")
            .upstream("body_idle_timeout", "1s");
        let palisade = Palisade::start(&adjust(config));
        let mut world = Self { backend, palisade, counted: 0.0, dealt: 0 };
        world.serves_others().unwrap();
        world
    }

    fn run(&mut self, case: &Case) -> Result<(), String> {
        for (target, token) in &case.marks {
            let marked = put(target, token).send(self.palisade.addr());
            self.counted += 1.0;
            same("the answer to a mark", &marked.status(), &201)?;
        }
        self.dealt = self.backend.log().arrivals().len();
        let connections = self.backend.connections();
        let told = self.exchange(case).and_then(|()| self.store_got(case));
        let told = told.and_then(|()| {
            let now = self.backend.connections();
            // Behind what was served there may be a connection more, but it was for that.
            let due = if case.served || !case.store.is_empty() { now } else { connections };
            same("connections to the store", &now, &due)
        });
        let own =
            case.gets.iter().filter(|answer| !NOT_OURS.contains(&answer.word.as_str())).count();
        self.counted += (own + usize::from(case.served)) as f64;
        told.and(self.nothing_left()).and(self.serves_others())
    }

    /// Sends the request and the marker in one write, and reads the answers to the end.
    fn exchange(&self, case: &Case) -> Result<(), String> {
        let mut stream = TcpStream::connect(self.palisade.addr()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Where the other side has closed, what was read shows it.
        let _ = stream.write_all(&[&case.send, MARKER.as_bytes()].concat());
        let mut from = BufReader::new(stream.try_clone().unwrap());
        let to_head = case.send.starts_with(b"HEAD ");
        for (n, expected) in case.gets.iter().enumerate() {
            let got = Got::read(&mut from, to_head && n == 0)?;
            got.fits(expected)?;
        }
        if case.served {
            let marker = Answer { status: 200, word: "read".to_string(), key: None };
            Got::read(&mut from, false)?.fits(&marker)?;
            let _ = stream.shutdown(Shutdown::Write);
        }
        let mut rest = Vec::new();
        match from.read_to_end(&mut rest) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                return Err(format!("the connection is not closed: {error}"));
            }
            _ => same("behind it", &String::from_utf8_lossy(&rest).as_ref(), &"")?,
        }
        Ok(())
    }

    fn store_got(&self, case: &Case) -> Result<(), String> {
        let marker = "GET /smug HTTP/1.1\r\nhost: a".into();
        let marker = Stored { head: marker, body: Vec::new(), cut: false };
        let expected = case.store.iter().chain(case.served.then_some(&marker));
        let expected: Vec<_> = expected.collect();
        let arrived = || self.backend.log().arrivals().split_off(self.dealt);
        let settled = |all: &[Arrival]| all.iter().all(|arrival| arrival.settled);
        let least = expected.iter().filter(|expected| !expected.cut).count();
        happens(PATIENCE, || arrived().len() >= least && settled(&arrived()));
        let arrived = arrived();
        // What was cut may have been cut before anything of it was sent.
        let expected: Vec<_> = match arrived.len() {
            n if n == least => expected.into_iter().filter(|expected| !expected.cut).collect(),
            _ => expected,
        };
        let lines = arrived.iter().map(|arrival| arrival.head.line.as_str());
        let lines: Vec<_> = lines.collect();
        same(&format!("requests at the store ({lines:?})"), &arrived.len(), &expected.len())?;
        let version = if find(&case.send, b" HTTP/1.0\r\n").is_some() { "1.0" } else { "1.1" };
        arrived.iter().zip(expected).try_for_each(|(arrival, expected)| {
            let cut = !arrival.whole && arrival.is_write();
            same("cut", &cut, &expected.cut)?;
            same_head(arrival, &expected.head, version)?;
            if expected.cut {
                return Ok(());
            }
            same("its body", &shown(&arrival.start), &shown(&expected.body))
        })
    }

    fn nothing_left(&mut self) -> Result<(), String> {
        for gauge in ["palisade_in_flight_writes", "palisade_waiting_writes"] {
            happens(PATIENCE, || self.palisade.metric(gauge) < 0.5);
            same(gauge, &self.palisade.metric(gauge), &0.0)?;
        }
        let counted = || self.palisade.metric("palisade_requests_total");
        happens(PATIENCE, || counted() > self.counted - 0.5);
        let (counted, expected) = (counted(), self.counted);
        self.counted = counted;
        same("requests counted", &counted, &expected)
    }

    fn serves_others(&mut self) -> Result<(), String> {
        let alive = Request::new("GET", "/alive").send(self.palisade.addr());
        self.counted += 1.0;
        self.dealt = self.backend.log().arrivals().len();
        same("another client's answer", &alive.status(), &200)
    }
}

fn same<T: Debug + PartialEq>(what: &str, got: &T, expected: &T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what}: {got:?}, not {expected:?}")) }
}

fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// Compares a head with the one that must have come and palisade's own fields. The lines must be
/// the same, byte by byte; their order is the HTTP library's.
fn same_head(arrival: &Arrival, expected: &[u8], version: &str) -> Result<(), String> {
    let field = |name| arrival.head.field(name).unwrap_or_default();
    let own = format!(
        "\r\nx-forwarded-for: 127.0.0.1\r\nx-forwarded-proto: http\r\nx-forwarded-host: {}\r\n\
         via: {version} palisade\r\nx-request-id: {}\r\n\r\n",
        field("host"),
        field("x-request-id"),
    );
    let expected = shown(&[expected, own.as_bytes()].concat());
    let got = shown(&arrival.head.raw);
    same("at the store", &sorted(&got), &sorted(&expected))
}

/// The lines of a head: the first, then the others in the order of letters.
fn sorted(head: &str) -> Vec<&str> {
    let mut lines: Vec<_> = head.split("\\r\\n").collect();
    lines[1..].sort_unstable();
    lines
}

/// An answer.
#[derive(Debug)]
struct Got {
    head: Head,
    body: Vec<u8>,
}

impl Got {
    fn read(from: &mut BufReader<TcpStream>, to_head: bool) -> Result<Self, String> {
        let head = Head::read(from).map_err(|error| format!("no answer: {error}"))?;
        let head = head.ok_or("closed without an answer")?;
        let bodiless = to_head || matches!(head.status(), 100..200 | 204 | 304);
        let framing = if bodiless { Framing::Length(0) } else { head.framing(false) };
        let mut body = Vec::new();
        let read = framing.read(from, &mut |bytes| body.extend_from_slice(bytes));
        read.map_err(|error| format!("{head:?} is cut: {error}"))?;
        Ok(Self { head, body })
    }

    /// Checks that it is the one that must come, and of a form that the contract knows.
    fn fits(&self, expected: &Answer) -> Result<(), String> {
        let document: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let problem = self.head.field("content-type") == Some("application/problem+json");
        let result = self.head.field("fencing-result");
        let word = match document["code"].as_str() {
            Some(code) if problem => code,
            _ if self.head.status() < 200 => "interim",
            _ if result.is_none() && self.body.is_empty() => "bare",
            _ => result.unwrap_or_default().split(';').next().unwrap_or_default(),
        };
        let got = (self.head.status(), word);
        same("the answer", &got, &(expected.status, expected.word.as_str()))?;
        if problem && !self.body.is_empty() {
            same("the type", &document["type"], &format!("urn:palisade:problem:{word}").into())?;
            same("the status in it", &document["status"], &expected.status.into())?;
        }
        match &expected.key {
            Some(key) => same("the key", &document["key"].as_str(), &Some(key)),
            None => Ok(()),
        }
    }
}
