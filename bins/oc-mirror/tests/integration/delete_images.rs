//! Deletes single images: what is kept, what is deleted with an image, and input that is rejected.

use crate::support;

use std::collections::BTreeSet;
use std::fs;

use http::Method;
use lab::docker_registry::{DockerRegistry, Settings};
use lab::images::{Format, Image, SigningKey};
use lab::registry::{Behaviour, Effect, Fault, LabRegistry};
use oci::Platform;

use support::deletion::{PLAIN_TARGET, delete_set, ends, outcomes, pull_all, tags};
use support::{PLAIN, Ran, Site};

const LIST: &str = "data/working-dir/delete/delete-images.yaml";

fn lab() -> LabRegistry {
    LabRegistry::start(lab::registry::Settings::default()).unwrap()
}

fn images(names: &[&str]) -> String {
    let lines = names.iter().map(|name| format!("  - name: quay.io/{name}\n"));
    format!("  additionalImages:\n{}", lines.collect::<String>())
}

/// A machine that mirrored these images from `source` to `target`.
fn mirrored(source: &LabRegistry, target: &str, names: &[&str]) -> Site {
    let site = Site::new();
    site.redirect("quay.io", source.address());
    site.image_set("isc.yaml", &images(names));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{target}"));
    site
}

fn generate(site: &Site, target: &str, names: &[&str], flags: &str) -> Ran {
    site.write("disc.yaml", &delete_set(&images(names)));
    let line =
        format!("delete --generate -c disc.yaml --workspace file://data {flags} docker://{target}");
    Ran::of(site.command(&line).output().unwrap())
}

fn delete(site: &Site, target: &str, flags: &str) -> Ran {
    let line = format!(
        "delete --output=json --delete-yaml-file {LIST} {PLAIN_TARGET} {flags} docker://{target}"
    );
    Ran::of(site.command(&line).output().unwrap())
}

/// Three images under four names; two of them are the same.
fn three() -> LabRegistry {
    let source = lab();
    for (name, tag, seed) in
        [("a/one", "1", "one"), ("a/one", "2", "two"), ("a/one", "same", "one"), ("a/x", "1", "x")]
    {
        source.put_image(&Image::tiny(seed).unwrap(), name, tag).unwrap();
    }
    source
}

const THREE: [&str; 4] = ["a/one:1", "a/one:2", "a/one:same", "a/x:1"];

