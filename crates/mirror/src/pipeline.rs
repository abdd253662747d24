//! The stages that all modes share: from the configuration, or a stored plan, to found images.

use std::sync::Arc;

use mirror_plan::{Destination, Naming, Wanted};
use registry::Client;

use crate::collect::releases::Source;
use crate::collect::sections::{self, Sections};
use crate::context::Context;
use crate::error_chain::chain;
use crate::gather::{Gathered, gather, planned_content};
use crate::record::upload_log::UploadFiles;
use crate::results::{Halt, Issues, unless_cancelled};
use crate::select::select;

/// What a configuration selects.
pub(crate) struct Selection {
    pub(crate) sections: Sections,
    /// Images with the name each gets at the target.
    pub(crate) named: Vec<(Wanted, Destination)>,
    /// What these images consist of, if a stored plan lists it.
    pub(crate) known: Option<Gathered>,
    pub(crate) issues: Issues,
}

/// Opens a client for registries.
pub(crate) fn client(settings: &registry::Settings) -> Result<Client, Halt> {
    Client::open(settings.clone()).map_err(|error| Halt::generic(chain(&error)))
}

/// Opens a client for the target. Uploads that an earlier run began are continued.
pub(crate) fn destination(context: &Context) -> Result<Client, Halt> {
    let mut settings = context.settings.destination.clone();
    if context.run().is_some() {
        settings.uploads = Some(Arc::new(UploadFiles::open(&context.workspace)));
    }
    client(&settings)
}

/// Collects the sections of the configuration and selects images by name. `client` reads
/// signatures; `naming` is that of the target, where there is one. A stored plan has all of this:
/// then nothing is read.
pub(crate) async fn select_images(
    context: &Context,
    source: Source<'_>,
    client: &Client,
    naming: Option<&Naming>,
) -> Result<Selection, Halt> {
    if let Some(stored) = &context.settings.plan {
        return Ok(stored.selection());
    }
    context.stage("collecting");
    let mut sections = Box::pin(sections::collect(context, source, client)).await;
    unless_cancelled(context)?;
    let mut issues = sections.take_issues();
    let wanted = sections.take_wanted();
    let selected = match select(&context.settings.configuration.set, wanted, naming) {
        Ok(selected) => selected,
        Err(failures) => {
            issues.failures.extend(failures);
            return Err(Halt::Failed(issues));
        }
    };
    selected.warnings.into_iter().for_each(|warning| context.warn(warning));
    context.record_blocked(&selected.blocked);
    issues.lost.extend(selected.lost);
    issues.failures.extend(selected.failures);
    Ok(Selection { sections, named: selected.named, known: None, issues })
}

/// Finds out what the selected images consist of. Of those of a stored plan that is known, and
/// only manifests that are not in the workspace are read, by their digests.
pub(crate) async fn gather_images(
    context: &Context,
    client: &Client,
    selection: &mut Selection,
) -> Gathered {
    let named = std::mem::take(&mut selection.named);
    match selection.known.take() {
        Some(known) => {
            let documents = selection.sections.documents();
            if let Err(error) = planned_content::adopt(context, &known.found, &documents) {
                context.warn(format!("using what the dry run built: {}", chain(&error)));
            }
            planned_content::complete(context, client, known.found).await
        }
        None => gather(context, client, named, &selection.sections.made).await,
    }
}
