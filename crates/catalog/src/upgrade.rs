//! How an operator gets from one version to another inside a channel, as OLM goes.
//!
//! OLM installs an entry over what a cluster has when the entry replaces it, skips it, or has its
//! version in `skipRange`. It never installs an entry that another one skips, and of several it takes
//! the one nearest to the head.

use std::collections::BTreeSet;

use semver::Version;
use serde::Serialize;

use crate::document::Entry;
use crate::model::{Channel, Package};
use crate::nearest::nearest;
use crate::rules::{ChannelFlaw, chain};
use crate::version::CatalogRange;

mod paths;

pub use paths::{Hop, PathQuery, Reached, UpgradePaths, find_paths};

/// A channel as a graph: every version, and every step that OLM may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    pub package: String,
    pub channel: String,
    /// Lowest version first.
    pub nodes: Vec<Node>,
    /// Sorted.
    pub edges: Vec<Edge>,
}

/// An entry of the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub bundle: String,
    pub version: Version,
    pub is_head: bool,
    /// OLM does not install it, only upgrades from it.
    pub is_skipped: bool,
    /// Why its publisher advises against it.
    pub deprecation: Option<String>,
    /// Position on the path from the head: what OLM prefers has a lower one. `None` for what it
    /// never installs.
    rank: Option<usize>,
}

/// A step from one node to another, by their places in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub kind: EdgeKind,
}

/// What allows a step. Where several do, the first of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EdgeKind {
    Replaces,
    Skips,
    SkipRange,
}

/// The steps that OLM takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The version that the cluster has.
    pub from: Version,
    /// The nodes it passes, in order, and what allows each step; the first may be `from` itself.
    pub steps: Vec<(usize, EdgeKind)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the package {package:?} has no channel {channel:?}; {}", offer(nearest, channels))]
    NoChannel { package: String, channel: String, nearest: Vec<String>, channels: Vec<String> },
    #[error("the channel {channel:?} of {package:?} has no upgrade graph: it {why}")]
    Channel { package: String, channel: String, why: ChannelFlaw },
    #[error("the bundle {0:?} has no version, so it has no place in an upgrade graph")]
    NoVersion(String),
    #[error("the channel {channel:?} has no version {version}; it has {has}")]
    NoTarget { channel: String, version: Version, has: String },
    #[error("{version} is skipped by a later version: OLM does not install it")]
    Skipped { version: Version },
    #[error(
        "nothing in the channel {channel:?} can be installed over {from}: no entry replaces or skips it, and none has it in its skipRange; the channel has {has}"
    )]
    NoStep { channel: String, from: Version, has: String },
    #[error("OLM goes from {from} to {reached} and does not stop at {to}")]
    PassedBy { from: Version, to: Version, reached: Version },
    #[error(
        "OLM stays at {at}: in the channel {channel:?} only {} can be installed over it, and OLM never installs a version that another one skips ({by} skips it); manually install a version of the channel that is not skipped, or request one from the publisher that replaces or skips {at}",
        over.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    OnlySkipped { channel: String, at: Version, over: Vec<Version>, by: String },
    #[error(
        "OLM goes from {from} to {reached}, and nothing in the channel {channel:?} leads on from there to {to}"
    )]
    DeadEnd { channel: String, from: Box<Version>, reached: Box<Version>, to: Box<Version> },
}

fn offer(nearest: &[String], channels: &[String]) -> String {
    match nearest {
        [] => format!("it has {}", channels.join(", ")),
        _ => format!("did you mean {}?", nearest.join(" or ")),
    }
}

/// The graph of a channel.
pub fn graph(package: &Package<'_>, channel: &str) -> Result<Graph, PathError> {
    let Some(held) = package.channels.get(channel) else {
        let known = || package.channels.keys().map(|name| &**name);
        return Err(PathError::NoChannel {
            package: package.name.to_string(),
            channel: channel.to_owned(),
            nearest: nearest(channel, known()),
            channels: known().map(str::to_owned).collect(),
        });
    };
    let nodes = nodes(package, held)?;
    let mut edges = BTreeSet::new();
    for (to, node) in nodes.iter().enumerate() {
        let Some(entry) = held.entry(&node.bundle) else { continue };
        let range = entry.skip_range.as_deref().and_then(CatalogRange::parse);
        for (from, other) in nodes.iter().enumerate().filter(|(from, _)| *from != to) {
            if let Some(kind) = allows(entry, range.as_ref(), &other.bundle, &other.version) {
                edges.insert(Edge { from, to, kind });
            }
        }
    }
    Ok(Graph {
        package: package.name.to_string(),
        channel: channel.to_owned(),
        nodes,
        edges: edges.into_iter().collect(),
    })
}

fn nodes(package: &Package<'_>, channel: &Channel<'_>) -> Result<Vec<Node>, PathError> {
    let entries: Vec<&Entry<'_>> = channel.entries.iter().collect();
    let chain = chain(&entries).map_err(|why| PathError::Channel {
        package: package.name.to_string(),
        channel: channel.name.to_string(),
        why,
    })?;
    let skipped: BTreeSet<&str> =
        entries.iter().flat_map(|entry| &entry.skips).map(|name| &**name).collect();
    let deprecated = package.deprecations.iter().flat_map(|list| &list.entries);
    let deprecated: Vec<_> = deprecated.filter(|entry| &*entry.schema == "olm.bundle").collect();
    let mut nodes = Vec::new();
    for entry in &channel.entries {
        let version = package.version_of(&entry.name);
        let version = version.ok_or_else(|| PathError::NoVersion(entry.name.to_string()))?;
        let is_skipped = skipped.contains(&*entry.name);
        let rank = chain.iter().position(|link| link.name == entry.name);
        nodes.push(Node {
            bundle: entry.name.to_string(),
            version: version.clone(),
            is_head: rank == Some(0),
            is_skipped,
            deprecation: deprecated
                .iter()
                .find(|deprecated| deprecated.name == entry.name)
                .map(|deprecated| deprecated.message.to_string()),
            rank: rank.filter(|_| !is_skipped),
        });
    }
    nodes.sort_by(|a, b| (&a.version, &a.bundle).cmp(&(&b.version, &b.bundle)));
    Ok(nodes)
}

