//! The TOML file as sections whose keys are read one by one.
//!
//! It owns the places in the file and the list of mistakes: a reader asks for a key, names what it
//! wants, and goes on with a default where the value is wrong, so that all mistakes are reported
//! together. A key that nobody asked for is unknown. It knows no key's meaning.

mod pairs;

use std::{cell::RefCell, ops::Range, time::Duration};

use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

use super::{
    error::{ConfigError, Wrong},
    values,
};

/// What every section needs: the file, the environment, and where mistakes are put.
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    pub(super) env: &'a dyn Fn(&str) -> Option<String>,
    pub(super) errors: RefCell<Vec<ConfigError>>,
}

impl Source<'_> {
    /// The line of a place in the file, from 1.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(span.start);
        1 + before.filter(|byte| **byte == b'\n').count()
    }

    /// Notes a mistake.
    pub(super) fn error(&self, line: usize, key: impl Into<String>, wrong: Wrong) {
        let (file, key) = (self.file.to_owned(), key.into());
        let Wrong { what, remedy } = wrong;
        self.errors.borrow_mut().push(ConfigError { file, line: Some(line), key, what, remedy });
    }
}

/// One table of the file.
pub(super) struct Section<'a> {
    source: &'a Source<'a>,
    /// As it stands in the file: `[server]`; empty for the file itself.
    title: String,
    /// The line of its head.
    pub(super) line: usize,
    table: Option<&'a DeTable<'a>>,
    known: Vec<&'static str>,
}

/// A text, and its line.
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) line: usize,
}

impl<'a> Section<'a> {
    pub(super) fn root(source: &'a Source<'a>, table: &'a DeTable<'a>) -> Self {
        Self { source, title: String::new(), line: 1, table: Some(table), known: Vec::new() }
    }

