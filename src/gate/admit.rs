//! Admission: offer, and wait for what the verdict names, until there is an answer.

use std::{sync::Arc, time::Duration};

use tokio::{sync::futures::OwnedNotified, time::Instant};

use super::{
    Admitted, Ask, Clock, Denied, Gate, Inner, Mode, Permit, Reason, Takeover,
    cache::InUse,
    slot::{Load, State},
    waiter::Waiter,
};
use crate::fence::{Admission, Fence, Key, Mark, Moment, Token};

/// How long past `drain_timeout` a takeover waits for the writes that it cut to end: a cut
/// connection is joined in no time, a file's last step may take a sync.
const CUT_GRACE: Duration = Duration::from_secs(2);

impl Gate {
    /// The answer, where one look at the key gives it. Where it does not, what the write or claim
    /// needs of the store is under way, and [`Gate::admit`] waits for it.
    pub fn admit_at_once(&self, ask: &Ask<'_>) -> Option<Result<Admitted, Denied>> {
        let inner = &self.0;
        let refuse =
            |fence: &Fence| ask.refused_by(fence).filter(|_| !inner.closing.is_cancelled());
        let slot = match inner.cache.slot_unless(ask.key, refuse) {
            Ok(slot) => slot,
            Err(denied) => return Some(Err(denied)),
        };
        let mut waiter = Waiter::new(inner, &slot, ask.policy);
        let now = waiter.arrived;
        match inner.step(&slot, ask, &mut waiter, now) {
            Step::Answer(answer) => Some(answer),
            Step::Wait(wait) => inner.set_about(&slot, wait.work),
        }
    }

    /// Waits until the write or claim may go on, at most about `drain_timeout`.
    ///
    /// Dropping the future leaves no trace but the mark: a token that was offered stays seen (R9).
    ///
    /// # Errors
    /// [`Denied`], with the reason and the mark. Nothing was sent.
    pub async fn admit(&self, ask: Ask<'_>) -> Result<Admitted, Denied> {
        let inner = &self.0;
        let slot = inner.cache.slot(ask.key);
        let mut waiter = Waiter::new(inner, &slot, ask.policy);
        let mut now = waiter.arrived;
        loop {
            let wait = match inner.step(&slot, &ask, &mut waiter, now) {
                Step::Answer(answer) => return answer,
                Step::Wait(wait) => wait,
            };
            if let Some(answer) = inner.set_about(&slot, wait.work) {
                return answer;
            }
            tokio::select! {
                () = wait.change => {}
                () = tokio::time::sleep_until(wait.until) => {}
                () = inner.closing.cancelled() => {}
            }
            now = inner.clock.now();
        }
    }

