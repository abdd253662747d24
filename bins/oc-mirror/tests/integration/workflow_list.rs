//! Lists of what can be mirrored: from registries and services, and from transferred content.

use crate::support;

use std::path::PathBuf;

use lab::catalogs::Shape;
use lab::data_tier;
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use lab::update_service::Graph;
use serde_json::json;
use support::operators::{catalog_image, package};
use support::releases::{World, chain, channel};
use support::{PLAIN, Ran, Site};

/// Runs a query command, to which the JSON report of mirroring does not apply.
fn run_lookup(world: &World, site: &Site, line: &str) -> Ran {
    Ran::of(world.command(site, line).output().unwrap())
}

fn prints(world: &World, site: &Site, line: &str) -> String {
    let ran = run_lookup(world, site, line);
    assert_eq!(ran.code, 0, "{line}: {}", ran.err);
    ran.out
}

#[test]
fn releases_are_listed_by_minor_version_channel_and_architecture() {
    let (world, releases) = World::with(&["4.16.1", "4.16.10", "4.16.2"]);
    world.service.publish("stable-4.16", "arm64", &chain(&releases[..1]));
    let site = world.site();
    assert_eq!(
        prints(&world, &site, "list releases --src-tls-verify=false"),
        "Available OpenShift Container Platform release versions:\n  4.16\n"
    );
    let text = prints(&world, &site, "list releases --version 4.16");
    assert!(
        text.ends_with("\n\nChannel: stable-4.16\nArchitecture: amd64\n4.16.1\n4.16.2\n4.16.10\n"),
        "{text}"
    );
    assert_eq!(
        prints(&world, &site, "list releases --channel stable-4.16 --filter-by-archs arm64,amd64"),
        "Channel: stable-4.16\nArchitecture: amd64\n4.16.1\n4.16.2\n4.16.10\n\n\
         Channel: stable-4.16\nArchitecture: arm64\n4.16.1\n"
    );
    assert_eq!(
        prints(&world, &site, "list releases --version 4.16 --channels"),
        "Listing channels for version 4.16:\n\ncandidate-4.16\nfast-4.16\nstable-4.16\n"
    );
    let json = prints(&world, &site, "list releases --channel stable-4.16 -o json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["versions"], serde_json::json!(["4.16.1", "4.16.2", "4.16.10"]));
}

#[test]
fn channels_of_a_version_are_those_of_its_own_releases() {
    let world = World::empty();
    let payload = "quay.io/openshift-release-dev/ocp-release@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let graph = Graph::default()
        .node_in("4.7.33", payload, &["eus-4.8", "stable-4.7", "stable-4.8"])
        .node_in("4.8.14", payload, &["fast-4.8", "stable-4.8", "stable-4.9"])
        .edge("4.7.33", "4.8.14");
    world.service.publish("stable-4.8", "amd64", &graph);
    let before = Graph::default().node_in("4.8.57", payload, &["stable-4.8", "stable-4.9"]);
    world.service.publish("stable-4.9", "amd64", &before);
    let site = world.site();
    assert_eq!(
        prints(&world, &site, "list releases --version 4.8 --channels"),
        "Listing channels for version 4.8:\n\nfast-4.8\nstable-4.8\nstable-4.9\n"
    );
    let ran = run_lookup(&world, &site, "list releases --version 4.9 --channels");
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("channel stable-4.9 has no release of 4.9"), "{}", ran.err);
}

#[test]
fn what_cannot_be_listed_is_reported_with_the_reason() {
    let (world, _) = World::with(&["4.16.1"]);
    let site = world.site();
    for (line, expected) in [
        ("list releases --channels", "--version"),
        ("list releases --version 4", "expected a minor version, such as 4.16"),
        ("list releases --version 4.16.1", "expected a minor version"),
        ("list releases --version 4.16 --filter-by-archs x86_64", "x86_64 is amd64"),
        ("list releases --channel stabel-4.16", "did you mean stable-4.16?"),
        ("list images --release 4.16", "is not a release: expected a version"),
        ("list images --release 4.16.7", "no channel has a release 4.16.7"),
        ("list images --release quay.io/a/b", "neither tag nor digest"),
        ("list releases --from file://nowhere", "not a directory"),
    ] {
        let ran = run_lookup(&world, &site, line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.out);
        assert!(ran.err.contains(expected), "{line}: {}", ran.err);
    }
}

