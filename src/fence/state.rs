//! The state machine of one key: R1 to R5, R9, R10 and R12.

use super::{Admission, Holder, Limits, Mark, Moment, Offer, Outcome, Regime, Token, offer::Raise};

/// Most tokens in doubt that are told apart; beyond it neighbours are merged, to the safe side.
const MAX_DOUBTS: usize = 32;

/// One key: what was seen, what is durable, and which writes may still take effect.
///
/// Every public method that changes it leaves the invariants of `check_invariants` true.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Fence {
    highest: Option<Token>,
    holder: Option<Holder>,
    durable: Option<Mark>,
    raising: Option<(Token, Option<Holder>)>,
    in_flight: Vec<(Option<Token>, usize)>,
    in_doubt: Vec<(Option<Token>, Moment)>,
    released: bool,
}

impl Fence {
    /// A key as the store remembers it; `None` where it has no record.
    pub fn new(record: Option<Mark>) -> Self {
        let mut fence = Self::default();
        fence.remember(record);
        fence
    }

    /// What the store remembers, for a key whose writes were counted before it was looked up.
    pub fn remember(&mut self, record: Option<Mark>) {
        if let Some(mark) = &record {
            self.highest = mark.token;
            self.holder.clone_from(&mark.holder);
        }
        self.durable = record;
        self.check_invariants();
    }

    /// Judges an offer. Where the verdict is [`Admission::Forward`], a write is counted as in
    /// flight from here on and must be settled exactly once.
    pub fn offer(&mut self, offer: &Offer<'_>, regime: Regime) -> Admission {
        self.expire(regime.now);
        let admission = match self.compare(offer) {
            Some(refusal) => refusal,
            None => self.go_on(offer, regime),
        };
        self.check_invariants();
        admission
    }

    /// Counts a write that no verdict holds back (`enforce = false`, R10) and says what would have:
    /// a refusal or a wait, and the mark to raise, for which nobody waits. Not for claims.
    pub fn observe(
        &mut self,
        offer: &Offer<'_>,
        regime: Regime,
    ) -> (Option<Admission>, Option<Mark>) {
        self.expire(regime.now);
        let refusal = self.compare(offer);
        let mark = match &refusal {
            Some(_) => None,
            None => self.raise(offer, regime).and_then(Raise::submit),
        };
        let would = refusal.or_else(|| self.hold(offer, regime));
        debug_assert!(!offer.claim, "a claim is never let through");
        self.count(offer.token);
        self.check_invariants();
        (would, mark)
    }

    /// Counts a write as in flight without any verdict (`token = "off"`, R10).
    pub fn track(&mut self, token: Option<Token>) {
        self.count(token);
        self.check_invariants();
    }

    /// The store's answer to a raise: `submitted` is what was handed to it, `record` what it then
    /// had, synced.
    pub fn raised(&mut self, submitted: &Mark, record: Mark) {
        self.raise_ended(submitted);
        if record.token > self.highest {
            self.highest = record.token;
            self.holder.clone_from(&record.holder);
        }
        if self.durable.as_ref().is_none_or(|durable| durable.token <= record.token) {
            self.durable = Some(record);
        }
        self.check_invariants();
    }

    /// The store did not take a raise. The token stays seen (R9).
    pub fn raise_failed(&mut self, submitted: &Mark) {
        self.raise_ended(submitted);
        self.check_invariants();
    }

    /// The one outcome of a write in flight (R4). An `Unknown` one stays in doubt until `until`.
    pub fn settle(&mut self, token: Option<Token>, outcome: Outcome, until: Moment) {
        let Ok(at) = self.in_flight.binary_search_by_key(&token, |(rank, _)| *rank) else {
            debug_assert!(false, "settled more often than admitted");
            return;
        };
        self.in_flight[at].1 -= 1;
        if self.in_flight[at].1 == 0 {
            self.in_flight.remove(at);
        }
        if outcome == Outcome::Unknown {
            self.doubt(token, until);
        }
        self.check_invariants();
    }

