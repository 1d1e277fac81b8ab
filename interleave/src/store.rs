//! A store in memory that answers on a thread of its own, through the product's own queue.

#[expect(dead_code, reason = "a part of it is the whole store's")]
#[path = "../../src/store/answer.rs"]
mod answer;
#[path = "../../src/store/contract.rs"]
mod contract;
#[path = "../../src/store/poison.rs"]
mod poison;
#[path = "../../src/store/queue.rs"]
mod queue;

use std::{collections::BTreeMap, sync::Arc};

use shuttle::thread::JoinHandle;

use self::{
    answer::Answer,
    queue::{Queue, Refused},
};
pub use contract::{Done, StoreError, TokenStore};

use crate::fence::{Key, Mark, Token, UpstreamId};

/// The product's queue, for a test of its own.
pub struct Jobs<T>(Queue<T>);

impl<T> Jobs<T> {
    pub fn new(limit: usize) -> Self {
        Self(Queue::new(limit))
    }

    /// Whether it was taken.
    pub fn push(&self, item: T) -> bool {
        self.0.push(item).is_ok()
    }

    pub fn pop(&self) -> Option<T> {
        self.0.pop()
    }

    pub fn wait_for_one(&self) -> usize {
        self.0.wait_for_one()
    }

    pub fn take_all(&self) -> Option<impl Iterator<Item = T> + use<T>> {
        self.0.take_all().map(IntoIterator::into_iter)
    }

    pub fn close(&self) {
        self.0.close();
    }
}

/// The product's latch, for a test of its own.
#[derive(Default)]
pub struct Latch(poison::Poison);

impl Latch {
    pub fn set(&self, reason: &str) {
        self.0.set(reason.to_owned());
    }

    pub fn on_set(&self, hook: impl FnOnce(String) + Send + 'static) {
        self.0.on_set(Box::new(hook));
    }

    pub fn error(&self) -> Option<StoreError> {
        self.0.error()
    }

    pub fn is_set(&self) -> bool {
        self.0.is_set()
    }
}

type Marks = BTreeMap<Key, Mark>;
type Job = Box<dyn FnOnce(&mut Marks) + Send>;

/// A store whose only thread takes all that waits, as the committing thread does.
#[derive(Clone)]
pub struct Memory(Arc<Queue<Job>>);

impl Memory {
    /// The store, and its thread, which ends after [`Memory::close`].
    pub fn start() -> (Self, JoinHandle<()>) {
        let jobs = Arc::new(Queue::<Job>::new(1000));
        let served = Arc::clone(&jobs);
        let thread = shuttle::thread::spawn(move || {
            let mut marks = Marks::new();
            while let Some(jobs) = served.take_all() {
                jobs.into_iter().for_each(|job| job(&mut marks));
            }
        });
        (Self(jobs), thread)
    }

    pub fn close(&self) {
        self.0.close();
    }

    fn ask<T: 'static>(&self, done: Done<T>, work: impl FnOnce(&mut Marks) -> T + Send + 'static) {
        let answer = Answer::new(done);
        let job: Job = Box::new(move |marks| answer.give(Ok(work(marks))));
        // Refused, it is dropped, and its answer says so.
        if let Err(Refused::Full(job) | Refused::Closed(job)) = self.0.push(job) {
            drop(job);
        }
    }
}

impl TokenStore for Memory {
    fn find(&self, key: Key, done: Done<Option<Mark>>) {
        self.ask(done, move |marks| marks.get(&key).cloned());
    }

    fn raise(&self, key: Key, mark: Mark, done: Done<Mark>) {
        self.ask(done, move |marks| {
            let record = marks.entry(key).or_default();
            if record.token <= mark.token {
                *record = mark;
            }
            record.clone()
        });
    }

    fn clear(&self, _: Key, _: Token) {}

    fn release(&self, _: Key, _: Option<Token>, done: Done<()>) {
        self.ask(done, |_| ());
    }

    fn reset(&self, key: Key, done: Done<()>) {
        self.ask(done, move |marks| drop(marks.remove(&key)));
    }

    fn list(&self, _: Vec<u8>, _: Option<Key>, _: usize, done: Done<Vec<(Key, Mark)>>) {
        self.ask(done, |_| Vec::new());
    }

    fn set_unfenced(&self, _: UpstreamId, _: bool, done: Done<()>) {
        self.ask(done, |_| ());
    }

    fn poisoned(&self) -> bool {
        false
    }
}
