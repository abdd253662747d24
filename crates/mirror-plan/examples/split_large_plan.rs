//! Measures how long planning and splitting takes for a mirror of 100,000 images, and how much
//! memory.
//!
//! ```text
//! cargo run --release --example split_large_plan -- [IMAGES] [BLOBS] [SHARDS]
//! ```

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on stops")]

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Instant;

use mirror_plan::{
    BlobRef, ContentSource, Destination, Found, ImageTree, Journey, Kind, ManifestNode, Mode,
    Nothing, Origin, RunIdentity, Wanted, plan, split,
};
use oci::{Digest, MediaType};

/// Layers that an image shares with others.
const SHARED: u64 = 6;

fn blob(name: &str, size: u64) -> BlobRef {
    BlobRef { digest: Digest::of(name.as_bytes()), size }
}

fn found(number: u64, own: u64) -> Found {
    let wanted = Wanted {
        kind: Kind::Additional,
        // Five tags of each repository.
        origin: Origin::Registry(
            format!("quay.io/organisation/image-{}:v{}", number / 5, number % 5).parse().unwrap(),
        ),
        target_repository: None,
        target_tag: None,
        platforms: vec![],
    };
    // Sizes from some KiB to 64 MiB, as they are in releases.
    let size = |layer: u64| (number.wrapping_mul(0x9e37_79b9).wrapping_add(layer) % (64 << 20)) + 1;
    let own = (0..own).map(|layer| blob(&format!("own {number} {layer}"), size(layer)));
    let base = (0..SHARED).map(|layer| blob(&format!("base {} {layer}", number % 400), 30 << 20));
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

/// The largest resident size so far, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>().unwrap());
    let images = numbers.next().unwrap_or(100_000);
    let blobs = numbers.next().unwrap_or(1_000_000);
    let shards = u32::try_from(numbers.next().unwrap_or(16)).unwrap();
    let start = Instant::now();
    let target = Some("registry.example/ocp".parse().unwrap());
    let journey = Journey { mode: Mode::MirrorToMirror, target };
    let plan = plan(journey, (0..images).map(|number| found(number, blobs / images)), &Nothing);
    println!(
        "{} images, {} blobs, {} GiB planned: {:.1} s, {} MiB",
        plan.totals.images,
        plan.totals.blobs,
        plan.totals.bytes >> 30,
        start.elapsed().as_secs_f64(),
        peak()
    );
    let split = split(&plan, NonZeroU32::new(shards).unwrap(), |_, _| true);
    let bytes = || split.loads().iter().map(|load| load.bytes);
    println!(
        "split into {shards} shards of {} to {} MiB: {:.1} s, {} MiB",
        bytes().min().unwrap() >> 20,
        bytes().max().unwrap() >> 20,
        start.elapsed().as_secs_f64(),
        peak()
    );
    let run = RunIdentity { plan: Digest::of(b"plan"), program: "oc-mirror".to_owned() };
    let source = |origin: &Origin| match origin {
        Origin::Registry(image) => ContentSource::Registry {
            registry: image.registry.clone(),
            repository: image.repository.clone(),
        },
        _ => ContentSource::Built { base: None },
    };
    let mut written = 0;
    for shard in 0..shards {
        let part = split.part(&plan, shard, run.clone(), source, |_| true).unwrap();
        written += part.to_text().unwrap().len();
    }
    println!(
        "{shards} parts written, {} MiB together: {:.1} s, {} MiB",
        written >> 20,
        start.elapsed().as_secs_f64(),
        peak()
    );
}
