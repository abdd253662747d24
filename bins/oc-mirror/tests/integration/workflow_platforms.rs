//! Some platforms of a list, some images of an archive.

use crate::support;

use lab::docker_registry::{DockerRegistry, Settings as DockerSettings};
use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{LabRegistry, Settings};
use oci::{ImageRef, Platform};

use support::{PLAIN, Site};

const ARCHITECTURES: [&str; 3] = ["amd64", "arm64", "s390x"];

fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

fn list() -> Image {
    let of = |architecture: &str| {
        let layer = Layer::generate(architecture, 20_000, Compression::Gzip).unwrap();
        Image::new(Format::Oci, Platform::new("linux", architecture), &[layer]).unwrap()
    };
    Image::list(Format::Oci, ARCHITECTURES.map(of)).unwrap()
}

fn configure(site: &Site, image: &ImageRef, architectures: &[&str]) {
    let mut text = format!("  additionalImages:\n  - name: {image}\n");
    if !architectures.is_empty() {
        text += "    platforms:\n";
    }
    for architecture in architectures {
        text += &format!("    - {{os: linux, architecture: {architecture}}}\n");
    }
    site.image_set("isc.yaml", &text);
}

/// The list is there unchanged, with exactly these of its images.
fn holds(site: &Site, target: &LabRegistry, list: &Image, architectures: &[&str]) {
    let place = format!("docker://{}/org/list", target.address());
    let plain = ["--tls-verify=false"];
    assert_eq!(site.raw(&format!("{place}:v1"), &plain), list.root().bytes);
    for (at, architecture) in ARCHITECTURES.iter().enumerate() {
        let reference = format!("{place}@{}", list.manifests[1 + at].digest);
        if architectures.contains(architecture) {
            site.pull(&reference, &["--src-tls-verify=false"]);
        } else {
            let args = ["inspect", "--raw", "--tls-verify=false", &reference];
            assert!(!site.try_judge("skopeo", &args).status.success(), "{reference}");
        }
    }
}

#[test]
fn only_selected_platforms_are_fetched_and_the_list_stays_as_it_is() {
    let (source, list) = (registry(), list());
    source.put_image(&list, "org/list", "v1").unwrap();
    let image = source.image("org/list", "v1").unwrap();
    let site = Site::new();
    configure(&site, &image, &["amd64", "s390x"]);
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    for (at, fetched) in [(1, 1), (2, 0), (3, 1)] {
        let manifest = list.manifests[at].parse().unwrap();
        for blob in manifest.blobs() {
            assert_eq!(source.requests().blob_gets(&blob.digest), fetched);
        }
    }
    let target = registry();
    let to = target.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    holds(&site, &target, &list, &["amd64", "s390x"]);

    // Fewer platforms than the archive has, and one that it does not have.
    let target = registry();
    let to = target.address();
    configure(&site, &image, &["amd64"]);
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    holds(&site, &target, &list, &["amd64"]);
    configure(&site, &image, &["arm64"]);
    let ran = site.run(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    assert_eq!(ran.code, 8, "{}", ran.out);
    let error = ran.image("org/list")["error"].as_str().unwrap().to_owned();
    assert!(error.contains("left out") && error.contains("mirror it again"), "{error}");

    // A wider configuration adds the rest, and only that.
    source.forget_requests();
    configure(&site, &image, &[]);
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    for (at, fetched) in [(1, 0), (2, 1), (3, 0)] {
        for blob in list.manifests[at].parse().unwrap().blobs() {
            assert_eq!(source.requests().blob_gets(&blob.digest), fetched);
        }
    }
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    holds(&site, &target, &list, &ARCHITECTURES);
}

#[test]
fn a_target_that_takes_no_sparse_lists_is_named_with_the_remedy() {
    let (source, list) = (registry(), list());
    source.put_image(&list, "org/list", "v1").unwrap();
    source.put_image(&Image::tiny("plain").unwrap(), "org/plain", "v1").unwrap();
    let target = DockerRegistry::start(&DockerSettings::default()).unwrap();
    let to = target.address();
    let site = Site::new();
    let from = source.host().unwrap();
    let image = source.image("org/list", "v1").unwrap();
    site.image_set(
        "isc.yaml",
        &format!(
            "  additionalImages:\n  - name: {from}/org/plain:v1\n  - name: {image}\n    platforms:\n    - {{os: linux, architecture: amd64}}\n"
        ),
    );
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}");
    let ran = site.run(&line);
    assert_eq!(ran.code, 8, "{}", ran.out);
    let error = ran.image("org/list")["error"].as_str().unwrap().to_owned();
    assert!(error.contains(&to.to_string()), "the registry is named: {error}");
    assert!(error.contains("platforms"), "the remedy is named: {error}");
    assert_eq!(ran.image("org/plain")["outcome"], "copied");
    site.pull(&format!("docker://{to}/org/plain:v1"), &["--src-tls-verify=false"]);
    let tags = format!("docker://{to}/org/list:v1");
    let args = ["inspect", "--raw", "--tls-verify=false", &tags];
    assert!(!site.try_judge("skopeo", &args).status.success(), "no rewritten list is left there");

    // The remedy works.
    site.images("isc.yaml", &[format!("{from}/org/plain:v1"), image.to_string()]);
    site.succeeds(&line);
    site.pull(&tags, &["--src-tls-verify=false"]);
}

#[test]
fn some_transferred_images_may_be_pushed() {
    let source = registry();
    let images = ["one", "two", "three"].map(|name| {
        let image = Image::tiny(name).unwrap();
        source.put_image(&image, &format!("org/{name}"), "v1").unwrap();
        source.image(&format!("org/{name}"), "v1").unwrap()
    });
    let site = Site::new();
    site.images("all.yaml", &images);
    site.images("some.yaml", &images[1..2]);
    site.succeeds(&format!("-c all.yaml {PLAIN} file://data"));
    let target = registry();
    let to = target.address();
    let ran = site.succeeds(&format!("-c some.yaml {PLAIN} --from file://data docker://{to}"));
    assert_eq!(ran.total("images"), 1);
    let requested = target.requests().0;
    assert!(requested.iter().all(|request| request.path.contains("/org/two/")), "{requested:?}");
    site.pull(&format!("docker://{to}/org/two:v1"), &["--src-tls-verify=false"]);
}
