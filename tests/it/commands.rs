//! The operator's commands against the real binary, in every state: what they print, with which
//! exit code, and what they say when they cannot.

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

use crate::harness::{Act, Backend, Client, Config, Latch, Palisade, palisade::binary, put, until};

use Act::{Answer, Apply, Read, Wait};

const CONFIRMED: &str = "--i-know-the-store-will-not-apply-it";

fn endless(backend: &Backend) -> Config {
    Config::http(backend.addr()).upstream("max_write_lifetime", "1h").set("drain_timeout", "60s")
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

fn hold(backend: &Backend, palisade: &Palisade, token: &str) -> (Client, Latch) {
    let latch = Latch::new();
    backend.script(token, [Read, Wait(latch.clone()), Apply, Answer(201)]);
    let client = put("/k", token).start(palisade.addr());
    backend.until_held(token);
    (client, latch)
}

/// Leaves token 5 in doubt.
fn doubt(backend: &Backend, palisade: &Palisade) {
    backend.script("5", [Read, Answer(503)]);
    put("/k", "5").send(palisade.addr()).assert_status(503);
    palisade.until_metric("palisade_in_doubt_keys", 1.0);
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
    let palisade = Palisade::start(&endless(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "5");
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
    let mut palisade = Palisade::start(&endless(&backend));
    put("/k", "5").send(palisade.addr()).assert_status(201);
    palisade.kill9();
    palisade.restart_with(&endless(&backend).set("token", "sticky"));
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
    let config = endless(&backend).route("/open/{*o}").set("token", "off");
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

#[test]
fn an_idle_key_is_shown_raised_and_reset() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(&backend));
    put("/k/%0A", "5").field("Fencing-Holder", "w7").send(palisade.addr());
    put("/k", "5").field("Fencing-Holder", "w7").send(palisade.addr()).assert_status(201);
    ask(&palisade, &["show", "store:k"]).prints(
        "store:k\n\
         \x20 highest token  5\n\
         \x20 on disk        5, of w7\n\
         \x20 in flight      none\n\
         \x20 in doubt       none\n\
         \x20 waiting        none\n\
         \x20 quarantine     none\n",
    );
    let shown = ask(&palisade, &["show", "store:k", "--json"]);
    assert_eq!(shown.json()["highest"], "5");
    assert_eq!(shown.out, String::from_utf8(palisade.show("k").body).unwrap(), "as it came");

    let reason = ["--reason", "ledger 17"];
    ask(&palisade, &[&["advance", "store:k", "9"], &reason[..]].concat())
        .prints("store:k: the mark is 9, on disk\n");
    until("it is in the log", || palisade.stderr().contains("ledger 17"));
    put("/k", "8").send(palisade.addr()).assert_refused(412, "stale-token");
    ask(&palisade, &["advance", "store:k", "7", "--reason", "x"])
        .fails(1, &["store:k: the token is below the highest one seen, 9 (stale-token)", "reset"]);
    let refused = ask(&palisade, &["advance", "store:k", "7", "--reason", "x", "--json"]);
    assert_eq!((refused.code, &refused.json()["highest"]), (Some(1), &"9".into()));
    let json = ask(&palisade, &["advance", "store:k", "10", "--reason", "x", "--json"]).json();
    assert_eq!(json["highest"], "10");
    ask(&palisade, &["release", "store:k", CONFIRMED, "--reason", "x"])
        .prints("store:k: ended 0 doubts, on your word\n");
    ask(&palisade, &["reset", "store:k", "--reason", "x"])
        .prints("store:k: its token is forgotten; any token may be its next\n");
    put("/k", "1").send(palisade.addr()).assert_status(201);
}

#[test]
fn a_key_with_a_write_in_flight_and_one_that_waits() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "5");
    let _waiter = put("/k", "6").start(palisade.addr());
    palisade.until_metric("palisade_waiting_writes", 1.0);
    let shown = ask(&palisade, &["show", "store:k"]);
    for line in ["  in flight      1 write of token 5\n", "  waiting        1\n", "6, contested\n"]
    {
        assert!(shown.out.contains(line), "{line} is not in: {}", shown.out);
    }
    ask(&palisade, &["reset", "store:k", "--reason", "x"])
        .fails(1, &["store:k", "(busy)", "`palisade show`"]);
    ask(&palisade, &["advance", "store:k", "9", "--reason", "x"]).prints(
        "store:k: the mark is 9, on disk\n\
         warning: 1 lower write in flight or in doubt may still take effect: this was no claim\n",
    );
    latch.open();
    old.response().assert_status(201);
}

