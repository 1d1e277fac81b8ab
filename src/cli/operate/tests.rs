//! What each command prints, on every screen.

use std::io;

use http::StatusCode;
use serde_json::json;

use super::{
    document::{Advanced, InDoubt, InFlight, Key, Mark, Released, Reset, Status, Store, Upstream},
    fault::{Fault, Refused},
    keys::Printer,
    print,
    target::{Target, Token},
};
use crate::cli::{Terminal, snapshots::compare, terminal::Screen};

fn target(token: Option<&str>) -> Target {
    let token = token.map(|origin| Token { secret: "secret".into(), origin: origin.into() });
    Target { host: "127.0.0.1".into(), port: 9180, origin: "--admin".into(), token }
}

fn upstream(name: &str, address: &str) -> Upstream {
    Upstream {
        name: name.into(),
        address: address.into(),
        quarantine_seconds_left: None,
        unfenced: false,
        keys_in_memory: 4,
        in_flight_writes: 0,
        waiting_writes: 0,
        in_doubt_keys: 0,
    }
}

fn status(state: &str, reason: Option<&str>) -> Status {
    let busy = Upstream {
        quarantine_seconds_left: Some(12.5),
        unfenced: true,
        in_flight_writes: 3,
        waiting_writes: 2,
        in_doubt_keys: 1,
        ..upstream("s3", "http://store:9000")
    };
    Status {
        version: "1.2.3".into(),
        state: state.into(),
        reason: reason.map(str::to_owned),
        uptime_seconds: 61.0,
        store: Store { path: "data/fences".into() },
        upstreams: vec![busy, upstream("files", "data/files")],
    }
}

#[test]
fn a_status() {
    let ready = status("ready", None);
    compare("status", |screen| print::status(&ready, &target(None), screen));
    // Its words are another's: they must not move the cursor.
    let poisoned = status("poisoned", Some("the disk\x1b[2J"));
    compare("status-poisoned", |screen| print::status(&poisoned, &target(None), screen));
}

#[test]
fn a_key() {
    let busy = Key {
        name: "s3:a\nb".into(),
        highest: Some("2.43".into()),
        durable: Some(Mark { token: None, contested: true, holder: Some("w7".into()) }),
        in_flight: vec![
            InFlight { token: None, count: 1 },
            InFlight { token: Some("42".into()), count: 2 },
        ],
        in_doubt: vec![
            InDoubt { token: Some("41".into()), seconds_left: 12.3 },
            InDoubt { token: Some("40".into()), seconds_left: 7200.0 },
        ],
        waiting: 3,
        quarantine_seconds_left: Some(60.0),
    };
    compare("show", |screen| print::key(&busy, screen));
    let quiet = Key {
        name: "files:a".into(),
        highest: None,
        durable: None,
        in_flight: Vec::new(),
        in_doubt: Vec::new(),
        waiting: 0,
        quarantine_seconds_left: None,
    };
    compare("show-quiet", |screen| print::key(&quiet, screen));
}

fn listed(pages: &[serde_json::Value], next: Option<&str>, screen: Screen) -> String {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut printer = Printer::new(false, screen);
    for page in pages {
        printer.page(&mut out, page.as_array().unwrap()).unwrap().unwrap();
    }
    let mut terminal = Terminal { out: &mut out, err: &mut err, screen, err_screen: screen };
    printer.end(&mut terminal, next);
    out.append(&mut err);
    String::from_utf8(out).unwrap()
}

#[test]
fn keys() {
    let key = |key: &str, token: &str, holder: Option<&str>| json!({"key": key, "token": token, "contested": holder.is_none(), "holder": holder});
    let first = json!([
        key("files:reports/july.txt", "5", Some("worker-7")),
        key("files:reports/an-old\nname", "18446744073709551615", None),
    ]);
    let second = json!([key("files:reports/quarter/2026/q3/figures.csv", "7", Some("worker-12"))]);
    let pages = [first, second];
    compare("keys", |screen| listed(&pages, Some("x"), screen));
    compare("keys-none", |screen| listed(&[json!([])], None, screen));
    compare("keys-one", |screen| listed(&[json!([key("files:a", "5", None)])], Some("x"), screen));
}

