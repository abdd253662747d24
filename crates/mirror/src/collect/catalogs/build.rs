//! Makes the image of a selected catalog, from the image it was selected from.

use std::sync::Arc;

use catalog::{BaseImage, Layer, RebuildError, hiding_layer, rebuild, rebuilt_index};
use mirror_plan::{ImageTree, ManifestNode};
use oci::{Digest, ManifestError, Platform, RawManifest};
use workspace::BlobError;

use super::open::Instance;
use crate::collect::built_images::{Base, BuiltImage};
use crate::context::Context;
use crate::gather::node;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
    #[error("packing the layer that hides the original catalog")]
    Pack(#[source] std::io::Error),
    #[error("reading the built catalog")]
    Manifest(#[from] ManifestError),
    #[error("storing the built catalog")]
    Keep(#[from] BlobError),
}

/// The image with one of `layers` for each of `instances`. The same input gives the same bytes, on
/// every machine. What is new is kept in the workspace, unless the run leaves no trace.
pub(crate) fn build(
    context: &Context,
    instances: &[Instance],
    layers: &[Arc<Layer>],
    base: Base,
) -> Result<BuiltImage, BuildError> {
    let mut new: Vec<(Digest, Vec<u8>)> = Vec::new();
    let mut images = Vec::new();
    for (instance, layer) in instances.iter().zip(layers) {
        let below = BaseImage { manifest: &instance.manifest, config: &instance.config };
        let (gone, emptied) = below.hidden()?;
        let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
        let emptied: Vec<&str> = emptied.iter().map(String::as_str).collect();
        let hiding = hiding_layer(&gone, &emptied).map_err(BuildError::Pack)?;
        let image = rebuild(below, &hiding, layer)?;
        new.push((hiding.digest, hiding.bytes));
        new.push((layer.digest, layer.bytes.clone()));
        new.push((Digest::of(&image.config), image.config.clone()));
        images.push(image);
    }
    let index = rebuilt_index(&images)?;
    let mut manifests: Vec<ManifestNode> = vec![described(&index, None)?];
    new.push((index.digest, index.bytes));
    for image in images {
        manifests.push(described(&image.manifest, Some(image.platform))?);
        new.push((image.manifest.digest, image.manifest.bytes));
    }
    for (digest, bytes) in &new {
        context.keep(digest, bytes)?;
    }
    let tree = ImageTree { manifests, left_out: Default::default(), attachments: Vec::new() };
    Ok(BuiltImage { tree, base })
}

fn described(raw: &RawManifest, platform: Option<Platform>) -> Result<ManifestNode, ManifestError> {
    Ok(node(raw, &raw.parse()?, platform))
}
