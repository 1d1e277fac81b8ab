//! A route's key template: `fence = "{bucket}/{object}"`, and without one the whole path.
//!
//! It owns how a key's bytes are put together from what the path pattern captured, the host, and
//! query and header values. It never decodes a request itself: [`KeyParts`] is asked for those, and
//! a part that is missing or stands twice is an error, never a guess (R11).

use std::borrow::Cow;

use http::HeaderName;

use super::{Captures, Pattern, outbound::is_rewritten};

#[cfg(test)]
mod tests;

/// Most fields of one template.
const MAX_FIELDS: usize = 32;

/// A checked template.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Template {
    text: Option<String>,
    pub(super) fields: Vec<Field>,
}

/// What a template puts together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Field {
    Text(String),
    Path,
    Capture(usize),
    Host,
    Query(String),
    Header(HeaderName),
}

/// The parts of a request that a key can be made of, beside its path.
pub trait KeyParts {
    /// The request's host in lower case, without a port.
    fn host(&self) -> Result<Cow<'_, [u8]>, PartError>;

    /// The one value of a query parameter, percent-decoded once by the path's own strict rule.
    fn query(&self, name: &str) -> Result<Cow<'_, [u8]>, PartError>;

    /// The one value of a header field.
    fn header(&self, name: &HeaderName) -> Result<Cow<'_, [u8]>, PartError>;
}

/// Why a part of a request cannot be part of its key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PartError {
    /// It is not there.
    #[error("is missing")]
    Missing,
    /// It is there more than once.
    #[error("stands more than once")]
    Doubled,
    /// Two readers could read it differently.
    #[error("is malformed")]
    Malformed,
}

/// Why a request has no key: it is refused as `target-ambiguous`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RenderError {
    /// A part that the template names; its name as in the template, and what is wrong.
    #[error("{part} {why}, and the fence key is made of it")]
    Part {
        /// `host`, `query.NAME` or `header.NAME`.
        part: String,
        /// What is wrong with it.
        why: PartError,
    },
    /// The key would have no bytes.
    #[error("the fence key would be empty")]
    Empty,
    /// Under `fold_case`: which letters beyond ASCII are one to the store, nobody knows.
    #[error(
        "the fence key has a character beyond ASCII, whose case the store may fold in its own way"
    )]
    Unfoldable,
}

impl Template {
    /// The default: the whole decoded path without its leading slash.
    pub fn whole_path() -> Self {
        Self { text: None, fields: vec![Field::Path] }
    }

    /// Reads a template as written in the configuration; its names are those of `pattern`.
    /// A brace itself is written twice.
    ///
    /// # Errors
    /// [`TemplateError`] says what is wrong with it, in words for the operator.
    pub fn parse(text: &str, pattern: &Pattern) -> Result<Self, TemplateError> {
        let mut fields = Vec::new();
        let mut literal = String::new();
        let mut left = text;
        while let Some(first) = left.chars().next() {
            if left.starts_with("{{") || left.starts_with("}}") {
                literal.push(first);
                left = &left[2..];
            } else if let Some(inner) = left.strip_prefix('{') {
                let (name, after) = inner.split_once('}').ok_or(TemplateError::Unclosed)?;
                push_text(&mut fields, &mut literal);
                fields.push(field(name, pattern)?);
                left = after;
            } else if first == '}' {
                return Err(TemplateError::Unopened);
            } else if !first.is_ascii_graphic() {
                return Err(TemplateError::NotPlain);
            } else {
                literal.push(first);
                left = &left[1..];
            }
        }
        push_text(&mut fields, &mut literal);
        match fields.len() {
            0 => Err(TemplateError::Empty),
            1..=MAX_FIELDS => Ok(Self { text: Some(text.to_owned()), fields }),
            _ => Err(TemplateError::TooLong),
        }
    }

