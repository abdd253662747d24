//! How a cluster gets from one release to another: hops, their
//! risks, and everything that can be reached.
//!
//! A cluster takes updates without known risks by itself. Conditional ones it
//! offers after evaluating their risks; they are listed with these. Between two
//! releases the path without risks comes first, and a shorter one with risks
//! beside it; where many releases are reached, each is listed with the path that has the
//! fewest risky hops.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use semver::Version;
use serde::Serialize;

use crate::channel::Minor;
use crate::graph::{Graph, Risk, Update};
use crate::nearest;

mod extended;
mod picture;
mod table;

pub use extended::ExtendedUpdate;

/// A query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathQuery {
    /// The path from one release to another.
    Between { from: Version, to: Version },
    /// Everything that can be reached from a release.
    From(Version),
    /// Every release from which one can be reached.
    To(Version),
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradePaths {
    /// The version of this form.
    pub schema: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Version>,
    /// The paths between two releases, the recommended one first. Empty for the other
    /// queries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// The releases that can be reached, or that one can be reached from; by
    /// hops, then by version. Empty when two releases were given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<Reached>,
    /// Every risk that is named anywhere above, once.
    pub risks: Vec<Risk>,
    /// What a user should know before starting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
}

/// One path between two releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    pub hops: Vec<Hop>,
    /// Whether every hop is without known risks.
    pub without_risks: bool,
}

/// One update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    pub from: Version,
    pub to: Version,
    /// The channels that have both releases.
    pub channels: BTreeSet<String>,
    /// Names of the risks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<String>,
    /// The update between EUS releases that it is a part of.
    #[serde(rename = "eus", skip_serializing_if = "Option::is_none")]
    pub extended: Option<ExtendedUpdate>,
}

/// A release that can be reached, or that another can be reached from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reached {
    pub version: Version,
    pub hops: usize,
    /// The release next to it on its path.
    pub via: Version,
    pub channels: BTreeSet<String>,
    /// Whether it is the newest of all.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub head: bool,
    /// Names of the risks of the whole path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("there is no release {version} among those known{}", nearest::remark(.near))]
    Unknown { version: Version, near: Vec<Version> },
    #[error("{from} is newer than {to}: clusters cannot be updated to an older release")]
    Backwards { from: Version, to: Version },
    #[error("no updates lead from {from} to {to}{}", furthest(.reached))]
    NoWay { from: Version, to: Version, reached: Option<Version> },
}

fn furthest(reached: &Option<Version>) -> String {
    match reached {
        Some(version) => format!("; the newest release that can be reached is {version}"),
        None => "; no update leads on from it".to_owned(),
    }
}

/// The direction in which updates are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Which of several paths is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Best {
    FewestHops,
    FewestRisks,
}

/// For each release that was reached: where from, in how many hops, and how many of
/// them are risky.
type Reach = BTreeMap<usize, Step>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    hops: usize,
    risky: usize,
    via: usize,
}

/// Finds the updates that a query selects, in the graph of one or several channels.
pub fn find_paths(graph: &Graph, query: &PathQuery) -> Result<UpgradePaths, PathError> {
    match query {
        PathQuery::Between { from, to } => between(graph, from, to),
        PathQuery::From(version) => around(graph, version, Direction::Forward),
        PathQuery::To(version) => around(graph, version, Direction::Backward),
    }
}

