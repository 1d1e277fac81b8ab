//! What is counted: every series in one struct, with closed labels.
//!
//! It owns the counters and writes them in both text formats of Prometheus. Labels are a route's
//! path pattern, a [`ResultLabel`] and a [`MethodClass`]; never a key, a token or anything else a
//! client can choose. Recording is a few relaxed atomic additions at places found by number: no
//! lock, no look-up by name, no allocation. It calls nothing of ours.

mod encode;
mod gauge;
mod histogram;
mod label;
mod writer;

#[cfg(test)]
mod tests;

pub use gauge::{Entered, Gauge};
pub use label::{MethodClass, ResultLabel};
pub use writer::Format;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use histogram::{Histogram, LATENCIES, SPANS};

/// Every series. Made once in `main` and shared.
#[derive(Debug)]
pub struct Metrics {
    /// Writes that count as in flight (R4).
    pub in_flight_writes: Gauge,
    /// Keys with at least one write in doubt (R4).
    pub in_doubt_keys: Gauge,
    /// Writes and claims that wait for lower ones (R3) or for a quarantine (R5).
    pub waiting_writes: Gauge,
    /// Keys held in memory; the store keeps many more.
    pub keys: Gauge,
    /// Client connections that are open.
    pub connections: Gauge,
    /// Where the series of a route number are in `series`: routes of one pattern share them.
    places: Vec<usize>,
    /// One per distinct pattern, then the one of requests that no route matched.
    series: Vec<RouteSeries>,
    takeovers: AtomicU64,
    raises: Histogram,
    drains: Histogram,
    holds: Histogram,
    upstream: [Histogram; MethodClass::ALL.len()],
    store_syncs: Histogram,
    quarantine_nanos: AtomicU64,
}

/// The series of one path pattern.
#[derive(Debug)]
struct RouteSeries {
    label: String,
    stale_writes: AtomicU64,
    /// By `ResultLabel as usize`; a histogram's count is the number of requests.
    requests: Vec<Histogram>,
}

/// The label of requests that no route matched. Patterns start with a slash.
const NO_ROUTE: &str = "none";

impl Metrics {
    /// All series at zero. `routes` are the routes' path patterns by route number; routes that
    /// share a pattern share their series.
    pub fn new(routes: &[String]) -> Arc<Self> {
        let mut series: Vec<RouteSeries> = Vec::new();
        let mut places = Vec::with_capacity(routes.len());
        for pattern in routes {
            let known = series.iter().position(|one| one.label == *pattern);
            places.push(known.unwrap_or(series.len()));
            if known.is_none() {
                series.push(RouteSeries::new(pattern));
            }
        }
        series.push(RouteSeries::new(NO_ROUTE));
        Arc::new(Self {
            in_flight_writes: Gauge::default(),
            in_doubt_keys: Gauge::default(),
            waiting_writes: Gauge::default(),
            keys: Gauge::default(),
            connections: Gauge::default(),
            places,
            series,
            takeovers: AtomicU64::new(0),
            raises: Histogram::new(&LATENCIES),
            drains: Histogram::new(&SPANS),
            holds: Histogram::new(&SPANS),
            upstream: MethodClass::ALL.map(|_| Histogram::new(&LATENCIES)),
            store_syncs: Histogram::new(&LATENCIES),
            quarantine_nanos: AtomicU64::new(0),
        })
    }

    /// A request was answered, or its connection lost: once per request, from its head to its
    /// outcome. `route` is `None`, or out of range, where no route matched.
    pub fn request(&self, route: Option<usize>, result: ResultLabel, elapsed: Duration) {
        let series = self.place(route);
        series.requests[result as usize].observe(elapsed);
    }

    /// A write came with a token below the mark: work that went on after its lock was lost. Also
    /// counted where `enforce = false` lets it through.
    pub fn stale_write(&self, route: usize) {
        self.place(Some(route)).stale_writes.fetch_add(1, Relaxed);
    }

    /// A higher token cut lower writes (R3).
    pub fn takeover(&self) {
        self.takeovers.fetch_add(1, Relaxed);
    }

    /// A mark was raised durably; `elapsed` is from the verdict to the synced record.
    pub fn raised(&self, elapsed: Duration) {
        self.raises.observe(elapsed);
    }

    /// A write or claim that had to wait for lower ones no longer does, whatever its answer.
    pub fn drained(&self, elapsed: Duration) {
        self.drains.observe(elapsed);
    }

    /// A token gave way to a higher one; `elapsed` is from the first to the last write seen under
    /// it.
    pub fn held(&self, elapsed: Duration) {
        self.holds.observe(elapsed);
    }

    /// An upstream answered or failed; `elapsed` is from the permit to the outcome.
    pub fn upstream(&self, class: MethodClass, elapsed: Duration) {
        self.upstream[class as usize].observe(elapsed);
    }

    /// The store synced a commit.
    pub fn store_synced(&self, elapsed: Duration) {
        self.store_syncs.observe(elapsed);
    }

    /// What is left of the longest quarantine now. The admin listener sets it before each scrape.
    pub fn set_quarantine(&self, left: Duration) {
        self.quarantine_nanos.store(histogram::nanos(left), Relaxed);
    }

    /// All series in a text format.
    pub fn encode(&self, format: Format) -> String {
        encode::encode(self, format)
    }

    fn place(&self, route: Option<usize>) -> &RouteSeries {
        let last = self.series.len() - 1;
        let place = route.and_then(|route| self.places.get(route));
        &self.series[place.copied().unwrap_or(last)]
    }
}

impl RouteSeries {
    fn new(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            stale_writes: AtomicU64::new(0),
            requests: ResultLabel::ALL.iter().map(|_| Histogram::new(&LATENCIES)).collect(),
        }
    }
}
