//! Verdicts, rule by rule. The interleavings are explored in `tests/model`.

use super::*;

const NOW: Regime = Regime { now: Moment(100), quarantine: None, all_contested: false };
const QUARANTINE: Regime = Regime { quarantine: Some(Moment(500)), ..NOW };

fn mark(token: u64, contested: bool) -> Mark {
    Mark { token: Some(Token::new(token)), contested, holder: None }
}

fn offer(token: u64) -> Offer<'static> {
    Offer { token: Some(Token::new(token)), holder: None, claim: false, limits: Limits::default() }
}

/// Offers until the verdict is no raise, which is durable at once here.
fn ask(fence: &mut Fence, offer: &Offer<'_>, regime: Regime) -> Admission {
    let mut verdict = fence.offer(offer, regime);
    while let Admission::Raise(mark) = verdict {
        fence.raised(&mark, mark.clone());
        verdict = fence.offer(offer, regime);
    }
    verdict
}

fn at(token: u64) -> Fence {
    Fence::new(Some(mark(token, false)))
}

#[test]
fn r1_lower_is_refused_and_equal_is_let_in() {
    let mut fence = at(5);
    assert_eq!(ask(&mut fence, &offer(4), NOW), Admission::Stale);
    assert_eq!(fence.offer(&offer(5), NOW), Admission::Forward { clear: None });
    assert_eq!(fence.offer(&offer(5), NOW), Admission::Forward { clear: None });
    assert_eq!(fence.in_flight(), [(Some(Token::new(5)), 2)]);
    let mut top = at(u64::MAX);
    assert_eq!(ask(&mut top, &offer(u64::MAX - 1), NOW), Admission::Stale);
    assert!(matches!(top.offer(&offer(u64::MAX), NOW), Admission::Forward { .. }));
}

#[test]
fn r1_holders_of_one_token_must_not_differ() {
    let (a, b) = (Holder::parse(b"a").unwrap(), Holder::parse(b"b").unwrap());
    let named = |holder| Offer { holder: Some(holder), ..offer(5) };
    let mut fence = at(5);
    let Admission::Raise(pin) = fence.offer(&named(&a), NOW) else { panic!("pinning is a raise") };
    assert_eq!(pin.holder, Some(a.clone()));
    assert_eq!(fence.offer(&named(&a), NOW), Admission::Raising, "one raise for both");
    assert_eq!(fence.offer(&named(&b), NOW), Admission::HolderConflict, "also while it is pending");
    assert!(matches!(fence.offer(&offer(5), NOW), Admission::Forward { .. }), "who names none");
    fence.raised(&pin, pin.clone());
    assert!(matches!(fence.offer(&named(&a), NOW), Admission::Forward { .. }));
    fence.settle(Some(Token::new(5)), Outcome::Answered, Moment(0));
    fence.settle(Some(Token::new(5)), Outcome::Answered, Moment(0));
    assert!(matches!(
        ask(&mut fence, &Offer { holder: Some(&b), ..offer(6) }, NOW),
        Admission::Forward { .. }
    ));
}

#[test]
fn r2_a_raise_is_asked_for_once_and_again_after_it_failed() {
    let mut fence = Fence::new(None);
    let Admission::Raise(five) = fence.offer(&offer(5), NOW) else { panic!() };
    assert_eq!(fence.offer(&offer(5), NOW), Admission::Raising);
    let Admission::Raise(six) = fence.offer(&offer(6), NOW) else { panic!() };
    fence.raised(&five, six.clone());
    assert_eq!(fence.offer(&offer(5), NOW), Admission::Stale);
    assert!(!fence.is_forgettable(NOW), "the second raise is not answered yet");
    fence.raise_failed(&six);
    assert_eq!(fence.highest(), Some(Token::new(6)), "seen, whatever follows");
    assert!(matches!(fence.offer(&offer(6), NOW), Admission::Forward { .. }), "the batch had it");
    let Admission::Raise(seven) = fence.offer(&offer(7), NOW) else { panic!() };
    fence.raise_failed(&seven);
    assert!(matches!(fence.offer(&offer(7), NOW), Admission::Raise(_)));
}

