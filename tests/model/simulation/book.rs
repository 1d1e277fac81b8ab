//! The judge: what the promise says, kept in books of its own. It knows nothing of the fence.

use std::fmt;

use palisade::{fence::Outcome, upstream::PartialBody};

use super::{backend::Desk, plan::Upstream};

/// Upstreams that a run may have, besides the one for requests of several keys.
pub(super) const UPSTREAMS: usize = 3;
/// The place of that one.
pub(super) const SETS: usize = UPSTREAMS;
/// All keys that there can be.
pub(super) const ALL_KEYS: usize = (UPSTREAMS + 1) * KEYS;
/// Keys of an upstream that a run may touch.
pub(super) const KEYS: usize = 3;

/// The process of a write that is older than the store.
pub(super) const STRAY: u32 = u32::MAX;

/// A key by its places.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct At {
    pub(super) upstream: usize,
    pub(super) key: usize,
}

impl At {
    /// Its place among all keys.
    pub(super) fn index(self) -> usize {
        self.upstream * KEYS + self.key
    }

    /// The path of its key within the upstream.
    pub(super) fn path(self) -> String {
        format!("k{}", self.key)
    }

    /// The key of a path.
    pub(super) fn key_of(path: &[u8]) -> Option<usize> {
        (0..KEYS).find(|key| Self { upstream: 0, key: *key }.path().as_bytes() == path)
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:k{}", self.upstream, self.key)
    }
}

/// What is compared: how often the key began anew, then the token. No token is the lowest.
type Rank = (u32, Option<u64>);

/// What the promise says of one key.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyBook {
    /// Counts how often its marks were voided by an operator.
    pub(super) epoch: u32,
    /// No route lets writes pass unheld.
    promised: bool,
    /// The highest rank that took effect or whose claim was answered.
    floor: Rank,
    /// The highest token that was let through, claimed or advanced to.
    pub(super) answered: Option<u64>,
    /// The highest token that the store has answered for.
    pub(super) stored: Option<u64>,
    /// When the store last answered for a token of it.
    stored_at: u64,
    /// The holder that was let through with a token.
    pin: Option<(u64, String)>,
    /// Resets that are under way: until their answer nobody knows which side of them a write is.
    pub(super) resetting: u32,
    /// What the lock service grants next.
    pub(super) next: u64,
}

/// A write that was let through, to its last effect.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not exclude one another")]
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) at: At,
    pub(super) token: Option<u64>,
    pub(super) enforced: bool,
    pub(super) epoch: u32,
    /// The process that let it through; `STRAY` where that was none of this run's.
    pub(super) life: u32,
    /// How long the store may still apply it after the end of its connection, in microseconds.
    pub(super) lifetime: u64,
    /// The store applies whole requests only.
    pub(super) discards: bool,
    /// Its permit is held: it may yet be sent.
    pub(super) held: bool,
    /// How often it was sent.
    pub(super) sends: u32,
    /// All of it was sent.
    pub(super) whole: bool,
    /// When nothing of the proxy's could reach the store through its connection any more.
    pub(super) ended: Option<u64>,
    /// The store has decided: it was applied, or never will be.
    pub(super) decided: bool,
    pub(super) effects: u32,
    pub(super) outcomes: Vec<Outcome>,
    /// When it was settled.
    settled_at: u64,
    /// `Fencing-Outcome: not-applied`.
    pub(super) told_not_applied: bool,
}

/// Who was let through.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) at: At,
    pub(super) token: Option<u64>,
    pub(super) holder: Option<String>,
    pub(super) claim: bool,
    /// Verdicts hold it back: it has the promise.
    pub(super) enforced: bool,
    /// The key's epoch when it was asked.
    pub(super) epoch: u32,
}

/// Everything that the judge knows.
pub(super) struct Book {
    keys: Vec<KeyBook>,
    pub(super) writes: Vec<Write>,
    /// What the store behind the proxy still holds.
    pub(super) desk: Desk,
    pub(super) violations: Vec<String>,
}