#[test]
fn changes() {
    let advanced = |lower_open| Advanced { key: "s3:a".into(), highest: "43".into(), lower_open };
    compare("advance", |screen| {
        [0, 1, 2].map(|open| print::advanced(&advanced(open), screen)).concat()
    });
    let released = |doubts_ended, quarantine_ended| {
        print::released(&Released { key: "s3:a".into(), doubts_ended, quarantine_ended })
    };
    compare("release", |_| {
        [(1, false), (2, true), (0, true), (0, false)]
            .map(|(doubts, quarantine)| released(doubts, quarantine))
            .concat()
    });
    compare("reset", |_| print::reset(&Reset { key: "s3:a".into(), _reset: true }));
}

fn refused(code: &str, title: &str, detail: &str, key: Option<&str>) -> Fault {
    let document = json!({
        "type": format!("urn:palisade:problem:{code}"),
        "title": title,
        "detail": detail,
        "code": code,
        "key": key,
    });
    Fault::Refused(Refused::read(document.to_string()).unwrap())
}

/// All of them in one text, as the command says them.
fn said(faults: &[Fault], target: Option<&Target>, screen: Screen) -> String {
    let faults = faults.iter().map(|fault| screen.error(&fault.words(target)) + "\n");
    faults.collect::<Vec<_>>().join("\n")
}

#[test]
fn nobody_to_ask() {
    let own = [
        Fault::usage("k: a key is written UPSTREAM:KEY", "`palisade status` names the upstreams"),
        Fault::failed("cannot start: out of files", ""),
    ];
    let refused = io::Error::from_raw_os_error(111);
    let unreachable = io::Error::from_raw_os_error(113);
    let unknown =
        io::Error::other("failed to lookup address information: Name or service not known");
    let asked = [
        Fault::Unreachable(refused),
        Fault::Unreachable(unreachable),
        Fault::Unreachable(unknown),
        Fault::Unreachable(io::ErrorKind::TimedOut.into()),
        Fault::Silent,
        Fault::NotOurs("expected value at line 1\x1b[2J".into()),
        Fault::not_ours(StatusCode::NOT_FOUND),
        Fault::Proxy,
    ];
    compare("faults", |screen| {
        said(&own, None, screen) + "\n" + &said(&asked, Some(&target(None)), screen)
    });
}

#[test]
fn refusals() {
    let key = Some("s3:a");
    let lower = "the token is below the highest one seen, 43";
    let beyond = "the token is beyond what the route allows; `\"force\": true` sets it aside";
    let busy = "writes are in flight, in doubt or waiting, or a quarantine runs";
    let unknown = "it has no mark, and no write is in flight, in doubt or waiting";
    let faults = [
        refused("unknown-upstream", "No such upstream", "it is none of the configuration's", None),
        refused("unknown-key", "Nothing is known of this key", unknown, key),
        refused("stale-token", "The token is below the mark", lower, key),
        refused("token-implausible", "The token is beyond a limit", beyond, key),
        refused("busy", "The key is in use", busy, key),
        refused("shutting-down", "The process is stopping", "it takes no more changes", key),
        refused("not-ready", "The process is starting", "it takes no changes yet", key),
        refused("store-unavailable", "The marks cannot be read or written", "disk full", key),
        refused("not-found", "There is nothing here", "see /livez, /readyz, /metrics", None),
        refused("internal-error", "A fault in this program", "a worker has failed", None),
        refused("bad-request", "The request is malformed", "the body broke off\x1b[2J", key),
    ];
    compare("refusals", |screen| said(&faults, Some(&target(None)), screen));
    let token = || [refused("unauthenticated", "The bearer token is missing or wrong", "", None)];
    compare("refusals-token", |screen| {
        let given = target(Some("PALISADE_ADMIN_TOKEN"));
        let without = said(&token(), Some(&target(None)), screen);
        without + "\n" + &said(&token(), Some(&given), screen)
    });
}
