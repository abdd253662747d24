//! Images in a cache or an archive of oc-mirror v2, by the names that it gives them.

use std::collections::BTreeSet;

use mirror_plan::{Attachment, BlobRef, Destination, ImageTree, ManifestNode};
use oci::{Digest, Manifest, Platform, RawManifest, Tag};

use super::{Distribution, DistributionError};

/// Indexes may contain indexes, up to this depth.
const MAX_DEPTH: usize = 4;
/// More manifests than any honest image has.
const MAX_MANIFESTS: usize = 4096;
/// What oc-mirror v2 copies besides images: cosign signatures. Later releases of cosign add more.
const SUFFIXES: [&str; 3] = ["sig", "att", "sbom"];

impl Distribution {
    /// The image that oc-mirror v2 stored as `name`, with its signatures. An image that is requested
    /// by digest is found without its tag, too. `None` if there is none.
    ///
    /// # Guarantees
    /// All manifests of the result are here and have the digests they are listed with. Manifests of
    /// an index that are not here are left out: oc-mirror v2 stores sparse indexes.
    pub fn image(
        &self,
        name: &Destination,
        wanted: Option<&Digest>,
    ) -> Result<Option<ImageTree>, DistributionError> {
        let absent = |digest| DistributionError::Absent { name: Box::new(name.clone()), digest };
        let root = match (self.tag(name)?, wanted) {
            (Some(has), Some(wanted)) if has != *wanted => {
                // The tag may have moved since; the content counts.
                match self.manifest(wanted)? {
                    Some(raw) => raw,
                    None => {
                        let name = Box::new(name.clone());
                        return Err(DistributionError::OtherDigest { name, has, wanted: *wanted });
                    }
                }
            }
            (Some(digest), _) => self.manifest(&digest)?.ok_or_else(|| absent(digest))?,
            (None, Some(wanted)) => match self.manifest(wanted)? {
                Some(raw) => raw,
                None => return Ok(None),
            },
            (None, None) => return Ok(None),
        };
        let (manifests, left_out) = self.descend(name, root)?;
        let mut attachments = Vec::new();
        for subject in manifests.iter().map(|node| node.digest) {
            for suffix in SUFFIXES {
                attachments.extend(self.attachment(name, subject, suffix)?);
            }
        }
        Ok(Some(ImageTree { manifests, left_out, attachments }))
    }

    /// The manifests below `root`, itself first, and those that are not here.
    fn descend(
        &self,
        name: &Destination,
        root: RawManifest,
    ) -> Result<(Vec<ManifestNode>, BTreeSet<Digest>), DistributionError> {
        let mut known = BTreeSet::from([root.digest]);
        let (mut manifests, mut left_out) = (Vec::new(), BTreeSet::new());
        let mut level: Vec<(RawManifest, Option<Platform>)> = vec![(root, None)];
        for _ in 0..MAX_DEPTH {
            let mut below = Vec::new();
            for (raw, platform) in level {
                let digest = raw.digest;
                let parsed =
                    raw.parse().map_err(|source| DistributionError::Manifest { digest, source })?;
                manifests.push(node(&raw, &parsed, platform));
                for child in parsed.children() {
                    if !known.insert(child.digest) {
                        continue;
                    }
                    match self.manifest(&child.digest)? {
                        Some(raw) => below.push((raw, child.platform.clone())),
                        None => {
                            left_out.insert(child.digest);
                        }
                    }
                    if known.len() > MAX_MANIFESTS {
                        return Err(DistributionError::Unbounded(Box::new(name.clone())));
                    }
                }
            }
            if below.is_empty() {
                return Ok((manifests, left_out));
            }
            level = below;
        }
        Err(DistributionError::Unbounded(Box::new(name.clone())))
    }

    /// What a tag of cosign attaches to `subject`. One whose manifest is not here is not an error:
    /// an image needs its signature only where a policy requires it, and then it is reported.
    fn attachment(
        &self,
        name: &Destination,
        subject: Digest,
        suffix: &str,
    ) -> Result<Option<Attachment>, DistributionError> {
        let tag = Tag::of_attachment(&subject, suffix);
        let at = Destination { repository: name.repository.clone(), tag: tag.clone() };
        let Some(digest) = self.tag(&at)? else { return Ok(None) };
        let Some(raw) = self.manifest(&digest)? else { return Ok(None) };
        let (manifests, _) = self.descend(&at, raw)?;
        Ok(Some(Attachment { subject, tag: Some(tag), listed_as: None, manifests }))
    }
}

fn node(raw: &RawManifest, parsed: &Manifest, platform: Option<Platform>) -> ManifestNode {
    let blobs = parsed.blobs().into_iter();
    ManifestNode {
        media_type: raw.media_type.clone(),
        digest: raw.digest,
        size: raw.bytes.len() as u64,
        platform,
        blobs: blobs.map(|blob| BlobRef { digest: blob.digest, size: blob.size }).collect(),
    }
}
