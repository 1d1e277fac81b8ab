//! Opens images, and compares what is in them with what was answered for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use fastrand::Rng;
use palisade::{
    config,
    fence::{Key, Mark},
    proxy,
    store::{self, Create, OpenError, Opened, StoreError, TokenStore},
};

use super::{
    disk::{Disk, Honoured},
    image::Kind,
    recording::Recording,
    trace::{self, Entry, Event},
};
use crate::harness::{Palisade, put};

/// Workers: an image waits for its syncs, too.
const WORKERS: usize = 8;

pub struct Judge<'r> {
    recording: &'r Recording,
    entries: Vec<Entry<'r>>,
    options: store::Options,
    seed: u64,
}

/// What a run has found.
#[derive(Debug, Default)]
pub struct Tally {
    pub images: usize,
    pub cuts: usize,
    /// Changes that were open at the cuts, over all images.
    pub unsynced: usize,
    /// Answers that had to be kept, over all images.
    pub promises: usize,
    pub made_anew: usize,
    /// Reasons of refused starts.
    pub refused: BTreeMap<String, usize>,
    pub lost: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { images, cuts, unsynced, promises, made_anew, refused, lost } = self;
        let kinds = Kind::EACH.len();
        write!(
            f,
            "{images} images of {kinds} kinds at {cuts} moments, {unsynced} unsynced changes; \
             {promises} answers checked, {} lost; {made_anew} stores not yet made; \
             {} starts refused",
            lost.len(),
            refused.values().sum::<usize>(),
        )
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.images += other.images;
        self.cuts += other.cuts;
        self.unsynced += other.unsynced;
        self.promises += other.promises;
        self.made_anew += other.made_anew;
        self.lost.extend(other.lost);
        for (reason, count) in other.refused {
            *self.refused.entry(reason).or_default() += count;
        }
    }
}

impl<'r> Judge<'r> {
    pub fn new(recording: &'r Recording, seed: u64) -> Self {
        let file = recording.palisade.home().join("palisade.toml");
        let options = config::load(Some(&file)).unwrap().store;
        Self { recording, entries: trace::read(&recording.log), options, seed }
    }

    fn root(&self) -> PathBuf {
        self.recording.palisade.home().join("disk")
    }

    /// Nothing escaped the record: played back it gives the files as they are.
    pub fn check_the_record(&self) {
        let mut disk = Disk::new(&self.root(), |_, _| true);
        let mut rng = Rng::with_seed(self.seed);
        for entry in &self.entries {
            disk.play(&entry.event, &mut rng);
        }
        let seen = disk.seen();
        let mut real = Vec::new();
        for entry in fs::read_dir(self.root().join("fences")).unwrap() {
            let path = entry.unwrap().path();
            let shared = path.to_string_lossy().ends_with("-shm");
            let bytes = fs::read(&path).unwrap();
            let same = seen.get(&path).is_some_and(|seen| shared || *seen == bytes);
            assert!(same, "{} is not as recorded", path.display());
            real.push(path);
        }
        assert_eq!(seen.len(), real.len(), "{:?} {real:?}", seen.keys());
    }

    /// Opens so many images, of a disk that honours these syncs.
    pub fn run(&self, images: usize, honoured: Honoured) -> Tally {
        let each = images.div_ceil(WORKERS * Kind::EACH.len());
        let mut all = Tally::default();
        thread::scope(|scope| {
            let run = |worker| scope.spawn(move || self.pass(worker, each, honoured));
            let workers: Vec<_> = (0..WORKERS as u64).map(run).collect();
            for worker in workers {
                all.add(worker.join().unwrap());
            }
        });
        all
    }

    /// One walk through the record, with so many stops.
    fn pass(&self, worker: u64, stops: usize, honoured: Honoured) -> Tally {
        let mut rng = Rng::with_seed(self.seed.wrapping_add(worker));
        let cuts = self.cuts(stops, &mut rng);
        let dir = scratch();
        let mut disk = Disk::new(&self.root(), honoured);
        let mut tally = Tally::default();
        for (n, entry) in self.entries.iter().enumerate() {
            disk.play(&entry.event, &mut rng);
            if !cuts.contains(&n) {
                continue;
            }
            tally.cuts += 1;
            for kind in Kind::EACH {
                let to = dir.path().join("disk");
                disk.write_image(kind, &mut rng, &to);
                tally.unsynced += disk.unsynced();
                self.judge(&to, n, kind, &mut tally);
                fs::remove_dir_all(&to).unwrap();
            }
        }
        tally
    }