#[test]
fn an_image_is_deleted_with_its_children_signatures_and_referrers_only() {
    let key = SigningKey::generate().unwrap();
    let source = lab();
    let on = |seed: &str, architecture: &str| {
        let layer = lab::images::Layer::generate(seed, 2_000, lab::images::Compression::Gzip);
        Image::new(Format::Oci, Platform::new("linux", architecture), &[layer.unwrap()]).unwrap()
    };
    let list = |one: &str| Image::list(Format::Oci, [on(one, "amd64"), on("shared", "arm64")]);
    for (tag, seed) in [("1", "first"), ("2", "second")] {
        let image = list(seed).unwrap();
        let image = image.signed(&key, "quay.io/a/list").unwrap().attested(&key).unwrap();
        let image = image.with_referrer("application/vnd.lab.sbom", seed.as_bytes()).unwrap();
        source.put_image(&image, "a/list", tag).unwrap();
    }
    let (target, other) = (lab(), lab());
    let names = ["a/list:1", "a/list:2"];
    let site = mirrored(&source, &format!("{}/ns", target.address()), &names);
    // The content of a registry that never received the first.
    mirrored(&source, &format!("{}/ns", other.address()), &names[1..]);
    let to = format!("{}/ns", target.address());
    let ran = generate(&site, &to, &names[..1], "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = delete(&site, &to, "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let manifests = |registry: &LabRegistry| -> BTreeSet<String> {
        registry.content().into_iter().filter(|line| !line.contains(" blob ")).collect()
    };
    assert_eq!(manifests(&target), manifests(&other));
    pull_all(&site, &to, "a/list");
    let audit = audit(&site);
    assert!(audit.contains(r#""event":"deleted""#) && audit.contains("HTTP 202"), "{audit}");
    assert!(audit.contains("selected by disc.yaml"), "{audit}");
}

#[test]
fn what_others_attached_at_the_target_is_deleted_with_its_image_and_stays_with_others() {
    let source = three();
    let (target, other) = (lab(), lab());
    let to = format!("{}/ns", target.address());
    let site = mirrored(&source, &to, &["a/one:1", "a/one:2"]);
    mirrored(&source, &format!("{}/ns", other.address()), &["a/one:2"]);
    for (seed, tag) in [("one", "1"), ("two", "2")] {
        let image = Image::tiny(seed).unwrap();
        let scanned = image.with_referrer("application/vnd.lab.scan", seed.as_bytes()).unwrap();
        target.put_image(&scanned, "ns/a/one", tag).unwrap();
        if tag == "2" {
            other.put_image(&scanned, "ns/a/one", tag).unwrap();
        }
    }
    assert_eq!(generate(&site, &to, &["a/one:1"], "").code, 0);
    let ran = delete(&site, &to, "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let manifests = |registry: &LabRegistry| -> BTreeSet<String> {
        registry.content().into_iter().filter(|line| !line.contains(" blob ")).collect()
    };
    assert_eq!(manifests(&target), manifests(&other));
}

/// The audit logs of all runs.
fn audit(site: &Site) -> String {
    let logs = fs::read_dir(site.path("data/working-dir/logs")).unwrap();
    let logs = logs.map(|entry| entry.unwrap().path());
    let logs = logs.filter(|path| path.to_string_lossy().contains("audit-"));
    logs.map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn tags_of_others_and_tags_that_changed_stay() {
    let source = three();
    let registry = DockerRegistry::start(&Settings::default()).unwrap();
    let to = format!("{}/ns", registry.address());
    let site = mirrored(&source, &to, &THREE);
    assert_eq!(
        generate(&site, &to, &["a/one:1", "a/one:same", "a/one:2", "a/x:1"], "--all").code,
        0
    );
    // Another user gives the second image a tag, and moves the tag of the third.
    let copy = |from: &str, tag: &str| {
        let (from, to) = (format!("docker://{to}/{from}"), format!("docker://{to}/{tag}"));
        site.skopeo(&[
            "copy",
            "--quiet",
            "--src-tls-verify=false",
            "--dest-tls-verify=false",
            &from,
            &to,
        ]);
    };
    copy("a/one:2", "a/one:theirs");
    copy("a/one:2", "a/x:1");
    let before = tags(&site, &to, "a/one");
    let dry = delete(&site, &to, "--dry-run");
    assert_eq!(dry.code, 0, "{}", dry.err);
    assert_eq!(outcomes(&dry, &to)["a/one:2"], "wouldUntag");
    assert_eq!(tags(&site, &to, "a/one"), before, "a dry run changes nothing");

    let ran = delete(&site, &to, "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let fates = outcomes(&ran, &to);
    // The first image has two names, and both are listed: it is deleted once.
    assert_eq!((fates["a/one:1"].as_str(), fates["a/one:same"].as_str()), ("deleted", "deleted"));
    assert_eq!(fates["a/one:2"], "kept", "docker-registry cannot delete a tag alone");
    assert_eq!(fates["a/x:1"], "kept");
    assert!(ran.err.contains("changed since the plan was made"), "{}", ran.err);
    let left: Vec<String> = tags(&site, &to, "a/one").into_keys().collect();
    assert_eq!(left, ["2", "theirs"]);
    registry.collect_garbage().unwrap();
    pull_all(&site, &to, "a/one");
    pull_all(&site, &to, "a/x");
}

#[test]
fn a_registry_that_rejects_or_fails_leaves_everything_or_can_be_finished_later() {
    let source = three();
    // Deletion is disabled.
    let disabled =
        DockerRegistry::start(&Settings { deletion_disabled: true, ..Settings::default() });
    let disabled = disabled.unwrap();
    let to = format!("{}/ns", disabled.address());
    let site = mirrored(&source, &to, &THREE);
    let before = tags(&site, &to, "a/one");
    assert_eq!(generate(&site, &to, &["a/one:1", "a/one:2"], "").code, 0);
    let ran = delete(&site, &to, "");
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert!(ran.err.contains("deletion is disabled at the registry"), "{}", ran.err);
    assert_eq!(tags(&site, &to, "a/one"), before);

    // Permissions are missing; then the registry fails in the middle.
    let target = lab();
    let to = format!("{}/ns", target.address());
    let site = mirrored(&source, &to, &THREE);
    let before = target.content();
    assert_eq!(generate(&site, &to, &["a/one:1", "a/one:2", "a/one:same"], "").code, 0);
    target.fault(Fault::on(Method::DELETE, "/manifests/").does(Effect::status(403)));
    let ran = delete(&site, &to, "");
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert!(ran.err.contains("access refused") && ran.err.contains("credentials"), "{}", ran.err);
    assert_eq!(target.content(), before);
    target.clear_faults();
    target.fault(Fault::on(Method::DELETE, "/manifests/").after(1).does(Effect::status(500)));
    let ran = delete(&site, &to, "--retry-times 0");
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert!(ran.err.contains("run the same command again"), "{}", ran.err);
    target.clear_faults();
    let ran = delete(&site, &to, "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let left: BTreeSet<String> = tags(&site, &to, "a/one").into_keys().collect();
    assert!(left.is_empty(), "{left:?}");
    let again = delete(&site, &to, "");
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(outcomes(&again, &to).values().all(|fate| fate == "alreadyGone"));
    let again: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(again["files"], serde_json::json!([]), "it needs no undo file");
    assert_eq!(again["garbageCollection"], serde_json::Value::Null, "it freed nothing");
    pull_all(&site, &to, "a/x");
}

#[test]
fn input_that_is_not_for_this_target_is_rejected_and_nothing_changes() {
    let source = three();
    let target = lab();
    let to = format!("{}/ns", target.address());
    let site = mirrored(&source, &to, &THREE);
    let before = target.content();
    let refused = |ran: &Ran, part: &str| {
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
        assert_eq!(target.content(), before);
    };
    refused(&generate(&site, &to, &["a/none:1"], ""), "the selection is empty");
    refused(&generate(&site, &to, &THREE, ""), "everything that was mirrored to");
    assert!(generate(&site, &to, &THREE, "").err.contains("--all"));
    let elsewhere = format!("{}/other", target.address());
    refused(&generate(&site, &elsewhere, &["a/x:1"], ""), "the selection is empty");
    refused(&generate(&site, &to, &["a/x:1"], "--delete-id ../x"), "invalid value for --delete-id");
    let ran = generate(&site, &to, &["a/x:1"], "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    refused(&delete(&site, &elsewhere, ""), "another namespace");
    refused(&delete(&site, "127.0.0.1:1/ns", ""), "another registry");
    let list = site.read(LIST);
    for (from, into, part) in [
        ("type: generic", "type: surprise", "found \"surprise\""),
        ("/ns/a/x:1", "/a/x:1", "another namespace"),
        ("type: generic", "type: ocpRelease", "stored in ns/openshift/release-images only"),
        ("DeleteImageList", "ImageList", "expected kind DeleteImageList"),
    ] {
        assert!(list.contains(from), "{list}");
        site.write(LIST, &list.replace(from, into));
        refused(&delete(&site, &to, ""), part);
    }
    site.write(LIST, "kind: DeleteImageList\nitems: []\n");
    refused(&delete(&site, &to, ""), "the list is empty");
    // An item that a user added, of an image that others pushed.
    source.put_image(&Image::tiny("theirs").unwrap(), "a/theirs", "1").unwrap();
    let (from, there) =
        (format!("docker://{}/a/x:1", source.address()), format!("docker://{to}/a/theirs:1"));
    let flags = ["copy", "--quiet", "--src-tls-verify=false", "--dest-tls-verify=false"];
    site.skopeo(&[&flags[..], &[&from, &there]].concat());
    site.write(LIST, &list.replace("/a/x:1", "/a/theirs:1"));
    let before = target.content();
    let ran = delete(&site, &to, "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(outcomes(&ran, &to)["a/theirs:1"], "kept");
    assert_eq!(target.content(), before);
}

#[test]
fn two_configurations_share_a_target_and_each_keeps_its_images() {
    let source = three();
    let target = lab();
    let to = format!("{}/ns", target.address());
    let site = mirrored(&source, &to, &["a/one:1", "a/one:2", "a/x:1"]);
    site.image_set("other.yaml", &images(&["a/one:2"]));
    site.succeeds(&format!("-c other.yaml {PLAIN} --workspace file://data docker://{to}"));
    let ran = generate(&site, &to, &["a/one:1", "a/one:2"], "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("ns/a/one:2 stays: selected by") && ran.err.contains("other.yaml"));
    assert_eq!(delete(&site, &to, "").code, 0);
    let left: Vec<String> = tags(&site, &to, "a/one").into_keys().collect();
    assert_eq!(left, ["2"]);
    // The other configuration is retired.
    let ran = generate(&site, &to, &["a/one:2"], "--ignore-configuration othre.yaml");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("othre.yaml is not on record"), "{}", ran.err);
    let ran = generate(&site, &to, &["a/one:2"], "--ignore-configuration other.yaml");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(delete(&site, &to, "").code, 0);
    assert!(tags(&site, &to, "a/one").is_empty());
    // A mirroring run restores what its configuration selects, and deletes nothing.
    let before = tags(&site, &to, "a/x");
    site.succeeds(&format!("-c other.yaml {PLAIN} --workspace file://data docker://{to}"));
    assert_eq!(tags(&site, &to, "a/one").len(), 1);
    assert_eq!(tags(&site, &to, "a/x"), before);
}

#[test]
fn a_list_of_another_tool_with_5000_tags_takes_two_requests_per_tag() {
    let behaviour = Behaviour { referrers_api: false, ..Behaviour::MODERN };
    let target =
        LabRegistry::start(lab::registry::Settings { behaviour, ..Default::default() }).unwrap();
    let (mut list, count) = (String::from("kind: DeleteImageList\nitems:\n"), 5_000);
    for number in 0..count {
        let image = Image::tiny(&format!("image {number}")).unwrap();
        target.put_image(&image, "ns/many", &format!("v{number}")).unwrap();
        list.push_str(&format!(
            "- imageName: quay.io/many:v{number}\n  imageReference: docker://{}/ns/many:v{number}\n  type: generic\n",
            target.address()
        ));
    }
    target.put_image(&Image::tiny("image 0").unwrap(), "ns/many", "stays").unwrap();
    let site = Site::new();
    site.write("delete-images.yaml", &list);
    let line = format!(
        "delete --output=json --delete-yaml-file delete-images.yaml {PLAIN_TARGET} docker://{}/ns",
        target.address()
    );
    let ran = ends(&site, &line, 0);
    assert!(ran.err.contains("no undo file was written"), "{}", ran.err);
    let requests = target.requests().count();
    // Pages of the list of tags, and one request to find out what the registry is.
    assert!(requests <= 2 * count + 20, "{requests} requests");
    let to = format!("{}/ns", target.address());
    assert_eq!(tags(&site, &to, "many").keys().collect::<Vec<_>>(), ["stays"]);
    let fates = outcomes(&ran, &to);
    assert_eq!((fates["many:v0"].as_str(), fates["many:v1"].as_str()), ("untagged", "deleted"));
}

#[test]
fn names_of_files_and_of_other_versions_are_listed_on_request() {
    let key = SigningKey::generate().unwrap();
    let source = three();
    let signed = Image::tiny("signed").unwrap().signed(&key, "quay.io/a/signed").unwrap();
    source.put_image(&signed, "a/signed", "1").unwrap();
    let by_digest = format!("a/x@{}", Image::tiny("x").unwrap().digest());
    let target = lab();
    let to = format!("{}/ns/deep", target.address());
    let site = Site::new();
    site.redirect("quay.io", source.address());
    site.image_set("isc.yaml", &images(&["a/one:1", "a/signed:1", &by_digest]));
    let nested = "--max-nested-paths 2";
    site.succeeds(&format!("-c isc.yaml {nested} {PLAIN} --workspace file://data docker://{to}"));
    let flags = format!("{nested} --delete-id x1 --delete-signatures --delete-v1-images");
    let ran = generate(&site, &to, &["a/signed:1", &by_digest], &flags);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let list = site.read("data/working-dir/delete/delete-images-x1.yaml");
    let signature = format!("{}.sig", signed.digest().as_tag_text());
    assert!(list.contains(&format!("/ns/deep-a-signed:{signature}")), "{list}");
    assert!(list.contains("/ns/deep-a-x:latest"), "{list}");
    assert!(site.path("data/working-dir/delete/delete-imageset-config-x1.yaml").is_file());
    let reasons = site.read("data/working-dir/delete/delete-reasons-x1.yaml");
    assert!(reasons.contains("selected by disc.yaml") && reasons.contains("reclaimable"));
    let line = format!(
        "delete --output=json {nested} --delete-yaml-file data/working-dir/delete/delete-images-x1.yaml {PLAIN_TARGET} docker://{to}"
    );
    let ran = ends(&site, &line, 0);
    let left: Vec<String> = target
        .content()
        .into_iter()
        .filter(|line| !line.contains(" manifest ") && !line.contains(" blob "))
        .collect();
    assert_eq!(left.len(), 1, "{left:?}\n{}", ran.out);
    assert!(left[0].contains("a-one"), "{left:?}");
}

#[test]
fn the_workspace_keeps_its_content_unless_requested_otherwise() {
    let source = three();
    let target = lab();
    let to = format!("{}/ns", target.address());
    let site = Site::new();
    site.redirect("quay.io", source.address());
    site.image_set("isc.yaml", &images(&THREE));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --no-archive file://data"));
    let push = format!("-c isc.yaml {PLAIN_TARGET} --from file://data docker://{to}");
    site.succeeds(&push);
    let blobs = || fs::read_dir(site.path("data/blobs/sha256")).unwrap().count();
    let before = blobs();
    assert_eq!(generate(&site, &to, &["a/one:2"], "").code, 0);
    let ran = delete(&site, &to, "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(blobs(), before);
    site.succeeds(&push);
    assert_eq!(generate(&site, &to, &["a/one:2"], "").code, 0);
    let ran = delete(&site, &to, "--force-cache-delete");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(blobs() < before, "{} of {before}", blobs());
    // What is left can still be pushed completely.
    target.wipe();
    site.image_set("isc.yaml", &images(&["a/one:1", "a/one:same", "a/x:1"]));
    site.succeeds(&push);
    pull_all(&site, &to, "a/one");
}

#[test]
fn blocked_images_are_not_deleted_and_blocked_images_are_not_kept() {
    let source = three();
    let target = lab();
    let to = format!("{}/ns", target.address());
    let site = mirrored(&source, &to, &THREE);
    // What the configuration of a deletion blocks stays.
    let blocked =
        format!("{}  blockedImages:\n  - name: .*/a/one:2$\n", images(&["a/one:2", "a/x:1"]));
    site.write("disc.yaml", &delete_set(&blocked));
    let line = format!("delete --generate -c disc.yaml --workspace file://data docker://{to}");
    let ran = ends(&site, &line, 0);
    assert!(ran.err.contains("a/one:2 is left out: blockedImages has"), "{}", ran.err);
    assert_eq!(delete(&site, &to, "").code, 0);
    assert_eq!(tags(&site, &to, "a/one").len(), 3);
    assert!(tags(&site, &to, "a/x").is_empty());
    // What a configuration of --keep blocks is not selected by it, so it is not kept.
    let keep = format!("{}  blockedImages:\n  - name: .*/a/one:2$\n", images(&THREE[..3]));
    site.image_set("isc.yaml", &keep);
    let line = format!("prune --keep isc.yaml --yes --output=json {PLAIN_TARGET} docker://{to}");
    let ran = ends(&site, &line, 0);
    assert_eq!(outcomes(&ran, &to).into_keys().collect::<Vec<_>>(), ["a/one:2"]);
    let left: Vec<String> = tags(&site, &to, "a/one").into_keys().collect();
    assert_eq!(left, ["1", "same"]);
}

#[test]
fn a_chart_is_deleted_with_its_images() {
    let source = lab();
    support::charts::put_images(&source, &["app", "hook", "cron", "other"]);
    let site = Site::new();
    support::charts::write_chart(&site, "web", "1.2.0", &source);
    let chart = "  helm:\n    local:\n    - name: web\n      path: web\n";
    let other = format!("  additionalImages:\n  - name: {}/org/other:v1\n", source.address());
    site.image_set("isc.yaml", &format!("{chart}{other}"));
    let target = lab();
    let to = format!("{}/ns", target.address());
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    source.forget_requests();
    site.write("disc.yaml", &delete_set(chart));
    ends(
        &site,
        &format!("delete --generate -c disc.yaml --workspace file://data docker://{to}"),
        0,
    );
    let ran = delete(&site, &to, "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(source.requests().count(), 0, "only the target is contacted");
    let left: Vec<String> = target
        .content()
        .into_iter()
        .filter(|line| !line.contains(" manifest ") && !line.contains(" blob "))
        .collect();
    assert!(left.len() == 1 && left[0].contains("org/other:v1"), "{left:?}");
    // The undo file restores the chart, too.
    let report = ran.report();
    let undo = report["files"][0].as_str().unwrap();
    site.succeeds(&format!("-c {undo} {PLAIN} --workspace file://data docker://{to}"));
    for image in ["charts/web:1.2.0", "org/app:v1", "org/hook:v1", "org/cron:v1"] {
        assert!(target.content().iter().any(|line| line.contains(image)), "{image}");
    }
}
