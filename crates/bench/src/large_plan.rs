//! Plans and splits a synthetic mirror of 100,000 images, in a separate process, so that its memory
//! can be measured.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use anyhow::Result;
use mirror_plan::{
    BlobRef, ContentSource, Destination, Direction, Found, ImageTree, Kind, ManifestNode, Mode,
    Nothing, Origin, RunIdentity, Wanted, plan, split,
};
use oci::{Digest, MediaType};
use serde::{Deserialize, Serialize};

/// Layers that an image shares with others.
const SHARED: u64 = 6;

/// How large the plan is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) images: u64,
    pub(crate) blobs: u64,
    pub(crate) shards: NonZeroU32,
}

/// The result.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Split {
    pub(crate) images: usize,
    pub(crate) blobs: usize,
    /// Bytes of the shards with the least and the most to do.
    pub(crate) least: u64,
    pub(crate) most: u64,
    /// Bytes of all parts.
    pub(crate) written: usize,
}

fn blob(name: &str, size: u64) -> BlobRef {
    BlobRef { digest: Digest::of(name.as_bytes()), size }
}

fn found(number: u64, own: u64) -> Result<Found> {
    let wanted = Wanted {
        kind: Kind::Additional,
        // Five tags of each repository.
        origin: Origin::Registry(
            format!("quay.io/organisation/image-{}:v{}", number / 5, number % 5).parse()?,
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
    Ok(Found { destination: Destination::of(&wanted)?, wanted, tree })
}

/// Plans a mirror of that size and writes the part of each shard.
pub(crate) fn split_large_plan(size: Size) -> Result<Split> {
    let target = Some("registry.example/ocp".parse()?);
    let direction = Direction { mode: Mode::MirrorToMirror, target };
    let own = size.blobs / size.images.max(1);
    let mut failure = None;
    // Trees are generated one by one: a plan keeps them in a compact form.
    let images = (0..size.images)
        .map_while(|number| found(number, own).map_err(|error| failure = Some(error)).ok());
    let plan = plan(direction, images, &Nothing);
    if let Some(error) = failure {
        return Err(error);
    }
    let split = split(&plan, size.shards, |_, _| true);
    let bytes = || split.loads().iter().map(|load| load.bytes);
    let run = RunIdentity { plan: Digest::of(b"plan"), program: "oc-mirror".to_owned() };
    let source = |origin: &Origin| match origin {
        Origin::Registry(image) => ContentSource::Registry {
            registry: image.registry.clone(),
            repository: image.repository.clone(),
        },
        _ => ContentSource::Built { base: None },
    };
    let mut written = 0;
    for shard in 0..split.shards() {
        let part = split.part(&plan, shard, run.clone(), source, |_| true);
        written += part.to_text()?.len();
    }
    Ok(Split {
        images: plan.totals.images,
        blobs: plan.totals.blobs,
        least: bytes().min().unwrap_or_default(),
        most: bytes().max().unwrap_or_default(),
        written,
    })
}
