//! Group commit, reads, clears and the end of a store.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::*;

/// A store and how often it has synced since its start.
fn counting(options: &Options) -> (Store, Arc<AtomicUsize>) {
    let syncs = Arc::new(AtomicUsize::new(0));
    let counter = syncs.clone();
    let on_sync: Observer = Box::new(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let Opened { store, .. } = open(options, overlaps, Some(on_sync)).unwrap();
    (store, syncs)
}

/// Keeps the commit thread in an answer until `go` is dropped.
pub(super) fn busy(store: &Store) -> mpsc::Sender<()> {
    let (go, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    store.raise(
        key("busy"),
        mark(1, false),
        Box::new(move |result| {
            tell.send(result).unwrap();
            let _ = wait.recv();
        }),
    );
    told.recv().unwrap().unwrap();
    go
}

#[test]
fn raises_that_wait_share_one_sync() {
    let directory = tempfile::tempdir().unwrap();
    let (store, syncs) = counting(&options(directory.path()));
    let go = busy(&store);
    let (tell, told) = mpsc::channel();
    for (path, token) in (0..100).map(|n| (n % 10, n)) {
        let tell = tell.clone();
        let done: Done<Mark> = Box::new(move |result| tell.send((path, result)).unwrap());
        store.raise(key(&format!("k{path}")), mark(token, false), done);
    }
    let before = syncs.load(Ordering::SeqCst);
    drop((go, tell));
    let answers: Vec<_> = told.iter().collect();
    assert_eq!(answers.len(), 100);
    for (path, result) in answers {
        assert_eq!(result.unwrap(), mark(90 + path, false), "the record as it then is");
    }
    assert_eq!(syncs.load(Ordering::SeqCst) - before, 1);
}

#[test]
fn a_batch_keeps_the_order_of_asking() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = start(&options(directory.path()));
    let go = busy(&store);
    let (tell, told) = mpsc::channel();
    let done = || -> Done<()> {
        let tell = tell.clone();
        Box::new(move |result| tell.send(result.is_ok()).unwrap())
    };
    store.raise(key("a"), mark(5, true), Box::new(|_| ()));
    store.release(key("a"), Some(Token::new(5)), done());
    store.release(key("b"), Some(Token::new(5)), done());
    store.raise(key("b"), mark(5, true), Box::new(|_| ()));
    store.raise(key("c"), mark(5, false), Box::new(|_| ()));
    store.reset(key("c"), done());
    drop(go);
    assert_eq!(told.iter().take(3).collect::<Vec<_>>(), [true; 3]);
    assert_eq!(find(&store, "a"), Some(mark(5, false)));
    assert_eq!(find(&store, "b"), Some(mark(5, true)));
    assert_eq!(find(&store, "c"), Some(Mark { token: None, contested: true, holder: None }));
}

#[test]
fn what_changes_nothing_is_not_synced() {
    let directory = tempfile::tempdir().unwrap();
    let (store, syncs) = counting(&options(directory.path()));
    raise(&store, "a", mark(5, false));
    let before = syncs.load(Ordering::SeqCst);
    assert_eq!(raise(&store, "a", mark(4, true)), mark(5, false));
    assert_eq!(raise(&store, "a", mark(5, false)), mark(5, false));
    assert_eq!(syncs.load(Ordering::SeqCst), before);
}

#[test]
fn a_clear_rides_in_the_next_commit() {
    let directory = tempfile::tempdir().unwrap();
    let (store, syncs) = counting(&options(directory.path()));
    raise(&store, "a", mark(5, true));
    let before = syncs.load(Ordering::SeqCst);
    store.clear(key("a"), Token::new(5));
    store.clear(key("b"), Token::new(5));
    assert_eq!(find(&store, "a"), Some(mark(5, true)), "not for itself");
    raise(&store, "c", mark(1, false));
    assert_eq!(syncs.load(Ordering::SeqCst) - before, 1);
    assert_eq!(find(&store, "a"), Some(mark(5, false)));
    assert_eq!(find(&store, "b"), None);
}

#[test]
fn a_clear_never_undoes_what_is_raised_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = start(&options(directory.path()));
    raise(&store, "a", mark(5, true));
    raise(&store, "b", mark(5, true));
    let go = busy(&store);
    store.clear(key("a"), Token::new(5));
    store.raise(key("a"), mark(6, true), Box::new(|_| ()));
    store.clear(key("b"), Token::new(5));
    store.raise(key("b"), mark(5, true), Box::new(|_| ()));
    drop(go);
    raise(&store, "c", mark(1, false));
    assert_eq!(find(&store, "a"), Some(mark(6, true)));
    assert_eq!(find(&store, "b"), Some(mark(5, true)));
}

#[test]
fn held_clears_are_written_at_the_close() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    raise(&store, "a", mark(5, true));
    store.clear(key("a"), Token::new(5));
    store.close(true).unwrap();
    let (store, _) = start(&options);
    assert_eq!(find(&store, "a"), Some(mark(5, false)));
}

#[test]
fn a_read_sees_every_raise_that_was_answered() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = start(&options(directory.path()));
    for token in 1..200 {
        raise(&store, "a", mark(token, false));
        assert_eq!(find(&store, "a"), Some(mark(token, false)));
    }
}

