//! Errors in YAML, with their position.

use std::fmt;

use diagnostic::Position;

/// A value and its position.
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
    #[error("the tag {0} is not supported; remove it")]
    Tag(String),
    #[error("expected text as a key, found {0}; put text that starts with a bracket in quotes")]
    Key(&'static str),
    #[error("the value {text:?} is not a {tag}")]
    TagMismatch { tag: String, text: String },
    #[error("the value of !!binary is not base64 text")]
    Binary,
    #[error("JSON does not support the number {0}")]
    NotFinite(String),
    #[error("expected a map or a list of maps for `<<`, found {0}")]
    Merge(&'static str),
    #[error("duplicate key {key:?}, first given on line {}; keep one", first.line)]
    DuplicateKey { key: String, first: Position },
}

/// `line:column: value`.
impl<T: fmt::Display> fmt::Display for Located<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.value)
    }
}