#[test]
fn the_images_of_a_release_are_listed_with_digest_and_size() {
    let (world, releases) = World::with(&["4.16.1"]);
    let site = world.site();
    let release = &releases[0];
    let by_name = format!("list images --release {}", release.reference());
    let plain = "--src-tls-verify=false -o json";
    for line in ["list images --release 4.16.1", by_name.as_str()] {
        let json = prints(&world, &site, &format!("{line} {plain}"));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["version"], "4.16.1");
        let lines = json["components"].as_array().unwrap();
        assert_eq!(lines.len(), release.components.len());
        for (line, (name, image)) in lines.iter().zip(&release.components) {
            assert_eq!(line["name"], *name);
            assert!(line["image"].as_str().unwrap().ends_with(&image.digest().to_string()));
            let bytes: u64 = image.blobs.values().map(|blob| blob.size).sum();
            assert_eq!(line["bytes"], bytes, "{name}");
        }
    }
    let text = prints(&world, &site, "list images --release 4.16.1 --src-tls-verify=false");
    assert!(text.contains("Payload: ") && text.contains("etcd"), "{text}");

    // A release that is not signed is not opened.
    world.signatures.wipe();
    let ran = run_lookup(&world, &site, "list images --release 4.16.1 --src-tls-verify=false");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("signature"), "{}", ran.err);
}

#[test]
fn all_of_it_is_read_from_an_archive_too() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", "      full: true\n"));
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    let archive = support::chunks(&site.path("data")).remove(0);
    let other = Site::new();
    other.write("release-key.asc", world.key.public());
    std::fs::create_dir(other.path("data")).unwrap();
    std::fs::copy(&archive, other.path("data").join(archive.file_name().unwrap())).unwrap();
    world.forget_requests();
    assert!(prints(&world, &other, "list releases --from file://data").contains("  4.16\n"));
    let text = prints(&world, &other, "list releases --version 4.16 --from file://data");
    assert!(text.ends_with("4.16.1\n4.16.2\n"), "{text}");
    let line = "list images --release 4.16.2 --from file://data -o json";
    let json: serde_json::Value = serde_json::from_str(&prints(&world, &other, line)).unwrap();
    let payload = json["payload"].as_str().unwrap();
    assert!(payload.ends_with(&releases[1].payload.digest().to_string()), "{payload}");
    assert!(json["bytes"].as_u64().is_some());
    let requested = world.quay.requests().count() + world.service.server.requests().count();
    assert_eq!(requested + world.signatures.server.requests().count(), 0);
}

/// A registry in place of Red Hat's, with one catalog of two packages.
fn red_hat() -> (LabRegistry, Site) {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    let logging = package(
        "cluster-logging",
        "stable-5.9",
        &[
            ("5.9.6", json!({})),
            (
                "5.9.10",
                json!({ "replaces": "cluster-logging.v5.9.6", "skipRange": ">=5.8.0 <5.9.10" }),
            ),
        ],
    );
    let nfd = package("nfd", "stable", &[("4.16.0", json!({}))]);
    let files = [("logging/catalog.json", logging.as_bytes()), ("nfd.json", nfd.as_bytes())];
    let image = catalog_image(&files);
    registry.put_image(&image, "redhat/redhat-operator-index", "v4.16").unwrap();
    let site = Site::new();
    site.redirect("registry.redhat.io", registry.address());
    (registry, site)
}

const INDEX: &str = "registry.redhat.io/redhat/redhat-operator-index:v4.16";

fn listed(site: &Site, line: &str) -> Ran {
    Ran::of(site.command(&format!("list operators {line}")).output().unwrap())
}

