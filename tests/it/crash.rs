//! kill -9, clean stops and what a start makes of them: who goes on at once, who waits, and that
//! nothing acknowledged is lost. Where nobody must wait, the lifetime is an hour: a wait would show.

use std::{collections::HashMap, env, time::Duration};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::harness::{
    Act, Backend, Config, Latch, Palisade, Request, Response, claim, endless, now,
    palisade::refuses_to_start, put, until, write,
};

const KEYS: [&str; 3] = ["/a", "/b", "/c"];

fn assert_in_doubt(response: &Response) {
    response.assert_refused(503, "in-doubt");
    assert_eq!(response.result(), "in-doubt");
    let after: u64 = response.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&after), "capped at 30 s: {after}");
}

#[test]
fn an_uncontested_holder_goes_on_at_once_and_a_higher_token_waits() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    write(&palisade, "5").assert_status(201);
    palisade.kill9();
    palisade.restart();
    write(&palisade, "5").assert_status(201);
    claim("/k", "5").send(palisade.addr()).assert_status(200);
    write(&palisade, "4").assert_refused(412, "stale-token");
    assert_in_doubt(&write(&palisade, "6"));
    assert_in_doubt(&claim("/k", "6").send(palisade.addr()));
    // Its token is the mark now, though it had to wait.
    write(&palisade, "5").assert_refused(412, "stale-token");
    assert_eq!(backend.log().effects("/k"), ["5", "5"]);
}

#[test]
fn a_contested_holder_waits_too() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    let old = Latch::new();
    backend.script("5", [Act::Read, Act::Wait(old.clone()), Act::Apply]);
    let _writer = put("/k", "5").start(palisade.addr());
    backend.until_held("5");
    assert_in_doubt(&write(&palisade, "6"));
    for _ in 0..2 {
        palisade.kill9();
        palisade.restart();
        assert_in_doubt(&write(&palisade, "6"));
    }
}

#[test]
fn a_takeover_waits_for_the_lifetime_only() {
    let backend = Backend::start();
    let config = Config::http(backend.addr()).upstream("max_write_lifetime", "1s");
    let mut palisade = Palisade::start(&config);
    write(&palisade, "5").assert_status(201);
    palisade.kill9();
    palisade.restart();
    until("6 is let through", || write(&palisade, "6").is_success());
    palisade.until_metric("palisade_quarantine_seconds", 0.0);
    write(&palisade, "7").assert_status(201);
}

#[test]
fn nobody_waits_after_a_clean_stop() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    write(&palisade, "5").assert_status(201);
    for token in ["6", "7"] {
        assert_eq!(palisade.sigterm_and_wait().code(), Some(0), "{}", palisade.stderr());
        palisade.restart();
        write(&palisade, token).assert_status(201);
    }
    write(&palisade, "6").assert_refused(412, "stale-token");
}

/// A limit of file sizes is a full disk: no raise is told, the end has words, and nothing is lost.
#[test]
fn a_limit_of_file_sizes_ends_it_with_words() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    write(&palisade, "5").assert_status(201);
    let pid = Pid::from_raw(i32::try_from(palisade.pid()).unwrap());
    let limit = Rlimit { current: Some(1 << 12), maximum: Some(1 << 12) };
    prlimit(pid, Resource::Fsize, limit).unwrap();
    write(&palisade, "6").assert_refused(503, "store-unavailable");
    assert_eq!(palisade.until_ended().code(), Some(1), "{}", palisade.stderr());
    assert!(palisade.stderr().contains("failed: "), "{}", palisade.stderr());
    palisade.restart();
    write(&palisade, "4").assert_refused(412, "stale-token");
    write(&palisade, "5").assert_status(201);
}

#[test]
fn a_stop_with_a_write_in_doubt_is_not_a_clean_one() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    backend.script("5", [Act::Read, Act::Answer(503)]);
    write(&palisade, "5").assert_status(503);
    assert_eq!(palisade.sigterm_and_wait().code(), Some(0), "{}", palisade.stderr());
    palisade.restart();
    assert_in_doubt(&write(&palisade, "6"));
    // Nor is a stop within the quarantine that follows.
    assert_eq!(palisade.sigterm_and_wait().code(), Some(0), "{}", palisade.stderr());
    palisade.restart();
    assert_in_doubt(&write(&palisade, "6"));
}

#[test]
fn new_keys_do_not_wait_on_a_required_route() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    write(&palisade, "5").assert_status(201);
    palisade.kill9();
    palisade.restart();
    put("/new", "1").send(palisade.addr()).assert_status(201);
    Request::new("GET", "/k").send(palisade.addr()).assert_status(200);
    assert!(palisade.metric("palisade_quarantine_seconds") > 0.0);
    let ready = Request::new("GET", "/readyz").send(palisade.admin());
    ready.assert_status(200);
    let words = String::from_utf8(ready.body).unwrap();
    assert!(words.contains("quarantine"), "readyz names it: {words}");
}

#[test]
fn every_key_waits_where_unfenced_writes_were_possible() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()).set("token", "sticky"));
    write(&palisade, "5").assert_status(201);
    palisade.kill9();
    palisade.restart();
    assert_in_doubt(&put("/new", "1").send(palisade.addr()));
    assert_in_doubt(&write(&palisade, "5"));
    put("/untouched", "-").send(palisade.addr()).assert_status(201);
}

