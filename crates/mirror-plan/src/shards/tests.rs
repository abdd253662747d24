use std::collections::{BTreeMap, BTreeSet};

use oci::MediaType;
use proptest::prelude::*;

use super::*;
use crate::{
    BlobRef, Destination, Direction, Found, Held, ImageTree, Kind, ManifestNode, Mode, Nothing,
    SealError, Wanted, plan,
};

/// A target with these images.
struct Contents(BTreeMap<Destination, ImageTree>);

impl Held for Contents {
    fn image(&self, _: &Origin, destination: &Destination) -> Option<Digest> {
        self.0.get(destination).map(|tree| tree.root().digest)
    }

    fn content(&self, digest: &Digest) -> bool {
        self.0.values().any(|tree| tree.blobs().contains_key(digest))
    }
}

fn found(repository: u8, tag: u8, blobs: &[(u16, u64)]) -> Found {
    let origin = format!("quay.io/org/r{repository}:t{tag}").parse().unwrap();
    let wanted = Wanted {
        kind: Kind::Additional,
        origin: Origin::Registry(origin),
        target_repository: None,
        target_tag: None,
        platforms: vec![],
    };
    let blob = |(name, size): &(u16, u64)| BlobRef {
        digest: Digest::of(&name.to_be_bytes()),
        size: *size,
    };
    let manifest = ManifestNode {
        media_type: MediaType::new(MediaType::OCI_MANIFEST),
        digest: Digest::of(format!("{repository} {tag} {blobs:?}").as_bytes()),
        size: 500,
        platform: None,
        blobs: blobs.iter().map(blob).collect(),
    };
    let tree =
        ImageTree { manifests: vec![manifest], left_out: BTreeSet::new(), attachments: vec![] };
    Found { destination: Destination::of(&wanted).unwrap(), wanted, tree }
}

fn direction() -> Direction {
    let target = Some("registry.example:5000/ocp".parse().unwrap());
    Direction { mode: Mode::MirrorToMirror, target }
}

fn source(origin: &Origin) -> ContentSource {
    match origin {
        Origin::Registry(image) => ContentSource::Registry {
            registry: image.registry.clone(),
            repository: image.repository.clone(),
        },
        _ => ContentSource::Built { base: None },
    }
}

fn run() -> RunIdentity {
    RunIdentity { plan: Digest::of(b"plan"), program: "oc-mirror 1".to_owned() }
}

fn parts(plan: &Plan, shards: u32) -> Vec<ShardPart> {
    let split = split(plan, NonZeroU32::new(shards).unwrap(), |_, _| true);
    (0..shards).map(|shard| split.part(plan, shard, run(), source, |_| true)).collect()
}

