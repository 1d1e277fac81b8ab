//! How a route makes keys, in a form in which two routes can be compared (R11).
//!
//! A key is written as a word over the path's segments: `{1}` is the second one, `{2..}` the third
//! and all after, so that neither names nor patterns matter. Two forms agree where their words,
//! spelt out over the paths that match both, are the same; a proof, so what is not provable does
//! not agree. The texts are what the store keeps between starts. It never sees a request.

use std::fmt::Write;

use super::{Pattern, Template, shape::Shape, template::Field};

#[cfg(test)]
mod tests;

/// At the end of a key's text where case is folded; a literal brace is written twice, so no
/// template ends so by itself.
const FOLD: &str = "{fold}";

/// Which paths, and the key each of them gets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyForm {
    shape: Shape,
    fold: bool,
    word: Vec<Atom>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Atom {
    Text(String),
    Segment(usize),
    From(usize),
    Host,
    Query(String),
    Header(String),
}

impl KeyForm {
    /// The form of a route; `fold` is the upstream's `fold_case`, under which letters that differ
    /// in case only name one object.
    pub fn new(pattern: &Pattern, template: &Template, fold: bool) -> Self {
        let shape = if fold { pattern.shape().folded() } else { pattern.shape().clone() };
        let atom = |field: &Field| match field {
            Field::Text(text) if fold => Atom::Text(text.to_ascii_lowercase()),
            Field::Text(text) => Atom::Text(text.clone()),
            Field::Path => Atom::From(0),
            Field::Capture(at) => captured(pattern, *at),
            Field::Host => Atom::Host,
            Field::Query(name) => Atom::Query(name.clone()),
            Field::Header(name) => Atom::Header(name.as_str().to_owned()),
        };
        let word = template.fields.iter().map(atom).collect();
        Self { word: contract(spell(word, &shape), &shape), shape, fold }
    }

    /// Reads what [`KeyForm::pattern`] and [`KeyForm::template`] wrote; `None` for anything else.
    pub fn read(pattern: &str, template: &str) -> Option<Self> {
        let fold = pattern.starts_with('~');
        let shape = Shape::read(pattern.strip_prefix('~').unwrap_or(pattern))?;
        let word = template.strip_suffix(FOLD).unwrap_or(template);
        (fold == template.ends_with(FOLD)).then_some(Self { shape, fold, word: read_word(word)? })
    }

    /// Its paths as text: `/literal/{}/{*}`, after a `~` where letters' case is folded.
    pub fn pattern(&self) -> String {
        format!("{}{}", if self.fold { "~" } else { "" }, self.shape)
    }

    /// Its keys as text: `{0..}` is the whole path, `{fold}` at the end says that case is folded.
    /// Forms of one text agree, whatever the pattern.
    pub fn template(&self) -> String {
        let mut text = String::new();
        for atom in &self.word {
            // Writing to a String does not fail.
            let _ = match atom {
                Atom::Text(part) => {
                    write!(text, "{}", part.replace('{', "{{").replace('}', "}}"))
                }
                Atom::Segment(at) => write!(text, "{{{at}}}"),
                Atom::From(at) => write!(text, "{{{at}..}}"),
                Atom::Host => write!(text, "{{host}}"),
                Atom::Query(name) => write!(text, "{{query.{name}}}"),
                Atom::Header(name) => write!(text, "{{header.{name}}}"),
            };
        }
        text + if self.fold { FOLD } else { "" }
    }

    /// Whether some path belongs to both.
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.fold || other.fold {
            return self.shape.folded().overlaps(&other.shape.folded());
        }
        self.shape.overlaps(&other.shape)
    }

    /// Whether every path that belongs to both is proven to get the same key from both.
    pub fn agrees(&self, other: &Self) -> bool {
        if !self.overlaps(other) {
            return true;
        }
        let both = self.shape.meet(&other.shape);
        let spelt = |form: &Self| spell(form.word.clone(), &both);
        self.fold == other.fold && spelt(self) == spelt(other)
    }
}

/// R11 on the store's texts: whether a path can get another key by the second pattern and template
/// than by the first. Texts that cannot be read conflict unless they are the same.
#[cfg(test)]
pub(super) fn keys_conflict(one: (&str, &str), two: (&str, &str)) -> bool {
    match (KeyForm::read(one.0, one.1), KeyForm::read(two.0, two.1)) {
        (Some(one), Some(two)) => !one.agrees(&two),
        _ => one != two,
    }
}

