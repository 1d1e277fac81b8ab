//! R11: whether the keys of an upstream are made as the marks in the store were made. Pure.

use std::time::Duration;

use super::{Keying, OpenError, Overlaps, UpstreamFacts};
use crate::fence::UpstreamId;

/// An upstream as the store remembers it. Patterns that left the configuration stay, so that a
/// route taken out and put back differently is still compared.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub id: UpstreamId,
    pub name: String,
    pub address: String,
    /// `max_write_lifetime` of the run that may have left writes behind.
    pub lifetime: Duration,
    pub unfenced: bool,
    /// The last run that had it left no clean mark.
    pub dirty: bool,
    pub keying: Vec<Keying>,
}

/// What the store makes of an upstream of the configuration.
pub(super) enum Verdict<'a> {
    /// Neither its name nor its address was seen before.
    New,
    /// Its marks can be found; these patterns are to be remembered as well.
    Same { known: &'a Known, added: Vec<Keying> },
    /// Marks could be missed.
    Changed(Change),
}

/// What would be made differently.
pub(super) struct Change {
    pub part: String,
    pub old: String,
    pub new: String,
}

impl Change {
    pub(super) fn refuse(self, path: &std::path::Path, upstream: &str) -> OpenError {
        let Self { part, old, new } = self;
        OpenError::Rekeyed { path: path.to_owned(), upstream: upstream.to_owned(), part, old, new }
    }
}

pub(super) fn judge<'a>(
    facts: &UpstreamFacts,
    known: &'a [Known],
    overlaps: Overlaps,
) -> Verdict<'a> {
    let by_name = known.iter().find(|known| known.name == facts.name);
    let by_address = known.iter().find(|known| known.address == facts.address);
    match (by_name, by_address) {
        (None, None) => Verdict::New,
        (None, Some(other)) => Verdict::Changed(Change {
            part: format!("the name of the upstream at {}", facts.address),
            old: other.name.clone(),
            new: facts.name.clone(),
        }),
        (Some(same), _) if same.address != facts.address => Verdict::Changed(Change {
            part: "its address".into(),
            old: same.address.clone(),
            new: facts.address.clone(),
        }),
        (Some(same), _) => patterns(facts, same, overlaps),
    }
}

/// Whether the store remembers a pattern that the configuration lacks: what `--rekey` drops.
pub(super) fn drops(facts: &UpstreamFacts, known: &Known) -> bool {
    known.keying.iter().any(|old| !facts.keying.contains(old))
}

fn patterns<'a>(facts: &UpstreamFacts, known: &'a Known, overlaps: Overlaps) -> Verdict<'a> {
    let mut added: Vec<Keying> = Vec::new();
    for new in &facts.keying {
        let mut twins = known.keying.iter().chain(&added).filter(|old| old.pattern == new.pattern);
        let part = format!("the key of pattern {}", new.pattern);
        if let Some(old) = twins.next() {
            if old.template != new.template {
                return changed(part, old, new);
            }
            continue;
        }
        let mut clashes = known
            .keying
            .iter()
            .filter(|old| old.template != new.template && overlaps(&old.pattern, &new.pattern));
        if let Some(old) = clashes.next() {
            let part = format!("{part}, where it meets the earlier pattern {},", old.pattern);
            return changed(part, old, new);
        }
        added.push(new.clone());
    }
    Verdict::Same { known, added }
}

fn changed<'a>(part: String, old: &Keying, new: &Keying) -> Verdict<'a> {
    let (old, new) = (old.template.clone(), new.template.clone());
    Verdict::Changed(Change { part, old, new })
}
