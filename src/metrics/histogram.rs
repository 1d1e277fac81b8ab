//! Durations in fixed buckets.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// How many bounds a histogram has; the bucket above the last one is not counted.
const BOUNDS: usize = 18;

/// An upper bound, inclusive: in nanoseconds, and in seconds as it is written.
///
/// The words are what both formats want: `OpenMetrics` asks for `1.0`, and the same series must not
/// change its name with the format.
type Bound = (u64, &'static str);

/// For what should take microseconds to seconds.
pub(super) static LATENCIES: [Bound; BOUNDS] = [
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1.0"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5.0"),
    (10_000_000_000, "10.0"),
    (30_000_000_000, "30.0"),
    (60_000_000_000, "60.0"),
];

/// For what lasts as long as a lock is held or an old write is feared: milliseconds to a day.
pub(super) static SPANS: [Bound; BOUNDS] = [
    (1_000_000, "0.001"),
    (10_000_000, "0.01"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1.0"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5.0"),
    (10_000_000_000, "10.0"),
    (30_000_000_000, "30.0"),
    (60_000_000_000, "60.0"),
    (120_000_000_000, "120.0"),
    (300_000_000_000, "300.0"),
    (900_000_000_000, "900.0"),
    (3_600_000_000_000, "3600.0"),
    (14_400_000_000_000, "14400.0"),
    (43_200_000_000_000, "43200.0"),
    (86_400_000_000_000, "86400.0"),
];

/// A histogram of durations.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds: &'static [Bound; BOUNDS],
    /// Not cumulative; the last one is above every bound.
    buckets: [AtomicU64; BOUNDS + 1],
    nanos: AtomicU64,
}

impl Histogram {
    pub(super) const fn new(bounds: &'static [Bound; BOUNDS]) -> Self {
        let buckets = [const { AtomicU64::new(0) }; BOUNDS + 1];
        Self { bounds, buckets, nanos: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, elapsed: Duration) {
        let nanos = nanos(elapsed);
        let bucket = self.bounds.partition_point(|(bound, _)| *bound < nanos);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// The cumulative counts under their bounds, the last one under `+Inf`.
    ///
    /// The count is taken from here, so that the two cannot differ within one scrape.
    pub(super) fn cumulative(&self) -> [(&'static str, u64); BOUNDS + 1] {
        let mut sum = 0;
        std::array::from_fn(|at| {
            sum += self.buckets[at].load(Relaxed);
            (self.bounds.get(at).map_or("+Inf", |(_, words)| words), sum)
        })
    }

    /// The sum of all durations in nanoseconds.
    pub(super) fn sum_nanos(&self) -> u64 {
        self.nanos.load(Relaxed)
    }
}

/// A duration in nanoseconds, at most 584 years.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