    /// Whether it is in the file at all.
    pub(super) fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// A table below this one; an empty one where there is none.
    pub(super) fn section(&mut self, key: &'static str) -> Section<'a> {
        let found = self.value(key);
        let title = match self.title.strip_suffix(']') {
            Some(above) => format!("{above}.{key}]"),
            None => format!("[{key}]"),
        };
        let line = found.as_ref().map_or(1, |(_, span)| self.source.line(span));
        let table = found.and_then(|(value, span)| self.table_of(value, &span, &title));
        Section { source: self.source, title, line, table, known: Vec::new() }
    }

    /// The tables below `[key.NAME]`, in the file's order, each with its name. `None` where the
    /// mistake is reported.
    pub(super) fn named_sections(
        &mut self,
        key: &'static str,
    ) -> Option<Vec<(String, Section<'a>)>> {
        let Some((value, span)) = self.value(key) else { return Some(Vec::new()) };
        let table = self.table_of(value, &span, &format!("[{key}]"))?;
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let section = |(name, value): (&Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let name = str::to_owned(std::borrow::Cow::as_ref(name.get_ref()));
            let title = format!("[{key}.{name}]");
            let line = self.source.line(&value.span());
            let table = self.table_of(value.get_ref(), &value.span(), &title);
            (name, Section { source: self.source, title, line, table, known: Vec::new() })
        };
        Some(entries.into_iter().map(section).collect())
    }

    /// The tables of `[[key]]`, in the file's order. `None` where the mistake is reported.
    pub(super) fn listed_sections(&mut self, key: &'static str) -> Option<Vec<Section<'a>>> {
        let Some((value, span)) = self.value(key) else { return Some(Vec::new()) };
        let title = format!("[[{key}]]");
        let DeValue::Array(array) = value else {
            let wrong = kind(value, &title);
            self.source.error(self.source.line(&span), title, wrong);
            return None;
        };
        let section = |value: &'a Spanned<DeValue<'a>>| {
            let line = self.source.line(&value.span());
            let table = self.table_of(value.get_ref(), &value.span(), &title);
            Section { source: self.source, title: title.clone(), line, table, known: Vec::new() }
        };
        Some(array.iter().map(section).collect())
    }

    /// The tables of a key that is one table or a list of them. `None` where the mistake is
    /// reported, as it is of each item that is no table.
    pub(super) fn tables(&mut self, key: &'static str) -> Option<Vec<Section<'a>>> {
        let (value, span) = self.value(key)?;
        let title = format!("{} {key}", self.title);
        let section = |value: &'a DeValue<'a>, span: &Range<usize>| {
            let line = self.source.line(span);
            let table = Some(self.table_of(value, span, &title)?);
            let title = title.clone();
            Some(Section { source: self.source, title, line, table, known: Vec::new() })
        };
        if let DeValue::Array(array) = value {
            let sections = array.iter().map(|item| section(item.get_ref(), &item.span()));
            return Some(sections.flatten().collect());
        }
        section(value, &span).map(|one| vec![one])
    }

    /// A string, with its variables replaced, as `read` takes it.
    pub(super) fn text<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, Wrong>,
    ) -> Option<Placed<T>> {
        let (value, span) = self.value(key)?;
        self.string(key, value, &span, read)
    }

    /// A string, or a list of strings. `None` also where one of them is a mistake.
    pub(super) fn texts<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Option<Vec<Placed<T>>> {
        let (value, span) = self.value(key)?;
        if let DeValue::Array(array) = value {
            return self.strings(key, array, &read);
        }
        self.string(key, value, &span, &read).map(|one| vec![one])
    }

    /// A time.
    pub(super) fn duration(&mut self, key: &'static str, default: Duration) -> Duration {
        self.text(key, values::positive_duration).map_or(default, |found| found.value)
    }

    /// A size in bytes within bounds.
    pub(super) fn size(&mut self, key: &'static str, default: u64, bounds: (u64, u64)) -> u64 {
        let found = self.text(key, |text| values::size_within(text, bounds));
        found.map_or(default, |found| found.value)
    }

    /// One of a few words; the default where it is not there.
    pub(super) fn word<T: Clone>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        default: T,
    ) -> T {
        let found = self.text(key, |text| values::one_of(text, words));
        found.map_or(default, |found| found.value)
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        let Some((value, span)) = self.value(key) else { return default };
        if let DeValue::Boolean(flag) = value {
            return *flag;
        }
        self.wrong(key, &span, kind(value, "true or false"));
        default
    }

    /// A whole number within bounds.
    pub(super) fn number(&mut self, key: &'static str, bounds: (u64, u64)) -> Option<u64> {
        let (value, span) = self.value(key)?;
        let read = whole_number(value, bounds);
        read.map_err(|wrong| self.wrong(key, &span, wrong)).ok()
    }

    /// A list of whole numbers within bounds.
    pub(super) fn numbers(&mut self, key: &'static str, bounds: (u64, u64)) -> Vec<Placed<u64>> {
        let Some((value, span)) = self.value(key) else { return Vec::new() };
        let DeValue::Array(array) = value else {
            self.wrong(key, &span, kind(value, "a list of whole numbers"));
            return Vec::new();
        };
        let mut numbers = Vec::new();
        for item in array {
            match whole_number(item.get_ref(), bounds) {
                Ok(value) => {
                    numbers.push(Placed { value, line: self.source.line(&item.span()) });
                }
                Err(wrong) => self.wrong(key, &item.span(), wrong),
            }
        }
        numbers
    }

    /// A string or a whole number, given to `read` as text.
    pub(super) fn text_or_number<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, Wrong>,
    ) -> Option<T> {
        let (value, span) = self.value(key)?;
        let DeValue::Integer(number) = value else {
            return self.string(key, value, &span, read).map(|found| found.value);
        };
        read(&number.to_string()).map_err(|wrong| self.wrong(key, &span, wrong)).ok()
    }

    /// Whether a key is there; it is known from now on.
    pub(super) fn has(&mut self, key: &'static str) -> bool {
        self.value(key).is_some()
    }

    /// Whether a key's value is a list.
    pub(super) fn is_list(&mut self, key: &'static str) -> bool {
        matches!(self.value(key), Some((DeValue::Array(_), _)))
    }

    /// The line of a key, or of the section where the key is not there.
    pub(super) fn line_of(&mut self, key: &'static str) -> usize {
        self.value(key).map_or(self.line, |(_, span)| self.source.line(&span))
    }

    /// A mistake at a key, or at the section's head where the key is not there.
    pub(super) fn error(&mut self, key: &'static str, wrong: Wrong) {
        let line = self.line_of(key);
        self.source.error(line, self.name(key), wrong);
    }

