//! What of the wanted images a target registry holds already.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;

use futures_util::stream::{self, StreamExt};
use mirror_plan::{Destination, Found, Held, ImageEntry, ImageTree, Origin};
use oci::{Digest, ImageRef, Pointer, RegistryHost, Repository};
use registry::{Client, Error, Location};

use crate::record::pushed_log::Pushed;

/// Questions asked of the target at once.
const AT_ONCE: usize = 32;

/// What the target said.
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

/// What the target said of the images, and those it could not be asked about.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) presence: Presence,
    pub(crate) found: Vec<Found>,
    pub(crate) lost: Vec<(Found, Error)>,
}

/// What a target has under names, asked for while it is still being found out
/// what the images consist of.
#[derive(Debug, Default)]
pub(crate) struct Heads(BTreeMap<Destination, Result<Option<Digest>, Error>>);

/// Asks for every name, one question each.
pub(crate) async fn heads(
    client: &Client,
    registry: &RegistryHost,
    names: Vec<Destination>,
) -> Heads {
    let answers = stream::iter(names).map(|name| async move {
        let found = client.head(&name.at(registry)).await;
        (name, found.map(|found| found.map(|found| found.digest)))
    });
    Heads(answers.buffer_unordered(AT_ONCE).collect().await)
}

/// Asks for every image, one question each unless its answer is among `heads`; more only for images this
/// workspace does not remember having brought there, and one for each
/// repository that seems to be new.
///
/// An image that cannot be asked about is lost alone; when none can, the
/// target itself is the trouble, and that is the error.
pub(crate) async fn ask(
    client: &Client,
    registry: &RegistryHost,
    images: Vec<Found>,
    mut heads: Heads,
    pushed: &mut Pushed,
    run: u64,
) -> Result<Asked, Error> {
    let remembered = &*pushed;
    let mut answers = stream::iter(images)
        .map(|image| (heads.0.remove(&image.destination), image))
        .map(|(head, image)| async move {
            let at = image.destination.at(registry);
            let sure = remembered.has(&image.destination, &image.tree);
            let answer = look(client, &at, head, &image.tree, sure).await;
            (image, answer)
        })
        .buffer_unordered(AT_ONCE);
    let mut presence = Presence::default();
    let mut seen: BTreeMap<Repository, bool> = BTreeMap::new();
    let (mut found, mut lost, mut whole) = (Vec::<Found>::new(), Vec::new(), Vec::new());
    while let Some((image, answer)) = answers.next().await {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                lost.push((image, error));
                continue;
            }
        };
        *seen.entry(image.destination.repository.clone()).or_default() |= answer != Answer::Nothing;
        if answer != Answer::Nothing {
            presence.named.insert(image.destination.clone());
        }
        if answer == Answer::Whole {
            presence.whole.insert(image.destination.clone(), image.tree.root().digest);
            presence.contents.extend(image.tree.all_manifests().map(|node| node.digest));
            presence.contents.extend(image.tree.blobs().into_keys());
            whole.push(found.len());
        }
        found.push(image);
    }
    drop(answers);
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
    let silent =
        seen.into_iter().filter(|(_, answered)| !answered).map(|(repository, _)| repository);
    let new: Vec<(Repository, bool)> = stream::iter(silent)
        .map(|repository| async move {
            let at = Location { registry: registry.clone(), repository: repository.clone() };
            // Whoever may not list tags is asked for each blob.
            let is_new =
                client.tags(&at, NonZeroUsize::MIN).await.is_ok_and(|list| list.tags.is_empty());
            (repository, is_new)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    presence.new_repositories = new.into_iter().filter(|(_, new)| *new).map(|(r, _)| r).collect();
    Ok(Asked { presence, found, lost })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Whole,
    /// The repository answers for something of this name, but not the whole image.
    Something,
    Nothing,
}

async fn look(
    client: &Client,
    at: &ImageRef,
    head: Option<Result<Option<Digest>, Error>>,
    tree: &ImageTree,
    sure: bool,
) -> Result<Answer, Error> {
    let head = match head {
        Some(head) => head?,
        None => client.head(at).await?.map(|found| found.digest),
    };
    match head {
        None => return Ok(Answer::Nothing),
        Some(digest) if digest != tree.root().digest => return Ok(Answer::Something),
        Some(_) if sure => return Ok(Answer::Whole),
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
            return Ok(Answer::Something);
        }
    }
    Ok(Answer::Whole)
}
