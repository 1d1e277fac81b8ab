use std::os::unix::fs::symlink;

use super::*;

#[tokio::test]
async fn no_symlink_is_followed_or_replaced() {
    let outer = tempfile::tempdir().unwrap();
    let outside = outer.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    let bench = Bench::new();
    let root = bench.root();
    bench.put("dir/file", "inside").await;
    for (link, target) in [
        ("to-file", outside.join("secret")),
        ("to-dir", outside.clone()),
        ("to-root", "/".into()),
        ("up", "..".into()),
        ("dangling", outside.join("none")),
        ("inside", "dir/file".into()),
        ("inside-dir", "dir".into()),
        ("dir/deep", "../dir/file".into()),
        ("loop", "loop".into()),
        ("proc", "/proc/self/root".into()),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    for path in [
        "to-file",
        "to-dir",
        "to-dir/secret",
        "to-dir/new",
        "to-dir/new/new",
        "to-root/etc/passwd",
        "up",
        "up/new",
        "dangling",
        "dangling/new",
        "inside",
        "inside-dir/file",
        "inside-dir/new",
        "dir/deep",
        "loop",
        "loop/new",
        "proc/etc/passwd",
    ] {
        let link = root.join(path.split_once("/new").map_or(path, |(link, _)| link));
        let before = fs::read_link(&link).ok();
        for answer in
            [bench.get(path).await, bench.put(path, "escaped").await, bench.delete(path).await]
        {
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
        }
        assert_eq!(fs::read_link(&link).ok(), before, "{path}");
    }
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(bench.content("dir/file").as_deref(), Some("inside"));
    assert_eq!(fs::read_dir(root.join("dir")).unwrap().count(), 2);
}

#[tokio::test]
async fn a_hard_link_is_replaced_and_what_it_shared_stays() {
    let outer = tempfile::tempdir().unwrap();
    let outside = outer.path().join("outside");
    fs::write(&outside, "outside").unwrap();
    let bench = Bench::new();
    fs::hard_link(&outside, bench.root().join("f")).unwrap();
    assert_eq!(bench.put("f", "inside").await.status, StatusCode::NO_CONTENT);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "outside");
}
