//! A connection's clock.

use std::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// One timer for all of a connection's time-outs, of which one runs at a time. It stays where it is
/// in the runtime's timers, and is put off when it rings: to put each in, and to take it out again,
/// costs more than the exchange's own part.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    timer: Option<Pin<Box<Sleep>>>,
    until: Option<Instant>,
}

impl Alarm {
    /// No time-out runs.
    pub(super) fn stop(&mut self) {
        self.until = None;
    }

    /// Ready when `patience` has passed since the first poll after a stop.
    pub(super) fn poll(&mut self, patience: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            // The timer would not say so to a task that has used up its turn by reading.
            return Poll::Ready(());
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + patience);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if timer.deadline() > until {
            timer.as_mut().reset(until);
        }
        while timer.deadline() < until {
            ready!(timer.as_mut().poll(cx));
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::{task::consume_budget, time::advance};

    use super::*;

    /// A task that has read all that it may in one turn is late all the same.
    #[tokio::test(start_paused = true)]
    async fn a_time_out_does_not_hang_on_a_turns_budget() {
        let mut alarm = Alarm::default();
        let second = Duration::from_secs(1);
        poll_fn(|cx| Poll::Ready(alarm.poll(second, cx).is_pending())).await;
        advance(second).await;
        let rings = poll_fn(|cx| {
            while Box::pin(consume_budget()).as_mut().poll(cx).is_ready() {}
            Poll::Ready(alarm.poll(second, cx).is_ready())
        });
        assert!(rings.await);
    }
}
