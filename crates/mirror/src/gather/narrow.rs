//! The part of a held image that a configuration selects.

use std::collections::BTreeSet;

use mirror_plan::{ImageTree, ManifestNode};
use oci::{Digest, ManifestError, Platform, RawManifest};

use crate::fault::{EngineError, Fault};
use crate::gather::{NoInstance, select_from};
use crate::transfer::supply::ManifestReadError;

/// Why a held image does not do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NarrowError {
    #[error(transparent)]
    Platform(#[from] NoInstance),
    /// The list has the platform, but it was not mirrored.
    #[error("{0} was left out when this image was mirrored: mirror it again with that platform")]
    LeftOut(Digest),
    #[error(transparent)]
    Read(#[from] ManifestReadError),
    #[error("reading the manifest {digest}")]
    Parse { digest: Digest, source: ManifestError },
}

impl EngineError for NarrowError {
    fn fault(&self) -> Fault {
        match self {
            Self::Platform(_) => Fault::Configuration,
            Self::LeftOut(_) => Fault::NotHeld,
            Self::Read(error) => error.fault(),
            Self::Parse { .. } => Fault::Content,
        }
    }
}

/// `tree` as far as `platforms` select it. `manifest` reads the bytes of a list
/// that is held.
pub(crate) fn narrow(
    tree: &ImageTree,
    platforms: &[Platform],
    manifest: impl Fn(&Digest) -> Result<RawManifest, ManifestReadError>,
) -> Result<ImageTree, NarrowError> {
    if platforms.is_empty() && tree.left_out.is_empty() {
        return Ok(tree.clone());
    }
    let held = |digest: &Digest| tree.manifests.iter().find(|node| node.digest == *digest);
    let mut kept: Vec<ManifestNode> = vec![tree.root().clone()];
    let mut left_out = BTreeSet::new();
    let mut at = 0;
    while at < kept.len() {
        if kept[at].media_type.is_index() {
            let raw = manifest(&kept[at].digest)?;
            let parsed =
                raw.parse().map_err(|source| NarrowError::Parse { digest: raw.digest, source })?;
            let selection = select_from(&parsed, platforms)?;
            left_out.extend(selection.left_out);
            for child in selection.taken {
                let node = held(&child.digest).ok_or(NarrowError::LeftOut(child.digest))?;
                if !kept.contains(node) {
                    kept.push(node.clone());
                }
            }
        }
        at += 1;
    }
    let subjects: BTreeSet<Digest> = kept.iter().map(|node| node.digest).collect();
    let attachments =
        tree.attachments.iter().filter(|a| subjects.contains(&a.subject)).cloned().collect();
    Ok(ImageTree { manifests: kept, left_out, attachments })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mirror_plan::Attachment;
    use oci::{Descriptor, MediaType, referrers_index};

    use super::*;

    /// A list of two platforms, its tree, and a reader of it.
    fn list() -> (ImageTree, RawManifest) {
        let child = |name: &str, platform: &str| Descriptor {
            platform: Some(platform.parse().unwrap()),
            ..Descriptor::new(
                MediaType::new(MediaType::OCI_MANIFEST),
                Digest::of(name.as_bytes()),
                3,
            )
        };
        let children = [child("amd", "linux/amd64"), child("arm", "linux/arm64")];
        let raw = referrers_index(children.to_vec());
        let node = |d: &Descriptor| ManifestNode {
            media_type: d.media_type.clone(),
            digest: d.digest,
            size: d.size,
            platform: d.platform.clone(),
            blobs: Vec::new(),
        };
        let mut manifests = vec![node(&raw.descriptor())];
        manifests.extend(children.iter().map(node));
        let signature = |subject: Digest| Attachment {
            subject,
            tag: None,
            listed_as: None,
            manifests: vec![node(&raw.descriptor())],
        };
        let attachments = children.iter().map(|c| signature(c.digest)).collect();
        (ImageTree { manifests, left_out: BTreeSet::new(), attachments }, raw)
    }

    fn reader(raw: RawManifest) -> impl Fn(&Digest) -> Result<RawManifest, ManifestReadError> {
        let held = BTreeMap::from([(raw.digest, raw)]);
        move |digest| held.get(digest).cloned().ok_or(ManifestReadError::Missing(*digest))
    }

    #[test]
    fn a_platform_takes_its_manifest_and_what_is_attached_to_it() {
        let (tree, raw) = list();
        let amd = narrow(&tree, &["linux/amd64".parse().unwrap()], reader(raw)).unwrap();
        assert_eq!(amd.manifests.len(), 2);
        assert_eq!(amd.left_out, BTreeSet::from([Digest::of(b"arm")]));
        assert_eq!(amd.attachments.len(), 1);
        assert_eq!(amd.attachments[0].subject, Digest::of(b"amd"));
    }

    #[test]
    fn what_was_not_mirrored_cannot_be_taken() {
        let (tree, raw) = list();
        let amd = narrow(&tree, &["linux/amd64".parse().unwrap()], reader(raw.clone())).unwrap();
        let error = narrow(&amd, &[], reader(raw)).unwrap_err().to_string();
        assert!(error.contains("was left out when this image was mirrored"), "{error}");
    }

    #[test]
    fn a_whole_image_is_taken_without_reading_it() {
        let (tree, _) = list();
        let unread = |digest: &Digest| Err(ManifestReadError::Missing(*digest));
        assert_eq!(narrow(&tree, &[], unread).unwrap(), tree);
    }
}