#[test]
fn a_key_in_doubt_is_released() {
    let backend = Backend::start();
    let palisade = Palisade::start(&endless(&backend));
    doubt(&backend, &palisade);
    let shown = ask(&palisade, &["show", "store:k"]);
    let line = shown.out.lines().find(|line| line.contains("in doubt")).unwrap();
    assert!(line.contains("token 5 for "), "{line}");
    let status = ask(&palisade, &["status", "--json"]).json();
    assert_eq!(status["upstreams"][0]["in_doubt_keys"], 1);
    ask(&palisade, &["release", "store:k", "--reason", "x"]).fails(2, &[CONFIRMED]);
    put("/k", "6").send(palisade.addr()).assert_refused(503, "in-doubt");
    ask(&palisade, &["release", "store:k", CONFIRMED, "--reason", "the store is down for good"])
        .prints("store:k: ended 1 doubt, on your word\n");
    put("/k", "6").send(palisade.addr()).assert_status(201);
}

#[test]
fn a_key_in_a_quarantine_is_released() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(&backend));
    put("/k", "5").send(palisade.addr()).assert_status(201);
    palisade.kill9();
    palisade.restart();
    put("/k", "6").send(palisade.addr()).assert_refused(503, "in-doubt");
    let shown = ask(&palisade, &["show", "store:k"]);
    let line = shown.out.lines().find(|line| line.contains("quarantine")).unwrap();
    assert!(line.ends_with(" left"), "{line}");
    ask(&palisade, &["reset", "store:k", "--reason", "x"]).fails(1, &["(busy)"]);
    ask(&palisade, &["release", "store:k", CONFIRMED, "--reason", "x"])
        .prints("store:k: ended 0 doubts and its quarantine, on your word\n");
    put("/k", "6").send(palisade.addr()).assert_status(201);
}

#[test]
fn a_palisade_that_stops_shows_and_changes_nothing() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&endless(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "5");
    palisade.signal(Signal::TERM);
    until("it stops", || palisade.stderr().contains("stopping"));
    let status = ask(&palisade, &["status"]);
    assert!(status.out.contains(": stopping, up "), "{}", status.out);
    assert_eq!(ask(&palisade, &["show", "store:k", "--json"]).json()["in_flight"][0]["token"], "5");
    assert_eq!(ask(&palisade, &["keys"]).code, Some(0));
    for change in [
        &["advance", "store:k", "9"][..],
        &["reset", "store:k"],
        &["release", "store:k", CONFIRMED],
    ] {
        ask(&palisade, &[change, &["--reason", "x"]].concat())
            .fails(1, &["(shutting-down)", "nothing was changed", "next start"]);
    }
    latch.open();
    old.response().assert_status(201);
    assert!(palisade.until_ended().success());
    ask(&palisade, &["status"]).fails(1, &["nothing answers", "palisade serve", "--admin"]);
}

#[test]
fn an_unknown_key_gets_no_record() {
    let palisade = Palisade::start(&Config::files());
    for command in [
        &["show", "store:nope"][..],
        &["reset", "store:nope", "--reason", "x"],
        &["release", "store:nope", CONFIRMED, "--reason", "x"],
    ] {
        ask(&palisade, command).fails(1, &["store:nope", "(unknown-key)", "`palisade keys"]);
    }
    let json = ask(&palisade, &["show", "store:nope", "--json"]);
    assert_eq!((json.code, &json.json()["code"]), (Some(1), &"unknown-key".into()));
    ask(&palisade, &["show", "nowhere:k"]).fails(1, &["(unknown-upstream)", "\"nowhere\""]);
    let none = ask(&palisade, &["keys"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""));
    ask(&palisade, &["advance", "store:nope", "3", "--reason", "restored"])
        .prints("store:nope: the mark is 3, on disk\n");
}

