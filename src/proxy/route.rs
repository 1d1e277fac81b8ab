//! One `[[routes]]` entry, validated: what it matches and what it fences.

use std::sync::Arc;

use crate::gate::Policy;

/// A validated route.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its path pattern as written; the metrics' label.
    pub path: String,
    /// The upstream's place in the configuration.
    pub upstream: usize,
    /// What it asks of the gate.
    pub policy: Arc<Policy>,
    /// Methods that are reads.
    pub reads: Vec<http::Method>,
    /// Methods that are writes.
    pub writes: Vec<http::Method>,
    /// `reads = "check"`: a read with a stale token is refused.
    pub check_reads: bool,
    /// Names of the token field, the first one is preferred in words.
    pub token_headers: Vec<http::HeaderName>,
    /// The status of `stale-token`: 412, 409, 403 or 423.
    pub stale_status: http::StatusCode,
    /// Whether `Fencing-Highest` is shown.
    pub reveal_highest: bool,
    /// Largest body of a request in bytes.
    pub max_body: Option<u64>,
}
