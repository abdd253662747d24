//! Texts of oc-mirror v2 that scripts search for. They are fixed: our own
//! explanation may follow them, and must not replace them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

use lab::images::Image;
use lab::registry::{LabRegistry, Settings};

use crate::support::releases::{World, channel};
use crate::support::{PLAIN, Ran, Site};

/// Runs the program as a script does, and returns the code and all it printed.
fn printed(site: &Site, line: &str) -> (i32, String) {
    let ran = Ran::of(site.command(line).output().unwrap());
    (ran.code, ran.out + &ran.err)
}

/// Each of `texts` is part of one line.
fn assert_texts(text: &str, texts: &[&str]) {
    for expected in texts {
        assert!(text.lines().any(|line| line.contains(expected)), "{expected:?} is not in\n{text}");
    }
}

#[test]
fn mistakes_in_a_configuration() {
    let site = Site::new();
    for (mirror, expected) in [
        ("  additionalImage: []\nstorageConfig: {}\n", "unknown field \"storageConfig\""),
        ("  additionalImage: []\n", "unknown field \"additionalImage\""),
        (
            "  platform:\n    architectures: [amd64]\n    \
             platforms: [{os: linux, architecture: arm64}]\n",
            "platform.platforms and platform.architectures cannot be used together",
        ),
    ] {
        site.image_set("isc.yaml", mirror);
        let (code, text) = printed(&site, "-c isc.yaml file://data");
        assert_eq!(code, 1, "{text}");
        assert_texts(&text, &[expected]);
    }
}

#[test]
fn what_is_outdated_in_a_configuration() {
    let (world, _) = World::with(&["4.16.1"]);
    let site = world.site();
    let text = format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2\nmirror:\n{}    \
         architectures: [amd64]\n",
        channel("stable-4.16", "")
    );
    site.write("isc.yaml", &text);
    let line = format!("-c isc.yaml {PLAIN} file://data");
    let ran = Ran::of(world.command(&site, &line).output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_texts(
        &(ran.out + &ran.err),
        &["platform.architectures is deprecated", "\"mirror.openshift.io/v2\" is read as"],
    );
}

#[test]
fn content_that_cannot_be_collected() {
    let (world, _) = World::with(&["4.16.1"]);
    let site = world.site();
    let patience = "--retry-times 0";
    site.image_set("isc.yaml", &channel("stable-99.99", ""));
    let line = format!("-c isc.yaml {PLAIN} {patience} file://data");
    let ran = Ran::of(world.command(&site, &line).output().unwrap());
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert_texts(&(ran.out + &ran.err), &["no release images found"]);

    let gone = "127.0.0.1:1/catalogs/none:v1";
    site.image_set("isc.yaml", &format!("  operators:\n  - catalog: {gone}\n"));
    let (code, text) = printed(&site, &format!("-c isc.yaml {PLAIN} {patience} file://data"));
    assert_eq!(code, 4, "{text}");
    assert_texts(&text, &["collection error", "http request", "connection refused"]);
}

#[test]
fn copies_that_succeed_and_fail() {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    registry.put_image(&Image::tiny("a").unwrap(), "lab/a", "v1").unwrap();
    let site = Site::new();
    let at = registry.address();
    site.images("isc.yaml", &[format!("{at}/lab/a:v1")]);
    for _ in 0..2 {
        let (code, text) = printed(&site, &format!("-c isc.yaml {PLAIN} file://data"));
        assert_eq!(code, 0, "{text}");
        // The path is all that follows, and the file is there, also in a run without changes.
        assert_texts(&text, &["Generating pinned configurations", "Pinned DISC written to: "]);
        let path = text.lines().find_map(|line| line.split("Pinned ISC written to: ").nth(1));
        assert!(site.path(path.unwrap()).is_file(), "{text}");
    }
    let (_, text) = printed(&site, &format!("-c isc.yaml {PLAIN} file://again"));
    assert_texts(&text, &[&format!("Success copying {at}/lab/a:v1 -> ")]);
    assert_texts(&text, &["images to copy 1", "1 / 1 additional images mirrored successfully"]);

    site.images("isc.yaml", &[format!("{at}/lab/a:v1"), format!("{at}/lab/none:v1")]);
    let (code, text) = printed(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(code, 8, "{text}");
    assert_texts(
        &text,
        &[
            "some errors occurred during the mirroring",
            "1 / 2 additional images mirrored: Some additional images failed to be mirrored - \
             please check the logs",
        ],
    );
}

#[test]
fn an_image_that_the_policy_rejects() {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    registry.put_image(&Image::tiny("a").unwrap(), "lab/a", "v1").unwrap();
    let site = Site::new();
    site.images("isc.yaml", &[format!("{}/lab/a:v1", registry.address())]);
    site.write("policy.json", r#"{"default":[{"type":"reject"}]}"#);
    let line = format!("-c isc.yaml {PLAIN} --secure-policy --policy policy.json file://data");
    let (code, text) = printed(&site, &line);
    assert_eq!(code, 8, "{text}");
    assert_texts(&text, &["is rejected by policy"]);
}
