//! Queries about the updates of an operator, and their results.
//!
//! OLM updates towards the head by itself, and passes over what it need not install. A version that
//! it passes over can still be reached, with a catalog that ends there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use semver::Version;
use serde::Serialize;

use super::{EdgeKind, Graph, PathError, allows, graph};
use crate::model::Package;
use crate::version::CatalogRange;

mod picture;
mod table;

/// A query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathQuery {
    /// The path from one version to another.
    Between { from: Version, to: Version },
    /// Everything that can be reached from a version.
    From(Version),
    /// Every version from which one can be reached.
    To(Version),
    /// The same for the head of the channel.
    ToHead,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradePaths {
    /// The version of this form.
    pub schema: u32,
    pub package: String,
    pub channel: String,
    pub head: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Version>,
    /// The path between two versions. Empty for the other queries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
    /// The versions that can be reached, or that one can be reached from; by hops, then by version.
    /// Empty when two versions were given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<Reached>,
    /// What a user should know before starting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
}

/// One update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    pub from: Version,
    pub to: Version,
    pub bundle: String,
    pub kind: EdgeKind,
    /// What allows it, as text.
    pub because: String,
    /// Why its publisher advises against the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
}

/// A version that can be reached, or that another can be reached from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reached {
    pub version: Version,
    pub bundle: String,
    pub hops: usize,
    /// The version next to it on its path.
    pub via: Version,
    /// What allows the hop between the two.
    pub kind: EdgeKind,
    pub because: String,
    /// Whether OLM takes this path by itself, with the unchanged catalog.
    pub automatic: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub head: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
}

/// Finds the updates of a channel that a query selects.
pub fn find_paths(
    package: &Package<'_>,
    channel: &str,
    query: &PathQuery,
) -> Result<UpgradePaths, PathError> {
    let walk = Walk { package, graph: graph(package, channel)? };
    match query {
        PathQuery::Between { from, to } => walk.between(from, to),
        PathQuery::From(from) => walk.from(from),
        PathQuery::To(to) => walk.to(to),
        PathQuery::ToHead => walk.to(&walk.head()),
    }
}

/// A channel that is walked.
struct Walk<'a> {
    package: &'a Package<'a>,
    graph: Graph,
}

/// How a node was reached: in how many hops, and over which step.
struct Step {
    hops: usize,
    /// The place of the node next to it; `None` for a version that is in no entry.
    via: Option<usize>,
    kind: EdgeKind,
}