#[test]
fn operators_are_listed_by_catalog_package_channel_and_version() {
    let (_registry, site) = red_hat();
    let prints = |line: &str| {
        let ran = listed(&site, line);
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        ran.out
    };
    assert_eq!(
        prints("--catalogs --version 4.16"),
        format!("Available OpenShift OperatorHub catalogs:\nOpenShift 4.16:\n{INDEX}\n")
    );
    // Display names stay on their line.
    assert_eq!(
        prints(&format!("--catalog {INDEX}")),
        "NAME             DISPLAY NAME                  DEFAULT CHANNEL\n\
         cluster-logging  The cluster-logging operator  stable-5.9\n\
         nfd              The nfd operator              stable\n"
    );
    assert_eq!(
        prints(&format!("--catalog {INDEX} --package nfd")),
        "NAME  DISPLAY NAME      DEFAULT CHANNEL\nnfd   The nfd operator  stable\n\n\
         PACKAGE  CHANNEL  HEAD\nnfd      stable   nfd.v4.16.0\n"
    );
    let versions = format!("--catalog {INDEX} --package cluster-logging --channel stable-5.9");
    // In the order of the names of bundles.
    assert_eq!(prints(&versions), "VERSIONS\n5.9.10\n5.9.6\n");
    let json: serde_json::Value =
        serde_json::from_str(&prints(&format!("{versions} -o json"))).unwrap();
    assert_eq!(json["versions"], json!(["5.9.10", "5.9.6"]));
    assert_eq!(json["channel"], "stable-5.9");
    let yaml = prints(&format!("--catalog {INDEX} --package nfd -o yaml"));
    assert!(yaml.contains("head: nfd.v4.16.0"), "{yaml}");
    let table = format!("--catalog docker://{INDEX} -o table");
    assert_eq!(prints(&table), prints(&format!("--catalog {INDEX}")));
}

#[test]
fn operators_are_listed_from_transferred_content_too() {
    let (registry, site) = red_hat();
    site.redirect("quay.io", registry.address());
    let bundle = lab::images::Image::tiny("nfd").unwrap();
    registry.put_image(&bundle, "org/nfd", "4.16.0").unwrap();
    let set = format!("  operators:\n  - catalog: {INDEX}\n    packages:\n    - name: nfd\n");
    site.image_set("isc.yaml", &set);
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let other = Site::new();
    std::fs::create_dir(other.path("data")).unwrap();
    for chunk in support::chunks(&site.path("data")) {
        std::fs::copy(&chunk, other.path("data").join(chunk.file_name().unwrap())).unwrap();
    }
    registry.forget_requests();
    let prints = |line: &str| {
        let ran = listed(&other, &format!("{line} --from file://data"));
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        ran.out
    };
    assert!(prints("--catalogs").contains(INDEX));
    // All of the catalog is there, not only what was selected from it.
    let packages = prints(&format!("--catalog {INDEX}"));
    assert!(packages.contains("nfd") && packages.contains("cluster-logging"), "{packages}");
    let versions = format!("--catalog {INDEX} --package nfd --channel stable");
    assert_eq!(prints(&versions), "VERSIONS\n4.16.0\n");
    let walk = format!(
        "upgrade-path operator --catalog {INDEX} --package cluster-logging --from 5.9.6 --workspace file://data"
    );
    let walk = Ran::of(other.command(&walk).output().unwrap());
    assert!(walk.code == 0 && walk.out.contains("5.9.10 (head)"), "{}{}", walk.out, walk.err);
    // A catalog that was not transferred is reported with those that were.
    let ran = listed(&other, "--catalog quay.io/a/b:1 --from file://data");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains(INDEX), "{}", ran.err);
    assert_eq!(registry.requests().count(), 0);
}

#[test]
fn catalogs_have_the_channels_and_heads_that_opm_finds() {
    let folder = tempfile::tempdir().unwrap();
    let (small, long) = (folder.path().join("small"), folder.path().join("long"));
    lab::operators::Operators::generate().unwrap().write(&small).unwrap();
    let shape = Shape { packages: 3, bundles: 25, text: 600, ..Shape::SMALL };
    lab::catalogs::write(shape, &long).unwrap();
    lists_as_opm(&[small, long]);
}

