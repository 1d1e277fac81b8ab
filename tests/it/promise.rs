//! The promise under late effects, lost answers and kill -9: the same scenarios against palisade,
//! which must keep it, and against the naive proxy, which must not.

use crate::harness::{
    Act, Backend, Client, Config, Latch, Request, Subject, claim, keeps_the_promise,
    kernel::queued_bytes, naive_breaks_the_promise, put, send, side_by_side, until,
};

/// A way in which the store or the network can deceive a proxy about a write.
struct Trouble {
    name: &'static str,
    /// What the backend does with the write; it takes effect behind the latch.
    acts: fn(&Latch) -> Vec<Act>,
    writer: Writer,
}

/// What the writer does.
#[derive(Clone, Copy, PartialEq)]
enum Writer {
    /// Sends its request and reads the answer before the next holder comes.
    IsAnswered,
    /// Sends its request; there is no answer yet when the next holder comes.
    Waits,
    /// Sends its request and hangs up.
    Leaves,
    /// Sends a part of its body, and reads an answer.
    SendsPart,
    /// Sends a part of its body and hangs up.
    LeavesWithinBody,
}

use Act::{Answer, ApplyLate, ApplyPart, Close, Read, ReadSome, Reset, Wait};
use Writer::{IsAnswered, Leaves, LeavesWithinBody, SendsPart, Waits};

const TROUBLES: [Trouble; 17] = [
    trouble("applies after the time-out", IsAnswered, |late| {
        vec![Read, late.wait_act(), ApplyLate]
    }),
    trouble("is slow to answer", Waits, |late| vec![Read, late.wait_act(), ApplyLate]),
    trouble("client left", Leaves, |late| vec![Read, late.wait_act(), ApplyLate]),
    trouble("resets", IsAnswered, |late| vec![Read, Reset, late.wait_act(), ApplyLate]),
    trouble("closes", IsAnswered, |late| vec![Read, Close, late.wait_act(), ApplyLate]),
    trouble("503", IsAnswered, |late| vec![Read, Answer(503), late.wait_act(), ApplyLate]),
    trouble("504", IsAnswered, |late| vec![Read, Answer(504), late.wait_act(), ApplyLate]),
    trouble("500", IsAnswered, |late| vec![Read, Answer(500), late.wait_act(), ApplyLate]),
    trouble("202", IsAnswered, |late| vec![Read, Answer(202), late.wait_act(), ApplyLate]),
    trouble("408", IsAnswered, |late| vec![Read, Answer(408), late.wait_act(), ApplyLate]),
    trouble("late end of a body with a length", Waits, |late| {
        let head = send("HTTP/1.1 200 OK\nContent-Length: 2\n\no");
        vec![Read, head, late.wait_act(), ApplyLate, send("k")]
    }),
    trouble("late end of a chunked body", Waits, |late| {
        let head = send("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\no\n");
        vec![Read, head, late.wait_act(), ApplyLate, send("0\n\n")]
    }),
    trouble("cut body", IsAnswered, |late| {
        let head = send("HTTP/1.1 200 OK\nContent-Length: 9\n\nok");
        vec![Read, head, Close, late.wait_act(), ApplyLate]
    }),
    trouble("unframed body", IsAnswered, |late| {
        vec![Read, send("HTTP/1.1 200 OK\n\nok"), Close, late.wait_act(), ApplyLate]
    }),
    trouble("early 403", SendsPart, |late| {
        vec![ReadSome(10), Answer(403), late.wait_act(), ApplyPart]
    }),
    trouble("early 200", SendsPart, |late| {
        vec![ReadSome(10), Answer(200), late.wait_act(), ApplyPart]
    }),
    trouble("client left within its body", LeavesWithinBody, |late| {
        vec![ReadSome(10), late.wait_act(), ApplyPart]
    }),
];

const fn trouble(name: &'static str, writer: Writer, acts: fn(&Latch) -> Vec<Act>) -> Trouble {
    Trouble { name, acts, writer }
}

impl Latch {
    fn wait_act(&self) -> Act {
        Wait(self.clone())
    }
}