#[test]
fn a_list_is_in_key_order_within_its_prefix() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = start(&options(directory.path()));
    let named = |upstream, path: &[u8]| Key::new(UpstreamId(upstream), path).unwrap();
    let keys = [
        named(1, b""),
        named(1, b"a"),
        named(1, b"a\0"),
        named(1, b"a/b"),
        named(1, b"b"),
        named(1, &[0xff; Key::MAX]),
        named(2, b"a"),
        named(u32::MAX, &[0xff; Key::MAX]),
    ];
    for key in keys.iter().rev() {
        ask(|done| store.raise(key.clone(), mark(1, false), done)).unwrap();
    }
    let list = |prefix: &[u8], after: Option<usize>, limit| {
        let after = after.map(|index| keys[index].clone());
        let found = ask(|done| store.list(prefix.to_vec(), after, limit, done)).unwrap();
        let place = |key| keys.iter().position(|known| *known == key).unwrap();
        found.into_iter().map(|(key, _)| place(key)).collect::<Vec<_>>()
    };
    let first = 1_u32.to_be_bytes();
    assert_eq!(list(b"", None, 99), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(list(&first, None, 99), [0, 1, 2, 3, 4, 5]);
    assert_eq!(list(&first, Some(1), 2), [2, 3]);
    assert_eq!(list(&first, Some(5), 99), Vec::<usize>::new());
    assert_eq!(list(&[&first[..], b"a"].concat(), None, 99), [1, 2, 3]);
    assert_eq!(list(&[&first[..], b"a"].concat(), Some(0), 1), [1]);
    assert_eq!(list(&u32::MAX.to_be_bytes(), None, 99), [7]);
    assert_eq!(list(&first, None, 0), Vec::<usize>::new());
}

#[test]
fn a_close_answers_all_that_waits() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    let go = busy(&store);
    let (tell, told) = mpsc::channel();
    for n in 0..50 {
        let tell = tell.clone();
        let done: Done<Mark> = Box::new(move |result| tell.send(result.is_ok()).unwrap());
        store.raise(key(&format!("k{n}")), mark(1, false), done);
    }
    drop(tell);
    let closing = store.clone();
    let closing = std::thread::spawn(move || closing.close(true));
    drop(go);
    closing.join().unwrap().unwrap();
    assert_eq!(told.iter().collect::<Vec<_>>(), [true; 50]);
    let late = ask(|done| store.raise(key("late"), mark(1, false), done));
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    let late = ask(|done| store.find(key("late"), done));
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert!(matches!(store.close(true), Err(StoreError::Unavailable(_))));
    assert!(start(&options).1.clean);
}

#[test]
fn too_many_that_wait_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = start(&options(directory.path()));
    let go = busy(&store);
    let (tell, told) = mpsc::channel();
    let push = |limit: usize| {
        for _ in 0..limit {
            let tell = tell.clone();
            let done: Done<Mark> = Box::new(move |result| tell.send(result.is_ok()).unwrap());
            store.raise(key("a"), mark(1, false), done);
        }
    };
    push(16 * 1024);
    assert!(told.try_recv().is_err());
    push(1);
    assert!(!told.try_recv().unwrap(), "refused at once");
    drop(go);
    assert!(told.iter().take(16 * 1024).all(|ok| ok));
}

/// Commits some hundreds of pages until `enough`.
fn churn(store: &Store, pad: &str, enough: impl Fn() -> bool) {
    let (tell, told) = mpsc::channel();
    for round in 1..1000 {
        if enough() {
            return;
        }
        for n in 0..500 {
            let tell = tell.clone();
            let done: Done<Mark> = Box::new(move |result| tell.send(result.is_ok()).unwrap());
            store.raise(key(&format!("{n:03}{pad}")), mark(round, false), done);
        }
        assert!(told.iter().take(500).all(|ok| ok));
    }
    panic!("never");
}

/// A file that grows makes every sync write the file system's journal, too.
#[test]
fn the_log_has_room_before_the_first_commit_and_is_begun_anew_in_place() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    raise(&store, "a", mark(1, false));
    let log = options.path.join("marks.db-wal");
    let length = || std::fs::metadata(&log).unwrap().len();
    let room = length();
    assert!(room >= 5 << 20, "{room}");
    assert!(std::fs::metadata(&log).unwrap().blocks() * 512 >= room, "written, not only reserved");
    raise(&store, "a", mark(2, false));
    assert_eq!(length(), room);
    // Its number and its salts.
    let generation = || std::fs::read(&log).unwrap()[12..24].to_vec();
    let pad = "x".repeat(900);
    for _ in 0..3 {
        let before = generation();
        churn(&store, &pad, || {
            assert!(length() >= room, "it was cut");
            generation() != before
        });
    }
    assert!(length() < 32 << 20, "{}", length());
}

#[test]
fn the_log_is_written_back_and_emptied_beside_the_commits() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    let pages = |name: &str| std::fs::metadata(options.path.join(name)).unwrap().len() / 4096;
    let pad = "x".repeat(900);
    churn(&store, &pad, || pages("marks.db") > 100);
    assert!(pages("marks.db-wal") < 16 * 1024, "long before it is long");
    // A reader that stays keeps the log from being begun again.
    let reader = rusqlite::Connection::open(options.path.join("marks.db")).unwrap();
    let pin = || reader.execute_batch("BEGIN; SELECT count(*) FROM mark").unwrap();
    pin();
    churn(&store, &pad, || pages("marks.db-wal") > 17 * 1024);
    reader.execute_batch("COMMIT").unwrap();
    churn(&store, &pad, || pages("marks.db-wal") < 16 * 1024);
    store.close(true).unwrap();
    assert!(pages("marks.db-wal") < 10, "emptied at the close, but for the clean mark");
    let (store, _) = start(&options);
    assert!(find(&store, &format!("499{pad}")).is_some());
}
