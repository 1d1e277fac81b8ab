//! The admin listener's documents, as far as they are printed.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) version: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) uptime_seconds: f64,
    pub(super) store: Store,
    pub(super) upstreams: Vec<Upstream>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Store {
    pub(super) path: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Upstream {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) quarantine_seconds_left: Option<f64>,
    pub(super) unfenced: bool,
    pub(super) keys_in_memory: u64,
    pub(super) in_flight_writes: u64,
    pub(super) waiting_writes: u64,
    pub(super) in_doubt_keys: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Key {
    #[serde(rename = "key")]
    pub(super) name: String,
    pub(super) highest: Option<String>,
    pub(super) durable: Option<Mark>,
    pub(super) in_flight: Vec<InFlight>,
    pub(super) in_doubt: Vec<InDoubt>,
    pub(super) waiting: u64,
    pub(super) quarantine_seconds_left: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Mark {
    pub(super) token: Option<String>,
    pub(super) contested: bool,
    pub(super) holder: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InFlight {
    pub(super) token: Option<String>,
    pub(super) count: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct InDoubt {
    pub(super) token: Option<String>,
    pub(super) seconds_left: f64,
}

/// A page of `GET /v1/keys`. The records are printed as they came, too.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    pub(super) keys: Vec<serde_json::Value>,
    pub(super) next: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Record {
    pub(super) key: String,
    #[serde(flatten)]
    pub(super) mark: Mark,
}

#[derive(Debug, Deserialize)]
pub(super) struct Advanced {
    pub(super) key: String,
    pub(super) highest: String,
    pub(super) lower_open: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Released {
    pub(super) key: String,
    pub(super) doubts_ended: u64,
    pub(super) quarantine_ended: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Reset {
    pub(super) key: String,
    /// Always true; without it this is no answer to a reset.
    #[serde(rename = "reset")]
    pub(super) _reset: bool,
}
