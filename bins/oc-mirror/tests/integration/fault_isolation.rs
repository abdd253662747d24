//! One image that fails, and others that share its content: only what cannot be completed fails.

use crate::support;

use std::fs;

use http::Method;
use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use oci::RawManifest;
use serde_json::{Value, json};
use support::{PLAIN, Site, chunks};

const PATIENT: &str = "--retry-times 1 --retry-delay 10ms";
const NAMES: [&str; 5] = ["one", "two", "three", "four", "five"];

fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

fn base() -> Layer {
    Layer::generate("base", 300_000, Compression::None).unwrap()
}

fn image(name: &str) -> Image {
    let own = Layer::generate(name, 10_000, Compression::None).unwrap();
    Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[base(), own]).unwrap()
}

/// Five images on one base, each in its own repository, and a configuration of them.
fn filled_registry(site: &Site) -> LabRegistry {
    let source = registry();
    let mut references = Vec::new();
    for name in NAMES {
        source.put_image(&image(name), &format!("org/{name}"), "v1").unwrap();
        references.push(source.image(&format!("org/{name}"), "v1").unwrap());
    }
    site.images("isc.yaml", &references);
    source
}

fn pulls(site: &Site, registry: &LabRegistry, name: &str) {
    let reference = format!("docker://{}/org/{name}:v1", registry.address());
    site.pull(&reference, &["--src-tls-verify=false"]);
}

fn missing_base(of: &str) -> Fault {
    let part = format!("/org/{of}/blobs/{}", base().blob.digest);
    Fault::on(Method::GET, &part).does(Effect::status(404))
}

#[test]
fn a_blob_that_one_source_repository_lacks_comes_from_another() {
    for gone in [&NAMES[..1], &NAMES[..4], &NAMES[1..]] {
        let site = Site::new();
        let source = filled_registry(&site);
        gone.iter().for_each(|name| source.fault(missing_base(name)));
        let target = registry();
        let to = target.address();
        site.succeeds(&format!("-c isc.yaml {PLAIN} {PATIENT} file://data"));
        // The journal has every attempt, also those that failed.
        let journal = site.read("data/working-dir/runs/000001.journal.jsonl");
        let of_base: Vec<&str> =
            journal.lines().filter(|line| line.contains(&base().blob.digest.to_string())).collect();
        let count = |event: &str| {
            of_base.iter().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count()
        };
        let (attempts, failed) = (count("attempt"), count("blobFailed"));
        assert_eq!((attempts - failed, count("blob")), (1, 1), "{journal}");
        assert!(failed <= gone.len(), "{journal}");
        site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
        NAMES.iter().for_each(|name| pulls(&site, &target, name));
        let direct = registry();
        let to = direct.address();
        let line = format!("-c isc.yaml {PLAIN} {PATIENT} --workspace file://direct docker://{to}");
        site.succeeds(&line);
        NAMES.iter().for_each(|name| pulls(&site, &direct, name));
    }
}

#[test]
fn a_blob_that_no_source_has_fails_the_images_that_need_it_by_name() {
    let site = Site::new();
    let source = filled_registry(&site);
    let alone = Layer::generate("alone", 10_000, Compression::None).unwrap();
    let alone = Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[alone]).unwrap();
    source.put_image(&alone, "org/alone", "v1").unwrap();
    let names = NAMES.iter().chain(&["alone"]);
    let references: Vec<_> =
        names.map(|name| source.image(&format!("org/{name}"), "v1").unwrap()).collect();
    site.images("isc.yaml", &references);
    NAMES.iter().for_each(|name| source.fault(missing_base(name)));
    let ran = site.run(&format!("-c isc.yaml {PLAIN} {PATIENT} file://data"));
    assert_eq!((ran.code, ran.total("failed"), ran.total("copied")), (8, 5, 1), "{}", ran.out);
    for name in NAMES {
        let error = ran.image(&format!("org/{name}:"))["error"].as_str().unwrap().to_owned();
        assert!(error.contains(&format!("org/{name}@")), "its own source is named: {error}");
        assert!(error.contains("none of the 5 repositories"), "{error}");
    }
    // Each repository got one request: a refusal is final.
    let digest = base().blob.digest;
    assert_eq!(source.requests().blob_gets(&digest), 5);
}

