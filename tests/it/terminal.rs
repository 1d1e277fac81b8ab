//! What a terminal allows: width, colour and symbols, asked of the real binary on a pseudo-terminal,
//! in a pipe, and in a pipe that nobody reads.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    process::{Command, Output},
    thread,
};

use rustix::{
    fs::{Mode, OFlags, open},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::harness::{Config, Palisade, claim, palisade::binary};

/// Runs a command whose output and errors are a terminal of so many columns: its code, and all that
/// it has printed there.
fn on_terminal(mut command: Command, columns: u16) -> (Option<i32>, String) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs =
        open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).unwrap();
    command.stdout(theirs.try_clone().unwrap()).stderr(theirs);
    let mut child = command.spawn().unwrap();
    // It holds their end, too: without that the end of the output can be seen.
    drop(command);
    let (mut ours, mut bytes, mut part) = (File::from(ours), Vec::new(), [0; 4096]);
    // Where nobody has their end any more, reading is an error.
    while let Ok(length @ 1..) = ours.read(&mut part) {
        bytes.extend_from_slice(&part[..length]);
    }
    let text = String::from_utf8(bytes).unwrap().replace("\r\n", "\n");
    (child.wait().unwrap().code(), text)
}

/// Without escapes.
fn bare(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |bare, part| bare + part.split_once('m').map_or("", |(_, text)| text))
}

fn command(dir: &Path, arguments: &[&str], set: &[(&str, &str)]) -> Command {
    let mut command = binary(dir);
    command.args(arguments).env("TMPDIR", dir).env("TERM", "xterm").env_remove("COLUMNS");
    for name in ["LC_ALL", "LC_CTYPE", "LANG"] {
        command.env_remove(name);
    }
    command.envs(set.iter().copied());
    command
}

fn piped(arguments: &[&str], set: &[(&str, &str)]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let Output { status, mut stdout, stderr } =
        command(dir.path(), arguments, set).output().unwrap();
    stdout.extend(stderr);
    (status.code(), String::from_utf8(stdout).unwrap())
}

fn shown(arguments: &[&str], columns: u16, set: &[(&str, &str)]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    on_terminal(command(dir.path(), arguments, set), columns)
}

fn assert_fits(text: &str, columns: usize) {
    for line in bare(text).lines() {
        assert!(line.chars().count() <= columns, "{line:?}");
    }
}

/// They take some seconds each, so that they are played at the same time.
#[test]
fn the_story_is_told_as_the_terminal_allows() {
    let utf8 = ("LC_ALL", "C.UTF-8");
    thread::scope(|scope| {
        scope.spawn(|| {
            let (code, text) = shown(&["demo"], 60, &[utf8]);
            assert_eq!(code, Some(0), "{text}");
            assert_fits(&text, 60);
            for part in ["\u{1b}[1m1. A writer that sleeps\u{1b}[0m\n", "\u{2713}", "\u{2190}"] {
                assert!(text.contains(part), "{part:?}: {text}");
            }
        });
        scope.spawn(|| {
            let (code, text) = shown(&["demo"], 45, &[("TERM", "dumb")]);
            assert_eq!(code, Some(0), "{text}");
            assert_fits(&text, 45);
            assert!(!text.contains('\u{1b}') && text.is_ascii(), "{text}");
        });
        scope.spawn(|| {
            let (code, text) = piped(&["demo"], &[utf8]);
            assert_eq!(code, Some(0), "{text}");
            assert_fits(&text, 80);
            assert!(!text.contains('\u{1b}') && text.contains('\u{2713}'), "{text}");
        });
    });
}

#[test]
fn colour_is_where_it_is_wanted() {
    let check = &["check", "--config", "nope.toml"];
    let coloured = |(code, text): (Option<i32>, String)| {
        assert_eq!(code, Some(1), "{text}");
        assert!(bare(&text).contains("nope.toml: it cannot be read"), "{text}");
        text.contains('\u{1b}')
    };
    assert!(coloured(shown(check, 80, &[])));
    assert!(!coloured(shown(check, 80, &[("NO_COLOR", "1")])));
    assert!(!coloured(shown(check, 80, &[("TERM", "dumb")])));
    assert!(!coloured(piped(check, &[])));
    assert!(coloured(piped(check, &[("CLICOLOR_FORCE", "1")])));
    assert!(!coloured(piped(check, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")])));
}

#[test]
fn a_table_that_does_not_fit_is_set_in_blocks() {
    let (_, wide) = shown(&["check"], 100, &[("NO_COLOR", "1")]);
    assert!(wide.starts_with("ROUTE       MATCHES  UPSTREAM  KEY "), "{wide}");
    let (_, narrow) = shown(&["check"], 40, &[]);
    assert!(bare(&narrow).starts_with("ROUTE       /{*object}\nMATCHES     all\n"), "{narrow}");
    assert!(narrow.starts_with("\u{1b}[1mROUTE\u{1b}[0m "), "{narrow}");
    assert_fits(&narrow, 40);
    // A program gets what it always gets.
    let (_, piped) = piped(&["check"], &[("COLUMNS", "40")]);
    assert!(piped.starts_with("ROUTE       MATCHES  UPSTREAM  KEY "), "{piped}");
}

#[test]
fn errors_are_whole_lines_in_a_pipe_and_fit_a_terminal() {
    let status = &["status", "--admin", "http://127.0.0.1:1"];
    let text = "error: nothing answers at http://127.0.0.1:1 (--admin): connection refused\n";
    let (code, in_pipe) = piped(status, &[]);
    assert_eq!(code, Some(1));
    assert!(in_pipe.starts_with(text), "{in_pipe}");
    let (code, narrow) = shown(status, 40, &[]);
    assert_eq!(code, Some(1));
    assert!(narrow.starts_with("\u{1b}[31merror:\u{1b}[0m nothing answers at\n"), "{narrow}");
    assert_fits(&narrow, 40);
}

/// Done, without a word: who has left needs no more, and nobody is there to be told.
#[test]
fn a_pipe_that_nobody_reads_is_no_error() {
    let palisade = Palisade::start(&Config::files());
    claim("/k", "1").send(palisade.addr()).assert_status(404);
    let admin = format!("http://{}", palisade.admin());
    for arguments in [
        &["demo"][..],
        &["demo", "--json"],
        &["check"],
        &["check", "--json"],
        &["explain", "GET", "/a"],
        &["completions", "bash"],
        &["--help"],
        &["keys", "--admin", &admin],
        &["keys", "--json", "--admin", &admin],
        &["show", "store:k", "--admin", &admin],
        &["status", "--admin", &admin],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = command(dir.path(), arguments, &[]).stdout(writer).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{arguments:?}");
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "{arguments:?} leaves nothing");
    }
}

#[test]
fn an_output_that_is_lost_is_an_error() {
    for arguments in [&["check"][..], &["check", "--json"], &["completions", "bash"], &["--help"]] {
        let dir = tempfile::tempdir().unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(dir.path(), arguments, &[]).stdout(full).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        let expected = "error: the output could not be written: no space left on device\n";
        assert_eq!((output.status.code(), err.as_str()), (Some(1), expected), "{arguments:?}");
    }
}
