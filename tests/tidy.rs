//! The walls of the house, read from the sources: who may import whom, what the pure rule may not
//! touch, how large a file may grow, and that sources are ASCII.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const MOST_LINES: usize = 400;

/// Each room and the rooms that it may import. `cli` and `main` see everything.
const ROOMS: [(&str, &[&str]); 10] = [
    ("fence", &[]),
    ("metrics", &[]),
    ("telemetry", &[]),
    ("upstream", &[]),
    ("store", &["fence"]),
    ("gate", &["store", "fence", "metrics"]),
    ("server", &["metrics"]),
    // `server` for `Peer` alone: what is known of a request's client.
    ("proxy", &["gate", "upstream", "server", "fence", "metrics"]),
    // `store` for the one error that the gate passes on as it is.
    ("admin", &["gate", "store", "fence", "metrics"]),
    // Each room's Options, and the proxy's patterns and templates.
    ("config", &["server", "admin", "store", "gate", "upstream", "proxy", "fence", "telemetry"]),
];

/// What knows time, I/O or async: not for the pure rule.
const IMPURE: [&str; 14] = [
    "std::fs",
    "std::net",
    "std::io",
    "std::thread",
    "std::sync::mpsc",
    "std::process",
    "std::env",
    "Instant::now",
    "SystemTime",
    "async fn",
    "async move",
    ".await",
    "tokio",
    "hyper",
];

struct Source {
    path: PathBuf,
    room: String,
    /// As it is.
    text: Vec<u8>,
    /// Without comments.
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(source(&root, path));
            }
        }
    }
    assert!(found.len() > 10, "the sources are found: {}", found.len());
    found
}

fn source(root: &Path, path: PathBuf) -> Source {
    let text = fs::read(&path).unwrap();
    let within = path.strip_prefix(root).unwrap();
    let first = within.components().next().unwrap().as_os_str().to_str().unwrap();
    let room = first.trim_end_matches(".rs").to_string();
    let code = without_comments(&String::from_utf8_lossy(&text));
    Source { path, room, text, code }
}

/// Good enough for sources whose strings hold no `//` but in addresses.
fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| match line.find("//") {
        Some(at) if !line[..at].ends_with(':') => &line[..at],
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The rooms that a source names, by `crate::ROOM`, `palisade::ROOM` or `crate::{ROOM, ...}`.
fn imports(code: &str) -> BTreeSet<String> {
    let mut rooms = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => rooms.extend(group_heads(group)),
            None => rooms.extend(head(rest)),
        }
    }
    rooms
}

/// The first segments of a use group, up to its closing brace.
fn group_heads(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => {
                heads.extend(head(&group[start..at]));
                return heads;
            }
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                heads.extend(head(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    heads
}

fn head(path: &str) -> Option<String> {
    let path = path.trim_start();
    let end = path.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(path.len());
    (end > 0).then(|| path[..end].to_string())
}

#[test]
fn imports_point_downwards_only() {
    let mut faults = Vec::new();
    for source in sources() {
        let room = ROOMS.iter().find(|(room, _)| *room == source.room);
        let Some((room, allowed)) = room else {
            let top = ["cli", "main", "lib"].contains(&source.room.as_str());
            assert!(top, "{} is in no room: give it one here", source.path.display());
            continue;
        };
        for import in imports(&source.code) {
            let known = ROOMS.iter().any(|(room, _)| *room == import) || import == "cli";
            if known && import != *room && !allowed.contains(&import.as_str()) {
                faults.push(format!("{}: {room} imports {import}", source.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_rule_knows_no_time_no_io_and_no_async() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| source.room == "fence") {
        let found = IMPURE.iter().filter(|word| source.code.contains(**word));
        faults.extend(found.map(|word| format!("{}: {word}", source.path.display())));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn no_file_outgrows_its_room() {
    let long = sources().into_iter().filter_map(|source| {
        let lines = source.text.split(|byte| *byte == b'\n').count() - 1;
        (lines > MOST_LINES).then(|| format!("{}: {lines} lines", source.path.display()))
    });
    let long: Vec<_> = long.collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn sources_are_ascii() {
    let other = sources().into_iter().filter_map(|source| {
        let at = source.text.iter().position(|byte| !byte.is_ascii())?;
        let line = source.text[..at].split(|byte| *byte == b'\n').count();
        Some(format!("{}:{line}", source.path.display()))
    });
    let other: Vec<_> = other.collect();
    assert!(other.is_empty(), "{other:#?}");
}

#[test]
fn the_reader_of_imports_reads() {
    let code =
        "use crate::{\n fence::{Key, Mark},\n store::contract,\n};\nlet x = crate::gate::f();";
    let found: Vec<_> = imports(code).into_iter().collect();
    assert_eq!(found, ["fence", "gate", "store"]);
    assert_eq!(without_comments("a // crate::x\nb \"http://c\""), "a \nb \"http://c\"");
}
