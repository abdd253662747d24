//! How much memory a large plan takes.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::collections::BTreeSet;

use mirror_plan::{
    BlobRef, Destination, Direction, Found, ImageTree, Kind, ManifestNode, Mode, Nothing, Origin,
    Wanted, plan,
};
use oci::{Digest, MediaType};

const IMAGES: u64 = 6000;
const BLOBS: u64 = 20;
/// Of each image; the others are layers it shares with many.
const OWN_BLOBS: u64 = 5;

fn blob(name: &str) -> BlobRef {
    BlobRef { digest: Digest::of(name.as_bytes()), size: 1 << 20 }
}

fn found(number: u64) -> Found {
    let wanted = Wanted {
        kind: Kind::Additional,
        origin: Origin::Registry(
            format!("quay.io/organisation/image-number-{number}:v1.2.3").parse().unwrap(),
        ),
        target_repository: None,
        target_tag: None,
        platforms: vec![],
    };
    let own = (0..OWN_BLOBS).map(|layer| blob(&format!("own {number} {layer}")));
    let base = (OWN_BLOBS..BLOBS).map(|layer| blob(&format!("base {} {layer}", number % 40)));
    let manifest = ManifestNode {
        media_type: MediaType::new(MediaType::OCI_MANIFEST),
        digest: Digest::of(&number.to_be_bytes()),
        size: 2000,
        platform: None,
        blobs: base.chain(own).collect(),
    };
    let tree =
        ImageTree { manifests: vec![manifest], left_out: BTreeSet::new(), attachments: vec![] };
    Found { destination: Destination::of(&wanted).unwrap(), wanted, tree }
}

/// The largest resident size so far, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn six_thousand_images_of_twenty_blobs_are_planned_in_a_few_megabytes() {
    let before = peak();
    let direction = Direction { mode: Mode::MirrorToDisk, target: None };
    let plan = plan(direction, (0..IMAGES).map(found), &Nothing);
    let grown = peak() - before;
    assert_eq!(plan.totals.images, 6000);
    assert_eq!(plan.totals.blobs, 6000 * 5 + 40 * 15);
    assert!(grown < 10 * 1024, "planning took {grown} KiB");
}