#[test]
fn a_target_repository_that_refuses_a_shared_blob_fails_its_own_image_only() {
    let site = Site::new();
    let _source = filled_registry(&site);
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    for name in NAMES {
        let target = registry();
        let uploads = format!("/org/{name}/blobs/uploads/");
        target.fault(Fault::on(Method::POST, &uploads).does(Effect::status(403)));
        let to = target.address();
        let ran =
            site.run(&format!("-c isc.yaml {PLAIN} {PATIENT} --from file://data docker://{to}"));
        assert_eq!((ran.code, ran.total("failed")), (8, 1), "{name}: {}", ran.out);
        assert_eq!(ran.image(&format!("org/{name}:"))["outcome"], "failed");
        let others = NAMES.iter().filter(|other| **other != name);
        others.for_each(|other| pulls(&site, &target, other));
    }
}

/// The image with another size for its base in the manifest.
fn with_wrong_size(image: &Image, size: u64) -> Image {
    let mut image = image.clone();
    let mut manifest: Value = serde_json::from_slice(&image.root().bytes).unwrap();
    let digest = base().blob.digest.to_string();
    for layer in manifest["layers"].as_array_mut().unwrap() {
        if layer["digest"] == digest.as_str() {
            layer["size"] = size.into();
        }
    }
    let kind = manifest["mediaType"].as_str().unwrap().to_owned();
    let bytes = serde_json::to_vec(&manifest).unwrap();
    image.manifests = vec![RawManifest::new(Some(&kind), bytes).unwrap()];
    image
}

#[test]
fn a_wrong_size_in_one_manifest_fails_that_image_only() {
    for size in [5, 299_999, 300_001, 5_000_000] {
        let site = Site::new();
        let source = filled_registry(&site);
        source.put_image(&with_wrong_size(&image("one"), size), "org/one", "v1").unwrap();
        let ran = site.run(&format!("-c isc.yaml {PLAIN} {PATIENT} file://data"));
        assert_eq!((ran.code, ran.total("failed")), (8, 1), "{size}: {}", ran.out);
        assert_eq!(ran.image("org/one:")["outcome"], "failed", "{size}");
        let target = registry();
        let to = target.address();
        let line = format!("-c isc.yaml {PLAIN} {PATIENT} --workspace file://m docker://{to}");
        let ran = site.run(&line);
        assert_eq!((ran.code, ran.total("failed")), (8, 1), "{size}: {}", ran.out);
        assert_eq!(ran.image("org/one:")["outcome"], "failed", "{size}");
        NAMES[1..].iter().for_each(|name| pulls(&site, &target, name));
    }
}

#[test]
fn a_target_that_does_not_mount_gets_what_an_earlier_archive_transferred_from_itself() {
    let site = Site::new();
    let source = filled_registry(&site);
    let reference = |name: &str| source.image(&format!("org/{name}"), "v1").unwrap();
    site.images("first.yaml", &[reference("one")]);
    site.succeeds(&format!("-c first.yaml {PLAIN} file://data"));
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let archives = chunks(&site.path("data"));
    fs::create_dir(site.path("carried")).unwrap();
    fs::copy(&archives[0], site.path("carried/mirror_000001.tar")).unwrap();
    let target = registry();
    let to = target.address();
    site.succeeds(&format!("-c first.yaml {PLAIN} --from file://carried docker://{to}"));
    // The second archive does not have the base, and the first is missing.
    fs::remove_file(site.path("carried/mirror_000001.tar")).unwrap();
    fs::copy(&archives[1], site.path("carried/mirror_000002.tar")).unwrap();
    // It accepts uploads, and never mounts.
    target.fault(Fault::on(Method::POST, "mount=").does(Effect::status(405)));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://carried docker://{to}"));
    NAMES.iter().for_each(|name| pulls(&site, &target, name));
}

/// Changes one byte of a blob in a workspace.
fn flip(site: &Site, workspace: &str, digest: &oci::Digest) {
    let path = site.path(&format!("{workspace}/blobs/sha256/{}", digest.hex()));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
}