    /// A mistake on a line.
    pub(super) fn error_on(&self, line: usize, key: &str, wrong: Wrong) {
        self.source.error(line, self.name(key), wrong);
    }

    /// Keys that a later version has: refused, since ignoring one could void what it promises.
    pub(super) fn unsupported(&mut self, keys: &[&'static str]) {
        for key in keys {
            if self.has(key) {
                let wrong = Wrong::new("it is not supported by this version", "remove it");
                self.error(key, wrong);
            }
        }
    }

    /// Refuses keys that have no meaning beside another setting.
    pub(super) fn refuse(&mut self, keys: &[&'static str], beside: &str) {
        for key in keys {
            if self.has(key) {
                self.error(key, Wrong::new(format!("it has no meaning {beside}"), "remove it"));
            }
        }
    }

    /// Reports the keys that nobody asked for.
    pub(super) fn finish(self) {
        let Some(table) = self.table else { return };
        for (name, value) in table {
            let key: &str = name.get_ref().as_ref();
            if self.known.contains(&key) {
                continue;
            }
            let kind = if self.title.is_empty() { "section" } else { "key" };
            let wrong = Wrong::new(format!("unknown {kind}"), nearest(key, &self.known));
            let start = name.span().start.min(value.span().start);
            self.source.error(self.source.line(&(start..start)), self.name(key), wrong);
        }
    }

    fn value(&mut self, key: &'static str) -> Option<(&'a DeValue<'a>, Range<usize>)> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let value = self.table?.get(key)?;
        Some((value.get_ref(), value.span()))
    }

    fn table_of(
        &self,
        value: &'a DeValue<'a>,
        span: &Range<usize>,
        title: &str,
    ) -> Option<&'a DeTable<'a>> {
        if let DeValue::Table(table) = value {
            return Some(table);
        }
        self.source.error(self.source.line(span), title, kind(value, "a table"));
        None
    }

    fn strings<T>(
        &self,
        key: &str,
        array: &'a DeArray<'a>,
        read: &impl Fn(&str) -> Result<T, Wrong>,
    ) -> Option<Vec<Placed<T>>> {
        let item =
            |item: &'a Spanned<DeValue<'a>>| self.string(key, item.get_ref(), &item.span(), read);
        // All are read, so that all mistakes are reported.
        let read: Vec<Option<Placed<T>>> = array.iter().map(item).collect();
        read.into_iter().collect()
    }

    fn string<T>(
        &self,
        key: &str,
        value: &DeValue<'_>,
        span: &Range<usize>,
        read: impl FnOnce(&str) -> Result<T, Wrong>,
    ) -> Option<Placed<T>> {
        let read = if let DeValue::String(text) = value {
            values::expand(text, self.source.env).and_then(|text| read(&text))
        } else {
            Err(kind(value, "a string in quotes"))
        };
        let line = self.source.line(span);
        read.map_err(|wrong| self.wrong(key, span, wrong)).ok().map(|value| Placed { value, line })
    }

    fn wrong(&self, key: &str, span: &Range<usize>, wrong: Wrong) {
        self.source.error(self.source.line(span), self.name(key), wrong);
    }

    fn name(&self, key: &str) -> String {
        match (self.title.as_str(), key) {
            ("", key) => format!("[{key}]"),
            (title, "") => title.to_owned(),
            (title, key) => format!("{title} {key}"),
        }
    }
}

fn kind(value: &DeValue<'_>, wanted: &str) -> Wrong {
    let article = if value.type_str().starts_with(['a', 'i']) { "an" } else { "a" };
    Wrong::new(format!("it is {article} {}", value.type_str()), format!("write {wanted}"))
}

fn whole_number(value: &DeValue<'_>, (least, most): (u64, u64)) -> Result<u64, Wrong> {
    let DeValue::Integer(number) = value else { return Err(kind(value, "a whole number")) };
    let read = u64::from_str_radix(number.as_str(), number.radix()).ok();
    read.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
        Wrong::new(format!("{number} is out of bounds"), format!("write {least} to {most}"))
    })
}

fn nearest(key: &str, known: &[&'static str]) -> String {
    let distance = |known: &&&str| strsim::damerau_levenshtein(key, known);
    known
        .iter()
        .min_by_key(distance)
        .map_or_else(String::new, |nearest| format!("the nearest known one is \"{nearest}\""))
}
