//! Pages over the records: complete, in order, each key once, whatever is written meanwhile.

use tokio::sync::oneshot;

use super::*;
use crate::{
    fence::Mark,
    gate::ListError,
    store::{self, Create, Store, TokenStore, UpstreamFacts},
};

fn named(name: &str, id: u32) -> RealmOptions {
    RealmOptions { name: name.into(), id: UpstreamId(id), ..realm(LIFETIME) }
}

fn gate(realms: Vec<RealmOptions>, store: &MemoryStore) -> Gate {
    Gate::new(1 << 20, realms, Arc::new(store.clone()), Metrics::new(&[]))
}

fn put(store: &dyn TokenStore, id: u32, path: &[u8], token: u64) {
    let key = Key::new(UpstreamId(id), path).unwrap();
    let mark = Mark { token: Some(Token::new(token)), ..Mark::default() };
    store.raise(key, mark, Box::new(|record| assert!(record.is_ok())));
}

/// All that a listing gives, page by page, as an operator writes it.
async fn all(gate: &Gate, prefix: &str, limit: usize) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = gate.list(prefix.as_bytes(), after.as_ref(), limit).await.unwrap();
        assert!(page.records.len() <= limit);
        found.extend(page.records.iter().map(|(key, _)| gate.display(key)));
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

#[tokio::test]
async fn a_prefix_reaches_over_upstreams() {
    let store = MemoryStore::new();
    // By their numbers, not by their names; number 5 is no longer in the configuration.
    let gate = gate(vec![named("files", 9), named("blobs", 2), named("filesystem", 4)], &store);
    for id in [2, 4, 5, 9] {
        for path in ["a", "a/b", "b"] {
            put(&store, id, path.as_bytes(), 1);
        }
    }
    for (prefix, expected) in [
        ("files:", &["files:a", "files:a/b", "files:b"][..]),
        ("files:a/", &["files:a/b"]),
        ("files:c", &[]),
        ("filesy", &["filesystem:a", "filesystem:a/b", "filesystem:b"]),
        (
            "files",
            &["filesystem:a", "filesystem:a/b", "filesystem:b", "files:a", "files:a/b", "files:b"],
        ),
    ] {
        for limit in [1, 2, 3, 100] {
            assert_eq!(all(&gate, prefix, limit).await, expected, "{prefix} {limit}");
        }
    }
    assert_eq!(all(&gate, "", 4).await.len(), 9);
    for prefix in ["file:", "other", "files2:a", ":", "blobs;"] {
        let page = gate.list(prefix.as_bytes(), None, 10).await;
        assert!(matches!(page, Err(ListError::UnknownUpstream)), "{prefix}");
    }
}

#[tokio::test]
async fn a_page_that_ends_with_the_last_key_has_no_next() {
    let store = MemoryStore::new();
    let gate = gate(vec![named("files", 1)], &store);
    for path in ["a", "b"] {
        put(&store, 1, path.as_bytes(), 1);
    }
    assert!(gate.list(b"", None, 2).await.unwrap().next.is_none());
    assert_eq!(gate.list(b"", None, 1).await.unwrap().next, gate.key(0, b"a"));
    // A key with bytes that no text has.
    put(&store, 1, b"\xff\xff", 1);
    let page = gate.list(b"files:\xff", None, 10).await.unwrap();
    assert_eq!(page.records.len(), 1);
}

#[tokio::test]
async fn a_store_that_cannot_be_read_gives_no_page() {
    let store = MemoryStore::new();
    let gate = gate(vec![named("files", 1)], &store);
    store.fail_reads(true);
    assert!(matches!(gate.list(b"", None, 2).await, Err(ListError::Store(_))));
}

/// A store on disk with so many keys, `k/0000` and on.
async fn real(directory: &std::path::Path, keys: usize) -> (Store, u32) {
    let facts = UpstreamFacts {
        name: "files".into(),
        address: "dir:1:1".into(),
        lifetime: LIFETIME,
        unfenced: false,
        keying: Vec::new(),
    };
    let options = store::Options {
        path: directory.join("fences"),
        create: Create::IfMissing,
        page_cache: 1 << 20,
        fresh: false,
        rekey: Vec::new(),
        upstreams: vec![facts],
    };
    let opened = store::open(&options, |_, _| false, None).unwrap();
    let id = opened.boot.upstreams[0].id.0;
    for number in 0..keys {
        put(&opened.store, id, format!("k/{number:04}").as_bytes(), 1);
    }
    // A commit that follows them all.
    let (tell, told) = oneshot::channel();
    let last = Key::new(UpstreamId(id), b"z").unwrap();
    let mark = Mark { token: Some(Token::new(1)), ..Mark::default() };
    opened.store.raise(last, mark, Box::new(move |record| drop(tell.send(record))));
    told.await.unwrap().unwrap();
    (opened.store, id)
}

#[tokio::test]
async fn twenty_five_hundred_keys_are_each_listed_once_while_others_are_made() {
    let directory = tempfile::tempdir().unwrap();
    let (store, id) = real(directory.path(), 2500).await;
    let gate =
        Gate::new(1 << 20, vec![named("files", id)], Arc::new(store.clone()), Metrics::new(&[]));
    let expected: Vec<String> = (0..2500).map(|number| format!("files:k/{number:04}")).collect();
    assert_eq!(all(&gate, "files:k/", 1000).await, expected);
    assert_eq!(all(&gate, "files:k/1", 7).await, expected[1000..2000]);

    // The cursor is a place in the order: what is made before it is not seen, what comes after is.
    let first = gate.list(b"files:k/", None, 1000).await.unwrap();
    let next = first.next.clone().unwrap();
    assert_eq!(gate.display(&next), "files:k/0999");
    for path in [&b"k/0000a"[..], b"k/0999a", b"k/9"] {
        put(&store, id, path, 3);
    }
    put(&store, id, b"k/2000", 8);
    put(&store, id, b"y", 3);
    let (tell, told) = oneshot::channel();
    let mark = Mark { token: Some(Token::new(2)), ..Mark::default() };
    store.raise(
        gate.key(0, b"z").unwrap(),
        mark,
        Box::new(move |record| {
            drop(tell.send(record));
        }),
    );
    told.await.unwrap().unwrap();
    let second = gate.list(b"files:k/", Some(&next), 1000).await.unwrap();
    let words: Vec<_> = second.records.iter().map(|(key, _)| gate.display(key)).collect();
    assert_eq!(words[0], "files:k/0999a");
    assert_eq!(words[1..], expected[1000..1999]);
    let third = gate.list(b"files:k/", second.next.as_ref(), 1000).await.unwrap();
    let (raised, mark) = &third.records[1];
    assert_eq!(gate.display(raised), "files:k/2000");
    assert_eq!(mark.token, Some(Token::new(8)));
    assert_eq!((third.records.len(), third.next.is_none()), (502, true));
    assert_eq!(third.records.last().unwrap().0, gate.key(0, b"k/9").unwrap());
    drop(gate);
    store.close(false).unwrap();
}
