//! From registry to registry, straight.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lab::corpus::Corpus;
use lab::images::{Image, SigningKey};
use lab::registry::{LabRegistry, Settings};

use support::{PLAIN, Ran, Site};

fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

/// The names of all files below a directory.
fn file_names(directory: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            file_names(&entry.path(), names);
        } else {
            names.insert(entry.file_name().into_string().unwrap());
        }
    }
}

fn destinations(ran: &Ran, registry: &LabRegistry) -> Vec<String> {
    let report = ran.report();
    let images = report["images"].as_array().unwrap().iter();
    let of = |text: &str| text.replace(&registry.address().to_string(), "TARGET");
    images.map(|image| of(image["destination"].as_str().unwrap())).collect()
}

/// Cluster resources without what differs by target and time.
fn resources(site: &Site, workspace: &str, registry: &LabRegistry) -> Vec<(String, String)> {
    let directory = site.path(workspace).join("working-dir/cluster-resources");
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let mut files: Vec<(String, String)> = entries
        .map(|entry| {
            let text = fs::read_to_string(entry.path()).unwrap();
            let lines = text.lines().filter(|line| !line.contains("createdAt"));
            let text = lines.collect::<Vec<_>>().join("\n");
            let text = text.replace(&registry.address().to_string(), "TARGET");
            (entry.file_name().into_string().unwrap(), text)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn straight_and_over_a_disk_give_the_same_names_content_and_resources() {
    let corpus = Corpus::sample(&SigningKey::generate().unwrap()).unwrap();
    let (source, straight, over_disk) = (registry(), registry(), registry());
    corpus.fill(&source).unwrap();
    let renamed = Image::tiny("renamed").unwrap();
    source.put_image(&renamed, "sample/renamed", "v1").unwrap();
    let site = Site::new();
    let from = source.host().unwrap();
    let more = format!(
        "  - name: {from}/sample/docker@{}\n  - name: {from}/sample/renamed:v1\n    targetRepo: new/name\n    targetTag: t\n",
        corpus.entries[0].image.digest()
    );
    site.write("isc.yaml", &(corpus.image_set(&from) + &more));

    let ran = site.succeeds(&format!(
        "-c isc.yaml {PLAIN} --workspace file://straight docker://{}/ocp",
        straight.address()
    ));
    assert_eq!(ran.report()["ending"], "complete");
    let names = destinations(&ran, &straight);
    assert_eq!(names.len(), 7);
    for (digest, _) in corpus.blobs() {
        assert_eq!(source.requests().blob_gets(&digest), 1, "{digest} passes once");
        let sent = straight.requests();
        assert!(sent.blob_puts(&digest) <= 1, "{digest} is sent once, then mounted");
    }
    let mut kept = BTreeSet::new();
    file_names(&site.path("straight"), &mut kept);
    for digest in corpus.blobs().keys() {
        assert!(!kept.contains(&digest.hex()), "{digest} is in the workspace");
    }
    for digest in corpus.manifests() {
        assert!(kept.contains(&digest.hex()), "{digest} is not in the workspace");
    }

    site.succeeds(&format!("-c isc.yaml {PLAIN} file://disk"));
    let ran = site.succeeds(&format!(
        "-c isc.yaml {PLAIN} --from file://disk docker://{}/ocp",
        over_disk.address()
    ));
    assert_eq!(destinations(&ran, &over_disk), names);
    let made = resources(&site, "straight", &straight);
    assert!(!made.is_empty());
    assert_eq!(made, resources(&site, "disk", &over_disk));
    for target in [&straight, &over_disk] {
        for name in &names {
            let name = name.replace("TARGET", &target.address().to_string());
            site.pull(&format!("docker://{name}"), &["--src-tls-verify=false"]);
        }
        for entry in &corpus.entries {
            let place =
                format!("docker://{}/ocp/{}:{}", target.address(), entry.repository, entry.tag);
            assert_eq!(site.raw(&place, &["--tls-verify=false"]), entry.image.root().bytes);
        }
    }
}

#[test]
fn a_rerun_sends_one_request_per_image_and_side_and_notices_a_new_target() {
    let corpus = Corpus::sample(&SigningKey::generate().unwrap()).unwrap();
    let (source, target) = (registry(), registry());
    corpus.fill(&source).unwrap();
    let site = Site::new();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data docker://{}", target.address());
    site.succeeds(&line);
    source.forget_requests();
    target.forget_requests();

    let ran = site.succeeds(&line);
    let images = corpus.entries.len();
    assert_eq!((ran.total("present"), ran.total("copied")), (images as u64, 0));
    for side in [source.requests(), target.requests()] {
        assert_eq!((side.heads(), side.count()), (images, images), "{side:?}");
    }

    target.wipe();
    let ran = site.succeeds(&line);
    assert_eq!(ran.total("copied"), images as u64);
    for name in corpus.references(&target.host().unwrap()) {
        site.pull(&format!("docker://{name}"), &["--src-tls-verify=false"]);
    }
}

#[test]
fn a_rerun_to_disk_sends_one_request_per_tag_and_none_for_digests() {
    let source = registry();
    let (by_tag, by_digest) = (Image::tiny("tag").unwrap(), Image::tiny("digest").unwrap());
    source.put_image(&by_tag, "a/tag", "v1").unwrap();
    source.put_image(&by_digest, "a/digest", "v1").unwrap();
    let from = source.host().unwrap();
    let site = Site::new();
    site.images(
        "isc.yaml",
        &[format!("{from}/a/tag:v1"), format!("{from}/a/digest@{}", by_digest.digest())],
    );
    let line = format!("-c isc.yaml {PLAIN} file://data");
    site.succeeds(&line);
    source.forget_requests();
    let ran = site.succeeds(&line);
    assert_eq!(ran.total("present"), 2);
    let requested = source.requests();
    assert_eq!((requested.heads(), requested.count()), (1, 1), "{requested:?}");
    assert!(requested.0[0].path.ends_with("/a/tag/manifests/v1"));
}

#[test]
fn a_tag_that_moved_is_copied_again_and_its_shared_layers_are_not() {
    let (source, target) = (registry(), registry());
    let mut corpus = Corpus::tiny(3).unwrap();
    corpus.fill(&source).unwrap();
    let site = Site::new();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data docker://{}", target.address());
    site.succeeds(&line);
    let moved = Corpus::tiny(4).unwrap().entries.remove(3).image;
    source.put_image(&moved, corpus.entries[0].repository.as_str(), "v0").unwrap();
    corpus.entries[0].image = moved;
    let ran = site.succeeds(&line);
    // All but the base layer is new: its own layer and its configuration.
    assert_eq!((ran.total("copied"), ran.total("present"), ran.total("blobs")), (1, 2, 2));
    let place = corpus.references(&target.host().unwrap()).next().unwrap();
    let held = site.raw(&format!("docker://{place}"), &["--tls-verify=false"]);
    assert_eq!(held, corpus.entries[0].image.root().bytes);
}

#[test]
fn through_the_workspace_all_content_stays_there_and_can_be_pushed_again() {
    let corpus = Corpus::sample(&SigningKey::generate().unwrap()).unwrap();
    let (source, target, other) = (registry(), registry(), registry());
    corpus.fill(&source).unwrap();
    let site = Site::new();
    let from = source.host().unwrap();
    site.write("isc.yaml", &corpus.image_set(&from));
    let to = target.address();
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}");
    site.succeeds(&line);
    let direct = target.content();
    // What is at the target already is fetched too.
    let ran = site.succeeds(&format!("{line} --through-workspace"));
    assert_eq!((ran.total("copied"), ran.total("failed")), (0, 0));
    assert_eq!(target.content(), direct);
    source.wipe();
    let again = other.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{again}"));
    assert_eq!(other.content(), direct);
    let refused = site.run(&format!("-c isc.yaml {PLAIN} --through-workspace file://data"));
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("--workspace"), "{}", refused.err);
}
