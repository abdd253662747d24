//! What the command lines of all programs have in common: exit codes, where results and messages go,
//! former spellings, documents that are generated from the flags, and findings in the format of code hosts.

mod alternative;
pub mod completion;
pub mod conventions;
mod ending;
mod former;
pub mod manual;
mod output;
pub mod quantity;
pub mod sarif;

pub use ending::{Ending, end_parsing, parse, run};
pub use output::{print, print_message, write_result};
