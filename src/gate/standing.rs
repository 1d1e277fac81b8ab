//! What an operator can see of an upstream as a whole: counted as it happens, read at any time.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use super::{Clock, Gate, realm::Realm};
use crate::fence::Moment;

/// One upstream as it is now. The numbers are read one after the other, not at one instant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Standing {
    /// Its name in the configuration.
    pub upstream: String,
    /// What is left of its quarantine (R5), if one runs.
    pub quarantine: Option<Duration>,
    /// Writes that no rule holds back are possible, or may be left from an earlier run (R10).
    pub unfenced: bool,
    /// Keys in memory; those at rest are on disk only.
    pub keys: usize,
    /// Writes let through whose outcome is not known yet.
    pub in_flight: usize,
    /// Writes and claims that wait.
    pub waiting: usize,
    /// Keys with a write that the upstream may still apply.
    pub in_doubt: usize,
}

/// The numbers of one upstream that change with its requests.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) keys: Count,
    pub(super) in_flight: Count,
    pub(super) waiting: Count,
    pub(super) in_doubt: Count,
}

/// A number to look at: no rule rests on it.
#[derive(Default)]
pub(super) struct Count(AtomicUsize);

impl Count {
    pub(super) fn more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn less(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Gate {
    /// Every upstream as it is now, in the configuration's order.
    pub fn standings(&self) -> Vec<Standing> {
        let now = self.0.clock.now();
        // Doubts end with time, which nobody may have looked at since.
        self.0.sweep_doubts(now);
        self.0.realms.iter().map(|realm| realm.standing(now)).collect()
    }

    /// How long this gate has been there.
    pub fn uptime(&self) -> Duration {
        Clock::between(Moment::default(), self.0.clock.now())
    }
}

impl Realm {
    fn standing(&self, now: Moment) -> Standing {
        Standing {
            upstream: self.name.clone(),
            quarantine: self.regime(now).quarantined().map(|end| Clock::between(now, end)),
            unfenced: self.unfenced.load(Ordering::Relaxed),
            keys: self.counts.keys.now(),
            in_flight: self.counts.in_flight.now(),
            waiting: self.counts.waiting.now(),
            in_doubt: self.counts.in_doubt.now(),
        }
    }
}
