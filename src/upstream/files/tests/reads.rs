use std::time::Duration;

use http_body::Body as _;

use super::{super::body::CHUNK, *};

#[tokio::test]
async fn get_and_head_tell_the_same() {
    let bench = Bench::new();
    let etag = bench.put("a/b", "0123456789").await.etag().to_owned();
    let get = bench.get("a/b").await;
    assert_eq!((get.status, &get.body[..]), (StatusCode::OK, &b"0123456789"[..]));
    assert_eq!(get.etag(), etag);
    assert_eq!(get.field(header::CONTENT_LENGTH), "10");
    assert_eq!(get.field(header::ACCEPT_RANGES), "bytes");
    assert_eq!(get.field(header::CONTENT_TYPE), "application/octet-stream");
    let modified = fs::metadata(bench.root().join("a/b")).unwrap().modified().unwrap();
    assert_eq!(get.field(header::LAST_MODIFIED), httpdate::fmt_http_date(modified));
    let head = bench.read(Method::HEAD, "a/b", &[("range", "bytes=0-1")]).await;
    assert_eq!((head.status, head.headers), (get.status, get.headers));
    assert!(head.body.is_empty());
    let missing = bench.get("none").await;
    let head = bench.read(Method::HEAD, "none", &[]).await;
    assert_eq!((head.status, head.body.len()), (StatusCode::NOT_FOUND, 0));
    assert_eq!(head.field(header::CONTENT_LENGTH), missing.body.len().to_string());
}

#[tokio::test]
async fn ranges_and_conditions() {
    let bench = Bench::new();
    let tag = bench.put("f", "0123456789").await.etag().to_owned();
    let table: &[(Fields<'_>, u16, &str, &str)] = &[
        (&[("range", "bytes=2-4")], 206, "234", "bytes 2-4/10"),
        (&[("range", "bytes=-4")], 206, "6789", "bytes 6-9/10"),
        (&[("range", "bytes=8-99")], 206, "89", "bytes 8-9/10"),
        (&[("range", "bytes=10-")], 416, "", "bytes */10"),
        (&[("range", "bytes=0-1,3-4")], 200, "0123456789", ""),
        (&[("range", "bytes=2-4"), ("if-range", &tag)], 206, "234", "bytes 2-4/10"),
        (&[("range", "bytes=2-4"), ("if-range", "\"x\"")], 200, "0123456789", ""),
        (&[("range", "bytes=99-"), ("if-range", "\"x\"")], 200, "0123456789", ""),
        (&[("range", "bytes=2-4"), ("if-none-match", &tag)], 304, "", ""),
        (&[("if-none-match", &tag)], 304, "", ""),
        (&[("if-match", "\"x\""), ("range", "bytes=99-")], 412, "*", ""),
    ];
    for (fields, status, body, range) in table {
        let answer = bench.read(Method::GET, "f", fields).await;
        assert_eq!(answer.status.as_u16(), *status, "{fields:?}");
        assert!(*body == "*" || answer.body == body.as_bytes(), "{fields:?}");
        assert_eq!(answer.field(header::CONTENT_RANGE), *range, "{fields:?}");
        if *status != 412 {
            assert_eq!(answer.etag(), tag, "{fields:?}");
        }
    }
    let head = bench.read(Method::HEAD, "f", &[("if-none-match", &tag)]).await;
    assert_eq!(head.status, StatusCode::NOT_MODIFIED);
    assert!(!head.headers.contains_key(header::CONTENT_LENGTH));
}

#[tokio::test]
async fn a_large_file_streams_exactly() {
    let bench = Bench::new();
    let size = usize::try_from(CHUNK * 3 + 7).unwrap();
    let data: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
    fs::write(bench.root().join("large"), &data).unwrap();
    let mut body = bench.store.read(&head(Method::GET, &[]), b"large").await.into_body();
    let mut got = Vec::new();
    while !body.is_end_stream() {
        assert_eq!(body.size_hint().exact(), Some((size - got.len()) as u64));
        got.extend(body.frame().await.unwrap().unwrap().into_data().unwrap());
    }
    assert!(body.frame().await.is_none());
    assert_eq!(got, data);
    let part = bench.read(Method::GET, "large", &[("range", "bytes=5-300000")]).await;
    assert_eq!(part.body, data[5..=300_000]);
    let empty = bench.put("empty", "").await;
    assert_eq!(empty.status, StatusCode::CREATED);
    assert_eq!(bench.get("empty").await.field(header::CONTENT_LENGTH), "0");
}

#[tokio::test]
async fn a_file_cut_short_by_hand_is_an_error_and_no_end() {
    let bench = Bench::new();
    let path = bench.root().join("large");
    fs::write(&path, vec![0; usize::try_from(CHUNK * 4).unwrap()]).unwrap();
    let response = bench.store.read(&head(Method::GET, &[]), b"large").await;
    File::options().write(true).open(&path).unwrap().set_len(CHUNK + 1).unwrap();
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test]
async fn only_regular_files_are_served() {
    let bench = Bench::new();
    fs::create_dir(bench.root().join("dir")).unwrap();
    fs::write(bench.root().join("file"), "x").unwrap();
    let fifo = bench.root().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(bench.root().join("socket")).unwrap();
    let long = "n".repeat(256);
    for (path, status) in [
        ("", 404),
        ("dir", 404),
        ("none", 404),
        ("none/none", 404),
        ("file/below", 404),
        ("fifo", 403),
        ("socket", 403),
        (".palisade", 404),
        (".palisade/lock", 404),
        (".PALISADE/lock", 404),
        ("../x", 400),
        ("dir/../file", 400),
        ("dir//x", 400),
        ("/etc/passwd", 400),
        ("a\0b", 400),
        (&long, 414),
    ] {
        for method in [Method::GET, Method::HEAD] {
            // A FIFO without a writer holds a naive reader for ever.
            let read = bench.read(method, path, &[]);
            let answer = tokio::time::timeout(Duration::from_secs(20), read).await.unwrap();
            assert_eq!(answer.status.as_u16(), status, "{path:?}");
        }
    }
    for path in ["fifo", "socket"] {
        assert_eq!(bench.put(path, "x").await.status, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(bench.delete(path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn options_and_unknown_methods() {
    let bench = Bench::new();
    let all = "GET, HEAD, PUT, DELETE, OPTIONS";
    let options = bench.read(Method::OPTIONS, "any", &[]).await;
    assert_eq!((options.status, options.field(header::ALLOW)), (StatusCode::NO_CONTENT, all));
    for method in ["POST", "PATCH", "MKCOL", "put"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let read = bench.read(method.clone(), "any", &[]).await;
        let write = bench.write(method, "any", &[], "x").await;
        for answer in [read, write] {
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(answer.field(header::ALLOW), all);
        }
    }
}
