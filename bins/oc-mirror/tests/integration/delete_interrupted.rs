//! Deletions that are killed, that fail midway, or during which others change the target.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use http::Method;
use lab::images::{Compression, Format, Image, Layer, SigningKey};
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use oci::Platform;

use support::deletion::{PLAIN_TARGET, delete_set, ends, outcomes, pull_all};
use support::under_way::UnderWay;
use support::{PLAIN, Ran, Site};

const LIST: &str = "data/working-dir/delete/delete-images.yaml";

fn lab() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

/// An index with two images of which one is shared, all signed and with a referrer.
fn list(seed: &str, key: &SigningKey) -> Image {
    let on = |seed: &str, architecture: &str| {
        let layer = Layer::generate(seed, 2_000, Compression::Gzip).unwrap();
        Image::new(Format::Oci, Platform::new("linux", architecture), &[layer]).unwrap()
    };
    let image = Image::list(Format::Oci, [on(seed, "amd64"), on("shared", "arm64")]).unwrap();
    let image = image.signed(key, "quay.io/a/list").unwrap().attested(key).unwrap();
    image.with_referrer("application/vnd.lab.sbom", seed.as_bytes()).unwrap()
}

fn images(names: &[&str]) -> String {
    let lines = names.iter().map(|name| format!("  - name: quay.io/{name}\n"));
    format!("  additionalImages:\n{}", lines.collect::<String>())
}

/// The manifests and tags of a registry.
fn manifests(registry: &LabRegistry) -> BTreeSet<String> {
    registry.content().into_iter().filter(|line| !line.contains(" blob ")).collect()
}

/// A machine with a workspace that mirrored both images to `target`, and a plan that deletes the first.
fn planned(source: &LabRegistry, target: &LabRegistry) -> (Site, String) {
    let site = Site::new();
    let to = format!("{}/ns", target.address());
    site.redirect("quay.io", source.address());
    site.image_set("isc.yaml", &images(&["a/list:1", "a/list:2"]));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    site.write("disc.yaml", &delete_set(&images(&["a/list:1"])));
    let line = format!("delete --generate -c disc.yaml --workspace file://data docker://{to}");
    ends(&site, &line, 0);
    (site, to)
}

/// The command of the second phase.
fn command(list: &str, to: &str) -> String {
    format!("delete --output=json --delete-yaml-file {list} {PLAIN_TARGET} docker://{to}")
}

fn deletions(registry: &LabRegistry) -> usize {
    registry.requests().of(&Method::DELETE, "/manifests/").count()
}

/// Kills the deletion at each of its requests to delete something, finishes it with a second run,
/// and compares the target with one where nothing was killed.
fn killed_anywhere(with_record: bool) {
    let key = SigningKey::generate().unwrap();
    let source = lab();
    for tag in ["1", "2"] {
        source.put_image(&list(tag, &key), "a/list", tag).unwrap();
    }
    let run = |killed_at: Option<usize>| {
        let target = lab();
        let (site, to) = planned(&source, &target);
        let list = match with_record {
            true => LIST,
            // A list of another tool, in a directory without a record.
            false => {
                fs::copy(site.path(LIST), site.path("list.yaml")).unwrap();
                fs::remove_dir_all(site.path("data")).unwrap();
                "list.yaml"
            }
        };
        target.forget_requests();
        if let Some(spared) = killed_at {
            let stall = Effect::Delay(Duration::from_secs(600));
            target.fault(Fault::on(Method::DELETE, "/manifests/").after(spared).does(stall));
            let mut under_way = UnderWay::start_command(&site, &command(list, &to));
            under_way.until("the deletion", || target.disturbed() > 0);
            under_way.kill();
            target.clear_faults();
        }
        let ran = ends(&site, &command(list, &to), 0);
        let fates = outcomes(&ran, &to);
        assert!(matches!(fates["a/list:1"].as_str(), "deleted" | "alreadyGone"), "{fates:?}");
        pull_all(&site, &to, "a/list");
        (manifests(&target), deletions(&target))
    };
    let (undisturbed, count) = run(None);
    assert!(count > 3, "an index, an image, a signature and more: {count}");
    for spared in 0..count {
        assert_eq!(run(Some(spared)).0, undisturbed, "killed after {spared} deletions");
    }
}

#[test]
fn a_killed_deletion_is_finished_by_the_next_run_with_the_same_result() {
    killed_anywhere(true);
}

#[test]
fn a_killed_deletion_of_images_that_are_not_on_record_is_finished_too() {
    killed_anywhere(false);
}

