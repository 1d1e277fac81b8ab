//! The verdict: what the store's log says against the promise and against what the writers were told.

use std::collections::{HashMap, HashSet};

use super::{
    Subject,
    store::{World, Write},
};
use crate::harness::log::{Effect, Rank};

/// All that is wrong, in words.
pub fn violations(world: &World) -> Vec<String> {
    let history = world.backend.log().history();
    let mut wrong: Vec<_> = world.backend.log().fall().into_iter().collect();
    wrong.extend(twice(ids(&history)).map(|id| format!("{id} has taken effect twice")));
    let arrivals = world.backend.log().arrivals();
    let sent = arrivals.iter().filter_map(|arrival| arrival.head.field("write-id"));
    wrong.extend(twice(sent).map(|id| format!("{id} was sent twice")));
    wrong.extend(against_what_was_told(world, &history));
    wrong
}

fn ids(history: &[Effect]) -> impl Iterator<Item = &str> {
    history.iter().filter_map(|effect| effect.id.as_deref())
}

fn twice<'a>(ids: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut seen = HashSet::new();
    ids.filter(move |id| !seen.insert(*id))
}

/// `applied` is in the log, `not-applied` is not, and nothing acknowledged is gone at the end. Of
/// files only what was found there is known.
fn against_what_was_told(world: &World, history: &[Effect]) -> Vec<String> {
    let told = world.shared.so_far();
    let effects: HashSet<&str> = ids(history).collect();
    let keeps_a_log = world.subject != Subject::Files;
    let mut last: HashMap<&str, Rank> = HashMap::new();
    for effect in history.iter().filter(|effect| !effect.claim) {
        last.insert(&effect.key, effect.rank);
    }
    let lie = |(id, write): (&String, &Write)| {
        let there = effects.contains(id.as_str());
        let gone = || last.get(write.key.as_str()).copied().flatten() < Some((0, write.token));
        match write.applied {
            true if keeps_a_log && !there => Some(format!("{id}: told applied, and it is not")),
            true if gone() => Some(format!("{id}: told applied, and gone at the end")),
            false if there => Some(format!("{id}: told not applied, and it is")),
            _ => None,
        }
    };
    told.writes.iter().filter_map(lie).collect()
}

/// What was judged.
pub fn summary(world: &World) -> String {
    let history = world.backend.log().history();
    let claims = history.iter().filter(|effect| effect.claim).count();
    let told = world.shared.so_far().writes;
    let applied = told.values().filter(|write| write.applied).count();
    format!(
        "{} effects and {claims} claims in the store's order, {applied} writes told applied, {} told \
         not applied, {} marks after restarts; {} violations",
        history.len() - claims,
        told.len() - applied,
        world.marks,
        violations(world).len(),
    )
}
