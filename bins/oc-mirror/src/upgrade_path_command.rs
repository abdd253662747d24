//! `oc-mirror upgrade-path`: how a cluster gets from one release to another,
//! and an operator from one version to another.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use image_set::{Architecture, Distribution};
use mirror::ReleaseLookup;
use release::channel::{ChannelName, Minor};
use release::graph::Graph;
use release::select::GraphKey;
use release::upgrade_path::{PathQuery, find_paths};
use semver::Version;

use crate::lookup_arguments::{architecture, full_version, wait};
use crate::path_format::PathOptions;
use crate::request::ProcessEnvironment;
use crate::upgrade_path_operator::{UpgradePathOperator, operator};

/// The channels that are searched unless others are named.
const PREFIX: &str = "stable";
/// How many minor versions are searched where no target is given.
const MAX_MINORS: u64 = 12;

#[derive(Debug, Args)]
pub(crate) struct UpgradePathArguments {
    #[command(subcommand)]
    pub(crate) of: UpgradePathCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UpgradePathCommand {
    /// Show the upgrade path from one release to another: hops, channels, known risks
    Release(UpgradePathRelease),
    /// Show how OLM upgrades an operator from one version to another within a channel
    Operator(UpgradePathOperator),
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("ends").args(["from", "to"]).required(true).multiple(true)))]
pub(crate) struct UpgradePathRelease {
    /// The current release of the cluster; without it, every release with a path to --to
    #[arg(long, value_name = "VERSION", value_parser = full_version)]
    from: Option<Version>,
    /// The wanted release; without it, every reachable one
    #[arg(long, value_name = "VERSION", value_parser = full_version)]
    to: Option<Version>,
    /// Channel to search, such as eus-4.16; earlier channels of the same kind are searched too [default: the stable channels]
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Architecture of the releases
    #[arg(long, value_name = "ARCH", value_parser = architecture, default_value = "amd64")]
    arch: Architecture,
    #[command(flatten)]
    path: PathOptions,
}

/// The path in the requested format.
pub(crate) fn upgrade_path(
    arguments: &UpgradePathArguments,
    process: &ProcessEnvironment,
) -> anyhow::Result<String> {
    match &arguments.of {
        UpgradePathCommand::Release(arguments) => release(arguments, process),
        UpgradePathCommand::Operator(arguments) => operator(arguments, process),
    }
}

fn release(arguments: &UpgradePathRelease, process: &ProcessEnvironment) -> anyhow::Result<String> {
    let query = match (&arguments.from, &arguments.to) {
        (Some(from), Some(to)) => PathQuery::Between { from: from.clone(), to: to.clone() },
        (Some(from), None) => PathQuery::From(from.clone()),
        (None, Some(to)) => PathQuery::To(to.clone()),
        (None, None) => anyhow::bail!("expected --from or --to"),
    };
    let lookup = arguments.path.releases(process)?;
    let graph = wait(graph(arguments, &query, &lookup))?;
    let paths = find_paths(&graph, &query)?;
    arguments.path.render(&paths, || paths.table(), || paths.drawing())
}

/// One graph of all channels that matter. A channel has the releases of its
/// own minor version and those of the one before that lead into it.
async fn graph(
    arguments: &UpgradePathRelease,
    query: &PathQuery,
    lookup: &ReleaseLookup,
) -> anyhow::Result<Graph> {
    let channels = channels(arguments.channel.as_deref(), query);
    let mut graphs = Vec::new();
    let mut first_failure = None;
    for channel in &channels {
        let key = GraphKey::new(Distribution::Ocp, channel, arguments.arch);
        match lookup.graph(&key).await {
            Ok(graph) => graphs.push(graph),
            // Transferred content has some channels only.
            Err(error) if arguments.path.workspace.is_some() => {
                first_failure.get_or_insert(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let (true, Some(error)) = (graphs.is_empty(), first_failure) {
        return Err(error.into());
    }
    if graphs.iter().all(Graph::is_empty) {
        let none = channels.join(", ");
        anyhow::bail!("there are no releases for {} in {none}", arguments.arch.as_str());
    }
    Graph::merged(&graphs).context("joining the update graphs of several channels")
}

/// The channels that can contain the path.
fn channels(named: Option<&str>, query: &PathQuery) -> Vec<String> {
    let (from, to) = match query {
        PathQuery::Between { from, to } => (Some(Minor::of(from)), Some(Minor::of(to))),
        PathQuery::From(from) => (Some(Minor::of(from)), None),
        PathQuery::To(to) => (None, Some(Minor::of(to))),
    };
    let (prefix, own) = match named.map(|name| (name, ChannelName::parse(name))) {
        // A name without a minor version does not imply others.
        Some((name, None)) => return vec![name.to_owned()],
        Some((_, Some(name))) => (name.prefix, Some(name.minor)),
        None => (PREFIX, None),
    };
    let Some(major) = from.or(to).map(|minor| minor.major) else { return Vec::new() };
    let (first, last) = match (from, own.or(to)) {
        // Backwards too: the error that there is no path then names known releases.
        (Some(from), Some(last)) => (from.minor.min(last.minor), from.minor.max(last.minor)),
        (Some(from), None) => (from.minor, from.minor + MAX_MINORS),
        (None, Some(last)) => (last.minor.saturating_sub(MAX_MINORS), last.minor),
        (None, None) => return Vec::new(),
    };
    (first..=last).map(|minor| format!("{prefix}-{major}.{minor}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(named: Option<&str>, from: Option<&str>, to: Option<&str>) -> Vec<String> {
        let version = |text: &str| text.parse().unwrap();
        let query = match (from, to) {
            (Some(from), Some(to)) => PathQuery::Between { from: version(from), to: version(to) },
            (Some(from), None) => PathQuery::From(version(from)),
            (None, to) => PathQuery::To(version(to.unwrap())),
        };
        channels(named, &query)
    }

    #[test]
    fn all_minor_versions_on_the_path_are_searched() {
        let stable = ["stable-4.12", "stable-4.13", "stable-4.14"];
        assert_eq!(found(None, Some("4.12.0"), Some("4.14.9")), stable);
        assert_eq!(found(None, Some("4.14.1"), Some("4.14.9")), ["stable-4.14"]);
        let fast = ["fast-4.12", "fast-4.13"];
        assert_eq!(found(Some("fast-4.13"), Some("4.12.0"), Some("4.13.9")), fast);
        assert_eq!(found(Some("4-stable"), Some("4.12.0"), None), ["4-stable"]);
        assert_eq!(found(Some("eus-4.14"), Some("4.13.0"), None), ["eus-4.13", "eus-4.14"]);
        assert_eq!(found(None, None, Some("4.2.0")), ["stable-4.0", "stable-4.1", "stable-4.2"]);
    }
}