    /// The template as written; `None` where it is the default.
    pub fn as_str(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The parts beside the path that its keys depend on, as `store_honours` lists them: `host`,
    /// `query.NAME`, `header.name`.
    pub fn splits_by(&self) -> impl Iterator<Item = String> {
        self.fields.iter().filter_map(|field| match field {
            Field::Text(_) | Field::Path | Field::Capture(_) => None,
            Field::Host => Some("host".to_owned()),
            Field::Query(name) => Some(format!("query.{name}")),
            Field::Header(name) => Some(format!("header.{name}")),
        })
    }

    /// Makes the key of a request, out of the path that the pattern matched and its captures.
    ///
    /// # Errors
    /// [`RenderError`]: the request cannot be mapped to one key for certain.
    pub fn render<'p>(
        &self,
        captures: &Captures,
        path: &'p [u8],
        parts: &dyn KeyParts,
    ) -> Result<Cow<'p, [u8]>, RenderError> {
        if let ([Field::Path], [b'/', rest @ ..]) = (&*self.fields, path)
            && !rest.is_empty()
        {
            return Ok(rest.into());
        }
        let mut key = Vec::with_capacity(path.len());
        for field in &self.fields {
            let bytes: Result<Cow<'_, [u8]>, PartError> = match field {
                Field::Text(text) => Ok(text.as_bytes().into()),
                Field::Path => Ok(path.strip_prefix(b"/").unwrap_or(path).into()),
                Field::Capture(at) => {
                    captures.of(*at, path).map(Into::into).ok_or(PartError::Missing)
                }
                Field::Host => parts.host(),
                Field::Query(name) => parts.query(name),
                Field::Header(name) => parts.header(name),
            };
            let bytes = bytes.map_err(|why| RenderError::Part { part: field.name(), why })?;
            key.extend_from_slice(&bytes);
        }
        if key.is_empty() { Err(RenderError::Empty) } else { Ok(key.into()) }
    }
}

impl Field {
    fn name(&self) -> String {
        match self {
            Self::Text(_) | Self::Path | Self::Capture(_) => "the path".to_owned(),
            Self::Host => "host".to_owned(),
            Self::Query(name) => format!("query.{name}"),
            Self::Header(name) => format!("header.{name}"),
        }
    }
}

/// Why a text is no template.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TemplateError {
    /// No field and no text.
    #[error("it is empty; leave it out for the whole path")]
    Empty,
    /// A brace is opened and not closed.
    #[error("a \"{{\" is not closed; write \"{{{{\" for the brace itself")]
    Unclosed,
    /// A brace is closed and was not opened.
    #[error("a \"}}\" was not opened; write \"}}}}\" for the brace itself")]
    Unopened,
    /// Blanks, control characters, or not ASCII.
    #[error("it has a character that is not visible ASCII")]
    NotPlain,
    /// Not a name of the path, nor one of the known parts.
    #[error("{{{name}}} is neither a name in the path nor host, query.NAME or header.NAME; {hint}")]
    Unknown {
        /// What stands in the braces.
        name: String,
        /// The names there are.
        hint: String,
    },
    /// `{header.X}` where X cannot make a key.
    #[error("{{header.{0}}} cannot be part of a key; it is no field that tells objects apart")]
    Header(String),
    /// More than 32 fields.
    #[error("it has more than 32 parts")]
    TooLong,
}

fn push_text(fields: &mut Vec<Field>, literal: &mut String) {
    if !literal.is_empty() {
        fields.push(Field::Text(std::mem::take(literal)));
    }
}

fn field(name: &str, pattern: &Pattern) -> Result<Field, TemplateError> {
    if let Some(capture) = pattern.capture(name) {
        return Ok(Field::Capture(capture));
    }
    if name == "host" {
        return Ok(Field::Host);
    }
    if let Some(header) = name.strip_prefix("header.") {
        return header_field(header);
    }
    match name.strip_prefix("query.") {
        Some(query) if is_query_name(query) => Ok(Field::Query(query.to_owned())),
        _ => Err(unknown(name, pattern)),
    }
}

/// A key made of a token, or of a field that belongs to the connection, would fence nothing.
fn header_field(name: &str) -> Result<Field, TemplateError> {
    let refused = || TemplateError::Header(name.to_owned());
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
    let fencing = ["fencing-", "x-fencing-"].iter().any(|p| header.as_str().starts_with(p));
    // The store gets our own of these, or none.
    if fencing || is_rewritten(&header) {
        return Err(refused());
    }
    Ok(Field::Header(header))
}

fn is_query_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    !name.is_empty() && name.chars().all(plain)
}

fn unknown(name: &str, pattern: &Pattern) -> TemplateError {
    let names: Vec<String> = pattern.names().map(|name| format!("{{{name}}}")).collect();
    let hint = match names.len() {
        0 => "the path has no names".to_owned(),
        1 => format!("the path has {}", names.join("")),
        _ => format!("the path has {}", names.join(", ")),
    };
    TemplateError::Unknown { name: name.to_owned(), hint }
}
