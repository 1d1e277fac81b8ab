//! What the rooms around the rule cost: the gate, the store's disk, a target, a refusal.
//!
//! `cargo bench --bench rooms`. The gate is asked over a store in memory, so that its figures have no
//! disk in them; the store's own are a temporary directory's, of whatever disk that lies on.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark fails by a panic")]

use std::{
    future::Future,
    hint::black_box,
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Waker},
    time::Duration,
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use palisade::{
    fence::{Key, Mark, Outcome, Token, UpstreamId},
    gate::{Admitted, Ask, Denied, Gate, Mode, Policy, RealmOptions, Takeover},
    metrics::Metrics,
    proxy::{
        refusal::{self, Refusal, WriteOutcome},
        target::Target,
    },
    store::{self, Create, Keying, MemoryStore, Options, Store, TokenStore, UpstreamFacts},
};

const UPSTREAM: UpstreamId = UpstreamId(1);
/// The token of every key.
const MARK: u64 = 7;
const KEYS: [usize; 2] = [1, 100_000];
/// Raises that wait together, and share a commit.
const CALLERS: [usize; 2] = [1, 64];
/// Records of the store in which keys are looked up.
const RECORDS: usize = 100_000;

fn key(number: usize) -> Key {
    Key::new(UPSTREAM, format!("b/{number:07}").as_bytes()).unwrap()
}

fn mark(token: u64) -> Mark {
    Mark { token: Some(Token::new(token)), ..Mark::default() }
}

fn policy() -> Policy {
    Policy {
        enforce: true,
        mode: Mode::Required,
        takeover: Takeover::Abort,
        drain_timeout: Duration::from_secs(10),
        max_waiters: 1000,
        max_jump: None,
        max_token: None,
        generations: false,
        same_token_doubt_waits: false,
    }
}

fn ask<'a>(key: &'a Key, token: u64, policy: &'a Policy) -> Ask<'a> {
    Ask { key, token: Some(Token::new(token)), holder: None, claim: false, policy }
}

fn settle(admitted: Admitted) {
    admitted.permit.unwrap().settle(Outcome::Answered);
}

