//! Keys go to rest, come back as they were, and stay within their bytes.

use super::*;
use crate::{fence::Outcome, gate::Reason, metrics::Format};

impl World {
    /// Whether the key is in memory, and if so whether it has a slot.
    fn is_live(&self, key: &str) -> Option<bool> {
        self.gate.0.cache.is_live(&self.key(key))
    }

    fn cached_bytes(&self) -> u64 {
        self.gate.0.cache.bytes()
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_at_rest_when_nothing_goes_on_with_it() {
    let world = World::new();
    assert_eq!(world.is_live("k"), None);
    let permit = world.write(5).await;
    assert_eq!(world.is_live("k"), Some(true), "in flight");
    let six = write(6);
    let mut waiter = Box::pin(world.ask(&six));
    assert!(poll_once(waiter.as_mut()).is_pending());
    permit.settle(Outcome::Answered);
    assert_eq!(world.is_live("k"), Some(true), "waited for");
    waiter.await.unwrap().permit.unwrap().settle(Outcome::Unknown);
    assert_eq!(world.is_live("k"), Some(true), "in doubt");
    tokio::time::advance(LIFETIME + Duration::from_secs(1)).await;
    world.gate.standings();
    assert_eq!(world.is_live("k"), Some(false), "the sweep was its last user");
    assert_eq!(world.ask(&write(5)).await.unwrap_err().reason, Reason::Stale);
    assert_eq!(world.is_live("k"), Some(false));
}

/// R1, R9: whether somebody uses the key makes no difference.
#[tokio::test(start_paused = true)]
async fn a_key_at_rest_refuses_what_it_refuses_in_use() {
    let world = World::new();
    let named = |token, holder: &[u8]| Wish { holder: Holder::parse(holder), ..write(token) };
    world.ask(&named(5, b"a")).await.unwrap().permit.unwrap().settle(Outcome::Answered);
    let far = Policy { max_jump: Some(3), ..policy() };
    let sticky = Policy { mode: Mode::Sticky, ..policy() };
    let refused = [
        (write(4), Reason::Stale),
        (claim(4), Reason::Stale),
        (named(5, b"b"), Reason::HolderConflict),
        (Wish { policy: far, ..write(9) }, Reason::Implausible),
        (Wish { policy: sticky, token: None, ..write(5) }, Reason::TokenMissing),
    ];
    for used in [false, true] {
        let user = if used { Some(world.write(5).await) } else { None };
        for (wish, reason) in &refused {
            assert_eq!(world.is_live("k"), Some(used));
            let denied = world.ask(wish).await.unwrap_err();
            assert_eq!(denied, Denied { reason: *reason, highest: Some(Token::new(5)) }, "{used}");
        }
        drop(user);
    }
}

/// R10: what no rule holds back is not held back at rest either; and a gate that closes says so.
#[tokio::test(start_paused = true)]
async fn a_key_at_rest_refuses_only_for_routes_that_enforce_and_while_the_gate_is_open() {
    let world = World::new();
    world.write(5).await.settle(Outcome::Answered);
    let observed = Policy { enforce: false, ..policy() };
    let off = Policy { mode: Mode::Off, ..policy() };
    for (policy, would_refuse) in [(observed, Some(Reason::Stale)), (off, None)] {
        let admitted = world.ask(&Wish { policy, ..write(4) }).await.unwrap();
        assert_eq!(admitted.would_refuse, would_refuse);
        admitted.permit.unwrap().settle(Outcome::Answered);
        assert_eq!(world.is_live("k"), Some(false));
    }
    world.gate.close();
    assert_eq!(world.ask(&write(4)).await.unwrap_err().reason, Reason::ShuttingDown);
}

#[tokio::test(start_paused = true)]
async fn a_key_being_raised_is_not_at_rest_though_nobody_waits() {
    let world = World::new();
    world.write(5).await.settle(Outcome::Answered);
    world.store.hold();
    {
        let six = write(6);
        let mut given_up = pin!(world.ask(&six));
        assert!(poll_once(given_up.as_mut()).is_pending());
    }
    assert_eq!(world.is_live("k"), Some(true));
    world.store.go_on();
    assert_eq!(world.is_live("k"), Some(false));
    assert_eq!(world.ask(&write(5)).await.unwrap_err().highest, Some(Token::new(6)));
}

/// R9: a mark stays that the store did not take.
#[tokio::test(start_paused = true)]
async fn a_token_that_is_not_durable_never_goes_to_rest() {
    let world = World::cached(0, realm(LIFETIME), MemoryStore::new());
    world.write(5).await.settle(Outcome::Answered);
    world.store.poison("no space");
    assert!(world.ask(&write(6)).await.is_err());
    assert_eq!(world.is_live("k"), Some(true));
    assert_eq!(world.ask(&write(5)).await.unwrap_err().highest, Some(Token::new(6)));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_could_not_be_looked_up_leaves_nothing() {
    let world = World::new();
    world.store.fail_reads(true);
    assert!(world.ask(&write(5)).await.is_err());
    assert_eq!((world.is_live("k"), world.cached_bytes()), (None, 0));
    assert_eq!(world.gate.standings()[0].keys, 0);
}

#[tokio::test(start_paused = true)]
async fn the_held_time_is_counted_across_rests() {
    let world = World::new();
    for _ in 0..3 {
        world.write(5).await.settle(Outcome::Answered);
        tokio::time::advance(Duration::from_secs(10)).await;
    }
    drop(world.write(6).await);
    let metrics = world.metrics.encode(Format::Text);
    assert!(metrics.contains("palisade_hold_seconds_sum 20.0"), "{metrics}");
}

/// The operator's word counts until the quarantine ends, however many keys come.
#[tokio::test(start_paused = true)]
async fn a_released_key_is_put_out_only_after_the_quarantine() {
    let options =
        RealmOptions { quarantine: Some(LIFETIME), all_contested: true, ..realm(LIFETIME) };
    let world = World::cached(0, options, MemoryStore::new());
    world.gate.release(&world.key("k")).await.unwrap();
    let come_and_go = || async {
        for name in 0..50 {
            let key = world.gate.key(0, format!("{name}").as_bytes()).unwrap();
            world.gate.show(&key).await.unwrap();
        }
    };
    come_and_go().await;
    assert_eq!(world.is_live("k"), Some(false));
    drop(world.write(5).await);
    tokio::time::advance(LIFETIME + Duration::from_secs(1)).await;
    come_and_go().await;
    assert_eq!(world.is_live("k"), None);
}

/// However long the keys are, however often they are asked for, and whatever holders they name.
#[tokio::test(start_paused = true)]
async fn the_cache_stays_within_its_bytes() {
    const BYTES: u64 = 256 << 10;
    let world = World::cached(BYTES, realm(LIFETIME), MemoryStore::new());
    let names: Vec<&'static str> =
        (0..5000).map(|n| &*format!("{n}-{}", "k".repeat(n % 300)).leak()).collect();
    for name in names {
        let holder = name.len() % 2 == 0;
        let wish = Wish {
            key: name,
            holder: holder.then(|| Holder::parse(b"a-holder").unwrap()),
            ..write(5)
        };
        for _ in 0..2 {
            drop(world.ask(&wish).await.unwrap());
            assert!(world.cached_bytes() <= BYTES, "{} bytes", world.cached_bytes());
        }
    }
    assert!(world.cached_bytes() > BYTES * 9 / 10, "{} bytes", world.cached_bytes());
}

/// A second chance: what was asked for again outlives what was not.
#[tokio::test(start_paused = true)]
async fn keys_in_demand_outlive_keys_asked_for_once() {
    let world = World::cached(10_000, realm(LIFETIME), MemoryStore::new());
    for n in 0..1000 {
        let name: &'static str = format!("once-{n}").leak();
        drop(world.ask(&Wish { key: name, ..write(5) }).await.unwrap());
        drop(world.write(5).await);
    }
    assert_eq!(world.is_live("k"), Some(false));
    assert_eq!(world.is_live("once-0"), None);
    for n in 980..1000 {
        let name: &'static str = format!("once-{n}").leak();
        assert_eq!(world.is_live(name), Some(false), "{n}: the oldest go first");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_reckoned_for_a_key_goes_when_it_goes() {
    let holder = Holder::parse(b"a-holder");
    let long = Wish { key: "a key of more than sixteen bytes", holder, ..write(5) };
    for budget in [1 << 20, 0] {
        let world = World::cached(budget, realm(LIFETIME), MemoryStore::new());
        let open = world.ask(&long).await.unwrap();
        assert_eq!((world.cached_bytes(), world.gate.0.cache.len()), (0, 1), "in use");
        drop(open);
        let kept = usize::from(budget > 0);
        assert_eq!(world.cached_bytes() > 0, kept == 1);
        assert_eq!(world.gate.0.cache.len(), kept);
        assert_eq!(world.gate.standings()[0].keys, kept);
    }
}

/// A key in doubt must be kept whole, and that is nothing that others pay for.
#[tokio::test(start_paused = true)]
async fn keys_in_doubt_put_out_no_others() {
    let world = World::cached(64 << 10, realm(LIFETIME), MemoryStore::new());
    drop(world.write(5).await);
    for n in 0..1000 {
        let name: &'static str = format!("doubt-{n}").leak();
        let admitted = world.ask(&Wish { key: name, ..write(5) }).await.unwrap();
        admitted.permit.unwrap().settle(Outcome::Unknown);
    }
    assert_eq!(world.is_live("doubt-0"), Some(true));
    assert_eq!(world.is_live("k"), Some(false));
}
