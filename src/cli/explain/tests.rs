use std::{ffi::OsString, fs};

use super::{
    super::{run_with, snapshots},
    *,
};

const CONFIG: &str = r#"
[store]
path = "d/fences"
[upstreams.files]
directory = "d/files"
[upstreams.s3]
url = "http://store:9000"
max_write_lifetime = "90s"
[[routes]]
path = "/{*object}"
upstream = "files"
[[routes]]
path = "/s3/{bucket}/{*object}"
upstream = "s3"
fence = "{bucket}"
host = "s3.example"
methods = ["GET", "PUT"]
max_jump = 10
stale_status = 409
max_body = "1KiB"
[[routes]]
path = "/sticky/{*o}"
upstream = "files"
token = "sticky"
takeover = "wait"
[[routes]]
path = "/open/{*o}"
upstream = "files"
token = "off"
[[routes]]
path = "/watched/{*o}"
upstream = "files"
enforce = false
[[routes]]
path = "/checked/{*o}"
upstream = "files"
reads = "check"
"#;

fn explained(arguments: &[&str]) -> (Exit, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    fs::write(&path, CONFIG).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let config = ["palisade", "explain", "--config", path.to_str().unwrap()];
    let all = config.iter().chain(arguments).map(OsString::from);
    let exit = run_with(all, &mut out, &mut err);
    assert!(!dir.path().join("d").exists(), "nothing was opened");
    (exit, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

fn json(arguments: &[&str]) -> (Exit, Value) {
    let (exit, out, err) = explained(&[&["--json"], arguments].concat());
    assert_eq!(err, "");
    (exit, serde_json::from_str(&out).unwrap())
}

#[test]
fn a_write_is_explained_in_words() {
    let request = ["PUT", "http://s3.example:8080/s3/b/c", "-H", "Fencing-Token: 5"];
    let (exit, out, err) = explained(&request);
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    let expected = "\
PUT http://s3.example:8080/s3/b/c

verdict     a write, offered to the fence
route       /s3/{bucket}/{*object} to the upstream s3
beside      /{*object}: matches too, but is tried later
key         s3:b
mode        token = \"required\"
token       5
then        below the mark: 409 stale-token, from the head alone
            equal to the mark: goes on, without the disk
            above the mark: the mark is raised on disk first, then it goes on
            more than 10 above the mark: 422 token-implausible
            waits while lower writes are in flight or in doubt
worst wait  100s
";
    assert_eq!(out, expected);
}

#[test]
fn a_refusal_is_explained_in_words() {
    let (exit, out, err) = explained(&["DELETE", "http://s3.example/s3/b/c"]);
    assert_eq!((exit, err.as_str()), (Exit::Failed, ""));
    let expected = "\
DELETE http://s3.example/s3/b/c

verdict     refused: 428 token-missing
why         The request carries no fencing token: send the token of the lock grant as `Fencing-Token`
route       /{*object} to the upstream files
beside      /s3/{bucket}/{*object}: matches the path, but not the method
key         files:s3/b/c
mode        token = \"required\"
worst wait  10s
";
    assert_eq!(out, expected);
}

#[test]
fn what_the_head_deserves_is_refused() {
    let token = "Fencing-Token: 5";
    for (arguments, code, key) in [
        (&["PUT", "/a//b", "-H", token][..], "target-ambiguous", None),
        (&["PUT", "http://h/a/../b", "-H", token], "target-ambiguous", None),
        (&["PUT", "/a%2fb", "-H", token], "target-ambiguous", None),
        (&["PUT", "/a/", "-H", token], "target-ambiguous", None),
        (&["PUT", "*", "-H", token], "target-ambiguous", None),
        (&["PUT", "/a", "-H", token, "-H", "Destination: /b"], "not-fenceable", None),
        (&["GET", "/a", "-H", "X-HTTP-Method-Override: PUT"], "not-fenceable", None),
        (&["PUT", "/a"], "token-missing", Some("files:a")),
        (&["GET", "/a", "-H", "Fencing-Claim: true"], "token-missing", Some("files:a")),
        (&["PUT", "/a", "-H", "Fencing-Token: 05"], "token-malformed", Some("files:a")),
        (&["PUT", "/a", "-H", token, "-H", token], "token-malformed", Some("files:a")),
        (&["put", "/a", "-H", token], "method-not-allowed", Some("files:a")),
        (&["CONNECT", "h:80"], "method-not-allowed", None),
        (&["GET", "/"], "", None),
        (&["PUT", "/a", "-H", token, "-H", "Host: a", "-H", "Host: b"], "bad-request", None),
        (&["GET", "/a", "-H", "Content-Length: 4"], "bad-request", Some("files:a")),
        (&["PUT", "/a", "-H", token, "-H", "Early-Data: 1"], "too-early", Some("files:a")),
        (
            &["PUT", "http://s3.example/s3/b/c", "-H", token, "-H", "Content-Length: 2000"],
            "body-too-large",
            Some("s3:b"),
        ),
    ] {
        let (exit, json) = json(arguments);
        assert_eq!(json["refused"]["code"].as_str().unwrap_or_default(), code, "{arguments:?}");
        assert_eq!(json["key"].as_str(), key, "{arguments:?}");
        assert_eq!(exit == Exit::Done, code.is_empty(), "{arguments:?}");
    }
}

#[test]
fn the_rest_is_read_or_offered() {
    let stale = "below the mark: 412 stale-token, from the head alone";
    let token = "Fencing-Token: 6";
    for (arguments, action, route, wait, first) in [
        (&["GET", "/a"][..], "read", "/{*object}", "10s", "reads are not fenced"),
        (&["GET", "http://u:p@h"], "read", "/{*object}", "10s", "reads are not fenced"),
        (&["PUT", "/a", "-H", token], "write", "/{*object}", "10s", stale),
        (&["PUT", "/a", "-H", "x-fencing-token:6"], "write", "/{*object}", "10s", stale),
        (
            &["HEAD", "/a", "-H", token, "-H", "Fencing-Claim: true"],
            "claim",
            "/{*object}",
            "10s",
            stale,
        ),
        (&["GET", "/checked/a", "-H", token], "read", "/checked/{*o}", "10s", stale),
        (&["GET", "/checked/a"], "read", "/checked/{*o}", "10s", "reads are not fenced"),
        (
            &["PUT", "/sticky/a"],
            "write",
            "/sticky/{*o}",
            "no bound",
            "goes on until the key has seen its first token; from then on 428 token-missing",
        ),
        (
            &["PUT", "/open/a"],
            "write",
            "/open/{*o}",
            "-",
            "goes on unfenced: nothing orders it after others",
        ),
        (
            &["PUT", "/watched/a", "-H", "Fencing-Token: x"],
            "write",
            "/watched/{*o}",
            "-",
            "goes on as would-refuse; code=token-malformed",
        ),
    ] {
        let (exit, json) = json(arguments);
        assert_eq!(exit, Exit::Done, "{arguments:?}");
        assert_eq!(json["action"], action, "{arguments:?}");
        assert_eq!(json["route"], route, "{arguments:?}");
        assert_eq!(json["worst_wait"], wait, "{arguments:?}");
        assert_eq!(json["then"][0]["then"], first, "{arguments:?}");
    }
}

#[test]
fn the_routes_beside_it_say_why() {
    let beside = |url: &str, method: &str| {
        let (_, json) = json(&[method, url, "-H", "Fencing-Token: 5"]);
        (json["route"].as_str().unwrap_or("").to_owned(), json["beside"][0]["why"].clone())
    };
    let all = "/{*object}".to_owned();
    let host = "matches the path, but not the host";
    let method = "matches the path, but not the method";
    assert_eq!(beside("http://other/s3/b/c", "PUT"), (all.clone(), host.into()));
    assert_eq!(beside("http://s3.example/s3/b/c", "POST"), (all.clone(), method.into()));
    let own = ("/s3/{bucket}/{*object}".to_owned(), "matches too, but is tried later".into());
    assert_eq!(beside("http://S3.Example:99/s3/b/c", "PUT"), own);
    assert_eq!(beside("/a", "PUT"), (all, Value::Null));
}

#[test]
fn what_cannot_be_sent_is_a_usage_error() {
    for arguments in [
        &["PUT", "http://h/a b"][..],
        &["PUT", "ftp://h/a"],
        &["P UT", "/a"],
        &["PUT", "/a", "-H", "no colon"],
        &["PUT", "/a", "-H", "bad name: x"],
        &["PUT", "/a", "-H", "a: b\nc: d"],
        &["PUT"],
        &[],
    ] {
        let (exit, out, err) = explained(arguments);
        assert_eq!((exit, out.as_str()), (Exit::Usage, ""), "{arguments:?}");
        assert!(err.starts_with("error: "), "{err}");
    }
}

#[test]
fn every_verdict_on_every_screen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    fs::write(&path, CONFIG).unwrap();
    let config = ["explain", "--config", path.to_str().unwrap()];
    let token = "Fencing-Token: 5";
    for (name, arguments) in [
        ("explain-write", &["PUT", "http://s3.example/s3/b/c", "-H", token][..]),
        ("explain-claim", &["GET", "/a", "-H", token, "-H", "Fencing-Claim: true"]),
        ("explain-read", &["GET", "/a"]),
        ("explain-unfenced", &["PUT", "/open/a"]),
        ("explain-sticky", &["PUT", "/sticky/a"]),
        ("explain-not-enforced", &["PUT", "/watched/a"]),
        ("explain-refused", &["DELETE", "http://s3.example/s3/b/c"]),
        ("explain-usage", &["PUT", "/a b"]),
    ] {
        snapshots::compare(name, |screen| snapshots::ran(&[&config, arguments].concat(), screen).1);
    }
}
