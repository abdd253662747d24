//! Whether everything a disconnected run needs is available.
//!
//! The archive of a later run leaves out what an earlier one contains. What is
//! not here must then be at the target: in the repository itself, or where it
//! can be mounted from.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use mirror_plan::{Action, Held, Plan};
use oci::{Digest, ImageRef, Pointer, Repository};
use registry::{Client, Location};
use workspace::{DiskError, Holdings};

use crate::plan::presence::Presence;

/// Requests to the target at once.
const AT_ONCE: usize = 32;

/// What a run needs, by where it is.
#[derive(Debug, Default)]
pub(crate) struct Availability {
    /// Blobs that are here and may be pushed.
    pub(crate) here: Vec<Digest>,
    /// Blobs that are not here, but in the repository they are needed in.
    pub(crate) there: HashSet<(Repository, Digest)>,
    /// Content that is nowhere, with the images (by place in the plan) that
    /// cannot be finished without it.
    pub(crate) nowhere: BTreeMap<Digest, BTreeSet<usize>>,
}

/// Why it could not be determined what is available.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AvailabilityError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("requesting what the target holds")]
    Target(#[from] registry::Error),
}

/// A piece of content that an image needs and that is not here.
#[derive(Debug, Clone)]
struct MissingContent {
    image: usize,
    digest: Digest,
    is_manifest: bool,
}

/// Checks where all content of the images to copy is.
pub(crate) async fn check(
    client: &Client,
    holdings: &Holdings,
    plan: &Plan,
    presence: &Presence,
) -> Result<Availability, AvailabilityError> {
    let mut found = Availability::default();
    let mut seen: BTreeMap<Digest, bool> = BTreeMap::new();
    let mut lacking = Vec::new();
    for (image, planned) in plan.images.iter().enumerate() {
        if planned.action == Action::Present {
            continue;
        }
        let tree = plan.tree(planned);
        let manifests = tree.all_manifests().map(|node| (node.digest, true));
        let blobs = tree.blobs().into_keys().map(|digest| (digest, false));
        for (digest, is_manifest) in manifests.chain(blobs) {
            let is_here = match seen.get(&digest) {
                Some(known) => *known,
                None => {
                    let held = holdings.blob(&digest)?.is_some();
                    seen.insert(digest, held);
                    if held {
                        found.here.push(digest);
                    }
                    held
                }
            };
            // A blob can be mounted from elsewhere at the target, a manifest cannot.
            if !is_here && (is_manifest || !presence.content(&digest)) {
                lacking.push(MissingContent { image, digest, is_manifest });
            }
        }
    }
    let Some(target) = &plan.target else { return Ok(found) };
    let checked: Vec<(MissingContent, bool)> = stream::iter(lacking)
        .map(|missing| async {
            let destination = plan.images[missing.image].destination.at(&target.registry);
            let there = is_there(client, &destination, &missing).await?;
            Ok::<_, AvailabilityError>((missing, there))
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    for (missing, there) in checked {
        if there {
            let repository = plan.images[missing.image].destination.repository.clone();
            found.there.insert((repository, missing.digest));
        } else {
            found.nowhere.entry(missing.digest).or_default().insert(missing.image);
        }
    }
    Ok(found)
}

async fn is_there(
    client: &Client,
    destination: &ImageRef,
    missing: &MissingContent,
) -> Result<bool, registry::Error> {
    if missing.is_manifest {
        let at = destination.with_pointer(Pointer::Digest(missing.digest));
        return Ok(client.head(&at).await?.is_some());
    }
    client.has_blob(&Location::from(destination), &missing.digest).await
}
