//! R12: the operator's hand, in every state of a key.

use super::*;
use crate::{
    fence::{Limits, Outcome},
    gate::{OperatorError, Reason},
};

#[tokio::test(start_paused = true)]
async fn an_advance_raises_and_counts_what_is_open() {
    let world = World::new();
    let key = world.key("k");
    let _flying = world.write(5).await;
    let advanced = world.gate.advance(&key, Token::new(9), Limits::default()).await.unwrap();
    assert_eq!((advanced.highest, advanced.lower_open), (Token::new(9), 1));
    assert_eq!(world.store.record(&key).unwrap().token, Some(Token::new(9)));
    assert!(world.store.record(&key).unwrap().contested, "a lower write was open");
    assert_eq!(world.ask(&write(8)).await.unwrap_err().reason, Reason::Stale);
    let lower = world.gate.advance(&key, Token::new(8), Limits::default()).await;
    assert!(matches!(lower, Err(OperatorError::Lower(highest)) if highest == Token::new(9)));
    let limits = Limits { max_jump: Some(10), ..Limits::default() };
    let far = world.gate.advance(&key, Token::new(99), limits).await;
    assert!(matches!(far, Err(OperatorError::Implausible)));
    let forced = Limits { forced: true, ..limits };
    assert!(world.gate.advance(&key, Token::new(99), forced).await.is_ok());
    let same = world.gate.advance(&key, Token::new(99), Limits::default()).await.unwrap();
    assert_eq!(same.highest, Token::new(99), "nothing to do is no error");
}

#[tokio::test(start_paused = true)]
async fn an_advance_makes_waiters_stale() {
    let world = World::new();
    let _flying = world.write(5).await;
    let wish = write(6);
    let mut waiter = pin!(world.ask(&wish));
    assert!(poll_once(waiter.as_mut()).is_pending());
    world.gate.advance(&world.key("k"), Token::new(9), Limits::default()).await.unwrap();
    let Poll::Ready(Err(denied)) = poll_once(waiter.as_mut()) else { panic!("still waits") };
    assert_eq!(denied.reason, Reason::Stale);
}

#[tokio::test(start_paused = true)]
async fn a_release_ends_doubt() {
    let world = World::new();
    world.write(5).await.settle(Outcome::Unknown);
    assert!(world.ask(&write(6)).await.is_err());
    let released = world.gate.release(&world.key("k")).await.unwrap();
    assert_eq!((released.doubts, released.quarantine), (1, false));
    drop(world.write(6).await);
    world.gate.close();
    assert!(world.gate.is_clean());
}

#[tokio::test(start_paused = true)]
async fn a_release_ends_the_quarantine_of_its_key_alone() {
    let store = MemoryStore::new();
    let options =
        RealmOptions { quarantine: Some(LIFETIME), all_contested: true, ..realm(LIFETIME) };
    let world = World::with(options, store);
    let other = Wish { key: "other", ..write(5) };
    assert!(world.ask(&write(5)).await.is_err());
    let released = world.gate.release(&world.key("k")).await.unwrap();
    assert!(released.quarantine);
    drop(world.write(5).await);
    drop(world.write(6).await);
    assert!(world.ask(&other).await.is_err());
}

/// In a quarantine the holder of a key that nobody contested goes on, and a takeover of it waits:
/// that is what an operator asks about, and may end, before anybody has come.
#[tokio::test(start_paused = true)]
async fn a_takeover_of_an_uncontested_key_waits_for_the_quarantine_until_it_is_released() {
    let store = MemoryStore::new();
    let known = World::with(realm(LIFETIME), store.clone());
    drop(known.write(5).await);
    let world = World::with(RealmOptions { quarantine: Some(LIFETIME), ..realm(LIFETIME) }, store);
    let key = world.key("k");
    assert!(world.gate.show(&key).await.unwrap().quarantine >= Some(LIFETIME));
    assert_eq!(world.gate.show(&world.key("new")).await.unwrap().quarantine, None, "it is free");
    assert!(world.gate.release(&key).await.unwrap().quarantine);
    assert_eq!(world.gate.show(&key).await.unwrap().quarantine, None);
    drop(world.write(6).await);
    assert!(!world.gate.release(&key).await.unwrap().quarantine, "it has ended already");
}

