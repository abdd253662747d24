//! Catalogs with bundles that lack an image: such a catalog must not offer them to clusters.

use std::collections::BTreeSet;

use catalog::{BundleName, Finding, Problem};
use mirror_plan::{Destination, Found, Naming, Wanted};
use oci::ImageRef;
use registry::Client;

use super::Catalogs;
use super::taken::{self, TakeError};
use crate::collect::releases::Source;
use crate::context::Context;
use crate::settings::Workflow;

/// A catalog that is published, and those of its bundles that lack an image.
#[derive(Debug)]
pub(crate) struct Incomplete {
    entry: usize,
    pub(crate) published: Wanted,
    pub(crate) bundles: BTreeSet<BundleName>,
}

impl Catalogs {
    /// The catalogs that are incomplete without the `missing` images.
    pub(crate) fn incomplete(&self, missing: &BTreeSet<ImageRef>) -> Vec<Incomplete> {
        let entries = self.entries.iter().enumerate();
        let incomplete = entries.filter_map(|(entry, catalog)| {
            let published = catalog.published.clone()?;
            let bundles = self.needs.broken(&catalog.name, missing);
            (!bundles.is_empty()).then_some(Incomplete { entry, published, bundles })
        });
        incomplete.collect()
    }

    /// Builds a catalog again, without the bundles that lack an image. `None` if no bundle is left.
    pub(crate) async fn without(
        &mut self,
        context: &Context,
        (source, client): (Source<'_>, &Client),
        incomplete: &Incomplete,
        naming: Option<&Naming>,
    ) -> Result<Option<Found>, TakeError> {
        let entry = &self.entries[incomplete.entry];
        let operators = &context.settings.configuration.set.mirror.operators;
        let Some(operator) = operators.get(entry.number).cloned() else {
            return Err(TakeError::NotConfigured(entry.name.clone()));
        };
        let original = entry.original.clone();
        // Read again: to keep every catalog for this would take hundreds of megabytes.
        let instances = taken::open_content(context, source, client, &operator, &original).await?;
        let (selection, published) =
            taken::select(context, &operator, &original, &instances, &incomplete.bundles)?;
        let left_out: Vec<Finding> = selection
            .findings
            .into_iter()
            .filter(|finding| matches!(finding.problem, Problem::LeftOut { .. }))
            .collect();
        self.tell(context, &left_out);
        self.needs.leave_out(&operator.catalog.to_string(), &incomplete.bundles);
        let Some((wanted, Some(made))) = published else {
            self.entries[incomplete.entry].published = None;
            return Ok(None);
        };
        let destination = match naming {
            Some(naming) => naming.place(&wanted)?,
            None => Destination::of(&wanted)?,
        };
        let tree = made.tree.clone();
        self.made.insert(wanted.origin.clone(), made);
        self.offered.insert(wanted.origin.clone(), selection.content);
        if matches!(context.settings.workflow, Workflow::MirrorToDisk { .. }) {
            self.store(&original);
        }
        self.entries[incomplete.entry].published = Some(wanted.clone());
        Ok(Some(Found { wanted, destination, tree }))
    }
}
