//! A key at rest: what stays of its slot when nobody uses it, as small as it can be.

use std::num::NonZeroU32;

use super::slot::{Load, State};
use crate::fence::{Fence, Holder, Mark, Moment, Regime, Token};

/// What stays of a slot that nobody uses.
pub(super) enum Rest {
    /// The slot itself: it knows of more than the store does.
    Slot,
    /// All that it knows.
    Record(Record),
    /// Nothing: the key was never looked up.
    Nothing,
}

/// A key that is nothing but its record on disk, and what is asked of it besides.
///
/// Forty bytes, and there may be millions: the parts of an `Option<Mark>` side by side.
pub(super) struct Record {
    /// Of no meaning unless `kind` says so.
    token: Token,
    holder: Option<Box<Holder>>,
    held_since: Moment,
    held: Span,
    kind: Kind,
    contested: bool,
    released: bool,
    /// Asked for since the eviction last came by.
    pub(super) touched: bool,
}

/// What the store has of a key.
#[derive(Clone, Copy)]
enum Kind {
    Nothing,
    WithoutToken,
    WithToken,
}

/// How long a token was held, to the millisecond, at most 49 days: a number to look at.
type Span = Option<NonZeroU32>;

impl Record {
    /// Whether the store alone could bring it back.
    pub(super) fn is_forgettable(&self, regime: Regime) -> bool {
        self.fence().is_forgettable(regime)
    }

    /// Bytes of its own besides those in the table.
    pub(super) fn heap_bytes(&self) -> usize {
        self.holder.as_ref().map_or(0, |holder| size_of::<Holder>() + holder.as_str().len())
    }

    /// The slot's state as it was; `fence` is the record's.
    pub(super) fn state(&self, fence: Fence) -> State {
        let last = |span: NonZeroU32| Moment(self.held_since.0 + u64::from(span.get() - 1) * 1000);
        let held = self.held.map(|span| (self.held_since, last(span)));
        State::new(fence, Load::Ready, held)
    }

    /// The key's fence as it was.
    pub(super) fn fence(&self) -> Fence {
        let mark = |token| Mark {
            token,
            contested: self.contested,
            holder: self.holder.as_deref().cloned(),
        };
        let mut fence = Fence::new(match self.kind {
            Kind::Nothing => None,
            Kind::WithoutToken => Some(mark(None)),
            Kind::WithToken => Some(mark(Some(self.token))),
        });
        if self.released {
            fence.release(&[]);
        }
        fence
    }

    fn new(mark: Option<&Mark>, released: bool, held: Option<(Moment, Moment)>) -> Self {
        let token = mark.and_then(|mark| mark.token);
        let (held_since, last) = held.unwrap_or_default();
        let span = |_| {
            let millis = last.0.saturating_sub(held_since.0) / 1000;
            NonZeroU32::MIN.saturating_add(u32::try_from(millis).unwrap_or(u32::MAX))
        };
        Self {
            token: token.unwrap_or(Token::new(0)),
            holder: mark.and_then(|mark| mark.holder.clone()).map(Box::new),
            held_since,
            held: held.map(span),
            kind: match (mark, token) {
                (None, _) => Kind::Nothing,
                (Some(_), None) => Kind::WithoutToken,
                (Some(_), Some(_)) => Kind::WithToken,
            },
            contested: mark.is_some_and(|mark| mark.contested),
            released,
            touched: false,
        }
    }
}

impl State {
    /// What stays of it, once nobody uses it. Then nobody waits, no answer of the store's is due
    /// and no doubt is left to be swept: each of them is a use.
    pub(super) fn rest(&self) -> Rest {
        let record = Record::new(self.fence.durable(), self.fence.is_released(), self.held);
        match self.load {
            Load::Ready if record.fence() == self.fence => Rest::Record(record),
            Load::Cold if Fence::default() == self.fence => Rest::Nothing,
            Load::Cold | Load::UnderWay | Load::Ready => Rest::Slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Offer;

    const QUARANTINE: Regime =
        Regime { now: Moment(1), quarantine: Some(Moment(9)), all_contested: true };

    fn ready(fence: Fence) -> State {
        State::new(fence, Load::Ready, None)
    }

    fn record(state: &State) -> Record {
        match state.rest() {
            Rest::Record(record) => record,
            Rest::Slot | Rest::Nothing => panic!("not at rest"),
        }
    }

    fn back(record: &Record) -> State {
        record.state(record.fence())
    }

    fn marks() -> Vec<Option<Mark>> {
        let mut marks = vec![None];
        for contested in [false, true] {
            marks.push(Some(Mark { token: None, contested, holder: None }));
            for holder in [None, Holder::parse(b"worker-7")] {
                for token in [Token::new(0), Token { generation: 3, counter: u64::MAX }] {
                    let holder = holder.clone();
                    marks.push(Some(Mark { token: Some(token), contested, holder }));
                }
            }
        }
        marks
    }

    #[test]
    fn a_record_is_small() {
        assert_eq!(size_of::<Record>(), 40);
    }

    #[test]
    fn a_key_comes_back_as_it_went_to_rest() {
        for mark in marks() {
            for released in [false, true] {
                let mut fence = Fence::new(mark.clone());
                if released {
                    fence.release(&[]);
                }
                let state = back(&record(&ready(fence.clone())));
                assert_eq!(state.fence, fence);
                assert!(state.load == Load::Ready && state.held.is_none());
            }
        }
    }

    #[test]
    fn the_held_time_comes_back_to_the_millisecond() {
        let back = |first, last| {
            let held = Some((Moment(first), Moment(last)));
            back(&record(&State::new(Fence::default(), Load::Ready, held))).held
        };
        assert_eq!(back(7, 7), Some((Moment(7), Moment(7))));
        assert_eq!(back(7, 2_500_007), Some((Moment(7), Moment(2_500_007))));
        assert_eq!(back(0, 1_999), Some((Moment(0), Moment(1_000))));
        let most = (u64::from(u32::MAX) - 1) * 1000;
        assert_eq!(back(7, u64::MAX), Some((Moment(7), Moment(7 + most))));
    }

    #[test]
    fn a_release_is_kept_while_it_matters() {
        let mut fence = Fence::new(Some(Mark { contested: true, ..Mark::default() }));
        assert!(record(&ready(fence.clone())).is_forgettable(QUARANTINE));
        fence.release(&[]);
        let released = record(&ready(fence));
        assert!(!released.is_forgettable(QUARANTINE));
        assert!(released.is_forgettable(Regime { now: Moment(9), ..QUARANTINE }));
    }

    #[test]
    fn what_the_store_does_not_know_is_no_record() {
        let offer = Offer {
            token: Some(Token::new(5)),
            holder: None,
            claim: false,
            limits: crate::fence::Limits::default(),
        };
        let mut raising = Fence::default();
        let crate::fence::Admission::Raise(mark) = raising.offer(&offer, Regime::default()) else {
            panic!("a new token is raised");
        };
        assert!(matches!(ready(raising.clone()).rest(), Rest::Slot), "being raised");
        raising.raise_failed(&mark);
        assert!(matches!(ready(raising).rest(), Rest::Slot), "seen and not durable");
        let mut flying = Fence::default();
        flying.track(None);
        assert!(matches!(ready(flying).rest(), Rest::Slot), "in flight");
        let looked_up = State::new(Fence::default(), Load::UnderWay, None);
        assert!(matches!(looked_up.rest(), Rest::Slot), "being looked up");
        assert!(matches!(State::default().rest(), Rest::Nothing), "never looked up");
    }
}
