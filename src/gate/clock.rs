//! The one reader of the clock: tokio's, so that a test can move it.

use std::time::Duration;

use tokio::time::Instant;

use crate::fence::Moment;

/// Moments are counted from its start, so a wall clock that jumps changes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> Moment {
        Moment(micros(self.0.elapsed()))
    }

    pub(super) fn instant(self, moment: Moment) -> Instant {
        self.0 + Duration::from_micros(moment.0)
    }

    pub(super) fn between(from: Moment, to: Moment) -> Duration {
        Duration::from_micros(to.0.saturating_sub(from.0))
    }
}

/// Rounded up, so that no deadline falls early.
pub(super) fn after(moment: Moment, duration: Duration) -> Moment {
    Moment(moment.0.saturating_add(micros(duration)).saturating_add(1))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 2)
}
