//! A problem in a document, with its position and remedy.

use std::fmt;

pub(crate) use diagnostic::Position;

use crate::rule::Rule;

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

/// `line:column: severity: message [rule]`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, rule, message } = self;
        write!(f, "{at}: {}: {message} [{}]", rule.severity(), rule.id())
    }
}
