//! Errors in a timetable, with their column.

/// The columns count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {problem}")]
pub struct TimetableError {
    pub column: usize,
    pub problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("expected {expected}, found {found}")]
    Expected { expected: &'static str, found: String },
    #[error(transparent)]
    Rate(#[from] crate::rate::RateError),
    #[error("the window begins and ends at the same time; write 00:00-24:00 for a whole day")]
    EmptyWindow,
    #[error("\"else\" must be the last entry")]
    ElseNotLast,
    #[error(
        "no entry applies on {day} at {time}: add \"else pause\", \"else full\" or a rate at the end"
    )]
    Gap { day: &'static str, time: String },
    #[error("no entry ever allows a transfer: give one a rate, or \"full\"")]
    AlwaysPaused,
}