/// An old write of token `old` meets trouble; the proxy is killed so many times; the holder of 6
/// comes; the old write takes effect; 6 goes on as soon as it may.
fn takeover(
    subject: &mut dyn Subject,
    backend: &Backend,
    trouble: &Trouble,
    old: &str,
    crashes: usize,
) {
    let late = Latch::new();
    backend.script(old, (trouble.acts)(&late));
    let writer = start_writer(subject, trouble.writer, old);
    backend.until_held(old);
    // Before a kill there is no waiting for an answer: the moment counts.
    let mut writer = Some(writer).filter(|_| !trouble.writer.leaves());
    if crashes == 0 && matches!(trouble.writer, IsAnswered | SendsPart) {
        writer.as_mut().unwrap().response();
    }
    for _ in 0..crashes {
        subject.kill9();
        subject.restart();
        put("/k", "6").send(subject.addr());
    }
    put("/k", "6").send(subject.addr());
    late.open();
    backend.until_settled(old);
    until_admitted(subject, "6");
    let stale = put("/k", old).send(subject.addr()).status();
    assert!([412, 428].contains(&stale), "the old token is stale now: {stale}");
}

impl Writer {
    fn leaves(self) -> bool {
        matches!(self, Leaves | LeavesWithinBody)
    }
}

fn start_writer(subject: &dyn Subject, writer: Writer, token: &str) -> Client {
    let whole = matches!(writer, IsAnswered | Waits | Leaves);
    let request = put("/k", token).body("0123456789, and the rest of it");
    if whole {
        return request.start(subject.addr());
    }
    let mut client = Client::connect(subject.addr());
    client.send(&request.head());
    client.send(b"0123456789");
    client
}

/// Retries a write until it is let through; meanwhile only a wait may be asked for.
fn until_admitted(subject: &dyn Subject, token: &str) {
    until(&format!("token {token} is let through"), || {
        let response = put("/k", token).send(subject.addr());
        assert!(response.is_success() || response.status() == 503, "{response:#?}");
        response.is_success()
    });
}

fn name(trouble: &Trouble) -> String {
    trouble.name.to_string()
}

fn as_it_is(config: Config) -> Config {
    config
}

fn sticky(config: Config) -> Config {
    config.set("token", "sticky")
}

#[test]
fn a_takeover_after_any_trouble() {
    side_by_side(&TROUBLES, name, |trouble| {
        keeps_the_promise(as_it_is, |subject, backend| takeover(subject, backend, trouble, "5", 0));
    });
}

#[test]
fn a_takeover_after_any_trouble_and_a_kill() {
    side_by_side(&TROUBLES, name, |trouble| {
        keeps_the_promise(as_it_is, |subject, backend| takeover(subject, backend, trouble, "5", 1));
    });
}

#[test]
fn a_takeover_after_any_trouble_and_two_kills() {
    side_by_side(&TROUBLES, name, |trouble| {
        keeps_the_promise(as_it_is, |subject, backend| takeover(subject, backend, trouble, "5", 2));
    });
}

#[test]
fn the_first_token_of_a_sticky_key_after_any_trouble() {
    side_by_side(&TROUBLES, name, |trouble| {
        keeps_the_promise(sticky, |subject, backend| takeover(subject, backend, trouble, "-", 0));
    });
}

#[test]
fn the_first_token_of_a_sticky_key_after_any_trouble_and_a_kill() {
    side_by_side(&TROUBLES, name, |trouble| {
        keeps_the_promise(sticky, |subject, backend| takeover(subject, backend, trouble, "-", 1));
    });
}

#[test]
fn the_naive_proxy_fails_each_of_them() {
    for (old, crashes) in [("5", 0), ("5", 1), ("5", 2), ("-", 0), ("-", 1)] {
        side_by_side(&TROUBLES, name, |trouble| {
            naive_breaks_the_promise(|subject, backend| {
                takeover(subject, backend, trouble, old, crashes);
            });
        });
    }
}

/// The store reads nothing; the whole request lies in the two kernels, most of it in the proxy's.
/// Long after the takeover the store reads on.
fn stalled_reader(subject: &mut dyn Subject, backend: &Backend, kill: bool) {
    const BODY: usize = 300_000;
    let reader = Latch::new();
    backend.stall_next_connection(&reader);
    let mut writer = put("/k", "5").body(vec![b'x'; BODY]).start(subject.addr());
    if kill {
        until("the request lies in the kernel", || queued_bytes(backend.addr()) > BODY as u64 + 40);
        subject.kill9();
        subject.restart();
    } else {
        // The time-out of the answer begins when the request lies in the kernel.
        writer.response().assert_status(504);
    }
    until_admitted(subject, "6");
    reader.open();
    backend.until_stall_ended();
}

/// The same with a small request: it lies in the store's own queue, where no reset takes it back.
fn stalled_reader_of_little(subject: &mut dyn Subject, backend: &Backend, kill: bool) {
    let reader = Latch::new();
    backend.stall_next_connection(&reader);
    backend.script("5", [Read, ApplyLate, Answer(201)]);
    let mut writer = put("/k", "5").start(subject.addr());
    if kill {
        until("the request lies in the kernel", || queued_bytes(backend.addr()) > 40);
        subject.kill9();
        subject.restart();
    } else {
        writer.response().assert_status(504);
    }
    put("/k", "6").send(subject.addr());
    reader.open();
    backend.until_stall_ended();
    until_admitted(subject, "6");
}

