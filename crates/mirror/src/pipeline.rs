//! The stages that all modes share: from the configuration to named images.

use std::sync::Arc;

use mirror_plan::{Destination, Naming, Wanted};
use registry::Client;

use crate::collect::releases::Source;
use crate::collect::sections::{self, Sections};
use crate::context::Context;
use crate::error_chain::chain;
use crate::record::upload_log::UploadFiles;
use crate::results::{Halt, Issues, unless_cancelled};
use crate::select::select;

/// What a configuration selects.
pub(crate) struct Selection {
    pub(crate) sections: Sections,
    /// Images with the name each gets at the target.
    pub(crate) named: Vec<(Wanted, Destination)>,
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
/// signatures; `naming` is that of the target, where there is one.
pub(crate) async fn select_images(
    context: &Context,
    source: Source<'_>,
    client: &Client,
    naming: Option<&Naming>,
) -> Result<Selection, Halt> {
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
    Ok(Selection { sections, named: selected.named, issues })
}
