//! Which bundles need which images: so that a missing image is told with what cannot work without it.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{BundleName, RelatedImages};
use mirror_plan::Origin;
use oci::ImageRef;

use crate::report::{BrokenBundle, Outcome, Report};

/// What the bundles of all catalogs of a run need.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    catalogs: BTreeMap<String, CatalogNeeds>,
}

/// What the bundles of one catalog need.
#[derive(Debug, Default)]
pub(crate) struct CatalogNeeds {
    images: BTreeMap<ImageRef, BTreeSet<BundleName>>,
    /// What can be mirrored by nobody.
    unusable: BTreeMap<BundleName, BTreeSet<String>>,
    left_out: BTreeSet<BundleName>,
}

impl CatalogNeeds {
    pub(crate) fn of(images: &RelatedImages) -> Self {
        let mut needs = Self::default();
        for image in &images.images {
            let bundles = image.wanted_by.keys().cloned().collect();
            needs.images.insert(image.image.clone(), bundles);
        }
        for image in &images.unusable {
            let texts = needs.unusable.entry(image.wanted_by.clone()).or_default();
            texts.insert(image.text.clone());
        }
        needs
    }

    fn broken(&self, missing: &BTreeSet<ImageRef>) -> BTreeSet<BundleName> {
        let users = missing.iter().filter_map(|image| self.images.get(image)).flatten();
        users.chain(self.unusable.keys()).cloned().collect()
    }
}

impl Needs {
    pub(crate) fn insert(&mut self, catalog: String, needs: CatalogNeeds) {
        self.catalogs.insert(catalog, needs);
    }

    /// The bundles of `catalog` that cannot work without the `missing` images.
    pub(crate) fn broken(
        &self,
        catalog: &str,
        missing: &BTreeSet<ImageRef>,
    ) -> BTreeSet<BundleName> {
        self.catalogs.get(catalog).map(|needs| needs.broken(missing)).unwrap_or_default()
    }

    pub(crate) fn leave_out(&mut self, catalog: &str, bundles: &BTreeSet<BundleName>) {
        if let Some(needs) = self.catalogs.get_mut(catalog) {
            needs.left_out.extend(bundles.iter().cloned());
        }
    }

    /// Notes in the report who needs the images that failed, and which bundles cannot work.
    pub(crate) fn blame(&self, report: &mut Report) {
        let mut broken: BTreeMap<(&String, &BundleName), BTreeSet<String>> = BTreeMap::new();
        for (catalog, needs) in &self.catalogs {
            for (bundle, texts) in &needs.unusable {
                broken.entry((catalog, bundle)).or_default().extend(texts.iter().cloned());
            }
        }
        for line in &mut report.images {
            let (Outcome::Failed { .. }, Origin::Registry(image)) = (&line.outcome, &line.origin)
            else {
                continue;
            };
            let mut users = BTreeSet::new();
            for (catalog, needs) in &self.catalogs {
                for bundle in needs.images.get(image).into_iter().flatten() {
                    users.insert(bundle.clone());
                    broken.entry((catalog, bundle)).or_default().insert(image.to_string());
                }
            }
            line.needed_by = users.into_iter().collect();
        }
        report.broken_bundles = broken
            .into_iter()
            .map(|((catalog, bundle), missing)| BrokenBundle {
                catalog: catalog.clone(),
                name: bundle.clone(),
                missing: missing.into_iter().collect(),
                left_out: self.catalogs[catalog].left_out.contains(bundle),
            })
            .collect();
    }
}
