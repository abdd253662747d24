//! Divides the blobs of a plan among shards: processes or pods that transfer content at the same
//! time.
//!
//! ```text
//! plan ──split──▶ owner of each blob ──part──▶ one document per shard
//! ```
//!
//! Every unique blob has exactly one owner, so no byte is transferred twice and shards need no
//! locks. The result depends on the plan and the number of shards only.

mod part;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::num::NonZeroU32;

use oci::{Digest, Repository};

use crate::{Action, Origin, Plan, PlannedImage};

pub use part::{
    ContentSource, PartArchive, PartBlob, PartError, PartNeed, PartRepository, PartSegment,
    RunIdentity, ShardPart,
};

/// What one blob costs besides its bytes, in bytes: requests to both registries.
const REQUESTS: u64 = 64 << 10;

/// Blobs of one repository are kept together in pieces of at most this part of a shard, so that the
/// pieces can be balanced.
const PIECES_PER_SHARD: u64 = 8;

/// Which shard transfers which blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Owner by place in the plan's table; `None` where nothing is to be transferred.
    owners: Vec<Option<u32>>,
    loads: Vec<Load>,
    /// The images that take part, by place in the plan.
    images: Vec<usize>,
}

/// What one shard transfers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub blobs: usize,
    /// Bytes that the target does not have yet.
    pub bytes: u64,
}

/// Blobs that get the same owner.
#[derive(Debug)]
struct Unit {
    weight: u64,
    blobs: Vec<usize>,
}

/// Assigns each blob of the images that take part to one of `shards`. Blobs are packed by size, the
/// largest first, and those of one repository stay together where the balance allows it.
///
/// # Guarantees
/// No shard has more than an equal part of the whole plus the larger of an eighth of that part and
/// the largest blob, counted in bytes and 64 KiB per blob.
pub fn split(
    plan: &Plan,
    shards: NonZeroU32,
    takes_part: impl Fn(usize, &PlannedImage) -> bool,
) -> Split {
    let images = plan.images.iter().enumerate();
    let images =
        images.filter(|(at, image)| image.action == Action::Copy && takes_part(*at, image));
    let images: Vec<usize> = images.map(|(at, _)| at).collect();
    let first = first_of_digest(plan);
    let present = Present::of(plan);
    // The first repository that needs a blob is the one it is grouped by.
    let mut groups: BTreeMap<&Repository, Vec<usize>> = BTreeMap::new();
    let mut is_needed = vec![false; plan.blobs.len()];
    for image in images.iter().map(|at| &plan.images[*at]) {
        let repository = &image.destination.repository;
        for index in image.tree.blob_indexes() {
            let blob = first[index.get()];
            if !is_needed[blob] && !present.has(repository, &plan.blobs[blob].blob.digest) {
                is_needed[blob] = true;
                groups.entry(repository).or_default().push(blob);
            }
        }
    }
    let weights = weights(plan, &first);
    let total =
        groups.values().flatten().fold(0, |sum: u64, blob| sum.saturating_add(weights[*blob]));
    let most = total / u64::from(shards.get()) / PIECES_PER_SHARD;
    let mut units: Vec<Unit> =
        groups.into_values().flat_map(|blobs| units(blobs, &weights, most)).collect();
    // Groups are in the order of repositories, and sorting is stable: the result is the same each
    // time.
    units.sort_by_key(|unit| Reverse(unit.weight));
    let mut least: BinaryHeap<Reverse<(u64, u32)>> =
        (0..shards.get()).map(|shard| Reverse((0, shard))).collect();
    let mut owners = vec![None; plan.blobs.len()];
    let mut loads = vec![Load::default(); shards.get() as usize];
    for unit in units {
        let Some(Reverse((weight, shard))) = least.pop() else { break };
        let load = &mut loads[shard as usize];
        for blob in unit.blobs {
            owners[blob] = Some(shard);
            load.blobs += 1;
            load.bytes = load.bytes.saturating_add(weights[blob] - REQUESTS);
        }
        least.push(Reverse((weight.saturating_add(unit.weight), shard)));
    }
    for (at, first) in first.iter().enumerate() {
        owners[at] = owners[*first];
    }
    Split { owners, loads, images }
}

/// For each blob of the table, the first with its digest: manifests that disagree on a size concern
/// the same content, which has one owner.
fn first_of_digest(plan: &Plan) -> Vec<usize> {
    let mut first = Vec::with_capacity(plan.blobs.len());
    for (at, blob) in plan.blobs.iter().enumerate() {
        // The table is in the order of digests.
        let known =
            at.checked_sub(1).filter(|last| plan.blobs[*last].blob.digest == blob.blob.digest);
        first.push(known.map_or(at, |last| first[last]));
    }
    first
}