/// The operator vouches for what is in doubt, not for what is in flight: a crash would put that in
/// doubt, so the record keeps its warning.
#[tokio::test(start_paused = true)]
async fn a_release_leaves_the_record_contested_while_lower_writes_are_in_flight() {
    let world = World::new();
    let key = world.key("k");
    let lower = world.write(5).await;
    let wish = write(6);
    let mut waiter = pin!(world.ask(&wish));
    assert!(poll_once(waiter.as_mut()).is_pending());
    world.gate.release(&key).await.unwrap();
    assert!(world.store.record(&key).unwrap().contested);
    lower.settle(Outcome::Unknown);
    world.gate.release(&key).await.unwrap();
    assert!(!world.store.record(&key).unwrap().contested, "now it is in doubt, and vouched for");
}

#[tokio::test(start_paused = true)]
async fn a_reset_needs_a_quiet_key() {
    let world = World::new();
    let key = world.key("k");
    let busy = |result| matches!(result, Err(OperatorError::Busy));
    let flying = world.write(5).await;
    assert!(busy(world.gate.reset(&key).await), "in flight");
    {
        let wish = write(6);
        let mut waiter = pin!(world.ask(&wish));
        assert!(poll_once(waiter.as_mut()).is_pending());
        assert!(busy(world.gate.reset(&key).await), "waited for");
    }
    flying.settle(Outcome::Unknown);
    assert!(busy(world.gate.reset(&key).await), "in doubt");
    tokio::time::advance(LIFETIME + Duration::from_millis(1)).await;
    world.gate.reset(&key).await.unwrap();
    let record = world.store.record(&key).unwrap();
    assert_eq!((record.token, record.contested), (None, true));
    drop(world.write(1).await);
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_for_a_reset_to_be_durable() {
    let world = World::new();
    let key = world.key("k");
    drop(world.write(5).await);
    world.store.hold();
    let mut reset = Box::pin(world.gate.reset(&key));
    assert!(poll_once(reset.as_mut()).is_pending());
    let wish = write(1);
    let mut lower = pin!(world.ask(&wish));
    assert!(poll_once(lower.as_mut()).is_pending());
    // The operator hangs up: what was begun is finished all the same.
    drop(reset);
    world.store.go_on();
    assert!(matches!(poll_once(lower.as_mut()), Poll::Ready(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn a_reset_that_fails_changes_nothing() {
    let world = World::new();
    drop(world.write(5).await);
    world.store.poison("gone");
    assert!(matches!(world.gate.reset(&world.key("k")).await, Err(OperatorError::Store(_))));
    assert_eq!(world.ask(&write(4)).await.unwrap_err().reason, Reason::Stale);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_shown_as_it_is() {
    let world = World::new();
    let key = world.key("k");
    let empty = world.gate.show(&key).await.unwrap();
    assert_eq!((empty.highest, empty.durable.is_none()), (None, true));
    world.write(5).await.settle(Outcome::Unknown);
    let _flying = world.write(5).await;
    let wish = Wish { policy: Policy { drain_timeout: LIFETIME * 2, ..policy() }, ..write(6) };
    let mut waiter = pin!(world.ask(&wish));
    assert!(poll_once(waiter.as_mut()).is_pending());
    let shown = world.gate.show(&key).await.unwrap();
    assert_eq!(shown.highest, Some(Token::new(6)));
    assert_eq!(shown.in_flight, [(Some(Token::new(5)), 1)]);
    assert_eq!(shown.in_doubt.len(), 1);
    assert_eq!(shown.waiting, 1);
    assert_eq!(shown.quarantine, None);
    assert_eq!(world.gate.display(&key), "store:k");
    assert_eq!(world.gate.resolve("store"), Some(UpstreamId(1)));
}
