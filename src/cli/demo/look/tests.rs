use std::time::Duration;

use super::*;
use crate::cli::{snapshots, style::Style};

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
    let words = "What most people build ".repeat(8).trim_end().to_owned();
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

/// The story's words, and answers with all that they can have.
fn story() -> Vec<Event> {
    let says = |who, text: &str| event(who, Kind::Says(text.to_owned()));
    let request = |method, claim, body: &str| {
        let (path, token) = ("/reports/july.txt", if claim { 6 } else { 5 });
        Kind::Request { method, path, token, claim, body: body.to_owned() }
    };
    let claimed = Message::new("HTTP/1.1 200 OK", "draft, by A")
        .with("fencing-result", "claimed")
        .with("fencing-highest", "6");
    let file = |content: &str, right| Kind::File { content: content.to_owned(), right };
    let scene = Kind::Scene {
        title: "3. The same, with a proxy that only checks and forwards".to_owned(),
        words: "What most people build: a proxy that remembers the highest token, compares, and \
                forwards. Its store happens to be slow with one write."
            .to_owned(),
    };
    vec![
        event(Who::Nobody, scene),
        event(Who::A, Kind::Granted { token: 5 }),
        event(Who::A, request("PUT", false, "draft, by A")),
        event(Who::Store, file("draft, by A", true)),
        says(Who::Nobody, "A's lock runs out, and A does not know"),
        says(Who::B, "claims first: no older write may take effect once this is answered"),
        event(Who::B, request("GET", true, "")),
        event(Who::B, Kind::Answer { answer: claimed, waited: Some(Duration::from_millis(812)) }),
        event(Who::A, Kind::Answer { answer: refusal(), waited: None }),
        event(Who::Store, file("draft, by A", false)),
        event(Who::Nobody, Kind::Verdict { kept: true, naive_broke: true }),
        event(Who::Nobody, Kind::Verdict { kept: false, naive_broke: false }),
    ]
}

#[test]
fn the_story_on_every_screen() {
    let told = |screen| story().iter().map(|event| Look(screen).text(event)).collect::<String>();
    snapshots::compare("demo", told);
    let symbols = |screen| told(Screen { symbols: true, ..screen });
    snapshots::compare("demo-symbols", symbols);
}

#[test]
fn every_line_fits() {
    for columns in [None, Some(40), Some(59), Some(60), Some(80), Some(100), Some(200)] {
        for (style, symbols) in [(Style::Plain, false), (Style::Coloured, true)] {
            let screen = Screen { style, symbols, columns };
            for event in events().iter().chain(&story()) {
                let text = snapshots::bare(&Look(screen).text(event));
                assert!(text.ends_with('\n'), "{text:?}");
                for line in text.lines() {
                    let fits = line.chars().count() <= screen.prose() && line == line.trim_end();
                    assert!(fits, "{columns:?}: {line:?}");
                }
            }
        }
    }
}

#[test]
fn without_symbols_it_is_ascii() {
    for event in events().iter().chain(&story()) {
        let text = Look(Screen::PIPE).text(event);
        let plain = |c: char| c == '\n' || c == ' ' || c.is_ascii_graphic();
        assert!(text.chars().all(plain), "{text:?}");
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
