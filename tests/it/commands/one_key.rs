//! What shows and changes one key, in every state of the key.

use super::*;

#[test]
fn an_idle_key_is_shown_raised_and_reset() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
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
        .prints("store:k: nothing was in doubt, and no quarantine held it\n");
    ask(&palisade, &["reset", "store:k", "--reason", "x"])
        .prints("store:k: its token is forgotten; any token may be its next\n");
    put("/k", "1").send(palisade.addr()).assert_status(201);
}

#[test]
fn a_key_with_a_write_in_flight_and_one_that_waits() {
    let backend = Backend::start();
    let palisade = Palisade::start(&patient(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "/k", "5");
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
    let palisade = Palisade::start(&patient(&backend));
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
    let mut palisade = Palisade::start(&patient(&backend));
    put("/k", "5").send(palisade.addr()).assert_status(201);
    palisade.kill9();
    palisade.restart();
    put("/k", "6").send(palisade.addr()).assert_refused(503, "in-doubt");
    let shown = ask(&palisade, &["show", "store:k"]);
    let line = shown.out.lines().find(|line| line.contains("quarantine")).unwrap();
    assert!(line.ends_with(" left"), "{line}");
    ask(&palisade, &["reset", "store:k", "--reason", "x"]).fails(1, &["(busy)"]);
    ask(&palisade, &["release", "store:k", CONFIRMED, "--reason", "x"])
        .prints("store:k: ended its quarantine, on your word\n");
    put("/k", "6").send(palisade.addr()).assert_status(201);
}

#[test]
fn a_palisade_that_stops_shows_and_changes_nothing() {
    let backend = Backend::start();
    let mut palisade = Palisade::start(&patient(&backend));
    let (mut old, latch) = hold(&backend, &palisade, "/k", "5");
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
        assert_eq!(done.code, Some(0), "{}", done.err);
        let doubted = key.windows(3).any(|part| part == b"%2f");
        assert_eq!(done.err.starts_with("warning: no path has this key"), doubted, "{}", done.err);
        assert!(doubted || done.err.is_empty());
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