#[test]
fn content_that_was_damaged_on_the_disk_is_fetched_again_before_it_is_archived() {
    let site = Site::new();
    let source = filled_registry(&site);
    site.succeeds(&format!("-c isc.yaml {PLAIN} --no-archive file://data"));
    let two = image("two");
    let layer = two.blobs.values().find(|blob| blob.size < 300_000 && blob.size > 9_000).unwrap();
    for digest in [base().blob.digest, layer.digest, two.digest()] {
        flip(&site, "data", &digest);
    }
    source.forget_requests();
    let ran = site.succeeds(&format!("-c isc.yaml {PLAIN} {PATIENT} file://data"));
    let warnings = ran.report()["warnings"].to_string();
    assert!(warnings.contains(&base().blob.digest.to_string()), "{warnings}");
    assert!(warnings.contains("fetched again"), "{warnings}");
    assert_eq!(source.requests().blob_gets(&base().blob.digest), 1);
    assert_eq!(source.requests().blob_gets(&layer.digest), 1);
    fs::create_dir(site.path("carried")).unwrap();
    fs::copy(site.path("data/mirror_000001.tar"), site.path("carried/mirror_000001.tar")).unwrap();
    let target = registry();
    let to = target.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://carried docker://{to}"));
    NAMES.iter().for_each(|name| pulls(&site, &target, name));
}

#[test]
fn damaged_content_that_cannot_be_fetched_again_fails_its_images_by_name() {
    let site = Site::new();
    let source = filled_registry(&site);
    site.succeeds(&format!("-c isc.yaml {PLAIN} --no-archive file://data"));
    let two = image("two");
    let layer = two.blobs.values().find(|blob| blob.size < 300_000 && blob.size > 9_000).unwrap();
    flip(&site, "data", &layer.digest);
    source.fault(Fault::on(Method::GET, "/org/two/blobs/").does(Effect::status(404)));
    let ran = site.run(&format!("-c isc.yaml {PLAIN} {PATIENT} file://data"));
    assert_eq!((ran.code, ran.total("failed")), (8, 1), "{}", ran.out);
    assert_eq!(ran.image("org/two:")["outcome"], "failed");
    // The first run wrote no archive, so this is the archive of the second.
    fs::create_dir(site.path("carried")).unwrap();
    fs::copy(site.path("data/mirror_000002.tar"), site.path("carried/mirror_000002.tar")).unwrap();
    let target = registry();
    let to = target.address();
    let ran = site.run(&format!("-c isc.yaml {PLAIN} --from file://carried docker://{to}"));
    assert_eq!((ran.code, ran.total("failed")), (8, 1), "{}", ran.out);
    let others = NAMES.iter().filter(|name| **name != "two");
    others.for_each(|name| pulls(&site, &target, name));
}

#[test]
fn a_list_of_many_large_manifests_is_rejected_after_a_bounded_part_of_it() {
    // 128 MB in total. What is read of a list is held in memory, at most 64 MiB.
    const LISTED: usize = 32;
    let site = Site::new();
    let source = filled_registry(&site);
    let padding = "x".repeat(4_000_000);
    let children: Vec<RawManifest> = (0..LISTED)
        .map(|number| {
            let config = json!({
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": oci::Digest::of(b"{}"),
                "size": 2,
            });
            let manifest = json!({
                "schemaVersion": 2,
                "mediaType": oci::MediaType::OCI_MANIFEST,
                "config": config,
                "layers": [],
                "annotations": { "number": number.to_string(), "padding": padding },
            });
            let bytes = serde_json::to_vec(&manifest).unwrap();
            RawManifest::new(Some(oci::MediaType::OCI_MANIFEST), bytes).unwrap()
        })
        .collect();
    let listed: Vec<_> = children.iter().map(RawManifest::descriptor).collect();
    let mut hostile = image("hostile");
    hostile.manifests = vec![oci::referrers_index(listed)];
    hostile.manifests.extend(children);
    source.put_image(&hostile, "org/hostile", "v1").unwrap();
    let name = |name: &str| source.image(&format!("org/{name}"), "v1").unwrap();
    site.images("isc.yaml", &[name("hostile"), name("one")]);
    let ran = site.run(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(ran.total("copied"), 1, "{}", ran.out);
    let message = ran.image("hostile")["error"].to_string();
    assert!(message.contains("more than 64 MiB"), "{message}");
    let requests = source.requests().0.into_iter();
    let requests = requests.filter(|request| request.path.contains("/org/hostile/manifests/"));
    // The list, 64 MiB of manifests, and those that are requested at the same time.
    let most = 1 + 17 + 8;
    assert!(requests.clone().count() <= most, "{} of {LISTED}", requests.count());
}
