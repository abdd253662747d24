//! The chart itself as an image that registries store, so that `helm pull oci://` finds it.

use helm::artifact::{self, Artifact, ArtifactError};
use helm::chart::Chart;
use helm::repository::ChartVersion;
use mirror_plan::{ImageTree, Origin};
use oci::{MAX_MANIFEST_BYTES, ManifestError, RawManifest, ReferenceError, Repository, Tag};
use workspace::BlobError;

use super::carried::CarriedArtifact;
use super::repository::{Fetched, MAX_ARCHIVE_BYTES, MAX_PROVENANCE_BYTES, Packed};
use crate::context::Context;
use crate::gather::node;

/// The folder of charts at every destination.
const FOLDER: &str = "charts";

/// Why a chart cannot be stored in a registry.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChartImageError {
    #[error("a registry cannot store the chart under the name {name:?}")]
    Name { name: String, source: ReferenceError },
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("keeping the chart")]
    Store(#[from] BlobError),
}

/// Where the chart is found at a destination: `charts/NAME:VERSION`.
pub(crate) fn place(chart: &Chart) -> Result<(Repository, Tag), ChartImageError> {
    let name = format!("{FOLDER}/{}", chart.name());
    let tag = artifact::tag_of(&chart.metadata.version)?;
    match name.parse() {
        Ok(repository) => Ok((repository, tag)),
        Err(source) => Err(ChartImageError::Name { name, source }),
    }
}

/// Makes the image of a chart and keeps its content in the workspace, unless this is a dry run. What a
/// registry stores already is mirrored unchanged.
pub(crate) fn make(
    context: &Context,
    fetched: Fetched,
) -> Result<(CarriedArtifact, Option<ImageTree>), ChartImageError> {
    let (repository, tag) = place(&fetched.chart)?;
    let (archive, provenance) = match fetched.packed {
        Packed::Stored { image, .. } => {
            let origin = Origin::Registry(image);
            return Ok((CarriedArtifact { origin, repository, tag }, None));
        }
        Packed::Here { archive, provenance } => (archive, provenance),
    };
    // Without a date: the same archive always gives the same image.
    let Artifact { manifest, blobs, .. } =
        artifact::make(&fetched.chart, archive, provenance, None)?;
    for blob in &blobs {
        context.keep(&blob.descriptor.digest, &blob.bytes)?;
    }
    context.keep(&manifest.digest, &manifest.bytes)?;
    let parsed = manifest.parse()?;
    let tree = ImageTree {
        manifests: vec![node(&manifest, &parsed, None)],
        left_out: Default::default(),
        attachments: Vec::new(),
    };
    let origin = origin(&fetched.chart)?;
    Ok((CarriedArtifact { origin, repository, tag }, Some(tree)))
}

/// The origin of the chart in the workspace. Each version has its own record.
fn origin(chart: &Chart) -> Result<Origin, ChartImageError> {
    origin_of(chart.name(), &chart.metadata.version)
}

fn origin_of(name: &str, version: &str) -> Result<Origin, ChartImageError> {
    let version = version.to_ascii_lowercase().replace('+', "_");
    let name = format!("{FOLDER}/{name}/{version}");
    match name.parse() {
        Ok(name) => Ok(Origin::Made(name)),
        Err(source) => Err(ChartImageError::Name { name, source }),
    }
}

/// What an earlier run kept of this version, where the index lists the same archive.
pub(crate) fn kept(context: &Context, version: &ChartVersion) -> Option<Packed> {
    let listed = version.digest?;
    let origin = origin_of(&version.metadata.name, &version.metadata.version).ok()?;
    let record = context.workspace.record(&origin).ok()??;
    let store = context.workspace.blobs();
    let manifest = store.read(&record.tree.root().digest, MAX_MANIFEST_BYTES).ok()?;
    let read = artifact::read(&RawManifest::new(None, manifest).ok()?).ok()?;
    if read.archive.digest != listed {
        return None;
    }
    let archive = store.read(&listed, MAX_ARCHIVE_BYTES).ok()?;
    if oci::Digest::of(&archive) != listed {
        return None;
    }
    let provenance = match read.provenance {
        Some(blob) => Some(store.read(&blob.digest, MAX_PROVENANCE_BYTES).ok()?),
        None => None,
    };
    Some(Packed::Here { archive, provenance })
}
