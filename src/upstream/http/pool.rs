//! The idle connections of one worker to one upstream.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::lease::Link;

/// A stack: the connection used last is taken first, the oldest one goes when there are too many.
#[derive(Debug)]
pub(super) struct Pool {
    max: usize,
    idle_timeout: Duration,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    links: VecDeque<(Instant, Link)>,
    /// A task is about that closes what has expired.
    reaping: bool,
}

impl Idle {
    /// Closes what has expired; the next one's moment, if any is left.
    fn prune(&mut self, now: Instant) -> Option<Instant> {
        while self.links.front().is_some_and(|(until, _)| *until <= now) {
            self.links.pop_front();
        }
        self.links.front().map(|(until, _)| *until)
    }
}

impl Pool {
    pub(super) fn new(max: usize, idle_timeout: Duration) -> Self {
        Self { max, idle_timeout, idle: Mutex::default() }
    }

    /// A connection that is open as far as is known; to that address, if one is given.
    pub(super) fn take(&self, pinned: Option<SocketAddr>) -> Option<Link> {
        let mut idle = self.idle.lock();
        idle.prune(Instant::now());
        while let Some(at) = idle.links.iter().rposition(|(_, link)| link.leads_to(pinned)) {
            let (_, link) = idle.links.remove(at)?;
            if link.is_idle() {
                return Some(link);
            }
        }
        None
    }

    /// Keeps a connection for the next request.
    pub(super) fn push(self: &Arc<Self>, link: Link) {
        if self.max == 0 {
            return;
        }
        let until = Instant::now() + self.idle_timeout;
        let mut idle = self.idle.lock();
        if idle.links.len() >= self.max {
            idle.links.pop_front();
        }
        idle.links.push_back((until, link));
        if !std::mem::replace(&mut idle.reaping, true) {
            tokio::spawn(reap(Arc::downgrade(self), until));
        }
    }

    /// For the reaper: the next moment to look, `None` when there is nothing left to watch.
    fn expire(&self) -> Option<Instant> {
        let mut idle = self.idle.lock();
        let next = idle.prune(Instant::now());
        idle.reaping = next.is_some();
        next
    }
}

async fn reap(pool: std::sync::Weak<Pool>, first: Instant) {
    let mut next = Some(first);
    while let Some(until) = next {
        sleep_until(until).await;
        next = pool.upgrade().and_then(|pool| pool.expire());
    }
}
