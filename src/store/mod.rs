//! THE MEMORY. The highest durable token per key.
//!
//! It owns the files under `[store] path`. It knows no HTTP and never says no to a token: it answers
//! "the record is now this".

mod contract;

pub use contract::{Done, StoreError, TokenStore};

use std::{path::PathBuf, time::Duration};

/// `[store]`, and what a start must know of the upstreams (R5, R10, R11).
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the store's files.
    pub path: PathBuf,
    /// Whether a missing store is made.
    pub create: Create,
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
