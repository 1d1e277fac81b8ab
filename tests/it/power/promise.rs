//! What palisade has answered for, when, and whether a store still has it.

use std::{collections::BTreeMap, sync::Mutex};

use palisade::fence::Mark;

/// What an answer said of a key.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// A write or claim of this token was let through, or an operator advanced to it.
    Raised(u64),
    /// The token had to wait for lower writes, or for those of an earlier life: its record is
    /// contested.
    Contested(u64),
    /// An operator released this token.
    Released(u64),
    /// An operator reset the key.
    Reset,
}

/// An answer: asked and answered at these moments of the record.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    pub asked: u64,
    pub answered: u64,
    pub what: What,
}

/// All answers, by key.
#[derive(Debug, Default)]
pub struct Promises(Mutex<BTreeMap<String, Vec<Promise>>>);

/// What a store must say of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Want {
    exists: bool,
    at_least: u64,
    contested: Option<u64>,
    released: Option<u64>,
}

impl Promises {
    pub fn add(&self, key: &str, promise: Promise) {
        self.0.lock().unwrap().entry(key.to_owned()).or_default().push(promise);
    }

    /// How many had been answered by a moment.
    pub fn count(&self, moment: u64) -> usize {
        let promises = self.0.lock().unwrap();
        let all = promises.values().flatten();
        all.filter(|promise| promise.answered <= moment).count()
    }

    /// Every key that had been answered for by a moment, with a token that must be refused.
    pub fn floors(&self, moment: u64) -> Vec<(String, u64)> {
        let promises = self.0.lock().unwrap();
        let floor = |(key, all): (&String, &Vec<_>)| (key.clone(), want(all, moment).at_least);
        promises.iter().map(floor).filter(|(_, token)| *token > 0).collect()
    }

    /// What is missing from the records of a store whose power went at a moment.
    pub fn missing(&self, moment: u64, records: &BTreeMap<String, Mark>) -> Vec<String> {
        let promises = self.0.lock().unwrap();
        let wants = promises.iter().map(|(key, all)| (key, want(all, moment)));
        wants.filter_map(|(key, want)| want.lacks(key, records.get(key))).collect()
    }
}

fn want(promises: &[Promise], moment: u64) -> Want {
    let mut want = Want::default();
    let asked = promises.iter().filter(|promise| promise.asked < moment);
    for Promise { answered, what, .. } in asked {
        want.take(*what, *answered <= moment);
    }
    want
}

impl Want {
    /// What was asked for may have happened or not; what was answered has.
    fn take(&mut self, what: What, answered: bool) {
        match what {
            What::Raised(token) if answered => {
                self.at_least = self.at_least.max(token);
                self.contested = self.contested.filter(|contested| *contested != token);
            }
            What::Contested(token) if answered => {
                self.at_least = self.at_least.max(token);
                self.contested = Some(token);
                self.released = None;
            }
            // It may have taken the mark away from the token that was released or contested, which
            // a comparison of tokens sees, or have cleared it.
            What::Raised(_) => self.contested = None,
            What::Contested(_) => self.released = None,
            What::Released(token) => {
                self.contested = None;
                self.released = Some(token).filter(|_| answered);
            }
            What::Reset => {
                let exists = self.exists || self.at_least > 0 || answered;
                *self = Self { exists, ..Self::default() };
                self.contested = answered.then_some(0);
            }
        }
    }

    fn lacks(&self, key: &str, record: Option<&Mark>) -> Option<String> {
        let Some(record) = record else {
            return (self.exists || self.at_least > 0)
                .then(|| format!("{key}: no record, {self:?}"));
        };
        let token = record.token.map_or(0, |token| token.counter);
        let lost = token < self.at_least
            || (self.contested == Some(token) && !record.contested)
            || (self.released == Some(token) && record.contested);
        lost.then(|| format!("{key}: {record:?}, {self:?}"))
    }
}
