//! What pages show: values made from a workspace, its journals and archives. Nothing here knows
//! HTML or HTTP; functions that read the disk block.

pub(crate) mod archives;
pub(crate) mod configurations;
pub(crate) mod deletion;
pub(crate) mod images;
pub(crate) mod live;
pub(crate) mod operators;
pub(crate) mod overview;
pub(crate) mod paging;
pub(crate) mod plan;
pub(crate) mod resources;
pub(crate) mod runs;
pub(crate) mod users;
pub(crate) mod workspace_directory;

use std::error::Error;

pub(crate) use error_causes::with_distinct_causes as chain;

/// Why a page cannot be shown, with its causes, for the reader of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It was not found.
    Absent(String),
    /// It could not be determined.
    Failed(String),
}

impl Fault {
    pub(crate) fn failed(doing: &str, error: &dyn Error) -> Self {
        Self::Failed(format!("{doing}: {}", chain(error)))
    }
}
