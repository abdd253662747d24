//! What of a catalog's image is needed to select from it. Every archive contains that, whatever
//! earlier ones held: the newest one alone is enough to select again.

use std::collections::{BTreeMap, BTreeSet};

use image_set::ImageSource;
use mirror_plan::{BlobRef, ImageTree};
use oci::Digest;
use serde::{Deserialize, Serialize};
use workspace::{DocumentError, Holdings};

use super::open::Instance;
use crate::context::Context;
use crate::fault::{EngineError, Fault};

/// Why the transferred content of a catalog cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarriedCatalogError {
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("reading or writing {name}")]
    Json { name: String, source: serde_json::Error },
}

impl EngineError for CarriedCatalogError {
    fn fault(&self) -> Fault {
        match self {
            Self::Document(error) => Fault::of_document(error),
            Self::Json { .. } => Fault::Content,
        }
    }
}

/// The layers that have a part of the catalog, by the manifest of the image they are of. The
/// large ones below have none, and need not be here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownLayers(BTreeMap<Digest, BTreeSet<Digest>>);

impl KnownLayers {
    fn of(instances: &[Instance]) -> Self {
        let layers = instances.iter().map(|instance| {
            let layers = instance.layers.iter().map(|layer| layer.digest);
            (instance.manifest.digest, layers.collect())
        });
        Self(layers.collect())
    }

    /// Whether a layer of an image has to be read: where that is not known, each has.
    pub(crate) fn counts(&self, manifest: &Digest, layer: &Digest) -> bool {
        self.0.get(manifest).is_none_or(|layers| layers.contains(layer))
    }
}

/// Below `working-dir`: by the last word of the catalog's name, which is for users, and its digest.
fn folder(catalog: &ImageSource, tree: &ImageTree) -> String {
    let name = match catalog {
        ImageSource::Registry(image) => {
            image.repository.components().next_back().unwrap_or_default().to_owned()
        }
        // A path differs from machine to machine.
        ImageSource::Layout(_) => "oci".to_owned(),
    };
    format!("operator-catalogs/{name}/{}", tree.root().digest.hex())
}

/// Lists what an archive must contain of a catalog.
pub(crate) fn carry(
    context: &Context,
    catalog: &ImageSource,
    tree: &ImageTree,
    instances: &[Instance],
) -> Result<BTreeMap<String, BlobRef>, CarriedCatalogError> {
    let folder = folder(catalog, tree);
    let name = format!("{folder}/layers.json");
    let layers = serde_json::to_vec(&KnownLayers::of(instances));
    let layers =
        layers.map_err(|source| CarriedCatalogError::Json { name: name.clone(), source })?;
    let saved = context.keep_document(&name, &layers)?;
    let mut carried: BTreeMap<String, BlobRef> =
        saved.into_iter().map(|saved| (name.clone(), saved)).collect();
    let mut add = |blob: BlobRef| {
        carried.insert(format!("{folder}/blobs/{}", blob.digest.as_tag_text()), blob);
    };
    for node in &tree.manifests {
        add(BlobRef { digest: node.digest, size: node.size });
    }
    for instance in instances {
        let config = &instance.config;
        add(BlobRef { digest: Digest::of(config), size: config.len() as u64 });
        instance.layers.iter().copied().for_each(&mut add);
    }
    Ok(carried)
}

/// The layers that count, as the archive lists them.
pub(crate) fn known_layers(
    holdings: &Holdings,
    catalog: &ImageSource,
    tree: &ImageTree,
) -> Result<KnownLayers, CarriedCatalogError> {
    let name = format!("{}/layers.json", folder(catalog, tree));
    match holdings.document(&name)? {
        Some(bytes) => serde_json::from_slice(&bytes)
            .map_err(|source| CarriedCatalogError::Json { name, source }),
        None => Ok(KnownLayers::default()),
    }
}
