//! Releases as users search for them in a workspace.

use mirror_plan::{Destination, ImageRecord, Kind, Plan, PlannedImage};
use serde::{Deserialize, Serialize};

use super::Releases;
use super::open::Opened;
use crate::context::Context;
use crate::error_chain::chain;
use crate::report::Outcome;

/// What an image is inside its release.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    /// `4.16.3-x86_64`
    pub(super) release: String,
    /// `ocp-release`
    repository: String,
    /// None for the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    component: Option<String>,
}

impl Releases {
    /// Notes what the images of a release are, and keeps its list of them.
    pub(super) fn laid_out(&mut self, context: &Context, opened: &Opened) {
        for (wanted, component) in opened.wanted.iter().zip(&opened.components) {
            // What has no name fails later, where it is named.
            let Ok(name) = Destination::of(wanted) else { continue };
            let part = Part {
                release: opened.tag.to_string(),
                repository: opened.repository.clone(),
                component: component.clone(),
            };
            self.parts.insert(name, part);
        }
        if context.run().is_none() {
            return;
        }
        let (release, bytes) = (opened.tag.as_str(), &opened.image_references);
        let kept = context.workspace.save_release_manifest(release, "image-references", bytes);
        if let Err(error) = kept {
            context.warn(format!("the list of release {release}: {}", chain(&error)));
        }
    }

    /// Lays out what arrived in the workspace. A layout that cannot be made is
    /// a matter for a warning: everything is there under its own name as well.
    pub(crate) fn lay_out(&self, context: &Context, plan: &Plan, outcomes: &[Outcome]) {
        for (image, outcome) in plan.images.iter().zip(outcomes) {
            if !matches!(outcome, Outcome::Copied | Outcome::Present) {
                continue;
            }
            let record = || record(plan, image);
            let made = match (image.kind, self.parts.get(&image.destination)) {
                (Kind::Graph, _) => context.workspace.lay_out_graph(&record()),
                (_, Some(part)) => match &part.component {
                    Some(component) => {
                        context.workspace.lay_out_component(&part.release, component, &record())
                    }
                    None => context.workspace.lay_out_payload(
                        &part.repository,
                        &part.release,
                        &record(),
                    ),
                },
                (_, None) => continue,
            };
            if let Err(error) = made {
                context.warn(format!("{} could not be laid out: {}", image.origin, chain(&error)));
                return;
            }
        }
    }
}

fn record(plan: &Plan, image: &PlannedImage) -> ImageRecord {
    ImageRecord {
        origin: image.origin.clone(),
        kind: image.kind,
        tree: plan.tree(image),
        blobs_held: true,
        attachments_unknown: false,
        names: Default::default(),
    }
}
