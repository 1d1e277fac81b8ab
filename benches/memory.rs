//! What the gate holds per key and what it costs, on a store that answers at once and keeps nothing.
//!
//! `cargo bench --bench memory`. Memory is the growth of the process's resident set, so allocators'
//! rounding and half-empty tables are in it; each number of keys is measured in a process of its
//! own. Times are the CPU's, which neighbours disturb least: of one thread, admission and outcome
//! together, without HTTP.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people to read")]

use std::{env, fs, process::Command, sync::Arc, time::Duration};

use palisade::{
    fence::{Key, Mark, Outcome, Token, UpstreamId},
    gate::{Ask, Gate, Mode, Permit, Policy, RealmOptions, Reason, Takeover},
    metrics::Metrics,
    store::{Done, StoreError, TokenStore},
};

/// The product's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Between them the tables of the cache are as full and as empty as they get.
const KEYS: [usize; 8] = [1, 1000, 100_000, 200_000, 400_000, 600_000, 800_000, 1_000_000];
/// Bounded caches, in MiB, into which far more keys are put than they hold. Among them is one whose index
/// becomes as empty as it can.
const BUDGETS: [usize; 4] = [1, 16, 42, 64];
const WAITERS: [usize; 3] = [1, 100, 10_000];
const DOUBTFUL: usize = 100_000;
const ROUNDS: usize = 500_000;

/// Answers at once, that each key is new; so only the gate's own memory grows.
struct Nothing;

impl TokenStore for Nothing {
    fn find(&self, _: Key, done: Done<Option<Mark>>) {
        done(Ok(None));
    }

    fn raise(&self, _: Key, mark: Mark, done: Done<Mark>) {
        done(Ok(mark));
    }

    fn clear(&self, _: Key, _: Token) {}

    fn release(&self, _: Key, _: Option<Token>, done: Done<()>) {
        done(Ok(()));
    }

    fn reset(&self, _: Key, done: Done<()>) {
        done(Ok(()));
    }

    fn list(&self, _: Vec<u8>, _: Option<Key>, _: usize, done: Done<Vec<(Key, Mark)>>) {
        done(Err(StoreError::Unavailable("nothing is kept".into())));
    }

    fn set_unfenced(&self, _: UpstreamId, _: bool, done: Done<()>) {
        done(Ok(()));
    }

    fn poisoned(&self) -> bool {
        false
    }
}

fn gate(cache_bytes: u64) -> Gate {
    let realm = RealmOptions {
        name: "store".into(),
        id: UpstreamId(1),
        lifetime: Duration::from_hours(1),
        quarantine: None,
        all_contested: false,
        unfenced: false,
        void_unfenced: false,
    };
    let store: Arc<dyn TokenStore> = Arc::new(Nothing);
    Gate::new(cache_bytes, vec![realm], store, Metrics::new(&[]))
}

/// Ten bytes, in no order that a table could like.
fn key(gate: &Gate, n: usize) -> Key {
    let mixed = (n as u64).wrapping_mul(0x9e37_79b9) % 10_000_000_000;
    gate.key(0, format!("{mixed:010}").as_bytes()).unwrap()
}

fn policy() -> Policy {
    Policy {
        enforce: true,
        mode: Mode::Required,
        takeover: Takeover::Wait,
        drain_timeout: Duration::from_mins(1),
        max_waiters: usize::MAX,
        max_jump: None,
        max_token: None,
        generations: false,
        same_token_doubt_waits: false,
    }
}

async fn ask(gate: &Gate, key: &Key, token: u64) -> Result<Permit, Reason> {
    let policy = policy();
    let token = Some(Token::new(token));
    let ask = Ask { key, token, holder: None, claim: false, policy: &policy };
    gate.admit(ask).await.map(|admitted| admitted.permit.unwrap()).map_err(|denied| denied.reason)
}

async fn write(gate: &Gate, key: &Key, token: u64, outcome: Outcome) {
    ask(gate, key, token).await.unwrap().settle(outcome);
}

async fn fill(gate: &Gate, keys: usize) {
    for n in 0..keys {
        write(gate, &key(gate, n), 5, Outcome::Answered).await;
    }
}