fn captured(pattern: &Pattern, capture: usize) -> Atom {
    let segment = pattern.segment_of(capture).unwrap_or_default();
    let free = segment < pattern.shape().segments.len();
    if free { Atom::Segment(segment) } else { Atom::From(segment) }
}

/// Spells a word out over the paths of `shape`: literals as text, and of the rest only what lies
/// beyond the segments. Equal words are then written equally.
fn spell(word: Vec<Atom>, shape: &Shape) -> Vec<Atom> {
    let mut spelt = Vec::new();
    for atom in word {
        match atom {
            Atom::Segment(at) => push(&mut spelt, segment(at, shape)),
            Atom::From(at) => from(at, shape).into_iter().for_each(|atom| push(&mut spelt, atom)),
            Atom::Text(_) | Atom::Host | Atom::Query(_) | Atom::Header(_) => push(&mut spelt, atom),
        }
    }
    spelt
}

fn segment(at: usize, shape: &Shape) -> Atom {
    match shape.segments.get(at) {
        Some(Some(literal)) => Atom::Text(literal.clone()),
        _ => Atom::Segment(at),
    }
}

/// The segments from `at` on, joined by slashes.
fn from(at: usize, shape: &Shape) -> Vec<Atom> {
    let length = shape.segments.len();
    let mut atoms: Vec<Atom> = (at..length).map(|at| segment(at, shape)).collect();
    if shape.rest {
        atoms.push(Atom::From(at.max(length)));
    }
    let slashes = atoms.len().saturating_sub(1);
    for between in (1..=slashes).rev() {
        atoms.insert(between, Atom::Text("/".to_owned()));
    }
    atoms
}

/// Appends an atom; neighbouring texts become one.
fn push(word: &mut Vec<Atom>, atom: Atom) {
    match (word.last_mut(), atom) {
        (Some(Atom::Text(before)), Atom::Text(text)) => before.push_str(&text),
        (_, atom) => word.push(atom),
    }
}

/// Writes the end of a spelt word as the longest end of the path that it is, so that the whole
/// path is `{0..}` under every pattern.
fn contract(word: Vec<Atom>, shape: &Shape) -> Vec<Atom> {
    let last = shape.segments.len() + usize::from(shape.rest);
    for at in 0..last {
        let end = spell(vec![Atom::From(at)], shape);
        if let Some(mut before) = without_end(&word, &end) {
            before.push(Atom::From(at));
            return before;
        }
    }
    word
}

/// What stands before `end` in `word`, if it ends so; the first text of `end` may be the end of a
/// longer one.
fn without_end(word: &[Atom], end: &[Atom]) -> Option<Vec<Atom>> {
    let at = word.len().checked_sub(end.len())?;
    let (first, others) = end.split_first()?;
    let (before, tail) = word.split_at(at);
    let (found, found_others) = tail.split_first()?;
    if found_others != others {
        return None;
    }
    let mut before = before.to_vec();
    match (found, first) {
        (Atom::Text(found), Atom::Text(wanted)) => {
            let left = found.strip_suffix(wanted.as_str())?;
            if !left.is_empty() {
                before.push(Atom::Text(left.to_owned()));
            }
        }
        _ if found == first => {}
        _ => return None,
    }
    Some(before)
}

fn read_word(mut text: &str) -> Option<Vec<Atom>> {
    let mut word = Vec::new();
    while let Some(first) = text.chars().next() {
        if text.starts_with("{{") || text.starts_with("}}") {
            push(&mut word, Atom::Text(first.to_string()));
            text = &text[2..];
        } else if let Some(inner) = text.strip_prefix('{') {
            let (name, after) = inner.split_once('}')?;
            word.push(read_atom(name)?);
            text = after;
        } else {
            push(&mut word, Atom::Text(first.to_string()));
            text = &text[first.len_utf8()..];
        }
    }
    Some(word)
}

fn read_atom(name: &str) -> Option<Atom> {
    if name == "host" {
        return Some(Atom::Host);
    }
    if let Some(query) = name.strip_prefix("query.") {
        return Some(Atom::Query(query.to_owned()));
    }
    if let Some(header) = name.strip_prefix("header.") {
        return Some(Atom::Header(header.to_owned()));
    }
    match name.strip_suffix("..") {
        Some(at) => at.parse().ok().map(Atom::From),
        None => name.parse().ok().map(Atom::Segment),
    }
}
