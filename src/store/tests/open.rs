//! Every way in which a start is refused, and what it leaves behind.

use std::fs;

use super::*;

#[test]
fn sqlite_is_past_the_wal_reset_bug() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[test]
fn a_missing_store_is_refused_without_a_trace() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { create: Create::Never, ..options(directory.path()) };
    let error = refusal(&options);
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("data/fences"), "{error}");
    assert!(!directory.path().join("data").exists());
}

#[test]
fn what_was_raised_is_there_after_a_reopen() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let holder = crate::fence::Holder::parse(b"worker-7");
    let token = Some(Token { generation: 3, counter: u64::MAX });
    let kept = Mark { token, contested: true, holder };
    let (store, _) = start(&options);
    raise(&store, "a", kept.clone());
    ask(|done| store.reset(key("b"), done)).unwrap();
    store.close(true).unwrap();
    let (store, _) = start(&Options { create: Create::Never, ..options });
    assert_eq!(find(&store, "a"), Some(kept));
    assert_eq!(find(&store, "b"), Some(Mark { token: None, contested: true, holder: None }));
    assert_eq!(find(&store, "c"), None);
}

#[test]
fn a_kill_loses_nothing_that_was_answered() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    for token in 1..=20 {
        raise(&store, "a", mark(token, false));
    }
    let image = image(&options, directory.path());
    let (store, boot) = start(&image);
    assert!(!boot.clean);
    assert_eq!(find(&store, "a"), Some(mark(20, false)));
}

#[test]
fn fresh_makes_a_store_once() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { create: Create::Never, fresh: true, ..options(directory.path()) };
    let (store, boot) = start(&options);
    assert!(boot.created);
    store.close(true).unwrap();
    let error = refusal(&options);
    assert!(matches!(error, OpenError::Exists { .. }), "{error}");
}

#[test]
fn a_second_process_is_told_the_first_ones_pid() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    let pid = std::process::id().to_string();
    let error = refusal(&options);
    assert!(matches!(&error, OpenError::InUse { pid: told, .. } if *told == pid), "{error}");
    let other = child("store::tests::open::child_that_is_refused", directory.path(), "");
    let said = String::from_utf8_lossy(&other.stdout).into_owned();
    assert!(other.status.success(), "{said}");
    assert!(said.contains(&format!("in use by another palisade, process {pid}:")), "{said}");
    store.close(false).unwrap();
    start(&options).0.close(false).unwrap();
}

#[test]
#[ignore = "run in a process of its own by another test"]
fn child_that_is_refused() {
    let Some(directory) = parents_directory() else { return };
    println!("{}", refusal(&options(&directory)));
}

#[test]
fn a_store_that_is_dropped_gives_its_lock_up() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    let (tell, told) = mpsc::channel();
    let last = store.clone();
    drop(store);
    let call = last.clone();
    call.raise(
        key("a"),
        mark(1, false),
        Box::new(move |result| {
            // The last handle goes on the commit thread itself.
            drop(last);
            tell.send(result).unwrap();
        }),
    );
    drop(call);
    told.recv().unwrap().unwrap();
    // Its threads end in their own time.
    let store = loop {
        match open(&options, overlaps, None) {
            Ok(opened) => break opened.store,
            Err(OpenError::InUse { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(find(&store, "a"), Some(mark(1, false)));
}

/// A store that was closed, changed by `damage`, and its refusal.
fn damaged(damage: impl FnOnce(&Path)) -> OpenError {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    raise(&store, "a", mark(1, false));
    store.close(true).unwrap();
    damage(&options.path);
    refusal(&options)
}

#[test]
fn half_a_store_is_refused_even_where_one_may_be_made() {
    let cut = |length| {
        move |path: &Path| {
            let file = fs::File::options().write(true).open(path.join("marks.db")).unwrap();
            file.set_len(length).unwrap();
            fs::remove_file(path.join("marks.db-wal")).unwrap();
        }
    };
    let overwrite = |path: &Path, text: &str| fs::write(path.join("initialised"), text).unwrap();
    let other = format!("palisade-store 1 {:032x}\n", 7);
    let cases: [(&str, OpenError); 7] = [
        ("marks.db is missing", damaged(|path| fs::remove_file(path.join("marks.db")).unwrap())),
        (
            "the file initialised is missing",
            damaged(|path| fs::remove_file(path.join("initialised")).unwrap()),
        ),
        ("marks.db is empty or cut short", damaged(cut(0))),
        ("marks.db is shorter than it says", damaged(cut(4096))),
        (
            "not a store's database",
            damaged(|path| fs::write(path.join("marks.db"), [7; 8192]).unwrap()),
        ),
        ("initialised is not a store's marker", damaged(|path| overwrite(path, "hello"))),
        ("belongs to another store", damaged(|path| overwrite(path, &other))),
    ];
    for (want, error) in cases {
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(want), "{want}: {error}");
    }
}

/// What was raised since the last checkpoint is in the log alone.
#[test]
fn a_log_that_is_missing_after_a_crash_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    store.close(true).unwrap();
    let (store, _) = start(&options);
    raise(&store, "a", mark(1, false));
    store.close(false).unwrap();
    fs::remove_file(options.path.join("marks.db-wal")).unwrap();
    for start in ["first", "second"] {
        let error = refusal(&options);
        assert!(error.to_string().contains("marks.db-wal is missing"), "{start}: {error}");
    }
    fs::write(options.path.join("marks.db-wal"), "").unwrap();
    let (_, boot) = start(&options);
    assert!(!boot.clean);
}

/// Whoever looks into a stopped store with sqlite3 folds its log in.
#[test]
fn a_log_that_another_program_folded_in_is_no_loss() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    raise(&store, "a", mark(1, false));
    store.close(true).unwrap();
    let other = rusqlite::Connection::open(options.path.join("marks.db")).unwrap();
    let _: i64 = other.query_row("SELECT count(*) FROM mark", (), |row| row.get(0)).unwrap();
    other.close().unwrap();
    assert!(!options.path.join("marks.db-wal").exists());
    let (_, boot) = start(&options);
    assert!(boot.clean);
}

