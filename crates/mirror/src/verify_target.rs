//! Reads everything below a namespace of a registry and compares it with its digests.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use mirror_plan::Target;
use oci::{Digest, Hasher, ImageRef, ManifestError, Pointer, Repository};
use registry::{Blob, Client, Location};

use crate::error_chain::chain;

/// Blobs that are read at once.
const AT_ONCE: usize = 8;
/// Lists inside lists, but not without end.
const MAX_DEPTH: usize = 4;
const TAG_PAGES: NonZeroUsize = NonZeroUsize::new(1000).unwrap();

/// What was found at a target.
#[derive(Debug, Default)]
pub struct TargetVerification {
    pub repositories: usize,
    pub tags: usize,
    pub manifests: usize,
    pub blobs: usize,
    pub bytes: u64,
    pub problems: Vec<TargetProblem>,
}

/// Content that cannot be used, and an image that needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetProblem {
    pub image: String,
    pub problem: String,
}

#[derive(Debug, thiserror::Error)]
pub enum VerifyTargetError {
    #[error("{0} does not list its repositories, so there is nothing to start from")]
    NoList(Box<Target>),
    #[error("nothing is below {0}: no repository of the registry is in this namespace")]
    Empty(Box<Target>),
    #[error("listing what {target} holds")]
    List { target: Box<Target>, source: registry::Error },
}

/// A blob of one repository, and the images there that need it.
struct NeededBlob {
    at: Location,
    blob: Blob,
    images: BTreeSet<Arc<str>>,
}

/// The content that manifests of one repository name.
type KnownManifests = BTreeMap<Digest, Named>;

/// What a manifest names.
#[derive(Clone)]
struct Named {
    blobs: Vec<Blob>,
    children: Vec<Digest>,
}

