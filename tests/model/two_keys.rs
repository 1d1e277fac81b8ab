//! R6: writes over several keys, every interleaving, on the real fences.

use std::collections::HashSet;

use palisade::fence::{
    Admission, Fence, Limits, Moment, Offer, Outcome, Regime, SetAdmission, Token, offer_all,
};

/// How the keys of one write are judged.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Mode {
    /// As R6 says.
    AllAtOnce,
    /// One after the other, nothing held meanwhile: must be seen to break.
    OneByOne,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Phase {
    Waiting { passed: usize },
    Flying { applied: bool },
    Over,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct World {
    fences: Vec<Fence>,
    phases: Vec<Phase>,
    floors: Vec<Option<Token>>,
    broken: bool,
}

type Writes<'a> = &'a [(u64, &'a [usize])];

fn offer(token: u64) -> Offer<'static> {
    Offer { token: Some(Token::new(token)), holder: None, claim: false, limits: Limits::default() }
}

/// Judges the keys; a raise is durable at once here. Whether the write flies now.
fn ask(world: &mut World, at: usize, writes: Writes<'_>, mode: Mode) -> bool {
    let (token, keys) = writes[at];
    match mode {
        Mode::AllAtOnce => loop {
            let mut fences: Vec<&mut Fence> = world
                .fences
                .iter_mut()
                .enumerate()
                .filter_map(|(key, fence)| keys.contains(&key).then_some(fence))
                .collect();
            match offer_all(&mut fences, &offer(token), Regime::default()) {
                SetAdmission::Forward(_) => return true,
                SetAdmission::Raise(marks) => {
                    for (place, mark) in marks {
                        fences[place].raised(&mark, mark.clone());
                    }
                }
                SetAdmission::Held(_, admission) => {
                    if admission.is_refusal() {
                        world.phases[at] = Phase::Over;
                    }
                    return false;
                }
            }
        },
        Mode::OneByOne => one_by_one(world, at, writes),
    }
}

/// The wrong way: each key's drain is looked at once, in turn.
fn one_by_one(world: &mut World, at: usize, writes: Writes<'_>) -> bool {
    let (token, keys) = writes[at];
    let Phase::Waiting { passed } = world.phases[at] else { return false };
    let claim = Offer { claim: true, ..offer(token) };
    let Some(key) = keys.get(passed) else {
        for key in keys {
            world.fences[*key].track(Some(Token::new(token)));
        }
        return true;
    };
    loop {
        match world.fences[*key].offer(&claim, Regime::default()) {
            Admission::Forward { .. } => {
                world.phases[at] = Phase::Waiting { passed: passed + 1 };
                return false;
            }
            Admission::Raise(mark) => world.fences[*key].raised(&mark, mark.clone()),
            Admission::Raising | Admission::Drain { .. } | Admission::InDoubt { .. } => {
                return false;
            }
            Admission::Stale
            | Admission::HolderConflict
            | Admission::Implausible
            | Admission::TokenMissing => {
                world.phases[at] = Phase::Over;
                return false;
            }
        }
    }
}

fn steps(world: &World, writes: Writes<'_>, mode: Mode) -> Vec<World> {
    let mut out = vec![];
    for (at, (token, keys)) in writes.iter().enumerate() {
        let token = Some(Token::new(*token));
        let mut next = world.clone();
        match world.phases[at] {
            Phase::Waiting { .. } => {
                if ask(&mut next, at, writes, mode) {
                    next.phases[at] = Phase::Flying { applied: false };
                }
            }
            Phase::Flying { applied: false } => {
                next.phases[at] = Phase::Flying { applied: true };
                for key in *keys {
                    next.broken |= token < next.floors[*key];
                    next.floors[*key] = next.floors[*key].max(token);
                }
            }
            Phase::Flying { applied: true } => {
                next.phases[at] = Phase::Over;
                for key in *keys {
                    next.fences[*key].settle(token, Outcome::Answered, Moment(0));
                }
            }
            Phase::Over => continue,
        }
        out.push(next);
    }
    out
}

/// Whether the promise held, and every write came to an end.
fn explore(writes: Writes<'_>, keys: usize, mode: Mode) -> bool {
    let first = World {
        fences: vec![Fence::new(None); keys],
        phases: vec![Phase::Waiting { passed: 0 }; writes.len()],
        floors: vec![None; keys],
        broken: false,
    };
    let (mut known, mut todo) = (HashSet::from([first.clone()]), vec![first]);
    while let Some(world) = todo.pop() {
        if world.broken {
            return false;
        }
        let next = steps(&world, writes, mode);
        let moved = next.iter().any(|next| *next != world);
        assert!(
            moved || world.phases.iter().all(|phase| *phase == Phase::Over),
            "stuck: {world:?}"
        );
        todo.extend(next.into_iter().filter(|next| known.insert(next.clone())));
    }
    true
}

const SETS: &[Writes<'static>] = &[
    &[(5, &[0, 1]), (6, &[0]), (4, &[1])],
    &[(5, &[0, 1]), (6, &[0, 1]), (4, &[1]), (3, &[0])],
    &[(5, &[0, 1]), (6, &[1, 2]), (7, &[0, 2]), (4, &[2])],
];

#[test]
fn several_keys_are_admitted_together_or_not_at_all() {
    for writes in SETS {
        assert!(explore(writes, 3, Mode::AllAtOnce));
    }
}

#[test]
fn judged_one_by_one_it_breaks() {
    for writes in SETS {
        assert!(!explore(writes, 3, Mode::OneByOne));
    }
}
