//! What a release consists of, read from its payload or from what was kept of it.

use std::collections::BTreeMap;

use image_set::{Architecture, PlatformSection};
use oci::{Digest, ImageRef, Platform};
use release::payload::{BootImages, BootImagesError, ImageReferences, ReleaseMetadata, Wanted};
use workspace::Holdings;

use super::payload_files;
use crate::error_chain::chain;
use crate::gather::Collector;

pub(crate) const IMAGE_REFERENCES: &str = "image-references";
pub(crate) const METADATA: &str = "release-metadata";
pub(crate) const BOOT_IMAGES: &str = "0000_50_installer_coreos-bootimages.yaml";

/// The manifests of a payload that matter here.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    pub(crate) image_references: Vec<u8>,
    /// The others, by name, as far as there are any.
    others: BTreeMap<String, Vec<u8>>,
}

/// A name inside the release, and the image.
pub(crate) type Component = (String, ImageRef);

/// Reads the manifests out of the payload at its registry.
pub(crate) async fn fetched(
    collector: &Collector,
    payload: &ImageRef,
    platforms: &[Platform],
    wanted: Wanted,
) -> Result<Contents, String> {
    let files = payload_files::read(collector, payload, platforms, wanted).await?;
    let image_references = files.image_references().map_err(|e| chain(&e))?.to_vec();
    let others = [(METADATA, files.release_metadata()), (BOOT_IMAGES, files.boot_images())];
    let others = others.into_iter().filter_map(|(name, bytes)| Some((name.to_owned(), bytes?)));
    let others = others.map(|(name, bytes)| (name, bytes.to_vec())).collect();
    Ok(Contents { image_references, others })
}

/// Finds the manifests of a payload that was read before, below `place`.
pub(crate) fn carried(
    holdings: &Holdings,
    place: &str,
    digest: &Digest,
) -> Result<Contents, String> {
    let document = |name: &str| holdings.document(name).map_err(|e| chain(&e));
    let known = document(&marker(place))?;
    if known.as_deref() != Some(digest.to_string().as_bytes()) {
        return Err(format!(
            "the release with the payload {digest} did not come along: mirror it on the connected side"
        ));
    }
    let name = |file: &str| format!("{place}/release-manifests/{file}");
    let image_references = document(&name(IMAGE_REFERENCES))?
        .ok_or_else(|| format!("{} did not come along", name(IMAGE_REFERENCES)))?;
    let mut others = BTreeMap::new();
    for file in [METADATA, BOOT_IMAGES] {
        if let Some(bytes) = document(&name(file))? {
            others.insert(file.to_owned(), bytes);
        }
    }
    Ok(Contents { image_references, others })
}

/// The document that says whose manifests lie beside it: a tag may move.
fn marker(place: &str) -> String {
    format!("{place}/payload-digest")
}

impl Contents {
    /// What is kept of them, with names below `working-dir`.
    pub(crate) fn documents(&self, place: &str, digest: &Digest) -> Vec<(String, Vec<u8>)> {
        let name = |file: &str| format!("{place}/release-manifests/{file}");
        let mut documents = vec![
            (marker(place), digest.to_string().into_bytes()),
            (name(IMAGE_REFERENCES), self.image_references.clone()),
        ];
        let others = self.others.iter();
        documents.extend(others.map(|(file, bytes)| (name(file), bytes.clone())));
        documents
    }

    pub(crate) fn references(&self) -> Result<ImageReferences, String> {
        ImageReferences::parse(&self.image_references).map_err(|e| chain(&e))
    }

    /// All components.
    pub(crate) fn components(&self) -> Result<Vec<Component>, String> {
        let components = self.references()?.components.into_iter();
        Ok(components.map(|component| (component.name, component.image)).collect())
    }

    /// The disk images of virtual machines. Where a payload of several
    /// architectures was asked for beside others, one without a disk gets by
    /// with a warning.
    pub(crate) fn disk_images(
        &self,
        section: &PlatformSection,
        architecture: Option<Architecture>,
    ) -> Result<(Vec<Component>, Option<String>), String> {
        let Some(boot_images) = self.others.get(BOOT_IMAGES) else {
            return Err(format!(
                "the release has no release-manifests/{BOOT_IMAGES}, so no disk image for kubeVirtContainer"
            ));
        };
        let boot_images = BootImages::parse(boot_images).map_err(|e| chain(&e))?;
        // A payload that was named itself is asked for all it has.
        let architecture = architecture.unwrap_or(Architecture::Multi);
        match boot_images.kube_virt(architecture, &section.platforms) {
            Ok(disks) => {
                let disks = disks.into_iter().map(|disk| (disk.component, disk.image));
                Ok((disks.collect(), None))
            }
            Err(error @ BootImagesError::None(_)) if section.architectures.len() > 1 => {
                Ok((Vec::new(), Some(chain(&error))))
            }
            Err(error) => Err(chain(&error)),
        }
    }

    /// What the release says about itself, where it does.
    pub(crate) fn metadata(&self) -> Option<ReleaseMetadata> {
        ReleaseMetadata::parse(self.others.get(METADATA)?).ok()
    }
}