/// Reads every tag below `target`, every manifest it leads to and every blob of those. `progress`
/// is called with the verified bytes and the total.
///
/// # Errors
///
/// A registry that does not list its repositories, or lists none in the namespace. What is wrong
/// with the content is in the result.
pub async fn verify_target(
    client: &Client,
    target: &Target,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<TargetVerification, VerifyTargetError> {
    let listing = |source| VerifyTargetError::List { target: Box::new(target.clone()), source };
    let mut found = TargetVerification::default();
    let mut blobs: BTreeMap<(Digest, Repository), NeededBlob> = BTreeMap::new();
    for repository in repositories(client, target).await? {
        let at = Location::new(target.registry.clone(), repository.clone());
        let tags = client.tags(&at, TAG_PAGES).await.map_err(listing)?;
        found.repositories += 1;
        let mut known = KnownManifests::new();
        for tag in tags.tags {
            found.tags += 1;
            let (registry, repository) = (at.registry.clone(), at.repository.clone());
            let image = ImageRef { registry, repository, tag: Some(tag), digest: None };
            read_image(client, &at, &image, &mut known, &mut found, &mut blobs).await;
        }
    }
    check_blobs(client, blobs, &mut found, progress).await;
    found.problems.sort_by(|a, b| (&a.image, &a.problem).cmp(&(&b.image, &b.problem)));
    Ok(found)
}

/// Reads the content of each blob once, and checks that it exists in the other repositories that
/// need it.
async fn check_blobs(
    client: &Client,
    blobs: BTreeMap<(Digest, Repository), NeededBlob>,
    found: &mut TargetVerification,
    progress: &(dyn Fn(u64, u64) + Sync),
) {
    let mut read = BTreeSet::new();
    let jobs: Vec<(NeededBlob, bool)> = blobs
        .into_values()
        .map(|needed| {
            let is_first = read.insert(needed.blob.digest);
            (needed, is_first)
        })
        .collect();
    let sizes = jobs.iter().filter(|(_, is_first)| *is_first).map(|(needed, _)| needed.blob.size);
    let total = found.bytes + sizes.sum::<u64>();
    found.blobs = read.len();
    let mut checks = stream::iter(jobs)
        .map(|(needed, is_first)| async move {
            let problem = match is_first {
                true => check(client, &needed).await.err().map(|problem| chain(&problem)),
                false => match client.has_blob(&needed.at, &needed.blob.digest).await {
                    Ok(true) => None,
                    Ok(false) => Some(format!("{} does not have it", needed.at)),
                    Err(error) => Some(error.chain()),
                },
            };
            (needed, is_first, problem)
        })
        .buffer_unordered(AT_ONCE);
    while let Some((needed, is_first, problem)) = checks.next().await {
        if is_first {
            found.bytes += needed.blob.size;
            progress(found.bytes, total);
        }
        if let Some(problem) = problem {
            let problem = format!("blob {}: {problem}", needed.blob.digest);
            found.problems.extend(
                needed.images.iter().map(|image| TargetProblem {
                    image: image.to_string(),
                    problem: problem.clone(),
                }),
            );
        }
    }
}

async fn repositories(
    client: &Client,
    target: &Target,
) -> Result<Vec<Repository>, VerifyTargetError> {
    let named = || Box::new(target.clone());
    // Any valid name: the list belongs to the registry.
    let any = target.namespace.clone();
    let any =
        any.or_else(|| "any".parse().ok()).ok_or_else(|| VerifyTargetError::NoList(named()))?;
    let at = Location::new(target.registry.clone(), any);
    let listed = client.repositories(&at).await;
    let listed = listed.map_err(|source| VerifyTargetError::List { target: named(), source })?;
    let mut listed = listed.ok_or_else(|| VerifyTargetError::NoList(named()))?;
    if let Some(namespace) = &target.namespace {
        let below = format!("{namespace}/");
        listed.retain(|name| name == namespace || name.as_str().starts_with(&below));
    }
    if listed.is_empty() { Err(VerifyTargetError::Empty(named())) } else { Ok(listed) }
}

/// Why content at a target cannot be used.
#[derive(Debug, thiserror::Error)]
enum ContentProblem {
    #[error(transparent)]
    Request(#[from] registry::Error),
    #[error("manifest {digest}")]
    Manifest { digest: Digest, source: ManifestError },
    #[error("its content has the digest {0}")]
    Digest(Digest),
}

/// Follows an image from its tag. Lists may leave platforms out, so a child that is absent is a
/// problem only if no child of the list is there.
async fn read_image(
    client: &Client,
    at: &Location,
    image: &ImageRef,
    known: &mut KnownManifests,
    found: &mut TargetVerification,
    blobs: &mut BTreeMap<(Digest, Repository), NeededBlob>,
) {
    let name: Arc<str> = image.to_string().into();
    let fail = |found: &mut TargetVerification, problem: String| {
        found.problems.push(TargetProblem { image: name.to_string(), problem });
    };
    let root = match read_manifest(client, image, known, found).await {
        Ok(Some(root)) => root,
        Ok(None) => {
            return fail(found, "the tag is listed, and its manifest is missing".to_owned());
        }
        Err(problem) => return fail(found, chain(&problem)),
    };
    let mut level = vec![root];
    for _ in 0..MAX_DEPTH {
        let mut below = Vec::new();
        for manifest in level {
            for blob in manifest.blobs {
                let needed = blobs.entry((blob.digest, at.repository.clone()));
                let needed = needed.or_insert_with(|| NeededBlob {
                    at: at.clone(),
                    blob,
                    images: BTreeSet::new(),
                });
                needed.images.insert(Arc::clone(&name));
            }
            let (mut absent, listed) = (0, manifest.children.len());
            for digest in manifest.children {
                if let Some(child) = known.get(&digest) {
                    below.push(child.clone());
                    continue;
                }
                let child = image.with_pointer(Pointer::Digest(digest));
                match read_manifest(client, &child, known, found).await {
                    Ok(Some(child)) => below.push(child),
                    Ok(None) => absent += 1,
                    Err(problem) => fail(found, chain(&problem)),
                }
            }
            if listed > 0 && absent == listed {
                fail(found, format!("none of the {listed} images of its list is there"));
            }
        }
        level = below;
    }
}

/// Reads a manifest and what it names. `None`: the registry does not have it.
async fn read_manifest(
    client: &Client,
    image: &ImageRef,
    known: &mut KnownManifests,
    found: &mut TargetVerification,
) -> Result<Option<Named>, ContentProblem> {
    let Some(raw) = client.manifest(image).await? else { return Ok(None) };
    if let Some(named) = known.get(&raw.digest) {
        return Ok(Some(named.clone()));
    }
    let digest = raw.digest;
    let manifest = raw.parse().map_err(|source| ContentProblem::Manifest { digest, source })?;
    found.manifests += 1;
    found.bytes += raw.bytes.len() as u64;
    let blobs =
        manifest.blobs().into_iter().map(|blob| Blob { digest: blob.digest, size: blob.size });
    let named = Named {
        blobs: blobs.collect(),
        children: manifest.children().iter().map(|listed| listed.digest).collect(),
    };
    known.insert(raw.digest, named.clone());
    Ok(Some(named))
}

async fn check(client: &Client, needed: &NeededBlob) -> Result<(), ContentProblem> {
    let mut stream = client.blob(&needed.at, needed.blob, 0).await?;
    let mut hasher = Hasher::new();
    while let Some(chunk) = stream.chunk().await? {
        hasher.update(&chunk);
    }
    let found = hasher.finish();
    if found == needed.blob.digest { Ok(()) } else { Err(ContentProblem::Digest(found)) }
}
