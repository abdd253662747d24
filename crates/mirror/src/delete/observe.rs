//! What a repository of the target holds now, as far as a deletion has to know.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use delete_plan::RepositoryState;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use mirror_plan::{Destination, ImageTree, TargetRecord};
use oci::{Digest, ImageRef, MediaType, Pointer, RegistryHost, Repository, Tag};
use registry::{Client, Error, Location};

use crate::error_chain::chain;

/// Requests at a time.
const AT_ONCE: usize = 32;
/// Pages of a thousand tags. More than that is not read, and then nothing is deleted.
const TAG_PAGES: NonZeroUsize = NonZeroUsize::new(1000).unwrap();
/// How deep indexes may list indexes.
const MAX_DEPTH: usize = 4;

/// Reads the state of `repository`: one request per tag, and one per index that the record does not
/// know.
pub(crate) async fn observe(
    client: &Client,
    registry: &RegistryHost,
    repository: &Repository,
    requested: &BTreeMap<Tag, Option<Digest>>,
    record: &TargetRecord,
) -> Result<RepositoryState, String> {
    let at = Location { registry: registry.clone(), repository: repository.clone() };
    let text = |error: &Error| chain(error);
    let listed = client.tags(&at, TAG_PAGES).await.map_err(|e| text(&e))?;
    if !listed.complete {
        return Err(format!("{at} has too many tags to find out which manifests are in use"));
    }
    let name = |pointer: Pointer| {
        let (registry, repository) = (registry.clone(), repository.clone());
        ImageRef { registry, repository, tag: None, digest: None }.with_pointer(pointer)
    };
    let name = &name;
    let heads: Vec<(Tag, Option<registry::Found>)> = stream::iter(listed.tags)
        .map(|tag| async move {
            let found = client.head(&name(Pointer::Tag(tag.clone()))).await?;
            Ok::<_, Error>((tag, found))
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
        .map_err(|e| text(&e))?;
    let mut state = RepositoryState::default();
    let known = known_trees(record);
    let mut open: BTreeSet<Digest> = BTreeSet::new();
    for (tag, found) in heads {
        // One that was deleted meanwhile is gone.
        let Some(found) = found else { continue };
        state.tags.insert(tag, found.digest);
        match known.get(&found.digest) {
            Some(tree) => add_tree(&mut state, tree),
            // Without a type it may be an index.
            None if found.media_type.as_ref().is_none_or(MediaType::is_index) => {
                open.insert(found.digest);
            }
            None => {}
        }
    }
    let mut unknown: BTreeSet<Digest> = BTreeSet::new();
    for (tag, expected) in requested {
        let place = Destination { repository: repository.clone(), tag: tag.clone() };
        let now = state.tags.get(tag).copied();
        match record.tree(&place) {
            // Also for what is gone: an interrupted deletion may have left its parts.
            Some(tree) if now.is_none_or(|now| now == tree.root().digest) => {
                add_tree(&mut state, tree);
            }
            _ => unknown.extend(now.or(*expected)),
        }
    }
    for _ in 0..MAX_DEPTH {
        let next = std::mem::take(&mut open);
        if next.is_empty() {
            break;
        }
        for digest in next {
            let raw =
                client.manifest(&name(Pointer::Digest(digest))).await.map_err(|e| text(&e))?;
            let Some(raw) = raw else { continue };
            let parsed = raw
                .parse()
                .map_err(|error| format!("{}: {}", name(Pointer::Digest(digest)), chain(&error)))?;
            let children = parsed.children();
            let nested = children.iter().filter(|child| child.media_type.is_index());
            open.extend(nested.map(|child| child.digest));
            let below: BTreeSet<Digest> = children.iter().map(|child| child.digest).collect();
            state.children.insert(digest, below);
        }
    }
    if !open.is_empty() {
        return Err(format!("{at} has indexes that list indexes more than {MAX_DEPTH} deep"));
    }
    // What is attached to images that this workspace did not push is asked for.
    let with_children: BTreeSet<Digest> = unknown
        .iter()
        .flat_map(|digest| state.children.get(digest).into_iter().flatten())
        .chain(&unknown)
        .copied()
        .collect();
    for subject in with_children {
        let referrers = client.referrers(&at, &subject).await.map_err(|e| text(&e))?;
        for referrer in referrers.into_iter().flatten() {
            state.referrers.entry(subject).or_default().insert(referrer.digest);
        }
    }
    Ok(state)
}

fn known_trees(record: &TargetRecord) -> BTreeMap<Digest, &ImageTree> {
    record.trees.values().map(|tree| (tree.root().digest, tree)).collect()
}

/// Adds what an image consists of, and what is attached to it without a tag.
fn add_tree(state: &mut RepositoryState, tree: &ImageTree) {
    let below = |manifests: &[mirror_plan::ManifestNode]| -> BTreeSet<Digest> {
        manifests.iter().skip(1).map(|node| node.digest).collect()
    };
    let mut children = below(&tree.manifests);
    children.extend(&tree.left_out);
    if !children.is_empty() {
        state.children.entry(tree.root().digest).or_default().extend(children);
    }
    for attachment in &tree.attachments {
        let Some(root) = attachment.manifests.first() else { continue };
        let children = below(&attachment.manifests);
        if !children.is_empty() {
            state.children.entry(root.digest).or_default().extend(children);
        }
        if attachment.tag.is_none() {
            state.referrers.entry(attachment.subject).or_default().insert(root.digest);
        }
    }
}