/// The process's resident set in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// The nanoseconds that this thread has run.
fn cpu() -> usize {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Bytes per key at rest, and what a write and a refusal cost among so many keys.
async fn at_rest(keys: usize) {
    let gate = gate(1 << 40);
    let before = resident();
    fill(&gate, keys).await;
    let per_key = resident().saturating_sub(before) / keys;
    let order: Vec<Key> = (0..keys).map(|n| key(&gate, n)).collect();
    let step = |round: usize| &order[round.wrapping_mul(7_919_993) % keys];
    let began = cpu();
    for round in 0..ROUNDS {
        write(&gate, step(round), 5, Outcome::Answered).await;
    }
    let accepted = (cpu() - began) / ROUNDS;
    let began = cpu();
    for round in 0..ROUNDS {
        assert!(ask(&gate, step(round), 4).await.is_err());
    }
    let refused = (cpu() - began) / ROUNDS;
    let memory = if keys < 1000 { "-".into() } else { per_key.to_string() };
    println!(
        "{keys:>9} keys {memory:>5} B/key  accepted {accepted:>5} ns  refused {refused:>5} ns"
    );
}

/// Far more keys than fit.
async fn bounded(mib: usize) {
    let gate = gate((mib as u64) << 20);
    let before = resident();
    fill(&gate, (mib << 20) / 20).await;
    let grown = (resident() - before) as f64 / f64::from(1 << 20);
    let kept = gate.standings()[0].keys;
    println!("{mib:>4} MiB cache: grown by {grown:.1} MiB, {kept} keys kept");
}

/// A write to another key beside so many in doubt.
async fn in_doubt(keys: usize) {
    let gate = gate(1 << 40);
    let before = resident();
    for n in 0..keys {
        write(&gate, &key(&gate, n), 5, Outcome::Unknown).await;
    }
    let per_key = resident().saturating_sub(before).checked_div(keys).unwrap_or_default();
    let other = key(&gate, keys);
    write(&gate, &other, 5, Outcome::Answered).await;
    let began = cpu();
    for _ in 0..ROUNDS {
        write(&gate, &other, 5, Outcome::Answered).await;
    }
    let each = (cpu() - began) / ROUNDS;
    println!("{keys:>9} keys in doubt ({per_key} B each): a write to another {each} ns");
}

/// A crowd that waits for one lower write, from its outcome until the last of them is let in.
async fn crowd(waiters: usize) {
    let (gate, rounds) = (gate(1 << 40), 20_000 / waiters);
    let (mut total, mut token) = (0, 0);
    for _ in 0..rounds {
        token += 2;
        let one = key(&gate, 0);
        let lower = ask(&gate, &one, token).await.unwrap();
        let tasks: Vec<_> = (0..waiters)
            .map(|_| {
                let (gate, one) = (gate.clone(), one.clone());
                tokio::spawn(async move { ask(&gate, &one, token + 1).await.unwrap() })
            })
            .collect();
        while gate.standings()[0].waiting < waiters {
            tokio::task::yield_now().await;
        }
        let began = cpu();
        lower.settle(Outcome::Answered);
        let mut permits = Vec::with_capacity(waiters);
        for task in tasks {
            permits.push(task.await.unwrap());
        }
        let admitted = cpu() - began;
        let began = cpu();
        for permit in permits {
            permit.settle(Outcome::Answered);
        }
        total += admitted + (cpu() - began);
    }
    let each = total / (rounds * waiters);
    println!("{waiters:>9} waiters let in at once and settled: {each} ns each");
}

/// One measurement, in this process.
async fn measure(what: &str, size: usize) {
    match what {
        "rest" => at_rest(size).await,
        "bounded" => bounded(size).await,
        "doubt" => in_doubt(size).await,
        _ => crowd(size).await,
    }
}

fn main() {
    let words: Vec<String> = env::args().filter(|word| word != "--bench").collect();
    if let [_, what, size] = &words[..] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(measure(what, size.parse().unwrap()));
        return;
    }
    let alone = |what: &str, size: usize| {
        let program = env::current_exe().unwrap();
        assert!(Command::new(program).args([what, &size.to_string()]).status().unwrap().success());
    };
    for keys in KEYS {
        alone("rest", keys);
    }
    for mib in BUDGETS {
        alone("bounded", mib);
    }
    for keys in [0, DOUBTFUL] {
        alone("doubt", keys);
    }
    for waiters in WAITERS {
        alone("waiters", waiters);
    }
}