#[test]
fn r3_r4_lower_writes_are_waited_for_as_long_as_is_known() {
    let mut fence = at(5);
    assert!(matches!(fence.offer(&offer(5), NOW), Admission::Forward { .. }));
    assert!(matches!(fence.offer(&offer(5), NOW), Admission::Forward { .. }));
    assert_eq!(ask(&mut fence, &offer(6), NOW), Admission::Drain { until: None });
    fence.settle(Some(Token::new(5)), Outcome::Unknown, Moment(300));
    assert_eq!(ask(&mut fence, &offer(6), NOW), Admission::Drain { until: Some(Moment(300)) });
    fence.settle(Some(Token::new(5)), Outcome::Unknown, Moment(200));
    assert_eq!(ask(&mut fence, &offer(6), NOW), Admission::InDoubt { until: Moment(300) });
    assert_eq!(fence.open_below(Token::new(6)), 1);
    let later = Regime { now: Moment(299), ..NOW };
    assert_eq!(ask(&mut fence, &offer(6), later), Admission::InDoubt { until: Moment(300) });
    let later = Regime { now: Moment(300), ..NOW };
    assert!(matches!(ask(&mut fence, &offer(6), later), Admission::Forward { .. }));
}

#[test]
fn r4_more_doubts_than_are_told_apart_block_more_not_less() {
    let mut fence = Fence::new(None);
    for token in 1..=100 {
        fence.observe(&offer(token), NOW);
        fence.settle(Some(Token::new(token)), Outcome::Unknown, Moment(1000 - token));
    }
    assert!(fence.in_doubt().len() <= 32);
    assert_eq!(ask(&mut fence, &offer(101), NOW), Admission::InDoubt { until: Moment(999) });
    assert_eq!(fence.in_doubt()[0].0, Some(Token::new(1)), "the lowest blocks whom it blocked");
}

#[test]
fn r5_what_is_raised_while_lower_writes_are_open_is_contested_until_it_is_let_through() {
    let mut fence = at(5);
    assert!(matches!(fence.offer(&offer(5), NOW), Admission::Forward { .. }));
    let Admission::Raise(six) = fence.offer(&offer(6), NOW) else { panic!() };
    assert!(six.contested);
    fence.raised(&six, six.clone());
    assert!(matches!(fence.offer(&offer(6), NOW), Admission::Drain { .. }));
    fence.settle(Some(Token::new(5)), Outcome::Answered, Moment(0));
    let clear = Some(Token::new(6));
    assert_eq!(fence.offer(&offer(6), NOW), Admission::Forward { clear });
    assert_eq!(fence.offer(&offer(6), NOW), Admission::Forward { clear: None }, "once");
}

#[test]
fn r5_a_quarantine_clears_nothing_and_raises_contested() {
    let mut fence = Fence::new(None);
    let Admission::Raise(free) = fence.offer(&offer(5), QUARANTINE) else { panic!() };
    assert!(!free.contested, "a key without a record is free");
    fence.raised(&free, free.clone());
    assert_eq!(fence.offer(&offer(5), QUARANTINE), Admission::Forward { clear: None });
    fence.settle(Some(Token::new(5)), Outcome::Answered, Moment(0));
    let Admission::Raise(six) = fence.offer(&offer(6), QUARANTINE) else { panic!() };
    assert!(six.contested, "it is free no more");
    fence.raised(&six, six.clone());
    assert_eq!(fence.offer(&offer(6), QUARANTINE), Admission::InDoubt { until: Moment(500) });
    let tokenless = Offer { token: None, ..offer(0) };
    assert_eq!(fence.offer(&tokenless, QUARANTINE), Admission::TokenMissing);
    let over = Regime { now: Moment(500), ..QUARANTINE };
    assert_eq!(fence.offer(&offer(6), over), Admission::Forward { clear: Some(Token::new(6)) });
}

