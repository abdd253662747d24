//! Flags that name a catalog, and what is in it.

use anyhow::Context as _;
use catalog::{Catalog, Package, nearest};
use clap::Args;
use image_set::ImageSource;
use mirror::{CatalogLookup, OpenedCatalog};
use oci::ImageRef;

/// A package of a catalog.
#[derive(Debug, Args)]
pub(crate) struct PackageArguments {
    /// The catalog: an image with tag or digest, or an image layout oci://DIR
    #[arg(long, value_name = "IMAGE", value_parser = source)]
    pub(crate) catalog: ImageSource,
    /// The package (operator)
    #[arg(long, value_name = "NAME")]
    pub(crate) package: String,
    /// The channel [default: the package's default channel]
    #[arg(long, value_name = "CHANNEL")]
    pub(crate) channel: Option<String>,
}

/// Reads the name of a catalog.
pub(crate) fn source(text: &str) -> Result<ImageSource, String> {
    if let Some(path) = text.strip_prefix("oci://") {
        return match path {
            "" => Err("oci:// names no directory".to_owned()),
            path => Ok(ImageSource::Layout(path.into())),
        };
    }
    let example = "registry.redhat.io/redhat/redhat-operator-index:v4.16";
    let name = text.strip_prefix("docker://").unwrap_or(text);
    let image: ImageRef = name.parse().map_err(|error| {
        format!("it is not an image: {error}; expected a name with its tag, such as {example}")
    })?;
    match image.pointer() {
        Some(_) => Ok(ImageSource::Registry(image)),
        None => Err(format!("it has neither tag nor digest; write it as {example}")),
    }
}

/// Opens a catalog. If it was not transferred, the error lists those that were.
pub(crate) async fn open(
    lookup: &CatalogLookup,
    source: &ImageSource,
) -> anyhow::Result<OpenedCatalog> {
    let opened = lookup.open(source, None).await;
    let carried = match &opened {
        Err(_) => lookup.carried().unwrap_or_default(),
        Ok(_) => Vec::new(),
    };
    match carried.is_empty() {
        true => Ok(opened?),
        false => {
            let carried: Vec<String> = carried.iter().map(ToString::to_string).collect();
            opened.with_context(|| format!("catalogs that are here: {}", carried.join(", ")))
        }
    }
}

/// The package of this name. The error for an unknown one lists similar names.
pub(crate) fn package<'a, 'b>(
    catalog: &'b Catalog<'a>,
    name: &str,
) -> anyhow::Result<&'b Package<'a>> {
    let known = || catalog.packages.keys().map(|name| &**name);
    catalog.packages.get(name).ok_or_else(|| {
        let near = nearest(name, known());
        let count = catalog.packages.len();
        match near.is_empty() {
            true => anyhow::anyhow!(
                "the catalog has no package {name:?} among its {count}; `list operators --catalog` shows them"
            ),
            false => anyhow::anyhow!(
                "the catalog has no package {name:?}; did you mean {}?",
                near.join(" or ")
            ),
        }
    })
}
