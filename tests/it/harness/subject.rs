//! What a scenario of the promise runs against: palisade, or the naive proxy.

use std::{net::SocketAddr, time::Duration};

use super::{Backend, Config, LIFETIME, Naive, Palisade};

/// A fencing proxy under test.
pub trait Subject {
    fn addr(&self) -> SocketAddr;

    /// kill -9.
    fn kill9(&mut self);

    /// Starts again, with what it has on disk.
    fn restart(&mut self);
}

impl Subject for Palisade {
    fn addr(&self) -> SocketAddr {
        self.addr()
    }

    fn kill9(&mut self) {
        self.kill9();
    }

    fn restart(&mut self) {
        self.restart();
    }
}

impl Subject for Naive {
    fn addr(&self) -> SocketAddr {
        self.addr()
    }

    fn kill9(&mut self) {
        self.kill9();
    }

    fn restart(&mut self) {
        self.restart();
    }
}

/// The naive proxy's response time-out. Longer than palisade's: it counts from the request's start,
/// and a slow machine must have sent the request by then.
const NAIVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The configuration under which the scenarios run.
pub fn promise_config(backend: &Backend) -> Config {
    Config::http(backend.addr()).upstream("response_timeout", "300ms")
}

/// Runs a scenario against palisade: whatever happens, tokens that take effect never go down.
pub fn keeps_the_promise(
    adjust: impl FnOnce(Config) -> Config,
    scenario: impl FnOnce(&mut dyn Subject, &Backend),
) {
    let backend = Backend::with_bound(Some(LIFETIME));
    let mut palisade = Palisade::start(&adjust(promise_config(&backend)));
    scenario(&mut palisade, &backend);
    backend.log().assert_never_down();
}

/// Runs the same against the naive proxy, which must break the promise. Its store keeps no bound:
/// a machine that is slow must not hide the fall.
pub fn naive_breaks_the_promise(scenario: impl FnOnce(&mut dyn Subject, &Backend)) {
    let backend = Backend::with_bound(None);
    let mut naive = Naive::start(backend.addr(), NAIVE_TIMEOUT);
    scenario(&mut naive, &backend);
    let fall = backend.log().fall();
    assert!(fall.is_some(), "the scenario shows nothing: {:#?}", backend.log().arrivals());
}