type Scenario = (&'static str, fn(&mut dyn Subject, &Backend));

const STALLS: [Scenario; 2] = [
    ("large, time-out", |subject, backend| stalled_reader(subject, backend, false)),
    ("small, time-out", |subject, backend| stalled_reader_of_little(subject, backend, false)),
];

const KILLS: [Scenario; 2] = [
    ("large, kill", |subject, backend| stalled_reader(subject, backend, true)),
    ("small, kill", |subject, backend| stalled_reader_of_little(subject, backend, true)),
];

/// A claim is answered; after it nothing lower takes effect.
fn claimed(subject: &mut dyn Subject, backend: &Backend, crashes: usize) {
    let late = Latch::new();
    backend.script("5", [Read, late.wait_act(), ApplyLate]);
    let _writer = put("/k", "5").start(subject.addr());
    backend.until_held("5");
    for _ in 0..crashes {
        subject.kill9();
        subject.restart();
    }
    try_claim(subject, backend);
    late.open();
    backend.until_settled("5");
    until("the claim is let through", || try_claim(subject, backend));
    until_admitted(subject, "6");
}

fn try_claim(subject: &dyn Subject, backend: &Backend) -> bool {
    let response = claim("/k", "6").send(subject.addr());
    if response.is_success() {
        backend.log().claimed("/k", "6");
    }
    response.is_success()
}

/// The new holder's first write is answered 503 and takes effect late, too: doubts of two tokens.
fn doubt_upon_doubt(subject: &mut dyn Subject, backend: &Backend) {
    let (first, second) = (Latch::new(), Latch::new());
    backend.script("5", [Read, Answer(503), first.wait_act(), ApplyLate]);
    backend.script("6", [Read, Answer(503), second.wait_act(), ApplyLate]);
    put("/k", "5").send(subject.addr()).assert_status(503);
    backend.until_held("5");
    until("6 reaches the store", || {
        let _ = put("/k", "6").send(subject.addr());
        backend.log().count("6") > 0 || {
            first.open();
            false
        }
    });
    put("/k", "7").send(subject.addr());
    first.open();
    second.open();
    backend.until_settled("6");
    until_admitted(subject, "7");
}

/// A chunked upload freezes in its middle; the store applies what it has, late.
fn frozen_upload(subject: &mut dyn Subject, backend: &Backend) {
    let late = Latch::new();
    backend.script("5", [ReadSome(10), late.wait_act(), ApplyPart]);
    let request = Request::new("PUT", "/k").token("5").field("Transfer-Encoding", "chunked");
    let mut writer = Client::connect(subject.addr());
    writer.send(&request.head());
    writer.send(b"20\r\n0123456789");
    backend.until_held("5");
    put("/k", "6").send(subject.addr());
    late.open();
    backend.until_settled("5");
    until_admitted(subject, "6");
}

const OTHERS: [Scenario; 4] = [
    ("claim", |subject, backend| claimed(subject, backend, 0)),
    ("claim after a kill", |subject, backend| claimed(subject, backend, 1)),
    ("doubt upon doubt", doubt_upon_doubt),
    ("frozen upload", frozen_upload),
];

#[test]
fn a_reader_that_stalled() {
    side_by_side(&STALLS, |case| case.0.to_string(), |case| keeps_the_promise(as_it_is, case.1));
}

#[test]
fn a_reader_that_stalled_and_a_kill() {
    // However slow the machine is, the kill comes before the time-out.
    let patient = |config: Config| config.upstream("response_timeout", "60s");
    side_by_side(&KILLS, |case| case.0.to_string(), |case| keeps_the_promise(patient, case.1));
}

#[test]
fn the_naive_proxy_fails_a_reader_that_stalled() {
    for cases in [&STALLS, &KILLS] {
        side_by_side(cases, |case| case.0.to_string(), |case| naive_breaks_the_promise(case.1));
    }
}

#[test]
fn a_claim_and_a_chain_of_doubts() {
    side_by_side(&OTHERS, |case| case.0.to_string(), |case| keeps_the_promise(as_it_is, case.1));
}

#[test]
fn the_naive_proxy_fails_a_claim_and_a_chain_of_doubts() {
    side_by_side(&OTHERS, |case| case.0.to_string(), |case| naive_breaks_the_promise(case.1));
}
