//! A plan in a file: what a run decided, to be reviewed and executed later.
//!
//! The file has everything that execution and its end need: the images with their names and
//! digests, the configuration, which bundles need which images, what is written for the cluster.
//! A digest in its last line shows that it was not edited.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use mirror_plan::{
    BundleUse, Destination, Exit, Kind, Mode, Origin, Plan, PlanError, PlannedImage, SealError,
    Sealing, Target, Wanted, unseal,
};
use oci::{Digest, ImageRef};
use serde::{Deserialize, Serialize};

use crate::collect::built_images::{Base, BuiltImage};
use crate::collect::charts::ChartUse;
use crate::collect::releases::ReleaseUse;
use crate::collect::sections::Sections;
use crate::context::Context;
use crate::gather::Gathered;
use crate::pipeline::Selection;
use crate::reason::Reason;
use crate::report::Failure;
use crate::results::Issues;
use crate::settings::Workflow;

/// Far above the plan of any mirror.
const MAX_BYTES: u64 = 1 << 30;

/// A plan that was read from a file.
#[derive(Debug)]
pub struct StoredPlan {
    path: PathBuf,
    plan: Plan,
    run: Outline<Sections>,
}

/// What a plan needs besides its images, so that it can be executed without anything else.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outline<S> {
    configuration: StoredConfiguration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_nested_paths: Option<NonZeroUsize>,
    /// Images that could not be planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lost: Vec<LostImage>,
    /// What else could not be planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failures: Vec<StoredFailure>,
    /// Where the content of built images is that was not built.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    built: Vec<(Origin, Base)>,
    sections: S,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredConfiguration {
    path: PathBuf,
    /// Of the text before credentials were removed.
    digest: Digest,
    /// Without credentials in URLs.
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct LostImage {
    wanted: Wanted,
    destination: Destination,
    #[serde(flatten)]
    reason: Reason,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredFailure {
    message: String,
    exit: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Why a stored plan cannot be executed.
#[derive(Debug, thiserror::Error)]
pub enum StoredPlanError {
    #[error("reading the plan {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the plan {} is larger than {} MiB", path.display(), MAX_BYTES >> 20)]
    Large { path: PathBuf },
    #[error("the plan {} is rejected", path.display())]
    Seal { path: PathBuf, source: SealError },
    #[error("the plan {} cannot be used", path.display())]
    Plan { path: PathBuf, source: PlanError },
    #[error("the plan {} cannot be used: expected what a run needs to execute it", path.display())]
    Outline { path: PathBuf, source: serde_json::Error },
    #[error("the plan {} is for the mode {planned}, found {given}", path.display())]
    Mode { path: PathBuf, planned: Mode, given: Mode },
    #[error("the plan {} is for docker://{planned}, found docker://{given}", path.display())]
    Target { path: PathBuf, planned: Box<Target>, given: Box<Target> },
}

impl StoredPlan {
    /// Reads a plan that a run kept, or that a dry run wrote.
    ///
    /// # Errors
    /// The file cannot be read, or is not what was written.
    pub fn read(path: &Path) -> Result<Self, StoredPlanError> {
        let owned = || path.to_owned();
        let read = |source| StoredPlanError::Read { path: owned(), source };
        if fs::metadata(path).map_err(read)?.len() > MAX_BYTES {
            return Err(StoredPlanError::Large { path: owned() });
        }
        let text = fs::read_to_string(path).map_err(read)?;
        let json =
            unseal(&text).map_err(|source| StoredPlanError::Seal { path: owned(), source })?;
        drop(text);
        let plan = Plan::from_json(&json)
            .map_err(|source| StoredPlanError::Plan { path: owned(), source })?;
        #[derive(Deserialize)]
        struct Rest {
            run: Outline<Sections>,
        }
        let Rest { run } = serde_json::from_str(&json)
            .map_err(|source| StoredPlanError::Outline { path: owned(), source })?;
        Ok(Self { path: owned(), plan, run })
    }

    /// Whether the plan is for this workflow and target.
    ///
    /// # Errors
    /// It is for another one.
    pub fn check(&self, workflow: &Workflow) -> Result<(), StoredPlanError> {
        let path = || self.path.clone();
        let (planned, given) = (self.plan.mode, workflow.mode());
        if planned != given {
            return Err(StoredPlanError::Mode { path: path(), planned, given });
        }
        match (&self.plan.target, workflow.target()) {
            (Some(planned), Some(given)) if planned != given => Err(StoredPlanError::Target {
                path: path(),
                planned: Box::new(planned.clone()),
                given: Box::new(given.clone()),
            }),
            _ => Ok(()),
        }
    }

    /// Path and text of the configuration that the plan was made from.
    pub fn configuration(&self) -> (&Path, &str) {
        (&self.run.configuration.path, &self.run.configuration.text)
    }

    /// What is copied.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The bundles of operators that need an image.
    pub fn uses(&self, image: &ImageRef) -> BTreeSet<BundleUse> {
        self.run.sections.catalogs.needs.uses(image)
    }

    /// The release that an image of the plan belongs to.
    pub fn release_of(&self, image: &PlannedImage) -> Option<ReleaseUse<'_>> {
        match image.kind {
            Kind::ReleasePayload | Kind::ReleaseComponent | Kind::KubeVirt => {
                self.run.sections.releases.of_image(&image.destination)
            }
            _ => None,
        }
    }

    /// The charts that need an image, or that are stored as it.
    pub fn chart_uses(&self, image: &Origin) -> impl Iterator<Item = &ChartUse> {
        self.run.sections.charts.uses.get(image).into_iter().flatten()
    }

    /// What could not be planned, as text: images, and whatever else failed.
    pub fn unplanned(&self) -> impl Iterator<Item = String> {
        let images = self.run.lost.iter();
        let images = images.map(|lost| format!("{}: {}", lost.wanted.origin, lost.reason.text));
        images.chain(self.run.failures.iter().map(|failure| failure.message.clone()))
    }

    /// Documents by which images were selected, and that cluster resources are made from.
    pub(crate) fn documents(&self) -> impl Iterator<Item = Digest> {
        self.run.sections.documents().into_values().map(|document| document.digest)
    }

    /// The longest path of a repository that the plan was made with.
    pub fn max_nested_paths(&self) -> Option<NonZeroUsize> {
        self.run.max_nested_paths
    }

    /// What collecting and gathering came to when the plan was made.
    pub(crate) fn selection(&self) -> Selection {
        let mut sections = self.run.sections.clone();
        let found: Vec<_> = self.plan.found().collect();
        for (origin, base) in &self.run.built {
            if let Some(image) = found.iter().find(|found| found.wanted.origin == *origin) {
                let made = BuiltImage { tree: image.tree.clone(), base: base.clone() };
                sections.made.insert(origin.clone(), made);
            }
        }
        let lost = self.run.lost.iter();
        let failures = self.run.failures.iter();
        let issues = Issues {
            lost: lost
                .map(|lost| (lost.wanted.clone(), lost.destination.clone(), lost.reason.clone()))
                .collect(),
            failures: failures
                .map(|failure| Failure {
                    message: failure.message.clone(),
                    exit: Exit(failure.exit),
                    hint: failure.hint.clone(),
                })
                .collect(),
            notes: Vec::new(),
        };
        let named =
            found.iter().map(|found| (found.wanted.clone(), found.destination.clone())).collect();
        let known = Some(Gathered { found, ..Gathered::default() });
        Selection { sections, named, known, issues }
    }
}

/// A plan as it is written to a file.
#[derive(Debug)]
pub(crate) struct StoredText(pub(crate) String);

/// The text of a plan as it is stored.
pub(crate) fn text(
    context: &Context,
    plan: &Plan,
    sections: &Sections,
    issues: &Issues,
) -> io::Result<StoredText> {
    let mut text = Vec::new();
    write(context, plan, sections, issues, &mut text)?;
    String::from_utf8(text).map(StoredText).map_err(io::Error::other)
}

/// Writes a plan as it is stored.
pub(crate) fn write(
    context: &Context,
    plan: &Plan,
    sections: &Sections,
    issues: &Issues,
    out: impl Write,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct Document<'a> {
        #[serde(flatten)]
        plan: &'a Plan,
        run: Outline<&'a Sections>,
    }
    let settings = &context.settings;
    let configuration = &settings.configuration;
    let lost = issues.lost.iter().map(|(wanted, destination, reason)| LostImage {
        wanted: wanted.clone(),
        destination: destination.clone(),
        reason: Reason::new(workspace::redact_urls(&reason.text), reason.remedy),
    });
    let failures = issues.failures.iter().map(|failure| StoredFailure {
        message: workspace::redact_urls(&failure.message),
        exit: failure.exit.0,
        hint: failure.hint.clone(),
    });
    let built = sections.made.bases().map(|(origin, base)| (origin.clone(), base.clone()));
    let run = Outline {
        configuration: StoredConfiguration {
            path: std::path::absolute(&configuration.path)
                .unwrap_or_else(|_| configuration.path.clone()),
            digest: Digest::of(configuration.text.as_bytes()),
            text: workspace::redact_urls(&configuration.text),
        },
        max_nested_paths: settings.max_nested_paths,
        lost: lost.collect(),
        failures: failures.collect(),
        built: built.collect(),
        sections,
    };
    // The encoder writes a few bytes at a time.
    let mut out = BufWriter::with_capacity(1 << 16, Sealing::new(out));
    serde_json::to_writer_pretty(&mut out, &Document { plan, run })?;
    out.write_all(b"\n")?;
    let sealing = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    sealing.finish().map(drop)
}
