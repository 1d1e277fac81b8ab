use std::collections::HashSet;

use super::{
    super::{conditions::Conditions, path::RelPath, publish, stage::Staged, write::PIECE},
    *,
};

#[tokio::test]
async fn a_life() {
    let bench = Bench::new();
    let created = bench.put("a/b/c", "one").await;
    assert_eq!(created.status, StatusCode::CREATED);
    assert_eq!(bench.content("a/b/c").as_deref(), Some("one"));
    let replaced = bench.put("a/b/c", "two").await;
    assert_eq!(replaced.status, StatusCode::NO_CONTENT);
    assert_eq!(bench.content("a/b/c").as_deref(), Some("two"));
    assert_ne!(created.etag(), replaced.etag());
    assert_eq!(bench.get("a/b/c").await.etag(), replaced.etag());
    assert_eq!(bench.delete("a/b/c").await.status, StatusCode::NO_CONTENT);
    assert_eq!(bench.delete("a/b/c").await.status, StatusCode::NOT_FOUND);
    assert_eq!(bench.get("a/b/c").await.status, StatusCode::NOT_FOUND);
    assert!(bench.root().join("a/b").is_dir());
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_and_changes_nothing() {
    let bench = Bench::new();
    fs::create_dir(bench.root().join("dir")).unwrap();
    fs::write(bench.root().join("file"), "old").unwrap();
    let (name, path) = ("n".repeat(256), "p/".repeat(2048) + "p");
    for (path, put, delete) in [
        ("", 409, 409),
        ("dir", 409, 409),
        ("file/below", 409, 404),
        ("file/far/below", 409, 404),
        (".palisade", 403, 403),
        (".palisade/tmp-0", 403, 403),
        (".Palisade/x", 403, 403),
        ("../x", 400, 400),
        ("dir/../x", 400, 400),
        ("dir/", 400, 400),
        ("/x", 400, 400),
        ("x\0", 400, 400),
        (&name, 414, 414),
        (&path, 414, 414),
        ("none/none", 0, 404),
    ] {
        if put != 0 {
            assert_eq!(bench.put(path, "new").await.status.as_u16(), put, "{path:?}");
        }
        assert_eq!(bench.delete(path).await.status.as_u16(), delete, "{path:?}");
    }
    for fields in [("content-range", "bytes 0-2/9"), ("if-match", "x"), ("if-none-match", "x")] {
        let answer = bench.write(Method::PUT, "file", &[fields], "new").await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{fields:?}");
    }
    assert_eq!(bench.content("file").as_deref(), Some("old"));
    assert_eq!(fs::read_dir(bench.root()).unwrap().count(), 3);
}

#[tokio::test]
async fn bodies_of_every_size_arrive_whole() {
    let bench = Bench::new();
    for (size, frame) in [
        (1, 1),
        (PIECE - 1, PIECE),
        (PIECE, PIECE),
        (PIECE + 1, PIECE),
        (PIECE * 3 + 5, PIECE * 4),
        (PIECE * 2 + 9, 1000),
        (PIECE * 2, PIECE / 2),
    ] {
        let data: Bytes = (0..size).map(|i| (i % 253) as u8).collect();
        let length = size.to_string();
        let (write, body) = bench.fed("f", &[("content-length", &length)]);
        for chunk in data.chunks(frame) {
            body.send(Ok(data.slice_ref(chunk))).await.unwrap();
        }
        drop(body);
        assert!(answered(write.done.await.unwrap()).status.is_success());
        assert_eq!(fs::read(bench.root().join("f")).unwrap(), data, "{size} by {frame}");
    }
}

#[tokio::test]
async fn conditions_are_judged() {
    let bench = Bench::new();
    let put = async |name, value: &str| bench.write(Method::PUT, "f", &[(name, value)], "x").await;
    let delete = async |name, value: &str| {
        bench.write(Method::DELETE, "f", &[(name, value)], "").await.status.as_u16()
    };
    assert_eq!(put("if-match", "*").await.status.as_u16(), 412);
    // RFC 9110, 13.2.1: without its condition it would be 404, so the condition does not count.
    assert_eq!(delete("if-match", "*").await, 404);
    let first = put("if-none-match", "*").await;
    assert_eq!(first.status.as_u16(), 201);
    assert_eq!(put("if-none-match", "*").await.status.as_u16(), 412);
    let second = put("if-match", first.etag()).await;
    assert_eq!(second.status.as_u16(), 204);
    assert_eq!(put("if-match", first.etag()).await.status.as_u16(), 412);
    assert_eq!(delete("if-match", first.etag()).await, 412);
    assert_eq!(delete("if-none-match", second.etag()).await, 412);
    let long_ago = "Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(put("if-unmodified-since", long_ago).await.status.as_u16(), 412);
    assert_eq!(delete("if-unmodified-since", long_ago).await, 412);
    assert_eq!(bench.get("f").await.etag(), second.etag());
    assert_eq!(delete("if-match", second.etag()).await, 204);
}

#[tokio::test]
async fn of_many_conditional_writes_exactly_one_wins() {
    let bench = Bench::new();
    let mut condition = ("if-none-match", "*".to_owned());
    for expected in [201, 204, 204] {
        let fields = [(condition.0, &condition.1[..])];
        // All bodies are under way before the first one ends.
        let (writes, bodies): (Vec<_>, Vec<_>) = (0..16).map(|_| bench.fed("f", &fields)).unzip();
        for (i, body) in bodies.into_iter().enumerate() {
            body.send(Ok(format!("writer {i}").into())).await.unwrap();
        }
        let mut winners = Vec::new();
        for (i, write) in writes.into_iter().enumerate() {
            let answer = answered(write.done.await.unwrap());
            match answer.status.as_u16() {
                412 => {}
                status => winners.push((i, status, answer.etag().to_owned())),
            }
        }
        let [(winner, status, etag)] = &winners[..] else { panic!("winners: {winners:?}") };
        assert_eq!(*status, expected);
        assert_eq!(bench.content("f"), Some(format!("writer {winner}")));
        assert_eq!(bench.get("f").await.etag(), etag);
        condition = ("if-match", etag.clone());
    }
    assert_eq!(bench.staged(), 0);
}

#[tokio::test]
async fn no_two_writes_share_a_tag() {
    let bench = Bench::new();
    let mut seen = HashSet::new();
    for round in 0..120 {
        let answer = bench.put("f", "same").await;
        assert!(seen.insert(answer.etag().to_owned()), "round {round}: {}", answer.etag());
        if round % 3 == 0 {
            bench.delete("f").await;
        }
    }
}

#[tokio::test]
async fn a_write_that_was_overtaken_still_gets_the_higher_stamp() {
    let bench = Bench::new();
    let mut early = Staged::create(Arc::clone(&bench.store.inner)).unwrap();
    early.append(b"early").unwrap();
    early.finish(None).unwrap();
    bench.put("f", "overtook").await;
    let modified = || fs::metadata(bench.root().join("f")).unwrap().modified().unwrap();
    let before = modified();
    let path = RelPath::parse(b"f").unwrap();
    let conditions = Conditions::of(&HeaderMap::new());
    publish::put(&bench.store.inner, &path, &conditions, early).unwrap();
    assert_eq!(bench.content("f").as_deref(), Some("early"));
    assert!(modified() > before);
}

#[tokio::test]
async fn a_tag_is_not_given_again_after_a_restart_with_the_clock_set_back() {
    let mut bench = Bench::new();
    let path = bench.root().join("f");
    // Ahead of every clock, as after the clock was set back.
    let ahead = std::time::UNIX_EPOCH + std::time::Duration::from_secs(7_000_000_000);
    fs::write(&path, "x").unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(ahead).unwrap();
    bench.put("f", "x").await;
    let replaced = fs::metadata(&path).unwrap().modified().unwrap();
    assert!(replaced > ahead);
    bench.delete("f").await;
    let Bench { directory, store } = bench;
    drop(store);
    bench = Bench { store: FileStore::open(directory.path()).unwrap(), directory };
    bench.put("f", "x").await;
    assert!(fs::metadata(&path).unwrap().modified().unwrap() > replaced);
}
