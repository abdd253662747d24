//! `oc-mirror list`: what there is to mirror.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use image_set::{Architecture, Distribution};
use mirror::{ReleaseContents, ReleaseLookup};
use oci::ImageRef;
use release::channel::Minor;
use release::graph::Graph;
use release::select::GraphKey;
use semver::Version;
use serde::Serialize;

use crate::list_charts::{ChartArguments, ListCharts, charts, images as chart_images};
use crate::list_format::{ListOptions, rendered};
use crate::list_operators::{ListOperators, operators};
use crate::lookup_arguments::{architecture, minor, wait};
use crate::quantity;
use crate::request::ProcessEnvironment;

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    #[command(subcommand)]
    pub(crate) what: ListCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ListCommand {
    /// List releases of OpenShift: minor versions, channels, or the versions of a channel
    Releases(ListReleases),
    /// List every image of a release, which is verified first, or of a Helm chart
    Images(ListImages),
    /// List the charts of a Helm repository, or the versions of a chart
    Charts(ListCharts),
    /// List catalogs of operators, or what is in one: packages, channels, versions
    Operators(ListOperators),
}

#[derive(Debug, Args)]
pub(crate) struct ListReleases {
    /// Minor version, such as 4.16: lists its stable channel
    #[arg(long, value_name = "X.Y", value_parser = minor)]
    version: Option<Minor>,
    /// Channel to list, such as fast-4.16
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// List the channels that releases of --version are in
    #[arg(long, requires = "version", conflicts_with = "channel")]
    channels: bool,
    /// Architectures, separated by commas: amd64, arm64, ppc64le, s390x, multi
    #[arg(
        long,
        value_name = "ARCHS",
        value_delimiter = ',',
        value_parser = architecture,
        default_value = "amd64"
    )]
    filter_by_archs: Vec<Architecture>,
    #[command(flatten)]
    list: ListOptions,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").args(["release", "chart"]).required(true)))]
pub(crate) struct ListImages {
    /// A version such as 4.16.3, or a payload such as quay.io/openshift-release-dev/ocp-release:4.16.3-x86_64
    #[arg(long, value_name = "RELEASE")]
    release: Option<String>,
    /// Architecture of the release, if --release is a version
    #[arg(long, value_name = "ARCH", value_parser = architecture, default_value = "amd64")]
    arch: Architecture,
    #[command(flatten)]
    chart: ChartArguments,
    #[command(flatten)]
    list: ListOptions,
}

/// The text of a list.
pub(crate) fn list(
    arguments: &ListArguments,
    process: &ProcessEnvironment,
) -> anyhow::Result<String> {
    match &arguments.what {
        ListCommand::Releases(arguments) => {
            let lookup = arguments.list.releases(process)?;
            wait(releases(arguments, &lookup))
        }
        ListCommand::Charts(arguments) => charts(arguments, process),
        ListCommand::Images(arguments) => {
            if let Some(chart) = &arguments.chart.chart {
                let (chart_arguments, list) = (&arguments.chart, &arguments.list);
                return chart_images(chart, chart_arguments, list, process);
            }
            let lookup = arguments.list.releases(process)?;
            wait(images(arguments, &lookup))
        }
        ListCommand::Operators(arguments) => operators(arguments, process),
    }
}

/// The releases of one channel.
#[derive(Debug, Serialize)]
struct Listed {
    channel: String,
    architecture: &'static str,
    versions: Vec<String>,
}

async fn releases(arguments: &ListReleases, lookup: &ReleaseLookup) -> anyhow::Result<String> {
    if arguments.channels {
        return channels(arguments, lookup).await;
    }
    let channel = match (&arguments.channel, &arguments.version) {
        (Some(channel), _) => channel.clone(),
        (None, Some(version)) => format!("stable-{version}"),
        (None, None) => return minors(arguments, lookup).await,
    };
    let mut listed = Vec::new();
    for architecture in unique(&arguments.filter_by_archs) {
        let graph = graph(lookup, &channel, architecture).await?;
        let versions = graph.versions().map(ToString::to_string).collect();
        listed.push(Listed {
            channel: channel.clone(),
            architecture: architecture.as_str(),
            versions,
        });
    }
    let with_hint = arguments.channel.is_none();
    rendered(arguments.list.output, &listed, || releases_text(&listed, with_hint))
}

