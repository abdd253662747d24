//! What a configuration selects of an opened catalog, as values that need its files no longer.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{
    BundleName, Catalog, Finding, Layer, LoadError, RelatedImages, WantedImage, catalog_layer,
    filter, related_images,
};
use image_set::Operator;
use mirror_plan::CatalogContent;

use super::offered::offered;
use super::open::Instance;

/// Why a bundle is left out.
const WHY: &str = "an image of each cannot be mirrored";

/// What is selected, for all platforms together.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) images: RelatedImages,
    pub(crate) findings: Vec<Finding>,
    /// What the catalogs of the platforms become, one for each instance; none when they stay
    /// as they are, or when nothing is selected.
    pub(crate) layers: Vec<Arc<Layer>>,
    pub(crate) whole: bool,
    /// Packages, channels and bundles that are selected.
    pub(crate) content: CatalogContent,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SelectError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("packing the selected part of it")]
    Pack(#[source] std::io::Error),
}

/// Selects from every catalog that the platforms have; mostly that is one. Does without the
/// bundles in `lost`.
pub(crate) fn select(
    instances: &[Instance],
    operator: &Operator,
    lost: &BTreeSet<BundleName>,
) -> Result<Selection, SelectError> {
    let mut selection = Selection { whole: true, ..Selection::default() };
    let mut known: Vec<(&Instance, Option<Arc<Layer>>)> = Vec::new();
    for instance in instances {
        let same = known.iter().find(|(other, _)| Arc::ptr_eq(&other.files, &instance.files));
        let layer = match same {
            Some((_, layer)) => layer.clone(),
            None => selection.add(instance, operator, lost)?,
        };
        known.push((instance, layer));
    }
    let layers: Option<Vec<Arc<Layer>>> = known.into_iter().map(|(_, layer)| layer).collect();
    selection.layers = layers.unwrap_or_default();
    Ok(selection)
}

impl Selection {
    /// Adds what is selected for one platform; gives its catalog, where there is a new one.
    fn add(
        &mut self,
        instance: &Instance,
        operator: &Operator,
        lost: &BTreeSet<BundleName>,
    ) -> Result<Option<Arc<Layer>>, SelectError> {
        let files = instance.files.files()?;
        let catalog = Catalog::load(&files)?;
        let mut filtered = filter(&catalog, operator);
        if !lost.is_empty() {
            filtered.leave_out(lost, WHY);
        }
        self.whole &= filtered.whole;
        self.content.merge(offered(&filtered, &operator.catalog.to_string()));
        self.images = joined(std::mem::take(&mut self.images), related_images(&filtered));
        for finding in std::mem::take(&mut filtered.findings) {
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
        if filtered.packages.is_empty() || filtered.whole {
            return Ok(None);
        }
        let layer = catalog_layer(&filtered.files()).map_err(SelectError::Pack)?;
        Ok(Some(Arc::new(layer)))
    }
}

/// The images of two platforms; each once.
fn joined(mut one: RelatedImages, other: RelatedImages) -> RelatedImages {
    if one == RelatedImages::default() {
        return other;
    }
    for image in other.images {
        match one.images.binary_search_by(|known| known.image.cmp(&image.image)) {
            Ok(at) => {
                let WantedImage { is_bundle, wanted_by, .. } = &mut one.images[at];
                *is_bundle |= image.is_bundle;
                for (bundle, names) in image.wanted_by {
                    wanted_by.entry(bundle).or_default().extend(names);
                }
            }
            Err(at) => one.images.insert(at, image),
        }
    }
    for unusable in other.unusable {
        if !one.unusable.contains(&unusable) {
            one.unusable.push(unusable);
        }
    }
    one
}
