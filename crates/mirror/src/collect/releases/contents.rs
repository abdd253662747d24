//! What a release consists of, read from its payload or from what was kept of it.

use std::collections::BTreeMap;
use std::io::{self, Read};

use image_set::{Architecture, PlatformSection};
use oci::{Descriptor, Digest, Hasher, ImageRef, Manifest, ManifestError, Platform};
use release::payload::{
    BootImages, BootImagesError, ImageReferences, LayerError, PayloadFiles, ReferencesError,
    ReleaseMetadata, Wanted,
};
use workspace::{BlobReader, DiskError, DocumentError, Holdings};

use super::payload_files::{self, PayloadError};
use crate::fault::{EngineError, Fault};
use crate::gather::Collector;
use crate::transfer::supply::{ManifestReadError, held_manifest};

pub(crate) const IMAGE_REFERENCES: &str = "image-references";
pub(crate) const METADATA: &str = "release-metadata";
pub(crate) const BOOT_IMAGES: &str = "0000_50_installer_coreos-bootimages.yaml";

/// Why it is not known what a release consists of.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentsError {
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("the release with the payload {0} is not here: mirror it on the connected side")]
    NotHeld(Digest),
    #[error("{0} is not here: mirror the release on the connected side")]
    NoDocument(String),
    #[error("no image of the payload {0} is here")]
    NoImage(Digest),
    #[error("the layer {layer} of the payload {payload} is not here")]
    NoLayer { layer: Digest, payload: Digest },
    #[error("the layer {layer} of the payload {payload} is damaged")]
    Damaged { layer: Digest, payload: Digest },
    #[error("reading the payload {payload}")]
    Layer { payload: Digest, source: LayerError },
    #[error("reading the layer {layer}")]
    Read { layer: Digest, source: io::Error },
    #[error(transparent)]
    Held(#[from] ManifestReadError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Files(#[from] LayerError),
    #[error(transparent)]
    References(#[from] ReferencesError),
    #[error(
        "the release has no release-manifests/{BOOT_IMAGES}, so no disk image for kubeVirtContainer"
    )]
    NoBootImages,
    #[error(transparent)]
    BootImages(#[from] BootImagesError),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl EngineError for ContentsError {
    fn fault(&self) -> Fault {
        match self {
            Self::Payload(error) => error.fault(),
            Self::NotHeld(_) | Self::NoDocument(_) | Self::NoImage(_) | Self::NoLayer { .. } => {
                Fault::NotHeld
            }
            Self::Damaged { .. }
            | Self::Layer { .. }
            | Self::Manifest(_)
            | Self::Files(_)
            | Self::References(_)
            | Self::BootImages(_) => Fault::Content,
            Self::NoBootImages => Fault::Configuration,
            Self::Held(error) => error.fault(),
            Self::Document(error) => Fault::of_document(error),
            Self::Read { .. } | Self::Disk(_) => Fault::Disk,
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Payload(error) => error.request(),
            _ => None,
        }
    }
}

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
) -> Result<Contents, ContentsError> {
    let files = payload_files::read(collector, payload, platforms, wanted).await?;
    of_files(&files)
}

/// Finds the manifests of a payload that was read before, below `place`.
pub(crate) fn carried(
    holdings: &Holdings,
    place: &str,
    digest: &Digest,
) -> Result<Contents, ContentsError> {
    let document = |name: &str| holdings.document(name);
    let known = document(&marker(place))?;
    // oc-mirror v2 does not record whose manifests it keeps. They are read from the payload, which
    // has the digest that was signed.
    if known.is_none() && holdings.distribution().is_some() {
        return read_from_payload(holdings, digest);
    }
    if known.as_deref() != Some(digest.to_string().as_bytes()) {
        return Err(ContentsError::NotHeld(*digest));
    }
    let name = |file: &str| format!("{place}/release-manifests/{file}");
    let image_references = document(&name(IMAGE_REFERENCES))?
        .ok_or_else(|| ContentsError::NoDocument(name(IMAGE_REFERENCES)))?;
    let mut others = BTreeMap::new();
    for file in [METADATA, BOOT_IMAGES] {
        if let Some(bytes) = document(&name(file))? {
            others.insert(file.to_owned(), bytes);
        }
    }
    Ok(Contents { image_references, others })
}

