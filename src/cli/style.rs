//! Colour, where a person reads it.

use std::{
    env,
    io::{self, IsTerminal},
};

/// How text for people is set off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Style {
    /// As it is: a pipe, a file, or a terminal whose owner wants no colour.
    Plain,
    /// With the escapes that every terminal of today knows.
    Coloured,
}

impl Style {
    /// What fits the standard output: colour on a terminal, unless `NO_COLOR` is set.
    pub(super) fn of_stdout() -> Self {
        let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        if io::stdout().is_terminal() && !unwanted && !dumb { Self::Coloured } else { Self::Plain }
    }

    /// A table's head, a name.
    pub(super) fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// All is well.
    pub(super) fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Somebody should look.
    pub(super) fn bad(self, text: &str) -> String {
        self.wrap("33", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

/// A text of somebody else's without what a terminal would obey.
pub(super) fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            harmless.extend(c.escape_default());
        } else {
            harmless.push(c);
        }
    }
    harmless
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_put_around_or_left_out() {
        assert_eq!(Style::Plain.good("ready"), "ready");
        assert_eq!(Style::Coloured.good("ready"), "\x1b[32mready\x1b[0m");
    }

    #[test]
    fn a_key_cannot_move_the_cursor() {
        assert_eq!(harmless("a\x1b[2J\nb"), "a\\u{1b}[2J\\nb");
        assert_eq!(harmless("\u{9b}1m\u{202e}x"), "\\u{9b}1m\\u{202e}x");
        assert_eq!(harmless("gr\u{fc}n \u{fffd}"), "gr\u{fc}n \u{fffd}");
    }
}