#[test]
fn r9_what_is_implausible_raises_nothing() {
    let pair = |generation, counter| Token { generation, counter };
    let limits = |max_jump, max_token| Limits { max_jump, max_token, ..Limits::default() };
    let table = [
        (None, pair(0, 1 << 40), limits(Some(10), None), false, "a first token has no mark"),
        (None, pair(0, 101), limits(None, Some(pair(0, 100))), true, "but max_token judges it"),
        (Some(pair(0, 5)), pair(0, 15), limits(Some(10), None), false, "the bound"),
        (Some(pair(0, 5)), pair(0, 16), limits(Some(10), None), true, "one past it"),
        (Some(pair(0, 5)), pair(1, 900), limits(Some(10), None), false, "first of a generation"),
        (Some(pair(0, 5)), pair(2, 1), Limits::default(), true, "a generation was skipped"),
        (Some(pair(3, 5)), pair(4, 0), Limits::default(), false, "the next generation"),
        (Some(pair(0, 0)), pair(0, u64::MAX), limits(Some(u64::MAX), None), false, "the top"),
        (
            Some(pair(0, 5)),
            pair(9, 9),
            Limits { forced: true, ..Limits::default() },
            false,
            "force",
        ),
    ];
    for (highest, token, limits, implausible, why) in table {
        let record = highest.map(|token| Mark { token: Some(token), ..Mark::default() });
        let mut fence = Fence::new(record);
        let asked = Offer { token: Some(token), limits, ..offer(0) };
        let verdict = fence.offer(&asked, NOW);
        assert_eq!(verdict == Admission::Implausible, implausible, "{why}: {verdict:?}");
        let seen = if implausible { highest } else { Some(token) };
        assert_eq!(fence.highest(), seen, "{why}");
    }
}

#[test]
fn r10_observed_writes_count_and_raise_but_wait_for_nothing() {
    let mut fence = at(5);
    let (would, raise) = fence.observe(&offer(7), NOW);
    assert_eq!((would, raise), (None, Some(mark(7, false))));
    let (would, raise) = fence.observe(&offer(6), NOW);
    assert_eq!((would, raise), (Some(Admission::Stale), None));
    fence.track(None);
    assert_eq!(fence.in_flight().len(), 3);
    fence.raised(&mark(7, false), mark(7, false));
    assert_eq!(ask(&mut fence, &offer(7), NOW), Admission::Drain { until: None });
}

#[test]
fn r12_release_and_reset() {
    let mut fence = Fence::new(Some(mark(5, true)));
    assert_eq!(fence.offer(&offer(5), QUARANTINE), Admission::InDoubt { until: Moment(500) });
    assert_eq!(fence.release(&[]), 0);
    assert!(!fence.is_forgettable(QUARANTINE), "the release is remembered while it matters");
    assert!(matches!(fence.offer(&offer(5), QUARANTINE), Admission::Forward { .. }));
    fence.settle(Some(Token::new(5)), Outcome::Unknown, Moment(400));
    let seen = fence.in_doubt().to_vec();
    fence.observe(&offer(5), QUARANTINE);
    fence.settle(Some(Token::new(5)), Outcome::Unknown, Moment(450));
    assert_eq!(fence.release(&seen), 0, "nobody has vouched for the later one");
    let seen = fence.in_doubt().to_vec();
    assert_eq!(fence.release(&seen), 1);
    assert!(matches!(ask(&mut fence, &offer(6), QUARANTINE), Admission::Forward { .. }));
    fence.settle(Some(Token::new(6)), Outcome::Answered, Moment(0));
    fence.reset();
    assert_eq!(fence.highest(), None);
    assert_eq!(fence.durable(), Some(&Mark { token: None, contested: true, holder: None }));
    let Admission::Raise(one) = fence.offer(&offer(1), NOW) else { panic!() };
    assert!(!one.contested);
}

#[test]
fn a_write_without_a_token_is_the_lowest_of_all() {
    let tokenless = Offer { token: None, ..offer(0) };
    let mut fence = Fence::new(None);
    assert_eq!(fence.offer(&tokenless, NOW), Admission::Forward { clear: None });
    assert_eq!(ask(&mut fence, &offer(0), NOW), Admission::Drain { until: None }, "0 is a token");
    assert_eq!(fence.offer(&tokenless, NOW), Admission::TokenMissing);
}

#[test]
fn what_was_counted_before_the_look_up_stays_counted() {
    let mut fence = Fence::default();
    fence.track(None);
    fence.remember(Some(mark(5, false)));
    assert_eq!(ask(&mut fence, &offer(5), NOW), Admission::Drain { until: None });
}
