//! The upgrade route from the lowest release of one channel to the highest of another.
//!
//! A cluster that moves over several minor versions changes channels on the
//! route. Where a configuration names several channels, the releases on it
//! are selected, too.

use image_set::{Architecture, Distribution, PlatformSection};
use semver::Version;

use super::{
    Failure, GraphKey, Graphs, Note, SelectError, SelectedPayloads, Selection, bounds, error,
    shortest_listed_path,
};
use crate::channel::ChannelName;
use crate::graph::{Graph, Node};

/// More minor versions than any product had. A mistyped name (`stable-4.160`)
/// must not become thousands of requests.
const MAX_MINORS: u64 = 64;

/// The start and the end of an upgrade route.
#[derive(Debug)]
struct UpgradeRoute<'a> {
    from: (&'a str, Version),
    to: (&'a str, Version),
}

/// A channel, and the releases of the route in it.
type ChannelPath<'a> = (String, Vec<&'a Node>);

/// From the lowest to the highest bound of all OCP channels; `None` with fewer
/// than two channels, or before their graphs are there. Of two channels with the
/// same bound the first in the configuration counts.
fn route<'a>(
    section: &'a PlatformSection,
    architecture: Architecture,
    graphs: &Graphs,
) -> Option<UpgradeRoute<'a>> {
    if section.channels.len() < 2 {
        return None;
    }
    let mut bounded = Vec::new();
    for channel in &section.channels {
        if channel.distribution == Distribution::Ocp {
            // A channel without bounds has failed already.
            let graph = graphs.get(&GraphKey::of(channel, architecture));
            let Some(bounds) = graph.and_then(|graph| bounds(channel, graph)) else { continue };
            bounded.push((channel.name.as_str(), bounds));
        }
    }
    let lowest = bounded.iter().min_by(|a, b| a.1.min.cmp_precedence(&b.1.min))?;
    // Of equal ones `max_by` would take the last.
    let highest = bounded.iter().rev().max_by(|a, b| a.1.max.cmp_precedence(&b.1.max))?;
    Some(UpgradeRoute {
        from: (lowest.0, lowest.1.min.clone()),
        to: (highest.0, highest.1.max.clone()),
    })
}

/// The channels strictly between those of the route.
pub(super) fn channels_between(
    section: &PlatformSection,
    architecture: Architecture,
    graphs: &Graphs,
) -> Vec<GraphKey> {
    let Some(route) = route(section, architecture, graphs) else { return Vec::new() };
    let names = intermediate(route.from.0, route.to.0);
    names.iter().map(|name| GraphKey::new(Distribution::Ocp, name, architecture)).collect()
}

/// `stable-4.12` to `fast-4.15`: `stable-4.13`, `stable-4.14`.
fn intermediate(from: &str, to: &str) -> Vec<String> {
    let (Some(from), Some(to)) = (ChannelName::parse(from), ChannelName::parse(to)) else {
        return Vec::new();
    };
    let distance = to.minor.minor.saturating_sub(from.minor.minor);
    if from.minor.major != to.minor.major || distance > MAX_MINORS {
        return Vec::new();
    }
    let minors = from.minor.minor + 1..to.minor.minor;
    minors.map(|minor| format!("{}-{}.{minor}", from.prefix, from.minor.major)).collect()
}

/// Adds the releases of the route to the selection.
pub(super) fn select<'a>(
    section: &PlatformSection,
    architecture: Architecture,
    graphs: &'a Graphs,
    picked: &mut SelectedPayloads<'a>,
    selection: &mut Selection,
) {
    let Some(route) = route(section, architecture, graphs) else { return };
    match walk(&route, architecture, graphs, &mut selection.notes) {
        Ok(paths) => {
            for (channel, nodes) in paths {
                picked.add(Distribution::Ocp, &channel, nodes);
            }
        }
        Err(error) => {
            let start = section.channels.iter().find(|channel| channel.name == route.from.0);
            selection.failures.push(Failure {
                channel: route.to.0.to_owned(),
                architecture,
                at: start.map(|channel| channel.at).unwrap_or_default(),
                error,
            });
        }
    }
}

fn walk<'a>(
    route: &UpgradeRoute<'_>,
    architecture: Architecture,
    graphs: &'a Graphs,
    notes: &mut Vec<Note>,
) -> Result<Vec<ChannelPath<'a>>, SelectError> {
    let graph =
        |channel: &str| graphs.filled(&GraphKey::new(Distribution::Ocp, channel, architecture));
    let (source, start) = (route.from.0, &route.from.1);
    let (target, end) = (route.to.0, &route.to.1);
    let arrival = (target.to_owned(), vec![node(graph(target)?, target, end)?]);
    let named = (ChannelName::parse(source), ChannelName::parse(target));
    let (from, to) = match named {
        (Some(from), Some(to)) => (from, to),
        _ if source == target => {
            return Ok(vec![within(target, graph(target)?, start, end, notes)?, arrival]);
        }
        _ => {
            notes.push(Note::NoOrder { from: source.to_owned(), to: target.to_owned() });
            return Ok(vec![arrival]);
        }
    };
    // A channel has releases of the minor versions before its own, so that the
    // target may be the older channel and still have the newest release.
    if from.minor >= to.minor {
        let path = match source == target || graph(target)?.place_of(start).is_some() {
            true => within(target, graph(target)?, start, end, notes)?,
            false => blocked(start, target, notes),
        };
        return Ok(vec![path, arrival]);
    }
    let source_graph = graph(source)?;
    let mut at = source_graph.head().map_or(start, |head| &head.version);
    let mut paths = vec![(source.to_owned(), vec![node(source_graph, source, start)?])];
    paths.push(within(source, source_graph, start, at, notes)?);
    for channel in intermediate(source, target) {
        let Ok(next) = graph(&channel) else {
            notes.push(Note::Skipped { channel });
            continue;
        };
        if next.place_of(at).is_none() {
            paths.extend([blocked(at, &channel, notes), arrival]);
            return Ok(paths);
        }
        let head = next.head().map_or(at, |head| &head.version);
        paths.push(within(&channel, next, at, head, notes)?);
        at = head;
    }
    paths.push(match graph(target)?.place_of(at) {
        Some(_) => within(target, graph(target)?, at, end, notes)?,
        None => blocked(at, target, notes),
    });
    paths.push(arrival);
    Ok(paths)
}

fn node<'a>(graph: &'a Graph, channel: &str, version: &Version) -> Result<&'a Node, SelectError> {
    error::place(graph, channel, version).map(|place| &graph.nodes()[place])
}

/// The path inside one channel; no release if there is none.
fn within<'a>(
    channel: &str,
    graph: &'a Graph,
    from: &Version,
    to: &Version,
    notes: &mut Vec<Note>,
) -> Result<ChannelPath<'a>, SelectError> {
    let start = error::place(graph, channel, from)?;
    let end = error::place(graph, channel, to)?;
    let path = shortest_listed_path(graph, start, end).unwrap_or_else(|| {
        let channel = channel.to_owned();
        notes.push(Note::NoWay { channel, from: from.clone(), to: to.clone() });
        Vec::new()
    });
    Ok((channel.to_owned(), path.into_iter().map(|place| &graph.nodes()[place]).collect()))
}

/// Reports that a channel does not have the release at which it starts.
fn blocked<'a>(at: &Version, channel: &str, notes: &mut Vec<Note>) -> ChannelPath<'a> {
    notes.push(Note::Blocked { at: at.clone(), channel: channel.to_owned() });
    (channel.to_owned(), Vec::new())
}
