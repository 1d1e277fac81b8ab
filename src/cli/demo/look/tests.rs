use std::time::Duration;

use super::*;

const PIPE: Look = Look { colour: false, symbols: false };
const TERMINAL: Look = Look { colour: true, symbols: true };

fn event(who: Who, kind: Kind) -> Event {
    Event { at: Duration::from_millis(1234), who, kind }
}

fn refusal() -> Message {
    let body = "{\"detail\":\"token 5 is below 6, the highest one seen for this key: the lock was \
                lost\"}";
    Message::new("HTTP/1.1 412 Precondition Failed", body)
        .with("fencing-result", "stale-token")
        .with("fencing-highest", "6")
        .with("fencing-outcome", "not-applied")
}

/// One of each kind, with the longest texts that there are.
fn events() -> Vec<Event> {
    let words = "What most people build ".repeat(8);
    let body = "draft, by A".to_owned();
    let request = Kind::Request {
        method: "PUT",
        path: "/reports/july.txt",
        token: u64::MAX,
        claim: true,
        body: body.clone(),
    };
    vec![
        event(Who::Nobody, Kind::Scene { title: "1. A".to_owned(), words }),
        event(Who::A, Kind::Says("wakes up and thinks that it has the lock ".repeat(3))),
        event(Who::B, Kind::Granted { token: u64::MAX }),
        event(Who::A, request),
        event(Who::A, Kind::Answer { answer: refusal(), waited: Some(Duration::from_secs(1)) }),
        event(Who::Store, Kind::File { content: body, right: false }),
        event(Who::Nobody, Kind::Verdict { kept: true, naive_broke: true }),
        event(Who::Nobody, Kind::Verdict { kept: false, naive_broke: false }),
    ]
}

/// Without escape codes.
fn bare(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |bare, part| bare + part.split_once('m').map_or("", |(_, text)| text))
}

#[test]
fn a_pipe_gets_plain_ascii_of_80_columns() {
    for event in events() {
        let text = PIPE.text(&event);
        let plain = |c: char| c == '\n' || c == ' ' || c.is_ascii_graphic();
        assert!(text.chars().all(plain) && text.ends_with('\n'), "{text:?}");
        for line in text.lines() {
            assert!(line.len() <= 80 && line == line.trim_end(), "{line:?}");
        }
    }
}

#[test]
fn a_terminal_gets_colour_and_the_same_words() {
    for event in events() {
        let text = TERMINAL.text(&event);
        assert!(text.contains('\u{1b}') || matches!(event.kind, Kind::Says(_)), "{text:?}");
        let uncoloured = Look { colour: false, ..TERMINAL }.text(&event);
        assert_eq!(bare(&text), uncoloured, "colour takes no room");
        assert!(uncoloured.lines().all(|line| line.chars().count() <= 80), "{uncoloured}");
    }
    assert!(TERMINAL.text(&events()[5]).contains('\u{2717}'));
}

#[test]
fn a_refusal_says_why() {
    let answer = Kind::Answer { answer: refusal(), waited: None };
    let expected = "  1.2s  A     <- 412 Precondition Failed  Fencing-Result: stale-token\n\
                    \x20             Fencing-Highest: 6  Fencing-Outcome: not-applied\n\
                    \x20                token 5 is below 6, the highest one seen for this key: the \
                    lock\n\
                    \x20                was lost\n";
    assert_eq!(PIPE.text(&event(Who::A, answer)), expected);
}

#[test]
fn the_look_is_what_the_terminal_allows() {
    let look = |terminal, set: &[(&str, &str)]| {
        let value = |name: &str| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Look::of(terminal, &value)
    };
    let all = (true, true);
    for (terminal, set, (colour, symbols)) in [
        (true, &[("LANG", "de_DE.UTF-8")][..], all),
        (true, &[("LC_ALL", "C.utf8"), ("LANG", "C")], all),
        (true, &[("LC_ALL", "C"), ("LANG", "C.UTF-8")], (true, false)),
        (true, &[("LC_CTYPE", "POSIX"), ("LANG", "C.UTF-8")], (true, false)),
        (true, &[], (true, false)),
        (true, &[("LANG", "C.UTF-8"), ("NO_COLOR", "1")], (false, true)),
        (true, &[("LANG", "C.UTF-8"), ("TERM", "dumb")], (false, true)),
        (false, &[("LANG", "C.UTF-8")], (false, false)),
    ] {
        assert_eq!(look(terminal, set), Look { colour, symbols }, "{terminal} {set:?}");
    }
}

#[test]
fn every_event_is_one_object() {
    let names: Vec<String> = events()
        .iter()
        .map(|event| {
            let object = event.json();
            assert_eq!(object["at_ms"], 1234);
            assert!(!object.to_string().contains('\n'));
            object["event"].as_str().unwrap().to_owned()
        })
        .collect();
    let expected = ["scene", "says", "granted", "request", "answer", "file", "verdict", "verdict"];
    assert_eq!(names, expected);
    let answer = events()[4].json();
    assert_eq!((&answer["status"], &answer["who"]), (&412.into(), &"A".into()));
    assert_eq!(answer["fields"]["fencing-result"], "stale-token");
    assert_eq!(events()[2].json()["token"], u64::MAX.to_string(), "exact beyond 2^53");
}
