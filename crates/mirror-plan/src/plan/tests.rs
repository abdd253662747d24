use std::collections::{BTreeMap, BTreeSet};

use oci::{MediaType, Tag};

use super::*;
use crate::{Attachment, ManifestNode};

/// A destination with these images and this content.
#[derive(Default)]
struct Contents {
    images: BTreeMap<Destination, Digest>,
    content: BTreeSet<Digest>,
}

impl Held for Contents {
    fn image(&self, _: &Origin, destination: &Destination) -> Option<Digest> {
        self.images.get(destination).copied()
    }

    fn content(&self, digest: &Digest) -> bool {
        self.content.contains(digest)
    }
}

fn digest(word: &str) -> Digest {
    Digest::of(word.as_bytes())
}

fn manifest(name: &str, media_type: &str, blobs: &[(&str, u64)]) -> ManifestNode {
    ManifestNode {
        media_type: MediaType::new(media_type),
        digest: digest(name),
        size: 500,
        platform: None,
        blobs: blobs.iter().map(|(b, size)| BlobRef { digest: digest(b), size: *size }).collect(),
    }
}

fn image(name: &str, blobs: &[(&str, u64)]) -> ImageTree {
    let manifests = vec![manifest(name, MediaType::OCI_MANIFEST, blobs)];
    ImageTree { manifests, left_out: BTreeSet::new(), attachments: vec![] }
}

fn list(name: &str, children: &[&str]) -> ImageTree {
    let mut tree = image(name, &[]);
    tree.manifests[0].media_type = MediaType::new(MediaType::OCI_INDEX);
    for child in children {
        tree.manifests.push(manifest(child, MediaType::OCI_MANIFEST, &[(child, 7)]));
    }
    tree
}

fn signed(mut tree: ImageTree) -> ImageTree {
    let subject = tree.root().digest;
    tree.attachments.push(Attachment {
        subject,
        tag: Some(Tag::of_attachment(&subject, "sig")),
        listed_as: None,
        manifests: vec![manifest("signature", MediaType::OCI_MANIFEST, &[("sig-layer", 9)])],
    });
    tree
}

fn found(origin: &str, tree: ImageTree) -> Found {
    let wanted = Wanted {
        kind: Kind::Additional,
        origin: Origin::Registry(origin.parse().unwrap()),
        target_repository: None,
        target_tag: None,
        platforms: vec![],
    };
    Found { destination: Destination::of(&wanted).unwrap(), wanted, tree }
}

fn to(target: &str) -> Direction {
    Direction { mode: Mode::MirrorToMirror, target: Some(target.parse().unwrap()) }
}

fn to_disk() -> Direction {
    Direction { mode: Mode::MirrorToDisk, target: None }
}

fn actions(plan: &Plan) -> Vec<Action> {
    plan.images.iter().map(|image| image.action).collect()
}

#[test]
fn a_blob_that_images_share_is_counted_once() {
    let one = found("quay.io/a/one:1", image("one", &[("base", 1000), ("a", 10)]));
    let two = found("quay.io/a/two:1", image("two", &[("base", 1000), ("b", 20)]));
    let plan = plan(to("r.io"), [one, two], &Nothing);
    let totals = Totals {
        images: 2,
        images_to_copy: 2,
        blobs: 3,
        blobs_to_move: 3,
        bytes: 1030,
        bytes_to_move: 1030,
    };
    assert_eq!(plan.totals, totals);
    assert_eq!(plan.size(&plan.images[0]), 1010);
}

#[test]
fn what_the_far_end_holds_is_not_moved() {
    let one = found("quay.io/a/one:1", image("one", &[("base", 1000), ("a", 10)]));
    let two = found("quay.io/a/two:1", image("two", &[("base", 1000), ("b", 20), ("c", 5)]));
    let held = Contents {
        images: [(one.destination.clone(), digest("one"))].into(),
        content: [digest("c")].into(),
    };
    let plan = plan(to("r.io"), [one, two], &held);
    assert_eq!(actions(&plan), [Action::Present, Action::Copy]);
    assert_eq!((plan.totals.bytes, plan.totals.bytes_to_move), (1035, 20));
    assert_eq!(plan.copies().count(), 1);
}

#[test]
fn another_image_under_the_same_name_is_replaced() {
    let one = found("quay.io/a/one:1", image("new", &[("a", 10)]));
    let held = Contents {
        images: [(one.destination.clone(), digest("old"))].into(),
        content: BTreeSet::new(),
    };
    assert_eq!(actions(&plan(to("r.io"), [one], &held)), [Action::Copy]);
}

