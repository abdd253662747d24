//! What a cluster needs to use mirrored releases, beside the mirror sets.

use mirror_plan::{Kind, MirroredImage, Origin};
use release::resources::{Creator, signature_config_map, update_service};

use super::Releases;
use crate::context::Context;
use crate::record::generated_files::GeneratedError;

impl Releases {
    /// The files for what the target holds: names and texts. Only payloads
    /// that exist there count, so that no cluster is updated to one that does not.
    pub(crate) fn resources(
        &self,
        context: &Context,
        mirrored: &[MirroredImage],
    ) -> Result<Vec<(String, String)>, GeneratedError> {
        let maker =
            Creator { created_at: context.started, tool_version: context.settings.version.clone() };
        let of = |kind| mirrored.iter().filter(move |image| image.kind == kind);
        let digests = of(Kind::ReleasePayload).filter_map(|image| match &image.origin {
            Origin::Registry(origin) => origin.digest,
            Origin::Layout(_) | Origin::Made(_) => None,
        });
        let signatures = digests.flat_map(|digest| {
            let signatures = self.signatures.get(&digest).into_iter().flatten();
            signatures.map(move |signature| (digest, signature.0.as_slice()))
        });
        let mut files = signature_config_map(signatures, &maker)?;
        match (of(Kind::ReleasePayload).next(), of(Kind::Graph).next()) {
            (Some(payload), Some(graph)) => {
                let (payload, graph) = (&payload.destination, &graph.destination);
                files.push(update_service(payload, graph, &maker)?);
            }
            (None, Some(_)) => context.warn(
                "updateService.yaml is not written: an update service needs at least one release at the target"
                    .to_owned(),
            ),
            _ => {}
        }
        Ok(files.into_iter().map(|file| (file.name.to_owned(), file.text)).collect())
    }
}
