//! What an operator can see and do to one key (R12).

use std::time::Duration;

use crate::{
    fence::{Mark, Token},
    store::StoreError,
};

/// One key as it is now.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The highest token seen.
    pub highest: Option<Token>,
    /// The record as on disk; `None` where there is none.
    pub durable: Option<Mark>,
    /// Writes in flight: their token and how many.
    pub in_flight: Vec<(Option<Token>, usize)>,
    /// Writes in doubt: their token and the time that is left.
    pub in_doubt: Vec<(Option<Token>, Duration)>,
    /// Writes and claims that wait.
    pub waiting: usize,
    /// What is left of the quarantine that holds this key back, if one does.
    pub quarantine: Option<Duration>,
}

/// What an advance did.
#[derive(Clone, Debug)]
pub struct Advanced {
    /// The mark now.
    pub highest: Token,
    /// Lower writes that are in flight or in doubt, and may still take effect.
    pub lower_open: usize,
}

/// What a release did.
#[derive(Clone, Debug)]
pub struct Released {
    /// Writes whose doubt was ended: the promise now rests on the operator's word for them.
    pub doubts: usize,
    /// Whether a quarantine of the key was ended.
    pub quarantine: bool,
}

/// Why an operator's change was refused; nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OperatorError {
    /// The token is below the mark.
    #[error("the token is below the highest one seen, {0}")]
    Lower(Token),
    /// R9 forbids the token and it was not forced.
    #[error("the token is beyond what the route allows")]
    Implausible,
    /// R12: a reset needs a quiet key.
    #[error("writes are in flight, in doubt or waiting, or a quarantine runs")]
    Busy,
    /// The store could not be asked or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}
