//! How the story looks: as wide as the terminal, in colour and with symbols where it has them.

use super::{
    event::{Event, Kind, Who},
    wire::Message,
};
use crate::cli::{
    style::{Ink, wrapped},
    table::pairs,
    terminal::Screen,
};

/// Where the words of an event begin: behind its time and its name.
const INDENT: usize = 14;
/// From this width on its further lines begin there, too; on narrower ones that wastes the room.
const ROOMY: usize = 60;
const NARROW_INDENT: usize = 4;

/// How events are told where they are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look(pub(super) Screen);

/// Words that stay on one line, and their colour.
type Piece = (String, Option<Ink>);

impl Look {
    /// An event as lines.
    pub(super) fn text(self, event: &Event) -> String {
        match &event.kind {
            Kind::Scene { title, words } => {
                let width = self.0.prose();
                let title = wrapped(&self.0.style.strong(title), width, 3);
                format!("\n{title}\n{}\n\n", wrapped(words, width, 0))
            }
            Kind::Verdict { kept, naive_broke } => self.verdict(*kept, *naive_broke),
            Kind::Says(text) => self.entry(event, &split(text), 1),
            Kind::Granted { token } => {
                let text = format!("is granted the lock, with token {token}");
                self.entry(event, &split(&text), 1)
            }
            Kind::Request { method, path, token, claim, body } => {
                let mut pieces = vec![
                    (format!("{} {method} {path}", self.symbol("->", "\u{2192}")), None),
                    (format!("Fencing-Token: {token}"), None),
                ];
                pieces.extend(claim.then(|| ("Fencing-Claim: true".to_owned(), None)));
                pieces.extend((!body.is_empty()).then(|| (format!("\"{body}\""), None)));
                self.entry(event, &pieces, 2)
            }
            Kind::Answer { answer, waited } => {
                let waited = waited.map(|it| (format!("after {:.1}s", it.as_secs_f64()), None));
                let pieces: Vec<Piece> = self.answer(answer).into_iter().chain(waited).collect();
                self.entry(event, &pieces, 2) + &self.reason(answer)
            }
            Kind::File { content, right } => {
                let (sign, colour) = if *right {
                    (self.symbol("ok", "\u{2713}"), Some(Ink::Green))
                } else {
                    (self.symbol("WRONG", "\u{2717}"), Some(Ink::Red))
                };
                let pieces = [(format!("now has \"{content}\""), None), (sign.to_owned(), colour)];
                self.entry(event, &pieces, 2)
            }
        }
    }

    fn answer(self, answer: &Message) -> Vec<Piece> {
        let status = answer.start.split_once(' ').map_or("", |(_, status)| status);
        let refused = answer.status() >= 400;
        let arrow = self.symbol("<-", "\u{2190}");
        let mut pieces =
            vec![(format!("{arrow} {status}"), Some(if refused { Ink::Red } else { Ink::Green }))];
        let field = |(name, value): (String, serde_json::Value)| {
            (format!("{}: {}", titled(&name), value.as_str().unwrap_or_default()), None)
        };
        pieces.extend(answer.fencing().map(field));
        if !refused && !answer.body.is_empty() {
            pieces.push((format!("\"{}\"", answer.text()), None));
        }
        pieces
    }

    /// Of a refusal.
    fn reason(self, answer: &Message) -> String {
        let detail = answer.detail().filter(|_| answer.status() >= 400);
        let line = detail.map(|text| " ".repeat(self.indent() + 3) + &text + "\n");
        line.map(|line| wrapped(&line, self.0.prose(), 0)).unwrap_or_default()
    }

    fn verdict(self, kept: bool, naive_broke: bool) -> String {
        let palisade = if kept {
            ("refused the stale writes: the file is what B wrote", Some(Ink::Green))
        } else {
            ("LET A STALE WRITE THROUGH: please report this", Some(Ink::Red))
        };
        let naive = if naive_broke {
            ("let A's stale write land on B's, and told both that all was well", Some(Ink::Red))
        } else {
            ("kept the file whole this time", None)
        };
        let row = |(text, colour)| self.paint(text, colour);
        let rows = [("Palisade", row(palisade)), ("check and forward", row(naive))];
        let lines = pairs(&rows, 19, Screen { columns: Some(self.0.prose()), ..self.0 });
        let next = "Try it yourself: palisade serve, and curl as in the README's tour.";
        let next = wrapped(next, self.0.prose(), 0);
        format!("\n{lines}\n{next}\n")
    }

    /// Time, name, words.
    fn entry(self, event: &Event, pieces: &[Piece], gap: usize) -> String {
        let time = format!("{:>5.1}s", event.at.as_secs_f64());
        let colour = match event.who {
            Who::A => Some(Ink::Yellow),
            Who::B => Some(Ink::Cyan),
            Who::Store => Some(Ink::Magenta),
            Who::Nobody => None,
        };
        let name = format!("{:<6}", event.who.name());
        let words = self.flow(pieces, gap);
        format!("{}  {}{words}", self.paint(&time, Some(Ink::Dim)), self.paint(&name, colour))
    }

    /// Where the further lines of an event begin.
    fn indent(self) -> usize {
        if self.0.prose() < ROOMY { NARROW_INDENT } else { INDENT }
    }

    /// Pieces in lines that fit. The first line is begun already.
    fn flow(self, pieces: &[Piece], gap: usize) -> String {
        let (mut text, mut at, indent) = (String::new(), INDENT, self.indent());
        for (place, (piece, colour)) in pieces.iter().enumerate() {
            let width = piece.chars().count();
            let gap = if place == 0 { 0 } else { gap };
            if place > 0 && at + gap + width > self.0.prose() {
                text.push('\n');
                text.push_str(&" ".repeat(indent));
                at = indent + width;
            } else {
                text.push_str(&" ".repeat(gap));
                at += gap + width;
            }
            text.push_str(&self.paint(piece, *colour));
        }
        text + "\n"
    }

    fn paint(self, text: &str, colour: Option<Ink>) -> String {
        colour.map_or(text.to_owned(), |ink| self.0.style.paint(ink, text))
    }

    fn symbol(self, plain: &'static str, symbol: &'static str) -> &'static str {
        if self.0.symbols { symbol } else { plain }
    }
}

/// The words of a text.
fn split(text: &str) -> Vec<Piece> {
    text.split_whitespace().map(|word| (word.to_owned(), None)).collect()
}

/// `fencing-result` as people write it.
fn titled(name: &str) -> String {
    let word = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    name.split('-').filter(|part| !part.is_empty()).map(word).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests;
