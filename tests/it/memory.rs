//! Many keys under a small cache: memory stays bounded, and what was put out of it is not forgotten.

use std::thread;

use crate::harness::{Backend, Client, Config, Palisade, Response, kernel::peak_memory_kib, put};

const KEYS: usize = 20_000;
const CLIENTS: usize = 16;
/// The program, and the page caches of the store's connections, whose sizes are fixed.
const PEAK_KIB: u64 = 128 << 10;

/// Long, so that keys that stay in memory show.
fn key(n: usize) -> String {
    format!("/{n}-{}", "k".repeat(900))
}

/// A write of each key with this token, on a few connections; `check` judges each answer.
fn write_all(
    palisade: &Palisade,
    keys: std::ops::Range<usize>,
    token: &str,
    check: impl Fn(&Response) + Sync,
) {
    let (check, keys, addr) = (&check, &keys, palisade.addr());
    thread::scope(|scope| {
        for first in 0..CLIENTS {
            scope.spawn(move || {
                let mut client = Client::connect(addr);
                for n in keys.clone().skip(first).step_by(CLIENTS) {
                    // No body, so that a refusal keeps the connection.
                    client.send(&put(&key(n), token).body("").bytes());
                    check(&client.response());
                }
            });
        }
    });
}

#[test]
fn many_keys_in_bounded_memory() {
    let backend = Backend::start();
    let config = Config::http(backend.addr())
        .store("cache", "1MiB")
        // Of many raises at once the last may wait for more than one sync.
        .set("drain_timeout", "60s");
    let mut palisade = Palisade::start(&config);
    let written = |response: &Response| {
        response.assert_status(201);
    };
    write_all(&palisade, 0..KEYS, "5", written);
    let refused = |response: &Response| {
        response.assert_refused(412, "stale-token");
        assert_eq!(response.field("fencing-highest"), Some("5"));
    };
    write_all(&palisade, 0..KEYS, "4", refused);
    // The gauge is renewed every second, and the last key was new many seconds ago.
    let kept = palisade.metric("palisade_keys");
    assert!((100.0..1100.0).contains(&kept), "{kept} keys of more than 900 bytes in 1 MiB");
    let peak = peak_memory_kib(palisade.pid());
    assert!(peak < PEAK_KIB, "{peak} KiB");
    assert_eq!(backend.log().count("5"), KEYS);
    assert_eq!(backend.log().count("4"), 0);
    // A key that was put out and comes back is the same key.
    write_all(&palisade, 0..100, "6", written);
    write_all(&palisade, 0..100, "5", |response| response.assert_refused(412, "stale-token"));
    assert_eq!(palisade.sigterm_and_wait().code(), Some(0));
}
