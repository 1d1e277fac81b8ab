//! A store in memory, for the tests of other rooms: it can hold its answers, fail and crash.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{Done, StoreError, TokenStore, record::Change};
use crate::fence::{Key, Mark, Token, UpstreamId};

/// A [`TokenStore`] that keeps nothing. Clones are one store.
///
/// It answers at once, on the caller's thread, unless it was told to [`hold`](Self::hold): then
/// each call waits, in order, until the test commits it (it is durable, nobody knows) and answers
/// it, so that every interleaving can be had.
#[derive(Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    disk: Disk,
    holding: bool,
    held: Vec<Held>,
    poison: Option<String>,
}

#[derive(Clone, Default)]
struct Disk {
    failing_reads: bool,
    marks: BTreeMap<Key, Mark>,
    unfenced: HashMap<UpstreamId, bool>,
}

/// A call that waits: first to be carried out, then to be answered.
enum Held {
    Asked(Step),
    Done(Answer),
    Empty,
}

/// Carries a call out, or fails it where the store is poisoned.
type Step = Box<dyn FnOnce(&mut Disk, Option<StoreError>) -> Answer + Send>;
type Answer = Box<dyn FnOnce() + Send>;

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on calls wait.
    pub fn hold(&self) {
        self.state.lock().holding = true;
    }

    /// Carries out and answers all that waits, in order, and holds no more.
    pub fn go_on(&self) {
        self.state.lock().holding = false;
        while self.held() > 0 {
            self.answer(0);
        }
    }

    /// How many calls wait. Clears are not among them.
    pub fn held(&self) -> usize {
        self.state.lock().held.len()
    }

    /// Carries out the call at `index`, in the order of asking, without answering it. Nothing
    /// happens where there is none or it was carried out before.
    pub fn commit(&self, index: usize) {
        let mut state = self.state.lock();
        let failed = state.failed();
        let State { disk, held, .. } = &mut *state;
        let Some(slot) = held.get_mut(index) else { return };
        *slot = match std::mem::replace(slot, Held::Empty) {
            Held::Asked(step) => Held::Done(step(disk, failed)),
            done @ (Held::Done(_) | Held::Empty) => done,
        };
    }

    /// Answers the call at `index`, carried out first if it was not, and forgets it.
    pub fn answer(&self, index: usize) {
        self.commit(index);
        let mut state = self.state.lock();
        if index >= state.held.len() {
            return;
        }
        let held = state.held.remove(index);
        // What is called may ask the store again.
        drop(state);
        if let Held::Done(answer) = held {
            answer();
        }
    }

    /// Fails what waits and was not carried out, and every write from now on.
    pub fn poison(&self, reason: &str) {
        self.state.lock().poison.get_or_insert_with(|| reason.to_owned());
    }

    /// Fails look-ups from now on, or no more.
    pub fn fail_reads(&self, fail: bool) {
        self.state.lock().disk.failing_reads = fail;
    }

    /// What a kill -9 leaves: a store with what was carried out. What waits is not answered, and
    /// this one takes no more writes.
    pub fn crash(&self) -> Self {
        let mut state = self.state.lock();
        let disk = state.disk.clone();
        let old = State { disk: disk.clone(), poison: Some("crashed".into()), ..State::default() };
        *state = old;
        Self { state: Arc::new(Mutex::new(State { disk, ..State::default() })) }
    }

    /// The record of a key as it is on disk.
    pub fn record(&self, key: &Key) -> Option<Mark> {
        self.state.lock().disk.marks.get(key).cloned()
    }

    /// `unfenced` of an upstream as it is on disk; `None` where it was never written.
    pub fn unfenced(&self, upstream: UpstreamId) -> Option<bool> {
        self.state.lock().disk.unfenced.get(&upstream).copied()
    }

    fn ask(&self, step: Step) {
        let mut state = self.state.lock();
        if state.holding {
            state.held.push(Held::Asked(step));
            return;
        }
        let failed = state.failed();
        let answer = step(&mut state.disk, failed);
        drop(state);
        answer();
    }

    /// Reads go on after a failed write.
    fn read<T: Send + 'static>(
        &self,
        done: Done<T>,
        read: impl FnOnce(&Disk) -> T + Send + 'static,
    ) {
        self.ask(Box::new(move |disk, _| {
            let failed = || StoreError::Unavailable("told to fail".into());
            let found = if disk.failing_reads { Err(failed()) } else { Ok(read(disk)) };
            Box::new(move || done(found))
        }));
    }

    fn write<T: Send + 'static>(
        &self,
        done: Done<T>,
        write: impl FnOnce(&mut Disk) -> T + Send + 'static,
    ) {
        self.ask(Box::new(move |disk, failed| {
            let result = failed.map_or_else(|| Ok(write(disk)), Err);
            Box::new(move || done(result))
        }));
    }
}

