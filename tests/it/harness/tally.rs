//! Counts of what happened, by name.

use std::{
    collections::BTreeMap,
    fmt::{Display, Formatter, Result},
    sync::Mutex,
};

/// How often what has happened.
#[derive(Default)]
pub struct Tally(Mutex<BTreeMap<String, u64>>);

impl Tally {
    pub fn count(&self, what: &str) {
        self.add(what, 1);
    }

    fn add(&self, what: &str, times: u64) {
        *self.0.lock().unwrap().entry(what.to_string()).or_default() += times;
    }

    /// Adds all of another's.
    pub fn merge(&self, other: &Self) {
        for (name, count) in &*other.0.lock().unwrap() {
            self.add(name, *count);
        }
    }

    /// The sum over all names that begin so.
    pub fn sum(&self, start: &str) -> u64 {
        let counts = self.0.lock().unwrap();
        counts.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, count)| count).sum()
    }
}

impl Display for Tally {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let counts = self.0.lock().unwrap();
        let counts = counts.iter().map(|(name, count)| format!("{name} {count}"));
        out.write_str(&counts.collect::<Vec<_>>().join(", "))
    }
}