/// Images of few repositories that share many blobs, some of them large. One name has one size,
/// except for one that manifests disagree on.
fn images() -> impl Strategy<Value = Vec<Found>> {
    let size = |name: u16| if name.is_multiple_of(17) { 40 << 20 } else { u64::from(name) * 1000 };
    let blob = (0..300_u16, any::<bool>())
        .prop_map(move |(name, lies)| (name, if name == 5 && lies { 7 } else { size(name) }));
    let image = (0..12_u8, 0..20_u8, prop::collection::vec(blob, 1..15));
    prop::collection::vec(image, 1..60).prop_map(|images| {
        let unique: BTreeMap<(u8, u8), Vec<(u16, u64)>> =
            images.into_iter().map(|(repository, tag, blobs)| ((repository, tag), blobs)).collect();
        unique.into_iter().map(|((r, t), blobs)| found(r, t, &blobs)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_blob_has_exactly_one_owner_who_brings_it_wherever_it_is_needed(
        images in images(), held in 0..10_usize, shards in 1..9_u32,
    ) {
        let shelf = images.iter().take(held).map(|f| (f.destination.clone(), f.tree.clone()));
        let shelf = Contents(shelf.collect());
        let plan = plan(direction(), images, &shelf);
        let parts = parts(&plan, shards);
        let mut owner: BTreeMap<Digest, u32> = BTreeMap::new();
        let mut brought = BTreeSet::new();
        for part in &parts {
            for blob in &part.blobs {
                let before = owner.insert(blob.blob.digest, part.shard);
                prop_assert!(before.is_none_or(|before| before == part.shard));
            }
            for need in &part.needs {
                let to = &part.repositories[need.repository as usize].name;
                for blob in &need.blobs {
                    brought.insert((to.clone(), part.blobs[*blob as usize].blob));
                }
            }
        }
        let mut present = BTreeSet::new();
        for image in plan.images.iter().filter(|image| image.action == Action::Present) {
            let blobs = plan.tree(image).blobs();
            present.extend(blobs.into_keys().map(|d| (image.destination.repository.clone(), d)));
        }
        let mut needed = BTreeSet::new();
        for image in plan.copies() {
            for manifest in &plan.tree(image).manifests {
                for blob in &manifest.blobs {
                    let to = image.destination.repository.clone();
                    if !present.contains(&(to.clone(), blob.digest)) {
                        needed.insert((to, *blob));
                    }
                }
            }
        }
        prop_assert_eq!(brought, needed);
    }

    #[test]
    fn no_shard_has_much_more_than_its_share(images in images(), shards in 1..9_u32) {
        let plan = plan(direction(), images, &Nothing);
        let split = split(&plan, NonZeroU32::new(shards).unwrap(), |_, _| true);
        let weight = |load: &Load| load.bytes + load.blobs as u64 * REQUESTS;
        let total: u64 = split.loads().iter().map(weight).sum();
        let share = total / u64::from(shards);
        let largest = plan.blobs.iter().map(|blob| blob.blob.size + REQUESTS).max().unwrap();
        for load in split.loads() {
            prop_assert!(weight(load) <= share + largest.max(share / PIECES_PER_SHARD), "{:?}", split.loads());
        }
    }

    #[test]
    fn the_order_in_which_images_are_found_does_not_matter(images in images(), shards in 1..5_u32) {
        let turned: Vec<Found> = images.iter().rev().cloned().collect();
        let one = parts(&plan(direction(), images, &Nothing), shards);
        prop_assert_eq!(one, parts(&plan(direction(), turned, &Nothing), shards));
    }
}

#[test]
fn small_repositories_stay_with_one_shard() {
    // 40 repositories of equal size, 4 shards: none has to be divided.
    let images = (0..40_u8).map(|repository| {
        let names = (0..5_u16).map(|layer| (u16::from(repository) * 10 + layer, 1 << 20));
        found(repository, 0, &names.collect::<Vec<_>>())
    });
    let parts = parts(&plan(direction(), images, &Nothing), 4);
    for part in &parts {
        assert_eq!((part.repositories.len(), part.blobs.len()), (10, 50));
    }
}

#[test]
fn a_repository_larger_than_a_share_is_divided() {
    let blobs: Vec<_> = (0..100_u16).map(|layer| (layer, 1 << 20)).collect();
    let plan = plan(direction(), [found(0, 0, &blobs)], &Nothing);
    let split = split(&plan, NonZeroU32::new(4).unwrap(), |_, _| true);
    let blobs: Vec<usize> = split.loads().iter().map(|load| load.blobs).collect();
    assert!(blobs.iter().all(|blobs| (23..=27).contains(blobs)), "{blobs:?}");
}

#[test]
fn images_that_do_not_take_part_are_left_out() {
    let images = [found(0, 0, &[(1, 10), (2, 10)]), found(1, 0, &[(2, 10), (3, 10)])];
    let plan = plan(direction(), images, &Nothing);
    let split = split(&plan, NonZeroU32::MIN, |at, _| at == 0);
    let part = split.part(&plan, 0, run(), source, |_| false);
    assert_eq!((split.images(), part.blobs.len(), part.bytes()), (&[0][..], 2, 20));
}

#[test]
fn a_part_is_read_as_it_was_written_and_changes_are_noticed() {
    let images = [found(0, 0, &[(1, 10), (2, 10)]), found(1, 0, &[(2, 10), (3, 10)])];
    let [part] = parts(&plan(direction(), images, &Nothing), 1).try_into().unwrap();
    let text = part.to_text().unwrap();
    assert_eq!(ShardPart::from_text(&text).unwrap(), part);
    let edited = text.replace("\"size\": 10", "\"size\": 11");
    assert!(matches!(
        ShardPart::from_text(&edited),
        Err(PartError::Seal(SealError::Edited { .. }))
    ));
    let mut stray = part;
    stray.needs[0].blobs.push(3);
    let error = ShardPart::from_text(&stray.to_text().unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the part of the shard is damaged: a need refers to a blob that it does not list"
    );
}

#[test]
fn archives_of_a_part_have_plain_names_and_ranges_in_order() {
    let archive = |file: &str, ranges: &[(u64, u64)]| {
        let [mut part] =
            parts(&plan(direction(), [found(0, 0, &[(1, 10)])], &Nothing), 1).try_into().unwrap();
        part.archives = vec![PartArchive {
            file: file.to_owned(),
            length: 100,
            start: None,
            ranges: ranges.to_vec(),
        }];
        ShardPart::from_text(&part.to_text().unwrap())
    };
    let read = archive("mirror_000001.tar", &[(0, 10), (20, 100)]).unwrap();
    assert_eq!(read.archives[0].bytes(), 90);
    for (file, ranges) in [
        ("../mirror_000001.tar", &[(0, 10)][..]),
        (".mirror_000001.tar", &[(0, 10)]),
        ("mirror_000001.tar", &[(10, 10)]),
        ("mirror_000001.tar", &[(0, 101)]),
        ("mirror_000001.tar", &[(20, 30), (0, 10)]),
        ("mirror_000001.tar", &[(0, 10), (10, 20)]),
    ] {
        let refused = archive(file, ranges);
        assert!(matches!(refused, Err(PartError::Archive { .. })), "{file} {ranges:?}");
    }
}

#[test]
fn a_part_of_another_run_shard_or_version_is_rejected() {
    let [part] =
        parts(&plan(direction(), [found(0, 0, &[(1, 10)])], &Nothing), 1).try_into().unwrap();
    part.check(&run(), 0).unwrap();
    let newer = RunIdentity { program: "oc-mirror 2".to_owned(), ..run() };
    assert_eq!(
        part.check(&newer, 0).unwrap_err().to_string(),
        "the plan was made by oc-mirror 1, and this is oc-mirror 2: all shards of a run must have the same version"
    );
    let other = RunIdentity { plan: Digest::of(b"other"), ..run() };
    assert!(matches!(part.check(&other, 0), Err(PartError::Other { .. })));
    assert!(matches!(part.check(&run(), 1), Err(PartError::Other { .. })));
}