    /// The highest token of a key, for an answer to a read. Waits for a look-up at most.
    ///
    /// # Errors
    /// [`Reason::StoreUnavailable`].
    pub async fn highest(&self, key: &Key, patience: Duration) -> Result<Option<Token>, Reason> {
        let inner = &self.0;
        let slot = inner.cache.slot(key);
        let deadline = Instant::now() + patience;
        let failures = slot.state.lock().failures;
        loop {
            let (work, change) = {
                let mut state = slot.state.lock();
                if state.load == Load::Ready {
                    return Ok(state.fence.highest());
                }
                if state.failures != failures || Instant::now() >= deadline {
                    return Err(Reason::StoreUnavailable);
                }
                (state.begin_load(), state.listen())
            };
            if work {
                inner.find(&slot);
            }
            tokio::select! {
                () = change => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }
}

enum Step {
    Answer(Result<Admitted, Denied>),
    Wait(Wait),
}

struct Wait {
    work: Option<Work>,
    change: OwnedNotified,
    until: Instant,
}

/// What must be done outside the slot's lock.
enum Work {
    Find,
    Raise(Mark),
    /// A raise that nobody waits for, and the answer that is due.
    Observed(Mark, Result<Admitted, Denied>),
}

impl State {
    /// Whether the caller is to look the key up.
    fn begin_load(&mut self) -> bool {
        let begins = self.load == Load::Cold;
        if begins {
            self.load = Load::UnderWay;
        }
        begins
    }
}

impl Inner {
    /// Does what a look at the key has asked for; the answer, where it is due all the same.
    fn set_about(
        self: &Arc<Self>,
        slot: &InUse,
        work: Option<Work>,
    ) -> Option<Result<Admitted, Denied>> {
        match work? {
            Work::Find => self.find(slot),
            Work::Raise(mark) => self.raise(slot, mark),
            Work::Observed(mark, answer) => {
                self.raise(slot, mark);
                return Some(answer);
            }
        }
        None
    }

    /// One look at the key: an answer, or what to wait for.
    fn step(
        self: &Arc<Self>,
        slot: &InUse,
        ask: &Ask<'_>,
        waiter: &mut Waiter<'_>,
        now: Moment,
    ) -> Step {
        let state = &mut *slot.state.lock();
        if self.closing.is_cancelled() {
            let failed = self.store.poisoned();
            let reason = if failed { Reason::StoreUnavailable } else { Reason::ShuttingDown };
            return deny(state, reason);
        }
        let failed = *waiter.failures.get_or_insert(state.failures) != state.failures;
        // Only writes are let through by such routes: an answered claim is always a promise.
        if ask.policy.mode == Mode::Off && !ask.claim {
            state.fence.track(ask.token);
            return self.admitted(slot, state, ask, None, now);
        }
        if !ask.policy.enforce && !ask.claim {
            return self.observe(slot, state, ask, waiter, failed, now);
        }
        if failed {
            return deny(state, Reason::StoreUnavailable);
        }
        if state.load != Load::Ready {
            // Judged first: a look-up that was begun must be carried out.
            if waiter.is_one_too_many(state, ask) {
                return deny(state, Reason::Overloaded);
            }
            let work = state.begin_load().then_some(Work::Find);
            return self.wait(state, ask, waiter, work, waiter.store_deadline, now);
        }
        let before = state.fence.highest();
        let admission = state.fence.offer(&ask.offer(), self.realm(&slot.key).regime(now));
        if state.fence.highest() != before {
            // Whoever waits with a lower token is stale now.
            self.new_token(state);
        }
        self.follow(slot, state, ask, waiter, admission, now)
    }

    /// Carries out a verdict of the fence.
    fn follow(
        self: &Arc<Self>,
        slot: &InUse,
        state: &mut State,
        ask: &Ask<'_>,
        waiter: &mut Waiter<'_>,
        admission: Admission,
        now: Moment,
    ) -> Step {
        match admission {
            Admission::Forward { clear } => {
                if let Some(token) = clear {
                    self.store.clear(slot.key.clone(), token);
                }
                if waiter.drains {
                    self.metrics.drained(Clock::between(waiter.arrived, now));
                }
                self.admitted(slot, state, ask, None, now)
            }
            Admission::Raise(mark) if waiter.is_one_too_many(state, ask) => {
                // What the fence has asked for is done all the same.
                let highest = state.fence.highest();
                let answer = Err(Denied { reason: Reason::Overloaded, highest });
                self.answer_after(state, mark, answer, now)
            }
            Admission::Raise(mark) => {
                self.wait(state, ask, waiter, Some(Work::Raise(mark)), waiter.store_deadline, now)
            }
            Admission::Raising => self.wait(state, ask, waiter, None, waiter.store_deadline, now),
            Admission::InDoubt { until } => self.wait_for_doubt(state, ask, waiter, until, now),
            Admission::Drain { until } => match until.filter(|until| *until > waiter.deadline) {
                Some(until) => deny(state, in_doubt(now, until)),
                None => self.drain(state, ask, waiter, now),
            },
            refusal @ (Admission::Stale
            | Admission::HolderConflict
            | Admission::Implausible
            | Admission::TokenMissing) => deny(state, Reason::from_refusal(&refusal)),
        }
    }

    /// R3: only doubts, or a quarantine, hold it back.
    fn wait_for_doubt(
        &self,
        state: &mut State,
        ask: &Ask<'_>,
        waiter: &mut Waiter<'_>,
        until: Moment,
        now: Moment,
    ) -> Step {
        if until > waiter.deadline || waiter.cut {
            return deny(state, in_doubt(now, until));
        }
        waiter.drains = true;
        self.wait(state, ask, waiter, None, until, now)
    }

    /// R3: lower writes are in flight. At the deadline they are cut, or the waiter is refused.
    fn drain(
        &self,
        state: &mut State,
        ask: &Ask<'_>,
        waiter: &mut Waiter<'_>,
        now: Moment,
    ) -> Step {
        if now >= waiter.deadline {
            if waiter.cut || !self.cut_lower(state, ask, waiter.arrived) {
                return deny(state, Reason::Draining);
            }
            waiter.cut = true;
            waiter.deadline = super::clock::after(now, CUT_GRACE);
        }
        waiter.drains = true;
        self.wait(state, ask, waiter, None, waiter.deadline, now)
    }

    /// Cuts the lower writes that a takeover may cut now. Whether there was one.
    fn cut_lower(&self, state: &State, ask: &Ask<'_>, arrived: Moment) -> bool {
        let arrived = self.clock.instant(arrived);
        let (mut any, mut first) = (false, false);
        for link in state.links.values().filter(|link| link.rank < ask.token) {
            let silent = link.client_silent_since().is_some_and(|since| since <= arrived);
            if ask.policy.takeover == Takeover::Abort || silent {
                first |= link.cut();
                any = true;
            }
        }
        if first {
            self.metrics.takeover();
        }
        any
    }

    /// `enforce = false`: decides, counts, waits for nothing but the look-up of a cold key.
    fn observe(
        self: &Arc<Self>,
        slot: &InUse,
        state: &mut State,
        ask: &Ask<'_>,
        waiter: &mut Waiter<'_>,
        failed: bool,
        now: Moment,
    ) -> Step {
        if state.load != Load::Ready {
            let crowded = waiter.is_one_too_many(state, ask);
            if failed || crowded || now >= waiter.store_deadline {
                state.fence.track(ask.token);
                let why = Some(Reason::StoreUnavailable);
                return self.admitted(slot, state, ask, why, now);
            }
            let work = state.begin_load().then_some(Work::Find);
            return self.wait(state, ask, waiter, work, waiter.store_deadline, now);
        }
        let before = state.fence.highest();
        let regime = self.realm(&slot.key).regime(now);
        let (would, mark) = state.fence.observe(&ask.offer(), regime);
        if state.fence.highest() != before {
            self.new_token(state);
        }
        let would = would.map(|would| match would {
            Admission::Drain { .. } => Reason::Draining,
            Admission::InDoubt { until } => in_doubt(now, until),
            Admission::Forward { .. }
            | Admission::Raise(_)
            | Admission::Raising
            | Admission::Stale
            | Admission::HolderConflict
            | Admission::Implausible
            | Admission::TokenMissing => Reason::from_refusal(&would),
        });
        match (self.admitted(slot, state, ask, would, now), mark) {
            (Step::Answer(answer), Some(mark)) => self.answer_after(state, mark, answer, now),
            (step, _) => step,
        }
    }

    /// The key has seen a greater token: the held time of the old one is known, its waiters go.
    fn new_token(&self, state: &mut State) {
        if let Some((first, last)) = state.held.take() {
            self.metrics.held(Clock::between(first, last));
        }
        state.wake();
    }

    fn admitted(
        self: &Arc<Self>,
        slot: &InUse,
        state: &mut State,
        ask: &Ask<'_>,
        would_refuse: Option<Reason>,
        now: Moment,
    ) -> Step {
        let highest = state.fence.highest();
        if ask.token.is_some() && ask.token == highest {
            let first = state.held.map_or(now, |(first, _)| first);
            state.held = Some((first, now));
        }
        let permit = (!ask.claim).then(|| Permit::new(self, slot, state, ask));
        Step::Answer(Ok(Admitted { permit, highest, would_refuse }))
    }

    /// Registers the waiter, within the bound, and says what it waits for, at most until when. By the
    /// `now` of the whole look: a later one would take the end of a wait, at which a takeover cuts,
    /// for the end of patience with the store.
    fn wait(
        &self,
        state: &mut State,
        ask: &Ask<'_>,
        waiter: &mut Waiter<'_>,
        work: Option<Work>,
        until: Moment,
        now: Moment,
    ) -> Step {
        if work.is_none() && now >= until {
            return deny(state, Reason::StoreUnavailable);
        }
        if waiter.is_one_too_many(state, ask) {
            return deny(state, Reason::Overloaded);
        }
        if !waiter.counted {
            waiter.counted = true;
            state.waiting += 1;
            self.metrics.waiting_writes.inc();
            self.realm(ask.key).counts.waiting.more();
        }
        Step::Wait(Wait { work, change: state.listen(), until: self.clock.instant(until) })
    }

    /// An answer that is due now, with a raise to be handed in that it does not wait for.
    fn answer_after(
        &self,
        state: &mut State,
        mark: Mark,
        answer: Result<Admitted, Denied>,
        now: Moment,
    ) -> Step {
        Step::Wait(Wait {
            work: Some(Work::Observed(mark, answer)),
            change: state.listen(),
            until: self.clock.instant(now),
        })
    }
}

fn in_doubt(now: Moment, until: Moment) -> Reason {
    Reason::InDoubt { left: Clock::between(now, until) }
}

fn deny(state: &State, reason: Reason) -> Step {
    Step::Answer(Err(Denied { reason, highest: state.fence.highest() }))
}
