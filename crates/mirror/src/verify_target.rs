//! Reads everything below a namespace of a registry and compares it with its digests.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use futures_util::StreamExt;
use futures_util::stream;
use mirror_plan::Target;
use oci::{Digest, Hasher, ImageRef, Pointer, Repository};
use registry::{Blob, Client, Location};

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

/// A blob of one repository, and the first image seen that needs it.
struct NeededBlob {
    at: Location,
    blob: Blob,
    image: String,
}

/// Reads every tag below `target`, every manifest it leads to and every blob of those. `progress`
/// is told how many bytes of how many are done.
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
        let mut known = BTreeSet::new();
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

/// Reads the content of each blob once, and asks for it in the other repositories that need it.
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
                true => check(client, &needed).await.err(),
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
            found.problems.push(TargetProblem { image: needed.image, problem });
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

/// Follows an image from its tag. A child that a list names and that is absent is a problem only
/// for an image that is not a list: lists may leave platforms out.
async fn read_image(
    client: &Client,
    at: &Location,
    image: &ImageRef,
    known: &mut BTreeSet<Digest>,
    found: &mut TargetVerification,
    blobs: &mut BTreeMap<(Digest, Repository), NeededBlob>,
) {
    let name = image.to_string();
    let mut level = vec![(image.clone(), true)];
    for _ in 0..MAX_DEPTH {
        let mut below = Vec::new();
        for (reference, is_root) in level {
            let mut fail = |problem: String| {
                found.problems.push(TargetProblem { image: name.clone(), problem });
            };
            let raw = match client.manifest(&reference).await {
                Ok(Some(raw)) => raw,
                Ok(None) if is_root => {
                    fail("the tag is listed, and its manifest is missing".to_owned());
                    continue;
                }
                Ok(None) => continue,
                Err(error) => {
                    fail(error.chain());
                    continue;
                }
            };
            if !known.insert(raw.digest) {
                continue;
            }
            let manifest = match raw.parse() {
                Ok(manifest) => manifest,
                Err(error) => {
                    fail(format!("manifest {}: {error}", raw.digest));
                    continue;
                }
            };
            found.manifests += 1;
            found.bytes += raw.bytes.len() as u64;
            for blob in manifest.blobs() {
                let blob = Blob { digest: blob.digest, size: blob.size };
                blobs.entry((blob.digest, at.repository.clone())).or_insert_with(|| NeededBlob {
                    at: at.clone(),
                    blob,
                    image: name.clone(),
                });
            }
            let child = |digest| (image.with_pointer(Pointer::Digest(digest)), false);
            below.extend(manifest.children().iter().map(|listed| child(listed.digest)));
        }
        level = below;
    }
}

async fn check(client: &Client, needed: &NeededBlob) -> Result<(), String> {
    let mut stream =
        client.blob(&needed.at, needed.blob, 0).await.map_err(|error| error.chain())?;
    let mut hasher = Hasher::new();
    while let Some(chunk) = stream.chunk().await.map_err(|error| error.chain())? {
        hasher.update(&chunk);
    }
    let got = hasher.finish();
    if got == needed.blob.digest {
        Ok(())
    } else {
        Err(format!("its content has the digest {got}"))
    }
}
