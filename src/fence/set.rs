//! R6: a request that touches several keys is admitted on all of them or on none.

use super::{Admission, Fence, Mark, Offer, Regime, Token};

/// The verdict on a request over several keys. Places are those in the slice that was judged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SetAdmission {
    /// Go on: the write counts as in flight on every key. Records to clear, by place.
    Forward(Vec<(usize, Token)>),
    /// Hand these marks to the store in one commit, report its answers, offer again.
    Raise(Vec<(usize, Mark)>),
    /// The key at this place refuses or makes it wait; it counts as in flight on none.
    Held(usize, Admission),
}

/// Judges one offer on several keys in one step: all are compared before any is raised, all are
/// raised before any is waited for, and it becomes in flight on all at once.
pub fn offer_all(fences: &mut [&mut Fence], offer: &Offer<'_>, regime: Regime) -> SetAdmission {
    for (at, fence) in fences.iter_mut().enumerate() {
        fence.expire(regime.now);
        if let Some(refusal) = fence.compare(offer) {
            return SetAdmission::Held(at, refusal);
        }
    }
    let raises: Vec<_> = fences
        .iter_mut()
        .enumerate()
        .filter_map(|(at, fence)| fence.raise(offer, regime).map(|raise| (at, raise)))
        .collect();
    if let Some((under_way, _)) = raises.first() {
        let under_way = *under_way;
        let marks: Vec<_> = raises
            .into_iter()
            .filter_map(|(at, raise)| raise.submit().map(|mark| (at, mark)))
            .collect();
        if marks.is_empty() {
            return SetAdmission::Held(under_way, Admission::Raising);
        }
        return SetAdmission::Raise(marks);
    }
    let held = fences
        .iter()
        .enumerate()
        .find_map(|(at, fence)| fence.hold(offer, regime).map(|wait| (at, wait)));
    if let Some((at, wait)) = held {
        return SetAdmission::Held(at, wait);
    }
    let entered = fences.iter_mut().enumerate();
    SetAdmission::Forward(
        entered
            .filter_map(|(at, fence)| fence.enter(offer, regime).map(|token| (at, token)))
            .collect(),
    )
}
