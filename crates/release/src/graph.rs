//! The update graph: releases, and which of them a cluster may go to next.
//!
//! Read from the response of an update service. The response is hostile input: its
//! size is bounded, every index is checked, and nothing is stored twice for
//! every edge, so that a small response cannot become a large graph.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use oci::ImageRef;
use semver::Version;
use serde::Serialize;

use crate::channel::Minor;

mod response;

/// The largest response that is read. Real ones are a hundred times smaller.
pub const MAX_GRAPH_BYTES: usize = 16 << 20;

/// Releases in the order of their versions, and the updates between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<Node>,
    /// For each node, where a cluster may go from it.
    updates: Vec<BTreeMap<usize, Edge>>,
    /// Groups of risks, which edges refer to by their place.
    groups: Vec<Vec<Risk>>,
}

/// A release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub version: Version,
    pub payload: Payload,
    /// The channels that the release is in, as the service reports.
    pub channels: BTreeSet<String>,
    /// The architecture that the release declares: `multi` for payloads
    /// of several. Most releases declare none.
    pub architecture: Option<String>,
    /// Where the release is announced.
    pub url: Option<String>,
}

/// What a graph names as the payload of a release. One that cannot be used concerns its own release
/// only: to list releases, no payload is needed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Payload {
    Image(ImageRef),
    Unusable(UnusablePayload),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error(
    "the update graph names the payload {text:?} for release {version}, which is not an image: {why}"
)]
pub struct UnusablePayload {
    pub version: Version,
    pub text: String,
    pub why: String,
}

impl Payload {
    pub fn image(&self) -> Result<&ImageRef, &UnusablePayload> {
        match self {
            Self::Image(image) => Ok(image),
            Self::Unusable(unusable) => Err(unusable),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Image(image) => image.to_string(),
            Self::Unusable(unusable) => unusable.text.clone(),
        }
    }
}

/// A reason why an update may be a bad idea for some clusters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Risk {
    pub name: String,
    pub message: String,
    pub url: String,
}

/// An update from one node to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Edge {
    /// Whether it is in the list of plain edges.
    listed: bool,
    /// The groups of risks it is in. A cluster takes an edge that is both
    /// listed and in a group for a conditional one, and so do we.
    groups: BTreeSet<usize>,
}

/// An update, seen from the node it leaves.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// The place in [`Graph::nodes`] of the release it leads to.
    pub to: usize,
    edge: &'a Edge,
    graph: &'a Graph,
}

#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    #[error("the response has more than {} MiB, which no update graph has", MAX_GRAPH_BYTES >> 20)]
    Large,
    #[error(
        "the response is a web page, not an update graph: a proxy or a login page may have responded instead of the update service"
    )]
    Html,
    #[error("the response is not an update graph")]
    Json(#[source] serde_json::Error),
    #[error("the update graph has a release with the version {text:?}")]
    Version { text: String, source: semver::Error },
    #[error("the update graph has release {0} twice")]
    Twice(Version),
    #[error(
        "the update graph has an edge from release number {from} to number {to}, but only {nodes} releases"
    )]
    Edge { from: usize, to: usize, nodes: usize },
    #[error("two update graphs name different payloads for release {version}: {one} and {other}")]
    Differs { version: Version, one: String, other: String },
}

impl Graph {
    /// Reads the response of an update service.
    pub fn parse(bytes: &[u8]) -> Result<Self, GraphError> {
        response::read(bytes)
    }

