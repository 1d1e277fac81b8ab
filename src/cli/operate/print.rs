//! Documents as tables for people.

use super::{
    Target,
    document::{Advanced, InDoubt, InFlight, Key, Mark, Released, Reset, Status, Upstream},
};
use crate::cli::{
    style::harmless,
    table::{Table, pairs},
    terminal::Screen,
};

pub(super) fn status(status: &Status, target: &Target, screen: Screen) -> String {
    let style = screen.style;
    let state = if status.state == "ready" {
        style.good(&status.state)
    } else {
        style.bad(&harmless(&status.state))
    };
    let reason = status.reason.as_ref().map(|why| format!(" ({})", harmless(why)));
    let first = format!(
        "palisade {} at {}: {state}{}, up {}",
        harmless(&status.version),
        target.url(),
        reason.unwrap_or_default(),
        span(status.uptime_seconds),
    );
    let first = screen.message(&first);
    let text = format!("{first}\nmarks in {}\n\n", harmless(&status.store.path));
    let head = [
        "UPSTREAM",
        "ADDRESS",
        "KEYS IN MEMORY",
        "IN FLIGHT",
        "WAITING",
        "KEYS IN DOUBT",
        "QUARANTINE",
        "UNFENCED",
    ];
    let rows: Vec<_> = status.upstreams.iter().map(upstream).collect();
    text + &Table::new(head, screen).lines(&rows)
}

fn upstream(upstream: &Upstream) -> Vec<String> {
    vec![
        harmless(&upstream.name),
        harmless(&upstream.address),
        upstream.keys_in_memory.to_string(),
        upstream.in_flight_writes.to_string(),
        upstream.waiting_writes.to_string(),
        upstream.in_doubt_keys.to_string(),
        upstream.quarantine_seconds_left.map_or("-".into(), |left| format!("{} left", span(left))),
        yes_or_no(upstream.unfenced),
    ]
}

pub(super) fn key(key: &Key, screen: Screen) -> String {
    let rows = [
        ("  highest token", key.highest.as_deref().map_or("none".into(), harmless)),
        ("  on disk", key.durable.as_ref().map_or("no record".into(), mark)),
        ("  in flight", listed(&key.in_flight, in_flight)),
        ("  in doubt", listed(&key.in_doubt, in_doubt)),
        ("  waiting", if key.waiting == 0 { "none".into() } else { key.waiting.to_string() }),
        (
            "  quarantine",
            key.quarantine_seconds_left
                .map_or("none".into(), |left| format!("{} left", span(left))),
        ),
    ];
    format!("{}\n{}", screen.style.strong(&harmless(&key.name)), pairs(&rows, 17, screen))
}

fn mark(mark: &Mark) -> String {
    let token = mark.token.as_deref().map_or("no token, as an operator reset it".into(), harmless);
    let holder = mark.holder.as_deref().map(|holder| format!(", of {}", harmless(holder)));
    let contested = if mark.contested { ", contested" } else { "" };
    format!("{token}{}{contested}", holder.unwrap_or_default())
}

fn in_flight(write: &InFlight) -> String {
    format!("{} of {}", counted(write.count, "write"), token(write.token.as_deref()))
}

fn in_doubt(doubt: &InDoubt) -> String {
    format!("{} for {}", token(doubt.token.as_deref()), span(doubt.seconds_left))
}

fn token(token: Option<&str>) -> String {
    token.map_or("no token".into(), |token| format!("token {}", harmless(token)))
}

fn listed<T>(items: &[T], words: impl Fn(&T) -> String) -> String {
    if items.is_empty() {
        return "none".into();
    }
    items.iter().map(words).collect::<Vec<_>>().join(", ")
}

pub(super) fn advanced(done: &Advanced, screen: Screen) -> String {
    let key = harmless(&done.key);
    let raised = format!("{key}: the mark is {}, on disk\n", harmless(&done.highest));
    match done.lower_open {
        0 => raised,
        open => {
            let writes = counted(open, "lower write");
            let note = "may still take effect: this was no claim";
            let warning = screen.warning(&format!("{writes} in flight or in doubt {note}"));
            format!("{raised}{warning}\n")
        }
    }
}

pub(super) fn released(done: &Released) -> String {
    let key = harmless(&done.key);
    let doubts = counted(done.doubts_ended, "doubt");
    match (done.doubts_ended, done.quarantine_ended) {
        (0, false) => format!("{key}: nothing was in doubt, and no quarantine held it\n"),
        (0, true) => format!("{key}: ended its quarantine, on your word\n"),
        (_, false) => format!("{key}: ended {doubts}, on your word\n"),
        (_, true) => format!("{key}: ended {doubts} and its quarantine, on your word\n"),
    }
}

pub(super) fn reset(done: &Reset) -> String {
    format!("{}: its token is forgotten; any token may be its next\n", harmless(&done.key))
}

pub(super) fn yes_or_no(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

pub(super) fn counted(count: u64, noun: &str) -> String {
    let many = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{many}")
}

/// A time in its two largest units.
fn span(seconds: f64) -> String {
    // Casts of floats saturate: nothing that is sent here can do harm.
    #[expect(clippy::cast_sign_loss, reason = "a negative time is none")]
    let whole = seconds.ceil() as u64;
    let pair = |large: u64, small: u64, names: [&str; 2]| match small {
        0 => format!("{large}{}", names[0]),
        _ => format!("{large}{} {small}{}", names[0], names[1]),
    };
    match whole {
        0..60 => format!("{whole}s"),
        60..3600 => pair(whole / 60, whole % 60, ["m", "s"]),
        3600..86400 => pair(whole / 3600, whole % 3600 / 60, ["h", "m"]),
        _ => pair(whole / 86400, whole % 86400 / 3600, ["d", "h"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_two_units_at_most() {
        for (seconds, expected) in [
            (0.0, "0s"),
            (0.2, "1s"),
            (59.0, "59s"),
            (59.1, "1m"),
            (61.0, "1m 1s"),
            (3600.0, "1h"),
            (7322.0, "2h 2m"),
            (90_000.0, "1d 1h"),
            (-1.0, "0s"),
        ] {
            assert_eq!(span(seconds), expected, "{seconds}");
        }
        assert!(!span(f64::MAX).is_empty() && !span(f64::NAN).is_empty());
    }
}
