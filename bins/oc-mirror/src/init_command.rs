//! `oc-mirror init`: a configuration to start from; with the inventory of a
//! cluster, one for what it needs next.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use catalog::Catalog;
use clap::Args;
use cluster_inventory::{Inventory, MAX_BYTES};
use image_set::{Architecture, Distribution};
use image_set_draft::{Operators, ReleaseRequest, Releases, check, draft, operators, starter};
use mirror::{CatalogLookup, ReleaseLookup};
use release::channel::Minor;
use release::graph::Graph;
use release::select::GraphKey;
use semver::Version;

use crate::catalog_arguments;
use crate::lookup_arguments::{LookupArguments, architecture, full_version, minor, wait};
use crate::output_file::{self, Existing};
use crate::request::ProcessEnvironment;

/// Minor versions before the newest that are checked: the newest may have candidates only.
const MINORS: usize = 4;

const ABOUT: &str = "\
Examples:
  On the disconnected side:
    oc-mirror inventory --out cluster.json
  On the connected side, for the newest release that the cluster's channel leads to, or for another:
    oc-mirror init --for cluster.json --out isc.yaml
    oc-mirror init --for cluster.json --to 4.18.9 --out isc.yaml";

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub(crate) struct InitArguments {
    /// Inventory of a cluster, written by `oc-mirror inventory`: the configuration is for its next upgrade
    #[arg(long = "for", value_name = "FILE")]
    inventory: Option<PathBuf>,
    /// The wanted release [default: the newest one that its channel reaches without known risks]
    #[arg(long, value_name = "VERSION", value_parser = full_version, requires = "inventory")]
    to: Option<Version>,
    /// The channel of the cluster, instead of the one in its inventory
    #[arg(long, value_name = "CHANNEL", requires = "inventory")]
    channel: Option<String>,
    /// The architecture of the cluster, instead of the one in its inventory
    #[arg(long, value_name = "ARCH", value_parser = architecture, requires = "inventory")]
    arch: Option<Architecture>,
    /// Check that the catalogs have the packages, the channels, and updates from the installed versions
    #[arg(long, requires = "inventory")]
    check_operators: bool,
    /// The minor version to start with, such as 4.18 [default: the newest]
    #[arg(long, value_name = "X.Y", value_parser = minor, conflicts_with = "inventory")]
    version: Option<Minor>,
    /// Write the configuration to this file instead of standard output
    #[arg(long, short_alias = 'o', alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "out")]
    force: bool,
    /// Read the update graphs from archives or a transferred workspace in this directory, without network access
    #[arg(long, value_name = "file://DIR")]
    from: Option<String>,
    #[command(flatten)]
    lookup: LookupArguments,
}

/// Creates the configuration, and returns the text for standard output.
pub(crate) fn init(
    arguments: &InitArguments,
    process: &ProcessEnvironment,
) -> anyhow::Result<String> {
    // Before any request is sent: its result could not be written.
    if let (Some(path), false) = (&arguments.out, arguments.force) {
        anyhow::ensure!(
            !path.exists(),
            "{} exists and was not touched; name another file, or add --force to replace it",
            path.display()
        );
    }
    let text = match (&arguments.inventory, arguments.version) {
        (Some(path), _) => for_cluster(path, arguments, process)?,
        (None, Some(minor)) => starter(minor),
        (None, None) => {
            let lookup = open(arguments, process)?;
            starter(wait(newest(&lookup))?)
        }
    };
    let Some(path) = &arguments.out else { return Ok(text) };
    let existing = if arguments.force { Existing::Replace } else { Existing::Keep };
    output_file::write(path, text.as_bytes(), existing)?;
    tracing::info!("{} written", path.display());
    Ok(String::new())
}

fn open(arguments: &InitArguments, process: &ProcessEnvironment) -> anyhow::Result<ReleaseLookup> {
    arguments.lookup.open(("--from", arguments.from.as_deref()), process)
}

