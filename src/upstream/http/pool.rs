//! The idle connections of one worker to one upstream.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Weak},
    task::{Context, Wake, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::link::Link;

/// A stack: the connection used last is taken first, the oldest one goes when there are too many.
///
/// One task watches all that are idle: it closes those whose time is over, and those that the store
/// has closed.
#[derive(Debug)]
pub(super) struct Pool {
    max: usize,
    idle_timeout: Duration,
    idle: Mutex<Idle>,
    bell: Arc<Bell>,
    /// Rings the bell.
    ringer: Waker,
}

#[derive(Debug, Default)]
struct Idle {
    links: VecDeque<(Instant, Box<Link>)>,
    /// The task that watches them is about.
    watched: bool,
}

/// What an idle connection wakes.
#[derive(Debug, Default)]
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

impl Pool {
    pub(super) fn new(max: usize, idle_timeout: Duration) -> Self {
        let bell = Arc::new(Bell::default());
        let ringer = Waker::from(Arc::clone(&bell));
        Self { max, idle_timeout, idle: Mutex::default(), bell, ringer }
    }

    /// A connection that is open as far as is known; to that address, if one is given.
    pub(super) fn take(&self, pinned: Option<SocketAddr>) -> Option<Box<Link>> {
        let mut idle = self.idle.lock();
        while let Some(at) = idle.links.iter().rposition(|(_, link)| link.leads_to(pinned)) {
            let (until, mut link) = idle.links.remove(at)?;
            if until > Instant::now() && self.is_quiet(&mut link) {
                return Some(link);
            }
        }
        None
    }

    /// Keeps a connection for the next request.
    pub(super) fn push(self: &Arc<Self>, mut link: Box<Link>) {
        if self.max == 0 || !self.is_quiet(&mut link) {
            return;
        }
        let until = Instant::now() + self.idle_timeout;
        let mut idle = self.idle.lock();
        if idle.links.len() >= self.max {
            idle.links.pop_front();
        }
        idle.links.push_back((until, link));
        if !std::mem::replace(&mut idle.watched, true) {
            tokio::spawn(watch(Arc::downgrade(self), Arc::clone(&self.bell)));
        }
    }

    /// Whether nothing has come over it; if anything does, the bell is rung.
    fn is_quiet(&self, link: &mut Link) -> bool {
        let mut cx = Context::from_waker(&self.ringer);
        !link.closer().is_aborted() && link.poll_disturbed(&mut cx).is_pending()
    }

    /// Closes what has expired, or was closed; the next one's moment, if any is left to watch.
    fn prune(&self) -> Option<Instant> {
        let mut idle = self.idle.lock();
        let now = Instant::now();
        idle.links.retain_mut(|(until, link)| *until > now && self.is_quiet(link));
        let next = idle.links.front().map(|(until, _)| *until);
        idle.watched = next.is_some();
        next
    }
}

async fn watch(pool: Weak<Pool>, bell: Arc<Bell>) {
    while let Some(until) = pool.upgrade().and_then(|pool| pool.prune()) {
        tokio::select! {
            () = bell.0.notified() => {}
            () = sleep_until(until) => {}
        }
    }
}
