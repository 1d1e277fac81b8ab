//! A table of strings: names that the operator chooses, each with a text.

use toml::de::DeValue;

use super::{Placed, Section, kind};
use crate::config::error::Wrong;

impl Section<'_> {
    /// The entries of a table as `read` takes name and text, in the file's order. `None` also where
    /// one of them is a mistake.
    pub(in crate::config) fn pairs<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str, &str) -> Result<T, Wrong>,
    ) -> Option<Vec<Placed<T>>> {
        let (value, span) = self.value(key)?;
        let DeValue::Table(table) = value else {
            self.wrong(key, &span, kind(value, "a table, like { name = \"value\" }"));
            return None;
        };
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let entry = |(name, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let name: &str = std::borrow::Cow::as_ref(name.get_ref());
            let place = format!("{key}.{name}");
            self.string(&place, value.get_ref(), &value.span(), |text| read(name, text))
        };
        // All are read, so that all mistakes are reported.
        let read: Vec<Option<Placed<T>>> = entries.into_iter().map(entry).collect();
        read.into_iter().collect()
    }
}
