//! What the two streams of a command can show: the one place that looks at the terminal.

use std::{
    env,
    io::{IsTerminal, Write},
    os::fd::AsFd,
};

use rustix::termios::tcgetwinsize;

use super::{
    say,
    style::{Style, wrapped},
};
use crate::config::ConfigErrors;

/// What is taken where nobody says how wide it is.
const USUAL: usize = 80;
/// The widths that prose is set in: narrower it falls apart, wider it is hard to read.
const LEAST: usize = 40;
const MOST: usize = 100;

/// What can be shown where a stream goes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Screen {
    pub(super) style: Style,
    /// Whether what is not ASCII can be read there.
    pub(super) symbols: bool,
    /// The columns of a terminal. `None`: a pipe or a file, where a program may read lines.
    pub(super) columns: Option<usize>,
}

impl Screen {
    /// A pipe or a file, for any reader.
    pub(super) const PIPE: Self = Self { style: Style::Plain, symbols: false, columns: None };

    /// What a stream goes to, and what its owner wants.
    pub(super) fn of(stream: &(impl AsFd + IsTerminal)) -> Self {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let size = tcgetwinsize(stream).ok();
        Self::judge(stream.is_terminal(), size.map(|size| size.ws_col.into()), &set)
    }

    /// `size` is what the terminal says, 0 where it does not know; `set` answers for the
    /// environment, but not with empty texts.
    fn judge(terminal: bool, size: Option<usize>, set: &dyn Fn(&str) -> Option<String>) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        let forced = set("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        let coloured = set("NO_COLOR").is_none() && (forced || (terminal && !dumb));
        let size = size.filter(|columns| *columns > 0);
        let told = || set("COLUMNS")?.parse().ok().filter(|columns| *columns > 0);
        Self {
            style: if coloured { Style::Coloured } else { Style::Plain },
            symbols: locale.contains("utf-8") || locale.contains("utf8"),
            columns: terminal.then(|| size.or_else(told).unwrap_or(USUAL)),
        }
    }

    /// How wide prose is set.
    pub(super) fn prose(self) -> usize {
        self.columns.unwrap_or(USUAL).clamp(LEAST, MOST)
    }

    /// A message in lines that fit. In a pipe it stays one line, so that a search finds it whole.
    pub(super) fn message(self, text: &str) -> String {
        match self.columns {
            Some(_) => wrapped(text, self.prose(), 2),
            None => text.to_owned(),
        }
    }

    /// `error: TEXT`, a line or more.
    pub(super) fn error(self, text: &str) -> String {
        self.message(&format!("{} {text}", self.style.wrong("error:")))
    }

    /// `warning: TEXT`, a line or more.
    pub(super) fn warning(self, text: &str) -> String {
        self.message(&format!("{} {text}", self.style.bad("warning:")))
    }
}

/// The two streams, and what each can show.
pub(super) struct Terminal<'a> {
    pub(super) out: &'a mut dyn Write,
    pub(super) err: &'a mut dyn Write,
    /// Where the standard output goes to.
    pub(super) screen: Screen,
    /// Where errors go to.
    pub(super) err_screen: Screen,
}

impl Terminal<'_> {
    pub(super) fn say(&mut self, text: &str) {
        say(self.out, text);
    }

    /// Why it was not done.
    pub(super) fn error(&mut self, text: &str) {
        say(self.err, &(self.err_screen.error(text) + "\n"));
    }

    /// What is wrong with a configuration, each beginning with its place.
    pub(super) fn errors(&mut self, errors: &ConfigErrors) {
        let screen = self.err_screen;
        for error in &errors.0 {
            let place = error.place();
            let text = error.to_string().replacen(&place, &screen.style.strong(&place), 1);
            say(self.err, &(screen.message(&text) + "\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(terminal: bool, size: Option<usize>, set: &[(&str, &str)]) -> Screen {
        let value = |name: &str| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Screen::judge(terminal, size, &value)
    }

    #[test]
    fn colour_is_for_terminals_whose_owner_wants_it() {
        for (terminal, set, coloured) in [
            (true, &[][..], true),
            (true, &[("TERM", "xterm")], true),
            (true, &[("TERM", "dumb")], false),
            (true, &[("NO_COLOR", "1")], false),
            (false, &[], false),
            (false, &[("CLICOLOR_FORCE", "1")], true),
            (false, &[("CLICOLOR_FORCE", "0")], false),
            (true, &[("CLICOLOR_FORCE", "0")], true),
            (true, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], true),
            (true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        ] {
            let style = if coloured { Style::Coloured } else { Style::Plain };
            assert_eq!(judged(terminal, Some(80), set).style, style, "{terminal} {set:?}");
        }
    }

    #[test]
    fn symbols_are_for_utf_8() {
        for (set, symbols) in [
            (&[("LANG", "de_DE.UTF-8")][..], true),
            (&[("LC_ALL", "C.utf8"), ("LANG", "C")], true),
            (&[("LC_ALL", "C"), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C.UTF-8")], false),
            (&[("LC_CTYPE", "POSIX"), ("LANG", "C.UTF-8")], false),
            (&[("LC_CTYPE", "C.UTF-8"), ("LANG", "C")], true),
            (&[], false),
        ] {
            for terminal in [true, false] {
                assert_eq!(judged(terminal, None, set).symbols, symbols, "{terminal} {set:?}");
            }
        }
    }

    #[test]
    fn the_terminal_knows_its_width_best() {
        for (terminal, size, columns, expected) in [
            (true, Some(132), "60", Some(132)),
            (true, Some(0), "60", Some(60)),
            (true, None, "60", Some(60)),
            (true, None, "0", Some(80)),
            (true, None, "-5", Some(80)),
            (true, None, "wide", Some(80)),
            (false, None, "60", None),
        ] {
            let screen = judged(terminal, size, &[("COLUMNS", columns)]);
            assert_eq!(screen.columns, expected, "{terminal} {size:?} {columns}");
        }
    }

    #[test]
    fn prose_is_neither_narrow_nor_wide() {
        for (columns, width) in
            [(None, 80), (Some(1), 40), (Some(40), 40), (Some(99), 99), (Some(300), 100)]
        {
            assert_eq!(Screen { columns, ..Screen::PIPE }.prose(), width, "{columns:?}");
        }
    }

    #[test]
    fn a_message_is_broken_on_terminals_only() {
        let text = "p.toml:12: something that is said in more words than fit into a line of eighty \
                    columns";
        assert_eq!(Screen::PIPE.warning(text), format!("warning: {text}"));
        let narrow =
            Screen { columns: Some(40), style: Style::Coloured, symbols: false }.warning(text);
        let expected = "\x1b[33mwarning:\x1b[0m p.toml:12: something that is\n  said in more words \
                        than fit into a\n  line of eighty columns";
        assert_eq!(narrow, expected);
    }
}