#[test]
fn a_store_whose_files_went_away_acknowledges_nothing_more() {
    for away in ["marks.db", "marks.db-wal", "."] {
        let directory = tempfile::tempdir().unwrap();
        let options = options(directory.path());
        let (store, _) = start(&options);
        raise(&store, "a", mark(1, false));
        let gone = if away == "." { options.path.clone() } else { options.path.join(away) };
        fs::rename(&gone, directory.path().join("elsewhere")).unwrap();
        let answer = ask(|done| store.raise(key("a"), mark(2, false), done));
        assert!(matches!(answer, Err(StoreError::Poisoned(_))), "{away}: {answer:?}");
    }
}

/// What is left of a log that somebody emptied looks like one in order: the next start must not
/// take it for all there was.
#[test]
fn a_log_that_is_cut_short_ends_the_store_and_stops_the_next_start() {
    for (left, at_rest) in [(0, true), (0, false), (32 + 24 + 4096, true), (5000, false)] {
        let directory = tempfile::tempdir().unwrap();
        let options = options(directory.path());
        let (store, _) = start(&options);
        for token in 1..=3 {
            raise(&store, "a", mark(token, false));
        }
        store.verify();
        raise(&store, "a", mark(4, false));
        let log = options.path.join("marks.db-wal");
        fs::File::options().write(true).open(&log).unwrap().set_len(left).unwrap();
        if at_rest {
            let (tell, told) = mpsc::channel();
            store.on_poison(Box::new(move |reason| tell.send(reason).unwrap()));
            store.verify();
            let reason = told.recv_timeout(Duration::from_secs(20)).expect("it is noticed");
            assert!(reason.contains("marks.db-wal was cut short"), "{left}: {reason}");
        } else {
            let answer = ask(|done| store.raise(key("a"), mark(5, false), done));
            assert!(matches!(answer, Err(StoreError::Poisoned(_))), "{left}: {answer:?}");
        }
        store.close(true).unwrap_err();
        let error = refusal(&options);
        assert!(error.to_string().contains("marks.db-wal was cut short"), "{left}: {error}");
        assert!(error.to_string().contains("marks.db-wal.cut"), "{left}: {error}");
    }
}

#[test]
fn the_lock_does_not_go_with_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    fs::remove_file(options.path.join("lock")).unwrap();
    assert!(matches!(refusal(&options), OpenError::InUse { .. }));
    store.close(true).unwrap();
}

#[test]
fn a_newer_format_is_refused() {
    let by_marker = damaged(|path| {
        let text = fs::read_to_string(path.join("initialised")).unwrap();
        fs::write(path.join("initialised"), text.replacen(" 1 ", " 2 ", 1)).unwrap();
    });
    let by_header = damaged(|path| {
        let db = rusqlite::Connection::open(path.join("marks.db")).unwrap();
        db.pragma_update(None, "user_version", 2).unwrap();
    });
    for error in [by_marker, by_header] {
        assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error}");
    }
}

#[test]
fn an_interrupted_first_start_begins_again() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    raise(&store, "a", mark(1, false));
    store.close(true).unwrap();
    // As it was before the marker took its name: nothing can have been served.
    let path = &options.path;
    fs::rename(path.join("initialised"), path.join("initialised.new")).unwrap();
    let never = Options { create: Create::Never, ..options.clone() };
    assert!(matches!(refusal(&never), OpenError::Missing { .. }));
    let (store, boot) = start(&options);
    assert!(boot.created);
    assert_eq!(find(&store, "a"), None);
}

#[test]
fn a_path_that_cannot_be_a_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    fs::write(directory.path().join("data"), "a file").unwrap();
    let error = refusal(&options);
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    assert!(error.to_string().contains("data/fences"), "{error}");
}

#[test]
fn another_program_that_keeps_the_log_from_being_settled_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    raise(&store, "a", mark(1, false));
    let image = image(&options, directory.path());
    let shell = rusqlite::Connection::open(image.path.join("marks.db")).unwrap();
    shell.execute_batch("BEGIN; SELECT count(*) FROM mark").unwrap();
    let error = refusal(&image);
    assert!(matches!(error, OpenError::Busy { .. }), "{error}");
    shell.execute_batch("COMMIT").unwrap();
    let (store, _) = start(&image);
    assert_eq!(find(&store, "a"), Some(mark(1, false)));
}

#[test]
fn the_directory_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (_store, _) = start(&options);
    assert_eq!(fs::metadata(&options.path).unwrap().permissions().mode() & 0o077, 0);
}
