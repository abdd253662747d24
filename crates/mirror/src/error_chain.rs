//! An error with its causes, each once, in one line.

pub(crate) use error_causes::with_distinct_causes as chain;
