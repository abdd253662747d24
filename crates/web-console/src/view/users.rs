//! What needs an image: bundles, releases, charts, or the configuration itself, as the newest plan of
//! each configuration has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mirror::StoredPlan;
use mirror_plan::{Kind, Origin, PlannedImage};
use oci::Digest;
use workspace::Workspace;

use super::{Fault, runs};

/// Plans that are read.
const MAX_PLANS: usize = 5;
/// Users of an image that are named.
const MAX_NAMED: usize = 50;

/// The users of an image, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ImageUsers {
    pub(crate) named: BTreeSet<String>,
    /// How many there are besides.
    pub(crate) more: usize,
}

/// The users of all images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Users(BTreeMap<Origin, ImageUsers>);

impl Users {
    /// The users of an image; `None` where no plan here has it.
    pub(crate) fn of(&self, image: &Origin) -> Option<&ImageUsers> {
        self.0.get(image)
    }

    fn add(&mut self, plan: &StoredPlan) {
        let (configuration, _) = plan.configuration();
        for image in &plan.plan().images {
            let users = self.0.entry(image.origin.clone()).or_default();
            for user in words(plan, configuration, image) {
                if users.named.len() < MAX_NAMED {
                    users.named.insert(user);
                } else if !users.named.contains(&user) {
                    users.more += 1;
                }
            }
        }
    }
}

/// The newest plans, newest first.
pub(crate) fn newest_plans(workspace: &Workspace) -> Result<Vec<Digest>, Fault> {
    let plans = runs::list(workspace)?.into_iter().filter_map(|run| run.plan);
    Ok(plans.take(MAX_PLANS).collect())
}

/// Reads the plans. Blocks.
pub(crate) fn read(workspace: &Workspace, plans: &[Digest]) -> Users {
    let mut users = Users::default();
    let mut known: BTreeSet<PathBuf> = BTreeSet::new();
    for plan in plans {
        // Old plans are removed, and what cannot be read tells nothing.
        let Ok(plan) = StoredPlan::read(&workspace.plan_path(plan)) else { continue };
        // A newer plan replaces the older ones of its configuration.
        if known.insert(plan.configuration().0.to_owned()) {
            users.add(&plan);
        }
    }
    users
}

fn words(plan: &StoredPlan, configuration: &Path, image: &PlannedImage) -> Vec<String> {
    match (image.kind, &image.origin) {
        (Kind::Bundle | Kind::RelatedImage, Origin::Registry(name)) => plan
            .uses(name)
            .into_iter()
            .map(|of| format!("bundle {} of package {}", of.bundle, of.package))
            .collect(),
        (Kind::ReleasePayload | Kind::ReleaseComponent | Kind::KubeVirt, _) => {
            let of = plan.release_of(image).into_iter();
            of.map(|of| format!("release {}", of.release)).collect()
        }
        (Kind::Helm, origin) => plan
            .chart_uses(origin)
            .map(|chart| format!("chart {} {}", chart.name, chart.version))
            .collect(),
        _ => {
            let file = configuration.file_name().unwrap_or_default().to_string_lossy();
            let entry = match image.kind {
                Kind::Catalog => "operators",
                Kind::Graph => "platform.graph",
                Kind::Chart => "helm",
                _ => "additionalImages",
            };
            vec![format!("configuration {file}, {entry}")]
        }
    }
}
