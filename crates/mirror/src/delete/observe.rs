//! What a repository of the target holds now, as far as a deletion has to know.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use delete_plan::RepositoryState;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use mirror_plan::{Destination, ImageTree, TargetRecord};
use oci::{Digest, ImageRef, ManifestError, MediaType, Pointer, RegistryHost, Repository, Tag};
use registry::{Client, Error, Location};

/// Requests at a time.
const AT_ONCE: usize = 32;
/// Pages of a thousand tags. More than that is not read, and then nothing is deleted.
pub(crate) const TAG_PAGES: NonZeroUsize = NonZeroUsize::new(1000).unwrap();
/// How deep indexes may list indexes.
const MAX_DEPTH: usize = 4;

/// Why it is not known what a repository holds.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObserveError {
    #[error(transparent)]
    Request(#[from] registry::Error),
    #[error("{0} has too many tags to find out which manifests are in use")]
    ManyTags(Location),
    #[error("{image}")]
    Manifest { image: Box<ImageRef>, source: ManifestError },
    #[error("it has indexes that list indexes more than {MAX_DEPTH} deep")]
    Depth,
}

/// When the tags are compared that only lose their name, because others use the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// With all others.
    Now,
    /// Right before each is deleted. This saves a request per tag.
    BeforeDeletion,
}

/// What a repository holds.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) state: RepositoryState,
    /// Tags that are taken to name the expected manifest, and must be compared before they or
    /// their manifests are deleted.
    pub(crate) assumed: BTreeSet<Tag>,
}

/// Reads the state of `repository`: at most one request per tag, one per index that the record does
/// not have, and one per manifest that may be deleted if the registry has the API of referrers.
pub(crate) async fn observe(
    client: &Client,
    registry: &RegistryHost,
    repository: &Repository,
    requested: &BTreeMap<Tag, Option<Digest>>,
    record: &TargetRecord,
    comparison: Comparison,
) -> Result<Observed, ObserveError> {
    let at = Location { registry: registry.clone(), repository: repository.clone() };
    let listed = client.tags(&at, TAG_PAGES).await?;
    if !listed.complete {
        return Err(ObserveError::ManyTags(at));
    }
    let name = |pointer: Pointer| {
        let (registry, repository) = (registry.clone(), repository.clone());
        ImageRef { registry, repository, tag: None, digest: None }.with_pointer(pointer)
    };
    let name = &name;
    let heads = async |tags: Vec<Tag>| {
        let found: Vec<(Tag, Option<registry::Found>)> = stream::iter(tags)
            .map(|tag| async move {
                let found = client.head(&name(Pointer::Tag(tag.clone()))).await?;
                Ok::<_, Error>((tag, found))
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        Ok::<_, Error>(found)
    };
    let mut observation = Observation {
        state: RepositoryState::default(),
        known: record.trees.values().map(|tree| (tree.root().digest, tree)).collect(),
        open: BTreeSet::new(),
    };
    let may_wait = |tag: &Tag| match comparison {
        Comparison::Now => None,
        Comparison::BeforeDeletion => requested.get(tag).copied().flatten(),
    };
    let (later, now): (Vec<Tag>, Vec<Tag>) =
        listed.tags.into_iter().partition(|tag| may_wait(tag).is_some());
    observation.add_tags(heads(now).await?);
    observation.read_indexes(client, name).await?;
    let used = observation.state.used_by_others(requested);
    let (assumed, now): (Vec<Tag>, Vec<Tag>) =
        later.into_iter().partition(|tag| may_wait(tag).is_some_and(|d| used.contains(&d)));
    observation.add_tags(heads(now).await?);
    for tag in &assumed {
        observation.state.tags.extend(may_wait(tag).map(|digest| (tag.clone(), digest)));
    }
    observation.read_indexes(client, name).await?;
    let mut state = observation.state;
    let mut subjects: BTreeSet<Digest> = BTreeSet::new();
    for (tag, expected) in requested {
        let place = Destination { repository: repository.clone(), tag: tag.clone() };
        let now = state.tags.get(tag).copied();
        match record.tree(&place) {
            // Also for what no longer exists: an interrupted deletion may have left its parts.
            Some(tree) if now.is_none_or(|now| now == tree.root().digest) => {
                add_tree(&mut state, tree);
                subjects.extend(now);
            }
            _ => subjects.extend(now.or(*expected)),
        }
    }
    // Others may have attached signatures at the target. What stays keeps its attachments.
    subjects.retain(|digest| !used.contains(digest));
    let below: BTreeSet<Digest> = subjects
        .iter()
        .flat_map(|digest| state.children.get(digest).into_iter().flatten())
        .chain(&subjects)
        .copied()
        .collect();
    // The first request finds out whether the registry has this API at all.
    let mut below = below.into_iter();
    let mut found = Vec::new();
    if let Some(first) = below.next() {
        found.push(referrers(client, &at, first).await?);
        let others = stream::iter(below).map(|subject| referrers(client, &at, subject));
        let others: Vec<_> = others.buffer_unordered(AT_ONCE).try_collect().await?;
        found.extend(others);
    }
    for (subject, referrers) in found.into_iter().filter(|(_, list)| !list.is_empty()) {
        state.referrers.entry(subject).or_default().extend(referrers);
    }
    Ok(Observed { state, assumed: assumed.into_iter().collect() })
}

/// The referrers of a manifest, none where the registry lacks the API. Lists of referrers under
/// fallback tags are among the tags.
async fn referrers(
    client: &Client,
    at: &Location,
    subject: Digest,
) -> Result<(Digest, BTreeSet<Digest>), ObserveError> {
    let listed = client.referrers(at, &subject).await?;
    Ok((subject, listed.into_iter().flatten().map(|referrer| referrer.digest).collect()))
}

/// An observation in progress.
struct Observation<'a> {
    state: RepositoryState,
    /// The images on record, by the digests of their roots.
    known: BTreeMap<Digest, &'a ImageTree>,
    /// Indexes that were not read yet.
    open: BTreeSet<Digest>,
}

impl Observation<'_> {
    fn add_tags(&mut self, heads: Vec<(Tag, Option<registry::Found>)>) {
        for (tag, found) in heads {
            // One that was deleted meanwhile is absent.
            let Some(found) = found else { continue };
            self.state.tags.insert(tag, found.digest);
            match self.known.get(&found.digest) {
                Some(tree) => add_tree(&mut self.state, tree),
                // Without a type it may be an index.
                None if found.media_type.as_ref().is_none_or(MediaType::is_index) => {
                    self.open.insert(found.digest);
                }
                None => {}
            }
        }
    }

    /// Reads which manifests indexes list that are not on record.
    async fn read_indexes(
        &mut self,
        client: &Client,
        name: &impl Fn(Pointer) -> ImageRef,
    ) -> Result<(), ObserveError> {
        for _ in 0..MAX_DEPTH {
            for digest in std::mem::take(&mut self.open) {
                let image = name(Pointer::Digest(digest));
                let Some(raw) = client.manifest(&image).await? else {
                    continue;
                };
                let parsed = raw.parse();
                let parsed = parsed.map_err(|source| {
                    let image = Box::new(image);
                    ObserveError::Manifest { image, source }
                })?;
                let children = parsed.children();
                let nested = children.iter().filter(|child| child.media_type.is_index());
                self.open.extend(nested.map(|child| child.digest));
                let below: BTreeSet<Digest> = children.iter().map(|child| child.digest).collect();
                self.state.children.insert(digest, below);
            }
            if self.open.is_empty() {
                return Ok(());
            }
        }
        Err(ObserveError::Depth)
    }
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
