//! An answer that cannot be lost: whoever drops it unanswered has answered.

use super::{Done, StoreError};

/// A [`Done`] that is called exactly once, by [`Answer::give`] or, in a panic, by its drop.
pub(super) struct Answer<T>(Option<Done<T>>);

impl<T> Answer<T> {
    pub(super) fn new(done: Done<T>) -> Self {
        Self(Some(done))
    }

    pub(super) fn give(mut self, result: Result<T, StoreError>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(StoreError::Poisoned("a thread of the store ended early".into())));
        }
    }
}

/// A `Done` of nothing as a `Done` of something that is thrown away.
pub(super) fn ignoring<T: 'static>(done: Done<()>) -> Done<T> {
    Box::new(move |result| done(result.map(drop)))
}