/// Reads the manifests out of a payload that is held.
fn read_from_payload(holdings: &Holdings, payload: &Digest) -> Result<Contents, ContentsError> {
    let mut digest = *payload;
    let mut layers = Vec::new();
    // A list may list a list; no known tool writes more levels.
    for _ in 0..3 {
        let raw = held_manifest(holdings, &digest)?;
        match raw.parse()? {
            Manifest::Image { layers: found, .. } => {
                layers = found;
                break;
            }
            // The manifests of a release are the same in all its images.
            Manifest::Index { manifests, .. } => {
                let held =
                    |child: &&Descriptor| matches!(holdings.blob(&child.digest), Ok(Some(_)));
                let child = manifests.iter().find(held);
                digest = child.ok_or(ContentsError::NoImage(*payload))?.digest;
            }
        }
    }
    let mut files = PayloadFiles::new(Wanted::BootImages);
    for layer in layers.iter().rev() {
        if files.is_settled() {
            break;
        }
        let (layer, payload) = (layer.digest, *payload);
        let reader = holdings.blob(&layer)?;
        let reader = reader.ok_or(ContentsError::NoLayer { layer, payload })?;
        let mut checked = Checked { reader, hasher: Hasher::new() };
        let read = files.read_layer(&mut checked);
        // Damage is the better explanation of what cannot be unpacked.
        let found = checked.finish().map_err(|source| ContentsError::Read { layer, source })?;
        if found != layer {
            return Err(ContentsError::Damaged { layer, payload });
        }
        read.map_err(|source| ContentsError::Layer { payload, source })?;
    }
    of_files(&files)
}

fn of_files(files: &PayloadFiles) -> Result<Contents, ContentsError> {
    let image_references = files.image_references()?.to_vec();
    let others = [(METADATA, files.release_metadata()), (BOOT_IMAGES, files.boot_images())];
    let others = others.into_iter().filter_map(|(name, bytes)| Some((name.to_owned(), bytes?)));
    let others = others.map(|(name, bytes)| (name, bytes.to_vec())).collect();
    Ok(Contents { image_references, others })
}

/// Hashes what is read through it.
struct Checked {
    reader: BlobReader,
    hasher: Hasher,
}

impl Checked {
    /// The digest of the whole blob; reads what is left of it.
    fn finish(mut self) -> io::Result<Digest> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(self.hasher.finish())
    }
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

/// The document with the digest of the payload whose manifests are beside it: a tag may move.
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

    pub(crate) fn references(&self) -> Result<ImageReferences, ContentsError> {
        Ok(ImageReferences::parse(&self.image_references)?)
    }

    /// All components.
    pub(crate) fn components(&self) -> Result<Vec<Component>, ContentsError> {
        let components = self.references()?.components.into_iter();
        Ok(components.map(|component| (component.name, component.image)).collect())
    }

    /// The disk images of virtual machines. Where a payload of several
    /// architectures was requested beside others, one without a disk gets by
    /// with a warning.
    pub(crate) fn disk_images(
        &self,
        section: &PlatformSection,
        architecture: Option<Architecture>,
    ) -> Result<(Vec<Component>, Option<BootImagesError>), ContentsError> {
        let boot_images = self.others.get(BOOT_IMAGES).ok_or(ContentsError::NoBootImages)?;
        let boot_images = BootImages::parse(boot_images)?;
        // Of a payload that was named itself, all disks are taken.
        let architecture = architecture.unwrap_or(Architecture::Multi);
        match boot_images.kube_virt(architecture, &section.platforms) {
            Ok(disks) => {
                let disks = disks.into_iter().map(|disk| (disk.component, disk.image));
                Ok((disks.collect(), None))
            }
            Err(error @ BootImagesError::None(_)) if section.architectures.len() > 1 => {
                Ok((Vec::new(), Some(error)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The metadata of the release, where it has any.
    pub(crate) fn metadata(&self) -> Option<ReleaseMetadata> {
        ReleaseMetadata::parse(self.others.get(METADATA)?).ok()
    }
}
