//! What is wrong with a text as YAML, and where.

use std::fmt;

/// A place in the text, both counted from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// Where a text begins.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A value and the place it is written at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located<T> {
    pub at: Position,
    pub value: T,
}

/// The kinds of errors. Each text states what is wrong, then what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("not valid YAML: {0}")]
    Syntax(String),
    #[error(
        "not valid YAML: invalid indentation in multiline quoted scalar; indent it more than its key"
    )]
    Indentation,
    #[error("the aliases up to here repeat more than {0} values; write the document out")]
    Aliases(usize),
    #[error("the alias is inside the value that it names; write the value out")]
    Recursion,
    #[error("the tag {0} means nothing here; remove it")]
    Tag(String),
    #[error("a key must be text, but this is {0}; put text that starts with a bracket in quotes")]
    Key(&'static str),
    #[error("the value {text:?} is not a {tag}")]
    TagMismatch { tag: String, text: String },
    #[error("the value of !!binary is not base64 text")]
    Binary,
    #[error("JSON does not support the number {0}")]
    NotFinite(String),
    #[error("`<<` takes a map or a list of maps, but this is {0}")]
    Merge(&'static str),
    #[error("duplicate key {key:?}, first given on line {}; keep one", first.line)]
    DuplicateKey { key: String, first: Position },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// `line:column: value`.
impl<T: fmt::Display> fmt::Display for Located<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.value)
    }
}
