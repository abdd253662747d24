//! What there is to mirror: asked of those who know, and read from what was carried.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

mod support;

use support::releases::{World, chain, channel};
use support::{PLAIN, Ran, Site};

/// Runs a command that looks something up; the JSON report of mirroring is not its.
fn look(world: &World, site: &Site, line: &str) -> Ran {
    Ran::of(world.command(site, line).output().unwrap())
}

fn prints(world: &World, site: &Site, line: &str) -> String {
    let ran = look(world, site, line);
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
fn what_cannot_be_listed_says_why() {
    let (world, _) = World::with(&["4.16.1"]);
    let site = world.site();
    for (line, wanted) in [
        ("list releases --channels", "--version"),
        ("list releases --version 4", "a minor version is due, such as 4.16"),
        ("list releases --version 4.16.1", "a minor version is due"),
        ("list releases --version 4.16 --filter-by-archs x86_64", "x86_64 is amd64"),
        ("list releases --channel stabel-4.16", "did you mean stable-4.16?"),
        ("list images --release 4.16", "is no release"),
        ("list images --release 4.16.7", "no channel has a release 4.16.7"),
        ("list images --release quay.io/a/b", "neither tag nor digest"),
        ("list releases --from file://nowhere", "no directory"),
        ("list operators --catalogs", "not part of this version"),
    ] {
        let ran = look(&world, &site, line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.out);
        assert!(ran.err.contains(wanted), "{line}: {}", ran.err);
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
    let ran = look(&world, &site, "list images --release 4.16.1 --src-tls-verify=false");
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
    let asked = world.quay.requests().count() + world.service.server.requests().count();
    assert_eq!(asked + world.signatures.server.requests().count(), 0);
}
