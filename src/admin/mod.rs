//! The operator's door: health, metrics, what there is, and the hand on one key (R12).
//!
//! It owns a listener of its own, meant for a thread and runtime of its own ([`spawn`]), so that
//! health answers under load. It knows no state: it asks a [`Control`], which `main` builds from the
//! gate. Each change carries a reason and is a log line of target `audit`. A change is refused to
//! whatever a browser could be tricked into sending.

mod body;
mod change;
mod guard;
mod handle;
mod listing;
mod overview;
mod path;
mod problem;
mod serve;
mod view;

#[cfg(test)]
mod tests;

pub use overview::{RouteStatus, Status, UpstreamStatus};
pub use serve::{serve, spawn};

use std::{fmt, future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use crate::{
    fence::{Key, Token, UpstreamId},
    gate::{Advanced, ListError, Listing, OperatorError, Released, Snapshot},
    metrics::Metrics,
    store::StoreError,
};

/// `[admin]`, validated.
#[derive(Clone)]
pub struct Options {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The bearer token that every path but `/livez` and `/readyz` then needs. An empty one lets
    /// nothing in.
    pub token: Option<String>,
}

impl fmt::Debug for Options {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("listen", &self.listen)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .finish()
    }
}

/// A future behind a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the process is doing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ProcessState {
    /// Nothing is served yet.
    Starting,
    /// Requests are served; a quarantine may hold some back.
    Ready,
    /// It was told to stop and lets open writes end.
    Stopping,
    /// It takes no more writes and must be restarted (R2); the reason.
    Poisoned(String),
}

/// What the admin listener can ask of the rest of the process.
///
/// Its futures run on the admin listener's runtime. A future of a change is polled to its end even
/// if the operator hangs up.
pub trait Control: Send + Sync {
    /// The number of an upstream by its name in the configuration.
    fn resolve(&self, upstream: &str) -> Option<UpstreamId>;

    /// What the process is doing now.
    fn state(&self) -> ProcessState;

    /// Upstreams in quarantine (R5) and the time that is left.
    fn quarantines(&self) -> Vec<(String, Duration)>;

    /// The process as a whole, but for its state.
    fn status(&self) -> Status;

    /// Every route, in the order in which they are tried.
    fn routes(&self) -> Vec<RouteStatus>;

    /// The name of a key's upstream in the configuration.
    fn upstream(&self, key: &Key) -> String;

    /// The records whose key, written `UPSTREAM:KEY`, starts with `prefix` and comes after `after`.
    fn list(
        &self,
        prefix: Vec<u8>,
        after: Option<Key>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Listing, ListError>>;

    /// The key as it is now. A key that nothing is known of is a snapshot with nothing in it.
    fn show(&self, key: Key) -> BoxFuture<'_, Result<Snapshot, StoreError>>;

    /// R12: raises the mark durably. `force` sets R9 aside.
    fn advance(
        &self,
        key: Key,
        token: Token,
        force: bool,
    ) -> BoxFuture<'_, Result<Advanced, OperatorError>>;

    /// R12: ends doubt and quarantine of the key, on the operator's word.
    fn release(&self, key: Key) -> BoxFuture<'_, Result<Released, OperatorError>>;

    /// R12: leaves a record without a token, contested.
    fn reset(&self, key: Key) -> BoxFuture<'_, Result<(), OperatorError>>;
}

/// The admin listener's service.
pub struct Admin {
    options: Options,
    control: Arc<dyn Control>,
    metrics: Arc<Metrics>,
}

impl Admin {
    /// A service that asks `control` and shows `metrics`.
    pub fn new(options: Options, control: Arc<dyn Control>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { options, control, metrics })
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Who asks.
    pub peer: SocketAddr,
    /// The address that was connected to.
    pub local: SocketAddr,
}