fn between(graph: &Graph, from: &Version, to: &Version) -> Result<UpgradePaths, PathError> {
    let (start, end) = (place(graph, from)?, place(graph, to)?);
    if start > end {
        return Err(PathError::Backwards { from: from.clone(), to: to.clone() });
    }
    let links = Links::of(graph, Direction::Forward);
    let any = links.reach(start, Best::FewestHops, |_| true);
    let fine = links.reach(start, Best::FewestHops, |link| !link.risky);
    let mut routes = Vec::new();
    for reach in [&fine, &any] {
        if let Some(path) = path(reach, start, end) {
            let route = Route::of(graph, &path);
            if !routes.contains(&route) {
                routes.push(route);
            }
        }
    }
    if routes.is_empty() {
        let newest = any.keys().next_back().filter(|newest| **newest != start);
        let reached = newest.map(|newest| graph.nodes()[*newest].version.clone());
        return Err(PathError::NoWay { from: from.clone(), to: to.clone(), reached });
    }
    let hops: Vec<(usize, usize)> = routes.iter().flat_map(|route| route.places(graph)).collect();
    let advice = advice(&graph.nodes()[start].version, &graph.nodes()[end].version, &routes);
    Ok(UpgradePaths {
        schema: 1,
        from: Some(from.clone()),
        to: Some(to.clone()),
        routes,
        releases: Vec::new(),
        risks: risks(graph, &hops),
        advice,
    })
}

fn around(
    graph: &Graph,
    version: &Version,
    direction: Direction,
) -> Result<UpgradePaths, PathError> {
    let start = place(graph, version)?;
    let reach = Links::of(graph, direction).reach(start, Best::FewestRisks, |_| true);
    let newest = reach.keys().next_back().copied();
    let mut releases = Vec::new();
    let mut all_hops = BTreeSet::new();
    for (place, step) in reach.iter().filter(|(place, _)| **place != start) {
        let hops: Vec<(usize, usize)> = path(&reach, start, *place)
            .unwrap_or_default()
            .windows(2)
            .map(|pair| match direction {
                Direction::Forward => (pair[0], pair[1]),
                Direction::Backward => (pair[1], pair[0]),
            })
            .collect();
        let node = &graph.nodes()[*place];
        releases.push(Reached {
            version: node.version.clone(),
            hops: step.hops,
            via: graph.nodes()[step.via].version.clone(),
            channels: node.channels.clone(),
            head: direction == Direction::Forward && newest == Some(*place),
            risks: risk_names(graph, &hops),
        });
        all_hops.extend(hops);
    }
    releases.sort_by(|a, b| a.hops.cmp(&b.hops).then_with(|| a.version.cmp(&b.version)));
    let all_hops: Vec<(usize, usize)> = all_hops.into_iter().collect();
    let (from, to) = match direction {
        Direction::Forward => (Some(version.clone()), None),
        Direction::Backward => (None, Some(version.clone())),
    };
    let risks = risks(graph, &all_hops);
    Ok(UpgradePaths {
        schema: 1,
        from,
        to,
        routes: Vec::new(),
        releases,
        risks,
        advice: Vec::new(),
    })
}

fn place(graph: &Graph, version: &Version) -> Result<usize, PathError> {
    graph.place_of(version).ok_or_else(|| PathError::Unknown {
        version: version.clone(),
        near: nearest::versions(version, graph.versions()),
    })
}

/// The updates of a graph in one direction, by the release they leave.
struct Links(Vec<Vec<Link>>);

#[derive(Debug, Clone, Copy)]
struct Link {
    to: usize,
    risky: bool,
}

impl Links {
    fn of(graph: &Graph, direction: Direction) -> Self {
        let mut links = vec![Vec::new(); graph.nodes().len()];
        for from in 0..graph.nodes().len() {
            for update in graph.updates(from) {
                let risky = update.is_conditional();
                match direction {
                    Direction::Forward => links[from].push(Link { to: update.to, risky }),
                    Direction::Backward => links[update.to].push(Link { to: from, risky }),
                }
            }
        }
        Self(links)
    }

