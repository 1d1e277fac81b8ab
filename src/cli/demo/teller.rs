//! The story's voice and its clock.

use std::{sync::Arc, time::Duration};

use parking_lot::{Condvar, Mutex};
use tokio::{sync::mpsc, time::Instant};

use super::event::{Event, Kind, Who};

/// Told once that the story is to end early.
#[derive(Clone, Default)]
pub(super) struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    pub(super) fn stop(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    /// Waits; an error as soon as the story is to end.
    pub(super) fn pause(&self, time: Duration) -> Result<(), String> {
        let mut stopped = self.0.0.lock();
        self.0.1.wait_while_for(&mut stopped, |stopped| !*stopped, time);
        if *stopped { Err("interrupted".to_owned()) } else { Ok(()) }
    }
}

/// Tells events as they happen.
pub(super) struct Teller {
    events: mpsc::Sender<Event>,
    began: Instant,
    stop: Stop,
}

impl Teller {
    pub(super) fn new(events: mpsc::Sender<Event>, stop: Stop) -> Self {
        Self { events, began: Instant::now(), stop }
    }

    pub(super) fn tell(&self, who: Who, kind: Kind) {
        let at = self.began.elapsed();
        // Where nobody listens any more, the story only has to end.
        let _ = self.events.blocking_send(Event { at, who, kind });
    }

    pub(super) fn says(&self, who: Who, text: &str) {
        self.tell(who, Kind::Says(text.to_owned()));
    }

    pub(super) fn pause(&self, time: Duration) -> Result<(), String> {
        self.stop.pause(time)
    }
}
