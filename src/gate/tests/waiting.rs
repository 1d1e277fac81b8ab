//! Waiting, draining, takeovers; the crowd at one key.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{fence::Outcome, gate::Reason};

#[tokio::test(start_paused = true)]
async fn a_higher_token_waits_for_a_lower_write() {
    let world = World::new();
    let lower = world.write(5).await;
    let wish = write(6);
    let mut waiter = pin!(world.ask(&wish));
    assert!(poll_once(waiter.as_mut()).is_pending());
    assert_eq!(world.waiting(), 1);
    assert_eq!(world.ask(&write(5)).await.unwrap_err().reason, Reason::Stale);
    lower.settle(Outcome::Answered);
    assert!(matches!(poll_once(waiter.as_mut()), Poll::Ready(Ok(_))));
    assert_eq!(world.waiting(), 0);
}

/// Whoever is overtaken while it waits is told so at once, not when its time is over.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_overtaken_is_told_at_once() {
    let world = World::new();
    let _lower = world.write(5).await;
    let (wish, higher) = (write(6), write(7));
    let mut waiter = pin!(world.ask(&wish));
    assert!(poll_once(waiter.as_mut()).is_pending());
    settle_down().await;
    assert!(poll_once(waiter.as_mut()).is_pending());
    let mut overtaker = pin!(world.ask(&higher));
    assert!(poll_once(overtaker.as_mut()).is_pending());
    let began = Instant::now();
    assert_eq!(waiter.await.unwrap_err().reason, Reason::Stale);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn keys_do_not_wait_for_each_other() {
    let world = World::new();
    let _lower = world.write(5).await;
    drop(world.ask(&Wish { key: "other", ..write(1) }).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_client_goes_leaves_no_trace() {
    let world = World::new();
    let lower = world.write(5).await;
    {
        let wish = write(6);
        let mut waiter = pin!(world.ask(&wish));
        assert!(poll_once(waiter.as_mut()).is_pending());
    }
    assert_eq!(world.waiting(), 0);
    assert_eq!(world.in_flight(), 1);
    lower.settle(Outcome::Answered);
    assert_eq!(world.ask(&write(5)).await.unwrap_err().reason, Reason::Stale, "but the mark stays");
}

#[tokio::test(start_paused = true)]
async fn at_the_drain_timeout_a_takeover_cuts_and_goes_on_where_that_settles() {
    let world = World::new();
    let lower = world.write(5).await;
    let cut = tokio::spawn(async move {
        lower.cut().await;
        assert!(lower.was_cut());
        lower.settle(Outcome::NotSent);
    });
    let began = Instant::now();
    drop(world.write(6).await);
    assert!(began.elapsed() >= DRAIN);
    cut.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn at_the_drain_timeout_a_takeover_cuts_and_answers_in_doubt() {
    let world = World::new();
    let lower = world.write(5).await;
    tokio::spawn(async move {
        lower.cut().await;
        lower.settle(Outcome::Unknown);
    });
    let denied = world.ask(&write(6)).await.unwrap_err();
    assert!(matches!(denied.reason, Reason::InDoubt { .. }), "{denied:?}");
    assert_eq!(world.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cut_that_does_not_end_is_answered_too() {
    let world = World::new();
    let _lower = world.write(5).await;
    assert_eq!(world.ask(&write(6)).await.unwrap_err().reason, Reason::Draining);
}

#[tokio::test(start_paused = true)]
async fn a_patient_takeover_cuts_only_a_client_that_fell_silent() {
    let world = World::new();
    let patient = Wish { policy: Policy { takeover: Takeover::Wait, ..policy() }, ..write(6) };
    let line = Line::default();
    let lower = world.write(5).await;
    lower.attach(Arc::new(line.clone()));
    assert_eq!(world.ask(&patient).await.unwrap_err().reason, Reason::Draining, "body is whole");
    assert!(!lower.was_cut());
    *line.silent_since.lock() = Some(Instant::now() + Duration::from_secs(1));
    assert_eq!(world.ask(&patient).await.unwrap_err().reason, Reason::Draining, "it still sends");
    assert!(!lower.was_cut());
    *line.silent_since.lock() = Some(Instant::now());
    tokio::spawn(async move {
        lower.cut().await;
        lower.settle(Outcome::NotSent);
    });
    drop(world.ask(&patient).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_claim_drains_and_is_nothing_in_flight() {
    let world = World::new();
    let lower = world.write(5).await;
    let wish = claim(6);
    let mut waiter = pin!(world.ask(&wish));
    assert!(poll_once(waiter.as_mut()).is_pending());
    lower.settle(Outcome::Answered);
    let Poll::Ready(Ok(claimed)) = poll_once(waiter.as_mut()) else { panic!("drained") };
    assert!(claimed.permit.is_none());
    assert_eq!(world.in_flight(), 0);
    assert_eq!(world.ask(&write(5)).await.unwrap_err().reason, Reason::Stale);
    drop(world.write(7).await);
}

#[tokio::test(start_paused = true)]
async fn waiters_are_bounded() {
    let world = World::new();
    let lower = world.write(5).await;
    let wish = Wish { policy: Policy { max_waiters: 2, ..policy() }, ..write(6) };
    let (mut one, mut two) = (pin!(world.ask(&wish)), pin!(world.ask(&wish)));
    assert!(poll_once(one.as_mut()).is_pending());
    assert!(poll_once(two.as_mut()).is_pending());
    assert_eq!(world.ask(&wish).await.unwrap_err().reason, Reason::Overloaded);
    let higher = Wish { token: Some(7), ..wish.clone() };
    let denied = world.ask(&higher).await.unwrap_err();
    assert_eq!((denied.reason, denied.highest), (Reason::Overloaded, Some(Token::new(7))));
    let record = world.store.record(&world.key("k")).unwrap();
    assert_eq!(record.token, Some(Token::new(7)), "offered, so it is raised all the same (R9)");
    lower.settle(Outcome::Answered);
    for waiter in [one, two] {
        assert_eq!(waiter.await.unwrap_err().reason, Reason::Stale);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_sends_every_waiter_away() {
    let world = World::new();
    let _lower = world.write(5).await;
    let wish = write(6);
    let mut waiter = pin!(world.ask(&wish));
    assert!(poll_once(waiter.as_mut()).is_pending());
    world.gate.close();
    assert_eq!(waiter.await.unwrap_err().reason, Reason::ShuttingDown);
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_one_token_may_wait_for_the_first() {
    let world = World::new();
    world.write(5).await.settle(Outcome::Unknown);
    drop(world.write(5).await);
    let careful = Wish { policy: Policy { same_token_doubt_waits: true, ..policy() }, ..write(5) };
    let denied = world.ask(&careful).await.unwrap_err();
    assert!(matches!(denied.reason, Reason::InDoubt { .. }));
}

/// A look-up that was begun is carried out, whatever becomes of who asked for it.
#[tokio::test(start_paused = true)]
async fn a_crowded_key_whose_look_up_failed_is_looked_up_again() {
    let world = World::new();
    world.store.hold();
    let wish = Wish { policy: Policy { max_waiters: 1, ..policy() }, ..write(5) };
    let mut waiter = Box::pin(world.ask(&wish));
    assert!(poll_once(waiter.as_mut()).is_pending());
    world.store.fail_reads(true);
    world.store.answer(0);
    // The failure has woken the waiter, which has not run yet: the key is as full as before.
    assert_eq!(world.ask(&wish).await.unwrap_err().reason, Reason::Overloaded);
    assert_eq!(waiter.await.unwrap_err().reason, Reason::StoreUnavailable);
    world.store.fail_reads(false);
    world.store.go_on();
    drop(world.ask(&wish).await.unwrap());
}

/// `drain_timeout` bounds the wait for lower writes, not the store's sync.
#[tokio::test(start_paused = true)]
async fn a_takeover_at_once_still_waits_for_the_store() {
    let world = World::new();
    drop(world.write(1).await);
    world.store.hold();
    let wish = Wish { policy: Policy { drain_timeout: Duration::ZERO, ..policy() }, ..write(5) };
    let mut waiter = pin!(world.ask(&wish));
    assert!(poll_once(waiter.as_mut()).is_pending());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(poll_once(waiter.as_mut()).is_pending());
    world.store.go_on();
    assert!(matches!(poll_once(waiter.as_mut()), Poll::Ready(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn waiters_learn_of_a_second_doubt_that_is_too_long_to_wait_for() {
    let world = World::new();
    world.write(5).await.settle(Outcome::Unknown);
    tokio::time::advance(LIFETIME + Duration::from_millis(1)).await;
    let (one, two) = (world.write(5).await, world.write(5).await);
    let wish = write(6);
    let mut waiter = pin!(world.ask(&wish));
    assert!(poll_once(waiter.as_mut()).is_pending());
    one.settle(Outcome::Unknown);
    let Poll::Ready(Err(denied)) = poll_once(waiter.as_mut()) else { panic!("still waits") };
    assert!(matches!(denied.reason, Reason::InDoubt { .. }));
    drop(two);
}

/// Counts how often a waiter is woken.
struct Woken(AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Many lower writes settle, one after the other, and a crowd waits for all of them: each waiter is
/// woken to go on, not for each settled write.
#[tokio::test(start_paused = true)]
async fn a_crowd_is_not_woken_to_lie_down_again() {
    const CROWD: usize = 500;
    let world = World::new();
    let mut lower = vec![];
    for _ in 0..100 {
        lower.push(world.write(5).await);
    }
    let woken = Arc::new(Woken(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let wish = write(6);
    let mut crowd: Vec<_> = (0..CROWD).map(|_| Box::pin(world.ask(&wish))).collect();
    for waiter in &mut crowd {
        assert!(waiter.as_mut().poll(&mut context).is_pending());
    }
    // The first one's raise is answered at once; nobody else was woken by it.
    for waiter in &mut crowd {
        assert!(waiter.as_mut().poll(&mut context).is_pending());
    }
    woken.0.store(0, Ordering::Relaxed);
    for permit in lower {
        permit.settle(Outcome::Answered);
    }
    for waiter in &mut crowd {
        assert!(matches!(waiter.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
    }
    assert_eq!(woken.0.load(Ordering::Relaxed), CROWD, "once each");
    assert_eq!(world.waiting(), 0);
}
