use std::fs;

use super::{check::tests::CONFIG, *};

fn ran(arguments: &[&str]) -> (Exit, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = std::iter::once("palisade").chain(arguments.iter().copied());
    let exit = run_with(arguments.map(OsString::from), &mut out, &mut err);
    (exit, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// A file with all kinds of routes, and the directory that keeps it.
fn file(more: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    fs::write(&path, format!("{CONFIG}{more}")).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

#[test]
fn check_prints_json() {
    let (_dir, path) = file("");
    let (exit, out, _) = ran(&["check", "--json", "--config", &path]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(exit, Exit::Done);
    assert_eq!(json["routes"][1]["key"], "{bucket}");
    assert_eq!(json["routes"][1]["worst_wait_ms"], 100_000);
    assert_eq!(json["routes"][2]["worst_wait_bounded"], false);
    assert_eq!(json["warnings"][1]["line"], 23);

    let (_dir, path) = file("tokn = 1\n");
    let (exit, out, err) = ran(&["check", "--json", "--config", &path]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((exit, err.as_str()), (Exit::Failed, ""));
    assert_eq!(json["errors"][0]["key"], "[[routes]] tokn");
}

#[test]
fn a_bad_file_ends_every_command_with_1() {
    let (_dir, path) = file("tokn = 1\n");
    let message =
        format!("{path}:30: [[routes]] tokn: unknown key; the nearest known one is \"token\"\n");
    let (exit, out, err) = ran(&["check", "--config", &path]);
    assert_eq!((exit, out.as_str(), err), (Exit::Failed, "", message.clone() + "1 error\n"));
    let (exit, out, err) = ran(&["serve", "--config", &path]);
    assert_eq!((exit, out.as_str(), err), (Exit::Failed, "", message));
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let (_dir, path) = file("");
    for arguments in [
        &[][..],
        &["sreve"],
        &["check", "--fresh"],
        &["check", "more"],
        &["serve", "--config"],
        &["serve", "--fresh", "--rekey", "files"],
        &["serve", "--config", &path, "--rekey", "flies"],
    ] {
        let (exit, out, err) = ran(arguments);
        assert_eq!((exit, out.as_str()), (Exit::Usage, ""), "{arguments:?}");
        assert!(!err.is_empty());
    }
}

#[test]
fn help_and_version_are_done() {
    for arguments in [&["--help"][..], &["--version"], &["serve", "--help"], &["help", "check"]] {
        let (exit, out, err) = ran(arguments);
        assert_eq!((exit, err.as_str()), (Exit::Done, ""), "{arguments:?}");
        assert!(!out.is_empty());
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    let (_dir, path) = file("");
    let arguments = ["palisade", "check", "--config", &path].map(OsString::from);
    let mut err = Vec::new();
    assert_eq!(run_with(arguments, &mut Closed, &mut err), Exit::Done);
    assert!(err.is_empty());
}
