//! What answers look like: tokens are strings, times are seconds.

use std::time::Duration;

use serde::Serialize;

use super::ProcessState;
use crate::{
    fence::{Mark, Token},
    gate::{Advanced, Released, Snapshot},
};

/// The body of `/readyz`.
#[derive(Serialize)]
pub(super) struct ReadinessView {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    quarantines: Vec<QuarantineView>,
}

#[derive(Serialize)]
struct QuarantineView {
    upstream: String,
    seconds_left: f64,
}

impl ReadinessView {
    pub(super) fn new(state: ProcessState, quarantines: Vec<(String, Duration)>) -> Self {
        let (state, reason) = state_words(state);
        let quarantines = quarantines
            .into_iter()
            .map(|(upstream, left)| QuarantineView { upstream, seconds_left: seconds(left) })
            .collect();
        Self { state, reason, quarantines }
    }
}

/// A key as `GET /v1/keys/{key}` shows it.
#[derive(Serialize)]
pub(super) struct KeyView<'a> {
    key: &'a str,
    highest: Option<String>,
    durable: Option<MarkView>,
    in_flight: Vec<InFlightView>,
    in_doubt: Vec<InDoubtView>,
    waiting: usize,
    quarantine_seconds_left: Option<f64>,
}

#[derive(Serialize)]
struct MarkView {
    token: Option<String>,
    contested: bool,
    holder: Option<String>,
}

#[derive(Serialize)]
struct InFlightView {
    token: Option<String>,
    count: usize,
}

#[derive(Serialize)]
struct InDoubtView {
    token: Option<String>,
    seconds_left: f64,
}

impl<'a> KeyView<'a> {
    pub(super) fn new(key: &'a str, snapshot: Snapshot) -> Self {
        let in_flight = snapshot.in_flight.into_iter();
        let in_doubt = snapshot.in_doubt.into_iter();
        Self {
            key,
            highest: words(snapshot.highest),
            durable: snapshot.durable.map(MarkView::new),
            in_flight: in_flight
                .map(|(token, count)| InFlightView { token: words(token), count })
                .collect(),
            in_doubt: in_doubt
                .map(|(token, left)| InDoubtView {
                    token: words(token),
                    seconds_left: seconds(left),
                })
                .collect(),
            waiting: snapshot.waiting,
            quarantine_seconds_left: snapshot.quarantine.map(seconds),
        }
    }
}

impl MarkView {
    fn new(mark: Mark) -> Self {
        Self {
            token: words(mark.token),
            contested: mark.contested,
            holder: mark.holder.map(|holder| holder.as_str().to_owned()),
        }
    }
}

/// What a change did.
#[derive(Serialize)]
pub(super) struct ChangeView<'a> {
    pub(super) key: &'a str,
    #[serde(flatten)]
    pub(super) done: Done,
}

/// What each action answers.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Done {
    Advanced {
        highest: String,
        /// Lower writes that may still take effect.
        lower_open: usize,
    },
    Released {
        doubts_ended: usize,
        quarantine_ended: bool,
    },
    Reset {
        reset: bool,
    },
}

impl Done {
    /// For the audit trail.
    pub(super) fn words(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl From<Advanced> for Done {
    fn from(advanced: Advanced) -> Self {
        Self::Advanced { highest: advanced.highest.to_string(), lower_open: advanced.lower_open }
    }
}

impl From<Released> for Done {
    fn from(released: Released) -> Self {
        Self::Released { doubts_ended: released.doubts, quarantine_ended: released.quarantine }
    }
}

pub(super) fn words(token: Option<Token>) -> Option<String> {
    token.map(|token| token.to_string())
}

/// A state's word, and why it is so.
pub(super) fn state_words(state: ProcessState) -> (&'static str, Option<String>) {
    match state {
        ProcessState::Starting => ("starting", None),
        ProcessState::Ready => ("ready", None),
        ProcessState::Stopping => ("stopping", None),
        ProcessState::Poisoned(reason) => ("poisoned", Some(reason)),
    }
}

/// Seconds, to the millisecond.
pub(super) fn seconds(left: Duration) -> f64 {
    left.as_millis() as f64 / 1000.0
}
