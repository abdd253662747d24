//! A problem in a document, with its position and remedy.

use std::fmt;

use crate::rule::Rule;

/// A position in the text. Both numbers start at 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// One problem in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub at: Position,
    pub rule: Rule,
    /// The problem, then the remedy.
    pub message: String,
}

impl Finding {
    pub(crate) fn new(at: Position, rule: Rule, message: impl Into<String>) -> Self {
        Self { at, rule, message: message.into() }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// `line:column: severity: message [rule]`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, rule, message } = self;
        write!(f, "{at}: {}: {message} [{}]", rule.severity(), rule.id())
    }
}
