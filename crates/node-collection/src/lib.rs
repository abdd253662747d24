//! What is collected from a node to diagnose its network: files and outputs without secrets, with an
//! index, in a folder or a tar archive. `brex-firstboot gather` collects on the node itself, the
//! handler of the NMState operator for must-gather; `oc-brex doctor` reads both.
//!
//! ```text
//! index.json    what was collected, and what could not be
//! files/…       files of the node, by their paths
//! nmstate.json  the network as nmstate reports it
//! commands/…    outputs of commands
//! journal/…     journals of units
//! ```

mod redact;
mod sink;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

pub use redact::Secrets;
pub use sink::Sink;

/// The name of the index in a collection.
pub const INDEX: &str = "index.json";
/// The name of the network state in a collection.
pub const STATE: &str = "nmstate.json";

/// What was collected, in the order of the collection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub version: u32,
    /// The program that collected it, with its version.
    pub program: String,
    pub at: String,
    pub hostname: String,
    pub items: Vec<Item>,
}

/// A file, an output, or what could not be collected.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Its path in the collection; absent if it could not be collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The file or command line it came from.
    pub source: String,
    /// Why it could not be collected, or how a command failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Index {
    pub const VERSION: u32 = 1;
    /// The programs that write collections.
    const PROGRAMS: [&str; 2] = ["brex-firstboot ", "nmstate-operator "];

    pub fn new(program: String, at: String, hostname: String) -> Self {
        Self { version: Self::VERSION, program, at, hostname, items: Vec::new() }
    }

    /// Whether this is the index of a collection, and not a file of the same name.
    pub fn is_ours(&self) -> bool {
        Self::PROGRAMS.iter().any(|program| self.program.starts_with(program))
    }

    /// Writes the index, which ends the collection.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&self, mut sink: Sink) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).context("writing the index")?;
        sink.put(INDEX, &text)?;
        sink.finish()
    }
}

impl Item {
    /// Something that is in the collection.
    pub fn collected(file: &str, source: &str) -> Self {
        Self { file: Some(file.to_owned()), source: source.to_owned(), problem: None }
    }

    /// Something that could not be collected.
    pub fn missing(source: &str, problem: String) -> Self {
        Self { file: None, source: source.to_owned(), problem: Some(problem) }
    }
}