#[test]
fn real_catalogs_have_the_channels_and_heads_that_opm_finds() {
    let Some(folder) = data_tier("operator-catalogs") else { return };
    let names = ["redhat-art-4.17", "oc-mirror-integration/test-catalog-latest"];
    lists_as_opm(&names.map(|name| folder.join(name)));
}

/// Lists these catalogs and compares with what opm lists.
fn lists_as_opm(folders: &[PathBuf]) {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    let site = Site::new();
    site.redirect("registry.redhat.io", registry.address());
    for folder in folders {
        let files = files_below(folder);
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
        registry.put_image(&catalog_image(&files), "c", "v1").unwrap();
        let opm = lab::tools::path(lab::tools::Tool::Opm).unwrap();
        let list = ["alpha", "list", "channels", folder.to_str().unwrap()];
        let message = String::from_utf8(site.judge(opm.to_str().unwrap(), &list)).unwrap();
        let rows = |text: &str| -> Vec<Vec<String>> {
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
            text.lines()
                .skip_while(|line| !line.starts_with("PACKAGE"))
                .skip(1)
                .map(words)
                .collect()
        };
        let expected = rows(&message);
        assert!(expected.len() > 3, "{message}");
        let mut packages: Vec<&str> = expected.iter().map(|row| row[0].as_str()).collect();
        packages.dedup();
        let mut found = Vec::new();
        for package in packages {
            let line = format!("--catalog registry.redhat.io/c:v1 --package {package}");
            let ran = listed(&site, &line);
            assert_eq!(ran.code, 0, "{line}: {}", ran.err);
            found.extend(rows(&ran.out));
        }
        assert_eq!(found, expected, "{}", folder.display());
    }
}

/// The files below a folder, with their paths from there.
fn files_below(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                    files.push((name, std::fs::read(&path).unwrap()));
                }
            }
        }
    }
    files
}

#[test]
fn what_of_operators_cannot_be_listed_is_reported_with_the_reason() {
    let (registry, site) = red_hat();
    for (line, expected) in [
        ("", "--catalog"),
        ("--catalogs", "--catalogs needs --version"),
        ("--catalogs --version 4.99", "publishes no catalogs for OpenShift 4.99"),
        ("--catalog a.io/b", "neither tag nor digest"),
        ("--catalog a.io/b:1 --channel x", "--package"),
        ("--catalog IT --package nfdd", "did you mean nfd?"),
        ("--catalog IT --package logging", "did you mean cluster-logging?"),
        ("--catalog IT --package cluster-logging --channel stable-5.8", "did you mean stable-5.9?"),
        ("--catalog IT --package nfd --channel xyz", "it has stable"),
        ("--catalog registry.redhat.io/redhat/other:v1", "redhat/other:v1"),
    ] {
        let line = line.replace("IT", INDEX);
        let ran = listed(&site, &line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.out);
        assert!(ran.err.contains(expected), "{line}: {}", ran.err);
        assert_eq!(ran.out, "", "{line}");
    }
    // An image that is not a catalog.
    let image = lab::images::Image::tiny("plain").unwrap();
    registry.put_image(&image, "redhat/plain", "v1").unwrap();
    let ran = listed(&site, "--catalog registry.redhat.io/redhat/plain:v1");
    assert!(ran.err.contains("it is not a file-based catalog"), "{}", ran.err);
}

#[test]
fn a_registry_that_fails_gets_as_many_retries_as_requested() {
    let (registry, site) = red_hat();
    registry.fault(Fault::on_any("/manifests/").does(Effect::status(503)));
    let ran = listed(&site, &format!("--catalog {INDEX} --retry-times 2 --retry-delay 1ms"));
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("503"), "{}", ran.err);
    let requested = registry.requests().manifest_gets();
    assert_eq!(requested, 3, "once, and twice again: {}", ran.err);
}
