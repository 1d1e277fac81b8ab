use std::{os::unix::fs::symlink, process::Command};

use super::*;

#[test]
fn one_process_holds_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path()).unwrap();
    let error = FileStore::open(directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }));
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    assert!(text.contains(&directory.path().display().to_string()), "{text}");
    let clone = store.clone();
    drop(store);
    assert!(FileStore::open(directory.path()).is_err(), "a clone still holds it");
    drop(clone);
    FileStore::open(directory.path()).unwrap();
}

#[test]
fn a_missing_directory_is_made_and_known_however_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/c");
    let store = FileStore::open(&path).unwrap();
    let identity = store.identity();
    drop(store);
    symlink(directory.path().join("a"), directory.path().join("link")).unwrap();
    for other in ["link/b/c", "a/../a/b/c"] {
        let other = FileStore::open(&directory.path().join(other)).unwrap();
        assert_eq!(other.identity(), identity);
    }
    let elsewhere = FileStore::open(&directory.path().join("a/b/d")).unwrap();
    assert_ne!(elsewhere.identity(), identity);
}

#[test]
fn what_cannot_be_served_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(FileStore::open(&file), Err(OpenError::NotADirectory { .. })));
    assert!(matches!(FileStore::open(&file.join("below")), Err(OpenError::Make { .. })));
    let root = directory.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::create_dir(directory.path().join("elsewhere")).unwrap();
    symlink("../elsewhere", root.join(".palisade")).unwrap();
    assert!(matches!(FileStore::open(&root), Err(OpenError::Io { .. })));
    assert_eq!(fs::read_dir(directory.path().join("elsewhere")).unwrap().count(), 0);
}

#[test]
fn what_an_earlier_process_left_is_cleared() {
    let directory = tempfile::tempdir().unwrap();
    drop(FileStore::open(directory.path()).unwrap());
    let hidden = directory.path().join(".palisade");
    fs::write(hidden.join("tmp-0"), "half").unwrap();
    fs::write(hidden.join("tmp-77"), "half").unwrap();
    fs::write(hidden.join("notes"), "mine").unwrap();
    let store = FileStore::open(directory.path()).unwrap();
    let mut left: Vec<_> = fs::read_dir(&hidden).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["floor", "lock", "notes"]);
    drop(store);
}

/// A tiny file system of its own, unmounted at the end.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(directory.path())
            .output()
            .map_err(|e| e.to_string())?;
        if mount.status.success() {
            Ok(Self(directory))
        } else {
            Err(String::from_utf8_lossy(&mount.stderr).into_owned())
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_507_and_leaves_the_old_version() {
    let mount = match Mount::new() {
        Ok(mount) => mount,
        Err(reason) => return println!("SKIP a full disk: cannot mount a tmpfs: {reason}"),
    };
    let store = FileStore::open(mount.0.path()).unwrap();
    let bench = Bench { directory: tempfile::tempdir().unwrap(), store };
    let put = |body: String| {
        let body = Full::new(Bytes::from(body));
        bench.store.write(head(Method::PUT, &[]), b"f".to_vec(), body).done
    };
    assert_eq!(answered(put("old".into()).await.unwrap()).status, StatusCode::CREATED);
    let full = answered(put("x".repeat(4 << 20)).await.unwrap());
    assert_eq!(full.status, StatusCode::INSUFFICIENT_STORAGE);
    assert_eq!(bench.get("f").await.body, "old");
    // Its space is free again.
    let again = answered(put("y".repeat(400 << 10)).await.unwrap());
    assert_eq!(again.status, StatusCode::NO_CONTENT);
}