    /// Sorts the nodes and creates edges from what was read. Edges go between
    /// places in `nodes`.
    fn assemble(
        nodes: Vec<Node>,
        edges: Vec<(usize, usize, Edge)>,
        groups: Vec<Vec<Risk>>,
    ) -> Self {
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by(|a, b| nodes[*a].version.cmp(&nodes[*b].version));
        let mut place = vec![0; nodes.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old] = new;
        }
        let mut updates = vec![BTreeMap::<usize, Edge>::new(); nodes.len()];
        for (from, to, edge) in edges {
            updates[place[from]].entry(place[to]).or_default().add(edge);
        }
        let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
        let nodes = order.into_iter().filter_map(|old| nodes[old].take()).collect();
        Self { nodes, updates, groups }
    }

    /// All releases, oldest first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The oldest release.
    pub fn first(&self) -> Option<&Node> {
        self.nodes.first()
    }

    /// The newest release.
    pub fn head(&self) -> Option<&Node> {
        self.nodes.last()
    }

    pub fn versions(&self) -> impl DoubleEndedIterator<Item = &Version> {
        self.nodes.iter().map(|node| &node.version)
    }

    /// The place of a version in [`nodes`](Self::nodes). What follows a `+`
    /// does not count, as it does not count for the order of versions.
    pub fn place_of(&self, version: &Version) -> Option<usize> {
        if let Ok(place) = self.nodes.binary_search_by(|node| node.version.cmp(version)) {
            return Some(place);
        }
        let start = self
            .nodes
            .partition_point(|node| node.version.cmp_precedence(version) == Ordering::Less);
        let node = self.nodes.get(start)?;
        (node.version.cmp_precedence(version) == Ordering::Equal).then_some(start)
    }

    pub fn node(&self, version: &Version) -> Option<&Node> {
        self.place_of(version).map(|place| &self.nodes[place])
    }

    /// Every channel that a release declares.
    pub fn channels(&self) -> BTreeSet<&str> {
        self.channels_where(|_| true)
    }

    /// Every channel that a release of a minor version declares. The
    /// graph of a channel also has releases of earlier minor versions, which
    /// are the start of its updates.
    pub fn channels_of(&self, minor: Minor) -> BTreeSet<&str> {
        self.channels_where(|version| Minor::of(version) == minor)
    }

    fn channels_where(&self, selected: impl Fn(&Version) -> bool) -> BTreeSet<&str> {
        let nodes = self.nodes.iter().filter(|node| selected(&node.version));
        nodes.flat_map(|node| &node.channels).map(String::as_str).collect()
    }

    /// Where a cluster at `from` may go, oldest first.
    pub fn updates(&self, from: usize) -> impl DoubleEndedIterator<Item = Update<'_>> {
        self.updates.get(from).into_iter().flatten().map(|(to, edge)| Update {
            to: *to,
            edge,
            graph: self,
        })
    }

    /// The update between two places, if there is one.
    pub fn update(&self, from: usize, to: usize) -> Option<Update<'_>> {
        let edge = self.updates.get(from)?.get(&to)?;
        Some(Update { to, edge, graph: self })
    }

    /// One graph of several channels.
    pub fn merged<'a>(graphs: impl IntoIterator<Item = &'a Self>) -> Result<Self, GraphError> {
        let mut nodes: BTreeMap<&Version, Node> = BTreeMap::new();
        let mut edges: Vec<(&Version, &Version, Edge)> = Vec::new();
        let mut groups: Vec<Vec<Risk>> = Vec::new();
        let mut known: BTreeMap<&[Risk], usize> = BTreeMap::new();
        for graph in graphs {
            for node in &graph.nodes {
                match nodes.get_mut(&node.version) {
                    None => {
                        nodes.insert(&node.version, node.clone());
                    }
                    Some(held) if held.payload == node.payload => {
                        held.channels.extend(node.channels.iter().cloned());
                    }
                    Some(held) => {
                        return Err(GraphError::Differs {
                            version: node.version.clone(),
                            one: held.payload.text(),
                            other: node.payload.text(),
                        });
                    }
                }
            }
            let moved: Vec<usize> = graph
                .groups
                .iter()
                .map(|group| {
                    *known.entry(group).or_insert_with(|| {
                        groups.push(group.clone());
                        groups.len() - 1
                    })
                })
                .collect();
            for (from, updates) in graph.updates.iter().enumerate() {
                for (to, edge) in updates {
                    let groups = edge.groups.iter().map(|group| moved[*group]).collect();
                    let edge = Edge { listed: edge.listed, groups };
                    edges.push((&graph.nodes[from].version, &graph.nodes[*to].version, edge));
                }
            }
        }
        let place: BTreeMap<&Version, usize> =
            nodes.keys().enumerate().map(|(place, version)| (*version, place)).collect();
        let edges = edges.into_iter().map(|(from, to, edge)| (place[from], place[to], edge));
        let edges = edges.collect();
        Ok(Self::assemble(nodes.into_values().collect(), edges, groups))
    }
}

impl Edge {
    fn add(&mut self, other: Self) {
        self.listed |= other.listed;
        self.groups.extend(other.groups);
    }
}

impl<'a> Update<'a> {
    pub fn node(&self) -> &'a Node {
        &self.graph.nodes[self.to]
    }

    /// Whether the service lists the update among the plain ones. Mirroring
    /// goes by this alone, as it always has.
    pub fn is_listed(&self) -> bool {
        self.edge.listed
    }

    /// Whether a cluster would offer the update only after evaluating risks.
    pub fn is_conditional(&self) -> bool {
        !self.edge.groups.is_empty()
    }

    /// The risks of the update, by name, each once.
    pub fn risks(&self) -> Vec<&'a Risk> {
        let groups = self.edge.groups.iter().map(|group| &self.graph.groups[*group]);
        groups.flatten().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