impl TokenStore for MemoryStore {
    fn find(&self, key: Key, done: Done<Option<Mark>>) {
        self.read(done, move |disk| disk.marks.get(&key).cloned());
    }

    fn raise(&self, key: Key, mark: Mark, done: Done<Mark>) {
        self.write(done, move |disk| disk.change(key, &Change::Raise(mark)));
    }

    fn clear(&self, key: Key, token: Token) {
        let mut state = self.state.lock();
        if state.poison.is_none() {
            state.disk.change(key, &Change::Clear(Some(token)));
        }
    }

    fn release(&self, key: Key, token: Option<Token>, done: Done<()>) {
        self.write(done, move |disk| drop(disk.change(key, &Change::Clear(token))));
    }

    fn reset(&self, key: Key, done: Done<()>) {
        self.write(done, move |disk| drop(disk.change(key, &Change::Reset)));
    }

    fn list(
        &self,
        prefix: Vec<u8>,
        after: Option<Key>,
        limit: usize,
        done: Done<Vec<(Key, Mark)>>,
    ) {
        self.read(done, move |disk| {
            let fits = |key: &Key| {
                key.as_bytes().starts_with(&prefix)
                    && after.as_ref().is_none_or(|after| key > after)
            };
            let found = disk.marks.iter().filter(|(key, _)| fits(key)).take(limit);
            found.map(|(key, mark)| (key.clone(), mark.clone())).collect()
        });
    }

    fn set_unfenced(&self, upstream: UpstreamId, unfenced: bool, done: Done<()>) {
        self.write(done, move |disk| {
            disk.unfenced.insert(upstream, unfenced);
        });
    }

    fn poisoned(&self) -> bool {
        self.state.lock().poison.is_some()
    }
}

impl State {
    fn failed(&self) -> Option<StoreError> {
        self.poison.clone().map(StoreError::Poisoned)
    }
}

impl Disk {
    /// The record after the change; of a key without one, an empty mark.
    fn change(&mut self, key: Key, change: &Change) -> Mark {
        let Some(mark) = change.apply(self.marks.get(&key).cloned()) else {
            return Mark::default();
        };
        self.marks.insert(key, mark.clone());
        mark
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn key(path: &str) -> Key {
        Key::new(UpstreamId(1), path.as_bytes()).unwrap()
    }

    fn five() -> Mark {
        Mark { token: Some(Token::new(5)), ..Mark::default() }
    }

    #[test]
    fn a_held_raise_is_durable_before_it_is_answered() {
        let store = MemoryStore::new();
        store.hold();
        let (tell, told) = mpsc::channel();
        store.raise(key("a"), five(), Box::new(move |result| tell.send(result).unwrap()));
        assert_eq!((store.held(), store.record(&key("a"))), (1, None));
        store.commit(0);
        assert_eq!(store.record(&key("a")), Some(five()));
        assert!(told.try_recv().is_err());
        store.answer(0);
        assert_eq!(told.try_recv().unwrap().unwrap(), five());
        assert!(told.try_recv().is_err(), "answered once");
    }

    #[test]
    fn a_crash_keeps_what_was_committed_only() {
        let store = MemoryStore::new();
        store.hold();
        for path in ["a", "b"] {
            store.raise(key(path), five(), Box::new(|_| panic!("answered over a crash")));
        }
        store.commit(0);
        let next = store.crash();
        assert_eq!((next.record(&key("a")), next.record(&key("b"))), (Some(five()), None));
        assert!(store.poisoned() && !next.poisoned());
    }

    #[test]
    fn poison_fails_writes_and_lets_reads_pass() {
        let store = MemoryStore::new();
        store.raise(key("a"), five(), Box::new(|result| assert!(result.is_ok())));
        store.hold();
        store.poison("disk");
        let (tell, told) = mpsc::channel();
        let read = tell.clone();
        store.reset(key("a"), Box::new(move |result| tell.send(result.is_ok()).unwrap()));
        store.find(key("a"), Box::new(move |result| read.send(result.is_ok()).unwrap()));
        store.go_on();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [false, true]);
        assert_eq!(store.record(&key("a")), Some(five()));
    }
}
