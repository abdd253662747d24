//! `oc-mirror inventory`: what a cluster has, as a document to carry to the
//! connected side.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use cluster_connection::{Connection, KubeconfigPaths};
use cluster_inventory::Inventory;

use crate::cluster_survey::survey;
use crate::lookup_arguments::wait;
use crate::output_file::{self, Existing};
use crate::request::ProcessEnvironment;

const ABOUT: &str = "\
Lists ClusterVersion, Nodes (one), Subscriptions, ClusterServiceVersions, CatalogSources and mirror sets. \
Nothing is written to the cluster: the right to list these is enough. What may not be listed is left out, \
reported, and noted in the document.

Take the document to the connected side, and create the configuration from it:
  oc-mirror init --for cluster.json --out isc.yaml";

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub(crate) struct InventoryArguments {
    /// The kubeconfig [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig, instead of its current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Write the document to this file instead of standard output
    #[arg(long, short_alias = 'o', alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Reads from the cluster, and returns the text for standard output.
pub(crate) fn inventory(
    arguments: &InventoryArguments,
    process: &ProcessEnvironment,
) -> anyhow::Result<String> {
    let paths =
        KubeconfigPaths { named: arguments.kubeconfig.as_deref(), default: &process.kubeconfigs };
    let inventory = wait(async {
        let connection = Connection::connect(paths, arguments.context.as_deref()).await?;
        Ok(survey(&connection).await?.inventory())
    })?;
    let json = inventory.json().context("writing the inventory as JSON")?;
    let Some(path) = &arguments.out else { return Ok(json) };
    output_file::write(path, json.as_bytes(), Existing::Replace)?;
    tracing::info!("{} written: {}", path.display(), summary(&inventory));
    Ok(String::new())
}

fn summary(inventory: &Inventory) -> String {
    let cluster = inventory.cluster.as_ref();
    let version = match cluster.and_then(|cluster| cluster.version.as_ref()) {
        Some(version) => format!("release {version}"),
        None => "a release that is not known".to_owned(),
    };
    let counted = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    format!(
        "{version}, {}, {}, {}",
        counted(inventory.subscriptions.len(), "subscription"),
        counted(inventory.catalog_sources.len(), "catalog"),
        counted(inventory.mirror_sets.len(), "mirror set"),
    )
}