impl Write {
    pub(super) fn new(
        (life, epoch): (u32, u32),
        at: At,
        token: Option<u64>,
        upstream: &Upstream,
    ) -> Self {
        let lifetime = u64::try_from(upstream.lifetime.as_micros()).unwrap_or(u64::MAX);
        Self {
            at,
            token,
            enforced: upstream.is_enforced(),
            epoch,
            life,
            lifetime,
            discards: upstream.partial_body == PartialBody::Discarded,
            held: true,
            sends: 0,
            whole: false,
            ended: None,
            decided: false,
            effects: 0,
            outcomes: Vec::new(),
            settled_at: 0,
            told_not_applied: false,
        }
    }

    fn rank(&self) -> Rank {
        (self.epoch, self.token)
    }

    /// Whether the store may still apply it, by what can be known outside the store.
    fn may_take_effect(&self, now: u64) -> bool {
        if self.sends == 0 {
            return self.held;
        }
        let parted = self.discards && !self.whole;
        match self.ended {
            _ if self.decided => false,
            None => true,
            Some(_) if parted || self.lifetime == 0 => false,
            Some(at) => now <= at + self.lifetime,
        }
    }
}

impl Book {
    pub(super) fn new() -> Self {
        let keys = vec![KeyBook::default(); ALL_KEYS];
        Self { keys, writes: Vec::new(), desk: Desk::new(), violations: Vec::new() }
    }

    pub(super) fn key(&mut self, at: At) -> &mut KeyBook {
        &mut self.keys[at.index()]
    }

    pub(super) fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    /// A process begins, in which an upstream's keys have the promise or not.
    pub(super) fn begin(&mut self, upstream: usize, promised: bool) {
        for key in 0..KEYS {
            let book = self.key(At { upstream, key });
            if !(book.promised && promised) {
                book.floor = Rank::default();
            }
            book.promised = promised;
        }
    }

    /// An operator has voided a key's marks, when nothing was open on it: tokens begin anew.
    pub(super) fn void(&mut self, at: At) {
        let book = self.key(at);
        let KeyBook { epoch, promised, floor, next, resetting, .. } = *book;
        let epoch = epoch + 1;
        *book = KeyBook { epoch, promised, floor, resetting, next, ..KeyBook::default() };
    }

    /// Whether an operator has voided a key's marks, its process took to its grave.
    pub(super) fn may_be_void(&mut self, at: At) {
        let book = self.key(at);
        let KeyBook { epoch, promised, next, resetting, .. } = *book;
        *book = KeyBook { epoch, promised, resetting, next, ..KeyBook::default() };
    }

    /// The gate has said yes. The number of the write, which is in flight from now on.
    pub(super) fn let_through(&mut self, asked: &Asked, mut write: Write, now: u64) -> usize {
        let Asked { at, token, .. } = *asked;
        let book = self.key(at);
        if book.resetting > 0 && token < book.answered {
            write.epoch += 1;
        }
        if asked.enforced {
            self.check_order(&write, now);
            let book = self.key(at);
            let same_epoch = book.epoch == asked.epoch && book.resetting == 0;
            if same_epoch && token < book.answered {
                let answered = book.answered;
                self.violated(format!("{at}: {token:?} passed after {answered:?} was answered"));
            }
            if same_epoch {
                self.answer(at, token);
                self.pin(asked);
            }
        }
        if asked.claim && self.key(at).promised {
            let book = self.key(at);
            book.floor = book.floor.max(write.rank());
        }
        self.writes.push(write);
        self.writes.len() - 1
    }

    /// R3: whoever passes has no lower write behind him that may still take effect.
    fn check_order(&mut self, passing: &Write, now: u64) {
        let Write { at, token, .. } = *passing;
        let open = |write: &&Write| {
            write.at == at && write.rank() < passing.rank() && write.may_take_effect(now)
        };
        if token.is_none() {
            // Nothing is lower, whatever an earlier epoch has left.
            return;
        }
        if let Some(lower) = self.writes.iter().find(open) {
            let lower = lower.clone();
            self.violated(format!("{at}: {token:?} passed a lower write: {lower:?}"));
        }
    }

    /// The store has answered for a record: it is never forgotten.
    pub(super) fn stored(&mut self, at: At, token: u64, now: u64) {
        let book = self.key(at);
        book.stored = book.stored.max(Some(token));
        book.stored_at = now;
    }

    /// The store has answered for something else on a key that it held up.
    pub(super) fn answered_at(&mut self, at: At, now: u64) {
        self.key(at).stored_at = now;
    }

