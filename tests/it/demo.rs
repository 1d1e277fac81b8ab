//! `palisade demo` and `palisade explain`: what they say is so, and they leave nothing behind.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{palisade::binary, until};

#[test]
fn in_a_pipe_it_is_plain_and_fits() {
    let dir = tempfile::tempdir().unwrap();
    let output = demo(dir.path()).env("LC_ALL", "C").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{text}");
    for line in text.lines() {
        let plain = line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        assert!(plain && line.len() <= 80, "{line:?}");
    }
    for part in [
        "<- 412 Precondition Failed  Fencing-Result: stale-token\n",
        "<- 409 Conflict  Fencing-Result: superseded  Fencing-Highest: 8\n",
        "store now has \"annex, by B\"  ok\n",
        "store now has \"draft, by A\"  WRONG\n",
        "refused the stale writes: the file is what B wrote\n",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert_nothing_is_left(dir.path());
}

#[test]
fn as_json_it_tells_both_stories() {
    let dir = tempfile::tempdir().unwrap();
    let output = demo(dir.path()).arg("--json").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str, member: &str| {
        let events = events.iter().filter(|event| event["event"] == kind);
        events.map(|event| event[member].clone()).collect::<Vec<_>>()
    };
    let files = ["draft, by A", "final, by B", "annex, by B", "final, by B", "draft, by A"];
    assert_eq!(of("file", "content"), files, "the last two are the naive proxy's");
    assert_eq!(of("file", "right"), [true, true, true, true, false]);
    assert_eq!(of("answer", "status"), [201, 200, 204, 412, 200, 204, 409, 200, 412, 200]);
    let results: Vec<_> =
        of("answer", "fields").iter().map(|f| f["fencing-result"].clone()).collect();
    let expected = ["admitted", "claimed", "admitted", "stale-token", "claimed", "admitted"];
    assert_eq!(results[..6], expected);
    assert_eq!(results[6], "superseded");
    assert!(results[7..].iter().all(Value::is_null), "a naive proxy knows no such fields");
    assert_eq!(of("granted", "token"), ["5", "6", "7", "8", "5", "6"]);
    let verdict = events.last().unwrap();
    assert_eq!(verdict["palisade_kept"], true);
    assert_eq!(verdict["naive_broke"], true);
    assert_nothing_is_left(dir.path());
}

#[test]
fn a_signal_ends_it_and_its_proxy() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = demo(dir.path())
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let scene: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let words = scene["words"].as_str().unwrap();
    let process = words.split_once("process ").unwrap().1.split_once(',').unwrap().0;
    assert!(Path::new("/proc").join(process).exists(), "{words}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(ended(&mut child), Some(1));
    assert!(lines.map_while(Result::ok).all(|line| !line.contains("\"verdict\"")));
    assert!(!Path::new("/proc").join(process).exists(), "the proxy has ended");
    assert_nothing_is_left(dir.path());
}

/// With `dir` for temporary files.
fn demo(dir: &Path) -> Command {
    let mut command = binary(dir);
    command.arg("demo").env("TMPDIR", dir);
    command
}

fn ended(child: &mut Child) -> Option<i32> {
    let mut status = None;
    until("the end of the demo", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

fn assert_nothing_is_left(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn explain_says_what_would_be_done_and_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, code, part) in [
        (&["PUT", "/a/b", "-H", "Fencing-Token: 5"][..], 0, "key         files:a/b\n"),
        (&["GET", "http://127.0.0.1:8080/a"], 0, "verdict     a read, passed on\n"),
        (&["PUT", "/a"], 1, "verdict     refused: 428 token-missing\n"),
        (&["PUT", "/a//b", "-H", "Fencing-Token: 5"], 1, "verdict     refused: 400 target-ambig"),
        (&["PUT", "/a b"], 2, ""),
    ] {
        let output = binary(dir.path()).arg("explain").args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
        assert_eq!(output.stderr.is_empty(), code != 2, "{arguments:?}");
    }
    assert_nothing_is_left(dir.path());
}
