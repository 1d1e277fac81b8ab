//! What is printed, kept as text files beside this one: once for a pipe, and for terminals of 40, 80
//! and 120 columns. Escapes are written `\e`.
//!
//! `PALISADE_SNAPSHOTS=write cargo test --lib cli::` writes the files anew. Read what changed: a
//! file is right because it reads well, not because it was written.

use std::{env, fs, path::PathBuf};

use super::{Exit, Terminal, run_on, style::Style, terminal::Screen};

/// Compares what is shown on each screen with the file of that name. Colour must change nothing
/// else; where it is used, a terminal of 80 columns is shown with it.
#[track_caller]
pub(super) fn compare(name: &str, show: impl Fn(Screen) -> String) {
    let piped = show(Screen::PIPE);
    let mut found = format!("=== in a pipe\n{piped}");
    for columns in [40, 80, 120] {
        let plain = Screen { columns: Some(columns), ..Screen::PIPE };
        let text = show(plain);
        let coloured = show(Screen { style: Style::Coloured, ..plain });
        assert_eq!(bare(&coloured), text, "colour takes no room and changes no word");
        let text = if columns == 80 { coloured.replace('\u{1b}', "\\e") } else { text };
        let same = if text == piped { ": the same\n" } else { "\n" };
        let text = if text == piped { "" } else { &text };
        found = format!("{found}\n=== on {columns} columns{same}{text}");
    }
    against_file(name, &found);
}

#[track_caller]
fn against_file(name: &str, found: &str) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("src/cli/snapshots").join(name).with_extension("txt");
    if env::var("PALISADE_SNAPSHOTS").is_ok_and(|value| value == "write") {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if expected == found {
        return;
    }
    let pairs = expected.lines().zip(found.lines());
    let same = pairs.take_while(|(expected, found)| expected == found).count();
    let from = |text: &str| text.lines().skip(same).take(6).collect::<Vec<_>>().join("\n  ");
    panic!(
        "{} from line {}\nexpected:\n  {}\nfound:\n  {}\nall that was found:\n{found}",
        path.display(),
        same + 1,
        from(&expected),
        from(found),
    );
}

/// Without escapes.
pub(super) fn bare(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |bare, part| bare + part.split_once('m').map_or("", |(_, text)| text))
}

/// What a command prints on the screen, and how it ends.
pub(super) fn ran(arguments: &[&str], screen: Screen) -> (Exit, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal { out: &mut out, err: &mut err, screen, err_screen: screen };
    let all = std::iter::once(&"palisade").chain(arguments).map(std::ffi::OsString::from);
    let exit = run_on(all, &mut terminal);
    out.append(&mut err);
    (exit, String::from_utf8(out).unwrap())
}

#[test]
fn a_wrong_command_line() {
    compare("usage", |screen| {
        let (exit, text) = ran(&["keys", "--limit", "5", "--all"], screen);
        assert_eq!(exit, Exit::Usage);
        text
    });
}

#[test]
fn help_is_set_off_on_a_terminal() {
    let coloured = Screen { style: Style::Coloured, ..Screen::PIPE };
    let (exit, text) = ran(&["check", "--help"], coloured);
    assert!(exit == Exit::Done && text.contains('\u{1b}'), "{text}");
    assert_eq!(bare(&text), ran(&["check", "--help"], Screen::PIPE).1);
}
