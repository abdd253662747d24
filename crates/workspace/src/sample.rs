//! Small images for the tests of this crate.

use jiff::Timestamp;
use mirror_plan::{BlobRef, ImageRecord, ImageTree, Kind, ManifestNode, Origin};
use oci::{Descriptor, Digest, MediaType};

use crate::BlobStore;
use crate::archive::{ArchiveRequest, ArchiveStatus, Base};

/// Stores an OCI image of one layer and gives its record.
pub(crate) fn image(blobs: &BlobStore, reference: &str, layer: &[u8]) -> ImageRecord {
    image_of(blobs, MediaType::OCI_MANIFEST, reference, layer)
}

pub(crate) fn image_of(
    blobs: &BlobStore,
    media_type: &str,
    reference: &str,
    layer: &[u8],
) -> ImageRecord {
    let node = manifest(blobs, media_type, layer);
    record(reference, vec![node])
}

pub(crate) fn record(reference: &str, manifests: Vec<ManifestNode>) -> ImageRecord {
    ImageRecord {
        origin: Origin::Registry(reference.parse().unwrap()),
        kind: Kind::Additional,
        tree: ImageTree { manifests, left_out: Default::default(), attachments: Vec::new() },
        blobs_held: true,
        attachments_unknown: false,
        names: Default::default(),
    }
}

/// Requests an archive of `images`, in addition to all earlier ones.
pub(crate) fn archive_request(run: u64, images: Vec<ImageRecord>) -> ArchiveRequest {
    ArchiveRequest {
        run,
        created: Timestamp::UNIX_EPOCH,
        status: ArchiveStatus::Complete,
        failed: Vec::new(),
        images,
        files: Default::default(),
        base: Base::Newest,
        limit: 1 << 30,
    }
}

/// Stores config, layer and manifest of an image.
pub(crate) fn manifest(blobs: &BlobStore, media_type: &str, layer: &[u8]) -> ManifestNode {
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","rootfs":{{"type":"layers","diff_ids":["{}"]}}}}"#,
        Digest::of(layer)
    );
    let (config_type, layer_type) = match media_type {
        MediaType::DOCKER_MANIFEST => (
            "application/vnd.docker.container.image.v1+json",
            "application/vnd.docker.image.rootfs.diff.tar.gzip",
        ),
        _ => ("application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar"),
    };
    let stored = |kind: &str, bytes: &[u8]| {
        blobs.put(&Digest::of(bytes), bytes).unwrap();
        Descriptor::new(MediaType::new(kind), Digest::of(bytes), bytes.len() as u64)
    };
    let config = stored(config_type, config.as_bytes());
    let layer = stored(layer_type, layer);
    let text = serde_json::to_vec(&serde_json::json!({
        "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer],
    }))
    .unwrap();
    let whole = stored(media_type, &text);
    let blob = |d: &Descriptor| BlobRef { digest: d.digest, size: d.size };
    ManifestNode {
        media_type: whole.media_type,
        digest: whole.digest,
        size: whole.size,
        platform: None,
        blobs: vec![blob(&config), blob(&layer)],
    }
}

/// Stores an index over `children` and gives its node.
pub(crate) fn index(blobs: &BlobStore, children: &[&ManifestNode]) -> ManifestNode {
    let entry = |n: &&ManifestNode| Descriptor::new(n.media_type.clone(), n.digest, n.size);
    let text = serde_json::to_vec(&serde_json::json!({
        "schemaVersion": 2, "mediaType": MediaType::OCI_INDEX,
        "manifests": children.iter().map(entry).collect::<Vec<_>>(),
    }))
    .unwrap();
    let digest = Digest::of(&text);
    blobs.put(&digest, &text).unwrap();
    ManifestNode {
        media_type: MediaType::new(MediaType::OCI_INDEX),
        digest,
        size: text.len() as u64,
        platform: None,
        blobs: Vec::new(),
    }
}
