//! `oc-mirror list operators`: catalogs, their packages, channels and versions.

use catalog::{Catalog, Package, display_name, nearest};
use clap::Args;
use drawing::columns;
use image_set::ImageSource;
use mirror::CatalogLookup;
use oci::ImageRef;
use release::channel::Minor;
use serde::Serialize;

use crate::catalog_arguments::{open, package, source};
use crate::list_format::{ListOptions, rendered};
use crate::lookup_arguments::{minor, wait};
use crate::problem::chain;
use crate::request::ProcessEnvironment;

/// Red Hat's catalogs, and the first minor version without it, where there is one.
const CATALOGS: [(&str, Option<u64>); 4] = [
    ("redhat-operator-index", None),
    ("certified-operator-index", None),
    ("community-operator-index", None),
    ("redhat-marketplace-index", Some(22)),
];
const RED_HAT: &str = "registry.redhat.io/redhat";

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").args(["catalogs", "catalog"]).required(true)))]
pub(crate) struct ListOperators {
    /// List Red Hat's catalogs for --version; with --from, the transferred ones
    #[arg(long)]
    catalogs: bool,
    /// Minor version of OpenShift, such as 4.16
    #[arg(long, value_name = "X.Y", value_parser = minor, conflicts_with = "catalog")]
    version: Option<Minor>,
    /// List the packages of this catalog: an image with tag or digest, or an image layout oci://DIR
    #[arg(long, value_name = "IMAGE", value_parser = source)]
    catalog: Option<ImageSource>,
    /// List the channels of this package
    #[arg(long, value_name = "NAME", requires = "catalog")]
    package: Option<String>,
    /// List the versions in this channel
    #[arg(long, value_name = "CHANNEL", requires = "package")]
    channel: Option<String>,
    #[command(flatten)]
    list: ListOptions,
}

