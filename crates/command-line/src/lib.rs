//! What every program's command line does alike: how it ends, where results
//! and messages go, and the documents that are made from its flags.

pub mod completion;
mod ending;
pub mod manual;
mod output;

pub use ending::{Ending, run};
pub use output::{print, say};
