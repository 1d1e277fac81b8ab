//! What is done to writers and to the proxy, and the calm behind it.

use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;

use super::{
    KEYS, Subject,
    crew::{Crew, WRITERS},
    pause,
    store::{LATE, World},
};
use crate::harness::{Palisade, Response, claim, now, put, until};

/// A start that was not clean is a quarantine of two seconds, in which little happens. So long the
/// proxy is left alive.
const LIFE: Duration = Duration::from_secs(3);

/// One who is stopped, and when he goes on.
type Stopped = Vec<(Instant, usize)>;

/// Does harm until `end`, by a plan that follows from the seed.
pub fn inject(world: &mut World, crew: &Crew, seed: u64, end: Instant) {
    let mut rng = Rng::with_seed(seed ^ 0xfa17);
    let (mut stopped, mut born) = (Stopped::new(), now());
    while now() < end {
        let next = now() + Duration::from_millis(rng.u64(50..350));
        while now() < next {
            pause(Duration::from_millis(5));
            go_on(&mut stopped, crew, now());
        }
        let writer = rng.usize(..WRITERS);
        match rng.u8(..20) {
            0..8 => stop_writer(world, crew, writer, &mut rng, &mut stopped),
            8 if crew.signal(writer, Signal::KILL) => world.tally.count("writer killed"),
            9..12 => stop_proxy(world, &mut rng),
            _ if born.elapsed() > LIFE => {
                restart(world, &mut rng);
                born = now();
            }
            _ => {}
        }
    }
    go_on(&mut stopped, crew, now() + LIFE);
}

fn stop_writer(world: &World, crew: &Crew, writer: usize, rng: &mut Rng, stopped: &mut Stopped) {
    let until = now() + Duration::from_millis(rng.u64(100..1_500));
    if stopped.iter().all(|(_, other)| *other != writer) && crew.signal(writer, Signal::STOP) {
        world.tally.count("writer stopped");
        stopped.push((until, writer));
    }
}

fn go_on(stopped: &mut Stopped, crew: &Crew, now: Instant) {
    stopped.retain(|(until, writer)| {
        let due = *until <= now;
        if due {
            crew.signal(*writer, Signal::CONT);
        }
        !due
    });
}

fn stop_proxy(world: &World, rng: &mut Rng) {
    if world.proxy.signal(Signal::STOP) {
        world.tally.count("proxy stopped");
        pause(Duration::from_millis(rng.u64(50..600)));
        world.proxy.signal(Signal::CONT);
    }
}

/// Kills it, or tells it to end; what was acknowledged until then is a mark afterwards.
fn restart(world: &mut World, rng: &mut Rng) {
    let late = leave_behind(world, rng);
    let told = world.shared.so_far();
    let end = rng.u8(..4);
    match world.proxy.palisade() {
        Some(palisade) if end < 2 => {
            let ended = palisade.sigterm_and_wait();
            assert_eq!(ended.code(), Some(0), "{}", palisade.stderr());
            let clean = palisade.stderr().contains("stopped clean");
            world.tally.count(if clean { "proxy ended clean" } else { "proxy ended" });
        }
        _ => {
            if end == 2 && world.proxy.signal(Signal::STOP) {
                pause(Duration::from_millis(rng.u64(..300)));
            }
            world.proxy.kill9();
            world.tally.count("proxy killed");
        }
    }
    pause(Duration::from_millis(rng.u64(..200)));
    world.proxy.restart();
    world.moved();
    let Some(palisade) = world.proxy.palisade() else { return };
    world.marks += told.floors.len();
    for (key, floor) in told.floors {
        let mark: u64 = palisade.show(&key[1..]).member("highest").parse().unwrap_or(0);
        assert!(mark >= floor, "{key}: {floor} was acknowledged, {mark} is the mark");
    }
    newcomers(world, late, rng);
}

/// A write that the store loses sight of and applies a second later: the end of this life may come in
/// between. Answers with its key.
fn leave_behind(world: &World, rng: &mut Rng) -> &'static str {
    let key = rng.choice(KEYS).unwrap();
    if world.subject != Subject::Files {
        let token = world.shared.locks.seize(key).to_string();
        let id = format!("late-{}-{token}", &key[1..]);
        let request = put(key, &token).field("Write-Id", &id).field(LATE, "true");
        let answer = request.send(world.proxy.addr());
        world.shared.answers.count(&format!("late write {}", answer.status()));
        world.shared.told(key, &token, &id, answer.result(), answer.outcome());
    }
    key
}

/// Holders who come at the worst moment: what an earlier life has sent may still be on its way.
fn newcomers(world: &World, late: &str, rng: &mut Rng) {
    let (shared, addr) = (world.shared.clone(), world.proxy.addr());
    for key in KEYS.into_iter().filter(|key| *key == late || rng.bool()) {
        let token = shared.locks.seize(key).to_string();
        let claimed = claim(key, &token).send(addr);
        shared.answers.count(&format!("newcomer's claim {}", claimed.status()));
        if let_through(&claimed) {
            shared.claimed(key, &token);
        }
        let id = format!("newcomer-{}-{token}", &key[1..]);
        let body = format!("{token} {id} ");
        let written = put(key, &token).body(body).field("Write-Id", &id).send(addr);
        shared.answers.count(&format!("newcomer's write {}", written.status()));
        shared.told(key, &token, &id, written.result(), written.outcome());
    }
}

/// Nothing goes wrong any more: every key goes to a new holder, nothing stays open, and a clean stop
/// leaves nothing to wait for.
pub fn calm(world: &mut World) {
    world.calm();
    let locks = world.shared.clone();
    let palisade = world.proxy.palisade().expect("the naive proxy has no calm");
    for key in KEYS {
        let token = locks.locks.seize(key).to_string();
        let claim = claim(key, &token);
        until(&format!("{key}: a new holder's claim"), || {
            let_through(&claim.send(palisade.addr()))
        });
        locks.claimed(key, &token);
    }
    world.until_watched();
    let palisade = world.proxy.palisade().unwrap();
    until_at_rest(palisade);
    let ended = palisade.sigterm_and_wait();
    assert_eq!(ended.code(), Some(0), "{}", palisade.stderr());
    world.proxy.restart();
    let palisade = world.proxy.palisade().unwrap();
    for key in KEYS {
        next_holder(palisade, key, locks.locks.seize(key));
    }
    until_at_rest(palisade);
}

fn until_at_rest(palisade: &Palisade) {
    for gauge in ["in_flight_writes", "waiting_writes", "in_doubt_keys", "quarantine_seconds"] {
        palisade.until_metric(&format!("palisade_{gauge}"), 0.0);
    }
}

/// After a clean stop the first asking is let through.
fn next_holder(palisade: &Palisade, key: &str, token: u64) {
    let claimed = claim(key, &token.to_string()).send(palisade.addr());
    assert!(let_through(&claimed), "{key}: {claimed:#?}");
    let written = put(key, &token.to_string()).send(palisade.addr());
    assert_eq!(written.outcome(), "applied", "{key}: {written:#?}");
    put(key, &(token - 1).to_string()).send(palisade.addr()).assert_refused(412, "stale-token");
}

fn let_through(response: &Response) -> bool {
    response.result() == "claimed"
}
