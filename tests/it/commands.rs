//! The operator's commands against the real binary, in every state: what they print, with which
//! exit code, and what they say when they cannot.

mod line;
mod one_key;

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::ffi::OsStrExt,
    process::{Child, Output, Stdio},
    thread,
};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{
    Backend, Config, Palisade, doubt, endless, hold, palisade::binary, put, until,
};

const CONFIRMED: &str = "--i-know-the-store-will-not-apply-it";

fn patient(backend: &Backend) -> Config {
    endless(backend.addr()).set("drain_timeout", "60s")
}

/// A process that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a command left behind.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Done, with this on the standard output and nothing beside it.
    #[track_caller]
    fn prints(&self, expected: &str) {
        assert_eq!((self.code, self.out.as_str(), self.err.as_str()), (Some(0), expected, ""));
    }

    /// Ended with this code, nothing on the standard output, and all of these words.
    #[track_caller]
    fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (Some(code), ""), "{}", self.err);
        assert!(self.err.starts_with("error: "), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "{word} is not in: {}", self.err);
        }
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

fn ran(arguments: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    Ran::new(binary(dir.path()).args(arguments).output().unwrap())
}

/// Asks this palisade.
fn ask(palisade: &Palisade, arguments: &[&str]) -> Ran {
    let url = format!("http://{}", palisade.admin());
    ran(&[arguments, &["--admin", &url]].concat())
}

/// A text without the times in it, which differ from run to run.
fn timeless(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(", up ") {
        Some((before, _)) => before.to_owned(),
        None => line.to_owned(),
    });
    lines.map(|line| line + "\n").collect()
}

#[test]
fn the_status_of_a_palisade_at_rest_and_at_work() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "/k", "5");
    let _waiter = put("/k", "9").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    put("/a", "1").send(palisade.addr()).assert_status(201);
    let status = ask(&palisade, &["status"]);
    let (version, admin, store) = (env!("CARGO_PKG_VERSION"), palisade.admin(), backend.addr());
    let fences = palisade.files().with_file_name("fences");
    let address = format!("http://{store}");
    let width = address.len();
    let expected = format!(
        "palisade {version} at http://{admin}: ready\n\
         marks in {}\n\
         \n\
         UPSTREAM  {:<width$}  KEYS IN MEMORY  IN FLIGHT  WAITING  KEYS IN DOUBT  QUARANTINE  \
         UNFENCED\n\
         store     {address}  2               1          1        0              -           no\n",
        fences.display(),
        "ADDRESS",
    );
    assert_eq!((status.code, timeless(&status.out), status.err.as_str()), (Some(0), expected, ""));

    let json = ask(&palisade, &["status", "--json"]).json();
    assert_eq!(json["state"], "ready");
    assert!(json["uptime_seconds"].as_f64() > Some(0.0), "{json}");
    assert_eq!(json["upstreams"][0]["kind"], "http");
    assert_eq!(json["upstreams"][0]["waiting_writes"], 1);
    latch.open();
    old.response().assert_status(201);
}

#[test]
fn the_status_of_a_quarantine_and_of_unfenced_routes() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&patient(&backend));
    put("/k", "5").send(palisade.addr()).assert_status(201);
    palisade.kill9();
    palisade.restart_with(&patient(&backend).set("token", "sticky"));
    let json = ask(&palisade, &["status", "--json"]).json();
    let upstream = &json["upstreams"][0];
    assert_eq!(upstream["unfenced"], true, "{json}");
    assert!(upstream["quarantine_seconds_left"].as_f64() > Some(3000.0), "{json}");
    let status = ask(&palisade, &["status"]);
    assert!(status.out.contains(" left  ") && status.out.ends_with("yes\n"), "{}", status.out);
}

