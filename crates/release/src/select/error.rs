//! Why nothing can be selected, and notes about a selection.

use std::collections::BTreeSet;
use std::fmt;

use image_set::Architecture;
use semver::Version;

use super::{Bounds, GraphKey, Graphs};
use crate::channel;
use crate::graph::{Graph, UnusablePayload};
use crate::nearest;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The caller has no graph, and knows the reason.
    #[error("there is no update graph of channel {channel} for {}", architecture.as_str())]
    NoGraph { channel: String, architecture: Architecture },
    #[error("channel {channel} has no releases for {}{}", architecture.as_str(), nearest::suggestion(.near))]
    Empty { channel: String, architecture: Architecture, near: Vec<String> },
    #[error("channel {channel} has no release {version}{}", nearest::remark(.near))]
    Unknown { channel: String, version: Version, near: Vec<Version> },
    #[error("channel {channel} has no release from {} to {}{}", .bounds.min, .bounds.max, nearest::remark(.near))]
    NoRelease { channel: String, bounds: Box<Bounds>, near: Vec<Version> },
    #[error(
        "nothing is from {} to {}, as the first is newer: lower minVersion or raise maxVersion",
        .0.min, .0.max
    )]
    Order(Box<Bounds>),
    #[error(transparent)]
    Payload(UnusablePayload),
}

/// Something a user should know about a selection that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A range in an EUS channel that clusters cannot cross in one step.
    ExtendedUpdate { channel: String, min: Version, max: Version },
    /// `shortestPath` found no path; only both ends were selected.
    NoPath { channel: String, from: Version, to: Version },
    /// The path across channels has a gap: a channel's newest release cannot be
    /// reached inside it.
    NoWay { channel: String, from: Version, to: Version },
    /// The path across channels ends, as the next one does not have the release where it
    /// has come to.
    Blocked { at: Version, channel: String },
    /// A channel on the path that does not exist or has no releases.
    Skipped { channel: String },
    /// Channels whose names have no minor version have no path between them.
    NoOrder { from: String, to: String },
}

impl SelectError {
    pub(super) fn empty(graphs: &Graphs, key: &GraphKey) -> Self {
        let known: BTreeSet<&str> = graphs.iter().flat_map(|(_, graph)| graph.channels()).collect();
        Self::Empty {
            channel: key.channel.clone(),
            architecture: key.architecture,
            near: channel::suggestions(&key.channel, &known),
        }
    }

    pub(super) fn no_release(graph: &Graph, channel: &str, bounds: Bounds) -> Self {
        let mut near = nearest::versions(&bounds.min, graph.versions());
        near.extend(nearest::versions(&bounds.max, graph.versions()));
        near.sort();
        near.dedup();
        Self::NoRelease { channel: channel.to_owned(), bounds: Box::new(bounds), near }
    }
}

/// The place of a release that must be in the channel.
pub(super) fn place(graph: &Graph, channel: &str, version: &Version) -> Result<usize, SelectError> {
    graph.place_of(version).ok_or_else(|| SelectError::Unknown {
        channel: channel.to_owned(),
        version: version.clone(),
        near: nearest::versions(version, graph.versions()),
    })
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExtendedUpdate { channel, min, max } => write!(
                f,
                "channel {channel}: between {min} and {max} a cluster passes through every minor version, with its nodes paused for the odd ones; `oc-mirror upgrade-path release --channel {channel} --from {min} --to {max}` shows the hops"
            ),
            Self::NoPath { channel, from, to } => write!(
                f,
                "channel {channel}: no updates lead from {from} to {to}; only these two are selected"
            ),
            Self::NoWay { channel, from, to } => write!(
                f,
                "on the path across channels no updates lead from {from} to {to} in {channel}; the releases between them are not selected"
            ),
            Self::Blocked { at, channel } => write!(
                f,
                "no updates lead from {at} into channel {channel}, which does not have it; of that channel only the requested releases are selected"
            ),
            Self::Skipped { channel } => write!(
                f,
                "channel {channel} on the path has no releases; the path continues in the next channel"
            ),
            Self::NoOrder { from, to } => write!(
                f,
                "no path is selected from channel {from} to channel {to}, as a name without minor version does not determine their order"
            ),
        }
    }
}