/// As the shell hands it over, whatever the bytes.
#[test]
fn a_key_of_any_bytes_can_be_named_and_cannot_harm_a_terminal() {
    let palisade = Palisade::start(&Config::files());
    let url = format!("http://{}", palisade.admin());
    let dir = tempfile::tempdir().unwrap();
    for key in [&b"store:\xff/?#%2f"[..], b"store:\x1b[2J\n", b"store:a/advance"] {
        let with_key = |command: &str, rest: &[&str]| {
            let mut process = binary(dir.path());
            process.arg(command).arg(OsStr::from_bytes(key)).args(rest).args(["--admin", &url]);
            Ran::new(process.output().unwrap())
        };
        let done = with_key("advance", &["3", "--reason", "x"]);
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
        let json = with_key("show", &["--json"]).json();
        assert_eq!(json["key"], String::from_utf8_lossy(key).into_owned());
        assert_eq!(with_key("keys", &["--json"]).json()["keys"][0]["token"], "3");
        let shown = with_key("show", &[]).out + &with_key("keys", &[]).out + &done.out;
        assert!(!shown.contains('\x1b'), "{shown:?}");
    }
    let keys = ask(&palisade, &["keys"]);
    assert!(keys.out.contains("\nstore:\\u{1b}[2J\\n  "), "{}", keys.out);
    let json = ask(&palisade, &["keys", "--json"]).json();
    assert_eq!(json["keys"][2]["key_hex"], "ff2f3f23253266");
}

#[test]
fn an_implausible_token_needs_force() {
    let palisade = Palisade::start(&Config::files().set("max_token", 100));
    let advance = ["advance", "store:k", "101", "--reason", "x"];
    ask(&palisade, &advance).fails(1, &["(token-implausible)", "--force", "max_token"]);
    ask(&palisade, &[&advance[..], &["--force"]].concat())
        .prints("store:k: the mark is 101, on disk\n");
}

#[test]
fn a_wrong_command_line_ends_with_2_and_asks_nobody() {
    for (arguments, word) in [
        (&["show"][..], "UPSTREAM:KEY"),
        (&["show", "k"], "a key is written UPSTREAM:KEY"),
        (&["advance", "a:k", "--reason", "x"], "<TOKEN>"),
        (&["advance", "a:k", "1"], "--reason"),
        (&["advance", "a:k", "07", "--reason", "x"], "07"),
        (&["advance", "a:k", "-1", "--reason", "x"], "-1"),
        (&["advance", "a:k", "1", "--reason", " "], "--reason"),
        (&["reset", "a:k"], "--reason"),
        (&["release", "a:k", "--reason", "x"], CONFIRMED),
        (&["keys", "--limit", "0"], "--limit"),
        (&["keys", "--limit", "5", "--all"], "--all"),
        (&["status", "--admin", "https://127.0.0.1:1"], "http://HOST:PORT"),
        (&["status", "--admin", "http://127.0.0.1:1", "--config", "x"], "--config"),
        (&["completions", "tcsh"], "bash"),
    ] {
        ran(arguments).fails(2, &[word]);
    }
}

#[test]
fn a_wrong_address_is_said_to_be_one() {
    let backend = Backend::start();
    let palisade =
        Palisade::start(&Config::http(backend.addr()).without_drain().set("token", "off"));
    let proxy = format!("http://{}", palisade.addr());
    // Each of these would be a write to the store, were it sent there.
    for command in [
        &["reset", "store:k", "--reason", "x"][..],
        &["advance", "store:k", "1", "--reason", "x"],
        &["status"],
        &["show", "store:k"],
    ] {
        ran(&[command, &["--admin", &proxy]].concat())
            .fails(1, &[&proxy, "(--admin)", "admin listening on"]);
    }
    let arrivals = backend.log().arrivals();
    assert!(arrivals.iter().all(|arrival| !arrival.is_write()), "a change was sent to the store");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = format!("http://{}", listener.local_addr().unwrap());
    let silent = thread::spawn(move || drop(listener.accept()));
    ran(&["status", "--admin", &other]).fails(1, &[&other, "is no admin listener"]);
    silent.join().unwrap();
    ran(&["status", "--admin", &other]).fails(1, &[&other, "Connection refused", "palisade serve"]);
}

