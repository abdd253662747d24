//! Performs the steps of one repository, one after the other.

use std::collections::BTreeSet;

use delete_plan::Step;
use oci::{Digest, ImageRef, Pointer, RegistryHost, Repository, Tag};
use registry::{Client, Deletion, Error};

use crate::error_chain::chain;

/// Whether the registry deletes a tag without its manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TagDeletion {
    Untested,
    Works,
    Unsupported,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Done {
    /// With the response.
    Deleted(String),
    Absent,
    /// The tag stays, because the registry cannot delete it alone.
    TagStays,
    /// A tag names another manifest than expected: nothing was deleted.
    TagMoved,
}

/// Why a step failed, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepError {
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

const RETRY: &str = "run the same command again: what is deleted already is skipped";
const DISABLED: &str = "deletion is disabled at the registry; for docker-registry set `storage.delete.enabled: true` in its configuration, or REGISTRY_STORAGE_DELETE_ENABLED=true, and start it again";
const DENIED: &str = "give credentials that may delete, with --dest-creds, --dest-authfile or --authfile; in Quay the user needs write access to the repository";

/// A target whose content is deleted.
pub(crate) struct Performer<'a> {
    pub(crate) client: &'a Client,
    pub(crate) registry: &'a RegistryHost,
    pub(crate) tags: TagDeletion,
}

impl Performer<'_> {
    /// Performs a step, unless one of the tags `compared` does not name the manifest of the step.
    pub(crate) async fn perform(
        &mut self,
        repository: &Repository,
        step: &Step,
        compared: &[&Tag],
    ) -> Result<Done, StepError> {
        let (Step::Tag { digest, .. } | Step::Manifest { digest, .. }) = step;
        for tag in compared {
            let image = self.image(repository, Pointer::Tag((*tag).clone()));
            let found = self.client.head(&image).await.map_err(|error| failed(&image, &error))?;
            match found {
                Some(found) if found.digest == *digest => {}
                None if matches!(step, Step::Tag { .. }) => return Ok(Done::Absent),
                _ => return Ok(Done::TagMoved),
            }
        }
        match step {
            Step::Manifest { digest, .. } => {
                let image = self.image(repository, Pointer::Digest(*digest));
                match self.client.delete(&image).await {
                    Ok(Deletion::Done { status }) => Ok(Done::Deleted(format!("HTTP {status}"))),
                    Ok(Deletion::Absent) => Ok(Done::Absent),
                    Ok(Deletion::Unsupported { status, error_body }) => Err(StepError {
                        message: format!(
                            "deleting {image}: the registry does not allow it (HTTP {status}{error_body})"
                        ),
                        hint: DISABLED,
                    }),
                    Err(error) => Err(failed(&image, &error)),
                }
            }
            Step::Tag { tag, digest, kept_by } => {
                self.delete_tag(repository, tag, digest, kept_by).await
            }
        }
    }

    /// Deletes a tag whose manifest stays. The first time it is checked that the registry leaves
    /// the manifest alone; if not, it is restored.
    async fn delete_tag(
        &mut self,
        repository: &Repository,
        tag: &Tag,
        digest: &Digest,
        kept_by: &[Tag],
    ) -> Result<Done, StepError> {
        if self.tags == TagDeletion::Unsupported {
            return Ok(Done::TagStays);
        }
        let image = self.image(repository, Pointer::Tag(tag.clone()));
        let by_digest = self.image(repository, Pointer::Digest(*digest));
        let fail = |error: Error| failed(&image, &error);
        let is_first = self.tags == TagDeletion::Untested;
        let backup = match is_first {
            true => self.client.manifest(&by_digest).await.map_err(fail)?,
            false => None,
        };
        let done = match self.client.delete(&image).await.map_err(fail)? {
            Deletion::Done { status } => Done::Deleted(format!("HTTP {status}")),
            Deletion::Absent => return Ok(Done::Absent),
            Deletion::Unsupported { .. } => {
                self.tags = TagDeletion::Unsupported;
                return Ok(Done::TagStays);
            }
        };
        if !is_first {
            return Ok(done);
        }
        if self.client.head(&by_digest).await.map_err(fail)?.is_some() {
            self.tags = TagDeletion::Works;
            return Ok(done);
        }
        self.tags = TagDeletion::Unsupported;
        let Some(backup) = backup else { return Ok(Done::Absent) };
        let names: BTreeSet<&Tag> = kept_by.iter().chain([tag]).collect();
        for tag in names {
            let image = self.image(repository, Pointer::Tag(tag.clone()));
            self.client.put_manifest(&image, &backup).await.map_err(fail)?;
        }
        Ok(Done::TagStays)
    }

    fn image(&self, repository: &Repository, pointer: Pointer) -> ImageRef {
        let (registry, repository) = (self.registry.clone(), repository.clone());
        ImageRef { registry, repository, tag: None, digest: None }.with_pointer(pointer)
    }
}

fn failed(image: &ImageRef, error: &Error) -> StepError {
    let hint = if error.is_denied() { DENIED } else { RETRY };
    StepError { message: format!("deleting {image}: {}", chain(error)), hint }
}
