//! Every interleaving on one key, with each rule and without each.

use std::collections::{HashSet, VecDeque};

use crate::one_key::{Bounds, Without, World, steps, world};

/// Far above what the scenarios need: a run that is cut short proves nothing and fails.
const MOST_STATES: usize = 3_000_000;

/// The number of states, and the state in which the promise is broken if there is one.
fn explore(tokens: &[i64], bounds: Bounds, off: Option<Without>) -> (usize, Option<World>) {
    let first = world(tokens, bounds);
    let mut known = HashSet::from([first.clone()]);
    let mut todo = VecDeque::from([first]);
    while let Some(state) = todo.pop_front() {
        if state.broken.is_some() {
            return (known.len(), Some(state));
        }
        for next in steps(&state, bounds, off) {
            if known.insert(next.clone()) {
                todo.push_back(next);
            }
        }
        assert!(known.len() < MOST_STATES, "{tokens:?} {bounds:?}: too many states");
    }
    (known.len(), None)
}

const NONE: Bounds = Bounds {
    kills: 0,
    powers: 0,
    stops: 0,
    releases: 0,
    truthful: false,
    accepted: false,
    observe: false,
    sticky: false,
};

/// Name, tokens, what may happen, and the rules whose absence this scenario must show.
type Scenario = (&'static str, &'static [i64], Bounds, &'static [Without]);

const SCENARIOS: &[Scenario] = &[
    (
        "two writers, no crash",
        &[1, 2],
        NONE,
        &[Without::Refusal, Without::Recheck, Without::Drain, Without::Doubt],
    ),
    ("three tokens", &[1, 2, 3], NONE, &[Without::Drain]),
    ("equal tokens side by side", &[1, 2, 1, 2], NONE, &[Without::Recheck]),
    (
        "one crash",
        &[1, 2, 2],
        Bounds { kills: 1, ..NONE },
        &[Without::DurableFirst, Without::Quarantine, Without::Contested],
    ),
    ("one crash, the lower token twice", &[1, 1, 2], Bounds { kills: 1, ..NONE }, &[]),
    ("two crashes", &[1, 2, 2], Bounds { kills: 2, ..NONE }, &[Without::Quarantine]),
    ("a claim", &[1, 2, -2], Bounds { kills: 1, ..NONE }, &[Without::Drain, Without::Doubt]),
    ("a claim between tokens", &[1, -2, 3], Bounds { kills: 1, ..NONE }, &[]),
    ("a claim, two crashes", &[1, -2, 2], Bounds { kills: 2, ..NONE }, &[Without::Quarantine]),
    (
        "a power loss after a crash",
        &[1, 2, 2],
        Bounds { kills: 1, powers: 1, ..NONE },
        &[Without::SyncOnStart],
    ),
    (
        "a clean stop after a crash",
        &[1, 2, 2],
        Bounds { kills: 1, stops: 1, ..NONE },
        &[Without::NoCleanStopInQuarantine],
    ),
    (
        "a crash after a clean stop",
        &[1, 2],
        Bounds { kills: 1, stops: 1, ..NONE },
        &[Without::UnmarkFirst],
    ),
    (
        "the end of a quarantine",
        &[1, 1, 2, 2],
        Bounds { kills: 2, ..NONE },
        &[Without::QuarantineClearsNothing],
    ),
    (
        "a clear that comes late",
        &[1, 2, 3, 3],
        Bounds { kills: 1, ..NONE },
        &[Without::ConditionalClear],
    ),
    (
        "sticky: a write without a token",
        &[0, 1, 1],
        Bounds { kills: 1, sticky: true, ..NONE },
        &[Without::TokenlessCounts, Without::UnfencedIsKept],
    ),
    ("sticky: two tokens", &[0, 1, 2], Bounds { kills: 1, sticky: true, ..NONE }, &[]),
    ("sticky: a claim", &[0, -1, 1], Bounds { kills: 1, sticky: true, ..NONE }, &[]),
    (
        "enforced by a reload",
        &[1, 2, 2],
        Bounds { observe: true, ..NONE },
        &[Without::ObservedCounts],
    ),
    (
        "enforced by a restart",
        &[1, 2, 2],
        Bounds { observe: true, kills: 1, ..NONE },
        &[Without::UnfencedIsKept],
    ),
    (
        "a release by an operator who is right, then a crash",
        &[1, 2, 2],
        Bounds { kills: 1, releases: 1, truthful: true, ..NONE },
        &[Without::FlyingStaysContested],
    ),
    (
        "a release in a quarantine, by an operator who is right",
        &[1, 2],
        Bounds { kills: 2, releases: 1, truthful: true, ..NONE },
        &[],
    ),
    ("202", &[1, 2], Bounds { accepted: true, ..NONE }, &[Without::AcceptedIsUnknown]),
];

#[test]
fn the_promise_holds_in_every_interleaving() {
    for (name, tokens, bounds, _) in SCENARIOS {
        let (states, broken) = explore(tokens, *bounds, None);
        println!("{name}: {tokens:?}, {states} states");
        assert!(broken.is_none(), "{name}: {broken:#?}");
        assert!(states > 20, "{name}: explored nothing");
    }
}

#[test]
fn each_rule_taken_out_breaks_it() {
    for (name, tokens, bounds, rules) in SCENARIOS {
        for rule in *rules {
            let (states, broken) = explore(tokens, *bounds, Some(*rule));
            assert!(broken.is_some(), "{name} without {rule:?} still holds, {states} states");
        }
    }
}

/// What an operator is warned of: a release may break the promise (R12).
#[test]
fn a_release_may_break_it() {
    let (_, broken) = explore(&[1, 2], Bounds { releases: 1, ..NONE }, None);
    assert!(broken.is_some());
}

/// Why `unfenced` exists (R10): a key without a record is free only where nothing went past the
/// fence.
#[test]
fn a_sticky_key_without_a_record_is_not_free() {
    let kept = Bounds { kills: 1, sticky: true, ..NONE };
    assert!(explore(&[0, 1], kept, None).1.is_none());
    assert!(explore(&[0, 1], kept, Some(Without::UnfencedIsKept)).1.is_some());
}
