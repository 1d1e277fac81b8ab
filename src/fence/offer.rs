//! What is asked of a fence, and its answers.

use super::{Holder, Mark, Moment, Token};

/// A write or a claim that asks to go on. Asked again after every change until it may (R1).
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Its token; `None` is the lowest of all (a write without a token).
    pub token: Option<Token>,
    /// The holder it names.
    pub holder: Option<&'a Holder>,
    /// A claim raises and drains, but is nothing that can be in flight.
    pub claim: bool,
    /// What its route allows.
    pub limits: Limits,
}

/// A route's limits on tokens (R9) and on retries of one token.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The most by which a token may exceed the mark. A key's first token is not judged by it.
    pub max_jump: Option<u64>,
    /// The greatest token.
    pub max_token: Option<Token>,
    /// A write waits for the doubt of an earlier one with its own token as if that were lower.
    pub same_token_doubt_waits: bool,
    /// By the operator's force: R9 does not apply.
    pub forced: bool,
}

/// What the gate knows of the key's upstream at the moment of a verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Regime {
    /// The time.
    pub now: Moment,
    /// The end of the quarantine that this process started in (R5).
    pub quarantine: Option<Moment>,
    /// In that quarantine every key counts as contested (R10).
    pub all_contested: bool,
}

impl Regime {
    /// The end of the quarantine while it runs.
    pub fn quarantined(&self) -> Option<Moment> {
        self.quarantine.filter(|end| *end > self.now)
    }
}

/// The verdict on an offer. It changes with every change of the key: only [`Admission::Forward`]
/// is final, and it is taken in the same step in which the write becomes in flight.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Admission {
    /// Go on. A write now counts as in flight, a claim may be answered.
    Forward {
        /// The record's `contested` is to be cleared for this token (R5); not urgent.
        clear: Option<Token>,
    },
    /// Hand this mark to the store, report its answer, then offer again (R2).
    Raise(Mark),
    /// A raise that covers this offer is under way; offer again once it is answered.
    Raising,
    /// Lower writes are in flight; offer again after a change (R3).
    Drain {
        /// Not before this moment, whatever the writes in flight do.
        until: Option<Moment>,
    },
    /// Lower writes may still take effect until then; offer again at that moment (R4, R5).
    InDoubt {
        /// The earliest moment at which the verdict can change by itself.
        until: Moment,
    },
    /// R1: below the highest token.
    Stale,
    /// R1: the highest token, pinned to another holder.
    HolderConflict,
    /// R9: beyond what the route allows.
    Implausible,
    /// Without a token on a key that has seen one.
    TokenMissing,
}

impl Admission {
    /// Whether it refuses for good: no wait can turn it.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Stale | Self::HolderConflict | Self::Implausible | Self::TokenMissing)
    }
}

/// What a raise needs of the caller.
pub(super) enum Raise {
    /// Hand this mark to the store.
    Submit(Mark),
    /// Nothing: one that covers it is with the store already.
    UnderWay,
}

impl Raise {
    pub(super) fn submit(self) -> Option<Mark> {
        match self {
            Self::Submit(mark) => Some(mark),
            Self::UnderWay => None,
        }
    }
}
