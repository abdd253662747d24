//! What the findings of all checks have in common: the position in a text, and the severity. The
//! checks themselves define their rules and messages.
//!
//! # Example
//!
//! ```
//! use diagnostic::{Position, Severity};
//!
//! let at = Position { line: 3, column: 7 };
//! assert_eq!(format!("{at}: {}: no uplink", Severity::Error), "3:7: error: no uplink");
//! assert!(Severity::Error < Severity::Warning && Position::START < at);
//! ```

use std::fmt;

/// A position in a text, both counted from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// The beginning of a text.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// `line:column`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The severity of a finding, most severe first. Only errors make a check fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The input cannot be used, or not completely.
    Error,
    /// The input can be used, but it is probably not what the author intends.
    Warning,
    /// Additional information; nothing needs to be changed.
    Info,
}

impl Severity {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