#[test]
fn the_listener_is_found_in_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let in_dir =
        |arguments: &[&str]| Ran::new(binary(dir.path()).args(arguments).output().unwrap());
    in_dir(&["status", "--config", "nope.toml"]).fails(1, &["nope.toml", "--admin"]);
    let text = Config::files().text(dir.path());
    fs::create_dir(dir.path().join("config")).unwrap();
    let default =
        text.replace("[admin]\nlisten = \"127.0.0.1:0\"", "[admin]\nlisten = \"127.0.0.1:1\"");
    fs::write(dir.path().join("config/palisade.toml"), default).unwrap();
    in_dir(&["status"]).fails(1, &["http://127.0.0.1:1 ([admin] listen, config/palisade.toml)"]);
    let file = dir.path().join("p.toml");
    fs::write(&file, &text).unwrap();
    in_dir(&["status", "--config", "p.toml"]).fails(1, &["p.toml", "its log says which"]);
    fs::write(&file, text.replace("[admin]\nlisten = \"127.0.0.1:0\"\n", "")).unwrap();
    in_dir(&["status", "--config", "p.toml"]).fails(1, &["p.toml has no [admin] section"]);
}

#[test]
fn a_token_is_given_by_file_by_variable_or_by_the_configuration() {
    const SECRET: &str = "0123456789abcdef-secret";
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("token", &format!("{SECRET}\n"));
    write("wrong", "another-secret-of-16\n");
    write("empty", "\n");
    // A port that was free a moment ago, for the commands to find in the file.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = Config::files().text(dir.path()).replace(
        "[admin]\nlisten = \"127.0.0.1:0\"\n",
        &format!("[admin]\nlisten = \"{free}\"\ntoken_file = \"token\"\n"),
    );
    write("p.toml", &text);
    let mut serve = Killed(
        binary(dir.path())
            .args(["serve", "--fresh", "--config", "p.toml"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut log = BufReader::new(serve.0.stderr.take().unwrap()).lines();
    assert!(log.any(|line| line.unwrap().contains("admin listening on")), "it starts");

    let admin = format!("http://{free}");
    let status = |arguments: &[&str], variable: Option<&str>| {
        let mut command = binary(dir.path());
        command.arg("status").args(arguments).env_remove("PALISADE_ADMIN_TOKEN");
        if let Some(token) = variable {
            command.env("PALISADE_ADMIN_TOKEN", token);
        }
        let ran = Ran::new(command.output().unwrap());
        assert!(!(ran.out + &ran.err).contains(SECRET));
        Ran::new(command.output().unwrap())
    };
    let at = ["--admin", &admin];
    status(&at, None).fails(1, &[&admin, "wants a token", "--token-file", "PALISADE_ADMIN_TOKEN"]);
    status(&[&at[..], &["--token-file", "wrong"]].concat(), None)
        .fails(1, &["does not take the token of --token-file wrong (unauthenticated)"]);
    status(&at, Some("x")).fails(1, &["does not take the token of PALISADE_ADMIN_TOKEN"]);
    status(&[&at[..], &["--token-file", "empty"]].concat(), None).fails(1, &["holds no token"]);
    status(&[&at[..], &["--token-file", "none"]].concat(), None).fails(1, &["--token-file none"]);
    for (arguments, variable) in [
        ([&at[..], &["--token-file", "token"]].concat(), Some("x")),
        (at.to_vec(), Some(SECRET)),
        (vec!["--config", "p.toml"], None),
        (vec!["--config", "p.toml", "--token-file", "token"], Some("x")),
    ] {
        assert_eq!(status(&arguments, variable).code, Some(0), "{arguments:?}");
    }
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = ran(&["completions", shell]);
        assert_eq!((script.code, script.err.as_str()), (Some(0), ""), "{shell}");
        for word in ["advance", "i-know-the-store-will-not-apply-it", "token-file"] {
            assert!(script.out.contains(word), "{shell}: {word}");
        }
    }
}
