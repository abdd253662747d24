//! Operators as users search for them in a workspace: the files of catalogs, the images of bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::{BundleName, RelatedImages, folder_name};
use mirror_plan::{Found, ImageRecord, Origin, Plan};
use serde::{Deserialize, Serialize};

use super::Catalogs;
use super::open::Instance;
use crate::context::Context;
use crate::error_chain::chain;
use crate::report::Outcome;

/// What an image is inside a bundle.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    bundle: BundleName,
    /// Empty where it has none.
    name: String,
}

/// Keeps the files of a catalog, for each platform: `operator-index-cache/<name>/<tag-platform>`.
/// What cannot be kept is a matter for a warning: nothing is selected by it.
pub(crate) fn keep_index(context: &Context, original: &Found, instances: &[Instance]) {
    if context.run().is_none() {
        return;
    }
    let name = original.destination.repository.components().next_back().unwrap_or_default();
    let mut kept: Vec<(&Instance, String)> = Vec::new();
    for instance in instances {
        let platform = match &instance.platform {
            Some(platform) => format!("-{}", platform.to_string().replace('/', "-")),
            None => String::new(),
        };
        let folder = format!("{}{platform}", original.destination.tag);
        let same = kept.iter().find(|(other, _)| Arc::ptr_eq(&other.files, &instance.files));
        let made = match same {
            Some((_, other)) => context.workspace.link_index(name, &folder, other),
            None => {
                let digest = instance.manifest.digest;
                context.workspace.save_index(name, &folder, &digest, instance.files.iter())
            }
        };
        if let Err(error) = made {
            let catalog = &original.wanted.origin;
            context.warn(format!("the files of {catalog} could not be kept: {}", chain(&error)));
            return;
        }
        kept.push((instance, folder));
    }
}

impl Catalogs {
    /// Notes what the images of bundles are called.
    pub(super) fn note_parts(&mut self, images: &RelatedImages) {
        for image in &images.images {
            let parts = self.parts.entry(image.image.clone()).or_default();
            for (bundle, names) in &image.wanted_by {
                let name = names.iter().next().cloned().unwrap_or_default();
                parts.push(Part { bundle: bundle.clone(), name });
            }
        }
    }

    /// Lays out the images of bundles that arrived: `operator-images/<package>/<bundle>/<image>`.
    pub(crate) fn lay_out(&self, context: &Context, plan: &Plan, outcomes: &[Outcome]) {
        let mut taken: BTreeMap<&BundleName, BTreeSet<String>> = BTreeMap::new();
        for (image, outcome) in plan.images.iter().zip(outcomes) {
            let Origin::Registry(origin) = &image.origin else { continue };
            if !matches!(outcome, Outcome::Copied | Outcome::Present) {
                continue;
            }
            for Part { bundle, name } in self.parts.get(origin).into_iter().flatten() {
                let tree = plan.tree(image);
                let taken = taken.entry(bundle).or_default();
                let folder = folder_name(name, &tree.root().digest, taken);
                let record = ImageRecord {
                    origin: image.origin.clone(),
                    kind: image.kind,
                    tree,
                    blobs_held: true,
                    attachments_unknown: false,
                    names: BTreeSet::new(),
                };
                let BundleName { package, bundle } = bundle;
                let laid_out =
                    context.workspace.lay_out_operator_image(package, bundle, &folder, &record);
                if let Err(error) = laid_out {
                    let why = chain(&error);
                    context.warn(format!("{origin} could not be laid out: {why}"));
                    return;
                }
            }
        }
    }
}
