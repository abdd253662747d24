//! Which bundles need which images: so that a missing image is reported with the bundles that
//! cannot work without it.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{BundleName, RelatedImages};
use mirror_plan::{BundleUse, Origin};
use oci::ImageRef;
use serde::{Deserialize, Serialize};

use crate::collect::pairs;
use crate::report::{BrokenBundle, ImageLine, Outcome};

/// What the bundles of all catalogs of a run need.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Needs {
    catalogs: BTreeMap<String, CatalogNeeds>,
}

/// What the bundles of one catalog need.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CatalogNeeds {
    images: BTreeMap<ImageRef, BTreeSet<BundleName>>,
    /// Names that are not image references.
    #[serde(with = "pairs")]
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
    /// The bundles that need an image, whatever their catalogs.
    pub(crate) fn uses(&self, image: &ImageRef) -> BTreeSet<BundleUse> {
        let bundles = self.catalogs.values().filter_map(|needs| needs.images.get(image)).flatten();
        let bundle = |name: &BundleName| BundleUse {
            package: name.package.clone(),
            bundle: name.bundle.clone(),
        };
        bundles.map(bundle).collect()
    }

    /// A catalog may be in the configuration more than once, under several names.
    pub(crate) fn insert(&mut self, catalog: String, needs: CatalogNeeds) {
        let known = self.catalogs.entry(catalog).or_default();
        for (image, bundles) in needs.images {
            known.images.entry(image).or_default().extend(bundles);
        }
        for (bundle, texts) in needs.unusable {
            known.unusable.entry(bundle).or_default().extend(texts);
        }
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

    /// Names the bundles that need each of the failed `images`, and returns all bundles that cannot
    /// work.
    pub(crate) fn assign_failures(&self, images: &mut [ImageLine]) -> Vec<BrokenBundle> {
        let mut broken: BTreeMap<(&String, &BundleName), BTreeSet<String>> = BTreeMap::new();
        for (catalog, needs) in &self.catalogs {
            for (bundle, texts) in &needs.unusable {
                broken.entry((catalog, bundle)).or_default().extend(texts.iter().cloned());
            }
        }
        for line in images {
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
        broken
            .into_iter()
            .map(|((catalog, bundle), missing)| BrokenBundle {
                catalog: catalog.clone(),
                name: bundle.clone(),
                missing: missing.into_iter().collect(),
                left_out: self.catalogs[catalog].left_out.contains(bundle),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use catalog::WantedImage;
    use mirror_plan::Kind;

    use super::*;

    fn bundle(name: &str) -> BundleName {
        BundleName { package: "foo".to_owned(), bundle: name.to_owned() }
    }

    fn needs(image: &ImageRef, bundles: &[&str]) -> CatalogNeeds {
        let wanted_by = bundles.iter().map(|name| (bundle(name), BTreeSet::new())).collect();
        let image = WantedImage { image: image.clone(), is_bundle: false, wanted_by };
        CatalogNeeds::of(&RelatedImages { images: vec![image], unusable: Vec::new() })
    }

    fn failed(image: &ImageRef) -> ImageLine {
        ImageLine {
            kind: Kind::RelatedImage,
            origin: Origin::Registry(image.clone()),
            destination: String::new(),
            digest: None,
            bytes: 0,
            outcome: Outcome::Failed { error: "gone".into() },
            notes: Vec::new(),
            needed_by: Vec::new(),
        }
    }

    #[test]
    fn a_missing_image_breaks_every_bundle_of_every_catalog_that_needs_it() {
        let gone: ImageRef = "quay.io/a/gone:1".parse().unwrap();
        let fine: ImageRef = "quay.io/a/fine:1".parse().unwrap();
        let mut all = Needs::default();
        all.insert("one".to_owned(), needs(&gone, &["foo.v2"]));
        // The same catalog under another name, with another selection.
        all.insert("one".to_owned(), needs(&gone, &["foo.v1"]));
        all.insert("two".to_owned(), needs(&gone, &["foo.v1"]));
        all.insert("two".to_owned(), needs(&fine, &["foo.v3"]));
        let missing = BTreeSet::from([gone.clone()]);
        assert_eq!(all.broken("one", &missing), [bundle("foo.v1"), bundle("foo.v2")].into());
        all.leave_out("two", &all.broken("two", &missing));

        let mut images = [failed(&gone)];
        let broken_bundles = all.assign_failures(&mut images);
        assert_eq!(images[0].needed_by, [bundle("foo.v1"), bundle("foo.v2")]);
        let broken: Vec<(&str, &str, bool)> = broken_bundles
            .iter()
            .map(|broken| (&*broken.catalog, &*broken.name.bundle, broken.left_out))
            .collect();
        let expected =
            [("one", "foo.v1", false), ("one", "foo.v2", false), ("two", "foo.v1", true)];
        assert_eq!(broken, expected);
        assert!(broken_bundles.iter().all(|bundle| bundle.missing == ["quay.io/a/gone:1"]));
    }
}
