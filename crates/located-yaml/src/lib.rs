//! The documents of a YAML text as trees whose nodes know their line and
//! column, for readers that must say where a mistake is.
//!
//! Aliases and merge keys are resolved; keys that are given twice are noticed.

mod node;
mod problem;
mod scalar;
mod tree;

pub use node::{Entry, Node, Value};
pub use problem::{Located, Position, Problem};
pub use scalar::{Meaning, meaning};
pub use tree::{Keys, Loaded, load, load_all};