impl Walk<'_> {
    fn head(&self) -> Version {
        let head = self.graph.nodes.iter().find(|node| node.is_head);
        // A graph has one head, or there is none.
        head.map_or_else(|| Version::new(0, 0, 0), |node| node.version.clone())
    }

    fn between(&self, from: &Version, to: &Version) -> Result<UpgradePaths, PathError> {
        let mut paths = self.empty(Some(from), Some(to));
        let (hops, advice) = match self.graph.path(self.package, from, Some(to)) {
            Ok(path) => (path.steps, None),
            Err(passed @ PathError::PassedBy { .. }) => {
                let ending = self.graph.ending_at(to);
                let Ok(path) = ending.path(self.package, from, Some(to)) else {
                    return Err(passed);
                };
                let advice = format!(
                    "{passed}. It does where the catalog ends at {to}: mirror with `maxVersion: {to}` of the channel."
                );
                (path.steps, Some(advice))
            }
            Err(error) => return Err(error),
        };
        let mut at = self.graph.find(from);
        for (place, kind) in hops {
            let version = at.map_or(from, |at| &self.graph.nodes[at].version).clone();
            let node = &self.graph.nodes[place];
            paths.hops.push(Hop {
                to: node.version.clone(),
                bundle: node.bundle.clone(),
                kind,
                because: self.because(at, &version, place, kind),
                deprecation: node.deprecation.clone(),
                from: version,
            });
            at = Some(place);
        }
        paths.advice.extend(advice);
        Ok(paths)
    }

    fn from(&self, from: &Version) -> Result<UpgradePaths, PathError> {
        // Gives the reason when there is no step at all.
        let automatic = self.graph.path(self.package, from, None)?;
        let automatic: BTreeSet<usize> = automatic.steps.iter().map(|(place, _)| *place).collect();
        let start = self.graph.find(from);
        let mut reached: BTreeMap<usize, Step> = BTreeMap::new();
        let mut queue = VecDeque::new();
        for (place, kind) in self.first_steps(start, from) {
            reached.insert(place, Step { hops: 1, via: start, kind });
            queue.push_back(place);
        }
        while let Some(at) = queue.pop_front() {
            let hops = reached[&at].hops + 1;
            for edge in self.graph.edges.iter().rev().filter(|edge| edge.from == at) {
                let installable = self.graph.nodes[edge.to].rank.is_some();
                if installable && Some(edge.to) != start && !reached.contains_key(&edge.to) {
                    reached.insert(edge.to, Step { hops, via: Some(at), kind: edge.kind });
                    queue.push_back(edge.to);
                }
            }
        }
        let mut paths = self.empty(Some(from), None);
        for (place, step) in &reached {
            let via = step.via.map_or(from, |via| &self.graph.nodes[via].version);
            let because = self.because(step.via, via, *place, step.kind);
            let is_automatic = automatic.contains(place);
            paths.versions.push(self.reached(*place, step, via, because, is_automatic));
        }
        paths.order();
        Ok(paths)
    }

    fn to(&self, to: &Version) -> Result<UpgradePaths, PathError> {
        self.graph.check_target(to)?;
        let mut paths = self.empty(None, Some(to));
        let Some(goal) = self.graph.find(to) else { return Ok(paths) };
        let mut reached: BTreeMap<usize, Step> = BTreeMap::new();
        let mut queue = VecDeque::from([(goal, 0)]);
        while let Some((at, hops)) = queue.pop_front() {
            for edge in self.graph.edges.iter().rev().filter(|edge| edge.to == at) {
                if edge.from == goal || reached.contains_key(&edge.from) {
                    continue;
                }
                let step = Step { hops: hops + 1, via: Some(at), kind: edge.kind };
                reached.insert(edge.from, step);
                // What is never installed is a start and no stop.
                if self.graph.nodes[edge.from].rank.is_some() {
                    queue.push_back((edge.from, hops + 1));
                }
            }
        }
        for (place, step) in &reached {
            let Some(via) = step.via else { continue };
            let version = &self.graph.nodes[*place].version;
            let because = self.because(Some(*place), version, via, step.kind);
            let automatic = self.graph.path(self.package, version, Some(to)).is_ok();
            let via = &self.graph.nodes[via].version;
            paths.versions.push(self.reached(*place, step, via, because, automatic));
        }
        paths.order();
        Ok(paths)
    }

    fn empty(&self, from: Option<&Version>, to: Option<&Version>) -> UpgradePaths {
        UpgradePaths {
            schema: 1,
            package: self.graph.package.clone(),
            channel: self.graph.channel.clone(),
            head: self.head(),
            from: from.cloned(),
            to: to.cloned(),
            hops: Vec::new(),
            versions: Vec::new(),
            advice: Vec::new(),
        }
    }

    fn reached(
        &self,
        place: usize,
        step: &Step,
        via: &Version,
        because: String,
        automatic: bool,
    ) -> Reached {
        let node = &self.graph.nodes[place];
        Reached {
            version: node.version.clone(),
            bundle: node.bundle.clone(),
            hops: step.hops,
            via: via.clone(),
            kind: step.kind,
            because,
            automatic,
            head: node.is_head,
            deprecation: node.deprecation.clone(),
        }
    }

    /// The nodes that can be installed over a version, whether it is in the channel or not; newest
    /// first.
    fn first_steps(&self, start: Option<usize>, from: &Version) -> Vec<(usize, EdgeKind)> {
        let Some(start) = start else {
            return self.graph.steps_over(self.package, from).into_iter().rev().collect();
        };
        let edges = self.graph.edges.iter().rev().filter(|edge| edge.from == start);
        let installable = edges.filter(|edge| self.graph.nodes[edge.to].rank.is_some());
        installable.map(|edge| (edge.to, edge.kind)).collect()
    }

    /// What allows the hop from a version, which is at `at` unless it is in no entry, to a node.
    fn because(&self, at: Option<usize>, from: &Version, to: usize, kind: EdgeKind) -> String {
        let name = match at {
            Some(at) => self.graph.nodes[at].bundle.clone(),
            None => from.to_string(),
        };
        match kind {
            EdgeKind::Replaces => format!("replaces {name}"),
            EdgeKind::Skips => format!("skips {name}"),
            EdgeKind::SkipRange => {
                let channel = self.package.channels.get(&*self.graph.channel);
                let entry = channel.and_then(|held| held.entry(&self.graph.nodes[to].bundle));
                let range = entry.and_then(|entry| entry.skip_range.as_deref());
                format!("skipRange {}", range.unwrap_or_default())
            }
        }
    }
}

impl Graph {
    /// The channel in a catalog that ends at `to`: nothing nearer to the head is installed.
    fn ending_at(&self, to: &Version) -> Self {
        let mut ending = self.clone();
        let last = self.find(to).and_then(|place| self.nodes[place].rank);
        for node in &mut ending.nodes {
            node.rank = node.rank.filter(|rank| last.is_none_or(|last| *rank >= last));
        }
        ending
    }

    /// Every node that OLM may install over a version that is in no entry, lowest first.
    pub(super) fn steps_over(
        &self,
        package: &Package<'_>,
        from: &Version,
    ) -> Vec<(usize, EdgeKind)> {
        let mut steps = self.allowed_over(package, from);
        steps.retain(|(index, _)| self.nodes[*index].rank.is_some());
        steps
    }

    /// The same, with what OLM does not install because another version skips it.
    pub(super) fn allowed_over(
        &self,
        package: &Package<'_>,
        from: &Version,
    ) -> Vec<(usize, EdgeKind)> {
        let Some(channel) = package.channels.get(&*self.channel) else { return Vec::new() };
        // It may still be a bundle of the package, of another channel.
        let bundle = package.bundles.values().find(|bundle| bundle.version.as_ref() == Some(from));
        let name = bundle.map_or("", |bundle| &bundle.name);
        let steps = self.nodes.iter().enumerate().filter_map(|(index, node)| {
            let entry = channel.entry(&node.bundle)?;
            let range = entry.skip_range.as_deref().and_then(CatalogRange::parse);
            Some((index, allows(entry, range.as_ref(), name, from)?))
        });
        steps.collect()
    }
}

impl UpgradePaths {
    fn order(&mut self) {
        self.versions.sort_by(|a, b| a.hops.cmp(&b.hops).then_with(|| a.version.cmp(&b.version)));
    }
}

#[cfg(test)]
mod tests;
