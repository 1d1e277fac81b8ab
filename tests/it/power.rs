//! Loss of power. The real binary's calls to its disk are recorded; then every disk that a loss of
//! power may leave is made and opened, at any moment, with what was not synced lost, kept out of
//! order or torn: whatever was answered for is there (R2), and no clean mark is where a life was
//! served (R5).
//!
//! `PALISADE_IMAGES` says how many, `PALISADE_SEED` replays a run.

mod disk;
mod faults;
mod image;
mod judge;
mod promise;
mod recording;
mod shim;
mod trace;

use std::{env, path::Path};

use self::judge::{Judge, Tally};

/// Images of a run of the tests, and of each control.
const IMAGES: usize = 1100;
const CONTROL_IMAGES: usize = 110;

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(variable: &str) -> Option<T> {
    env::var(variable).ok().map(|text| text.parse().unwrap())
}

#[test]
fn a_loss_of_power_loses_nothing_that_was_answered() {
    let images = number("PALISADE_IMAGES").unwrap_or(IMAGES);
    let seed = number("PALISADE_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("power: PALISADE_SEED={seed}");
    let recording = recording::record();
    let judge = Judge::new(&recording, seed);
    judge.check_the_record();
    let tally = judge.run(images, |_, _| true);
    eprintln!("power: {tally}");
    assert!(tally.lost.is_empty(), "{:#?}", &tally.lost[..tally.lost.len().min(5)]);
    assert!(tally.refused.is_empty(), "{:#?}", tally.refused);
    assert!(tally.images >= images && tally.unsynced > 0 && tally.promises > 0);
    judge.serve_some(6);

    // The same with syncs left out: the judge must see it.
    let controls: [(&str, disk::Honoured); 5] = [
        ("no sync of the log", |path, _| !ends(path, "-wal")),
        ("no sync of the database", |path, _| !ends(path, ".db")),
        ("no sync of the database but at its making", |path, made| !made || !ends(path, ".db")),
        ("no sync of a directory", |path, _| !ends(path, "disk") && !ends(path, "fences")),
        ("no sync at all", |_, _| false),
    ];
    for (name, honoured) in controls {
        let tally = judge.run(images.min(CONTROL_IMAGES), honoured);
        eprintln!("power, {name}: {tally}");
        assert!(tally.caught() > 0, "{name}: not seen");
    }
}

fn ends(path: &Path, end: &str) -> bool {
    path.to_string_lossy().ends_with(end)
}

impl Tally {
    fn caught(&self) -> usize {
        self.lost.len() + self.refused.values().sum::<usize>()
    }
}
