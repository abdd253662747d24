//! Which releases the `platform` section of a configuration selects.
//!
//! The caller fetches graphs as long as [`needed`] names any, and then calls
//! [`select`]. Both are pure; the same graphs give the same releases, today and
//! on the other side of an air gap.

use std::collections::{BTreeMap, BTreeSet};

use image_set::{Architecture, Distribution, EntryPosition, PlatformSection, ReleaseChannel};
use oci::ImageRef;
use semver::Version;
use serde::Serialize;

use crate::channel;
use crate::graph::{Graph, Node, UnusablePayload};

mod across;
mod error;
mod path;

pub use error::{Note, SelectError};
pub(crate) use path::shortest_listed_path;

/// What an update service is requested.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GraphKey {
    pub distribution: Distribution,
    pub channel: String,
    pub architecture: Architecture,
}

/// The graphs that were fetched, and those that could not be.
#[derive(Debug, Clone, Default)]
pub struct Graphs(BTreeMap<GraphKey, Option<Graph>>);

/// What was selected, notes about it, and what failed. Failures
/// concern one channel for one architecture; the rest was selected nevertheless.
#[derive(Debug, Default)]
pub struct Selection {
    /// By architecture, then by version. Each payload is there once.
    pub releases: Vec<SelectedRelease>,
    pub notes: Vec<Note>,
    pub failures: Vec<Failure>,
}

/// A release to mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedRelease {
    pub version: Version,
    pub architecture: Architecture,
    pub distribution: Distribution,
    pub payload: ImageRef,
    /// The channels of the configuration it was selected for.
    pub channels: BTreeSet<String>,
}

/// A channel from which nothing could be selected, and why.
#[derive(Debug)]
pub struct Failure {
    pub channel: String,
    pub architecture: Architecture,
    /// Where the channel is in the configuration.
    pub at: EntryPosition,
    pub error: SelectError,
}

/// The part of a channel that is selected, after what was left open is filled
/// in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bounds {
    pub min: Version,
    pub max: Version,
}

/// Which architectures of a section are requested from the update service: those it
/// names, `multi` if it picks platforms out of payloads for several, else amd64.
pub fn architectures(section: &PlatformSection) -> Vec<Architecture> {
    if !section.platforms.is_empty() {
        return vec![Architecture::Multi];
    }
    if section.architectures.is_empty() {
        return vec![Architecture::Amd64];
    }
    let unique: BTreeSet<Architecture> = section.architectures.iter().copied().collect();
    unique.into_iter().collect()
}

/// The graphs that are still missing for the selection. Call it again after adding
/// them: a path across channels may lead through channels that only the first
/// graphs contain. Empty when [`select`] has all it can use.
pub fn needed(section: &PlatformSection, graphs: &Graphs) -> BTreeSet<GraphKey> {
    if section.release.is_some() {
        return BTreeSet::new();
    }
    let mut keys = BTreeSet::new();
    for architecture in architectures(section) {
        let own = section.channels.iter().map(|channel| GraphKey::of(channel, architecture));
        let missing: Vec<GraphKey> = own.filter(|key| !graphs.was_requested(key)).collect();
        if missing.is_empty() {
            let between = across::channels_between(section, architecture, graphs);
            keys.extend(between.into_iter().filter(|key| !graphs.was_requested(key)));
        }
        keys.extend(missing);
    }
    keys
}

/// Selects releases. A section that names its payload by `release` selects
/// nothing here: its channels are ignored.
pub fn select(section: &PlatformSection, graphs: &Graphs) -> Selection {
    let mut selection = Selection::default();
    if section.release.is_some() {
        return selection;
    }
    for architecture in architectures(section) {
        let mut picked = SelectedPayloads::default();
        for channel in &section.channels {
            match select_channel(channel, architecture, graphs, &mut selection.notes) {
                Ok(nodes) => picked.add(channel.distribution, &channel.name, nodes),
                Err(error) => selection.failures.push(Failure {
                    channel: channel.name.clone(),
                    architecture,
                    at: channel.at,
                    error,
                }),
            }
        }
        across::select(section, architecture, graphs, &mut picked, &mut selection);
        for (unusable, channel) in std::mem::take(&mut picked.unusable) {
            let named = section.channels.iter().find(|own| own.name == channel);
            selection.failures.push(Failure {
                at: named.map_or(section.at, |own| own.at),
                channel,
                architecture,
                error: SelectError::Payload(unusable.clone()),
            });
        }
        selection.releases.extend(picked.into_releases(architecture));
    }
    let mut seen = BTreeSet::new();
    selection.notes.retain(|note| seen.insert(note.to_string()));
    selection
}

/// The bounds of a channel in its graph.
pub fn bounds(channel: &ReleaseChannel, graph: &Graph) -> Option<Bounds> {
    let (first, head) = (&graph.first()?.version, &graph.head()?.version);
    let max = channel.max_version.as_ref().unwrap_or(head);
    let min = match (&channel.min_version, &channel.max_version) {
        (Some(min), _) => min,
        // Only the head, unless more was requested.
        (None, None) if !channel.full => max,
        (None, _) => first,
    };
    Some(Bounds { min: min.clone(), max: max.clone() })
}

