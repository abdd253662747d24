//! What of the wanted images a target registry holds already.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;

use futures_util::stream::{self, StreamExt};
use mirror_plan::{Destination, Found, Held, ImageEntry, ImageTree, Origin};
use oci::{Digest, ImageRef, Pointer, RegistryHost, Repository};
use registry::{Client, Error, Location};

use crate::record::pushed_log::Pushed;

/// Requests to the target at once.
const AT_ONCE: usize = 32;

/// What the target holds.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// Images that are there, whole, and their root.
    whole: BTreeMap<Destination, Digest>,
    /// Everything whole images consist of.
    contents: HashSet<Digest>,
    /// Names that exist at the target, whatever they refer to.
    named: HashSet<Destination>,
    /// Repositories that hold nothing at all.
    pub(crate) new_repositories: HashSet<Repository>,
}

impl Presence {
    /// Whether the target has an image of this name.
    pub(crate) fn has_name(&self, destination: &Destination) -> bool {
        self.named.contains(destination)
    }
}

impl Held for Presence {
    fn image(&self, _origin: &Origin, destination: &Destination) -> Option<Digest> {
        self.whole.get(destination).copied()
    }

    fn content(&self, digest: &Digest) -> bool {
        self.contents.contains(digest)
    }
}

/// What the target holds of the images, and those whose request failed.
#[derive(Debug)]
pub(crate) struct TargetState {
    pub(crate) presence: Presence,
    pub(crate) found: Vec<Found>,
    pub(crate) lost: Vec<(Found, Error)>,
}

/// The digests of names at a target, requested while the manifests of the images
/// are still being read.
#[derive(Debug, Default)]
pub(crate) struct TargetDigests(BTreeMap<Destination, Result<Option<Digest>, Error>>);

/// Sends one request for every name.
pub(crate) async fn heads(
    client: &Client,
    registry: &RegistryHost,
    names: Vec<Destination>,
) -> TargetDigests {
    let states = stream::iter(names).map(|name| async move {
        let found = client.head(&name.at(registry)).await;
        (name, found.map(|found| found.map(|found| found.digest)))
    });
    TargetDigests(states.buffer_unordered(AT_ONCE).collect().await)
}

/// Checks every image at the target, with one request each unless its response is among `heads`.
/// More requests are sent only for images that this workspace has no record of pushing, and one for
/// each repository that seems to be new.
///
/// # Errors
///
/// An image whose request fails is in [`TargetState::lost`]. If the requests of all images fail,
/// the target itself is the cause, and the last of these errors is returned.
pub(crate) async fn check_target(
    client: &Client,
    registry: &RegistryHost,
    images: Vec<Found>,
    mut heads: TargetDigests,
    pushed: &mut Pushed,
    run: u64,
) -> Result<TargetState, Error> {
    let remembered = &*pushed;
    let mut states = stream::iter(images)
        .map(|image| (heads.0.remove(&image.destination), image))
        .map(|(head, image)| async move {
            let at = image.destination.at(registry);
            let sure = remembered.has(&image.destination, &image.tree);
            let state = check_image(client, &at, head, &image.tree, sure).await;
            (image, state)
        })
        .buffer_unordered(AT_ONCE);
    let mut presence = Presence::default();
    let mut seen: BTreeMap<Repository, bool> = BTreeMap::new();
    let (mut found, mut lost, mut whole) = (Vec::<Found>::new(), Vec::new(), Vec::new());
    while let Some((image, state)) = states.next().await {
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                lost.push((image, error));
                continue;
            }
        };
        *seen.entry(image.destination.repository.clone()).or_default() |=
            state != ImageState::Absent;
        if state != ImageState::Absent {
            presence.named.insert(image.destination.clone());
        }
        if state == ImageState::Complete {
            presence.whole.insert(image.destination.clone(), image.tree.root().digest);
            presence.contents.extend(image.tree.all_manifests().map(|node| node.digest));
            presence.contents.extend(image.tree.blobs().into_keys());
            whole.push(found.len());
        }
        found.push(image);
    }
    drop(states);
    for place in whole {
        let image = &found[place];
        let (origin, kind, tree) = (&image.wanted.origin, image.wanted.kind, &image.tree);
        pushed.insert(&image.destination, ImageEntry { origin, kind, tree, run });
    }
    if found.is_empty()
        && let Some((_, error)) = lost.pop()
    {
        return Err(error);
    }
    let silent = seen.into_iter().filter(|(_, exists)| !exists).map(|(repository, _)| repository);
    let new: Vec<(Repository, bool)> = stream::iter(silent)
        .map(|repository| async move {
            let at = Location { registry: registry.clone(), repository: repository.clone() };
            // If tags may not be listed, each blob is checked.
            let is_new =
                client.tags(&at, NonZeroUsize::MIN).await.is_ok_and(|list| list.tags.is_empty());
            (repository, is_new)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    presence.new_repositories = new.into_iter().filter(|(_, new)| *new).map(|(r, _)| r).collect();
    Ok(TargetState { presence, found, lost })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImageState {
    Complete,
    /// The name exists, but not with the complete image.
    Different,
    Absent,
}

async fn check_image(
    client: &Client,
    at: &ImageRef,
    head: Option<Result<Option<Digest>, Error>>,
    tree: &ImageTree,
    sure: bool,
) -> Result<ImageState, Error> {
    let head = match head {
        Some(head) => head?,
        None => client.head(at).await?.map(|found| found.digest),
    };
    match head {
        None => return Ok(ImageState::Absent),
        Some(digest) if digest != tree.root().digest => return Ok(ImageState::Different),
        Some(_) if sure => return Ok(ImageState::Complete),
        Some(_) => {}
    }
    let below = tree.manifests[1..].iter().map(|node| (Pointer::Digest(node.digest), node.digest));
    let attached = tree.attachments.iter().map(|attachment| {
        let digest = attachment.manifests[0].digest;
        let pointer = attachment.tag.clone().map_or(Pointer::Digest(digest), Pointer::Tag);
        (pointer, digest)
    });
    for (pointer, digest) in below.chain(attached) {
        let found = client.head(&at.with_pointer(pointer)).await?;
        if found.is_none_or(|found| found.digest != digest) {
            return Ok(ImageState::Different);
        }
    }
    Ok(ImageState::Complete)
}
