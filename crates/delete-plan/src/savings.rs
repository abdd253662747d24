//! How many bytes a deletion makes reclaimable, according to the record of the target.

use std::collections::{BTreeMap, BTreeSet};

use mirror_plan::{Destination, TargetRecord};
use oci::{Digest, Repository};
use serde::{Deserialize, Serialize};

/// The content of one repository that is on record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryBytes {
    /// Of all images on record, shared content once.
    pub before: u64,
    pub after: u64,
    /// What the registry's garbage collection can free: content that no image on record in any
    /// repository has any more.
    pub reclaimable: u64,
}

/// Sizes of the repositories that lose something and have content on record. Images of which the
/// record does not have the content do not count.
pub fn savings(
    record: &TargetRecord,
    going: &BTreeSet<Destination>,
) -> BTreeMap<Repository, RepositoryBytes> {
    let affected: BTreeSet<&Repository> = going.iter().map(|place| &place.repository).collect();
    let mut left: BTreeSet<Digest> = BTreeSet::new();
    let mut before: BTreeMap<&Repository, BTreeMap<Digest, u64>> = BTreeMap::new();
    let mut after: BTreeMap<&Repository, BTreeMap<Digest, u64>> = BTreeMap::new();
    for (place, image) in &record.images {
        let Some(tree) = record.trees.get(&image.fingerprint) else { continue };
        let content =
            || tree.all_manifests().map(|node| (node.digest, node.size)).chain(tree.blobs());
        let stays = !going.contains(place);
        if stays {
            left.extend(content().map(|(digest, _)| digest));
        }
        if affected.contains(&place.repository) {
            before.entry(&place.repository).or_default().extend(content());
            if stays {
                after.entry(&place.repository).or_default().extend(content());
            }
        }
    }
    let sum = |content: Option<&BTreeMap<Digest, u64>>| content.map_or(0, |c| c.values().sum());
    before
        .iter()
        .map(|(repository, held)| {
            let gone = held.iter().filter(|(digest, _)| !left.contains(*digest));
            let bytes = RepositoryBytes {
                before: sum(Some(held)),
                after: sum(after.get(repository)),
                reclaimable: gone.map(|(_, size)| size).sum(),
            };
            ((*repository).clone(), bytes)
        })
        .collect()
}
