//! Whole processes in a simulated world, each run drawn from one seed.
//!
//! Real: `fence`, `gate`, `store` on real files, `proxy::fate`. Simulated: the clock (tokio's, paused),
//! clients, the proxy's path of a write, the upstream, how long a commit takes and whether it fails,
//! when a process dies, and what of an unsynced commit is on the disk then. Not simulated: sockets,
//! two cores at once, a crash within the few milliseconds of a start, and what a file system does to a
//! database while its log is written back. There is no reload yet: a configuration changes with a restart.
//!
//! `PALISADE_SEEDS=100000` plays so many runs, `PALISADE_SEED=7` plays one and prints what happens.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by a panic and tells what it did"
)]

mod backend;
mod book;
mod breakage;
mod disk;
mod exchange;
mod life;
mod people;
mod plan;
mod proxy;
mod run;
mod sets;
mod world;

use std::{
    env,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use parking_lot::Mutex;

use self::{
    breakage::Breakage,
    run::{Report, play},
    world::Counts,
};

/// Played by default.
const SEEDS: u64 = 1000;
/// Within so many seeds a rule that is taken out must be found.
const MOST_SEEDS: u64 = 400;
/// The last lines of a trace that a failure shows.
const SHOWN: usize = 60;

/// What must have happened in so many runs as are played by default.
const HAPPENS: [&str; 39] = [
    "advances",
    "answers that settle nothing",
    "changed configurations",
    "claims",
    "clean stops",
    "clients left at the gate",
    "connections that were gone",
    "crashes",
    "crashes within a commit",
    "crashes within a quarantine",
    "cut answers",
    "cut bodies",
    "early answers",
    "effects in time",
    "failed syncs",
    "full disks",
    "late effects",
    "lost answers",
    "lost tasks",
    "outcomes: answered",
    "outcomes: not sent",
    "outcomes: unknown",
    "poisoned stores",
    "quarantines",
    "refused: draining",
    "refused: holder conflict",
    "refused: in doubt",
    "refused: overloaded",
    "refused: store unavailable",
    "refusals of the store's",
    "rekeys",
    "releases",
    "resets by the operator",
    "slow answers",
    "stops that are not clean",
    "strays",
    "torn commits",
    "writes cut by a takeover",
    "writes of several keys",
];

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is no number: {value}")))
}

/// Plays seeds on all cores, until all are played or `found` says that it is enough.
fn play_all(seeds: u64, broken: Option<Breakage>, found: impl Fn(u64, Report) -> bool + Sync) {
    let next = AtomicU64::new(1);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut enough = false;
                while !enough {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    enough = seed > seeds || found(seed, play(seed, broken, false));
                }
                next.store(seeds + 1, Ordering::Relaxed);
            });
        }
    });
}

fn fail(seed: u64, report: &Report) -> ! {
    let lines = play(seed, None, true).lines;
    for line in &lines[lines.len().saturating_sub(SHOWN)..] {
        eprintln!("{line}");
    }
    panic!(
        "seed {seed}: {:#?}\nreplay: PALISADE_SEED={seed} cargo test --test model simulation::the_promise",
        report.violations
    );
}

#[test]
fn the_promise_holds_in_every_run() {
    if let Some(seed) = number("PALISADE_SEED") {
        let report = play(seed, None, true);
        for line in &report.lines {
            println!("{line}");
        }
        println!("{:?}", report.counts);
        assert!(report.violations.is_empty(), "{:#?}", report.violations);
        return;
    }
    let seeds = number("PALISADE_SEEDS").unwrap_or(SEEDS);
    let all = Mutex::new(Counts::new());
    let failed = Mutex::new(Vec::new());
    play_all(seeds, None, |seed, report| {
        let all = &mut *all.lock();
        for (what, times) in &report.counts {
            *all.entry(what).or_default() += times;
        }
        let fails = !report.violations.is_empty();
        if fails {
            failed.lock().push((seed, report));
        }
        fails
    });
    let all = all.into_inner();
    println!("{seeds} seeds, of which {} failed", failed.lock().len());
    for (what, times) in &all {
        println!("{times:>10} {what}");
    }
    if let Some((seed, report)) = failed.into_inner().first() {
        fail(*seed, report);
    }
    let missing: Vec<_> = HAPPENS.iter().filter(|what| !all.contains_key(*what)).collect();
    assert!(seeds < SEEDS || missing.is_empty(), "never happened: {missing:?}");
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 1..=20 {
        let (first, second) = (play(seed, None, true), play(seed, None, true));
        assert_eq!(first.lines, second.lines, "seed {seed}");
        assert_eq!(first.digest, second.digest, "seed {seed}");
        assert!(first.lines.len() > 3, "seed {seed} did nothing");
    }
}

/// The judge finds what it is there to find.
#[test]
fn each_rule_taken_out_is_found() {
    let mut missed = Vec::new();
    for (rule, broken) in breakage::ALL {
        let first = Mutex::new(None);
        play_all(MOST_SEEDS, Some(broken), |seed, report| {
            let found = report.violations.into_iter().next();
            let is_found = found.is_some();
            if let Some(found) = found {
                first.lock().get_or_insert((seed, found));
            }
            is_found
        });
        match first.into_inner() {
            Some((seed, found)) => println!("{rule} {broken:?}: seed {seed}: {found}"),
            None => missed.push((rule, broken)),
        }
    }
    assert!(missed.is_empty(), "not found within {MOST_SEEDS} seeds: {missed:?}");
}
