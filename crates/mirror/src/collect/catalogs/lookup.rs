//! Reads catalogs without mirroring anything: at registries, in layouts, or in archives and
//! workspaces.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::{Files, LoadError, Unpacked};
use image_set::ImageSource;
use mirror_plan::{ImageTree, Kind, Origin};
use oci::{Digest, ImageRef, Platform};
use registry::Client;
use workspace::Holdings;
use workspace::archive::OpenError as ArchiveError;

use super::carried::{KnownLayers, known_layers};
use super::content::Content;
use super::open::{Instance, OpenError, open_first};
use crate::collect::lookup_source::LookupSource;
use crate::error_chain::chain;
use crate::gather::carried_content::{self, CarriedError};
use crate::gather::narrow::narrow;
use crate::gather::{Collector, Layout};
use crate::settings::Attachments;
use crate::transfer::supply::held_manifest;

/// Where catalogs are read.
#[derive(Debug)]
pub struct CatalogLookup {
    from: LookupSource,
}

/// A catalog that was opened. [`OpenedCatalog::files`] is where reading it starts.
#[derive(Debug)]
pub struct OpenedCatalog {
    /// Of the image, with all its platforms.
    pub digest: Digest,
    /// Whose catalog it is, where the image has it.
    pub platform: Option<Platform>,
    content: Arc<Unpacked>,
}

impl OpenedCatalog {
    /// The files of the catalog, for [`catalog::Catalog::load`].
    pub fn files(&self) -> Result<Files<'_>, LoadError> {
        self.content.files()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CatalogLookupError {
    #[error(transparent)]
    Settings(#[from] registry::SettingsError),
    #[error("checking whether the catalog {image} exists")]
    Request { image: Box<ImageRef>, source: registry::Error },
    #[error("reading the transferred content in {}", directory.display())]
    Open { directory: PathBuf, source: ArchiveError },
    #[error(transparent)]
    Records(#[from] workspace::RecordError),
    /// Why its image is unavailable, with the causes.
    #[error("the catalog {catalog}: {why}")]
    Image { catalog: String, why: String },
    #[error("the catalog {catalog}")]
    Catalog { catalog: String, source: Box<OpenError> },
}

impl CatalogLookup {
    /// Sends requests to registries; reads layouts.
    pub fn remote(settings: registry::Settings) -> Result<Self, CatalogLookupError> {
        Ok(Self { from: LookupSource::Registries(Client::open(settings)?) })
    }

    /// Reads archives or a workspace; sends no request.
    pub fn held(directory: &Path) -> Result<Self, CatalogLookupError> {
        let from = LookupSource::transferred(directory).map_err(|source| {
            CatalogLookupError::Open { directory: directory.to_owned(), source }
        })?;
        Ok(Self { from })
    }

    /// Opens a catalog: the image for `platform`, or the first one that there is.
    pub async fn open(
        &self,
        source: &ImageSource,
        platform: Option<&Platform>,
    ) -> Result<OpenedCatalog, CatalogLookupError> {
        let platforms: Vec<Platform> = platform.cloned().into_iter().collect();
        let name = || source.to_string();
        let lost = |why: String| CatalogLookupError::Image { catalog: name(), why };
        let read = |source: OpenError| CatalogLookupError::Catalog {
            catalog: name(),
            source: Box::new(source),
        };
        let all = KnownLayers::default();
        let (tree, instance) = match (&self.from, source) {
            (LookupSource::Registries(client), ImageSource::Registry(image)) => {
                let collector =
                    Collector::new(client.clone(), None, Attachments::Remove, Arc::default());
                let tree = collector.tree(image, &platforms).await;
                let tree = tree.map_err(|e| lost(chain(&e)))?;
                let content = Content::Registry { collector: &collector, image };
                let instance = open_first(&tree, &content, &all).await.map_err(read)?;
                (tree, instance)
            }
            (LookupSource::Registries(_), ImageSource::Layout(path)) => {
                let layout = Layout::new(path);
                let (tree, _) = layout.tree(&platforms).map_err(|e| lost(chain(&e)))?;
                let instance =
                    open_first(&tree, &Content::Layout(layout), &all).await.map_err(read)?;
                (tree, instance)
            }
            (LookupSource::Transferred(holdings), source) => {
                let tree = held_tree(holdings, &origin(source), &platforms);
                let tree = tree.map_err(|e| lost(chain(&e)))?;
                let known = known_layers(holdings, source, &tree);
                let known = known.map_err(|e| lost(chain(&e)))?;
                let content = Content::Held(holdings);
                let instance = open_first(&tree, &content, &known).await.map_err(read)?;
                (tree, instance)
            }
        };
        let Instance { platform, files, .. } = instance;
        Ok(OpenedCatalog { digest: tree.root().digest, platform, content: files })
    }

    /// Whether such a catalog exists, by its name only.
    pub async fn exists(&self, image: &ImageRef) -> Result<bool, CatalogLookupError> {
        match &self.from {
            LookupSource::Registries(client) => match client.head(image).await {
                Ok(found) => Ok(found.is_some()),
                Err(source) => {
                    Err(CatalogLookupError::Request { image: Box::new(image.clone()), source })
                }
            },
            LookupSource::Transferred(holdings) => {
                Ok(holdings.record(&Origin::Registry(image.clone()))?.is_some())
            }
        }
    }

    /// The catalogs of archives and workspaces; none for registries, which do not list them.
    pub fn carried(&self) -> Result<Vec<ImageSource>, CatalogLookupError> {
        let LookupSource::Transferred(holdings) = &self.from else { return Ok(Vec::new()) };
        let catalogs =
            holdings.records()?.into_iter().filter(|record| record.kind == Kind::Catalog);
        let sources = catalogs.filter_map(|record| match record.origin {
            Origin::Registry(image) => Some(ImageSource::Registry(image)),
            Origin::Layout(path) => Some(ImageSource::Layout(path)),
            Origin::Made(_) => None,
        });
        Ok(sources.collect())
    }
}

/// Where an image of a configuration comes from.
pub(crate) fn origin(source: &ImageSource) -> Origin {
    match source {
        ImageSource::Registry(image) => Origin::Registry(image.clone()),
        ImageSource::Layout(path) => Origin::Layout(path.clone()),
    }
}

/// What is held of an image, as far as `platforms` select it.
fn held_tree(
    holdings: &Holdings,
    origin: &Origin,
    platforms: &[Platform],
) -> Result<ImageTree, CarriedError> {
    let record = carried_content::record(holdings, origin, &mut None)?;
    let stored = |digest: &Digest| held_manifest(holdings, digest);
    Ok(narrow(&record.tree, platforms, stored)?)
}
