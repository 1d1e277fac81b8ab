//! R2: the first failed write or sync is the last.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{commit::busy, *};

#[test]
fn a_write_that_the_system_refuses_poisons() {
    let directory = tempfile::tempdir().unwrap();
    let child =
        child("store::tests::poison::child_on_a_full_disk", directory.path(), "trap '' XFSZ;");
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{said}\n{}", String::from_utf8_lossy(&child.stderr));
    let acknowledged: usize = said
        .lines()
        .find_map(|line| line.split("acknowledged ").nth(1))
        .unwrap_or_else(|| panic!("{said}"))
        .parse()
        .unwrap();
    assert!(acknowledged > 0);
    let (store, boot) = start(&options(directory.path()));
    assert!(!boot.clean, "no clean mark");
    for n in 0..acknowledged {
        assert_eq!(find(&store, &long(n)), Some(mark(1, false)), "{n}");
    }
}

#[test]
fn no_room_for_the_log_poisons_before_a_raise_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    // Some hundred KiB a file: enough for a start.
    let limit = "trap '' XFSZ; ulimit -f 400;";
    let child = child("store::tests::poison::child_without_room", directory.path(), limit);
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let (store, boot) = start(&options(directory.path()));
    assert!(!boot.clean);
    assert_eq!(find(&store, "a"), None);
}

#[test]
#[ignore = "run in a process of its own by another test"]
fn child_without_room() {
    let Some(directory) = parents_directory() else { return };
    let (store, _) = start(&options(&directory));
    let raise = ask(|done| store.raise(key("a"), mark(1, false), done));
    assert!(matches!(&raise, Err(StoreError::Poisoned(why)) if why.contains("room for the log")));
    assert!(matches!(store.close(true), Err(StoreError::Poisoned(_))));
}

fn long(n: usize) -> String {
    format!("{n}-{}", "x".repeat(900))
}

#[test]
#[ignore = "run in a process of its own by another test"]
fn child_on_a_full_disk() {
    let Some(directory) = parents_directory() else { return };
    let (store, _) = start(&options(&directory));
    raise(&store, "a", mark(1, false));
    // Nothing is written beyond some hundred KiB of a file: a full disk as the store sees it.
    let all = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(200 << 10), ..all }).unwrap();
    let (tell, told) = mpsc::channel();
    let hook = tell.clone();
    store.on_poison(Box::new(move |reason| hook.send(reason).unwrap()));
    let mut acknowledged = 0;
    let error = loop {
        match ask(|done| store.raise(key(&long(acknowledged)), mark(1, false), done)) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    println!("\nacknowledged {acknowledged}");
    assert!(matches!(error, StoreError::Poisoned(_)), "{error}");
    assert!(store.poisoned());
    assert!(!told.recv().unwrap().is_empty());
    store.on_poison(Box::new(move |reason| tell.send(reason).unwrap()));
    assert!(!told.recv().unwrap().is_empty(), "at once where it has happened");
    // Not even what would fit is written any more; reads go on.
    let poisoned = |result| matches!(result, Err(StoreError::Poisoned(_)));
    assert!(poisoned(ask(|done| store.raise(key("a"), mark(1, false), done)).map(drop)));
    assert!(poisoned(ask(|done| store.reset(key("a"), done))));
    assert!(poisoned(ask(|done| store.release(key("a"), None, done))));
    assert!(poisoned(ask(|done| store.set_unfenced(UpstreamId(1), true, done))));
    assert_eq!(find(&store, &long(0)), Some(mark(1, false)));
    assert_eq!(find(&store, &long(acknowledged)), None);
    assert!(poisoned(store.close(true)));
}

#[test]
fn a_panic_on_the_commit_thread_poisons_and_answers_all() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    let go = busy(&store);
    let (tell, told) = mpsc::channel();
    let (there, arrived) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let push = |count: usize| {
        for _ in 0..count {
            let tell = tell.clone();
            let done: Done<Mark> = Box::new(move |result| tell.send(result).unwrap());
            store.raise(key("a"), mark(1, false), done);
        }
    };
    let panics: Done<Mark> = Box::new(move |_| {
        there.send(()).unwrap();
        let _ = wait.recv();
        panic!("a panic that the test wants");
    });
    store.raise(key("panic"), mark(1, false), panics);
    push(50);
    drop(go);
    arrived.recv().unwrap();
    push(50);
    drop(go_on);
    // The first were committed with it, yet whoever was not told of it must not count on it. The
    // others still waited.
    let answers: Vec<_> = told.iter().take(100).collect();
    assert!(answers.iter().all(|answer| matches!(answer, Err(StoreError::Poisoned(_)))));
    push(1);
    assert!(matches!(told.recv().unwrap(), Err(StoreError::Poisoned(_))));
    assert!(store.poisoned());
    assert_eq!(find(&store, "busy"), Some(mark(1, false)));
    assert!(matches!(store.close(true), Err(StoreError::Poisoned(_))));
    assert!(!start(&options).1.clean);
}

#[test]
fn a_panic_on_a_reading_thread_poisons_and_reads_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = start(&options(directory.path()));
    let (tell, told) = mpsc::channel();
    store.on_poison(Box::new(move |reason| tell.send(reason).unwrap()));
    for _ in 0..4 {
        store.find(key("a"), Box::new(|_| panic!("a panic that the test wants")));
    }
    assert!(told.recv().unwrap().contains("panicked"));
    assert_eq!(find(&store, "a"), None);
    let raise = ask(|done| store.raise(key("a"), mark(1, false), done));
    assert!(matches!(raise, Err(StoreError::Poisoned(_))), "{raise:?}");
}

#[test]
fn a_record_that_cannot_be_one_is_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (store, _) = start(&options);
    raise(&store, "a", mark(1, false));
    raise(&store, "b", mark(1, false));
    let db = rusqlite::Connection::open(options.path.join("marks.db")).unwrap();
    let holder = "UPDATE mark SET holder = 'not a holder' WHERE key = ?1";
    db.execute(holder, (key("a").as_bytes(),)).unwrap();
    let found = ask(|done| store.find(key("a"), done));
    assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}");
    assert_eq!(find(&store, "b"), Some(mark(1, false)));
    let raised = ask(|done| store.raise(key("a"), mark(2, false), done));
    assert!(matches!(raised, Err(StoreError::Poisoned(_))), "{raised:?}");
}