    /// R3: whoever waits is woken. When the last thing that could hold one back on a key was over:
    /// the end of a lower write or of its doubt, and the store's answer.
    pub(super) fn free_since(&mut self, at: At, token: Option<u64>) -> u64 {
        let over = |write: &Write| {
            let doubt = write.ended.map_or(0, |ended| ended + write.lifetime);
            doubt.max(write.settled_at)
        };
        let lower = self.writes.iter().filter(|write| write.at == at && write.token <= token);
        let lower = lower.map(over).max().unwrap_or_default();
        lower.max(self.key(at).stored_at)
    }

    /// A token that an answer has vouched for: it is never forgotten.
    pub(super) fn answer(&mut self, at: At, token: Option<u64>) {
        let book = self.key(at);
        book.answered = book.answered.max(token);
    }

    /// A holder, once let through with a token, is the only one with it.
    fn pin(&mut self, asked: &Asked) {
        let (Some(token), Some(holder)) = (asked.token, &asked.holder) else { return };
        let at = asked.at;
        match self.key(at).pin.clone() {
            Some((pinned, other)) if pinned == token && other != *holder => {
                self.violated(format!("{at}: {token} passed for {other} and for {holder}"));
            }
            _ => self.key(at).pin = Some((token, holder.clone())),
        }
    }

    /// An answer has told the mark: it is not below what was answered before.
    pub(super) fn told_mark(&mut self, at: At, epoch: u32, mark: Option<u64>) {
        let book = self.key(at);
        if book.epoch == epoch && book.resetting == 0 && mark < book.answered {
            let answered = book.answered;
            self.violated(format!("{at}: told {mark:?} after {answered:?} was answered"));
        }
    }

    /// R7: the first byte of a write goes out.
    pub(super) fn sent(&mut self, write: usize) {
        let sent = &mut self.writes[write];
        sent.sends += 1;
        if sent.sends > 1 {
            let sent = sent.clone();
            self.violated(format!("sent twice: {sent:?}"));
        }
    }

    /// A write takes effect at the store.
    pub(super) fn effect(&mut self, number: usize) {
        let write = &mut self.writes[number];
        write.effects += 1;
        write.decided = true;
        let write = write.clone();
        let Write { at, token, .. } = write;
        if write.effects > 1 {
            self.violated(format!("took effect twice: {write:?}"));
        }
        if write.told_not_applied {
            self.violated(format!("told not applied, then applied: {write:?}"));
        }
        let book = self.key(at);
        if book.promised && write.rank() < book.floor {
            let floor = book.floor;
            self.violated(format!("{at}: effect of {token:?} after {floor:?}: {write:?}"));
        } else if book.promised && write.enforced && token.is_some() {
            book.floor = book.floor.max(write.rank());
        }
    }

    /// R4: one outcome, once.
    pub(super) fn settled(&mut self, number: usize, outcome: Outcome, now: u64) {
        let write = &mut self.writes[number];
        write.settled_at = now;
        write.outcomes.push(outcome);
        write.held = false;
        if write.outcomes.len() > 1 {
            let write = write.clone();
            self.violated(format!("more than one outcome: {write:?}"));
        }
    }

    /// `Fencing-Outcome` went out: what it says is so.
    pub(super) fn told(&mut self, number: usize, applied: bool) {
        let write = &mut self.writes[number];
        write.told_not_applied = !applied;
        if applied != (write.effects > 0) {
            let write = write.clone();
            self.violated(format!("told applied={applied}: {write:?}"));
        }
    }

    /// The writes of a process whose outcome is still open.
    pub(super) fn open(&self, life: u32) -> Vec<usize> {
        let open = |number: &usize| self.writes[*number].life == life && self.writes[*number].held;
        (0..self.writes.len()).filter(open).collect()
    }

    /// After a start: what the store has found of a key.
    pub(super) fn found(&mut self, at: At, found: Option<u64>) {
        let book = self.key(at);
        let KeyBook { answered, stored, .. } = *book;
        if found < answered || found < stored {
            self.violated(format!(
                "{at}: the start found {found:?} after {answered:?} was answered and {stored:?} \
                 stored"
            ));
        }
    }
}
