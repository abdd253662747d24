//! Errors of templates, with their place, worded as Go words them.

use std::fmt;

use crate::budget::Exceeded;

/// Where in a template something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplatePosition {
    /// Name under which the text was parsed, such as the path of its file.
    pub name: String,
    /// From 1.
    pub line: usize,
    /// From 0, in bytes; absent where only the line is known.
    pub column: Option<usize>,
}

impl fmt::Display for TemplatePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.line)?;
        self.column.map_or(Ok(()), |column| write!(f, ":{column}"))
    }
}

/// One template of the calls that led to a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub place: TemplatePosition,
    /// Name of the template that was executing and the expression there; absent while parsing.
    pub executing: Option<(String, String)>,
    /// The function that failed there, if one did.
    pub function: Option<String>,
}

/// Why a template failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The text is not a template.
    Syntax(String),
    /// The template could not be executed.
    Execution(String),
    /// A function, such as `fail` or `required`, stopped the template on purpose.
    Stopped(String),
    Limit(Exceeded),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(text) | Self::Execution(text) | Self::Stopped(text) => f.write_str(text),
            Self::Limit(exceeded) => exceeded.fmt(f),
        }
    }
}

/// A template that could not be parsed or executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The outermost first: a template, then those that it includes, up to the failure.
    pub frames: Vec<Frame>,
    pub reason: Reason,
}

impl Error {
    /// Where the failure itself is.
    pub fn place(&self) -> Option<&TemplatePosition> {
        self.frames.last().map(|frame| &frame.place)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for frame in &self.frames {
            write!(f, "template: {}: ", frame.place)?;
            if let Some((name, expression)) = &frame.executing {
                write!(f, "executing {name:?} at <{expression}>: ")?;
            }
            if let Some(function) = &frame.function {
                write!(f, "error calling {function}: ")?;
            }
        }
        self.reason.fmt(f)
    }
}

impl std::error::Error for Error {}
