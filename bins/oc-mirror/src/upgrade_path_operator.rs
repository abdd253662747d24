//! `oc-mirror upgrade-path operator`: how OLM gets an operator from one version
//! to another.

use anyhow::Context as _;
use catalog::Catalog;
use catalog::upgrade::{PathQuery, UpgradePaths, find_paths};
use clap::Args;
use mirror::CatalogLookup;
use semver::Version;

use crate::catalog_arguments::{PackageArguments, open, package};
use crate::lookup_arguments::wait;
use crate::path_format::PathOptions;
use crate::request::ProcessEnvironment;

const ABOUT: &str = "\
Inside a channel OLM installs a version over what a cluster has when the version replaces it, skips it, or \
has it in its skipRange; of several, the one nearest to the channel's head. What it passes by is reached \
with a catalog that ends there.

Without --from and --to: every version of the channel, and how it gets to the head.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub(crate) struct UpgradePathOperator {
    #[command(flatten)]
    wanted: PackageArguments,
    /// The installed version; without it, every version with a path to --to
    #[arg(long, value_name = "VERSION", value_parser = version)]
    from: Option<Version>,
    /// The wanted version; without it, every reachable one
    #[arg(long, value_name = "VERSION", value_parser = version)]
    to: Option<Version>,
    #[command(flatten)]
    path: PathOptions,
}

fn version(text: &str) -> Result<Version, String> {
    let bare = text.strip_prefix('v').unwrap_or(text);
    bare.parse().map_err(|_| "expected a version with three numbers, such as 1.2.3".to_owned())
}

/// The path in the requested format.
pub(crate) fn operator(
    arguments: &UpgradePathOperator,
    process: &ProcessEnvironment,
) -> anyhow::Result<String> {
    let lookup = arguments.path.catalogs(process)?;
    let paths = wait(paths(arguments, &lookup))?;
    arguments.path.render(&paths, || paths.table(), || paths.drawing())
}

async fn paths(
    arguments: &UpgradePathOperator,
    lookup: &CatalogLookup,
) -> anyhow::Result<UpgradePaths> {
    let PackageArguments { catalog: source, package: name, channel } = &arguments.wanted;
    let opened = open(lookup, source).await?;
    let files = opened.files()?;
    let catalog = Catalog::load(&files)?;
    catalog.notices().for_each(|notice| tracing::warn!("{notice}"));
    let package = package(&catalog, name)?;
    let channel = match channel {
        Some(channel) => channel.as_str(),
        None => package.default_channel().with_context(|| {
            let known: Vec<&str> = package.channels.keys().map(|name| &**name).collect();
            format!(
                "the package {name} has no default channel; --channel names one of {}",
                known.join(", ")
            )
        })?,
    };
    let query = match (arguments.from.clone(), arguments.to.clone()) {
        (Some(from), Some(to)) => PathQuery::Between { from, to },
        (Some(from), None) => PathQuery::From(from),
        (None, Some(to)) => PathQuery::To(to),
        (None, None) => PathQuery::ToHead,
    };
    Ok(find_paths(package, channel, &query)?)
}
