//! The documents of a YAML text as trees whose nodes have their line and
//! column, for readers that must report where an error is.
//!
//! Aliases and merge keys are resolved; duplicate keys are detected.
//!
//! # Example
//!
//! ```
//! use located_yaml::{Keys, load};
//!
//! let loaded = load("mirror:\n  archiveSize: 4\n", Keys::Exact);
//! assert!(loaded.problems.is_empty());
//! let root = loaded.root.unwrap();
//! let size = root.get("mirror").unwrap().get("archiveSize").unwrap();
//! assert_eq!(size.integer(), Some(4));
//! assert_eq!((size.at.line, size.at.column), (2, 16));
//! ```

mod node;
mod problem;
mod scalar;
mod tree;

pub use diagnostic::Position;
pub use node::{Entry, Node, Value};
pub use problem::{Located, Problem};
pub use scalar::{Meaning, meaning};
pub use tree::{Keys, Loaded, load, load_all};