    /// Everything reachable, each release with the best path to it; of two that are as
    /// good, the one over the newer release.
    fn reach(&self, start: usize, best: Best, follow: impl Fn(&Link) -> bool) -> Reach {
        let cost = |step: &Step| match best {
            Best::FewestHops => (step.hops, step.risky),
            Best::FewestRisks => (step.risky, step.hops),
        };
        let mut reach = Reach::from([(start, Step { hops: 0, risky: 0, via: start })]);
        let mut queue = BTreeSet::from([((0, 0), start)]);
        while let Some((reached_for, at)) = queue.pop_first() {
            let here = reach[&at];
            if cost(&here) < reached_for {
                continue;
            }
            for link in self.0[at].iter().filter(|link| follow(link)) {
                let risky = here.risky + usize::from(link.risky);
                let step = Step { hops: here.hops + 1, risky, via: at };
                let held = reach.get(&link.to);
                // Every hop costs, so whatever leads here was left before.
                if held.is_none_or(|held| {
                    (cost(&step), Reverse(step.via)) < (cost(held), Reverse(held.via))
                }) {
                    reach.insert(link.to, step);
                    queue.insert((cost(&step), link.to));
                }
            }
        }
        reach
    }
}

fn path(reach: &Reach, start: usize, end: usize) -> Option<Vec<usize>> {
    let mut path = vec![end];
    let mut at = end;
    while at != start {
        at = reach.get(&at)?.via;
        path.push(at);
    }
    path.reverse();
    Some(path)
}

impl Route {
    fn of(graph: &Graph, path: &[usize]) -> Self {
        let mut hops: Vec<Hop> = path
            .windows(2)
            .map(|pair| {
                let [from, to] = [pair[0], pair[1]].map(|place| &graph.nodes()[place]);
                Hop {
                    from: from.version.clone(),
                    to: to.version.clone(),
                    channels: from.channels.intersection(&to.channels).cloned().collect(),
                    risks: risk_names(graph, &[(pair[0], pair[1])]),
                    extended: None,
                }
            })
            .collect();
        extended::mark(&mut hops);
        let conditional = |pair: &[usize]| {
            graph.update(pair[0], pair[1]).is_some_and(|update| update.is_conditional())
        };
        let without_risks = !path.windows(2).any(conditional);
        Self { hops, without_risks }
    }

    fn places(&self, graph: &Graph) -> Vec<(usize, usize)> {
        let place = |version: &Version| graph.place_of(version).unwrap_or_default();
        self.hops.iter().map(|hop| (place(&hop.from), place(&hop.to))).collect()
    }
}

fn updates<'a>(graph: &'a Graph, hops: &'a [(usize, usize)]) -> impl Iterator<Item = Update<'a>> {
    hops.iter().filter_map(|(from, to)| graph.update(*from, *to))
}

fn risks(graph: &Graph, hops: &[(usize, usize)]) -> Vec<Risk> {
    let all: BTreeSet<&Risk> = updates(graph, hops).flat_map(|update| update.risks()).collect();
    all.into_iter().cloned().collect()
}

fn risk_names(graph: &Graph, hops: &[(usize, usize)]) -> Vec<String> {
    let all = updates(graph, hops).flat_map(|update| update.risks());
    all.map(|risk| risk.name.clone()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// What the hops alone do not show.
fn advice(from: &Version, to: &Version, routes: &[Route]) -> Vec<String> {
    let mut advice = Vec::new();
    let (first, last) = (Minor::of(from), Minor::of(to));
    let distance = last.minor.saturating_sub(first.minor);
    if first.major == last.major && distance >= 2 && first.is_eus() && last.is_eus() {
        advice.push(format!(
            "EUS to EUS: the control plane goes through every minor version from {first} to {last}. Pause the MachineConfigPools of the workers before the first hop and resume them at {last}: they skip the odd versions and restart once for two. Update operators that must change with the odd version in between."
        ));
    }
    if distance >= 1 {
        advice.push(format!(
            "Set the cluster's channel to one of {last} (oc adm upgrade channel) and acknowledge removed APIs before each minor version."
        ));
    }
    if routes.first().is_some_and(|route| !route.without_risks) {
        advice.push(
            "Every path has known risks. `oc adm upgrade --include-not-recommended` reports whether they affect your cluster.".to_owned(),
        );
    }
    if let [fine, any] = routes {
        advice.push(format!(
            "A shorter path has {} instead of {} hops, with known risks.",
            any.hops.len(),
            fine.hops.len()
        ));
    }
    advice
}

#[cfg(test)]
mod tests;
