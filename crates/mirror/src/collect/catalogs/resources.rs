//! What a cluster needs to offer mirrored operators, beside the mirror sets.

use std::fs::File;
use std::io::Read;

use image_set::Operator;
use mirror_plan::{
    CatalogSourceTemplate, Exit, Kind, MirroredCatalog, MirroredImage, ResourceOptions,
    catalog_resources,
};

use super::Catalogs;
use crate::context::Context;
use crate::error_chain::chain;
use crate::record::generated_files::GeneratedError;
use crate::report::Failure;
use crate::settings::Workflow;

/// A template is a page of text.
const MAX_TEMPLATE: u64 = 1 << 20;

impl Catalogs {
    /// The files for the catalogs that the target holds: names and texts.
    pub(crate) fn resources(
        &self,
        context: &Context,
        mirrored: &[MirroredImage],
        options: &ResourceOptions,
    ) -> Result<Vec<(String, String)>, GeneratedError> {
        let target = match &context.settings.workflow {
            Workflow::DiskToMirror { target, .. } | Workflow::MirrorToMirror { target, .. } => {
                target
            }
            Workflow::MirrorToDisk { .. } => return Ok(Vec::new()),
        };
        let naming = context.settings.naming(target);
        let mut catalogs = Vec::new();
        for entry in &self.entries {
            let Some(wanted) = &entry.published else { continue };
            let destination = naming.destination(wanted)?;
            let is_there = |image: &MirroredImage| {
                image.kind == Kind::Catalog && image.destination == destination
            };
            if mirrored.iter().any(is_there) {
                let template = entry.template.as_ref();
                catalogs.push((destination, template));
            }
        }
        let catalogs: Vec<MirroredCatalog<'_>> = catalogs
            .iter()
            .map(|(destination, template)| MirroredCatalog { destination, template: *template })
            .collect();
        let files = catalog_resources(&catalogs, options)?;
        Ok(files.into_iter().map(|file| (file.name, file.yaml)).collect())
    }

    /// The template that the configuration names. One that cannot be used is an error: the
    /// resource would not be the requested one without it.
    pub(super) fn template(
        &mut self,
        context: &Context,
        operator: &Operator,
    ) -> Option<CatalogSourceTemplate> {
        let path = operator.target_catalog_source_template.as_ref()?;
        let mut text = String::new();
        let read =
            File::open(path).and_then(|file| file.take(MAX_TEMPLATE).read_to_string(&mut text));
        let template = match read {
            Ok(_) => CatalogSourceTemplate::parse(&text).map_err(|e| chain(&e)),
            Err(error) => Err(error.to_string()),
        };
        template
            .map_err(|why| {
                let message = format!(
                    "{}:{}: the CatalogSource of {} is written without the template {}: {why}",
                    context.settings.configuration.path.display(),
                    operator.at,
                    operator.catalog,
                    path.display()
                );
                self.issues.failures.push(Failure::new(Exit::OPERATOR, message));
            })
            .ok()
    }
}