    /// Where the power goes: after the entries of these numbers. A third of the stops stand right
    /// before a sync, when most is open, a third around what happens rarely.
    fn cuts(&self, stops: usize, rng: &mut Rng) -> BTreeSet<usize> {
        let last = self.entries.len() - 1;
        let syncs = |n: &usize| matches!(self.entries[n + 1].event, Event::Sync { .. });
        let before_syncs: Vec<_> = (0..last).filter(syncs).collect();
        let rare =
            |n: &usize| !matches!(self.entries[*n].event, Event::Write { .. } | Event::Sync { .. });
        let rare: Vec<_> = (0..last).filter(rare).collect();
        let mut cut = |stop: usize| match stop % 3 {
            0 => before_syncs[rng.usize(..before_syncs.len())],
            1 => (rare[rng.usize(..rare.len())] + rng.usize(..6)).min(last),
            _ => rng.usize(..=last),
        };
        let mut cuts = BTreeSet::new();
        for stop in 0.. {
            if cuts.len() == stops.min(last) {
                break;
            }
            cuts.insert(cut(stop));
        }
        cuts
    }

    fn judge(&self, disk: &Path, cut: usize, kind: Kind, tally: &mut Tally) {
        let moment = self.entries[cut].moment;
        let served = self.recording.served.iter().any(|served| served.contains(&moment));
        let first = self.recording.served[0].start > moment;
        let what = format!("seed {}, entry {cut}, {kind:?}", self.seed);
        tally.images += 1;
        tally.promises += self.recording.promises.count(moment);
        let opened = self.open(disk, first);
        let Opened { store, boot } = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let reason = error.to_string().replace(&disk.display().to_string(), "DISK");
                // The first sentence says what; the rest says what to do.
                let reason = reason.split(". ").next().unwrap_or_default().to_owned();
                *tally.refused.entry(reason).or_default() += 1;
                return;
            }
        };
        tally.made_anew += usize::from(boot.created);
        let mut lost = match records(&store) {
            Ok(records) => self.recording.promises.missing(moment, &records),
            Err(error) => vec![error.to_string()],
        };
        let waits = boot.upstreams.iter().all(|upstream| upstream.quarantine.is_some());
        if served && (boot.clean || !waits) {
            lost.push(format!("no quarantine: {boot:?}"));
        }
        tally.lost.extend(lost.into_iter().map(|lost| format!("{what}: {lost}")));
        store.close(false).unwrap();
    }

    /// Before the first life has listened, a store that is not whole may be made anew.
    fn open(&self, disk: &Path, first: bool) -> Result<Opened, OpenError> {
        let create = if first { Create::IfMissing } else { Create::Never };
        let path = disk.join("fences");
        let options = store::Options { path, create, ..self.options.clone() };
        store::open(&options, proxy::overlaps_text, None)
    }

    /// Opens a few images with the real binary, each from its own moment of a served life, and asks
    /// for every key.
    pub fn serve_some(&self, count: usize) {
        let mut rng = Rng::with_seed(self.seed);
        let served = &self.recording.served;
        let (first, last) = (served[0].start, served[served.len() - 1].end);
        let within = |n: &usize| (first..last).contains(&self.entries[*n].moment);
        let within: Vec<_> = (0..self.entries.len()).filter(within).collect();
        let cuts: BTreeSet<_> = (0..count).map(|_| within[rng.usize(..within.len())]).collect();
        let mut disk = Disk::new(&self.root(), |_, _| true);
        for (n, entry) in self.entries.iter().enumerate() {
            disk.play(&entry.event, &mut rng);
            if cuts.contains(&n) {
                let dir = tempfile::tempdir().unwrap();
                let kind = Kind::EACH[rng.usize(..Kind::EACH.len())];
                disk.write_image(kind, &mut rng, &dir.path().join("disk"));
                self.serve(dir, entry.moment);
            }
        }
    }

    fn serve(&self, dir: tempfile::TempDir, moment: u64) {
        let config = self.recording.config().store("path", "DIR/disk/fences");
        let palisade = Palisade::start_in(dir, &config, &[]);
        for (key, floor) in self.recording.promises.floors(moment) {
            let below = put(&format!("/{key}"), &(floor - 1).to_string()).send(palisade.addr());
            below.assert_refused(412, "stale-token");
            let highest: u64 = below.field("fencing-highest").unwrap().parse().unwrap();
            assert!(highest >= floor, "{key}: {floor} was answered for, {highest} is the mark");
        }
    }
}

/// Every record of the one upstream, by its key.
fn records(store: &store::Store) -> Result<BTreeMap<String, Mark>, StoreError> {
    let (tell, told) = mpsc::channel();
    store.list(Vec::new(), None, 10_000, Box::new(move |found| tell.send(found).unwrap()));
    let text = |key: &Key| String::from_utf8(key.as_bytes()[4..].to_vec()).unwrap();
    let found = told.recv().unwrap()?;
    Ok(found.into_iter().map(|(key, mark)| (text(&key), mark)).collect())
}

/// Memory, where the system has it: images are synced often, and nothing is to outlive the test.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}