/// The text of the list.
pub(crate) fn operators(
    arguments: &ListOperators,
    process: &ProcessEnvironment,
) -> anyhow::Result<String> {
    let lookup = arguments.list.catalogs(process)?;
    match &arguments.catalog {
        Some(source) => wait(contents(arguments, source, &lookup)),
        None => wait(catalogs(arguments, &lookup)),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CatalogList {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    catalogs: Vec<String>,
}

async fn catalogs(arguments: &ListOperators, lookup: &CatalogLookup) -> anyhow::Result<String> {
    let (catalogs, head) = match (arguments.version, arguments.list.from.is_some()) {
        (Some(minor), _) => (known(minor, lookup).await?, format!("OpenShift {minor}:\n")),
        (None, true) => {
            let carried = lookup.carried()?;
            anyhow::ensure!(!carried.is_empty(), "no catalogs were transferred");
            (carried.iter().map(ToString::to_string).collect(), String::new())
        }
        (None, false) => anyhow::bail!("--catalogs needs --version, such as --version 4.16"),
    };
    let version = arguments.version.map(|minor| minor.to_string());
    rendered(arguments.list.output, &CatalogList { version, catalogs: catalogs.clone() }, || {
        let mut text = format!("Available OpenShift OperatorHub catalogs:\n{head}");
        text.extend(catalogs.iter().map(|catalog| format!("{catalog}\n")));
        text
    })
}

/// Red Hat's catalogs of a minor version, as far as the registry has them. If a request fails, it
/// is unknown whether that catalog exists; that is reported.
async fn known(minor: Minor, lookup: &CatalogLookup) -> anyhow::Result<Vec<String>> {
    let (mut found, mut first_failure) = (Vec::new(), None);
    for (name, gone_with) in CATALOGS {
        if gone_with.is_some_and(|gone| minor.major == 4 && minor.minor >= gone) {
            continue;
        }
        let image: ImageRef = format!("{RED_HAT}/{name}:v{minor}").parse()?;
        match lookup.exists(&image).await {
            Ok(true) => found.push(image.to_string()),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!("could not determine whether {image} exists: {}", chain(&error));
                first_failure.get_or_insert(error);
            }
        }
    }
    match (found.is_empty(), first_failure) {
        (true, Some(error)) => Err(error.into()),
        (true, None) => anyhow::bail!("Red Hat publishes no catalogs for OpenShift {minor}"),
        (false, _) => Ok(found),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PackageList<'a> {
    catalog: String,
    digest: String,
    packages: Vec<PackageEntry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PackageEntry<'a> {
    name: &'a str,
    display_name: String,
    default_channel: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChannelList<'a> {
    catalog: String,
    digest: String,
    package: PackageEntry<'a>,
    channels: Vec<ChannelEntry>,
}

#[derive(Serialize)]
struct ChannelEntry {
    name: String,
    head: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionList<'a> {
    catalog: String,
    digest: String,
    package: &'a str,
    channel: &'a str,
    versions: Vec<String>,
}

async fn contents(
    arguments: &ListOperators,
    source: &ImageSource,
    lookup: &CatalogLookup,
) -> anyhow::Result<String> {
    let opened = open(lookup, source).await?;
    let files = opened.files()?;
    let catalog = Catalog::load(&files)?;
    catalog.notices().for_each(|notice| tracing::warn!("{notice}"));
    let (name, digest, output) =
        (source.to_string(), opened.digest.to_string(), arguments.list.output);
    let Some(wanted) = &arguments.package else {
        let packages = catalog.packages.values().filter(|package| package.definition.is_some());
        let packages: Vec<PackageEntry<'_>> = packages.map(entry).collect();
        let list = PackageList { catalog: name, digest, packages };
        return rendered(output, &list, || packages_table(&list.packages));
    };
    let package = package(&catalog, wanted)?;
    let Some(wanted) = &arguments.channel else {
        let channels = catalog::channels(package).into_iter();
        let channels: Vec<ChannelEntry> =
            channels.map(|row| ChannelEntry { name: row.channel, head: row.head }).collect();
        let list = ChannelList { catalog: name, digest, package: entry(package), channels };
        return rendered(output, &list, || channels_table(&list));
    };
    let channel = package.channels.get(wanted.as_str()).ok_or_else(|| {
        let known: Vec<&str> = package.channels.keys().map(|name| &**name).collect();
        let near = nearest(wanted, known.iter().copied());
        let offer = match near.is_empty() {
            true => format!("it has {}", known.join(", ")),
            false => format!("did you mean {}?", near.join(" or ")),
        };
        anyhow::anyhow!("the package {} has no channel {wanted:?}; {offer}", package.name)
    })?;
    let versions = catalog::versions(package, channel);
    let (package, channel) = (&*package.name, &*channel.name);
    let list = VersionList { catalog: name, digest, package, channel, versions };
    rendered(output, &list, || {
        let lines = list.versions.iter().map(|version| format!("{version}\n"));
        std::iter::once("VERSIONS\n".to_owned()).chain(lines).collect()
    })
}

fn entry<'a>(package: &'a Package<'_>) -> PackageEntry<'a> {
    PackageEntry {
        name: &package.name,
        display_name: display_name(package).unwrap_or_default(),
        default_channel: package.default_channel().unwrap_or_default().to_owned(),
    }
}

fn packages_table(packages: &[PackageEntry<'_>]) -> String {
    let row = |package: &PackageEntry<'_>| {
        [package.name.to_owned(), one_line(&package.display_name), package.default_channel.clone()]
    };
    let rows: Vec<_> = packages.iter().map(row).collect();
    columns(["NAME", "DISPLAY NAME", "DEFAULT CHANNEL"], &rows)
}

fn channels_table(list: &ChannelList<'_>) -> String {
    let row = |channel: &ChannelEntry| {
        [list.package.name.to_owned(), channel.name.clone(), channel.head.clone()]
    };
    let rows: Vec<_> = list.channels.iter().map(row).collect();
    let package = packages_table(std::slice::from_ref(&list.package));
    format!("{package}\n{}", columns(["PACKAGE", "CHANNEL", "HEAD"], &rows))
}

/// Names for people come from a catalog; they stay on their line.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
