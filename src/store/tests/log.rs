//! Damage in the log is told from a torn tail, on logs that SQLite itself wrote.

use std::fs;

use super::{
    super::wal::{Log, scan},
    *,
};

const FRAME: usize = 24 + 4096;

/// The files of a store that was killed after ten raises, each a commit of its own.
struct Image {
    options: Options,
    log: Vec<u8>,
    /// The numbers, from 1, of the frames that end a commit.
    commits: Vec<usize>,
}

impl Image {
    fn new(directory: &Path) -> Self {
        let options = options(directory);
        let (store, _) = start(&options);
        for n in 0..10 {
            raise(&store, &n.to_string(), mark(1, false));
        }
        let options = image(&options, directory);
        let mut log = fs::read(options.path.join("marks.db-wal")).unwrap();
        let ends = |number: &usize| log[32 + (number - 1) * FRAME + 4..][..4] != [0; 4];
        let commits: Vec<_> = (1..=(log.len() - 32) / FRAME).filter(ends).collect();
        assert!(commits.len() >= 10, "one for each raise");
        // The room behind them is looked at by itself.
        let room = log.split_off(at(commits[commits.len() - 1] + 1));
        assert!(!room.is_empty() && room.iter().all(|byte| *byte == 0));
        Self { options, log, commits }
    }

    fn path(&self) -> PathBuf {
        self.options.path.join("marks.db-wal")
    }

    fn frames(&self) -> usize {
        (self.log.len() - 32) / FRAME
    }

    /// What a scan says after `damage`.
    fn scan(&self, damage: impl FnOnce(&mut Vec<u8>)) -> Log {
        let mut log = self.log.clone();
        damage(&mut log);
        fs::write(self.path(), log).unwrap();
        scan(&self.path()).unwrap()
    }

    /// What is committed where frame `bad` is the first that does not count.
    fn before(&self, bad: usize) -> Log {
        let committed = self.commits.iter().rfind(|end| **end < bad).copied().unwrap_or(0);
        Log::Sound { committed: committed as u64 }
    }
}

fn at(frame: usize) -> usize {
    32 + (frame - 1) * FRAME
}

#[test]
fn a_whole_log_is_sound() {
    let directory = tempfile::tempdir().unwrap();
    let image = Image::new(directory.path());
    let whole = Log::Sound { committed: image.frames() as u64 };
    assert_eq!(image.scan(|_| ()), whole);
    assert_eq!(image.scan(|log| log.resize(5 << 20, 0)), whole, "room behind it");
    assert_eq!(image.scan(|log| log.fill(0)), Log::Sound { committed: 0 }, "room alone");
    assert_eq!(image.scan(|log| log.truncate(0)), Log::Sound { committed: 0 });
    fs::remove_file(image.path()).unwrap();
    assert_eq!(scan(&image.path()).unwrap(), Log::Sound { committed: 0 });
}

#[test]
fn a_log_cut_anywhere_is_a_torn_tail() {
    let directory = tempfile::tempdir().unwrap();
    let image = Image::new(directory.path());
    for length in (0..image.log.len()).step_by(508) {
        let whole = length.saturating_sub(32) / FRAME;
        assert_eq!(image.scan(|log| log.truncate(length)), image.before(whole + 1), "{length}");
        // A file that was made longer before its data came.
        let zeros = |log: &mut Vec<u8>| log[length..].fill(0);
        assert_eq!(image.scan(zeros), image.before(whole + 1), "{length}, zeros");
    }
}

#[test]
fn a_bad_page_is_damage_unless_it_is_in_the_last_commit() {
    let directory = tempfile::tempdir().unwrap();
    let image = Image::new(directory.path());
    for bad in 1..=image.frames() {
        let end = image.commits.iter().find(|end| **end >= bad).unwrap();
        let damaged = Log::Damaged { frame: bad as u64 };
        let want = if *end < image.frames() { damaged } else { image.before(bad) };
        assert_eq!(image.scan(|log| log[at(bad) + 2000] ^= 1), want, "frame {bad}");
    }
}