    /// Ends the doubts whose time has passed. Says whether any ended.
    pub fn expire(&mut self, now: Moment) -> bool {
        let before = self.in_doubt.len();
        self.in_doubt.retain(|(_, until)| *until > now);
        self.in_doubt.len() != before
    }

    /// The operator's raise (R12): the mark to hand to the store, `None` where the token is durable
    /// already, or the verdict that refuses it.
    pub fn advance(
        &mut self,
        token: Token,
        limits: Limits,
        regime: Regime,
    ) -> Result<Option<Mark>, Admission> {
        self.expire(regime.now);
        let offer = Offer { token: Some(token), holder: None, claim: true, limits };
        if let Some(refusal) = self.compare(&offer) {
            return Err(refusal);
        }
        let raise = self.raise(&offer, regime);
        self.check_invariants();
        Ok(raise.map(|raise| match raise {
            Raise::Submit(mark) => mark,
            // Another's raise of this token is under way: raising it once more is harmless.
            Raise::UnderWay => self.next_mark(token, regime),
        }))
    }

    /// The operator's release (R12): ends the doubts and this process's quarantine of the key.
    /// Of the doubts only those that the operator saw, as [`Fence::in_doubt`] told them; how many.
    /// The record's `contested` stays: see [`Fence::releasable`].
    pub fn release(&mut self, vouched: &[(Option<Token>, Moment)]) -> usize {
        self.released = true;
        let before = self.in_doubt.len();
        self.in_doubt.retain(|doubt| !vouched.contains(doubt));
        before - self.in_doubt.len()
    }

    /// The token whose record a release may clear of `contested`: the operator vouches for doubts,
    /// not for lower writes that are still in flight, and a crash would put those in doubt.
    pub fn releasable(&self) -> Option<Option<Token>> {
        let flying = self.in_flight.first().is_some_and(|(rank, _)| *rank < self.highest);
        (!flying).then_some(self.highest)
    }

    /// The operator's reset (R12), once the store has it: a contested record without a token.
    pub fn reset(&mut self) {
        self.highest = None;
        self.holder = None;
        self.raising = None;
        self.durable = Some(Mark { token: None, contested: true, holder: None });
        self.check_invariants();
    }

    /// The highest token seen.
    pub fn highest(&self) -> Option<Token> {
        self.highest
    }

    /// The record as on disk; `None` where there is none.
    pub fn durable(&self) -> Option<&Mark> {
        self.durable.as_ref()
    }

    /// Writes in flight: token and how many, in token order.
    pub fn in_flight(&self) -> &[(Option<Token>, usize)] {
        &self.in_flight
    }

    /// Writes in doubt: token and the end of the doubt, in token order.
    pub fn in_doubt(&self) -> &[(Option<Token>, Moment)] {
        &self.in_doubt
    }

    /// How many writes with a lower token are in flight or in doubt.
    pub fn open_below(&self, token: Token) -> usize {
        let flying: usize = self.flying_below(token).map(|(_, count)| count).sum();
        flying + self.in_doubt.iter().filter(|(rank, _)| *rank < Some(token)).count()
    }

    /// The quarantine that holds this key back, if one does.
    pub fn quarantined(&self, regime: Regime) -> Option<Moment> {
        let contested = self.is_contested(regime);
        regime.quarantined().filter(|_| contested && !self.released)
    }

    /// The quarantine that a takeover of this key waits for: a higher token than the record's, where
    /// the key is not free. Its own holder may go on meanwhile: see [`Fence::quarantined`].
    pub fn takeover_waits(&self, regime: Regime) -> Option<Moment> {
        regime.quarantined().filter(|_| !self.is_free(regime))
    }

    /// Whether an operator has released it since it was looked up.
    pub fn is_released(&self) -> bool {
        self.released
    }

