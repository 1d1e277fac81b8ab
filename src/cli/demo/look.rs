//! How the story looks: 80 columns, in colour and with symbols where the terminal has them.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use super::{
    event::{Event, Kind, Who},
    wire::Message,
};

const WIDTH: usize = 80;
/// Where the words of an event begin: behind its time and its name.
const INDENT: usize = 14;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const MAGENTA: &str = "35";
const CYAN: &str = "36";
const PLAIN: &str = "";

/// What the terminal can show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Look {
    colour: bool,
    symbols: bool,
}

/// Words that stay on one line, and their colour.
type Piece = (String, &'static str);

impl Look {
    pub(super) fn of_stdout() -> Self {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        Self::of(io::stdout().is_terminal(), &set)
    }

    /// `set` answers for the environment, but not with empty texts.
    fn of(terminal: bool, set: &dyn Fn(&str) -> Option<String>) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        Self {
            colour: terminal && !dumb && set("NO_COLOR").is_none(),
            symbols: terminal && (locale.contains("utf-8") || locale.contains("utf8")),
        }
    }

    /// An event as lines.
    pub(super) fn text(self, event: &Event) -> String {
        match &event.kind {
            Kind::Scene { title, words } => {
                let title = self.paint(title, BOLD);
                format!("\n{title}\n{}\n", self.flow(&split(words), 0, 1))
            }
            Kind::Verdict { kept, naive_broke } => self.verdict(*kept, *naive_broke),
            Kind::Says(text) => self.entry(event, &split(text), 1),
            Kind::Granted { token } => {
                let text = format!("is granted the lock, with token {token}");
                self.entry(event, &split(&text), 1)
            }
            Kind::Request { method, path, token, claim, body } => {
                let mut pieces = vec![
                    (format!("{} {method} {path}", self.symbol("->", "\u{2192}")), PLAIN),
                    (format!("Fencing-Token: {token}"), PLAIN),
                ];
                pieces.extend(claim.then(|| ("Fencing-Claim: true".to_owned(), PLAIN)));
                pieces.extend((!body.is_empty()).then(|| (format!("\"{body}\""), PLAIN)));
                self.entry(event, &pieces, 2)
            }
            Kind::Answer { answer, waited } => {
                let waited = waited.map(|it| (format!("after {:.1}s", it.as_secs_f64()), PLAIN));
                let pieces: Vec<Piece> = self.answer(answer).into_iter().chain(waited).collect();
                self.entry(event, &pieces, 2) + &self.reason(answer)
            }
            Kind::File { content, right } => {
                let (sign, colour) = if *right {
                    (self.symbol("ok", "\u{2713}"), GREEN)
                } else {
                    (self.symbol("WRONG", "\u{2717}"), RED)
                };
                let pieces = [(format!("now has \"{content}\""), PLAIN), (sign.to_owned(), colour)];
                self.entry(event, &pieces, 2)
            }
        }
    }

    fn answer(self, answer: &Message) -> Vec<Piece> {
        let status = answer.start.split_once(' ').map_or("", |(_, status)| status);
        let refused = answer.status() >= 400;
        let arrow = self.symbol("<-", "\u{2190}");
        let mut pieces = vec![(format!("{arrow} {status}"), if refused { RED } else { GREEN })];
        let field = |(name, value): (String, serde_json::Value)| {
            (format!("{}: {}", titled(&name), value.as_str().unwrap_or_default()), PLAIN)
        };
        pieces.extend(answer.fencing().map(field));
        if !refused && !answer.body.is_empty() {
            pieces.push((format!("\"{}\"", answer.text()), PLAIN));
        }
        pieces
    }

    /// Of a refusal.
    fn reason(self, answer: &Message) -> String {
        let indent = " ".repeat(INDENT + 3);
        let lines = answer.detail().filter(|_| answer.status() >= 400);
        lines.map(|text| indent + &self.flow(&split(&text), INDENT + 3, 1)).unwrap_or_default()
    }

    fn verdict(self, kept: bool, naive_broke: bool) -> String {
        let palisade = if kept {
            ("refused the stale writes: the file is what B wrote", GREEN)
        } else {
            ("LET A STALE WRITE THROUGH: please report this", RED)
        };
        let naive = if naive_broke {
            ("let A's stale write land on B's, and told both that all was well", RED)
        } else {
            ("kept the file whole this time", PLAIN)
        };
        let line = |name: &str, (text, colour): (&str, &'static str)| {
            let text = text.split(' ').map(|word| (word.to_owned(), colour)).collect::<Vec<_>>();
            format!("{name:<19}{}", self.flow(&text, 19, 1))
        };
        let next = "Try it yourself: palisade serve, and curl as in the README's tour.";
        let lines = line("Palisade", palisade) + &line("check and forward", naive);
        format!("\n{lines}\n{next}\n")
    }

    /// Time, name, words.
    fn entry(self, event: &Event, pieces: &[Piece], gap: usize) -> String {
        let time = format!("{:>5.1}s", event.at.as_secs_f64());
        let colour = match event.who {
            Who::A => YELLOW,
            Who::B => CYAN,
            Who::Store => MAGENTA,
            Who::Nobody => PLAIN,
        };
        let name = format!("{:<6}", event.who.name());
        let words = self.flow(pieces, INDENT, gap);
        format!("{}  {}{words}", self.paint(&time, DIM), self.paint(&name, colour))
    }

    /// Pieces in lines of at most [`WIDTH`]; the first line is begun already, up to `indent`.
    fn flow(self, pieces: &[Piece], indent: usize, gap: usize) -> String {
        let (mut text, mut at) = (String::new(), indent);
        for (piece, colour) in pieces {
            let width = piece.chars().count();
            let gap = if at == indent { 0 } else { gap };
            if at > indent && at + gap + width > WIDTH {
                text.push('\n');
                text.push_str(&" ".repeat(indent));
                at = indent + width;
            } else {
                text.push_str(&" ".repeat(gap));
                at += gap + width;
            }
            text.push_str(&self.paint(piece, colour));
        }
        text + "\n"
    }

    fn paint(self, text: &str, colour: &str) -> String {
        if self.colour && !colour.is_empty() {
            format!("\u{1b}[{colour}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn symbol(self, plain: &'static str, symbol: &'static str) -> &'static str {
        if self.symbols { symbol } else { plain }
    }
}

/// The words of a text.
fn split(text: &str) -> Vec<Piece> {
    text.split_whitespace().map(|word| (word.to_owned(), PLAIN)).collect()
}

/// `fencing-result` as people write it.
fn titled(name: &str) -> String {
    let word = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    name.split('-').filter(|part| !part.is_empty()).map(word).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests;
