//! The gate on a store in memory and a clock that the tests move.

mod cache;
mod list;
mod operator;
mod standing;
mod waiting;
mod writes;

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Admitted, Ask, Connection, Denied, Gate, Mode, Permit, Policy, RealmOptions, Takeover,
};
use crate::{
    fence::{Holder, Key, Token, UpstreamId},
    metrics::Metrics,
    store::MemoryStore,
};

const LIFETIME: Duration = Duration::from_secs(30);
const DRAIN: Duration = Duration::from_secs(10);

impl Gate {
    /// For rooms above, which do not know the store.
    pub(crate) fn without_upstreams(metrics: &Arc<Metrics>) -> Self {
        Self::new(0, vec![], Arc::new(MemoryStore::new()), Arc::clone(metrics))
    }

    /// The same, with one upstream.
    pub(crate) fn with_upstream(metrics: &Arc<Metrics>) -> Self {
        let store = Arc::new(MemoryStore::new());
        Self::new(1 << 20, vec![realm(LIFETIME)], store, Arc::clone(metrics))
    }
}

/// A gate, its store and its metrics.
struct World {
    gate: Gate,
    store: MemoryStore,
    metrics: Arc<Metrics>,
}

fn realm(lifetime: Duration) -> RealmOptions {
    RealmOptions {
        name: "store".into(),
        id: UpstreamId(1),
        lifetime,
        quarantine: None,
        all_contested: false,
        unfenced: false,
        void_unfenced: false,
    }
}

impl World {
    fn new() -> Self {
        Self::with(realm(LIFETIME), MemoryStore::new())
    }

    fn with(realm: RealmOptions, store: MemoryStore) -> Self {
        Self::cached(1 << 20, realm, store)
    }

    fn cached(bytes: u64, realm: RealmOptions, store: MemoryStore) -> Self {
        let metrics = Metrics::new(&[]);
        let gate = Gate::new(bytes, vec![realm], Arc::new(store.clone()), Arc::clone(&metrics));
        Self { gate, store, metrics }
    }

    fn key(&self, name: &str) -> Key {
        self.gate.key(0, name.as_bytes()).unwrap()
    }

    async fn ask(&self, ask: &Wish) -> Result<Admitted, Denied> {
        let ask = Ask {
            key: &self.key(ask.key),
            token: ask.token.map(Token::new),
            holder: ask.holder.as_ref(),
            claim: ask.claim,
            policy: &ask.policy,
        };
        match self.gate.admit_at_once(&ask) {
            Some(answer) => answer,
            None => self.gate.admit(ask).await,
        }
    }

    /// A write that is let in.
    async fn write(&self, token: u64) -> Permit {
        self.ask(&write(token)).await.unwrap().permit.unwrap()
    }

    fn waiting(&self) -> i64 {
        self.metrics.waiting_writes.value()
    }

    fn in_flight(&self) -> i64 {
        self.metrics.in_flight_writes.value()
    }
}

/// What a test asks for.
#[derive(Clone)]
struct Wish {
    key: &'static str,
    token: Option<u64>,
    holder: Option<Holder>,
    claim: bool,
    policy: Policy,
}

fn write(token: u64) -> Wish {
    Wish { key: "k", token: Some(token), holder: None, claim: false, policy: policy() }
}

fn claim(token: u64) -> Wish {
    Wish { claim: true, ..write(token) }
}

fn policy() -> Policy {
    Policy {
        enforce: true,
        mode: Mode::Required,
        takeover: Takeover::Abort,
        drain_timeout: DRAIN,
        max_waiters: 1000,
        max_jump: None,
        max_token: None,
        generations: false,
        same_token_doubt_waits: false,
    }
}

/// A connection that ends when the test says so.
#[derive(Clone, Default)]
struct Line {
    cut: CancellationToken,
    ended: CancellationToken,
    silent_since: Arc<Mutex<Option<Instant>>>,
}

impl Connection for Line {
    fn cut(&self) {
        self.cut.cancel();
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let ended = self.ended.clone();
        Box::pin(async move { ended.cancelled().await })
    }

    fn client_silent_since(&self) -> Option<Instant> {
        *self.silent_since.lock()
    }
}

/// Polls once, without a waker that does anything.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets every task that can run do so.
async fn settle_down() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn equal_tokens_run_side_by_side_and_touch_no_disk() {
    let world = World::new();
    let first = world.write(5).await;
    world.store.hold();
    let mut second = pin!(world.ask(&WRITE_5));
    assert!(matches!(poll_once(second.as_mut()), Poll::Ready(Ok(_))), "at once");
    let refused = world.ask(&write(4)).await.unwrap_err();
    assert_eq!(refused.highest, Some(Token::new(5)));
    assert_eq!(world.store.held(), 0);
    drop(first);
}

static WRITE_5: std::sync::LazyLock<Wish> = std::sync::LazyLock::new(|| write(5));