#[test]
fn enforcement_turned_on_by_a_restart_waits_for_the_writes_before_it() {
    let backend = Backend::start();
    let observe = Config::http(backend.addr()).set("enforce", false);
    let mut palisade = Palisade::start(&observe);
    write(&palisade, "6").assert_status(201);
    let late = Latch::new();
    backend.script("5", [Act::Read, Act::Wait(late.clone()), Act::ApplyLate]);
    let _writer = put("/k", "5").start(palisade.addr());
    backend.until_held("5");
    backend.log().forget_effects();
    palisade.kill9();
    palisade.restart_with(&Config::http(backend.addr()));
    // 6 is the durable token and nobody has contested it: only `unfenced` can know better.
    let _ = write(&palisade, "6");
    late.open();
    backend.until_settled("5");
    until("6 is let through", || write(&palisade, "6").is_success());
    backend.log().assert_never_down();
}

/// R10: the same of a route without tokens; and only a clean mark, or a whole enforced run, says
/// that its writes are over.
#[test]
fn an_unfenced_route_that_is_fenced_by_a_restart() {
    let backend = Backend::start();
    let mut palisade =
        Palisade::start(&endless(backend.addr()).set("token", "off").without_drain());
    put("/a", "-").send(palisade.addr()).assert_status(201);
    palisade.sigterm_and_wait();
    palisade.restart_with(&endless(backend.addr()));
    put("/a", "1").send(palisade.addr()).assert_status(201);

    palisade.sigterm_and_wait();
    palisade.restart_with(&endless(backend.addr()).set("token", "off").without_drain());
    backend.script("-", [Act::Read, Act::Wait(Latch::new())]);
    let _writer = put("/k", "-").start(palisade.addr());
    backend.until_held("-");
    for _ in 0..2 {
        palisade.kill9();
        palisade.restart_with(&endless(backend.addr()));
        assert_in_doubt(&write(&palisade, "1"));
        assert_in_doubt(&put("/new", "1").send(palisade.addr()));
    }
}

#[test]
fn a_shorter_lifetime_does_not_shorten_the_quarantine_of_the_run_before() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    write(&palisade, "5").assert_status(201);
    palisade.kill9();
    palisade.restart_with(&Config::http(backend.addr()).upstream("max_write_lifetime", "1ms"));
    assert_in_doubt(&write(&palisade, "6"));
}

#[test]
fn a_store_that_is_not_there_is_not_a_first_day() {
    let backend = Backend::start();
    let dir = tempfile::tempdir().unwrap();
    let (code, words) = refuses_to_start(dir.path(), &endless(backend.addr()), &[]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("--fresh") && words.contains("create"), "names the remedies: {words}");

    let made = endless(backend.addr()).store("create", "if-missing");
    let palisade = Palisade::start_in(dir, &made, &[]);
    assert_in_doubt(&write(&palisade, "1"));
    let (code, words) = palisade.refuses_to_start(&made, &[]);
    assert_eq!(code, Some(1), "one process per store: {words}");
    assert!(words.contains(&palisade.pid().to_string()), "names the other process: {words}");
}

#[test]
fn fresh_is_for_a_new_store_only() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    palisade.kill9();
    let (code, words) = palisade.refuses_to_start(&endless(backend.addr()), &["--fresh"]);
    assert_eq!(code, Some(1), "{words}");
}

#[test]
fn keys_that_would_be_made_another_way_are_refused() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(backend.addr()));
    write(&palisade, "5").assert_status(201);
    palisade.sigterm_and_wait();
    // The same keys, written in another way, are the same.
    palisade.restart_with(&endless(backend.addr()).set("fence", "{object}"));
    write(&palisade, "4").assert_refused(412, "stale-token");
    palisade.sigterm_and_wait();
    let other = endless(backend.addr()).set("fence", "x-{object}");
    let (code, words) = palisade.refuses_to_start(&other, &[]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("--rekey"), "names the remedy: {words}");
    palisade.restart_with_flags(&other, &["--rekey", "store"]);
    assert_in_doubt(&put("/new", "1").send(palisade.addr()));
}

/// `PALISADE_KILLS` sets how many; each follows some acknowledged raises at a random moment.
#[test]
fn acknowledged_raises_survive_kills() {
    let kills = env::var("PALISADE_KILLS").map_or(25, |text| text.parse().unwrap());
    let backend = Backend::start();
    let config = Config::http(backend.addr()).upstream("max_write_lifetime", "5ms");
    let mut palisade = Palisade::start(&config);
    let mut acknowledged: HashMap<&str, u64> = HashMap::new();
    let mut next = 1;
    for _ in 0..kills {
        raise_until_killed(&mut palisade, &mut acknowledged, &mut next);
        palisade.restart();
        for (key, token) in &acknowledged {
            let below = put(key, &(token - 1).to_string()).send(palisade.addr());
            below.assert_refused(412, "stale-token");
            let highest: u64 = below.field("fencing-highest").unwrap().parse().unwrap();
            assert!(highest >= *token, "{key}: {token} was acknowledged, {highest} is the mark");
        }
    }
    backend.log().assert_never_down();
}

/// Writes and claims with ever higher tokens, until the kill at a moment that nobody chose.
fn raise_until_killed(
    palisade: &mut Palisade,
    acknowledged: &mut HashMap<&str, u64>,
    next: &mut u64,
) {
    let addr = palisade.addr();
    let life = Duration::from_micros(fastrand::u64(20_000..80_000));
    let start = now();
    let mut killed = false;
    while !killed || start.elapsed() < life {
        *next += 2;
        let (key, token) = (KEYS[*next as usize / 2 % KEYS.len()], next.to_string());
        let request = if next.is_multiple_of(3) { claim(key, &token) } else { put(key, &token) };
        let mut client = request.start(addr);
        if start.elapsed() >= life {
            // The last request is on its way, perhaps half done.
            palisade.kill9();
            killed = true;
        }
        if let Ok(Some(response)) = client.try_response()
            && matches!(response.result(), "admitted" | "claimed")
        {
            acknowledged.insert(key, *next);
        }
    }
}
