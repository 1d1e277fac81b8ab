//! Colour and lines, where a person reads them.

/// How text for people is set off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Style {
    /// As it is: a pipe, a file, or a terminal whose owner wants no colour.
    Plain,
    /// With the escapes that every terminal of today knows.
    Coloured,
}

/// What a text is set off with: the number of an escape.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ink {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
    Magenta = 35,
    Cyan = 36,
}

impl Style {
    /// A table's head, a name.
    pub(super) fn strong(self, text: &str) -> String {
        self.paint(Ink::Bold, text)
    }

    /// All is well.
    pub(super) fn good(self, text: &str) -> String {
        self.paint(Ink::Green, text)
    }

    /// Somebody should look.
    pub(super) fn bad(self, text: &str) -> String {
        self.paint(Ink::Yellow, text)
    }

    /// It was not done.
    pub(super) fn wrong(self, text: &str) -> String {
        self.paint(Ink::Red, text)
    }

    pub(super) fn paint(self, ink: Ink, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\x1b[{}m{text}\x1b[0m", ink as u8),
        }
    }
}

/// How many columns a text takes: escapes of [`Style`] take none.
pub(super) fn columns(text: &str) -> usize {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().chars().count();
    let rest = parts.filter_map(|part| part.split_once('m'));
    first + rest.map(|(_, text)| text.chars().count()).sum::<usize>()
}

/// Every line of a text in lines of at most `width` columns, broken at spaces; what follows a break
/// is indented by `hanging` more. Words are never cut: one that is longer has a line of its own.
pub(super) fn wrapped(text: &str, width: usize, hanging: usize) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let indent = line.chars().take_while(|c| *c == ' ').count();
        let broken = format!("\n{}", " ".repeat(indent + hanging));
        let mut at = indent;
        wrapped.push_str(&line[..indent]);
        for (place, word) in line[indent..].split(' ').enumerate() {
            let room = columns(word.trim_end_matches('\n'));
            if place == 0 {
                at += room;
            } else if at + 1 + room > width {
                wrapped.push_str(&broken);
                at = indent + hanging + room;
            } else {
                wrapped.push(' ');
                at += 1 + room;
            }
            wrapped.push_str(word);
        }
    }
    wrapped
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
        assert_eq!(Style::Coloured.strong("KEY"), "\x1b[1mKEY\x1b[0m");
    }

    #[test]
    fn lines_are_broken_at_spaces_and_words_are_kept() {
        for (text, width, expected) in [
            ("", 5, ""),
            ("\n\n", 5, "\n\n"),
            ("a bc d\n", 6, "a bc d\n"),
            ("a bc d\n", 5, "a bc\n  d\n"),
            ("  a bc d", 6, "  a bc\n    d"),
            ("a  b", 9, "a  b"),
            ("longer-than-it b", 5, "longer-than-it\n  b"),
            ("a longer-than-it", 5, "a\n  longer-than-it"),
            ("gr\u{fc}n bl", 7, "gr\u{fc}n bl"),
            ("\x1b[32ma b\x1b[0m c", 5, "\x1b[32ma b\x1b[0m c"),
            ("\x1b[32ma b\x1b[0m c", 4, "\x1b[32ma b\x1b[0m\n  c"),
        ] {
            assert_eq!(wrapped(text, width, 2), expected, "{text:?} {width}");
        }
    }

    #[test]
    fn a_key_cannot_move_the_cursor() {
        assert_eq!(harmless("a\x1b[2J\nb"), "a\\u{1b}[2J\\nb");
        assert_eq!(harmless("\u{9b}1m\u{202e}x"), "\\u{9b}1m\\u{202e}x");
        assert_eq!(harmless("gr\u{fc}n \u{fffd}"), "gr\u{fc}n \u{fffd}");
    }
}
