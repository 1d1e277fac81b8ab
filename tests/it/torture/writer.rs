//! A writer: a process of its own, so that it can be stopped and killed wherever it is. It is handed a
//! lock, claims its key, and writes while it believes in its lease; a careless one goes on long after.
//!
//! Orders come line by line, `KEY TOKEN TRUST-MS ADDRESS`. It tells of each answer, one per
//! line, and says `done` behind an order's last.

use std::{
    env,
    io::{self, BufRead, Write as _},
    net::SocketAddr,
    time::{Duration, Instant},
};

use fastrand::Rng;

use super::{crew::Speaks, pause};
use crate::harness::{Client, Request, Response, claim, http2::Http2, now};

/// What it says where a field or an answer is missing.
pub const NONE: &str = "-";

/// The variable that makes this test a writer: its number, seed and protocol.
pub const ROLE: &str = "PALISADE_WRITER";

#[test]
#[ignore = "run in a process of its own by another test"]
fn writes() {
    let Ok(role) = env::var(ROLE) else { return };
    let words: Vec<_> = role.split(' ').collect();
    let [name, seed, speaks] = words[..] else { panic!("{role}") };
    let rng = Rng::with_seed(seed.parse().unwrap());
    let speaks = Speaks::named(speaks);
    let mut writer = Writer { name, rng, speaks, kept: None, http2: None, writes: 0 };
    tell("");
    for order in io::stdin().lock().lines() {
        writer.obey(&Order::read(&order.unwrap()));
        tell("done");
    }
}

/// At once, and past the test's own capture.
fn tell(line: &str) {
    let mut out = io::stdout();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

struct Order {
    key: String,
    token: String,
    trust: Duration,
    to: SocketAddr,
}

impl Order {
    fn read(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let [key, token, trust, to] = words[..] else { panic!("{line}") };
        Self {
            key: key.to_string(),
            token: token.to_string(),
            trust: Duration::from_millis(trust.parse().unwrap()),
            to: to.parse().unwrap(),
        }
    }
}

struct Writer<'a> {
    name: &'a str,
    rng: Rng,
    speaks: Speaks,
    kept: Option<Client>,
    http2: Option<Http2>,
    writes: u64,
}

impl Writer<'_> {
    /// Claims the key and writes, until the lease has run out as far as it knows, or it is told that
    /// another has the lock.
    fn obey(&mut self, order: &Order) {
        let start = now();
        if self.rng.u8(..4) > 0 && !self.claims(order, start) {
            return;
        }
        while start.elapsed() < order.trust {
            self.writes += 1;
            let id = format!("{}-{}", self.name, self.writes);
            let answer = self.write(order, &id);
            let told = answer.as_ref().map_or_else(|| NONE.to_string(), words);
            tell(&format!("write {} {} {id} {told}", order.key, order.token));
            if answer.is_some_and(|answer| answer.status() == 412) {
                return;
            }
            pause(Duration::from_millis(self.rng.u64(1..20)));
        }
    }

    /// Claims until it is let through; false where it never is.
    fn claims(&mut self, order: &Order, start: Instant) -> bool {
        let request = claim(&order.key, &order.token);
        while start.elapsed() < order.trust {
            let answer = self.ask(order.to, &request);
            let told = answer.as_ref().map_or_else(|| NONE.to_string(), words);
            tell(&format!("claim {} {} - {told}", order.key, order.token));
            match answer {
                Some(answer) if answer.is_success() || answer.result() == "claimed" => return true,
                Some(answer) if answer.status() == 412 => return false,
                _ => pause(Duration::from_millis(self.rng.u64(10..60))),
            }
        }
        false
    }

    /// A write that names itself, in a field and in its body.
    fn write(&mut self, order: &Order, id: &str) -> Option<Response> {
        let size = if self.rng.u8(..10) == 0 { self.rng.usize(..300_000) } else { 40 };
        let body = format!("{} {id} {}", order.token, "x".repeat(size));
        let method = if self.rng.u8(..8) == 0 { "POST" } else { "PUT" };
        let request = Request::new(method, &order.key).token(&order.token).field("Write-Id", id);
        let request = request.body(body);
        if self.speaks == Speaks::Http1 && self.rng.u8(..4) == 0 {
            return self.dawdle(order.to, &request);
        }
        self.ask(order.to, &request)
    }

    /// Sends a write in two parts, with time between them, and perhaps never the second, or never
    /// waits for the answer.
    fn dawdle(&mut self, to: SocketAddr, request: &Request) -> Option<Response> {
        let bytes = request.bytes();
        let head = request.head().len();
        let (first, second) = bytes.split_at(self.rng.usize(head..bytes.len()));
        let mut client = Client::try_connect(to).ok()?;
        client.try_send(first).ok()?;
        pause(Duration::from_millis(self.rng.u64(..250)));
        if self.rng.u8(..5) == 0 {
            return None;
        }
        // Where it is refused within, the answer is there all the same.
        let _ = client.try_send(second);
        if self.rng.u8(..5) == 0 { None } else { whole(&mut client) }
    }

    fn ask(&mut self, to: SocketAddr, request: &Request) -> Option<Response> {
        match self.speaks {
            Speaks::Http1 => {
                let mut client = Client::try_connect(to).ok()?;
                let _ = client.try_send(&request.bytes());
                whole(&mut client)
            }
            Speaks::Kept => {
                let kept = self.kept.take();
                let mut client = kept.or_else(|| Client::try_connect(to).ok())?;
                let _ = client.try_send(&request.bytes());
                let answer = whole(&mut client)?;
                let ends = answer.field("connection").is_some_and(|value| value == "close");
                self.kept = (!ends).then_some(client);
                Some(answer)
            }
            Speaks::Http2 => {
                let kept = self.http2.take();
                let client = kept.or_else(|| Http2::try_connect(to))?;
                let answer = client.start(request).try_response().filter(|answer| answer.whole)?;
                self.http2 = Some(client);
                Some(answer)
            }
        }
    }
}

/// An answer; one that was cut is none.
fn whole(client: &mut Client) -> Option<Response> {
    client.try_response().ok()?.filter(|answer| answer.whole)
}

/// Status, result and outcome.
fn words(answer: &Response) -> String {
    let or_none = |word: &str| if word.is_empty() { NONE } else { word }.to_string();
    format!("{} {} {}", answer.status(), or_none(answer.result()), or_none(answer.outcome()))
}
