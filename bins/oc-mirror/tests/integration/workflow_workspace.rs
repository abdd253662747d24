//! The workspace itself: served, shared by configurations, read by others, moved.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use lab::corpus::Corpus;
use lab::images::{Compression, Format, Image, Layer, SigningKey};
use lab::registry::{LabRegistry, Settings};
use oci::Platform;
use serde_json::Value;

use support::serving::Serving;
use support::{PLAIN, Site, chunks, copy};

fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

#[test]
fn every_image_is_pulled_from_a_served_workspace_under_the_names_of_a_target() {
    let key = SigningKey::generate().unwrap();
    let corpus = Corpus::sample(&key).unwrap();
    let source = registry();
    corpus.fill(&source).unwrap();
    let renamed = Image::tiny("renamed").unwrap();
    source.put_image(&renamed, "sample/renamed", "v1").unwrap();
    let from = source.host().unwrap();
    let docker = &corpus.entries[0].image;
    let site = Site::new();
    let more = format!(
        "  - name: {from}/sample/docker@{}\n  - name: {from}/sample/renamed:v1\n    targetRepo: new/name\n    targetTag: stable\n",
        docker.digest()
    );
    site.write("isc.yaml", &(corpus.image_set(&from) + &more));
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    drop(source);

    let serving = Serving::start(&site, "file://data");
    let place = |name: &str| format!("docker://{}/{name}", serving.address);
    let mut expected: Vec<(String, &Image)> = corpus
        .entries
        .iter()
        .map(|entry| (format!("{}:{}", entry.repository, entry.tag), &entry.image))
        .collect();
    expected.push((format!("sample/docker:sha256-{}", docker.digest().hex()), docker));
    expected.push(("new/name:stable".into(), &renamed));
    for (name, image) in expected {
        assert_eq!(site.raw(&place(&name), &["--tls-verify=false"]), image.root().bytes, "{name}");
        site.pull(&place(&name), &["--src-tls-verify=false"]);
    }
    let signed = corpus.entries.iter().find(|entry| entry.image.attachments.len() == 3).unwrap();
    for attachment in &signed.image.attachments {
        let name = format!("{}:{}", signed.repository, attachment.tag.as_ref().unwrap());
        let held = site.raw(&place(&name), &["--tls-verify=false"]);
        assert_eq!(held, attachment.manifest.bytes, "{name}");
    }

    // What is served is itself a source for a mirror.
    let target = registry();
    let inner = Site::new();
    inner.redirect(from.as_str(), serving.address);
    inner.write("isc.yaml", &corpus.image_set(&from));
    let to = target.address();
    inner.succeeds(&format!(
        "-c isc.yaml --dest-tls-verify=false --workspace file://data docker://{to}"
    ));
    for entry in &corpus.entries {
        let name = format!("docker://{to}/{}:{}", entry.repository, entry.tag);
        assert_eq!(inner.raw(&name, &["--tls-verify=false"]), entry.image.root().bytes);
    }
}

#[test]
fn a_served_workspace_refuses_to_be_written() {
    let source = registry();
    source.put_image(&Image::tiny("x").unwrap(), "a/x", "v1").unwrap();
    let site = Site::new();
    site.images("isc.yaml", &[source.image("a/x", "v1").unwrap()]);
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let serving = Serving::start(&site, "file://data");
    let to = format!("docker://{}/a/y:v1", serving.address);
    let from = format!("docker://{}/a/x:v1", serving.address);
    let plain = ["--src-tls-verify=false", "--dest-tls-verify=false"];
    let args = [&["copy"], &plain[..], &[&from, &to]].concat();
    assert!(!site.try_judge("skopeo", &args).status.success());
}

#[test]
fn an_image_of_a_later_run_is_served_without_a_restart() {
    let source = registry();
    for name in ["a/x", "a/y"] {
        source.put_image(&Image::tiny(name).unwrap(), name, "v1").unwrap();
    }
    let site = Site::new();
    site.images("x.yaml", &[source.image("a/x", "v1").unwrap()]);
    site.images("y.yaml", &[source.image("a/y", "v1").unwrap()]);
    site.succeeds(&format!("-c x.yaml {PLAIN} file://data"));
    let serving = Serving::start(&site, "file://data");
    let later = format!("docker://{}/a/y:v1", serving.address);
    let inspect = ["inspect", "--tls-verify=false", &later];
    assert!(!site.try_judge("skopeo", &inspect).status.success());
    site.succeeds(&format!("-c y.yaml {PLAIN} file://data"));
    let deadline = Instant::now() + Duration::from_secs(300);
    while !site.try_judge("skopeo", &inspect).status.success() {
        assert!(Instant::now() < deadline, "the image of the second run is not served");
        thread::sleep(Duration::from_millis(500));
    }
}

fn list() -> Image {
    let of = |architecture: &str| {
        let layer = Layer::generate(architecture, 9_000, Compression::Gzip).unwrap();
        Image::new(Format::Docker, Platform::new("linux", architecture), &[layer]).unwrap()
    };
    Image::list(Format::Docker, ["amd64", "arm64"].map(of)).unwrap()
}

