//! A write in flight: counted from admission to its one outcome (R4).

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::{
    Ask, Inner,
    cache::InUse,
    slot::{Doubtful, State},
};
use crate::fence::{Key, Outcome, Token};

/// What carries a write to the upstream, as far as the gate must know it.
pub trait Connection: Send + Sync {
    /// Ends it abortively. It may not have ended yet when this returns.
    fn cut(&self);

    /// Resolves once nothing of ours can reach the upstream through it any more.
    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Since when the client, which still owes a part of its body, has sent nothing. `None` once
    /// the body has arrived whole.
    fn client_silent_since(&self) -> Option<Instant>;
}

/// The right to one write, and the duty to settle it.
///
/// Dropping one settles it too: as not sent while no connection is attached, otherwise as unknown
/// after the connection was cut and joined; until then the write counts as in flight.
pub struct Permit(Option<Held>);

struct Held {
    inner: Arc<Inner>,
    slot: InUse,
    link: Arc<Link>,
    /// Its place among the key's links.
    number: u64,
    enforced: bool,
}

/// What a takeover sees of a write in flight.
pub(super) struct Link {
    pub(super) rank: Option<Token>,
    cut: Notify,
    was_cut: AtomicBool,
    /// It goes, or is about to go, to the key's address.
    pinned: AtomicBool,
    connection: Mutex<Option<Arc<dyn Connection>>>,
}

impl Link {
    /// Asks whoever runs the write to end it. Heard also if nobody is listening yet.
    /// Whether it is the first to ask.
    pub(super) fn cut(&self) -> bool {
        let first = !self.was_cut.swap(true, Ordering::AcqRel);
        if first {
            self.cut.notify_one();
        }
        first
    }

    pub(super) fn client_silent_since(&self) -> Option<Instant> {
        self.connection.lock().as_ref().and_then(|connection| connection.client_silent_since())
    }
}

impl Permit {
    /// Counts the write: the fence has let it in under the same lock.
    pub(super) fn new(inner: &Arc<Inner>, slot: &InUse, state: &mut State, ask: &Ask<'_>) -> Self {
        let link = Arc::new(Link {
            rank: ask.token,
            cut: Notify::new(),
            was_cut: AtomicBool::new(false),
            pinned: AtomicBool::new(false),
            connection: Mutex::default(),
        });
        let number = state.links.last_key_value().map_or(0, |(last, _)| last + 1);
        state.links.insert(number, Arc::clone(&link));
        inner.write_opened(&slot.key);
        Self(Some(Held {
            inner: Arc::clone(inner),
            slot: slot.clone(),
            link,
            number,
            enforced: ask.policy.holds_back(),
        }))
    }

    /// From here on the write may reach the upstream through `connection`.
    pub fn attach(&self, connection: Arc<dyn Connection>) {
        if let Some(held) = &self.0 {
            *held.link.connection.lock() = Some(connection);
        }
    }

    /// The connection was given back unused: nothing was sent through it.
    pub fn detach(&self) {
        if let Some(held) = &self.0 {
            *held.link.connection.lock() = None;
            held.link.pinned.store(false, Ordering::Release);
        }
    }

    /// The address that this key's writes in flight go to, if one is known. Where an upstream has
    /// several, another would reorder them.
    pub fn place(&self) -> Option<SocketAddr> {
        self.0.as_ref().and_then(|held| held.slot.state.lock().place)
    }

    /// Says where this write is about to go. The address in force: another's, if it was first.
    pub fn pin(&self, address: SocketAddr) -> SocketAddr {
        let Some(held) = &self.0 else { return address };
        // Within the lock: another's `unpin` sees the place and who goes there, or neither.
        let state = &mut *held.slot.state.lock();
        let place = *state.place.get_or_insert(address);
        held.link.pinned.store(place == address, Ordering::Release);
        place
    }

    /// The write was not sent where it was to go: the key's writes may go elsewhere, unless another
    /// one goes there. Whether they may.
    pub fn unpin(&self) -> bool {
        let Some(held) = &self.0 else { return false };
        let state = &mut *held.slot.state.lock();
        held.link.pinned.store(false, Ordering::Release);
        let free = !state.links.values().any(|link| link.pinned.load(Ordering::Acquire));
        if free {
            state.place = None;
        }
        free
    }

    /// Resolves when a takeover wants the write ended. The owner then ends its connection, joins
    /// it and settles.
    pub async fn cut(&self) {
        match &self.0 {
            Some(held) => held.link.cut.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Whether a takeover has asked for the end.
    pub fn was_cut(&self) -> bool {
        let held = self.0.as_ref();
        held.is_some_and(|held| held.link.was_cut.load(Ordering::Acquire))
    }

    /// The verdict once more, before a write that was not sent is sent after all (R7).
    pub fn is_current(&self) -> bool {
        self.0.as_ref().is_some_and(|held| {
            !held.enforced || held.slot.state.lock().fence.highest() == held.link.rank
        })
    }

    /// The mark now.
    pub fn highest(&self) -> Option<Token> {
        self.0.as_ref().and_then(|held| held.slot.state.lock().fence.highest())
    }

    /// The one outcome. Before `Unknown` the connection must have ended: doubt counts from now.
    pub fn settle(mut self, outcome: Outcome) {
        if let Some(held) = self.0.take() {
            held.settle(outcome);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(held) = self.0.take() else { return };
        let Some(connection) = held.link.connection.lock().take() else {
            held.settle(Outcome::NotSent);
            return;
        };
        connection.cut();
        // Without a runtime the process is ending; unsettled, the write forbids the clean mark.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                connection.ended().await;
                held.settle(Outcome::Unknown);
            });
        }
    }
}

impl Held {
    fn settle(self, outcome: Outcome) {
        let now = self.inner.clock.now();
        let until = self.inner.realm(&self.slot.key).doubt_end(now);
        let doubt = {
            let state = &mut *self.slot.state.lock();
            let was_draining = state.is_draining();
            state.links.remove(&self.number);
            if state.links.is_empty() {
                state.place = None;
            }
            state.fence.settle(self.link.rank, outcome, until);
            state.fence.expire(now);
            if let Some((_, last)) = &mut state.held
                && self.link.rank == state.fence.highest()
            {
                *last = now;
            }
            let doubt = self.inner.doubt_began(&self.slot.key, state);
            // The last lower write is gone, or the wait has become one that may be too long.
            if was_draining && (outcome == Outcome::Unknown || !state.is_draining()) {
                state.wake();
            }
            doubt
        };
        self.inner.realm(&self.slot.key).counts.in_flight.less();
        if doubt {
            self.inner.doubtful.lock().push(Doubtful { until, slot: self.slot });
        }
        self.inner.write_settled();
    }
}

impl Inner {
    fn write_opened(&self, key: &Key) {
        self.open.writes.fetch_add(1, Ordering::SeqCst);
        self.realm(key).counts.in_flight.more();
        self.metrics.in_flight_writes.inc();
    }

    fn write_settled(&self) {
        self.metrics.in_flight_writes.dec();
        if self.open.writes.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.open.none.notify_waiters();
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = self.0.as_ref().map(|held| held.link.rank);
        f.debug_tuple("Permit").field(&rank).finish()
    }
}
