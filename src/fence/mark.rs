//! What is remembered of a key, and how a write can end.

use super::{Holder, Token};

/// The record of one key: what the store keeps.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Mark {
    /// The highest token; `None` in a record that an operator reset.
    pub token: Option<Token>,
    /// Lower writes may have been open when it was raised; matters in a quarantine only (R5).
    pub contested: bool,
    /// The holder that the token is pinned to.
    pub holder: Option<Holder>,
}

/// How a forwarded write ended (R4). Exactly one per permit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// No byte was handed to the kernel.
    NotSent,
    /// Sent whole and answered whole, with a status that settles it; or known not to be applied.
    Answered,
    /// Everything else: the upstream may still apply it.
    Unknown,
}

/// A point in time, in microseconds since the process started its clock.
///
/// Given in by `gate`: the fence reads no clock.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Moment(pub u64);
