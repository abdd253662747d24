//! The sections of a configuration that select images indirectly: releases, operator catalogs and
//! Helm charts.

use std::collections::BTreeMap;
use std::sync::Arc;

use mirror_plan::{BlobRef, MirroredImage, Plan, ResourceOptions, Wanted};
use registry::Client;
use serde::{Deserialize, Serialize};
use workspace::Holdings;

use crate::collect::built_images::BuiltImages;
use crate::collect::catalogs::{self, Catalogs};
use crate::collect::charts::{self, Charts};
use crate::collect::releases::{self, Releases, Source};
use crate::context::Context;
use crate::record::generated_files::GeneratedError;
use crate::report::Outcome;
use crate::results::Issues;
use crate::settings::Workflow;
use crate::transfer::supply::Supplies;

/// All of it. A stored plan has what is not skipped.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sections {
    pub(crate) releases: Releases,
    pub(crate) catalogs: Catalogs,
    pub(crate) charts: Charts,
    #[serde(skip)]
    pub(crate) made: BuiltImages,
}

/// Turns the sections into images. What fails concerns one release, or one
/// catalog; the rest is collected nevertheless. `client` is for those who check
/// signatures.
pub(crate) async fn collect(context: &Context, source: Source<'_>, client: &Client) -> Sections {
    let (mut releases, mut catalogs, mut charts) = tokio::join!(
        releases::collect(context, source),
        Box::pin(catalogs::collect(context, source, client)),
        Box::pin(charts::collect(context, source))
    );
    let mut made = std::mem::take(&mut releases.made);
    made.extend(std::mem::take(&mut catalogs.made));
    made.extend(std::mem::take(&mut charts.made));
    Sections { releases, catalogs, charts, made }
}

impl Sections {
    /// The images, each once.
    pub(crate) fn take_wanted(&mut self) -> Vec<Wanted> {
        let mut wanted = std::mem::take(&mut self.releases.wanted);
        wanted.append(&mut self.catalogs.wanted);
        wanted.append(&mut self.charts.wanted);
        wanted
    }

    /// What could not be collected.
    pub(crate) fn take_issues(&mut self) -> Issues {
        let mut issues = Issues {
            lost: std::mem::take(&mut self.releases.lost),
            failures: std::mem::take(&mut self.releases.failures),
            notes: Vec::new(),
        };
        issues.extend(std::mem::take(&mut self.catalogs.issues));
        issues.failures.append(&mut self.charts.failures);
        issues.notes.append(&mut self.charts.notes);
        issues
    }

    /// What images were selected by.
    pub(crate) fn documents(&self) -> BTreeMap<String, BlobRef> {
        let (releases, catalogs) = (&self.releases.documents, &self.catalogs.documents);
        let all = releases.iter().chain(catalogs).chain(&self.charts.documents);
        all.map(|(name, blob)| (name.clone(), *blob)).collect()
    }

    /// Where the content of all images of a run comes from.
    pub(crate) fn supplies(&self, context: &Context, client: &Client) -> Supplies {
        Supplies::FromOrigins {
            client: client.clone(),
            made: Arc::new(self.made.clone()),
            holdings: Arc::new(Holdings::new(Some(context.workspace.clone()), None)),
            cache: match context.settings.workflow {
                Workflow::MirrorToMirror { .. } => context.cache.clone(),
                // A workspace that is filled takes content over from the cache by itself.
                _ => None,
            },
        }
    }

    /// Lays out what arrived in the workspace, as users search for it.
    pub(crate) fn lay_out(&self, context: &Context, plan: &Plan, outcomes: &[Outcome]) {
        self.releases.lay_out(context, plan, outcomes);
        self.catalogs.lay_out(context, plan, outcomes);
    }

    /// What a cluster needs besides the mirror sets: names and texts of files.
    pub(crate) fn resources(
        &self,
        context: &Context,
        mirrored: &[MirroredImage],
        options: &ResourceOptions,
    ) -> Result<Vec<(String, String)>, GeneratedError> {
        let mut files = self.releases.resources(context, mirrored)?;
        files.extend(self.catalogs.resources(context, mirrored, options)?);
        Ok(files)
    }
}