/// The newest minor version that has a stable release.
async fn newest(lookup: &ReleaseLookup) -> anyhow::Result<Minor> {
    let hint = "name a minor version with --version, such as 4.18";
    let minors = lookup.minors().await.context(hint)?;
    for minor in minors.iter().rev().take(MINORS) {
        let channel = format!("stable-{minor}");
        let key = GraphKey::new(Distribution::Ocp, &channel, Architecture::Amd64);
        if lookup.graph(&key).await.is_ok_and(|graph| !graph.is_empty()) {
            return Ok(*minor);
        }
    }
    anyhow::bail!("no stable releases were found; {hint}")
}

fn for_cluster(
    path: &Path,
    arguments: &InitArguments,
    process: &ProcessEnvironment,
) -> anyhow::Result<String> {
    let inventory = read(path)?;
    let architecture = match arguments.arch {
        Some(architecture) => Some(architecture),
        None => known_architecture(&inventory)?,
    };
    let cluster = inventory.cluster.clone().unwrap_or_default();
    let release_request =
        ReleaseRequest::of(&cluster, arguments.to.clone(), arguments.channel.clone());
    let releases = match &release_request {
        None => {
            anyhow::ensure!(
                arguments.to.is_none(),
                "the release of the cluster is not in {}, so no path to --to can be found",
                path.display()
            );
            None
        }
        Some(release_request) => {
            let lookup = open(arguments, process)?;
            let used = architecture.unwrap_or(Architecture::Amd64);
            Some(wait(releases(release_request, &lookup, used, arguments.from.is_some()))?)
        }
    };
    let mut operators = operators(&inventory, releases.as_ref());
    if arguments.check_operators {
        let carried = ("--from", arguments.from.as_deref());
        let lookup = arguments.lookup.catalogs(carried, process)?;
        wait(check_catalogs(&mut operators, &lookup))?;
    }
    let draft = draft(&inventory, releases.as_ref(), &operators, architecture);
    for line in &draft.undecided {
        tracing::warn!("{line}");
    }
    Ok(draft.text)
}

/// Opens each catalog, and adds what it does not have to what is left to a person.
async fn check_catalogs(operators: &mut Operators, lookup: &CatalogLookup) -> anyhow::Result<()> {
    for draft in &operators.catalogs {
        let Some(name) = &draft.name else { continue };
        let source =
            catalog_arguments::source(name).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
        tracing::info!("reading {name}");
        let opened = catalog_arguments::open(lookup, &source).await?;
        let files = opened.files()?;
        operators.undecided.extend(check(draft, &Catalog::load(&files)?));
    }
    Ok(())
}

async fn releases(
    release_request: &ReleaseRequest,
    lookup: &ReleaseLookup,
    architecture: Architecture,
    is_carried: bool,
) -> anyhow::Result<Releases> {
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    let mut first_failure = None;
    for channel in release_request.channels() {
        let key = GraphKey::new(Distribution::Ocp, &channel, architecture);
        match lookup.graph(&key).await {
            Ok(graph) => {
                graphs.insert(channel, graph);
            }
            // Transferred content has some channels only.
            Err(error) if is_carried => {
                first_failure.get_or_insert(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let (true, Some(error)) = (graphs.is_empty(), first_failure) {
        return Err(error.into());
    }
    if graphs.values().all(Graph::is_empty) {
        let near = release::channel::suggestions(&release_request.channel, &Default::default());
        let near = match near.as_slice() {
            [] => String::new(),
            near => format!("; did you mean {}?", near.join(" or ")),
        };
        anyhow::bail!(
            "channel {} has no releases for {}{near}; --channel names another",
            release_request.channel,
            architecture.as_str()
        );
    }
    Ok(release_request.decide(&graphs)?)
}

fn known_architecture(inventory: &Inventory) -> anyhow::Result<Option<Architecture>> {
    let named = inventory.cluster.as_ref().and_then(|cluster| cluster.architecture.as_deref());
    let Some(named) = named else { return Ok(None) };
    let known = architecture(named).map_err(|why| {
        anyhow::anyhow!("the inventory names the architecture {named:?}: {why}; --arch names one")
    });
    known.map(Some)
}

fn read(path: &Path) -> anyhow::Result<Inventory> {
    let reading = || format!("reading {}", path.display());
    let file = File::open(path).with_context(reading)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).with_context(reading)?;
    Inventory::parse(&bytes).with_context(reading)
}
