//! Frames that cost their sender little. None may cost anybody else much, or leave a write behind.

use super::assert_at_rest;
use crate::harness::{
    Backend, Palisade, endless,
    frames::{CANCEL, CONTINUATION, DATA, End, HEADERS, PING, Raw, SETTINGS},
    http2::Http2,
    kernel::peak_memory_kib,
    put,
};

/// Enough to show: each kind goes on until the connection is ended, or so often.
const MANY: usize = 5_000;

/// Several times what a palisade takes that serves little.
const MOST_MEMORY_KIB: u64 = 128 << 10;

type Flood = (&'static str, fn(&mut Raw, usize) -> std::io::Result<()>);

/// A flood's own name among the errors.
const ENHANCE_YOUR_CALM: u32 = 11;

/// A head's first frame: `POST /` without an end.
const BEGUN: &[u8] = b"\x83\x86\x84\x41\x01a";

/// A head whose fields go on and on.
fn endless_head(client: &mut Raw, n: usize) -> std::io::Result<()> {
    if n == 0 {
        return client.frame(HEADERS, 0, 1, BEGUN);
    }
    let field = [&b"\x00\x01x\x64"[..], &[b'y'; 100]].concat();
    client.frame(CONTINUATION, 0, 1, &field)
}

/// The same without even a field in them.
fn empty_head(client: &mut Raw, n: usize) -> std::io::Result<()> {
    if n == 0 {
        return client.frame(HEADERS, 0, 1, BEGUN);
    }
    client.frame(CONTINUATION, 0, 1, b"")
}

fn settings(client: &mut Raw, _: usize) -> std::io::Result<()> {
    client.frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff])
}

fn pings(client: &mut Raw, _: usize) -> std::io::Result<()> {
    client.frame(PING, 0, 0, &[0; 8])
}

/// Frames of no known kind.
fn strangers(client: &mut Raw, _: usize) -> std::io::Result<()> {
    client.frame(0x42, 0xff, 0, &[0; 64])
}

const FLOODS: [Flood; 5] = [
    ("CONTINUATION", endless_head),
    ("empty CONTINUATION", empty_head),
    ("SETTINGS", settings),
    ("PING", pings),
    ("unknown frames", strangers),
];

#[test]
fn frames_without_end_harm_nobody_else() {
    for (name, flood) in FLOODS {
        let backend = Backend::start();
        let palisade = Palisade::start(&endless(backend.addr()));
        let other = Http2::connect(palisade.addr());
        let mut client = Raw::connect(palisade.addr());
        let had_enough = (0..MANY).any(|n| {
            if n % 500 == 0 {
                other.send(&put("/other", "1")).assert_status(201);
            }
            flood(&mut client, n).is_err()
        });
        // A head is held until its end; the others are done with as they come.
        if name.contains("CONTINUATION") && !had_enough {
            let answer = client.answer(1);
            assert_eq!(answer.end, End::Connection(Some(ENHANCE_YOUR_CALM)), "{name}");
        }
        other.send(&put("/other", "1")).assert_status(201);
        drop(client);
        let arrivals = backend.log().arrivals();
        assert!(arrivals.iter().all(|arrival| arrival.key() == "/other"), "{name}");
        let peak = peak_memory_kib(palisade.pid());
        assert!(peak < MOST_MEMORY_KIB, "{name}: {peak} KiB");
        assert_at_rest(&palisade);
    }
}

/// Empty DATA is of a body and adds nothing to it: the write is in flight for as long as it goes on,
/// and no longer.
#[test]
fn a_body_of_empty_frames_has_an_end() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(backend.addr()).upstream("partial_body", "discarded"));
    let head = [
        (":method", "PUT"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/k"),
        ("fencing-token", "5"),
    ];
    let mut client = Raw::connect(palisade.addr());
    client.headers(1, &head, false);
    for _ in 0..MANY {
        if client.frame(DATA, 0, 1, b"").is_err() {
            break;
        }
    }
    let _ = client.reset(1, CANCEL);
    palisade.until_quiet();
    assert!(backend.log().effects("/k").is_empty());
    put("/k", "6").send(palisade.addr()).assert_status(201);
    assert_at_rest(&palisade);
}