#[test]
fn a_bad_frame_head_is_damage_once_a_commit_follows_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let image = Image::new(directory.path());
    for bad in 1..=image.frames() {
        // Its own commit flag cannot be believed: see the module.
        let end = image.commits.iter().find(|end| **end > bad);
        let damaged = Log::Damaged { frame: bad as u64 };
        let follows = end.is_some_and(|end| *end < image.frames());
        let want = if follows { damaged } else { image.before(bad) };
        assert_eq!(image.scan(|log| log[at(bad) + 8] ^= 1), want, "frame {bad}");
    }
}

#[test]
fn a_bad_log_header_is_damage_where_anything_follows() {
    let directory = tempfile::tempdir().unwrap();
    let image = Image::new(directory.path());
    for byte in 0..32 {
        assert_eq!(image.scan(|log| log[byte] ^= 1), Log::Damaged { frame: 0 }, "{byte}");
    }
    let alone = |log: &mut Vec<u8>| {
        log.truncate(32);
        log[5] ^= 1;
    };
    assert_eq!(image.scan(alone), Log::Sound { committed: 0 });
}

#[test]
fn a_commit_of_many_frames_may_be_torn_in_its_middle() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    db.execute_batch("CREATE TABLE t (a)").unwrap();
    let log = path.with_extension("db-wal");
    let first = fs::read(&log).unwrap();
    let committed = ((first.len() - 32) / FRAME) as u64;
    db.execute("INSERT INTO t VALUES (zeroblob(250000))", ()).unwrap();
    let whole = fs::read(&log).unwrap();
    let copy = directory.path().join("copy");
    // Sector by sector, each one lost alone: the head of a frame may lie in two of them.
    let heads = (1..).map(at).take_while(|start| *start < whole.len());
    let heads = heads.skip_while(|start| *start < first.len());
    let sectors =
        heads.flat_map(|start| [start / 512 * 512, (start + 23) / 512 * 512, start + 512]);
    for sector in sectors.filter(|sector| *sector >= first.len()) {
        let mut torn = whole.clone();
        let end = (sector + 512).min(torn.len());
        // What an older log left there.
        torn[sector..end].fill(0xa5);
        fs::write(&copy, torn).unwrap();
        assert_eq!(scan(&copy).unwrap(), Log::Sound { committed }, "{sector}");
    }
}

#[test]
fn what_an_older_log_left_behind_the_end_is_no_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    db.execute_batch("CREATE TABLE t (a)").unwrap();
    for n in 0..10 {
        db.execute("INSERT INTO t VALUES (?1)", (n,)).unwrap();
    }
    let log = path.with_extension("db-wal");
    let before = fs::metadata(&log).unwrap().len();
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(())).unwrap();
    db.execute("INSERT INTO t VALUES (11)", ()).unwrap();
    assert_eq!(fs::metadata(&log).unwrap().len(), before, "begun again in place");
    assert_eq!(scan(&log).unwrap(), Log::Sound { committed: 1 });
}

#[test]
fn a_start_refuses_damage_and_takes_a_torn_tail() {
    let directory = tempfile::tempdir().unwrap();
    let image = Image::new(directory.path());
    let bad = image.commits[image.commits.len() - 3];
    image.scan(|log| log[at(bad) + 2000] ^= 1);
    let error = refusal(&image.options);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains(&format!("frame {bad} of marks.db-wal")), "{error}");

    image.scan(|log| log.truncate(log.len() - 1000));
    let (store, _) = start(&image.options);
    assert_eq!(find(&store, "8"), Some(mark(1, false)));
    assert_eq!(find(&store, "9"), None, "its commit was the torn one");
    store.close(true).unwrap();
    // A log without any commit, as a kill in the first one leaves it.
    image.scan(|log| log.truncate(32 + 5000));
    start(&image.options).0.close(true).unwrap();
}
