//! The two writers, and what becomes of their writes.
//!
//! Nothing is staged but the pauses: each answer is what came over the socket, and each file is read
//! from the store past the proxy. Who has the lock is the story's own word, as a lock service's is.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    event::{Kind, Who},
    naive::Naive,
    stage::Stage,
    teller::Teller,
    wire::{Message, ask, connect, patient},
};

const PATH: &str = "/reports/july.txt";

/// Long enough to be seen.
const PAUSE: Duration = Duration::from_millis(1200);
const SHORT_PAUSE: Duration = Duration::from_millis(500);

/// Whether the store has what the lock's last holder wrote, and the stale writes were refused.
pub(super) fn through_palisade(teller: &Teller) -> Result<bool, String> {
    let stage = Stage::set()?;
    Ok(asleep(teller, &stage)? & in_flight(teller, &stage)?)
}

/// A pauses between two writes.
fn asleep(teller: &Teller, stage: &Stage) -> Result<bool, String> {
    let words = format!(
        "A real palisade (process {}, http://{}) in front of its own file store. Writers send the \
         number of their lock grant, the fencing token, with each write.",
        stage.process_id(),
        stage.address
    );
    teller.tell(Who::Nobody, Kind::Scene { title: "1. A writer that sleeps".to_owned(), words });
    let a = Writer { who: Who::A, token: 5, to: stage.address, teller };
    let b = Writer { who: Who::B, token: 6, ..a };
    a.granted();
    let first = "draft, by A";
    a.put(first)?.must_be(&[201])?;
    show(teller, &stage.file(PATH), first);
    teller.says(Who::A, "falls asleep: a long garbage collection, a laptop's lid");
    teller.pause(PAUSE)?;
    teller.says(Who::Nobody, "A's lock runs out, and A does not know");
    b.granted();
    teller.says(Who::B, "claims first: no older write may take effect once this is answered");
    b.claim()?.must_be(&[200])?;
    let last = "final, by B";
    b.put(last)?.must_be(&[204])?;
    teller.pause(SHORT_PAUSE)?;
    teller.says(Who::A, "wakes up, thinks that it has the lock, and writes on");
    let late = a.put("late, by A")?;
    let file = stage.file(PATH);
    show(teller, &file, last);
    Ok(late.0.status() == 412 && file == last)
}

/// A pauses in the middle of a write.
fn in_flight(teller: &Teller, stage: &Stage) -> Result<bool, String> {
    let words =
        "The harder case. A's write was admitted while A had the lock, and is still on its \
                 way when B comes: checking tokens cannot help any more."
            .to_owned();
    let title = "2. A write that is already under way".to_owned();
    teller.tell(Who::Nobody, Kind::Scene { title, words });
    let a = Writer { who: Who::A, token: 7, to: stage.address, teller };
    let b = Writer { who: Who::B, token: 8, ..a };
    a.granted();
    let text = "annex, by A, a long one";
    let (half, rest) = text.split_at(text.len() / 2);
    let upload = a.begin(text, half)?;
    teller.says(Who::A, "has sent a half of it, and falls asleep");
    teller.pause(SHORT_PAUSE)?;
    teller.says(Who::Nobody, "A's lock runs out, and A does not know");
    b.granted();
    b.tell("GET", true, "");
    teller.says(Who::B, "has to wait: A's write is still in flight");
    let began = Instant::now();
    let claimed = b.ask("GET", true, "").map_err(failed)?;
    let waited = Some(began.elapsed());
    teller.tell(Who::B, Kind::Answer { answer: claimed.clone(), waited });
    Answer(claimed).must_be(&[200])?;
    let last = "annex, by B";
    b.put(last)?.must_be(&[204])?;
    teller.pause(SHORT_PAUSE)?;
    teller.says(Who::A, "wakes up, and would send the rest");
    let late = wake(upload, rest).map_err(failed)?;
    teller.tell(Who::A, Kind::Answer { answer: late.clone(), waited: None });
    let file = stage.file(PATH);
    show(teller, &file, last);
    Ok(late.status() == 409 && file == last)
}

/// What A finds: the answer to a write that was cut, or else what becomes of the rest.
fn wake(mut upload: BufReader<TcpStream>, rest: &str) -> io::Result<Message> {
    upload.get_ref().set_read_timeout(Some(SHORT_PAUSE))?;
    if upload.fill_buf().is_err() {
        upload.get_mut().write_all(rest.as_bytes())?;
    }
    patient(upload.get_ref())?;
    Message::read(&mut upload)
}

