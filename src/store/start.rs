//! The transaction that begins a run: who starts in quarantine (R5, R10), whose keys may have
//! changed (R11), and the clean marks deleted before anything is served.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{
    Boot, Keying, OpenError, Options, Overlaps, UpstreamBoot, UpstreamFacts,
    keying::{Known, Verdict, drops, judge},
    record::opening,
};
use crate::fence::UpstreamId;

/// Judges every upstream and writes the run's beginning, in one synced transaction. A refusal
/// changes nothing.
pub(super) fn begin(
    db: &mut Connection,
    path: &Path,
    options: &Options,
    overlaps: Overlaps,
    created: bool,
) -> Result<Boot, OpenError> {
    let failed = opening(path, "begin a run in");
    let known = known(db).map_err(&failed)?;
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    let start = Start { tx: &tx, options, known: &known, created };
    let steps = options.upstreams.iter().map(|facts| start.judge(facts, overlaps));
    let steps = steps.collect::<Result<Vec<_>, _>>()?;
    let clean = !created && !steps.iter().any(Step::is_dirty);
    let boots = options.upstreams.iter().zip(&steps).map(|(facts, step)| match step {
        Step::New => start.add(facts, Duration::ZERO, false),
        Step::Rekey => start.rekey(facts),
        Step::Go { known, added } => start.go(facts, known, added),
    });
    let upstreams = boots.collect::<rusqlite::Result<_>>().map_err(&failed)?;
    tx.commit().map_err(failed)?;
    Ok(Boot { created, clean, upstreams })
}

/// Every upstream that the store remembers.
pub(super) fn known(db: &Connection) -> rusqlite::Result<Vec<Known>> {
    let mut patterns =
        db.prepare("SELECT pattern, template FROM keying WHERE upstream = ?1 ORDER BY pattern")?;
    let mut rows =
        db.prepare("SELECT id, name, address, lifetime_us, unfenced, dirty FROM upstream")?;
    let rows = rows.query_map((), |row| {
        let id = row.get(0)?;
        let keying = patterns
            .query_map((id,), |row| Ok(Keying { pattern: row.get(0)?, template: row.get(1)? }))?;
        Ok(Known {
            id: UpstreamId(id),
            name: row.get(1)?,
            address: row.get(2)?,
            lifetime: Duration::from_micros(row.get::<_, i64>(3)?.unsigned_abs()),
            unfenced: row.get(4)?,
            dirty: row.get(5)?,
            keying: keying.collect::<rusqlite::Result<_>>()?,
        })
    })?;
    rows.collect()
}

struct Start<'a> {
    tx: &'a Transaction<'a>,
    options: &'a Options,
    known: &'a [Known],
    created: bool,
}

enum Step<'a> {
    New,
    Rekey,
    Go { known: &'a Known, added: Vec<Keying> },
}

impl Step<'_> {
    fn is_dirty(&self) -> bool {
        matches!(self, Self::Go { known, .. } if known.dirty)
    }
}

impl<'a> Start<'a> {
    fn judge(&self, facts: &UpstreamFacts, overlaps: Overlaps) -> Result<Step<'a>, OpenError> {
        // Leave to make keys differently, not an order to: a `--rekey` left in a unit file voids
        // nothing while nothing has changed.
        let may_rekey = self.options.rekey.contains(&facts.name);
        match judge(facts, self.known, overlaps) {
            Verdict::New => Ok(Step::New),
            Verdict::Same { known, .. } if may_rekey && drops(facts, known) => Ok(Step::Rekey),
            Verdict::Same { known, added } => Ok(Step::Go { known, added }),
            Verdict::Changed(_) if may_rekey => Ok(Step::Rekey),
            Verdict::Changed(change) => Err(change.refuse(&self.options.path, &facts.name)),
        }
    }

    /// An upstream that the store has not seen: of its past nothing is known, so that a clean mark
    /// says nothing of it, and only the operator's `--fresh` does.
    fn add(
        &self,
        facts: &UpstreamFacts,
        earlier: Duration,
        rekeyed: bool,
    ) -> rusqlite::Result<UpstreamBoot> {
        let fresh = self.created && self.options.fresh;
        let unfenced = !fresh || facts.unfenced;
        let lifetime = facts.lifetime.max(earlier);
        self.tx.execute(
            "INSERT INTO upstream (name, address, lifetime_us, unfenced, dirty)
             VALUES (?1, ?2, ?3, ?4, 1)",
            (&facts.name, &facts.address, micros(lifetime), unfenced),
        )?;
        let id = UpstreamId(self.tx.query_row("SELECT last_insert_rowid()", (), |r| r.get(0))?);
        remember(self.tx, id, &facts.keying)?;
        let quarantine = (!fresh && !lifetime.is_zero()).then_some(lifetime);
        Ok(UpstreamBoot { id, quarantine, all_contested: !fresh, unfenced, rekeyed })
    }

    /// R11: forgets what was kept under its name or its address, and begins it anew.
    fn rekey(&self, facts: &UpstreamFacts) -> rusqlite::Result<UpstreamBoot> {
        let mut earlier = Duration::ZERO;
        let is_ours = |known: &&Known| known.name == facts.name || known.address == facts.address;
        for old in self.known.iter().filter(is_ours) {
            earlier = earlier.max(old.lifetime);
            let UpstreamId(id) = old.id;
            self.tx.execute(
                "DELETE FROM mark WHERE key >= ?1 AND key < ?2",
                (id.to_be_bytes(), id.saturating_add(1).to_be_bytes()),
            )?;
            self.tx.execute("DELETE FROM keying WHERE upstream = ?1", (id,))?;
            self.tx.execute("DELETE FROM upstream WHERE id = ?1", (id,))?;
        }
        self.add(facts, earlier, true)
    }

    fn go(
        &self,
        facts: &UpstreamFacts,
        known: &Known,
        added: &[Keying],
    ) -> rusqlite::Result<UpstreamBoot> {
        // Without a clean mark the run before may itself have been waiting for an earlier one, so
        // that a lifetime only shrinks with a clean mark.
        let (earlier, was_unfenced) =
            if known.dirty { (known.lifetime, known.unfenced) } else { (Duration::ZERO, false) };
        let lifetime = facts.lifetime.max(earlier);
        let unfenced = was_unfenced || facts.unfenced;
        self.tx.execute(
            "UPDATE upstream SET lifetime_us = ?2, unfenced = ?3, dirty = 1 WHERE id = ?1",
            (known.id.0, micros(lifetime), unfenced),
        )?;
        remember(self.tx, known.id, added)?;
        let quarantine = (known.dirty && !lifetime.is_zero()).then_some(lifetime);
        let all_contested = was_unfenced;
        Ok(UpstreamBoot { id: known.id, quarantine, all_contested, unfenced, rekeyed: false })
    }
}

/// Keeps patterns for later comparisons.
pub(super) fn remember(
    db: &Connection,
    upstream: UpstreamId,
    keying: &[Keying],
) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached("INSERT OR IGNORE INTO keying VALUES (?1, ?2, ?3)")?;
    for Keying { pattern, template } in keying {
        insert.execute((upstream.0, pattern, template))?;
    }
    Ok(())
}

/// A lifetime as stored, rounded up.
pub(super) fn micros(lifetime: Duration) -> i64 {
    i64::try_from(lifetime.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX)
}
