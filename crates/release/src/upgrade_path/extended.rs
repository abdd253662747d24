//! Updates between two EUS (Extended Update Support) releases on a path. Pure.
//!
//! EUS releases have even minor versions. Between two of them the control plane goes through the odd
//! version, and the workers can be paused meanwhile.

use std::fmt;

use semver::Version;
use serde::Serialize;

use super::Hop;
use crate::channel::Minor;

/// An update from one EUS release to the next, of which a hop is a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedUpdate {
    /// The minor version that it leaves: `4.14`.
    pub from: String,
    /// The minor version that it leads to: `4.16`.
    pub to: String,
}

impl fmt::Display for ExtendedUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EUS {} to {}", self.from, self.to)
    }
}

impl Minor {
    /// Whether releases of this minor version have extended update support.
    pub fn is_eus(self) -> bool {
        self.minor.is_multiple_of(2)
    }
}

/// Marks the hops that lead from an EUS minor version through the odd one to the next.
pub(super) fn mark(hops: &mut [Hop]) {
    let minor = |version: &Version| Minor::of(version);
    let leaves = |hop: &Hop| minor(&hop.from) != minor(&hop.to);
    let mut first = 0;
    while first < hops.len() {
        let start = minor(&hops[first].from);
        if !start.is_eus() || !leaves(&hops[first]) {
            first += 1;
            continue;
        }
        let next = Minor { minor: start.minor + 2, ..start };
        let arrives = hops[first..].iter().position(|hop| minor(&hop.to) == next);
        let Some(length) = arrives else { return };
        let update = ExtendedUpdate { from: start.to_string(), to: next.to_string() };
        for hop in &mut hops[first..=first + length] {
            hop.extended = Some(update.clone());
        }
        first += length + 1;
    }
}
