//! The engine: collects images, plans, executes, reports.
//!
//! `config → collect → plan → execute → report`. The plan is a value; nothing
//! is written to a destination before it exists.

mod progress;
mod report;
mod settings;

pub use progress::{Event, Observer, Unobserved};
pub use report::{ArchiveLine, Ending, Failure, ImageLine, Outcome, Report, Totals};
pub use settings::{Archiving, Attachments, Configuration, DryRun, Mode, Settings};
