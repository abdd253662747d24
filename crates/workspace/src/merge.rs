//! Joins the records of two runs of one image. Pure.

use std::collections::BTreeSet;

use mirror_plan::{Attachment, ImageRecord, ImageTree, ManifestNode};
use oci::Digest;

/// The record to keep when `new` is saved over `held`, both of one origin.
///
/// With the same root, nothing that one of them has is lost: another
/// configuration may have selected other platforms. With another root (a tag
/// that moved) only the new one is left, under all names. `order` is the
/// root's own list of manifests.
pub(crate) fn merged(held: ImageRecord, new: ImageRecord, order: &[Digest]) -> ImageRecord {
    let names = held.names.into_iter().chain(new.names.iter().cloned()).collect();
    if held.tree.root().digest != new.tree.root().digest {
        return ImageRecord { names, ..new };
    }
    let blobs_held = match (held.blobs_held, new.blobs_held) {
        (same, other) if same == other => same,
        (true, _) => covers(&held.tree, &new.tree),
        (false, _) => covers(&new.tree, &held.tree),
    };
    let mut manifests = held.tree.manifests;
    for manifest in new.tree.manifests {
        match manifests.iter_mut().find(|known| known.digest == manifest.digest) {
            Some(known) => *known = manifest,
            None => manifests.push(manifest),
        }
    }
    let rank = |node: &ManifestNode| order.iter().position(|digest| *digest == node.digest);
    // Stable: what the root does not list itself stays behind, as it came.
    manifests[1..].sort_by_key(|node| rank(node).unwrap_or(usize::MAX));
    let here: BTreeSet<Digest> = manifests.iter().map(|node| node.digest).collect();
    let mut left_out = held.tree.left_out;
    left_out.extend(new.tree.left_out);
    left_out.retain(|digest| !here.contains(digest));
    let mut attachments = held.tree.attachments;
    for attachment in new.tree.attachments {
        match attachments.iter_mut().find(|known| same_attachment(known, &attachment)) {
            Some(known) => *known = attachment,
            None => attachments.push(attachment),
        }
    }
    let tree = ImageTree { manifests, left_out, attachments };
    ImageRecord {
        origin: new.origin,
        kind: new.kind,
        tree,
        blobs_held,
        attachments_unknown: held.attachments_unknown && new.attachments_unknown,
        names,
    }
}

/// A tag holds one manifest at a time; referrers are distinguished by theirs.
pub(crate) fn same_attachment(a: &Attachment, b: &Attachment) -> bool {
    let first = |attachment: &Attachment| attachment.manifests.first().map(|node| node.digest);
    a.subject == b.subject && a.tag == b.tag && (a.tag.is_some() || first(a) == first(b))
}

/// Whether all manifests of `part` are among those of `whole`.
fn covers(whole: &ImageTree, part: &ImageTree) -> bool {
    let has: BTreeSet<Digest> = whole.all_manifests().map(|node| node.digest).collect();
    part.all_manifests().all(|node| has.contains(&node.digest))
}

#[cfg(test)]
mod tests {
    use mirror_plan::{Destination, Kind, Origin};
    use oci::{MediaType, Tag};

    use super::*;

    fn node(name: &str) -> ManifestNode {
        ManifestNode {
            media_type: MediaType::new(MediaType::OCI_MANIFEST),
            digest: Digest::of(name.as_bytes()),
            size: 1,
            platform: None,
            blobs: Vec::new(),
        }
    }

    fn record(manifests: &[&str], left_out: &[&str]) -> ImageRecord {
        ImageRecord {
            origin: Origin::Registry("q.io/a:1".parse().unwrap()),
            kind: Kind::Additional,
            tree: ImageTree {
                manifests: manifests.iter().map(|name| node(name)).collect(),
                left_out: left_out.iter().map(|name| Digest::of(name.as_bytes())).collect(),
                attachments: Vec::new(),
            },
            blobs_held: true,
            attachments_unknown: false,
            names: BTreeSet::new(),
        }
    }

    fn attachment(tag: Option<&str>, manifest: &str) -> Attachment {
        Attachment {
            subject: Digest::of(b"root"),
            tag: tag.map(|tag| tag.parse::<Tag>().unwrap()),
            listed_as: None,
            manifests: vec![node(manifest)],
        }
    }

    #[test]
    fn platforms_of_two_configurations_add_up_in_the_order_of_the_index() {
        let order = ["amd64", "arm64", "s390x"].map(|name| Digest::of(name.as_bytes()));
        let held = record(&["root", "s390x"], &["amd64", "arm64"]);
        let new = record(&["root", "amd64"], &["arm64", "s390x"]);
        let wanted = record(&["root", "amd64", "s390x"], &["arm64"]);
        assert_eq!(merged(held, new, &order), wanted);
    }

    #[test]
    fn a_tag_that_moved_leaves_only_its_new_image() {
        let new = record(&["other root", "amd64"], &[]);
        assert_eq!(merged(record(&["root", "arm64"], &[]), new.clone(), &[]), new);
    }

    #[test]
    fn the_names_of_two_configurations_add_up_even_when_the_tag_moved() {
        let named = |manifest: &str, name: &str| {
            let repository = name.parse().unwrap();
            let name = Destination { repository, tag: "1".parse().unwrap() };
            ImageRecord { names: BTreeSet::from([name]), ..record(&[manifest], &[]) }
        };
        for (old, new) in [("root", "root"), ("root", "other root")] {
            let both = merged(named(old, "b"), named(new, "a"), &[]);
            let names: Vec<&str> = both.names.iter().map(|name| name.repository.as_str()).collect();
            assert_eq!(names, ["a", "b"]);
        }
    }

    #[test]
    fn a_newer_signature_takes_the_place_of_its_tag_and_referrers_add_up() {
        let (mut held, mut new) = (record(&["root"], &[]), record(&["root"], &[]));
        held.tree.attachments = vec![attachment(Some("s.sig"), "old"), attachment(None, "sbom")];
        new.tree.attachments = vec![attachment(None, "scan"), attachment(Some("s.sig"), "new")];
        let wanted = vec![
            attachment(Some("s.sig"), "new"),
            attachment(None, "sbom"),
            attachment(None, "scan"),
        ];
        assert_eq!(merged(held, new, &[]).tree.attachments, wanted);
    }

    #[test]
    fn blobs_count_as_held_only_when_those_of_every_manifest_are() {
        let without_blobs = |mut record: ImageRecord| {
            record.blobs_held = false;
            record
        };
        let (one, both) = (record(&["root", "amd64"], &[]), record(&["root", "amd64", "arm"], &[]));
        assert!(merged(both.clone(), without_blobs(one.clone()), &[]).blobs_held);
        assert!(merged(without_blobs(one.clone()), both.clone(), &[]).blobs_held);
        assert!(!merged(one.clone(), without_blobs(both.clone()), &[]).blobs_held);
        assert!(!merged(without_blobs(both), one, &[]).blobs_held);
    }
}
