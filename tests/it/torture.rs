//! Torture of the whole system: the real binary over loopback between writers that are processes of
//! their own and a store that fails in every way that the promise allows. A lock service hands each key
//! to the next writer when a lease has run out, whatever the last one still does. Meanwhile writers are
//! stopped and killed, palisade is stopped, killed and told to end, connections are reset within
//! requests and answers, answers are swallowed, and the store applies writes late. The judge is the
//! store's own log, and what the writers were told.
//!
//! `PALISADE_TORTURE=SECONDS` says how long (20 without it), in rounds of at most half a minute, each
//! with its own verdict; `PALISADE_SEED` says with which seed. Time is real, so that a seed brings back
//! the plan of what goes wrong and not its moments. For hours of it:
//!
//! ```text
//! PALISADE_TORTURE=7200 cargo test --test it torture::palisade -- --nocapture
//! ```

mod crew;
mod faults;
mod judge;
mod locks;
mod proxy;
mod store;
mod writer;

use std::{
    env,
    io::Write as _,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use crate::harness::{now, side_by_side, tally::Tally, wait::happens};

use self::{
    crew::{Crew, Speaks},
    store::World,
};

/// The keys that the writers fight for.
const KEYS: [&str; 6] = ["/t0", "/t1", "/t2", "/t3", "/t4", "/t5"];

/// The longest round, in seconds.
const LONGEST_ROUND: u64 = 30;

/// In so short a round anything may be missing.
const SHORT: Duration = Duration::from_secs(10);

/// What is put to torture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Subject {
    /// Palisade before a store over HTTP; a takeover cuts.
    Abort,
    /// The same; a takeover waits. The store discards what did not come whole.
    Wait,
    /// Palisade's own file store.
    Files,
    /// The naive proxy before the store of `Abort`.
    Naive,
}

const PALISADES: [Subject; 3] = [Subject::Abort, Subject::Wait, Subject::Files];

impl Subject {
    fn speaks(self) -> &'static [Speaks] {
        match self {
            Self::Naive => &[Speaks::Http1],
            Self::Abort | Self::Wait | Self::Files => &[Speaks::Http1, Speaks::Kept, Speaks::Http2],
        }
    }
}

#[test]
fn palisade_keeps_the_promise() {
    let seconds = env_number("PALISADE_TORTURE").unwrap_or(20);
    let rounds = seconds.div_ceil(LONGEST_ROUND);
    let seed = seed();
    let totals = PALISADES.map(|subject| (subject, Tally::default(), Tally::default()));
    for round in 0..rounds {
        let time = Duration::from_secs(seconds) / rounds as u32;
        let name = |total: &(Subject, Tally, Tally)| format!("{:?}", total.0);
        side_by_side(&totals, name, |(subject, injected, answered)| {
            let world = torture(*subject, time, seed + round);
            injected.merge(&world.tally);
            answered.merge(&world.answers);
        });
    }
    for (subject, injected, answered) in totals.iter().filter(|_| rounds > 1) {
        say_line(&format!(
            "{rounds} rounds of {subject:?}, {seconds} s, seeds from {seed}, no violation\n  injected: \
             {injected}\n  answered: {answered}",
        ));
    }
}

/// The control: the same torture shows that the proxy which everybody writes first breaks the promise.
#[test]
fn the_naive_proxy_is_caught() {
    let seed = seed();
    let mut world = World::new(Subject::Naive, seed);
    let crew = Crew::start(&world, seed);
    let start = now();
    let caught = happens(Duration::from_mins(1), || {
        faults::inject(&mut world, &crew, seed, now() + Duration::from_secs(1));
        world.backend.log().fall().is_some()
    });
    crew.end(&world);
    say(&world, start);
    assert!(caught, "the torture shows nothing, seed {seed}");
    say_line(&format!("  and so it must be: {}", world.backend.log().fall().unwrap()));
}

/// One round: trouble, then calm, then the verdict.
fn torture(subject: Subject, time: Duration, seed: u64) -> World {
    let start = now();
    let mut world = World::new(subject, seed);
    let crew = Crew::start(&world, seed);
    faults::inject(&mut world, &crew, seed, start + time);
    crew.end(&world);
    faults::calm(&mut world);
    let violations = judge::violations(&world);
    say(&world, start);
    let told = violations.join("\n  ");
    assert!(violations.is_empty(), "{subject:?}, seed {seed}: the promise is broken:\n  {told}");
    // A torture in which nothing happens shows nothing.
    let (applied, stale) = (world.answers.sum("write 2"), world.answers.sum("write 412 stale"));
    assert!(time < SHORT || applied > 0 && stale > 0, "{applied} applied, {stale} refused");
    world
}

/// Past the test's own capture: a run that passes shows what it did, too.
fn say_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn say(world: &World, start: Instant) {
    let judged = judge::summary(world);
    say_line(&format!(
        "torture of {:?}: {:.1} s, seed {}, {} writers on {} keys\n  injected: {}\n  answered: {}\n  \
         judged: {judged}",
        world.subject,
        start.elapsed().as_secs_f64(),
        world.seed,
        crew::WRITERS,
        KEYS.len(),
        world.tally,
        world.answers,
    ));
}

fn env_number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// The one that is asked for, or any.
fn seed() -> u64 {
    env_number("PALISADE_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000))
}

/// A loopback address of the subject's own: its port is nobody else's while it is down for a moment.
fn own_address(subject: Subject) -> SocketAddr {
    SocketAddr::from(([127, 77, 0, 1 + subject as u8], 0))
}

/// Sleeps; the pace is the plan's, and nothing is concluded from it.
fn pause(time: Duration) {
    thread::sleep(time);
}
