//! Writes from admission to outcome: durability, doubt, quarantine, memory.

use super::*;
use crate::{
    fence::{Mark, Outcome},
    gate::Reason,
    store::TokenStore as _,
};

#[tokio::test(start_paused = true)]
async fn nothing_is_let_in_before_its_token_is_durable() {
    let world = World::new();
    drop(world.write(1).await);
    world.store.hold();
    let wish = write(5);
    let mut raise = pin!(world.ask(&wish));
    assert!(poll_once(raise.as_mut()).is_pending());
    world.store.commit(0);
    assert!(poll_once(raise.as_mut()).is_pending(), "written, but nobody knows");
    // Refusing by a mark that is not durable yet is safe.
    assert_eq!(world.ask(&write(4)).await.unwrap_err().reason, Reason::Stale);
    world.store.answer(0);
    assert!(matches!(poll_once(raise.as_mut()), Poll::Ready(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn a_higher_token_overtakes_one_that_waits_for_its_commit() {
    let world = World::new();
    drop(world.write(1).await);
    world.store.hold();
    let (five, six) = (write(5), write(6));
    let (mut five, mut six) = (pin!(world.ask(&five)), pin!(world.ask(&six)));
    assert!(poll_once(five.as_mut()).is_pending());
    assert!(poll_once(six.as_mut()).is_pending());
    world.store.go_on();
    assert!(matches!(poll_once(five.as_mut()), Poll::Ready(Err(_))), "judged again, and stale");
    assert!(matches!(poll_once(six.as_mut()), Poll::Ready(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_refuses_and_answers_everybody() {
    let world = World::new();
    drop(world.write(1).await);
    world.store.hold();
    let wish = write(5);
    let (mut one, mut two) = (pin!(world.ask(&wish)), pin!(world.ask(&wish)));
    assert!(poll_once(one.as_mut()).is_pending());
    assert!(poll_once(two.as_mut()).is_pending());
    world.store.poison("the disk is full");
    world.store.go_on();
    for waiter in [one, two] {
        assert_eq!(waiter.await.unwrap_err().reason, Reason::StoreUnavailable);
    }
    assert_eq!(world.waiting(), 0);
    // The mark was seen (R9): a lower one stays refused, an equal one cannot be made durable.
    assert_eq!(world.ask(&write(4)).await.unwrap_err().reason, Reason::Stale);
    assert_eq!(world.ask(&write(5)).await.unwrap_err().reason, Reason::StoreUnavailable);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_not_waited_for_for_ever() {
    let world = World::new();
    world.store.hold();
    let denied = world.ask(&write(5)).await.unwrap_err();
    assert_eq!(denied.reason, Reason::StoreUnavailable);
    assert_eq!(world.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_holds_the_next_token_back_for_its_lifetime() {
    let world = World::new();
    world.write(5).await.settle(Outcome::Unknown);
    assert_eq!(world.metrics.in_doubt_keys.value(), 1);
    let denied = world.ask(&write(6)).await.unwrap_err();
    let Reason::InDoubt { left } = denied.reason else { panic!("{denied:?}") };
    assert!(left + Duration::from_secs(1) > LIFETIME, "told exactly, and at once");
    tokio::time::advance(LIFETIME.saturating_sub(DRAIN)).await;
    // Now the end is near enough to wait for.
    drop(world.write(6).await);
    tokio::time::advance(Duration::from_secs(2)).await;
    world.gate.0.sweep_doubts(world.gate.0.clock.now());
    assert_eq!(world.metrics.in_doubt_keys.value(), 0);
}

#[tokio::test(start_paused = true)]
async fn settled_outcomes_hold_nothing_back() {
    let world = World::new();
    world.write(5).await.settle(Outcome::Answered);
    world.write(6).await.settle(Outcome::NotSent);
    drop(world.write(7).await);
    assert_eq!(world.in_flight(), 0);
    assert_eq!(world.metrics.in_doubt_keys.value(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_permit_counts_until_its_connection_has_ended() {
    let world = World::new();
    let line = Line::default();
    let permit = world.write(5).await;
    permit.attach(Arc::new(line.clone()));
    drop(permit);
    line.cut.cancelled().await;
    settle_down().await;
    assert_eq!(world.in_flight(), 1, "cut, and not joined yet");
    tokio::time::advance(LIFETIME).await;
    line.ended.cancel();
    settle_down().await;
    assert_eq!(world.in_flight(), 0);
    let denied = world.ask(&write(6)).await.unwrap_err();
    let Reason::InDoubt { left } = denied.reason else { panic!("{denied:?}") };
    assert!(left + Duration::from_secs(1) > LIFETIME, "doubt counts from the end");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_writes_task_settles_it_as_unknown() {
    let world = World::new();
    let line = Line::default();
    line.ended.cancel();
    let permit = world.write(5).await;
    permit.attach(Arc::new(line));
    let task = tokio::spawn(async move {
        let _permit = permit;
        panic!("a fault of ours");
    });
    assert!(task.await.is_err());
    settle_down().await;
    assert!(matches!(world.ask(&write(6)).await.unwrap_err().reason, Reason::InDoubt { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_not_sent_goes_on_only_while_it_is_current() {
    let world = World::new();
    let permit = world.write(5).await;
    assert!(permit.is_current());
    let wish = write(6);
    let mut takeover = pin!(world.ask(&wish));
    assert!(poll_once(takeover.as_mut()).is_pending());
    assert!(!permit.is_current());
    permit.settle(Outcome::NotSent);
    assert!(matches!(poll_once(takeover.as_mut()), Poll::Ready(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_one_key_go_to_one_address_at_a_time() {
    let world = World::new();
    let (here, there) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 2], 1).into());
    let (one, two) = (world.write(5).await, world.write(5).await);
    assert_eq!(one.place(), None);
    assert_eq!(one.pin(here), here);
    assert_eq!((two.place(), two.pin(there)), (Some(here), here));
    assert!(!two.unpin(), "the other one is about to go there");
    one.attach(Arc::new(Line::default()));
    assert!(!two.unpin(), "the other one has a connection there");
    assert_eq!(two.place(), Some(here));
    one.detach();
    assert!(two.unpin(), "nobody has");
    assert_eq!((two.pin(here), one.place()), (here, Some(here)));
    one.settle(Outcome::Answered);
    assert_eq!(two.place(), Some(here));
    two.settle(Outcome::Answered);
    assert_eq!(world.write(5).await.pin(there), there, "nothing is in flight any more");
}

/// R5, row by row: record before the crash, token asked for, whether it waits.
#[tokio::test(start_paused = true)]
async fn after_a_crash() {
    let mark =
        |token: u64, contested| Mark { token: Some(Token::new(token)), contested, holder: None };
    let reset = Mark { token: None, contested: true, holder: None };
    let table = [
        ("no record: free", None, false, 5, false),
        ("no record, but unfenced writes were possible", None, true, 5, true),
        ("the holder goes on at once", Some(mark(5, false)), false, 5, false),
        ("unless its record is contested", Some(mark(5, true)), false, 5, true),
        ("or every key is", Some(mark(5, false)), true, 5, true),
        ("a higher token waits", Some(mark(5, false)), false, 6, true),
        ("a key that was reset is not free", Some(reset), false, 5, true),
    ];
    for (name, record, all_contested, token, waits) in table {
        let store = MemoryStore::new();
        if let Some(record) = record {
            let key = Key::new(UpstreamId(1), b"k").unwrap();
            match record.token {
                Some(_) => store.raise(key, record, Box::new(|_| {})),
                None => store.reset(key, Box::new(|_| {})),
            }
        }
        let quarantine = Some(LIFETIME);
        let options = RealmOptions { quarantine, all_contested, ..realm(LIFETIME) };
        let world = World::with(options, store);
        let answer = world.ask(&write(token)).await;
        assert_eq!(answer.is_err(), waits, "{name}: {answer:?}");
        drop(answer);
        settle_down().await;
        assert!(!clean(&world), "{name}: no clean mark in a quarantine");
        tokio::time::advance(LIFETIME + Duration::from_millis(1)).await;
        drop(world.ask(&write(token)).await.unwrap_or_else(|denied| panic!("{name}: {denied:?}")));
        let record = world.store.record(&world.key("k")).unwrap();
        assert!(!record.contested || !waits, "{name}: let through, so cleared: {record:?}");
        assert!(clean(&world), "{name}");
    }
}

/// What a clean mark needs, but for the closed gate.
fn clean(world: &World) -> bool {
    let inner = &world.gate.0;
    let now = inner.clock.now();
    inner.sweep_doubts(crate::fence::Moment(u64::MAX));
    inner.doubtful.lock().is_empty()
        && world.in_flight() == 0
        && inner.realms.iter().all(|realm| realm.regime(now).quarantined().is_none())
}

#[tokio::test(start_paused = true)]
async fn a_clean_mark_needs_a_closed_gate_with_nothing_open() {
    let world = World::new();
    let permit = world.write(5).await;
    assert!(!world.gate.is_clean(), "open for more");
    world.gate.close();
    assert!(!world.gate.is_clean(), "in flight");
    let mut settled = pin!(world.gate.settled());
    assert!(poll_once(settled.as_mut()).is_pending());
    permit.settle(Outcome::Unknown);
    settled.await;
    assert!(!world.gate.is_clean(), "in doubt");
    tokio::time::advance(LIFETIME + Duration::from_millis(1)).await;
    assert!(world.gate.is_clean());
    assert_eq!(world.ask(&write(6)).await.unwrap_err().reason, Reason::ShuttingDown);
}

#[tokio::test(start_paused = true)]
async fn evicting_forgets_nothing() {
    let world = World::cached(4 << 10, realm(LIFETIME), MemoryStore::new());
    let names: Vec<&'static str> = (0..500).map(|n| &*format!("key-{n}").leak()).collect();
    let of = |key, token| Wish { key, ..write(token) };
    let open = world.ask(&of("busy", 9)).await.unwrap().permit.unwrap();
    world.ask(&of("doubt", 9)).await.unwrap().permit.unwrap().settle(Outcome::Unknown);
    for name in &names {
        drop(world.ask(&of(name, 5)).await.unwrap());
    }
    assert!(world.gate.0.cache.len() < 60, "{} keys in memory", world.gate.0.cache.len());
    for name in &names {
        assert_eq!(world.ask(&of(name, 4)).await.unwrap_err().reason, Reason::Stale, "{name}");
    }
    let busy = world.gate.0.cache.is_live(&world.key("busy"));
    assert_eq!(busy, Some(true), "in flight, so it stays");
    let denied = world.ask(&of("doubt", 10)).await.unwrap_err();
    assert!(matches!(denied.reason, Reason::InDoubt { .. }), "in doubt, so it stays");
    drop(open);
}

/// A look-up that was answered before a raise must not bring the old mark back.
#[tokio::test(start_paused = true)]
async fn a_slow_look_up_never_undoes_a_raise() {
    let store = MemoryStore::new();
    let key = Key::new(UpstreamId(1), b"k").unwrap();
    let mark = Mark { token: Some(Token::new(5)), contested: false, holder: None };
    store.raise(key, mark, Box::new(|_| {}));
    let world = World::with(realm(LIFETIME), store);
    world.store.hold();
    let (nine, six) = (write(9), write(6));
    let (mut nine, mut six) = (pin!(world.ask(&nine)), pin!(world.ask(&six)));
    assert!(poll_once(nine.as_mut()).is_pending());
    assert!(poll_once(six.as_mut()).is_pending());
    assert_eq!(world.store.held(), 1, "one look-up for both");
    world.store.answer(0);
    assert!(poll_once(nine.as_mut()).is_pending());
    assert!(matches!(poll_once(six.as_mut()), Poll::Ready(Err(_))), "9 was seen first");
    world.store.go_on();
    assert!(matches!(poll_once(nine.as_mut()), Poll::Ready(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn a_route_that_does_not_enforce_waits_for_nothing_and_counts() {
    let world = World::new();
    let observed = |token: Option<u64>| Wish {
        token,
        policy: Policy { enforce: false, ..policy() },
        ..write(0)
    };
    let nine = world.ask(&observed(Some(9))).await.unwrap();
    assert_eq!(nine.would_refuse, None);
    let stale = world.ask(&observed(Some(5))).await.unwrap();
    assert_eq!(stale.would_refuse, Some(Reason::Stale));
    let missing = world.ask(&observed(None)).await.unwrap();
    assert_eq!(missing.would_refuse, Some(Reason::TokenMissing));
    let higher = world.ask(&observed(Some(10))).await.unwrap();
    assert_eq!(higher.would_refuse, Some(Reason::Draining));
    assert_eq!(higher.highest, Some(Token::new(10)), "recorded as usual");
    assert_eq!(world.in_flight(), 4);
    // An enforced write of the same key waits for all of them.
    let enforced = write(10);
    let mut enforced = pin!(world.ask(&enforced));
    assert!(poll_once(enforced.as_mut()).is_pending());
    for admitted in [nine, stale, missing] {
        admitted.permit.unwrap().settle(Outcome::Answered);
    }
    assert!(matches!(poll_once(enforced.as_mut()), Poll::Ready(Ok(_))));
    world.store.poison("gone");
    let unsaved = world.ask(&observed(Some(11))).await.unwrap();
    assert!(unsaved.permit.is_some(), "the store's failure holds nothing back");
}

/// A claim promises, whatever the route: it drains, is durable first, and is never in flight.
#[tokio::test(start_paused = true)]
async fn a_claim_on_a_route_that_does_not_enforce_is_a_claim() {
    for policy in [Policy { enforce: false, ..policy() }, Policy { mode: Mode::Off, ..policy() }] {
        let world = World::new();
        let lower = world.write(4).await;
        let wish = Wish { policy, ..claim(5) };
        let mut claimed = pin!(world.ask(&wish));
        assert!(poll_once(claimed.as_mut()).is_pending(), "a lower write is in flight");
        lower.settle(Outcome::Answered);
        let Poll::Ready(Ok(admitted)) = poll_once(claimed.as_mut()) else { panic!("drained") };
        assert!(admitted.permit.is_none() && admitted.would_refuse.is_none());
        assert_eq!(world.store.record(&world.key("k")).unwrap().token, Some(Token::new(5)));
        assert_eq!(world.gate.show(&world.key("k")).await.unwrap().in_flight, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sticky_key_takes_writes_without_a_token_until_its_first() {
    let world = World::new();
    let sticky =
        |token| Wish { token, policy: Policy { mode: Mode::Sticky, ..policy() }, ..write(0) };
    let bare = world.ask(&sticky(None)).await.unwrap().permit.unwrap();
    let first = sticky(Some(1));
    let mut first = pin!(world.ask(&first));
    assert!(poll_once(first.as_mut()).is_pending(), "the write without a token is lower");
    assert_eq!(world.ask(&sticky(None)).await.unwrap_err().reason, Reason::TokenMissing);
    bare.settle(Outcome::Answered);
    assert!(matches!(poll_once(first.as_mut()), Poll::Ready(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_pinned_to_its_token() {
    let world = World::new();
    let of = |holder: &str| Wish { holder: Holder::parse(holder.as_bytes()), ..write(5) };
    drop(world.write(5).await);
    drop(world.ask(&of("a")).await.unwrap());
    let record = world.store.record(&world.key("k")).unwrap();
    assert_eq!(record.holder, Holder::parse(b"a"), "pinning is durable");
    assert_eq!(world.ask(&of("b")).await.unwrap_err().reason, Reason::HolderConflict);
    drop(world.write(5).await);
    drop(world.ask(&of("a")).await.unwrap());
    drop(world.ask(&Wish { token: Some(6), ..of("b") }).await.unwrap());
}