    /// Nothing in flight, in doubt or being raised.
    pub fn is_quiet(&self) -> bool {
        self.in_flight.is_empty() && self.in_doubt.is_empty() && self.raising.is_none()
    }

    /// Whether forgetting it here loses nothing that the store does not have.
    pub fn is_forgettable(&self, regime: Regime) -> bool {
        let durable = self.durable.as_ref().and_then(|mark| mark.token);
        let released = self.released && regime.quarantined().is_some();
        self.is_quiet() && self.highest == durable && !released
    }

    /// R1 and R9: the refusals, in the order in which they are told. They change nothing.
    pub fn compare(&self, offer: &Offer<'_>) -> Option<Admission> {
        let Some(token) = offer.token else {
            return self.highest.map(|_| Admission::TokenMissing);
        };
        match self.highest {
            Some(highest) if token < highest => Some(Admission::Stale),
            Some(highest) if token == highest => match (&self.holder, offer.holder) {
                (Some(pinned), Some(named)) if pinned != named => Some(Admission::HolderConflict),
                _ => None,
            },
            highest => implausible(token, highest, offer.limits).then_some(Admission::Implausible),
        }
    }

    /// R2: sees the token, and asks for a raise unless the record covers the offer.
    pub(super) fn raise(&mut self, offer: &Offer<'_>, regime: Regime) -> Option<Raise> {
        let token = offer.token?;
        if self.highest < Some(token) {
            self.highest = Some(token);
            self.holder = offer.holder.cloned();
        } else if self.holder.is_none() {
            self.holder = offer.holder.cloned();
        }
        let pins = offer.holder.is_some();
        let durable = self.durable.as_ref().filter(|mark| mark.token == Some(token));
        if durable.is_some_and(|mark| !pins || mark.holder == self.holder) {
            return None;
        }
        let wanted = (token, self.holder.clone());
        if self.raising.as_ref() == Some(&wanted) {
            return Some(Raise::UnderWay);
        }
        self.raising = Some(wanted);
        Some(Raise::Submit(self.next_mark(token, regime)))
    }

    /// R3 to R5: what an offer with a durable token still waits for.
    pub(super) fn hold(&self, offer: &Offer<'_>, regime: Regime) -> Option<Admission> {
        let below = |rank: Option<Token>| rank < offer.token;
        let same_waits = offer.limits.same_token_doubt_waits;
        let doubt = self
            .in_doubt
            .iter()
            .filter(|(rank, _)| below(*rank) || (same_waits && *rank == offer.token))
            .map(|(_, until)| *until)
            .max();
        // Nothing is lower than a write without a token, whatever an earlier life left behind.
        let quarantine = offer.token.and_then(|_| self.quarantined(regime));
        let until = doubt.max(quarantine);
        if self.in_flight.first().is_some_and(|(rank, _)| below(*rank)) {
            return Some(Admission::Drain { until });
        }
        until.map(|until| Admission::InDoubt { until })
    }

    /// The step in which a write becomes in flight. The token whose record is to be cleared of
    /// `contested`, if it is (R5).
    pub(super) fn enter(&mut self, offer: &Offer<'_>, regime: Regime) -> Option<Token> {
        if !offer.claim {
            self.count(offer.token);
        }
        self.durable
            .as_mut()
            .filter(|mark| mark.contested && mark.token.is_some() && mark.token == offer.token)
            .filter(|_| regime.quarantined().is_none())
            .and_then(|mark| {
                mark.contested = false;
                mark.token
            })
    }

    /// An offer that nothing refuses: raise, then drain, then enter.
    fn go_on(&mut self, offer: &Offer<'_>, regime: Regime) -> Admission {
        match self.raise(offer, regime) {
            Some(Raise::Submit(mark)) => return Admission::Raise(mark),
            Some(Raise::UnderWay) => return Admission::Raising,
            None => {}
        }
        match self.hold(offer, regime) {
            Some(wait) => wait,
            None => Admission::Forward { clear: self.enter(offer, regime) },
        }
    }