#[test]
fn a_tag_that_is_moved_during_the_deletion_stays_with_all_that_it_names() {
    let source = lab();
    let (x, y) = (Image::tiny("x").unwrap(), Image::tiny("y").unwrap());
    for (image, tag) in [(&x, "1"), (&x, "2"), (&y, "3"), (&x, "stays")] {
        source.put_image(image, "a/one", tag).unwrap();
    }
    let (target, site) = (lab(), Site::new());
    let to = format!("{}/ns", target.address());
    site.redirect("quay.io", source.address());
    let all = ["a/one:1", "a/one:2", "a/one:3", "a/one:stays"];
    site.image_set("isc.yaml", &images(&all));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    site.write("disc.yaml", &delete_set(&images(&all[..3])));
    let line = format!("delete --generate -c disc.yaml --workspace file://data docker://{to}");
    let ran = ends(&site, &line, 0);
    assert!(ran.err.contains("such as ns/a/one:stays: only the tag is deleted"), "{}", ran.err);

    let wait = Effect::Delay(Duration::from_secs(2));
    target.fault(Fault::on(Method::DELETE, "/manifests/1").times(1).does(wait));
    let mut under_way = UnderWay::start_command(&site, &command(LIST, &to));
    under_way.until("the first deletion", || target.disturbed() > 0);
    // Another user gives the second tag to the image that the third has.
    target.put_image(&y, "ns/a/one", "2").unwrap();
    let ran = under_way.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let fates = outcomes(&ran, &to);
    assert_eq!(fates["a/one:1"], "untagged");
    assert_eq!(fates["a/one:2"], "kept");
    assert_eq!(fates["a/one:3"], "untagged", "the second tag needs the manifest now");
    assert!(ran.err.contains("a/one:2 stays: it changed since the plan was made"), "{}", ran.err);
    let left: Vec<String> = support::deletion::tags(&site, &to, "a/one").into_keys().collect();
    assert_eq!(left, ["2", "stays"]);
    pull_all(&site, &to, "a/one");
}

/// Deletes the tags `1` to `count` of a repository that has one more, and moves one of them to
/// another image before the first manifest is deleted.
fn moved_before_its_manifest_is_deleted(count: usize) -> Ran {
    let source = lab();
    let image = |number: usize| Image::tiny(&format!("image {number}")).unwrap();
    let names: Vec<String> = (1..=count + 1).map(|number| format!("a/one:{number}")).collect();
    for number in 1..=count + 1 {
        source.put_image(&image(number), "a/one", &number.to_string()).unwrap();
    }
    let (target, site) = (lab(), Site::new());
    let to = format!("{}/ns", target.address());
    site.redirect("quay.io", source.address());
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    site.image_set("isc.yaml", &images(&all));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    site.write("disc.yaml", &delete_set(&images(&all[..count])));
    ends(
        &site,
        &format!("delete --generate -c disc.yaml --workspace file://data docker://{to}"),
        0,
    );

    let wait = Effect::Delay(Duration::from_secs(2));
    target.fault(Fault::on(Method::DELETE, "/manifests/").times(1).does(wait));
    let mut under_way = UnderWay::start_command(&site, &command(LIST, &to));
    under_way.until("the first deletion", || target.disturbed() > 0);
    // Manifests are deleted in the order of their digests.
    let last = (1..=count).max_by_key(|number| image(*number).digest()).unwrap();
    let new = Image::tiny("new").unwrap();
    target.put_image(&new, "ns/a/one", &last.to_string()).unwrap();
    let ran = under_way.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
    for (name, fate) in outcomes(&ran, &to) {
        let expected = if name == format!("a/one:{last}") { "kept" } else { "deleted" };
        assert_eq!(fate, expected, "{name}: {}", ran.err);
    }
    let left = support::deletion::tags(&site, &to, "a/one");
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(left[&last.to_string()], new.digest());
    pull_all(&site, &to, "a/one");
    ran
}

#[test]
fn a_tag_is_compared_again_right_before_its_manifest_is_deleted() {
    let ran = moved_before_its_manifest_is_deleted(2);
    assert!(ran.err.contains("stays: it changed since the plan was made"), "{}", ran.err);
}

#[test]
fn a_tag_that_was_moved_after_the_comparison_is_reported_as_kept() {
    let ran = moved_before_its_manifest_is_deleted(60);
    assert!(ran.err.contains("while its former manifest was deleted"), "{}", ran.err);
}

#[test]
fn a_workspace_that_is_in_use_is_not_deleted_from() {
    let key = SigningKey::generate().unwrap();
    let (source, target) = (lab(), lab());
    for tag in ["1", "2"] {
        source.put_image(&list(tag, &key), "a/list", tag).unwrap();
    }
    let (site, to) = planned(&source, &target);
    let before = manifests(&target);
    let stall = Effect::Delay(Duration::from_secs(600));
    target.fault(Fault::on(Method::DELETE, "/manifests/").does(stall));
    let mut first = UnderWay::start_command(&site, &command(LIST, &to));
    first.until("the deletion", || target.disturbed() > 0);
    let second = ends(&site, &command(LIST, &to), 1);
    assert!(second.err.contains("is in use"), "{}", second.err);
    assert_eq!(manifests(&target), before);
    first.kill();
}

#[test]
fn what_the_registry_refused_is_in_the_audit_log() {
    let key = SigningKey::generate().unwrap();
    let (source, target) = (lab(), lab());
    for tag in ["1", "2"] {
        source.put_image(&list(tag, &key), "a/list", tag).unwrap();
    }
    let (site, to) = planned(&source, &target);
    target.fault(Fault::on(Method::DELETE, "/manifests/").does(Effect::status(403)));
    ends(&site, &command(LIST, &to), 8);
    let logs = fs::read_dir(site.path("data/working-dir/logs")).unwrap();
    let logs = logs.map(|entry| entry.unwrap().path());
    let logs = logs.filter(|path| path.to_string_lossy().contains("audit-"));
    let audit: String = logs.map(|path| fs::read_to_string(path).unwrap()).collect();
    let failed = audit.lines().find(|line| line.contains(r#""event":"deletionFailed""#)).unwrap();
    for part in ["sha256:", r#""tags":["1"]"#, "selected by disc.yaml", "access refused"] {
        assert!(failed.contains(part), "{part}: {failed}");
    }
    assert!(!audit.contains(r#""event":"deleted""#), "{audit}");
}
