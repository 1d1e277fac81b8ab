//! The process as a whole: what `GET /v1/status` and `GET /v1/routes` tell. Times are seconds.

use std::{path::PathBuf, time::Duration};

use serde::{Serialize, Serializer};

use super::{
    ProcessState,
    view::{self, state_words},
};
use crate::gate::Standing;

/// What is known of the process beside its state.
#[derive(Clone, Debug)]
pub struct Status {
    /// Since its start.
    pub uptime: Duration,
    /// Where the marks are kept.
    pub store: PathBuf,
    /// Every upstream, in the configuration's order.
    pub upstreams: Vec<UpstreamStatus>,
}

/// One upstream.
#[derive(Clone, Debug)]
pub struct UpstreamStatus {
    /// `files`, `http`, `https` or `unix`.
    pub kind: &'static str,
    /// Where it is: a url or a directory, never a secret.
    pub address: String,
    /// What the gate knows of it.
    pub standing: Standing,
}

/// One route, for people and scripts.
#[derive(Clone, Debug, Serialize)]
pub struct RouteStatus {
    /// Its path pattern as written.
    pub path: String,
    /// The names that it is narrowed to; empty for all.
    pub hosts: Vec<String>,
    /// The methods that it is narrowed to; empty for all.
    pub methods: Vec<String>,
    /// Its upstream's name.
    pub upstream: String,
    /// The key's template as written; `None` for the whole path.
    pub key: Option<String>,
    /// Letters of its keys are in lower case.
    pub fold_case: bool,
    /// `required`, `sticky` or `off`.
    pub token: &'static str,
    /// Whether it refuses, or only says what it would refuse.
    pub enforce: bool,
    /// `abort` or `wait`.
    pub takeover: &'static str,
    /// How long a write waits for lower ones.
    #[serde(rename = "drain_timeout_seconds", serialize_with = "seconds")]
    pub drain_timeout: Duration,
    /// The longest that a takeover can take; `None` where nothing waits, or there is no bound.
    #[serde(rename = "worst_wait_seconds", serialize_with = "maybe_seconds")]
    pub worst_wait: Option<Duration>,
    /// Whether there is a bound.
    pub worst_wait_bounded: bool,
}

/// The body of `GET /v1/status`.
#[derive(Serialize)]
pub(super) struct StatusView {
    version: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(serialize_with = "seconds", rename = "uptime_seconds")]
    uptime: Duration,
    store: StoreView,
    upstreams: Vec<UpstreamView>,
}

#[derive(Serialize)]
struct StoreView {
    path: String,
}

#[derive(Serialize)]
struct UpstreamView {
    name: String,
    kind: &'static str,
    address: String,
    #[serde(serialize_with = "maybe_seconds", rename = "quarantine_seconds_left")]
    quarantine: Option<Duration>,
    unfenced: bool,
    keys_in_memory: usize,
    in_flight_writes: usize,
    waiting_writes: usize,
    in_doubt_keys: usize,
}

impl StatusView {
    pub(super) fn new(state: ProcessState, status: Status) -> Self {
        let (state, reason) = state_words(state);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            state,
            reason,
            uptime: status.uptime,
            store: StoreView { path: status.store.display().to_string() },
            upstreams: status.upstreams.into_iter().map(UpstreamView::new).collect(),
        }
    }
}

impl UpstreamView {
    fn new(upstream: UpstreamStatus) -> Self {
        let UpstreamStatus { kind, address, standing } = upstream;
        Self {
            name: standing.upstream,
            kind,
            address,
            quarantine: standing.quarantine,
            unfenced: standing.unfenced,
            keys_in_memory: standing.keys,
            in_flight_writes: standing.in_flight,
            waiting_writes: standing.waiting,
            in_doubt_keys: standing.in_doubt,
        }
    }
}

/// The body of `GET /v1/routes`.
#[derive(Serialize)]
pub(super) struct RoutesView {
    pub(super) routes: Vec<RouteStatus>,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(view::seconds(*time))
}

#[expect(clippy::ref_option, reason = "the form that serde calls")]
fn maybe_seconds<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(view::seconds).serialize(to)
}
