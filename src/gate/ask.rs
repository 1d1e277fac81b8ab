//! What is asked of the gate, and its answers.

use std::time::Duration;

use super::{Permit, Policy};
use crate::fence::{Admission, Fence, Holder, Key, Offer, Token};

/// A write or claim that asks to go on.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The key it touches.
    pub key: &'a Key,
    /// Its token; `None` where it has none, or one that could not be read on a route that does not
    /// enforce.
    pub token: Option<Token>,
    /// The holder it names.
    pub holder: Option<&'a Holder>,
    /// `Fencing-Claim`.
    pub claim: bool,
    /// What its route says.
    pub policy: &'a Policy,
}

/// It may go on.
#[derive(Debug)]
pub struct Admitted {
    /// Of a write: to be settled. A claim has none.
    pub permit: Option<Permit>,
    /// The mark now.
    pub highest: Option<Token>,
    /// On a route that does not enforce: what would have held it back.
    pub would_refuse: Option<Reason>,
}

/// It may not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Denied {
    /// Why.
    pub reason: Reason,
    /// The mark now.
    pub highest: Option<Token>,
}

/// Why a write or claim is held back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// R1: below the mark.
    Stale,
    /// R1: the mark is pinned to another holder.
    HolderConflict,
    /// R9.
    Implausible,
    /// The key has seen a token, and this write has none.
    TokenMissing,
    /// R3: lower writes are still in flight at `drain_timeout`.
    Draining,
    /// R3 to R5: lower writes may still take effect.
    InDoubt {
        /// The time that is left, as far as is known.
        left: Duration,
    },
    /// R2: the store failed, or did not answer in time.
    StoreUnavailable,
    /// Too many wait on this key.
    Overloaded,
    /// The process is stopping.
    ShuttingDown,
}

impl Ask<'_> {
    pub(super) fn offer(&self) -> Offer<'_> {
        Offer {
            token: self.token,
            holder: self.holder,
            claim: self.claim,
            limits: self.policy.limits(),
        }
    }

    /// The refusal of a key that nobody uses, where verdicts hold back: its fence alone decides.
    pub(super) fn refused_by(&self, fence: &Fence) -> Option<Denied> {
        let refusal = fence.compare(&self.offer()).filter(|_| self.policy.holds_back())?;
        Some(Denied { reason: Reason::from_refusal(&refusal), highest: fence.highest() })
    }
}

impl Reason {
    pub(super) fn from_refusal(refusal: &Admission) -> Self {
        match refusal {
            Admission::HolderConflict => Self::HolderConflict,
            Admission::Implausible => Self::Implausible,
            Admission::TokenMissing => Self::TokenMissing,
            // The rest is no refusal; the callers have taken it out.
            Admission::Stale
            | Admission::Forward { .. }
            | Admission::Raise(_)
            | Admission::Raising
            | Admission::Drain { .. }
            | Admission::InDoubt { .. } => Self::Stale,
        }
    }
}