fn select_channel<'a>(
    channel: &ReleaseChannel,
    architecture: Architecture,
    graphs: &'a Graphs,
    notes: &mut Vec<Note>,
) -> Result<Vec<&'a Node>, SelectError> {
    let graph = graphs.filled(&GraphKey::of(channel, architecture))?;
    let Some(Bounds { min, max }) = bounds(channel, graph) else { return Ok(Vec::new()) };
    if min.cmp_precedence(&max).is_gt() {
        return Err(SelectError::Order(Box::new(Bounds { min, max })));
    }
    let is_eus = channel::ChannelName::parse(&channel.name).is_some_and(|name| name.is_eus());
    if is_eus && max.minor.saturating_sub(min.minor) >= 2 {
        let channel = channel.name.clone();
        notes.push(Note::ExtendedUpdate { channel, min: min.clone(), max: max.clone() });
    }
    if channel.shortest_path {
        let from = error::place(graph, &channel.name, &min)?;
        let to = error::place(graph, &channel.name, &max)?;
        let Some(path) = shortest_listed_path(graph, from, to) else {
            notes.push(Note::NoPath { channel: channel.name.clone(), from: min, to: max });
            return Ok(vec![&graph.nodes()[from], &graph.nodes()[to]]);
        };
        return Ok(path.into_iter().map(|place| &graph.nodes()[place]).collect());
    }
    let within = |node: &&Node| {
        node.version.cmp_precedence(&min).is_ge() && node.version.cmp_precedence(&max).is_le()
    };
    let nodes: Vec<&Node> = graph.nodes().iter().filter(within).collect();
    if nodes.is_empty() {
        return Err(SelectError::no_release(graph, &channel.name, Bounds { min, max }));
    }
    Ok(nodes)
}

/// Releases of one architecture, by payload.
#[derive(Debug, Default)]
struct SelectedPayloads<'a> {
    by_payload: BTreeMap<&'a ImageRef, (&'a Node, Distribution, BTreeSet<String>)>,
    /// Those whose payload is not an image, with the channel they were picked from.
    unusable: BTreeMap<&'a UnusablePayload, String>,
}

impl<'a> SelectedPayloads<'a> {
    fn add(
        &mut self,
        distribution: Distribution,
        channel: &str,
        nodes: impl IntoIterator<Item = &'a Node>,
    ) {
        for node in nodes {
            let payload = match node.payload.image() {
                Ok(payload) => payload,
                Err(unusable) => {
                    self.unusable.entry(unusable).or_insert_with(|| channel.to_owned());
                    continue;
                }
            };
            let entry = self.by_payload.entry(payload);
            let (.., channels) = entry.or_insert((node, distribution, BTreeSet::new()));
            channels.insert(channel.to_owned());
        }
    }

    fn into_releases(self, architecture: Architecture) -> Vec<SelectedRelease> {
        let mut releases: Vec<SelectedRelease> = self
            .by_payload
            .into_iter()
            .map(|(payload, (node, distribution, channels))| SelectedRelease {
                version: node.version.clone(),
                architecture,
                distribution,
                payload: payload.clone(),
                channels,
            })
            .collect();
        releases.sort_by(|a, b| a.version.cmp(&b.version).then_with(|| a.payload.cmp(&b.payload)));
        releases
    }
}

impl GraphKey {
    pub fn of(channel: &ReleaseChannel, architecture: Architecture) -> Self {
        Self::new(channel.distribution, &channel.name, architecture)
    }

    pub fn new(distribution: Distribution, channel: &str, architecture: Architecture) -> Self {
        Self { distribution, channel: channel.to_owned(), architecture }
    }

    /// The name of the file that keeps the response, as in oc-mirror v2.
    pub fn file_name(&self) -> String {
        format!("{}-{}.json", self.architecture.as_str(), self.channel)
    }
}

impl Graphs {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn insert(&mut self, key: GraphKey, graph: Graph) {
        self.0.insert(key, Some(graph));
    }

    /// Records that a graph is unavailable, so that it is not requested again. What
    /// would be selected from it fails with [`SelectError::NoGraph`].
    pub fn give_up(&mut self, key: GraphKey) {
        self.0.entry(key).or_insert(None);
    }

    pub fn get(&self, key: &GraphKey) -> Option<&Graph> {
        self.0.get(key)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&GraphKey, &Graph)> {
        self.0.iter().filter_map(|(key, graph)| Some((key, graph.as_ref()?)))
    }

    fn was_requested(&self, key: &GraphKey) -> bool {
        self.0.contains_key(key)
    }

    /// The graph of a channel that has releases, or why there is none.
    fn filled(&self, key: &GraphKey) -> Result<&Graph, SelectError> {
        let graph = self.get(key).ok_or_else(|| SelectError::NoGraph {
            channel: key.channel.clone(),
            architecture: key.architecture,
        })?;
        if graph.is_empty() {
            return Err(SelectError::empty(self, key));
        }
        Ok(graph)
    }
}

#[cfg(test)]
mod tests;
