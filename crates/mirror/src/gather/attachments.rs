//! What belongs to an image without being in it: cosign's signatures,
//! attestations and SBOMs, and OCI referrers.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use mirror_plan::{Attachment, ManifestNode};
use oci::{Descriptor, Digest, ImageRef, Pointer, Tag};
use registry::Location;
use tokio::sync::OnceCell;

use super::registry_tree::{CollectError, Collector};

/// What cosign appends to `sha256-<hex>`.
const SUFFIXES: [&str; 3] = ["sig", "att", "sbom"];
/// Pages of a tag list that are read before each tag is requested instead.
const TAG_PAGES: NonZeroUsize = NonZeroUsize::new(2).unwrap();
/// Manifests whose attachments are looked for at once.
const AT_ONCE: usize = 8;

/// Tags a repository has, as far as attachments are concerned. Requested once
/// per repository: a list takes one request, the tags of each manifest three.
#[derive(Debug, Default)]
pub(super) struct KnownTags {
    repositories: Mutex<BTreeMap<Location, Arc<OnceCell<TagList>>>>,
}

#[derive(Debug)]
enum TagList {
    /// All tags that start with `sha256-`.
    All(BTreeSet<Tag>),
    /// The list is too long, or unavailable: each tag is requested.
    Unknown,
}

impl TagList {
    fn may_have(&self, tag: &Tag) -> bool {
        match self {
            Self::All(tags) => tags.contains(tag),
            Self::Unknown => true,
        }
    }
}

impl KnownTags {
    fn of(&self, repository: &Location) -> Arc<OnceCell<TagList>> {
        let mut known = self.repositories.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(repository.clone()).or_default())
    }
}

impl Collector {
    /// Everything attached to any of `manifests`, in their order.
    pub(super) async fn attached(
        &self,
        image: &ImageRef,
        manifests: &[ManifestNode],
    ) -> Result<Vec<Attachment>, CollectError> {
        let repository =
            Location { registry: image.registry.clone(), repository: image.repository.clone() };
        let cell = self.known_tags.of(&repository);
        let tags = cell.get_or_init(|| self.tag_list(&repository)).await;
        let subjects: Vec<Digest> = manifests.iter().map(|manifest| manifest.digest).collect();
        let found: Vec<Vec<Attachment>> = stream::iter(subjects)
            .map(|subject| self.attached_to(image, &repository, tags, subject))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn tag_list(&self, repository: &Location) -> TagList {
        match self.client.tags(repository, TAG_PAGES).await {
            Ok(list) if list.complete => {
                let attached = |tag: &Tag| tag.as_str().starts_with("sha256-");
                TagList::All(list.tags.into_iter().filter(attached).collect())
            }
            // A registry may forbid listing and still respond for each tag.
            Ok(_) | Err(_) => TagList::Unknown,
        }
    }

    async fn attached_to(
        &self,
        image: &ImageRef,
        repository: &Location,
        tags: &TagList,
        subject: Digest,
    ) -> Result<Vec<Attachment>, CollectError> {
        let mut found = Vec::new();
        for suffix in SUFFIXES {
            let tag = Tag::of_attachment(&subject, suffix);
            if !tags.may_have(&tag) {
                continue;
            }
            let at = image.with_pointer(Pointer::Tag(tag.clone()));
            if let Some(raw) = self.attachment(&at).await? {
                let (manifests, _) = self.descend(&at, raw, &[]).await?;
                found.push(Attachment { subject, tag: Some(tag), listed_as: None, manifests });
            }
        }
        for referrer in self.referrers(image, repository, tags, subject).await? {
            // What has a cosign tag is already included.
            if found.iter().any(|a| a.manifests[0].digest == referrer.digest) {
                continue;
            }
            let at = image.with_pointer(Pointer::Digest(referrer.digest));
            let raw = self.manifest(&at).await?;
            let raw = raw.ok_or_else(|| CollectError::ChildAbsent {
                image: Box::new(at),
                parent: subject,
            })?;
            let (manifests, _) = self.descend(image, raw, &[]).await?;
            found.push(Attachment { subject, tag: None, listed_as: Some(referrer), manifests });
        }
        Ok(found)
    }

    /// Manifests whose subject is `subject`: from the referrers API, or where
    /// there is none from the index under the fallback tag.
    async fn referrers(
        &self,
        image: &ImageRef,
        repository: &Location,
        tags: &TagList,
        subject: Digest,
    ) -> Result<Vec<Descriptor>, CollectError> {
        if let Some(listed) = self.client.referrers(repository, &subject).await? {
            return Ok(listed);
        }
        let fallback = Tag::of_digest(&subject);
        if !tags.may_have(&fallback) {
            return Ok(Vec::new());
        }
        let at = image.with_pointer(Pointer::Tag(fallback));
        let Some(raw) = self.client.attachment(&at).await? else { return Ok(Vec::new()) };
        // In a mirror that tag may be the image itself, which has only a digest for a name.
        if raw.digest == subject || !raw.media_type.is_index() {
            return Ok(Vec::new());
        }
        let listed = self.parse(&at, &raw)?.children().to_vec();
        let mut about_subject = Vec::new();
        for referrer in listed {
            let at = image.with_pointer(Pointer::Digest(referrer.digest));
            if let Some(raw) = self.manifest(&at).await? {
                let parsed = self.parse(&at, &raw)?;
                if parsed.about().subject.as_ref().is_some_and(|s| s.digest == subject) {
                    about_subject.push(referrer);
                }
            }
        }
        Ok(about_subject)
    }
}