#[test]
fn routes_are_told_as_they_are_tried() {
    let backend = Backend::start();
    let config = patient(&backend).route("/open/{*o}").set("token", "off");
    let palisade = Palisade::start(&config);
    let request = crate::harness::Request::new("GET", "/v1/routes");
    let routes: Value = serde_json::from_slice(&request.send(palisade.admin()).body).unwrap();
    assert_eq!(routes["routes"][0]["path"], "/open/{*o}");
    assert_eq!(routes["routes"][0]["worst_wait_seconds"], Value::Null);
    assert_eq!(routes["routes"][1]["worst_wait_seconds"], 3660.0);
    assert_eq!(routes["routes"][1]["takeover"], "abort");
}

#[test]
fn keys_are_listed_by_prefix_and_by_page() {
    let palisade = Palisade::start(&Config::files());
    ask(&palisade, &["keys", "--json"]).prints("{\"keys\":[],\"next\":null}\n");
    let none = ask(&palisade, &["keys"]);
    assert_eq!((none.code, none.out.as_str(), none.err.as_str()), (Some(0), "", "no keys\n"));
    for key in ["a", "b/b", "gr%C3%BCn", "c"] {
        let put = put(&format!("/{key}"), "5").field("Fencing-Holder", "worker-7");
        put.send(palisade.addr()).assert_status(201);
    }
    ask(&palisade, &["keys"]).prints(
        "KEY         TOKEN  CONTESTED  HOLDER\n\
         store:a     5      no         worker-7\n\
         store:b/b   5      no         worker-7\n\
         store:c     5      no         worker-7\n\
         store:gr\u{fc}n  5      no         worker-7\n",
    );
    ask(&palisade, &["keys", "store:gr\u{fc}"]).prints(
        "KEY         TOKEN  CONTESTED  HOLDER\nstore:gr\u{fc}n  5      no         worker-7\n",
    );
    let two = ask(&palisade, &["keys", "sto", "--limit", "2"]);
    assert_eq!((two.code, two.out.lines().count()), (Some(0), 3));
    assert!(
        two.err.starts_with("2 keys; more follow: ") && two.err.contains("--all"),
        "{}",
        two.err
    );
    let json = ask(&palisade, &["keys", "--json", "--limit", "3"]).json();
    assert_eq!(json["keys"][2]["key"], "store:c");
    assert!(json["next"].is_string());
    ask(&palisade, &["keys", "stoer:"]).fails(1, &["unknown-upstream", "`palisade status`"]);
}

/// More than one page of the API, in one table and in one document.
#[test]
fn all_keys_are_more_than_a_page() {
    let palisade = Palisade::start(&Config::files());
    let many: Vec<String> = (0..1203).map(|number| format!("k{number:04}")).collect();
    thread::scope(|scope| {
        for part in many.chunks(101) {
            let addr = palisade.addr();
            scope.spawn(move || {
                for key in part {
                    let claim = crate::harness::claim(&format!("/{key}"), "1");
                    claim.send(addr).assert_status(404);
                }
            });
        }
    });
    let names = |ran: &Ran| -> Vec<String> {
        let json = ran.json();
        let keys = json["keys"].as_array().unwrap();
        keys.iter().map(|key| key["key"].as_str().unwrap()["store:".len()..].to_owned()).collect()
    };
    let all = ask(&palisade, &["keys", "--all", "--json"]);
    assert_eq!(names(&all), many);
    assert_eq!(all.json()["next"], Value::Null);
    let limited = ask(&palisade, &["keys", "--limit", "1100", "--json"]);
    assert_eq!(names(&limited), many[..1100]);
    assert!(limited.json()["next"].is_string());
    let table = ask(&palisade, &["keys", "--all"]);
    assert_eq!((table.out.lines().count(), table.err.as_str()), (1204, ""));
    assert_eq!(table.out.matches("CONTESTED").count(), 1, "one head");

    // A reader that leaves early is no error.
    let url = format!("http://{}", palisade.admin());
    let dir = tempfile::tempdir().unwrap();
    let mut command = binary(dir.path());
    let command = command.args(["keys", "--all", "--admin", &url]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut out = BufReader::with_capacity(16, child.stdout.take().unwrap());
    out.read_line(&mut first).unwrap();
    drop(out);
    let left = Ran::new(child.wait_with_output().unwrap());
    assert_eq!((left.code, left.err.as_str()), (Some(0), ""));
}