#[test]
fn a_second_configuration_loses_nothing_of_the_first() {
    let source = registry();
    let (list, shared) = (list(), Image::tiny("shared").unwrap());
    source.put_image(&list, "org/list", "v1").unwrap();
    source.put_image(&shared, "org/shared", "v1").unwrap();
    source.put_image(&Image::tiny("only b").unwrap(), "org/only-b", "v1").unwrap();
    let from = source.host().unwrap();
    let site = Site::new();
    site.images("a.yaml", &[format!("{from}/org/list:v1"), format!("{from}/org/shared:v1")]);
    site.image_set(
        "b.yaml",
        &format!(
            "  additionalImages:
  - name: {from}/org/list:v1
    platforms:
    - {{os: linux, architecture: amd64}}
  - name: {from}/org/shared:v1
    targetRepo: b/shared
  - name: {from}/org/only-b:v1
"
        ),
    );
    site.succeeds(&format!("-c a.yaml {PLAIN} file://data"));
    let ran = site.succeeds(&format!("-c b.yaml {PLAIN} file://data"));
    assert_eq!(ran.total("blobs"), 2, "only the image that is new is fetched: {}", ran.out);

    // From both archives, and from the workspace alone.
    let archives = Site::new();
    fs::create_dir(archives.path("data")).unwrap();
    for chunk in chunks(&site.path("data")) {
        fs::copy(&chunk, archives.path("data").join(chunk.file_name().unwrap())).unwrap();
        fs::remove_file(chunk).unwrap();
    }
    for name in ["a.yaml", "b.yaml"] {
        fs::copy(site.path(name), archives.path(name)).unwrap();
    }
    for side in [&site, &archives] {
        let (a, b) = (registry(), registry());
        let push = |name: &str, to: &LabRegistry| {
            let to = to.address();
            side.succeeds(&format!("-c {name} {PLAIN} --from file://data docker://{to}"));
        };
        push("a.yaml", &a);
        push("b.yaml", &b);
        let pull = |registry: &LabRegistry, name: &str| {
            let reference = format!("docker://{}/{name}", registry.address());
            side.pull(&reference, &["--src-tls-verify=false"]);
        };
        pull(&a, "org/list:v1");
        pull(&a, "org/shared:v1");
        pull(&b, &format!("org/list@{}", list.manifests[1].digest));
        pull(&b, "b/shared:v1");
        pull(&b, "org/only-b:v1");
    }

    // Both names of one image are served.
    let serving = Serving::start(&site, "data");
    for name in ["org/shared:v1", "b/shared:v1", "org/list:v1", "org/only-b:v1"] {
        let reference = format!("docker://{}/{name}", serving.address);
        site.pull(&reference, &["--src-tls-verify=false"]);
    }
}

/// Directories with an OCI layout below one, in order.
fn layouts(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        if directory.join("oci-layout").exists() {
            found.push(directory);
            continue;
        }
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn each_image_is_a_layout_that_skopeo_reads_here_and_in_a_plain_copy() {
    let corpus = Corpus::sample(&SigningKey::generate().unwrap()).unwrap();
    let source = registry();
    corpus.fill(&source).unwrap();
    let site = Site::new();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --no-archive file://data"));
    copy(&site.path("data"), &site.path("copied"));
    // A filesystem without links gets a blob for each.
    let [data, unlinked] = ["data", "unlinked"].map(|name| site.path(name).display().to_string());
    site.judge("cp", &["-rL", &data, &unlinked]);
    for workspace in ["data", "copied", "unlinked"] {
        let layouts = layouts(&site.path(workspace).join("images"));
        assert_eq!(layouts.len(), corpus.entries.len());
        let mut digests = Vec::new();
        for layout in layouts {
            let reference = format!("oci:{}", layout.display());
            let raw = site.raw(&reference, &[]);
            digests.push(oci::Digest::of(&raw));
            let parsed: Value = serde_json::from_slice(&raw).unwrap();
            if parsed["manifests"].is_null() {
                site.skopeo(&["inspect", &reference]);
            }
            site.pull(&reference, &[]);
        }
        digests.sort();
        let mut expected: Vec<_> =
            corpus.entries.iter().map(|entry| entry.image.digest()).collect();
        expected.sort();
        assert_eq!(digests, expected);
    }

    // The copy continues as the original would.
    fs::remove_dir_all(site.path("data")).unwrap();
    source.forget_requests();
    let ran = site.succeeds(&format!("-c isc.yaml {PLAIN} file://copied"));
    assert_eq!(ran.total("present"), corpus.entries.len() as u64);
    assert_eq!(source.requests().count(), corpus.entries.len());
    drop(source);
    let target = registry();
    let to = target.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://copied docker://{to}"));
    for name in corpus.references(&target.host().unwrap()) {
        site.pull(&format!("docker://{name}"), &["--src-tls-verify=false"]);
    }
}

#[test]
fn a_layout_made_by_skopeo_is_a_source() {
    let source = registry();
    let image = list();
    source.put_image(&image, "org/list", "v1").unwrap();
    let site = Site::new();
    let from = format!("docker://{}", source.image("org/list", "v1").unwrap());
    let layout = site.path("layouts/mine");
    fs::create_dir_all(layout.parent().unwrap()).unwrap();
    let to = format!("oci:{}", layout.display());
    site.skopeo(&["copy", "--quiet", "--all", "--src-tls-verify=false", &from, &to]);
    let index = site.raw(&to, &[]);
    drop(source);
    site.image_set(
        "isc.yaml",
        &format!(
            "  additionalImages:\n  - name: oci://{}\n    targetRepo: from/layout\n    targetTag: v7\n",
            layout.display()
        ),
    );
    let target = registry();
    let to = target.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    let place = format!("docker://{to}/from/layout:v7");
    assert_eq!(site.raw(&place, &["--tls-verify=false"]), index);
    site.pull(&place, &["--src-tls-verify=false"]);
}
