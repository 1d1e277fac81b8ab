//! What an operator can see and do to one key (R12).

use std::time::Duration;

use tokio::sync::oneshot;

use super::{Clock, Gate, cache::InUse, slot::Load};
use crate::{
    fence::{Admission, Key, Limits, Mark, Moment, Token},
    store::{Done, StoreError},
};

/// How long an operator's call waits for the store.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// One key as it is now.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The highest token seen.
    pub highest: Option<Token>,
    /// The record as on disk; `None` where there is none.
    pub durable: Option<Mark>,
    /// Writes in flight: their token and how many.
    pub in_flight: Vec<(Option<Token>, usize)>,
    /// Writes in doubt: their token and the time that is left.
    pub in_doubt: Vec<(Option<Token>, Duration)>,
    /// Writes and claims that wait.
    pub waiting: usize,
    /// What is left of the quarantine that a takeover of this key waits for, if one does.
    pub quarantine: Option<Duration>,
}

/// What an advance did.
#[derive(Clone, Debug)]
pub struct Advanced {
    /// The mark now.
    pub highest: Token,
    /// Lower writes that are in flight or in doubt, and may still take effect.
    pub lower_open: usize,
}

/// What a release did.
#[derive(Clone, Debug)]
pub struct Released {
    /// Writes whose doubt was ended: the promise now rests on the operator's word for them.
    pub doubts: usize,
    /// Whether a quarantine of the key was ended.
    pub quarantine: bool,
}

/// Why an operator's change was refused; nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OperatorError {
    /// The token is below the mark.
    #[error("the token is below the highest one seen, {0}")]
    Lower(Token),
    /// R9 forbids the token and it was not forced.
    #[error("the token is beyond what the route allows")]
    Implausible,
    /// A token with a generation, and no route of the key's upstream has `generations = true`.
    #[error("no route of its upstream has generations = true, so that no write can carry it")]
    Generation,
    /// R12: a reset needs a quiet key.
    #[error("writes are in flight, in doubt or waiting, or a quarantine runs")]
    Busy,
    /// The store could not be asked or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Gate {
    /// One key as it is now.
    ///
    /// # Errors
    /// [`StoreError`] where the key must be looked up and cannot be.
    pub async fn show(&self, key: &Key) -> Result<Snapshot, StoreError> {
        let slot = self.loaded(key).await?;
        let now = self.0.clock.now();
        let regime = self.0.realm(key).regime(now);
        let state = &mut *slot.state.lock();
        state.fence.expire(now);
        let left = |until: &Moment| Clock::between(now, *until);
        Ok(Snapshot {
            highest: state.fence.highest(),
            durable: state.fence.durable().cloned(),
            in_flight: state.fence.in_flight().to_vec(),
            in_doubt: state.fence.in_doubt().iter().map(|(rank, end)| (*rank, left(end))).collect(),
            waiting: state.waiting,
            quarantine: state.fence.takeover_waits(regime).map(|end| left(&end)),
        })
    }

    /// Raises a key durably (R12). It is no claim: lower writes that are open may still take
    /// effect, and their number is told.
    ///
    /// # Errors
    /// [`OperatorError`]; the mark is as it was, unless the store failed.
    pub async fn advance(
        &self,
        key: &Key,
        token: Token,
        limits: Limits,
    ) -> Result<Advanced, OperatorError> {
        let slot = self.loaded(key).await?;
        let raise = {
            let regime = self.0.realm(key).regime(self.0.clock.now());
            let state = &mut *slot.state.lock();
            let raise = state.fence.advance(token, limits, regime);
            state.wake();
            raise.map_err(|refusal| match (refusal, state.fence.highest()) {
                (Admission::Stale, Some(highest)) => OperatorError::Lower(highest),
                _ => OperatorError::Implausible,
            })?
        };
        if let Some(mark) = raise {
            let (submitted, raised) = (mark.clone(), slot.clone());
            self.changed(
                |done| self.0.store.raise(key.clone(), mark, done),
                move |record| {
                    let state = &mut *raised.state.lock();
                    state.wake();
                    match record {
                        Ok(record) => state.fence.raised(&submitted, record),
                        Err(error) => {
                            state.fence.raise_failed(&submitted);
                            state.failures = state.failures.wrapping_add(1);
                            return Err(error);
                        }
                    }
                    Ok(())
                },
            )
            .await?;
        }
        let lower_open = slot.state.lock().fence.open_below(token);
        Ok(Advanced { highest: token, lower_open })
    }

    /// Ends the doubts and the quarantine of a key, durably (R12). May break the promise: the
    /// operator vouches that the upstream applies none of the writes in doubt.
    ///
    /// # Errors
    /// [`OperatorError::Store`]; then nothing was released.
    pub async fn release(&self, key: &Key) -> Result<Released, OperatorError> {
        let slot = self.loaded(key).await?;
        let (releasable, vouched) = {
            let state = slot.state.lock();
            (state.fence.releasable(), state.fence.in_doubt().to_vec())
        };
        let gate = self.clone();
        let released = move || {
            let regime = gate.0.realm(&slot.key).regime(gate.0.clock.now());
            let state = &mut *slot.state.lock();
            let quarantine = state.fence.takeover_waits(regime).is_some();
            let doubts = state.fence.release(&vouched);
            gate.0.note_doubt(&slot.key, state);
            state.wake();
            Released { doubts, quarantine }
        };
        // With lower writes in flight the record stays contested: a crash would put them in doubt.
        let Some(token) = releasable else { return Ok(released()) };
        self.changed(
            |done| self.0.store.release(key.clone(), token, done),
            move |stored| stored.map(|()| released()),
        )
        .await
    }

    /// Forgets a key's token (R12): it leaves a contested record without one.
    ///
    /// # Errors
    /// [`OperatorError::Busy`] while anything is open or waits, or the store's error.
    pub async fn reset(&self, key: &Key) -> Result<(), OperatorError> {
        let slot = self.loaded(key).await?;
        {
            // Until the store has answered, the key is as if it were being looked up: nothing is
            // admitted on it, and the answer's look-up shows what became of it.
            let regime = self.0.realm(key).regime(self.0.clock.now());
            let state = &mut *slot.state.lock();
            state.fence.expire(regime.now);
            let busy = !state.fence.is_quiet()
                || state.waiting > 0
                || state.load != Load::Ready
                || state.fence.quarantined(regime).is_some();
            if busy {
                return Err(OperatorError::Busy);
            }
            state.load = Load::UnderWay;
        }
        self.changed(
            |done| self.0.store.reset(key.clone(), done),
            move |stored| {
                let state = &mut *slot.state.lock();
                state.load = Load::Ready;
                state.wake();
                stored?;
                state.fence.reset();
                state.held = None;
                Ok(())
            },
        )
        .await
    }

    /// The slot of a key, looked up if need be.
    async fn loaded(&self, key: &Key) -> Result<InUse, StoreError> {
        let slot = self.0.cache.slot(key);
        match self.highest(key, PATIENCE).await {
            Ok(_) => Ok(slot),
            Err(_) => Err(StoreError::Unavailable("the key cannot be looked up".into())),
        }
    }

    /// Makes a change in the store, and what follows from it here with the store's answer, whether
    /// or not the caller still waits.
    async fn changed<T, R: Send + 'static>(
        &self,
        call: impl FnOnce(Done<T>),
        apply: impl FnOnce(Result<T, StoreError>) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, OperatorError> {
        let (answer, changed) = oneshot::channel();
        call(Box::new(move |stored| drop(answer.send(apply(stored)))));
        Ok(changed.await.unwrap_or_else(|_| Err(closed()))?)
    }
}

pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".into())
}