/// Whether the stale write won, as it should there.
pub(super) fn through_a_naive_proxy(teller: &Teller) -> Result<bool, String> {
    let naive = Naive::start().map_err(failed)?;
    let text = "What most people build: a proxy that remembers the highest token, compares, and \
                forwards. Its store happens to be slow with one write.";
    let title = "3. The same, with a proxy that only checks and forwards".to_owned();
    teller.tell(Who::Nobody, Kind::Scene { title, words: text.to_owned() });
    let a = Writer { who: Who::A, token: 5, to: naive.address(), teller };
    let b = Writer { who: Who::B, token: 6, ..a };
    a.granted();
    let (stale, last) = ("draft, by A", "final, by B");
    a.tell("PUT", false, stale);
    let first = thread::scope(|scope| {
        let first = scope.spawn(move || a.ask("PUT", false, stale));
        let overtaken = overtake(teller, &naive, (&a, &b), last);
        naive.finish();
        let first = first.join().map_err(|_| "A's write broke off")?;
        overtaken?;
        first.map_err(failed)
    })?;
    teller.says(Who::Store, "finishes what it had: A's first write");
    teller.tell(Who::A, Kind::Answer { answer: first.clone(), waited: None });
    let file = naive.file();
    show(teller, &file, last);
    Ok(first.status() == 200 && file == stale)
}

/// B writes while the store has A's write, which was checked when A had the lock.
fn overtake(
    teller: &Teller,
    naive: &Naive,
    (a, b): (&Writer<'_>, &Writer<'_>),
    last: &str,
) -> Result<(), String> {
    if !naive.until_held() {
        return Err("the store never got A's write".to_owned());
    }
    teller.says(Who::Store, "5 was checked and let through; the store has it, and is slow");
    teller.pause(SHORT_PAUSE)?;
    teller.says(Who::Nobody, "A's lock runs out, and A does not know");
    b.granted();
    b.put(last)?.must_be(&[200])?;
    show(teller, &naive.file(), last);
    teller.says(Who::A, "writes once more: the check works, but it comes too late");
    a.put("late, by A")?.must_be(&[412])?;
    teller.pause(SHORT_PAUSE)
}

/// One of the two, with the token that it was granted.
#[derive(Clone, Copy)]
struct Writer<'t> {
    who: Who,
    token: u64,
    to: SocketAddr,
    teller: &'t Teller,
}

impl Writer<'_> {
    fn granted(&self) {
        self.teller.tell(self.who, Kind::Granted { token: self.token });
    }

    fn put(&self, body: &str) -> Result<Answer, String> {
        self.told("PUT", false, body)
    }

    fn claim(&self) -> Result<Answer, String> {
        self.told("GET", true, "")
    }

    /// Sends a request, and tells it and its answer.
    fn told(&self, method: &'static str, claim: bool, body: &str) -> Result<Answer, String> {
        self.tell(method, claim, body);
        let answer = self.ask(method, claim, body).map_err(failed)?;
        self.teller.tell(self.who, Kind::Answer { answer: answer.clone(), waited: None });
        Ok(Answer(answer))
    }

    fn tell(&self, method: &'static str, claim: bool, body: &str) {
        let (token, body) = (self.token, body.to_owned());
        self.teller.tell(self.who, Kind::Request { method, path: PATH, token, claim, body });
    }

    fn ask(&self, method: &str, claim: bool, body: &str) -> io::Result<Message> {
        ask(self.to, &self.request(method, claim, body))
    }

    fn request(&self, method: &str, claim: bool, body: &str) -> Message {
        let request = Message::new(&format!("{method} {PATH} HTTP/1.1"), body)
            .with("host", &self.to.to_string())
            .with("fencing-token", &self.token.to_string());
        if claim { request.with("fencing-claim", "true") } else { request }
    }

    /// Sends the head and the body's first bytes, once the proxy has let the write in and asks for
    /// the body (`100 Continue`).
    fn begin(&self, body: &str, first: &str) -> Result<BufReader<TcpStream>, String> {
        self.tell("PUT", false, body);
        let request = self.request("PUT", false, "").with("expect", "100-continue");
        let begun = || -> io::Result<(BufReader<TcpStream>, Message)> {
            let mut stream = connect(self.to)?;
            stream.get_mut().write_all(request.head(body.len()).as_bytes())?;
            let answer = Message::read(&mut stream)?;
            stream.get_mut().write_all(first.as_bytes())?;
            Ok((stream, answer))
        };
        let (stream, answer) = begun().map_err(failed)?;
        Answer(answer).must_be(&[100])?;
        Ok(stream)
    }
}

/// An answer that the story has an idea of.
struct Answer(Message);

impl Answer {
    /// Where the story cannot go on, it says so: that is no verdict.
    fn must_be(&self, statuses: &[u16]) -> Result<(), String> {
        if statuses.contains(&self.0.status()) {
            return Ok(());
        }
        Err(format!("unexpected answer: {} {}", self.0.start, self.0.text().trim_end()))
    }
}

fn show(teller: &Teller, content: &str, wanted: &str) {
    let (content, right) = (content.to_owned(), content == wanted);
    teller.tell(Who::Store, Kind::File { content, right });
}

fn failed(error: impl std::fmt::Display) -> String {
    format!("a connection of the story failed: {error}")
}