#[test]
fn an_image_whose_signature_is_not_there_is_not_present() {
    let one = || found("quay.io/a/one:1", signed(image("one", &[("a", 10)])));
    let mut held = Contents {
        images: [(one().destination, digest("one"))].into(),
        content: [digest("a")].into(),
    };
    let unsigned = plan(to("r.io"), [one()], &held);
    assert_eq!(actions(&unsigned), [Action::Copy]);
    assert_eq!(unsigned.totals.bytes_to_move, 9);
    held.content.insert(digest("signature"));
    assert_eq!(actions(&plan(to("r.io"), [one()], &held)), [Action::Present]);
}

#[test]
fn a_tree_comes_out_of_the_plan_as_it_went_in() {
    let mut tree = signed(list("list", &["x", "y"]));
    tree.left_out.insert(digest("z"));
    tree.manifests[1].platform = Some("linux/arm64/v8".parse().unwrap());
    let plan = plan(to_disk(), [found("quay.io/a/list:1", tree.clone())], &Nothing);
    assert_eq!(plan.tree(&plan.images[0]), tree);
    let read = Plan::from_json(&plan.to_json().unwrap()).unwrap();
    assert_eq!(read, plan);
}

#[test]
fn the_order_images_are_found_in_does_not_show() {
    let all = || {
        [
            found("quay.io/a/one:1", image("one", &[("base", 1000), ("a", 10)])),
            found("quay.io/a/two:1", image("two", &[("b", 20), ("base", 1000)])),
            found("quay.io/a/list:1", list("list", &["x", "y"])),
        ]
    };
    let mut backwards = all();
    backwards.reverse();
    let texts = [all(), backwards].map(|f| plan(to("r.io"), f, &Nothing).to_json().unwrap());
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn a_manifest_with_a_wrong_size_does_not_change_that_of_another() {
    let honest = found("quay.io/a/one:1", image("one", &[("base", 1000)]));
    let liar = found("quay.io/a/two:1", image("two", &[("base", u64::MAX)]));
    let plan = plan(to("r.io"), [honest, liar], &Nothing);
    assert_eq!(plan.tree(&plan.images[0]).manifests[0].blobs[0].size, 1000);
    assert_eq!(plan.totals.bytes, u64::MAX);
}

#[test]
fn a_target_whose_host_is_one_word_survives_the_json() {
    let one = found("quay.io/a/one:1", image("one", &[]));
    let plan = plan(to("reg"), [one], &Nothing);
    let read = Plan::from_json(&plan.to_json().unwrap()).unwrap();
    assert_eq!(read.mapping(Lines::Images, &[]), "docker://quay.io/a/one:1=docker://reg/a/one:1\n");
}

#[test]
fn the_json_names_what_it_is_and_how_images_move() {
    let one = found("quay.io/a/one:1", image("one", &[("a", 10)]));
    let plan = plan(to("r.io/ns"), [one], &Nothing);
    let json: serde_json::Value = serde_json::from_str(&plan.to_json().unwrap()).unwrap();
    assert_eq!(json["schema"], "oc-mirror/plan");
    assert_eq!(json["version"], 1);
    assert_eq!(json["mode"], "mirrorToMirror");
    assert_eq!(json["target"], "r.io/ns");
    let image = &json["images"][0];
    assert_eq!(image["origin"]["registry"], "quay.io/a/one:1");
    assert_eq!(image["destination"], "a/one:1");
    assert_eq!(image["kind"], "additional");
    assert_eq!(image["action"], "copy");
    assert_eq!(image["tree"]["manifests"][0]["blobs"], serde_json::json!([0]));
    assert_eq!(json["blobs"][0]["digest"], digest("a").to_string());
    assert_eq!(json["blobs"][0]["size"], 10);
    assert_eq!(json["totals"]["bytesToMove"], 10);
}

#[test]
fn a_plan_that_does_not_hang_together_is_refused() {
    let one = found("quay.io/a/one:1", image("one", &[("a", 10)]));
    let json: serde_json::Value = serde_json::to_value(plan(to("r.io"), [one], &Nothing)).unwrap();
    let refused = |change: &dyn Fn(&mut serde_json::Value), wanted: &str| {
        let mut changed = json.clone();
        change(&mut changed);
        let error = Plan::from_json(&changed.to_string()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    };
    refused(&|json| json["version"] = 2.into(), "version 2");
    refused(&|json| json["schema"] = "x".into(), "\"x\"");
    refused(&|json| json["blobs"] = serde_json::json!([]), "blob 0");
    refused(&|json| json["images"][0]["tree"]["manifests"] = serde_json::json!([]), "no manifest");
    assert!(Plan::from_json("{").unwrap_err().to_string().contains("JSON"));
}

#[test]
fn a_mapping_has_a_line_per_image_and_on_request_per_listed_manifest() {
    let (x, y) = (digest("x"), digest("y"));
    let index = digest("list");
    let plan = plan(
        to("r.io:5000"),
        [
            found("quay.io/a/list:1", list("list", &["x", "y"])),
            found(&format!("quay.io/a/pinned@{index}"), list("list", &["x"])),
        ],
        &Nothing,
    );
    let hex = index.hex();
    assert_eq!(
        plan.mapping(Lines::Images, &[]),
        format!(
            "docker://quay.io/a/list:1=docker://r.io:5000/a/list:1\n\
             docker://quay.io/a/pinned@{index}=docker://r.io:5000/a/pinned:sha256-{hex}\n"
        )
    );
    assert_eq!(
        plan.mapping(Lines::Manifests, &[]),
        format!(
            "docker://quay.io/a/list:1=docker://r.io:5000/a/list:1\n\
             docker://quay.io/a/list:1@{x}=docker://r.io:5000/a/list@{x}\n\
             docker://quay.io/a/list:1@{y}=docker://r.io:5000/a/list@{y}\n\
             docker://quay.io/a/pinned@{index}=docker://r.io:5000/a/pinned:sha256-{hex}\n\
             docker://quay.io/a/pinned@{x}=docker://r.io:5000/a/pinned@{x}\n"
        )
    );
}

#[test]
fn a_mapping_names_a_source_by_tag_or_digest_and_never_by_both() {
    let pin = digest("one");
    let named = format!("quay.io/a/one:1@{pin}");
    let additional = found(&named, image("one", &[]));
    let mut release = found(&named.replace("/a/one", "/a/release"), image("one", &[]));
    release.wanted.kind = Kind::ReleasePayload;
    assert_eq!(
        plan(to("r.io"), [additional, release], &Nothing).mapping(Lines::Images, &[]),
        format!(
            "docker://quay.io/a/release:1=docker://r.io/a/release:1\n\
             docker://quay.io/a/one@{pin}=docker://r.io/a/one:1\n"
        )
    );
}

#[test]
fn only_images_that_are_not_held_are_missing() {
    let one = || found("quay.io/a/one:1", image("one", &[]));
    let two = || found("quay.io/a/two:1", image("two", &[]));
    let mut held = Contents::default();
    held.images.insert(one().destination, digest("one"));
    assert_eq!(
        plan(to_disk(), [one(), two()], &held).missing(Lines::Images, &[]).as_deref(),
        Some("docker://quay.io/a/two:1=docker://localhost:55000/a/two:1\n")
    );
    assert_eq!(plan(to_disk(), [one()], &held).missing(Lines::Images, &[]), None);
}

#[test]
fn a_layout_is_mapped_by_its_path() {
    let mut layout = found("quay.io/a/x:1", list("list", &["x"]));
    layout.wanted.origin = Origin::Layout("/srv/x".into());
    let x = digest("x");
    assert_eq!(
        plan(to("r.io"), [layout], &Nothing).mapping(Lines::Manifests, &[]),
        format!("oci:///srv/x=docker://r.io/a/x:1\noci:///srv/x@{x}=docker://r.io/a/x@{x}\n")
    );
}

#[test]
fn the_table_shows_each_image_with_its_size_and_the_sums() {
    let one = found("quay.io/a/one:1", image("one", &[("a", 1536)]));
    let two = found("quay.io/a/longer:1", image("two", &[("b", 20)]));
    let held = Contents {
        images: [(two.destination.clone(), digest("two"))].into(),
        ..Contents::default()
    };
    assert_eq!(
        plan(to("r.io"), [one, two], &held).table(),
        "ACTION      SIZE  IMAGE               DESTINATION\n\
         present     20 B  quay.io/a/longer:1  r.io/a/longer:1\n\
         copy     1.5 KiB  quay.io/a/one:1     r.io/a/one:1\n\
         2 images, 1 to copy; 2 blobs of 1.5 KiB, 1 of 1.5 KiB to move\n"
    );
}
