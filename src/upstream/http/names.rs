//! From a name to addresses, asked anew for new connections.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{net::lookup_host, sync::watch, time::Instant};

/// How long an answer is used for further dials: a storm of them is one look-up, and a change is
/// seen as soon as anybody could notice.
pub(super) const FRESH: Duration = Duration::from_secs(5);

/// A look-up under way.
pub(super) type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Who knows names.
pub(super) trait Lookup: Send + Sync {
    /// The addresses of a name, in the order in which to try them.
    fn addresses(&self, host: &str, port: u16) -> Looking;
}

/// The system's resolver.
pub(super) struct System;

impl Lookup for System {
    fn addresses(&self, host: &str, port: u16) -> Looking {
        let host = host.to_owned();
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }
}

/// The addresses of one upstream's name.
///
/// There is one look-up at a time, in a task of its own: a resolver that hangs holds one thread,
/// however many dials give up meanwhile. A failure is told to those who waited for it, and not kept.
pub(super) struct Names {
    lookup: Arc<dyn Lookup>,
    fresh: Duration,
    latest: Mutex<Option<watch::Receiver<Option<Answer>>>>,
}

#[derive(Clone)]
struct Answer {
    at: Instant,
    addresses: Result<Arc<[SocketAddr]>, Arc<io::Error>>,
}

impl Names {
    pub(super) fn new(lookup: Arc<dyn Lookup>, fresh: Duration) -> Self {
        Self { lookup, fresh, latest: Mutex::default() }
    }

    /// Where the name is now. An address written out asks nobody.
    pub(super) async fn addresses(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, Arc<io::Error>> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let mut latest = self.latest(host, port);
        let lost = || Arc::new(io::Error::other("the look-up was lost"));
        let answer = latest.wait_for(Option::is_some).await.map_err(|_| lost())?.clone();
        answer.ok_or_else(lost)?.addresses.map(|addresses| addresses.to_vec())
    }

    /// The look-up under way, or the last one while it is fresh, or a new one.
    fn latest(&self, host: &str, port: u16) -> watch::Receiver<Option<Answer>> {
        let mut latest = self.latest.lock();
        if let Some(known) = latest.as_ref().filter(|known| self.is_usable(known)) {
            return known.clone();
        }
        let (tell, told) = watch::channel(None);
        let looking = self.lookup.addresses(host, port);
        tokio::spawn(async move {
            let addresses = looking.await.map(Arc::from).map_err(Arc::new);
            tell.send_replace(Some(Answer { at: Instant::now(), addresses }));
        });
        *latest = Some(told.clone());
        told
    }

    fn is_usable(&self, known: &watch::Receiver<Option<Answer>>) -> bool {
        match &*known.borrow() {
            Some(answer) => answer.addresses.is_ok() && answer.at.elapsed() < self.fresh,
            // Its task may have been lost.
            None => known.has_changed().is_ok(),
        }
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::{advance, sleep};

    use super::*;

    /// Answers after a second, with a port that counts the questions; the second one fails.
    #[derive(Default)]
    struct Slow(AtomicUsize);

    impl Lookup for Slow {
        fn addresses(&self, _: &str, _: u16) -> Looking {
            let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
            Box::pin(async move {
                sleep(Duration::from_secs(1)).await;
                if count == 2 {
                    return Err(io::Error::other("nobody knows"));
                }
                Ok(vec![SocketAddr::from(([127, 0, 0, 1], count as u16))])
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dials_share_a_look_up_and_a_late_one_asks_anew() {
        let slow = Arc::new(Slow::default());
        let names = Names::new(Arc::clone(&slow) as _, FRESH);
        let ask = || async { names.addresses("store", 80).await.map(|found| found[0].port()) };
        // The one that gives up does not take the look-up with it.
        let given_up = tokio::time::timeout(Duration::from_millis(500), ask()).await;
        assert!(given_up.is_err());
        let (one, two) = tokio::join!(ask(), ask());
        assert_eq!((one.unwrap(), two.unwrap()), (1, 1));
        let nearly = Duration::from_millis(4999);
        advance(nearly).await;
        assert_eq!(ask().await.unwrap(), 1);
        advance(FRESH.saturating_sub(nearly)).await;
        let (one, two) = tokio::join!(ask(), ask());
        assert_eq!(one.unwrap_err().to_string(), "nobody knows");
        assert_eq!(two.unwrap_err().to_string(), "nobody knows");
        assert_eq!(ask().await.unwrap(), 3, "a failure is not kept");
        assert_eq!(slow.0.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn an_address_asks_nobody() {
        let slow = Arc::new(Slow::default());
        let names = Names::new(Arc::clone(&slow) as _, FRESH);
        for host in ["127.0.0.1", "::1"] {
            let found = names.addresses(host, 80).await.unwrap();
            assert_eq!(found, [SocketAddr::new(host.parse().unwrap(), 80)]);
        }
        assert_eq!(slow.0.load(Ordering::Relaxed), 0);
    }
}
