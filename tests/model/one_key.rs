//! One key in a hostile world: the real fence, and around it a store that applies late, a disk that
//! loses what was not synced, and an operator who kills, stops and reconfigures.

mod steps;

pub(crate) use steps::steps;

use palisade::fence::{Admission, Fence, Limits, Mark, Moment, Offer, Outcome, Regime, Token};

/// `max_write_lifetime`, in ticks of one.
pub(crate) const LIFETIME: u64 = 1;

/// Each is a part of a rule that can be taken out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Without {
    /// R1: the verdict is not taken again when the write becomes in flight.
    Recheck,
    /// R1: a stale token is let through.
    Refusal,
    /// R2: forwarded before the raise is durable.
    DurableFirst,
    /// R2: an unclean start takes what it finds for durable.
    SyncOnStart,
    /// R3: lower writes in flight are not waited for.
    Drain,
    /// R4: an unknown outcome is taken for a settled one.
    Doubt,
    /// R4: a 202 is taken for an answer.
    AcceptedIsUnknown,
    /// R5: no quarantine after a crash.
    Quarantine,
    /// R5: a raise is never written contested.
    Contested,
    /// R5: the end of a quarantine clears `contested`.
    QuarantineClearsNothing,
    /// R5: a clear hits whatever record is there.
    ConditionalClear,
    /// R5: the clean mark is left in place by a start.
    UnmarkFirst,
    /// R5: a clean stop in a quarantine.
    NoCleanStopInQuarantine,
    /// R12: a release clears the record of a key with lower writes in flight.
    FlyingStaysContested,
    /// R10: writes without a token are not counted.
    TokenlessCounts,
    /// R10: writes of a route that does not enforce are not counted.
    ObservedCounts,
    /// R10: `unfenced` is not kept.
    UnfencedIsKept,
}

/// What a scenario allows to happen, and how often.
#[expect(clippy::struct_excessive_bools, reason = "a table of switches")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) kills: u8,
    pub(crate) powers: u8,
    pub(crate) stops: u8,
    pub(crate) releases: u8,
    /// The operator who releases is right: what is in doubt is not applied.
    pub(crate) truthful: bool,
    pub(crate) accepted: bool,
    /// The run starts with `enforce = false`.
    pub(crate) observe: bool,
    /// A route is `sticky`: `unfenced` is kept.
    pub(crate) sticky: bool,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Phase {
    Waiting {
        seen: bool,
    },
    Flying,
    Doubt {
        until: u64,
    },
    Over,
    /// Its process died; what it had sent may still arrive.
    Lost,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum AtStore {
    Nothing,
    Pending,
    Applied,
    Dropped,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Write {
    token: Option<Token>,
    claim: bool,
    enforced: bool,
    phase: Phase,
    at_store: AtStore,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Disk {
    record: Option<Mark>,
    unfenced: bool,
    clean: bool,
}

/// Everything there is, at one moment.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct World {
    writes: Vec<Write>,
    fence: Fence,
    submitted: Vec<Mark>,
    unsynced: Vec<Mark>,
    clears: Vec<Token>,
    written: Disk,
    synced: Disk,
    now: u64,
    quarantine: Option<u64>,
    all_contested: bool,
    enforce: bool,
    floor: Option<Token>,
    used: [u8; 4],
    /// The promise is broken: a lower effect after a higher one, or after an answered claim.
    pub(crate) broken: Option<(Option<Token>, Option<Token>)>,
}

/// A negative number is a claim, 0 a write without a token.
pub(crate) fn world(tokens: &[i64], bounds: Bounds) -> World {
    let writes = tokens
        .iter()
        .map(|number| Write {
            token: (*number != 0).then(|| Token::new(number.unsigned_abs())),
            claim: *number < 0,
            enforced: true,
            phase: Phase::Waiting { seen: false },
            at_store: AtStore::Nothing,
        })
        .collect();
    let disk = Disk { unfenced: bounds.observe || bounds.sticky, ..Disk::default() };
    World {
        writes,
        fence: Fence::new(None),
        submitted: vec![],
        unsynced: vec![],
        clears: vec![],
        written: disk.clone(),
        synced: disk,
        now: 0,
        quarantine: None,
        all_contested: false,
        enforce: !bounds.observe,
        floor: None,
        used: [0; 4],
        broken: None,
    }
}

impl World {
    fn effect(&mut self, token: Option<Token>, enforced: bool) {
        if token < self.floor {
            self.broken = Some((token, self.floor));
        }
        if enforced {
            self.floor = self.floor.max(token);
        }
    }

    fn answer_claim(&mut self, at: usize) {
        self.writes[at].phase = Phase::Over;
        self.effect(self.writes[at].token, true);
    }
}

impl Disk {
    fn raise(&mut self, mark: &Mark) {
        match &mut self.record {
            Some(record) if record.token > mark.token => {}
            Some(record) if record.token == mark.token => record.contested |= mark.contested,
            record => *record = Some(mark.clone()),
        }
    }
}
