//! What oc-mirror v2 expects of a catalog in an archive: the original under its tag, the rebuilt one
//! under the hash of the selection, and the files of the selection, so that it need not select again.

use std::collections::BTreeMap;

use catalog::{UnpackError, Unpacked, filter_hash};
use image_set::{ImageSource, Operator};
use mirror_plan::{Destination, ImageTree};
use oci::{Digest, Manifest, ManifestError, ReferenceError, Tag};
use workspace::{DiskError, Holdings};

use super::carried::KnownLayers;
use super::content::Content;
use super::open::{OpenError, open_first};
use super::{Catalogs, Entry};
use crate::collect::built_images::BuiltImages;
use crate::transfer::supply::{ManifestReadError, held_manifest};

/// Why a catalog cannot be written as oc-mirror v2 expects it.
#[derive(Debug, thiserror::Error)]
#[error("{catalog}")]
pub(crate) struct ForV2Error {
    catalog: String,
    source: CatalogForV2Error,
}

#[derive(Debug, thiserror::Error)]
enum CatalogForV2Error {
    #[error("it has no image, or an image without layers")]
    NoImage,
    #[error("its layer {0} is not here")]
    NoLayer(Digest),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Read(#[from] ManifestReadError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error(transparent)]
    Tag(#[from] ReferenceError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The folder of a rebuilt catalog in its image.
const FOLDER: &str = "/configs";

/// Names and files for an archive of oc-mirror v2.
#[derive(Debug, Default)]
pub(crate) struct ForV2 {
    pub(crate) images: Vec<(Destination, ImageTree)>,
    /// Below `working-dir`.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Catalogs {
    /// What an archive for oc-mirror v2 has of all catalogs of the configuration. Their content is
    /// in `holdings`.
    pub(crate) async fn for_v2(
        &self,
        operators: &[Operator],
        holdings: &Holdings,
        made: &BuiltImages,
    ) -> Result<ForV2, ForV2Error> {
        let mut found = ForV2::default();
        for entry in &self.entries {
            let Some(operator) = operators.get(entry.number) else { continue };
            let added = add(&mut found, (entry, operator), holdings, made).await;
            added.map_err(|source| ForV2Error { catalog: entry.name.clone(), source })?;
        }
        Ok(found)
    }
}

async fn add(
    found: &mut ForV2,
    (entry, operator): (&Entry, &Operator),
    holdings: &Holdings,
    made: &BuiltImages,
) -> Result<(), CatalogForV2Error> {
    let Entry { original, published, .. } = entry;
    let Some(published) = published else { return Ok(()) };
    let digest = original.tree.root().digest;
    let (source, last) = match &operator.catalog {
        ImageSource::Registry(image) => {
            let last = image.repository.components().next_back().unwrap_or_default();
            (image.name(), last.to_owned())
        }
        ImageSource::Layout(path) => {
            let last = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (last.clone(), last)
        }
    };
    let hash = filter_hash(operator, &source, &digest);
    let rebuilt = made.tree(published).unwrap_or(&original.tree);
    let files = match published == &original.wanted {
        // Published unchanged.
        true => {
            let content = Content::Held(holdings);
            let opened = open_first(&original.tree, &content, &KnownLayers::default()).await;
            own_files(&opened?.files)
        }
        false => rebuilt_files(rebuilt, holdings)?,
    };
    let tag: Tag = hash.parse()?;
    let repository = original.destination.repository.clone();
    found.images.push((original.destination.clone(), original.tree.clone()));
    found.images.push((Destination { repository, tag }, rebuilt.clone()));
    let folder = format!("operator-catalogs/{last}/{}/filtered-catalogs/{hash}", digest.hex());
    found.files.insert(format!("{folder}/digest"), rebuilt.root().digest.hex().into_bytes());
    for (name, bytes) in files {
        found.files.insert(format!("{folder}/catalog-config/{name}"), bytes);
    }
    Ok(())
}

/// The files of the catalog that was built: they are in its last layer.
fn rebuilt_files(
    rebuilt: &ImageTree,
    holdings: &Holdings,
) -> Result<BTreeMap<String, Vec<u8>>, CatalogForV2Error> {
    let image = rebuilt.manifests.iter().find(|node| !node.media_type.is_index());
    let image = image.ok_or(CatalogForV2Error::NoImage)?;
    let manifest = held_manifest(holdings, &image.digest)?;
    let Manifest::Image { layers, .. } = manifest.parse()? else {
        return Err(CatalogForV2Error::NoImage);
    };
    let layer = layers.last().ok_or(CatalogForV2Error::NoImage)?;
    let reader = holdings.blob(&layer.digest)?;
    let reader = reader.ok_or(CatalogForV2Error::NoLayer(layer.digest))?;
    let mut files = Unpacked::new(FOLDER);
    files.read_layer(reader)?;
    Ok(own_files(&files))
}

fn own_files(files: &Unpacked) -> BTreeMap<String, Vec<u8>> {
    let files = files.iter();
    files.map(|(name, bytes)| (name.trim_start_matches('/').to_owned(), bytes.to_vec())).collect()
}