/// A gate that has these keys in memory, each with its mark.
fn warm(keys: &[Key], policy: &Policy) -> Gate {
    let realm = RealmOptions {
        name: "store".to_owned(),
        id: UPSTREAM,
        lifetime: Duration::from_secs(30),
        quarantine: None,
        all_contested: false,
        unfenced: false,
        void_unfenced: false,
    };
    let store = Arc::new(MemoryStore::new());
    let gate = Gate::new(1 << 30, vec![realm], store, Metrics::new(&["/{*object}".to_owned()]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for key in keys {
        settle(runtime.block_on(gate.admit(ask(key, MARK, policy))).unwrap());
    }
    gate
}

/// A verdict that waits for nothing is there at the first poll.
fn verdict(gate: &Gate, ask: Ask<'_>) -> Result<Admitted, Denied> {
    match pin!(gate.admit(ask)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(verdict) => verdict,
        Poll::Pending => panic!("it waits"),
    }
}

/// The keys in an order in which none is still in the processor's cache because of its neighbour.
fn scattered(keys: &[Key]) -> impl Iterator<Item = &Key> {
    // A prime that divides no number of keys here visits all of them.
    (0..keys.len()).map(|at| &keys[at * 7919 % keys.len()]).cycle()
}

/// Of an equal token, from the request to the outcome; and of a stale one.
fn gate(criterion: &mut Criterion) {
    let policy = policy();
    for count in KEYS {
        let keys: Vec<Key> = (0..count).map(key).collect();
        let gate = warm(&keys, &policy);
        let mut next = scattered(&keys);
        criterion.bench_function(&format!("gate/equal/keys={count}"), |bencher| {
            bencher.iter(|| {
                let key = next.next().unwrap();
                settle(verdict(&gate, ask(key, MARK, &policy)).unwrap());
            });
        });
        criterion.bench_function(&format!("gate/stale/keys={count}"), |bencher| {
            bencher.iter(|| {
                let key = next.next().unwrap();
                verdict(&gate, ask(black_box(key), MARK - 1, &policy)).unwrap_err()
            });
        });
    }
}

fn open(directory: &std::path::Path) -> Store {
    let keying = Keying { pattern: "/{*}".to_owned(), template: "{1}".to_owned() };
    let facts = UpstreamFacts {
        name: "store".to_owned(),
        address: "http://127.0.0.1:80".to_owned(),
        lifetime: Duration::from_secs(30),
        unfenced: false,
        keying: vec![keying],
    };
    let options = Options {
        path: directory.join("fences"),
        create: Create::IfMissing,
        page_cache: 8 << 20,
        fresh: true,
        rekey: Vec::new(),
        upstreams: vec![facts],
    };
    store::open(&options, palisade::proxy::overlaps_text, None).unwrap().store
}

/// Raises every key to the token at once, and waits for all answers.
fn raise_all(store: &Store, keys: &[Key], token: u64) {
    let (tell, told) = mpsc::channel();
    for key in keys {
        let tell = tell.clone();
        let done = Box::new(move |answer: Result<Mark, _>| {
            tell.send(answer.is_ok()).unwrap();
        });
        store.raise(key.clone(), mark(token), done);
    }
    drop(tell);
    assert_eq!(told.iter().filter(|raised| *raised).count(), keys.len());
}

/// Until it is synced: what R2 makes a raise wait for.
fn raise(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let keys: Vec<Key> = (0..CALLERS[1]).map(key).collect();
    let mut token = MARK;
    let mut group = criterion.benchmark_group("store/raise");
    for callers in CALLERS {
        group.throughput(Throughput::Elements(callers as u64));
        let id = BenchmarkId::from_parameter(format!("callers={callers}"));
        group.bench_function(id, |bencher| {
            bencher.iter(|| {
                token += 1;
                raise_all(&store, &keys[..callers], token);
            });
        });
    }
    group.finish();
    store.close(true).unwrap();
}

/// A key that is not in memory, by way of the thread that reads.
fn find(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let keys: Vec<Key> = (0..RECORDS).map(key).collect();
    keys.chunks(1000).for_each(|some| raise_all(&store, some, MARK));
    let mut next = scattered(&keys);
    criterion.bench_function(&format!("store/find/records={RECORDS}"), |bencher| {
        bencher.iter(|| {
            let (tell, told) = mpsc::channel();
            let done = Box::new(move |found: Result<Option<Mark>, _>| tell.send(found).unwrap());
            store.find(next.next().unwrap().clone(), done);
            assert!(told.recv().unwrap().unwrap().is_some());
        });
    });
    store.close(true).unwrap();
}

/// A head's path, checked for a second meaning and decoded.
fn target(criterion: &mut Criterion) {
    for (name, text) in
        [("plain", "/tour/reports/2026/july.txt"), ("escaped", "/tour/caf%C3%A9/july%20report.txt")]
    {
        let uri: http::Uri = text.parse().unwrap();
        criterion.bench_function(&format!("proxy/target/{name}"), |bencher| {
            bencher.iter(|| Target::read(black_box(&uri)).unwrap());
        });
    }
}

/// The answer to a stale write: problem document and fields.
fn refusal(criterion: &mut Criterion) {
    criterion.bench_function("proxy/refusal/stale-token", |bencher| {
        let key = Key::new(UpstreamId(1), b"b/0000000").unwrap();
        bencher.iter(|| {
            let context = refusal::Context {
                fencing: true,
                key: Some(("store", &key)),
                token: Some(Token::new(MARK - 1)),
                highest: Some(Token::new(MARK)),
                outcome: Some(WriteOutcome::NotApplied),
                request_id: "0123456789abcdef",
                ..refusal::Context::default()
            };
            Refusal::StaleToken.response(black_box(&context))
        });
    });
}

criterion_group!(benches, gate, raise, find, target, refusal);
criterion_main!(benches);
