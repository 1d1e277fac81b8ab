//! The clock by which hyper waits for a request's head: one alarm per connection.
//!
//! hyper asks for a new time-out with every request. To put each into the runtime's timers, and to
//! take it out again when its head came, costs more than the look at the token. A connection's
//! time-outs only move on, so its one timer stays where it is, and is put off when it rings.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use hyper::rt::{self, Timer};
use parking_lot::Mutex;
use tokio::time::{self, sleep_until};

use super::socket::Link;

/// The next look, while a client does not take what was answered.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// hyper's timer for one connection, within a tokio runtime.
#[derive(Clone, Debug)]
pub(super) struct Alarm {
    link: Arc<Link>,
    timer: Arc<Mutex<Option<Pin<Box<time::Sleep>>>>>,
}

/// A time-out of the connection.
#[derive(Debug)]
struct Until {
    deadline: Instant,
    alarm: Alarm,
}

impl Alarm {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { link, timer: Arc::default() }
    }
}

impl Timer for Alarm {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Until { deadline, alarm: self.clone() })
    }

    fn now(&self) -> Instant {
        time::Instant::now().into_std()
    }
}

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = time::Instant::from_std(self.deadline);
        let timer = &mut *self.alarm.timer.lock();
        let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        // It rings for the earliest of the time-outs that there were.
        while timer.deadline() < deadline {
            ready!(timer.as_mut().poll(cx));
            timer.as_mut().reset(deadline);
        }
        // hyper took the answer for sent: to end the connection would lose the rest of it. How long
        // the client may take for that is not this alarm's business.
        loop {
            ready!(timer.as_mut().poll(cx));
            if !self.alarm.link.is_stuck() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(time::Instant::now() + LOOK_AGAIN);
        }
    }
}

impl rt::Sleep for Until {}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn waited(alarm: &Alarm, seconds: u32) -> Duration {
        let began = time::Instant::now();
        alarm.sleep(SECOND * seconds).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn each_time_out_ends_at_its_own_time() {
        let alarm = Alarm::new(Arc::default());
        for seconds in [5, 1, 7, 2] {
            assert_eq!(waited(&alarm, seconds).await, SECOND * seconds);
        }
    }

    /// As hyper does it: the time-out of a head that came is dropped, and another begins.
    #[tokio::test(start_paused = true)]
    async fn a_timer_that_rings_for_an_earlier_time_out_ends_no_later_one() {
        let alarm = Alarm::new(Arc::default());
        for _ in 0..5 {
            let first = alarm.sleep(SECOND * 5);
            tokio::select! {
                biased;
                () = first => panic!("it has three seconds left"),
                () = time::sleep(SECOND * 2) => {}
            }
        }
        assert_eq!(waited(&alarm, 5).await, SECOND * 5);
    }

    #[tokio::test(start_paused = true)]
    async fn no_time_out_ends_while_an_answer_waits_for_its_client() {
        let link = Arc::new(Link::default());
        let alarm = Alarm::new(Arc::clone(&link));
        link.set_stuck(true);
        tokio::spawn(async move {
            time::sleep(Duration::from_millis(7999)).await;
            link.set_stuck(false);
        });
        assert_eq!(waited(&alarm, 5).await, SECOND * 8);
    }
}