/// What it costs to transfer each blob. One that the target has elsewhere is mounted.
fn weights(plan: &Plan, first: &[usize]) -> Vec<u64> {
    let mut weights = vec![REQUESTS; plan.blobs.len()];
    for (blob, first) in plan.blobs.iter().zip(first).filter(|(blob, _)| !blob.held) {
        weights[*first] = weights[*first].max(blob.blob.size.saturating_add(REQUESTS));
    }
    weights
}

/// Divides the blobs of a repository into units of at most `most`, except for single blobs that are
/// larger.
fn units(mut blobs: Vec<usize>, weights: &[u64], most: u64) -> Vec<Unit> {
    blobs.sort_unstable_by_key(|blob| (Reverse(weights[*blob]), *blob));
    let mut units: Vec<Unit> = Vec::new();
    for blob in blobs {
        let weight = weights[blob];
        match units.last_mut() {
            Some(unit) if unit.weight.saturating_add(weight) <= most => {
                unit.weight += weight;
                unit.blobs.push(blob);
            }
            _ => units.push(Unit { weight, blobs: vec![blob] }),
        }
    }
    units
}

/// The blobs of images that are at the target already.
#[derive(Debug, Default)]
struct Present<'a> {
    blobs: HashSet<(&'a Repository, Digest)>,
    /// A repository that has the blob.
    holder: HashMap<Digest, &'a Repository>,
}

impl<'a> Present<'a> {
    fn of(plan: &'a Plan) -> Self {
        let mut present = Self::default();
        for image in plan.images.iter().filter(|image| image.action == Action::Present) {
            let repository = &image.destination.repository;
            for index in image.tree.blob_indexes() {
                let digest = plan.blobs[index.get()].blob.digest;
                present.blobs.insert((repository, digest));
                present.holder.entry(digest).or_insert(repository);
            }
        }
        present
    }

    fn has(&self, repository: &'a Repository, digest: &Digest) -> bool {
        self.blobs.contains(&(repository, *digest))
    }
}

impl Split {
    pub fn shards(&self) -> u32 {
        // One load per shard, of which there are as many as a u32 counts.
        u32::try_from(self.loads.len()).unwrap_or(u32::MAX)
    }

    /// What each shard transfers.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// The images that take part, by place in the plan.
    pub fn images(&self) -> &[usize] {
        &self.images
    }

    /// What one shard needs to know. `source` determines where the content of an image comes from, and
    /// `is_new` which repositories of the target are known to hold nothing.
    pub fn part(
        &self,
        plan: &Plan,
        shard: u32,
        run: RunIdentity,
        source: impl Fn(&Origin) -> ContentSource,
        is_new: impl Fn(&Repository) -> bool,
    ) -> ShardPart {
        let registry = plan.target.as_ref().map(|target| target.registry.clone());
        let present = Present::of(plan);
        let mut part = ShardPart::new(run, (shard, self.shards()), registry);
        let mut repositories: BTreeMap<&Repository, u32> = BTreeMap::new();
        let mut sources: BTreeMap<ContentSource, u32> = BTreeMap::new();
        let mut blobs: HashMap<usize, u32> = HashMap::new();
        // A second image with the same source and repository adds nothing to a blob.
        let mut known: HashSet<(u32, u32, u32)> = HashSet::new();
        for image in self.images.iter().map(|at| &plan.images[*at]) {
            let to = &image.destination.repository;
            let owned = image.tree.blob_indexes().map(|index| index.get());
            let owned = owned.filter(|blob| {
                self.owners[*blob] == Some(shard)
                    && !present.has(to, &plan.blobs[*blob].blob.digest)
            });
            let owned: Vec<usize> = owned.collect();
            if owned.is_empty() {
                continue;
            }
            let repository = |name, repositories: &mut BTreeMap<_, u32>, part: &mut ShardPart| {
                *repositories.entry(name).or_insert_with(|| part.add_repository(name, is_new(name)))
            };
            let at = repository(to, &mut repositories, &mut part);
            let from = source(&image.origin);
            let from = *sources.entry(from).or_insert_with_key(|source| part.add_source(source));
            let mut need = Vec::new();
            for blob in owned {
                let number = match blobs.get(&blob) {
                    Some(number) => *number,
                    None => {
                        let holder = present.holder.get(&plan.blobs[blob].blob.digest);
                        let holder =
                            holder.map(|name| repository(name, &mut repositories, &mut part));
                        let number = part.add_blob(plan.blobs[blob].blob, holder);
                        blobs.insert(blob, number);
                        number
                    }
                };
                if known.insert((at, from, number)) {
                    need.push(number);
                }
            }
            if !need.is_empty() {
                part.needs.push(PartNeed { repository: at, source: from, blobs: need });
            }
        }
        part
    }
}

#[cfg(test)]
mod tests;