    fn next_mark(&self, token: Token, regime: Regime) -> Mark {
        Mark {
            token: Some(token),
            contested: self.is_raised_contested(token, regime),
            holder: self.holder.clone(),
        }
    }

    fn is_contested(&self, regime: Regime) -> bool {
        regime.all_contested || self.durable.as_ref().is_some_and(|mark| mark.contested)
    }

    /// R5: whether no earlier write can be left, quarantine or not.
    fn is_free(&self, regime: Regime) -> bool {
        self.released || (self.durable.is_none() && !regime.all_contested)
    }

    /// R5: whether a record raised now is written contested.
    fn is_raised_contested(&self, token: Token, regime: Regime) -> bool {
        let quarantined = self.takeover_waits(regime).is_some();
        let keeps =
            self.durable.as_ref().is_some_and(|mark| mark.token == Some(token) && mark.contested);
        quarantined || keeps || self.open_below(token) > 0
    }

    fn flying_below(&self, token: Token) -> impl Iterator<Item = (Option<Token>, usize)> + '_ {
        self.in_flight.iter().copied().take_while(move |(rank, _)| *rank < Some(token))
    }

    fn raise_ended(&mut self, submitted: &Mark) {
        let ended = |(token, holder): &(Token, Option<Holder>)| {
            submitted.token == Some(*token) && submitted.holder == *holder
        };
        if self.raising.as_ref().is_some_and(ended) {
            self.raising = None;
        }
    }

    fn count(&mut self, token: Option<Token>) {
        match self.in_flight.binary_search_by_key(&token, |(rank, _)| *rank) {
            Ok(at) => self.in_flight[at].1 += 1,
            Err(at) => self.in_flight.insert(at, (token, 1)),
        }
    }

    fn doubt(&mut self, token: Option<Token>, until: Moment) {
        match self.in_doubt.binary_search_by_key(&token, |(rank, _)| *rank) {
            Ok(at) => self.in_doubt[at].1 = self.in_doubt[at].1.max(until),
            Err(at) => self.in_doubt.insert(at, (token, until)),
        }
        if self.in_doubt.len() > MAX_DOUBTS {
            // Two become the lower of their tokens and the later of their ends: that blocks more.
            let (_, until) = self.in_doubt.remove(1);
            self.in_doubt[0].1 = self.in_doubt[0].1.max(until);
        }
    }

    /// What must hold after every change. Debug builds stop on a violation.
    fn check_invariants(&self) {
        debug_assert!(self.in_flight.windows(2).all(|pair| pair[0].0 < pair[1].0));
        debug_assert!(self.in_flight.iter().all(|(_, count)| *count > 0));
        debug_assert!(self.in_doubt.windows(2).all(|pair| pair[0].0 < pair[1].0));
        debug_assert!(self.in_doubt.len() <= MAX_DOUBTS);
        debug_assert!(self.durable.as_ref().is_none_or(|mark| mark.token <= self.highest));
        debug_assert!(self.raising.as_ref().is_none_or(|(token, _)| Some(*token) <= self.highest));
        debug_assert!(self.holder.is_none() || self.highest.is_some());
    }
}

/// R9: beyond the greatest token, too far above the mark, or more than one generation ahead.
///
/// The first token of a key, and the first of a generation, has no mark to be measured from.
fn implausible(token: Token, highest: Option<Token>, limits: Limits) -> bool {
    if limits.forced {
        return false;
    }
    if limits.max_token.is_some_and(|max| token > max) {
        return true;
    }
    let Some(highest) = highest else { return false };
    if token.generation != highest.generation {
        return token.generation - highest.generation > 1;
    }
    limits.max_jump.is_some_and(|jump| token.counter - highest.counter > jump)
}
