//! Which releases a cluster needs next, and the channels that have them.

use std::collections::BTreeMap;

use cluster_inventory::Cluster;
use release::channel::{ChannelName, Minor};
use release::graph::{Graph, GraphError};
use release::upgrade_path::{Hop, PathError, PathQuery, Route, find_paths};
use semver::Version;

/// The kind of channels that clusters are in by default.
const USUAL_PREFIX: &str = "stable";
/// The kind of channels that reach over every second minor version.
const EXTENDED_PREFIX: &str = "eus";

/// What is wanted of the releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseRequest {
    /// The release that the cluster has.
    pub from: Version,
    /// The release that it is to have; otherwise the newest that its channel leads to.
    pub to: Option<Version>,
    /// The channel that it is in.
    pub channel: String,
    /// Whether the user chose the channel.
    pub channel_is_set: bool,
}

/// The part of a channel to mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelDraft {
    pub name: String,
    /// First and last release; `None` for the newest one alone.
    pub bounds: Option<(Version, Version)>,
    pub shortest_path: bool,
}

/// What to mirror, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Releases {
    pub channels: Vec<ChannelDraft>,
    /// The release that the cluster will have, where that is known.
    pub target: Option<Version>,
    /// The releases that it passes, the first and the last included.
    pub release_path: Vec<Version>,
    pub reasons: Vec<String>,
    /// What the user has to decide.
    pub undecided: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error(transparent)]
    Path(#[from] Box<PathError>),
    #[error("joining the update graphs of several channels")]
    Graph(#[source] Box<GraphError>),
    #[error("no searched channel ({0}) has any releases")]
    NoReleases(String),
}

impl ReleaseRequest {
    /// `None` when the release of the cluster is not known.
    pub fn of(cluster: &Cluster, to: Option<Version>, channel: Option<String>) -> Option<Self> {
        let from = cluster.version.clone()?;
        let named = channel.or_else(|| cluster.channel.clone());
        let usual = || format!("{USUAL_PREFIX}-{}", Minor::of(&from));
        let channel_is_set = named.is_some();
        Some(Self { channel: named.unwrap_or_else(usual), channel_is_set, from, to })
    }

    /// The channels whose graphs are needed, the one of the cluster first. Others may be absent.
    pub fn channels(&self) -> Vec<String> {
        let mut channels = vec![self.channel.clone()];
        let (Some(to), Some(own)) = (&self.to, ChannelName::parse(&self.channel)) else {
            return channels;
        };
        let (first, last) = (Minor::of(&self.from), Minor::of(to));
        if first.major == last.major {
            for minor in first.minor..=last.minor {
                channels.push(format!("{}-{}.{minor}", own.prefix, first.major));
            }
            if last.minor % 2 == 0 && last.minor > first.minor {
                channels.push(format!("{EXTENDED_PREFIX}-{last}"));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        channels.retain(|channel| seen.insert(channel.clone()));
        channels
    }

    /// Decides with the graphs that there are.
    pub fn decide(&self, graphs: &BTreeMap<String, Graph>) -> Result<Releases, TargetError> {
        if graphs.values().all(Graph::is_empty) {
            return Err(TargetError::NoReleases(self.channels().join(", ")));
        }
        let mut releases = match &self.to {
            Some(to) => self.towards(to, graphs)?,
            None => self.within_channel(graphs)?,
        };
        if !self.channel_is_set {
            releases.undecided.push(format!(
                "The cluster is in no channel. {} is used; `oc adm upgrade channel {}` sets it.",
                self.channel, self.channel
            ));
        }
        Ok(releases)
    }

    /// The newest release that the cluster's own channel leads to without known risks.
    fn within_channel(&self, graphs: &BTreeMap<String, Graph>) -> Result<Releases, TargetError> {
        let (from, channel) = (&self.from, &self.channel);
        let graph = graphs.get(channel).filter(|graph| !graph.is_empty());
        let graph = graph.ok_or_else(|| TargetError::NoReleases(channel.clone()))?;
        if graph.node(from).is_none() {
            return Ok(Releases {
                channels: vec![ChannelDraft {
                    name: channel.clone(),
                    bounds: None,
                    shortest_path: false,
                }],
                undecided: vec![format!(
                    "The channel {channel} does not have the cluster's release {from}, so no path from it is known: only the newest release of the channel is selected. Set the cluster to a channel that has both, or name the target with --to."
                )],
                ..Releases::default()
            });
        }
        let reached = find_paths(graph, &PathQuery::From(from.clone())).map_err(Box::new)?.releases;
        let best = reached.iter().filter(|r| r.risks.is_empty()).map(|r| &r.version).max();
        let newest = reached.iter().max_by(|a, b| a.version.cmp(&b.version));
        let mut reasons = Vec::new();
        match best {
            Some(best) => reasons.push(format!(
                "The cluster has {from} and is in channel {channel}: {best} is the newest release that it leads to without known risks."
            )),
            None => reasons.push(format!(
                "The cluster has {from} and is in channel {channel}, which has no update from it without known risks: its own release is mirrored."
            )),
        }
        if let Some(newest) = newest.filter(|newest| best.is_none_or(|best| newest.version > *best))
        {
            reasons.push(format!(
                "{} is newer, but every path to it has known risks ({}); --to {} selects it.",
                newest.version,
                newest.risks.join(", "),
                newest.version
            ));
        }
        let target = best.unwrap_or(from).clone();
        let query = PathQuery::Between { from: from.clone(), to: target.clone() };
        let paths = find_paths(graph, &query).map_err(Box::new)?;
        let release_path =
            paths.routes.first().map(|route| release_path(from, &route.hops)).unwrap_or_default();
        Ok(Releases {
            channels: vec![ChannelDraft {
                name: channel.clone(),
                bounds: Some((from.clone(), target.clone())),
                shortest_path: true,
            }],
            target: Some(target),
            release_path,
            reasons,
            undecided: Vec::new(),
        })
    }

    /// The path to a chosen release: inside of one channel where one has it, else from
    /// channel to channel.
    fn towards(
        &self,
        to: &Version,
        graphs: &BTreeMap<String, Graph>,
    ) -> Result<Releases, TargetError> {
        let from = &self.from;
        let query = PathQuery::Between { from: from.clone(), to: to.clone() };
        let mut risky: Option<(Vec<String>, Route)> = None;
        // The channel of the target before that of the cluster: it is where the cluster will be.
        let mut channels = self.channels();
        channels.sort_by_key(|name| {
            ChannelName::parse(name).is_none_or(|name| name.minor != Minor::of(to))
        });
        for name in &channels {
            let Some(graph) = graphs.get(name) else { continue };
            let Ok(paths) = find_paths(graph, &query) else { continue };
            match paths.routes.into_iter().next() {
                Some(route) if route.without_risks => {
                    return Ok(self.chosen(vec![name.clone()], &route));
                }
                Some(route) if risky.is_none() => risky = Some((vec![name.clone()], route)),
                _ => {}
            }
        }
        let merged =
            Graph::merged(graphs.values()).map_err(|error| TargetError::Graph(Box::new(error)))?;
        let route = match (find_paths(&merged, &query), &risky) {
            (Ok(paths), _) => paths.routes.into_iter().next(),
            (Err(_), Some(_)) => None,
            (Err(error), None) => return Err(Box::new(error).into()),
        };
        match (route, risky) {
            (Some(route), None) => Ok(self.chosen(self.channels_of(&route.hops), &route)),
            (Some(route), Some(_)) if route.without_risks => {
                Ok(self.chosen(self.channels_of(&route.hops), &route))
            }
            (_, Some((channels, route))) => Ok(self.chosen(channels, &route)),
            (None, None) => Err(TargetError::NoReleases(self.channels().join(", "))),
        }
    }

    /// The channel of each hop: that of the minor version it leads to.
    fn channels_of(&self, hops: &[Hop]) -> Vec<String> {
        let prefix = ChannelName::parse(&self.channel).map_or(USUAL_PREFIX, |name| name.prefix);
        hops.iter()
            .map(|hop| {
                let usual = format!("{prefix}-{}", Minor::of(&hop.to));
                match hop.channels.contains(&usual) {
                    true => usual,
                    false => hop.channels.first().cloned().unwrap_or(usual),
                }
            })
            .collect()
    }

    /// `channels` has one name for all hops, or one for each.
    fn chosen(&self, channels: Vec<String>, route: &Route) -> Releases {
        let (from, hops) = (&self.from, &route.hops);
        let target = hops.last().map_or(from, |hop| &hop.to).clone();
        let mut drafts: Vec<(ChannelDraft, usize)> = Vec::new();
        for (place, hop) in hops.iter().enumerate() {
            let name = channels.get(place).or(channels.first()).cloned().unwrap_or_default();
            match drafts.last_mut() {
                Some((draft, hops)) if draft.name == name => {
                    draft.bounds = draft.bounds.take().map(|(first, _)| (first, hop.to.clone()));
                    *hops += 1;
                }
                _ => {
                    let bounds = Some((hop.from.clone(), hop.to.clone()));
                    drafts.push((ChannelDraft { name, bounds, shortest_path: true }, 1));
                }
            }
        }
        if drafts.is_empty() {
            let name = channels.into_iter().next().unwrap_or_else(|| self.channel.clone());
            let bounds = Some((from.clone(), from.clone()));
            drafts.push((ChannelDraft { name, bounds, shortest_path: true }, 0));
        }
        let mut reasons = vec![format!("The cluster has {from} and is to have {target}.")];
        let names: Vec<&str> = drafts.iter().map(|(draft, _)| draft.name.as_str()).collect();
        if names != [self.channel.as_str()] {
            reasons.push(format!(
                "It is in channel {}, and the path leads through {}: change the channel before each part (`oc adm upgrade channel`).",
                self.channel,
                names.join(", ")
            ));
        }
        if !route.without_risks {
            let risks: Vec<&str> =
                hops.iter().flat_map(|hop| &hop.risks).map(String::as_str).collect();
            reasons.push(format!(
                "Every path has known risks ({}). `oc adm upgrade --include-not-recommended` shows whether they affect the cluster.",
                risks.join(", ")
            ));
            for (draft, hops) in &mut drafts {
                // The shortest path is searched among updates without risks; two ends are taken anyway.
                draft.shortest_path = *hops <= 1;
            }
        }
        Releases {
            channels: drafts.into_iter().map(|(draft, _)| draft).collect(),
            target: Some(target),
            release_path: release_path(from, hops),
            reasons,
            undecided: Vec::new(),
        }
    }
}

fn release_path(from: &Version, hops: &[Hop]) -> Vec<Version> {
    std::iter::once(from).chain(hops.iter().map(|hop| &hop.to)).cloned().collect()
}

#[cfg(test)]
mod tests;
