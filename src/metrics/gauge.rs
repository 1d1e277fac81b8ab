//! A number that goes up and down.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

/// A gauge. Cheap to clone; clones are the same gauge.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// One more.
    pub fn inc(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// One less.
    pub fn dec(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    /// Exactly `value`.
    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    /// The value now.
    pub fn value(&self) -> i64 {
        self.0.load(Relaxed)
    }

    /// One more until what is returned is dropped, however that comes about.
    #[must_use = "it counts only while it is kept"]
    pub fn enter(&self) -> Entered {
        self.inc();
        Entered(self.clone())
    }
}

/// One unit of a [`Gauge`], given back on drop.
#[derive(Debug)]
pub struct Entered(Gauge);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.dec();
    }
}
