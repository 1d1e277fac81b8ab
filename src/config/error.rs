//! What is wrong with a configuration, in words that say where and what to do.

use std::fmt;

/// One mistake.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigError {
    /// The file as the operator named it.
    pub file: String,
    /// The line, from 1; `None` where the mistake is the file itself.
    pub line: Option<usize>,
    /// The section and the key, as they stand in the file: `[server] listen`.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl ConfigError {
    /// `FILE:LINE:`, or `FILE:` alone.
    pub fn place(&self) -> String {
        self.line.map_or(format!("{}:", self.file), |line| format!("{}:{line}:", self.file))
    }
}

/// `FILE:LINE: KEY: WHAT; REMEDY`, without the parts that are not known.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())?;
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.what)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

/// Every mistake that was found, in the file's order. Nothing is started.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

/// One mistake a line.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Something that is allowed and should be known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Warning {
    /// The file as the operator named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What to know, and what to do about it.
    pub text: String,
}

/// `FILE:LINE: TEXT`.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// A value that is not what its key wants; where it stands is added by the reader of the key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) remedy: String,
}

impl Wrong {
    pub(super) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}
