//! THE MEMORY. The highest durable token per key.
//!
//! It owns the files under `[store] path`: the marks in one SQLite database, a lock file, and the
//! marker that says that a store was made here. It knows no HTTP and never says no to a token: it
//! answers "the record is now this". It calls nothing of ours but the words of `fence`.
//!
//! [`open`] is the way in: it blocks, recovers (R2), compares how keys are made (R11) and says who
//! starts in quarantine (R5, R10). From then on nothing blocks a caller: one thread commits, two
//! read, one checkpoints, and the first failed write or sync poisons them all.

mod answer;
mod checkpoint;
mod contract;
mod directory;
mod error;
mod keying;
mod memory;
mod open;
mod poison;
mod queue;
mod reader;
mod record;
mod schema;
mod sqlite;
mod start;
mod threads;
mod wal;
mod writer;

#[cfg(test)]
mod tests;

pub use contract::{Done, StoreError, TokenStore};
pub use error::OpenError;
pub use memory::MemoryStore;
pub use open::open;
pub use sqlite::Store;

use std::{path::PathBuf, time::Duration};

use crate::fence::UpstreamId;

/// Whether two normalised path patterns can match one path. `proxy` knows; the store asks (R11).
pub type Overlaps = fn(&str, &str) -> bool;

/// Told how long each sync of the commit thread took. Called on that thread: it must not block.
pub type Observer = Box<dyn Fn(Duration) + Send + Sync>;

/// `[store]`, and what a start must know of the upstreams (R5, R10, R11).
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the store's files.
    pub path: PathBuf,
    /// Whether a missing store is made.
    pub create: Create,
    /// Most bytes of the database's pages that are kept in memory, all connections together.
    pub page_cache: u64,
    /// `--fresh`: the store must not exist yet, and nothing is writing yet.
    pub fresh: bool,
    /// `--rekey UPSTREAM`: upstreams whose keys may be made differently from now on.
    pub rekey: Vec<String>,
    /// Every upstream of the configuration.
    pub upstreams: Vec<UpstreamFacts>,
}

/// `create` under `[store]`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Create {
    /// A missing store is an error: a lost volume must not look like a first day.
    #[default]
    Never,
    /// A missing store is made, and starts in quarantine.
    IfMissing,
}

/// What the store remembers of an upstream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UpstreamFacts {
    /// Its name in the configuration.
    pub name: String,
    /// `http://host:port`, normalised, or `dir:DEV:INODE`: two upstreams never share one.
    pub address: String,
    /// `max_write_lifetime`.
    pub lifetime: Duration,
    /// A route lets writes through that no rule holds back (`off`, `sticky`, `enforce = false`).
    pub unfenced: bool,
    /// How its keys are made, one entry per route pattern, in the order of the configuration.
    pub keying: Vec<Keying>,
}

/// How one pattern's keys are made (R11): compared at every start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Keying {
    /// The route's path pattern as normalised by `proxy`.
    pub pattern: String,
    /// The key template as normalised by `proxy`, with the upstream's folds after it.
    pub template: String,
}

/// What [`open`] gives.
#[derive(Debug)]
pub struct Opened {
    /// The store, its threads running.
    pub store: Store,
    /// What the start found.
    pub boot: Boot,
}

/// What a start found, for the gate to begin with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Boot {
    /// The store was just made.
    pub created: bool,
    /// It existed, and no upstream of this configuration that it knows was left without a clean
    /// mark.
    pub clean: bool,
    /// One entry per upstream, in the order of [`Options::upstreams`].
    pub upstreams: Vec<UpstreamBoot>,
}

/// How one upstream starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UpstreamBoot {
    /// Its number: the first bytes of its keys.
    pub id: UpstreamId,
    /// How long its earlier writes may still take effect (R5); `None` where there are none.
    pub quarantine: Option<Duration>,
    /// In that quarantine every key counts as contested (R10).
    pub all_contested: bool,
    /// `unfenced` as it is now stored (R10).
    pub unfenced: bool,
    /// `--rekey` was needed: its marks were just voided (R11). Worth a loud line in the log.
    pub rekeyed: bool,
}
