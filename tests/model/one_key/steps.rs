//! What can happen next.

use super::*;

/// All that can happen next.
pub(crate) fn steps(world: &World, bounds: Bounds, off: Option<Without>) -> Vec<World> {
    let mut next = Steps { world, bounds, off, out: vec![] };
    for at in 0..world.writes.len() {
        next.ask(at);
        next.settle(at);
        next.store(at);
    }
    next.commit();
    next.clear();
    next.tick();
    next.operate();
    next.restart();
    next.out
}

struct Steps<'a> {
    world: &'a World,
    bounds: Bounds,
    off: Option<Without>,
    out: Vec<World>,
}

impl Steps<'_> {
    fn is_off(&self, rule: Without) -> bool {
        self.off == Some(rule)
    }

    fn regime(&self) -> Regime {
        Regime {
            now: Moment(self.world.now),
            quarantine: self.world.quarantine.map(Moment),
            all_contested: self.world.all_contested,
        }
    }

    /// A waiting write asks the fence.
    fn ask(&mut self, at: usize) {
        let write = &self.world.writes[at];
        let Phase::Waiting { seen } = write.phase else { return };
        let mut next = self.world.clone();
        let offer = Offer {
            token: write.token,
            holder: None,
            claim: write.claim,
            limits: Limits::default(),
        };
        if !self.world.enforce && !write.claim {
            let (_, mark) = next.fence.observe(&offer, self.regime());
            next.submitted.extend(mark);
            next.writes[at].enforced = false;
            self.fly(next, at);
            return;
        }
        match next.fence.offer(&offer, self.regime()) {
            Admission::Forward { clear } => {
                next.clears.extend(clear);
                if write.claim {
                    next.answer_claim(at);
                    self.out.push(next);
                } else {
                    self.fly(next, at);
                }
            }
            Admission::Raise(mark) => self.raise(next, at, mark),
            Admission::Stale if self.is_off(Without::Refusal) => self.force(next, at),
            Admission::Stale if self.is_off(Without::Recheck) && seen => self.force(next, at),
            Admission::Drain { .. } if self.is_off(Without::Drain) => self.force(next, at),
            Admission::Raising | Admission::Drain { .. } | Admission::InDoubt { .. } => {
                next.writes[at].phase = Phase::Waiting { seen: true };
                self.out.push(next);
            }
            Admission::Stale
            | Admission::HolderConflict
            | Admission::Implausible
            | Admission::TokenMissing => {
                next.writes[at].phase = Phase::Over;
                self.out.push(next);
            }
        }
    }

    fn raise(&mut self, mut next: World, at: usize, mut mark: Mark) {
        mark.contested &= !self.is_off(Without::Contested);
        if self.is_off(Without::DurableFirst) {
            next.fence.raised(&mark, mark.clone());
        }
        next.submitted.push(mark);
        next.writes[at].phase = Phase::Waiting { seen: true };
        self.out.push(next);
    }

    /// The write goes on though the fence said no: a rule is taken out.
    fn force(&mut self, mut next: World, at: usize) {
        if next.writes[at].claim {
            next.answer_claim(at);
            self.out.push(next);
        } else {
            next.fence.track(next.writes[at].token);
            self.fly(next, at);
        }
    }

    fn fly(&mut self, mut next: World, at: usize) {
        let write = &mut next.writes[at];
        write.phase = Phase::Flying;
        write.at_store = AtStore::Pending;
        let uncounted = (write.token.is_none() && self.is_off(Without::TokenlessCounts))
            || (!write.enforced && self.is_off(Without::ObservedCounts));
        if uncounted {
            next.fence.settle(write.token, Outcome::NotSent, Moment(0));
            next.writes[at].phase = Phase::Over;
        }
        self.out.push(next);
    }

    /// A write in flight ends for the proxy.
    fn settle(&mut self, at: usize) {
        let write = &self.world.writes[at];
        if write.phase != Phase::Flying {
            return;
        }
        let forgets = self.is_off(Without::Doubt);
        let unknown = if forgets { Outcome::Answered } else { Outcome::Unknown };
        self.end(at, unknown);
        let accepted = self.bounds.accepted && self.is_off(Without::AcceptedIsUnknown);
        if write.at_store != AtStore::Pending || accepted {
            self.end(at, Outcome::Answered);
        }
    }

    fn end(&mut self, at: usize, outcome: Outcome) {
        let mut next = self.world.clone();
        let until = next.now + LIFETIME;
        next.fence.settle(next.writes[at].token, outcome, Moment(until));
        next.writes[at].phase = match outcome {
            Outcome::Unknown => Phase::Doubt { until },
            Outcome::Answered | Outcome::NotSent => Phase::Over,
        };
        self.out.push(next);
    }

    /// The store applies a request that it has, or drops one whose connection is gone.
    fn store(&mut self, at: usize) {
        let write = &self.world.writes[at];
        if write.at_store != AtStore::Pending {
            return;
        }
        let mut next = self.world.clone();
        next.writes[at].at_store = AtStore::Applied;
        next.effect(write.token, write.enforced);
        self.out.push(next);
        if matches!(write.phase, Phase::Doubt { .. } | Phase::Lost) {
            let mut next = self.world.clone();
            next.writes[at].at_store = AtStore::Dropped;
            self.out.push(next);
        }
    }

    /// The memory: written first, synced later, and only then answered.
    fn commit(&mut self) {
        if let Some(mark) = self.world.submitted.first() {
            let mut next = self.world.clone();
            next.submitted.remove(0);
            next.written.raise(mark);
            next.unsynced.push(mark.clone());
            self.out.push(next);
        }
        if !self.world.unsynced.is_empty() {
            let mut next = self.world.clone();
            next.synced = next.written.clone();
            for mark in std::mem::take(&mut next.unsynced) {
                let record = next.synced.record.clone().unwrap_or_default();
                next.fence.raised(&mark, record);
            }
            self.out.push(next);
        }
    }

    fn clear(&mut self) {
        let Some(token) = self.world.clears.first() else { return };
        let mut next = self.world.clone();
        next.clears.remove(0);
        let any = self.is_off(Without::ConditionalClear);
        if let Some(record) = &mut next.written.record
            && (any || record.token == Some(*token))
        {
            record.contested = false;
        }
        self.out.push(next);
    }

    /// Time passes. The store has kept its word: what it was to apply by now, it has.
    fn tick(&mut self) {
        let now = self.world.now + 1;
        let held = !self.world.fence.in_doubt().is_empty()
            || self.world.quarantine.is_some_and(|end| end > self.world.now);
        let late = self.world.writes.iter().any(|write| {
            let end = match write.phase {
                Phase::Doubt { until } => until,
                Phase::Lost => self.world.quarantine.unwrap_or(0),
                Phase::Waiting { .. } | Phase::Flying | Phase::Over => return false,
            };
            write.at_store == AtStore::Pending && end <= now
        });
        if !held || late {
            return;
        }
        let mut next = self.world.clone();
        next.now = now;
        next.fence.expire(Moment(now));
        let ended = self.world.quarantine.is_some_and(|end| end == now);
        if ended && self.is_off(Without::QuarantineClearsNothing) {
            if let Some(record) = &mut next.written.record {
                record.contested = false;
            }
            let seen = next.fence.in_doubt().to_vec();
            next.fence.release(&seen);
        }
        self.out.push(next);
    }

    /// The operator enforces by a reload, or releases a key.
    fn operate(&mut self) {
        if !self.world.enforce {
            let mut next = self.world.clone();
            next.enforce = true;
            self.out.push(next);
        }
        if self.world.used[3] < self.bounds.releases {
            self.release();
        }
    }

    /// As the gate does it: the record first, where no lower write is in flight, then the fence.
    fn release(&mut self) {
        let mut next = self.world.clone();
        next.used[3] += 1;
        let mut releasable = next.fence.releasable();
        if self.is_off(Without::FlyingStaysContested) {
            releasable = Some(next.fence.highest());
        }
        if let (Some(token), Some(record)) = (releasable, &mut next.written.record)
            && record.token == token
        {
            record.contested = false;
            next.synced.record.clone_from(&next.written.record);
        }
        let seen = next.fence.in_doubt().to_vec();
        next.fence.release(&seen);
        for write in next.writes.iter_mut().filter(|_| self.bounds.truthful) {
            let vouched = matches!(write.phase, Phase::Doubt { .. } | Phase::Lost);
            if vouched && write.at_store == AtStore::Pending {
                write.at_store = AtStore::Dropped;
            }
        }
        self.out.push(next);
    }

    fn restart(&mut self) {
        let world = self.world;
        if world.used[0] < self.bounds.kills {
            let unsynced = self.is_off(Without::SyncOnStart);
            let synced = if unsynced { &world.synced } else { &world.written };
            self.start(world.written.clone(), synced.clone(), 0);
        }
        if world.used[1] < self.bounds.powers {
            self.start(world.synced.clone(), world.synced.clone(), 1);
        }
        let quarantined =
            self.regime().quarantined().is_some() && !self.is_off(Without::NoCleanStopInQuarantine);
        let open = world.submitted.len() + world.unsynced.len() + world.fence.in_flight().len();
        let quiet = open == 0 && world.fence.in_doubt().is_empty() && !quarantined;
        if world.used[2] < self.bounds.stops && quiet {
            // A clean mark voids `unfenced`; it is the last synced write.
            let disk = Disk { clean: true, unfenced: false, ..world.written.clone() };
            self.start(disk.clone(), disk, 2);
        }
    }

    /// A new process on what the disk has.
    fn start(&mut self, found: Disk, synced: Disk, cause: usize) {
        let mut next = self.world.clone();
        let clean = found.clean;
        let unfenced = found.unfenced && !self.is_off(Without::UnfencedIsKept);
        next.used[cause] += 1;
        next.fence = Fence::new(found.record.clone());
        next.written = found;
        next.written.clean &= self.is_off(Without::UnmarkFirst);
        next.written.unfenced = unfenced || self.bounds.sticky;
        next.synced = Disk { record: synced.record, ..next.written.clone() };
        (next.submitted, next.unsynced, next.clears) = (vec![], vec![], vec![]);
        next.enforce = true;
        let quarantine = !clean && !self.is_off(Without::Quarantine);
        next.quarantine = quarantine.then_some(next.now + LIFETIME);
        next.all_contested = !clean && unfenced;
        for write in &mut next.writes {
            let pending = write.at_store == AtStore::Pending;
            if write.phase != (Phase::Waiting { seen: false })
                && (pending || write.phase != Phase::Over)
            {
                write.phase = Phase::Lost;
            }
        }
        self.out.push(next);
    }
}
