//! What a route asks of the gate.

use std::time::Duration;

use crate::fence::{Limits, Token};

/// The part of a route that decides verdicts and waits.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `enforce`: whether verdicts hold anything back.
    pub enforce: bool,
    /// `token`.
    pub mode: Mode,
    /// `takeover`.
    pub takeover: Takeover,
    /// `drain_timeout`: how long a write waits for lower ones.
    pub drain_timeout: Duration,
    /// Most writes that wait on one key.
    pub max_waiters: usize,
    /// `max_jump` (R9).
    pub max_jump: Option<u64>,
    /// `max_token` (R9).
    pub max_token: Option<Token>,
    /// `generations`.
    pub generations: bool,
    /// `same_token_doubt = "wait"`.
    pub same_token_doubt_waits: bool,
}

impl Policy {
    /// Whether a verdict holds a write back.
    pub fn holds_back(&self) -> bool {
        self.enforce && self.mode != Mode::Off
    }

    /// What of it the fence judges by.
    pub fn limits(&self) -> Limits {
        Limits {
            max_jump: self.max_jump,
            max_token: self.max_token,
            same_token_doubt_waits: self.same_token_doubt_waits,
            forced: false,
        }
    }
}

/// A route's `token`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Every write carries a token.
    #[default]
    Required,
    /// Writes without one pass until the key has seen its first token.
    Sticky,
    /// The route's writes are counted, never held back.
    Off,
}

/// A route's `takeover` (R3).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Takeover {
    /// At `drain_timeout` the lower writes are cut.
    #[default]
    Abort,
    /// At `drain_timeout` the waiting write is refused.
    Wait,
}
