//! Documents as tables for people.

use super::{
    Target,
    document::{Advanced, InDoubt, InFlight, Key, Mark, Released, Reset, Status, Upstream},
};
use crate::cli::{
    style::{Style, harmless},
    table::aligned,
};

pub(super) fn status(status: &Status, target: &Target, style: Style) -> String {
    let state = if status.state == "ready" {
        style.good(&status.state)
    } else {
        style.bad(&harmless(&status.state))
    };
    let reason = status.reason.as_ref().map(|why| format!(" ({})", harmless(why)));
    let mut text = format!(
        "palisade {} at {}: {state}{}, up {}\nmarks in {}\n\n",
        harmless(&status.version),
        target.url(),
        reason.unwrap_or_default(),
        span(status.uptime_seconds),
        harmless(&status.store.path),
    );
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
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(status.upstreams.iter().map(upstream));
    text.push_str(&headed(&aligned(&rows), style));
    text
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

pub(super) fn key(key: &Key, style: Style) -> String {
    let row = |name: &str, value: String| vec![format!("  {name}"), value];
    let rows = [
        row("highest token", key.highest.as_deref().map_or("none".into(), harmless)),
        row("on disk", key.durable.as_ref().map_or("no record".into(), mark)),
        row("in flight", listed(&key.in_flight, in_flight)),
        row("in doubt", listed(&key.in_doubt, in_doubt)),
        row("waiting", if key.waiting == 0 { "none".into() } else { key.waiting.to_string() }),
        row(
            "quarantine",
            key.quarantine_seconds_left
                .map_or("none".into(), |left| format!("{} left", span(left))),
        ),
    ];
    format!("{}\n{}", style.strong(&harmless(&key.name)), aligned(&rows))
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

pub(super) fn advanced(done: &Advanced) -> String {
    let key = harmless(&done.key);
    let raised = format!("{key}: the mark is {}, on disk\n", harmless(&done.highest));
    match done.lower_open {
        0 => raised,
        open => {
            let writes = counted(open, "lower write");
            let note = "may still take effect: this was no claim";
            format!("{raised}warning: {writes} in flight or in doubt {note}\n")
        }
    }
}

pub(super) fn released(done: &Released) -> String {
    let doubts = counted(done.doubts_ended, "doubt");
    let quarantine = if done.quarantine_ended { " and its quarantine" } else { "" };
    format!("{}: ended {doubts}{quarantine}, on your word\n", harmless(&done.key))
}

pub(super) fn reset(done: &Reset) -> String {
    format!("{}: its token is forgotten; any token may be its next\n", harmless(&done.key))
}

/// A table with its head set off.
pub(super) fn headed(table: &str, style: Style) -> String {
    match table.split_once('\n') {
        Some((head, rows)) => format!("{}\n{rows}", style.strong(head)),
        None => table.to_owned(),
    }
}

pub(super) fn yes_or_no(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn counted(count: u64, noun: &str) -> String {
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
    use crate::cli::operate::document::Store;

    fn one() -> Status {
        Status {
            version: "1.2.3".into(),
            state: "poisoned".into(),
            reason: Some("the disk\x1b[2J".into()),
            uptime_seconds: 61.0,
            store: Store { path: "data/fences".into() },
            upstreams: vec![Upstream {
                name: "s3".into(),
                address: "http://store:9000".into(),
                quarantine_seconds_left: Some(12.5),
                unfenced: true,
                keys_in_memory: 4,
                in_flight_writes: 3,
                waiting_writes: 2,
                in_doubt_keys: 1,
            }],
        }
    }

    #[test]
    fn a_status_looks_like_this() {
        let target =
            Target { host: "::1".into(), port: 9180, origin: "--admin".into(), token: None };
        let head = "UPSTREAM  ADDRESS            KEYS IN MEMORY  IN FLIGHT  WAITING  KEYS IN \
                    DOUBT  QUARANTINE  UNFENCED";
        let rest = "s3        http://store:9000  4               3          2        1              \
                    13s left    yes\n";
        let top = |state: &str| {
            format!(
                "palisade 1.2.3 at http://[::1]:9180: {state} (the disk\\u{{1b}}[2J), up 1m 1s\n\
                 marks in data/fences\n\n"
            )
        };
        let plain = format!("{}{head}\n{rest}", top("poisoned"));
        assert_eq!(status(&one(), &target, Style::Plain), plain);
        let coloured = format!("{}\x1b[1m{head}\x1b[0m\n{rest}", top("\x1b[33mpoisoned\x1b[0m"));
        assert_eq!(status(&one(), &target, Style::Coloured), coloured);
    }

    #[test]
    fn a_key_with_everything_looks_like_this() {
        let shown = Key {
            name: "s3:a\nb".into(),
            highest: Some("2.43".into()),
            durable: Some(Mark { token: None, contested: true, holder: Some("w7".into()) }),
            in_flight: vec![
                InFlight { token: None, count: 1 },
                InFlight { token: Some("42".into()), count: 2 },
            ],
            in_doubt: vec![InDoubt { token: Some("41".into()), seconds_left: 12.3 }],
            waiting: 3,
            quarantine_seconds_left: Some(60.0),
        };
        let rest = "\
            \x20 highest token  2.43\n\
            \x20 on disk        no token, as an operator reset it, of w7, contested\n\
            \x20 in flight      1 write of no token, 2 writes of token 42\n\
            \x20 in doubt       token 41 for 13s\n\
            \x20 waiting        3\n\
            \x20 quarantine     1m left\n";
        assert_eq!(key(&shown, Style::Plain), format!("s3:a\\nb\n{rest}"));
        assert_eq!(key(&shown, Style::Coloured), format!("\x1b[1ms3:a\\nb\x1b[0m\n{rest}"));
    }

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
