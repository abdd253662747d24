//! Which charts need which images, and which part of a configuration selects them.

use serde::{Deserialize, Serialize};

/// A chart that needs an image, or that is stored as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartUse {
    pub name: String,
    pub version: String,
    pub entry: ChartEntry,
}

/// The entry of a `helm` section that selects a chart, by places that are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChartEntry {
    /// A repository that names no charts.
    Repository(usize),
    /// A chart below a repository.
    Chart(usize, usize),
    Local(usize),
}