fn releases_text(listed: &[Listed], with_hint: bool) -> String {
    let mut text = String::new();
    if with_hint {
        text.push_str(
            "Listing stable channels. Use --channel=<channel-name> to filter.\n\
             Use --channels to list the channels of this version.\n\n",
        );
    }
    for (place, list) in listed.iter().enumerate() {
        let gap = if place > 0 { "\n" } else { "" };
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "{gap}Channel: {}\nArchitecture: {}", list.channel, list.architecture);
        text.extend(list.versions.iter().map(|version| format!("{version}\n")));
    }
    text
}

/// A graph that has releases; a channel without any does not exist.
async fn graph(
    lookup: &ReleaseLookup,
    channel: &str,
    architecture: Architecture,
) -> anyhow::Result<Graph> {
    let graph = lookup.graph(&GraphKey::new(Distribution::Ocp, channel, architecture)).await?;
    if graph.is_empty() {
        let near = release::channel::suggestions(channel, &Default::default());
        let near = match near.as_slice() {
            [] => String::new(),
            near => format!("; did you mean {}?", near.join(" or ")),
        };
        anyhow::bail!("channel {channel} has no releases for {}{near}", architecture.as_str());
    }
    Ok(graph)
}

async fn minors(arguments: &ListReleases, lookup: &ReleaseLookup) -> anyhow::Result<String> {
    let minors: Vec<String> = lookup.minors().await?.iter().map(ToString::to_string).collect();
    anyhow::ensure!(!minors.is_empty(), "no releases found");
    rendered(arguments.list.output, &minors, || {
        let mut text = "Available OpenShift Container Platform release versions:\n".to_owned();
        text.extend(minors.iter().map(|minor| format!("  {minor}\n")));
        text
    })
}

async fn channels(arguments: &ListReleases, lookup: &ReleaseLookup) -> anyhow::Result<String> {
    let Some(version) = &arguments.version else { anyhow::bail!("--channels needs --version") };
    let mut found = std::collections::BTreeSet::new();
    for architecture in unique(&arguments.filter_by_archs) {
        let graph = graph(lookup, &format!("stable-{version}"), architecture).await?;
        found.extend(graph.channels_of(*version).into_iter().map(str::to_owned));
    }
    anyhow::ensure!(
        !found.is_empty(),
        "channel stable-{version} has no release of {version}; list the releases that it has with \
         --channel stable-{version}"
    );
    rendered(arguments.list.output, &found, || {
        let mut text = format!("Listing channels for version {version}:\n\n");
        text.extend(found.iter().map(|channel| format!("{channel}\n")));
        text
    })
}

async fn images(arguments: &ListImages, lookup: &ReleaseLookup) -> anyhow::Result<String> {
    let release = arguments.release.as_deref().unwrap_or_default();
    let payload = match release.parse::<Version>() {
        Ok(version) => lookup.payload(&version, arguments.arch).await?,
        Err(_) => pinned(release)?,
    };
    let contents = lookup.contents(&payload).await?;
    rendered(arguments.list.output, &contents, || table(&contents))
}

fn pinned(text: &str) -> anyhow::Result<ImageRef> {
    let hint = "expected a version such as 4.16.3, or a payload with tag or digest";
    // `4.16` would parse as the name of an image, which is never meant.
    anyhow::ensure!(text.contains('/'), "--release {text:?} is not a release: {hint}");
    let name = text.strip_prefix("docker://").unwrap_or(text);
    let payload: ImageRef =
        name.parse().map_err(|error| anyhow::anyhow!("--release {text:?}: {error}; {hint}"))?;
    anyhow::ensure!(payload.pointer().is_some(), "--release {text:?} has neither tag nor digest");
    Ok(payload)
}

fn table(contents: &ReleaseContents) -> String {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), quantity::bytes);
    let mut text = format!(
        "Release: {}\nPayload: {}\nSigned by: key {}\nImages: {}, {} together\n\n",
        contents.version,
        contents.payload,
        contents.signed_by,
        contents.components.len(),
        size(contents.bytes),
    );
    let width = contents.components.iter().map(|line| line.name.len()).max().unwrap_or(0).max(4);
    let _ = writeln!(text, "{:<width$}  {:>10}  IMAGE", "NAME", "SIZE");
    for line in &contents.components {
        let size = size(line.bytes);
        let _ = writeln!(text, "{:<width$}  {size:>10}  {}", line.name, line.image);
    }
    text
}

fn unique(architectures: &[Architecture]) -> Vec<Architecture> {
    let unique: std::collections::BTreeSet<_> = architectures.iter().copied().collect();
    unique.into_iter().collect()
}