fn allows(
    entry: &Entry<'_>,
    range: Option<&CatalogRange>,
    bundle: &str,
    version: &Version,
) -> Option<EdgeKind> {
    if entry.replaces.as_deref() == Some(bundle) {
        Some(EdgeKind::Replaces)
    } else if entry.skips.iter().any(|skipped| &**skipped == bundle) {
        Some(EdgeKind::Skips)
    } else if range.is_some_and(|range| range.contains(version)) {
        Some(EdgeKind::SkipRange)
    } else {
        None
    }
}

impl Graph {
    /// The path that OLM takes from the version `from` until nothing newer can be installed, or
    /// until `to`. `from` need not be in the channel any more: a `skipRange` may still take it.
    pub fn path(
        &self,
        package: &Package<'_>,
        from: &Version,
        to: Option<&Version>,
    ) -> Result<Path, PathError> {
        if let Some(to) = to {
            self.check_target(to)?;
        }
        let mut here = self.find(from);
        let mut steps: Vec<(usize, EdgeKind)> = Vec::new();
        let mut passed: BTreeSet<usize> = here.into_iter().collect();
        loop {
            let reached = here.map_or(from, |index| &self.nodes[index].version);
            if to == Some(reached) {
                break;
            }
            let next = match here {
                Some(index) => self.next(index),
                None => self.next_over(package, from),
            };
            let Some((index, kind)) = next.filter(|(index, _)| passed.insert(*index)) else {
                break;
            };
            steps.push((index, kind));
            here = Some(index);
        }
        let reached = here.map_or(from, |index| &self.nodes[index].version).clone();
        let at_head = here.is_some_and(|index| self.nodes[index].is_head);
        let missed = match to {
            Some(to) => *to != reached,
            None => steps.is_empty() && !at_head,
        };
        if !missed {
            return Ok(Path { from: from.clone(), steps });
        }
        let (channel, from) = (self.channel.clone(), from.clone());
        Err(match to {
            Some(to) if reached > *to => PathError::PassedBy { from, to: to.clone(), reached },
            _ => match self.only_skipped(package, here, &reached) {
                Some(stuck) => stuck,
                None if steps.is_empty() => PathError::NoStep { channel, from, has: self.extent() },
                None => {
                    let to = to.unwrap_or(&reached).clone();
                    PathError::DeadEnd {
                        channel,
                        from: Box::new(from),
                        reached: Box::new(reached),
                        to: Box::new(to),
                    }
                }
            },
        })
    }

    /// Why OLM goes no further from a version: what could be installed over it is skipped.
    fn only_skipped(
        &self,
        package: &Package<'_>,
        here: Option<usize>,
        at: &Version,
    ) -> Option<PathError> {
        let over: Vec<usize> = match here {
            Some(index) => {
                self.edges.iter().filter(|edge| edge.from == index).map(|edge| edge.to).collect()
            }
            None => self.allowed_over(package, at).into_iter().map(|(index, _)| index).collect(),
        };
        let first = &self.nodes[*over.first()?].bundle;
        let entries = &package.channels.get(&*self.channel)?.entries;
        let by = entries.iter().find(|entry| entry.skips.iter().any(|name| **name == **first))?;
        Some(PathError::OnlySkipped {
            channel: self.channel.clone(),
            at: at.clone(),
            over: over.iter().map(|index| self.nodes[*index].version.clone()).collect(),
            by: by.name.to_string(),
        })
    }

    /// The node with this version: the very one, else one that differs in build metadata alone.
    pub fn find(&self, version: &Version) -> Option<usize> {
        let exactly = self.nodes.iter().position(|node| node.version == *version);
        exactly.or_else(|| {
            self.nodes.iter().position(|node| node.version.cmp_precedence(version).is_eq())
        })
    }

    fn check_target(&self, to: &Version) -> Result<(), PathError> {
        let Some(index) = self.find(to) else {
            let (channel, version) = (self.channel.clone(), to.clone());
            let has = self.extent();
            return Err(PathError::NoTarget { channel, version, has });
        };
        match self.nodes[index].is_skipped {
            true => Err(PathError::Skipped { version: to.clone() }),
            false => Ok(()),
        }
    }

    /// The lowest and the highest version, as text.
    fn extent(&self) -> String {
        match &self.nodes[..] {
            [] => "none".to_owned(),
            [only] => only.version.to_string(),
            [lowest, .., highest] => format!("{} to {}", lowest.version, highest.version),
        }
    }

    /// Where OLM goes from a node: nearest to the head.
    fn next(&self, from: usize) -> Option<(usize, EdgeKind)> {
        let steps = self.edges.iter().filter(|edge| edge.from == from);
        let ranked = steps.filter_map(|edge| Some((self.nodes[edge.to].rank?, edge)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, edge)| (edge.to, edge.kind))
    }

    /// Where OLM goes from a version that is in no entry any more.
    fn next_over(&self, package: &Package<'_>, from: &Version) -> Option<(usize, EdgeKind)> {
        let steps = self.steps_over(package, from).into_iter();
        let allowed =
            steps.filter_map(|(index, kind)| Some((self.nodes[index].rank?, index, kind)));
        allowed.min_by_key(|(rank, ..)| *rank).map(|(_, index, kind)| (index, kind))
    }
}

#[cfg(test)]
mod tests;
