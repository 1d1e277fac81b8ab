//! THE RULE. What may pass, decided for one key at a time.
//!
//! It owns the vocabulary (token, key, mark, outcome) and the state machine of one key. It knows no
//! I/O, no clock and no async: `now` is passed in, and the caller carries out what a verdict asks.
//! Rules are cited by their numbers (R1 to R12); ARCHITECTURE.md lists them.

mod key;
mod mark;
mod offer;
mod set;
mod state;
mod token;

pub use key::{Holder, Key, UpstreamId};
pub use mark::{Mark, Moment, Outcome};
pub use offer::{Admission, Limits, Offer, Regime};
pub use set::{SetAdmission, offer_all};
pub use state::Fence;
pub use token::{Token, TokenError};

#[cfg(test)]
mod tests;
