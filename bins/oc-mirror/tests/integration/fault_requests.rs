//! Requests that make no sense: every mistake of a configuration or a command
//! line is reported at once, with its place and its remedy, and nothing is touched.

use crate::support;

use std::fs;

use support::{Ran, Site, image_set};

/// Runs the program as a user does, with a report as text.
fn run(site: &Site, line: &str) -> Ran {
    Ran::of(site.command(line).output().unwrap())
}

/// The run is refused, with all of `wanted`, and made nothing.
fn refused(site: &Site, line: &str, expected: &[&str]) -> String {
    let before = names(site);
    let ran = run(site, line);
    assert_eq!(ran.code, 1, "{line}: {}", ran.err);
    assert_eq!(ran.out, "", "{line}");
    for text in expected {
        assert!(ran.err.contains(text), "{line}: {text:?} is not in\n{}", ran.err);
    }
    assert_eq!(names(site), before, "{line}: nothing is made");
    ran.err
}

fn names(site: &Site) -> Vec<String> {
    let entries = fs::read_dir(site.path(".")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn mistakes_in_a_configuration_are_reported_with_place_and_remedy() {
    let head = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\n";
    for (text, expected) in [
        (
            image_set("  additionalImage:\n  - name: quay.io/a/b:1\n"),
            vec!["isc.yaml:4:3", "additionalImage", "additionalImages"],
        ),
        (
            image_set("  additionalImages:\n  - name: quay.io/a/b:1\n    name: quay.io/a/c:1\n"),
            vec!["isc.yaml:6:5", "duplicate key", "name"],
        ),
        (
            format!("{head}mirror: {{}}\nmirror: {{}}\n"),
            vec!["isc.yaml:4:1", "mirror"],
        ),
        (
            "kind: ImageSetConfig\napiVersion: mirror.openshift.io/v2alpha1\nmirror: {}\n".into(),
            vec!["isc.yaml:1:7", "ImageSetConfig", "ImageSetConfiguration"],
        ),
        (
            "kind: DeleteImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\ndelete: {}\n".into(),
            vec!["DeleteImageSetConfiguration"],
        ),
        (
            "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v9\nmirror: {}\n".into(),
            vec!["isc.yaml:2:", "v9", "v2alpha1"],
        ),
        (
            image_set("  platform:\n    channels:\n    - name: stable-4.20\n      minVersion: 4.20\n"),
            vec!["isc.yaml:7:", "4.20", "quote"],
        ),
        (
            image_set("  additionalImages:\n  - name: \"quay.io/A B/c:1\"\n"),
            vec!["isc.yaml:5:", "quay.io/A B/c:1"],
        ),
        (image_set("  additionalImages:\n  - name: quay.io/a/b@sha256:123\n"), vec!["isc.yaml:5:"]),
        (image_set("  additionalImages:\n  - quay.io/a/b:1\n"), vec!["isc.yaml:5:"]),
        (image_set("  blockedImages:\n  - name: \"[\"\n"), vec!["isc.yaml:5:"]),
        (format!("{head}archiveSize: zero\nmirror: {{}}\n"), vec!["isc.yaml:3:", "archiveSize"]),
        (format!("{head}mirror: [\n"), vec!["isc.yaml:"]),
        (format!("{head}mirror:\n\tplatform: {{}}\n"), vec!["isc.yaml:4:"]),
        (String::new(), vec!["isc.yaml"]),
        ("just words".into(), vec!["isc.yaml"]),
    ] {
        let site = Site::new();
        site.write("isc.yaml", &text);
        let message = refused(&site, "-c isc.yaml file://data", &expected);
        assert!(message.contains("[ERROR]"), "{message}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let site = Site::new();
    site.image_set(
        "isc.yaml",
        "  additionalImages:\n  - name: \"no good\"\n  - nmae: quay.io/a/b:1\n  blockedImage: []\n",
    );
    refused(
        &site,
        "-c isc.yaml file://data",
        &["isc.yaml:5:", "isc.yaml:6:", "isc.yaml:7:", "additionalImages", "blockedImages"],
    );
}

#[test]
fn a_configuration_that_is_not_text_or_not_a_file_is_named() {
    let site = Site::new();
    refused(&site, "-c missing.yaml file://data", &["missing.yaml", "No such file"]);
    fs::write(site.path("latin.yaml"), b"kind: ImageSetConfiguration # f\xfcr\n").unwrap();
    refused(&site, "-c latin.yaml file://data", &["latin.yaml", "UTF-8", "byte 31"]);
    refused(&site, "-c home file://data", &["home", "directory"]);
}

#[test]
fn a_section_that_is_not_mirrored_yet_is_refused_by_name_whatever_else_there_is() {
    let site = Site::new();
    site.image_set(
        "isc.yaml",
        "  samples:\n  - name: ruby\n  \
         helm:\n    repositories:\n    - name: a\n      url: https://charts.example\n",
    );
    refused(
        &site,
        "-c isc.yaml file://data",
        &["isc.yaml:5:5: mirror.samples is not supported by this version"],
    );
}

#[test]
fn a_configuration_that_selects_nothing_is_reported() {
    let site = Site::new();
    site.image_set("isc.yaml", "  additionalImages: []\n");
    let ran = run(&site, "-c isc.yaml file://data");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(format!("{}{}", ran.err, ran.out).contains("no images to copy"), "{}", ran.err);
}

#[test]
fn two_sources_of_one_destination_are_both_named() {
    let site = Site::new();
    site.images("isc.yaml", &["one.example/a/b:1", "two.example/a/b:1"]);
    let ran = run(&site, "-c isc.yaml file://data");
    assert_eq!(ran.code, 8, "{}", ran.err);
    for name in ["one.example/a/b:1", "two.example/a/b:1"] {
        assert!(format!("{}{}", ran.err, ran.out).contains(name), "{}\n{}", ran.err, ran.out);
    }
}

#[test]
fn every_flag_that_is_not_honoured_is_reported_with_the_reason() {
    let site = Site::new();
    site.images("isc.yaml", &["quay.io/a/b:1"]);
    for (flag, reason) in [
        ("--v1", "docs/migrating-from-v1.md"),
        ("--force", "nothing to force"),
        ("-f", "nothing to force"),
        ("--rootless-storage-path /x", "no container storage"),
        ("--tls-verify=false", "--src-tls-verify"),
        ("--cpu-prof", "perf record"),
        ("--mem-prof", "perf record"),
        ("--src-shared-blob-dir /x", "shared blob directory"),
        ("--dest-shared-blob-dir /x", "shared blob directory"),
        ("--src-daemon-host x", "daemon"),
        ("--dest-daemon-host x", "daemon"),
        ("--dest-compress", "recompressed"),
        ("--dest-decompress", "recompressed"),
        ("--dest-compress-format zstd", "recompressed"),
        ("--dest-compress-level 3", "recompressed"),
    ] {
        refused(&site, &format!("-c isc.yaml {flag} file://data"), &["is not supported", reason]);
    }
}

#[test]
fn values_and_flags_that_contradict_are_refused_together() {
    let site = Site::new();
    site.images("isc.yaml", &["quay.io/a/b:1"]);
    for (line, expected) in [
        ("--since 2026-13-01 file://data", vec!["--since", "YYYY-MM-DD"]),
        ("--since yesterday file://data", vec!["--since", "YYYY-MM-DD"]),
        ("--parallel-images 0 file://data", vec!["--parallel-images", "from 1"]),
        ("--parallel-layers 0 file://data", vec!["--parallel-layers", "from 1"]),
        ("--parallel-images many file://data", vec!["--parallel-images"]),
        ("--retry-delay soon file://data", vec!["--retry-delay"]),
        ("--retry-times=-1 file://data", vec!["--retry-times"]),
        ("--dry-run --dry-run-manifest-lists file://data", vec!["cannot be used together"]),
        ("--log-level loud file://data", vec!["--log-level", "loud"]),
        ("--output xml file://data", vec!["--output", "xml"]),
        ("--allow-incomplete file://data", vec!["--allow-incomplete", "disk to mirror only"]),
        (
            "--no-archive --workspace file://data docker://r",
            vec!["--no-archive", "mirror to disk only"],
        ),
        ("--remove-signatures --refresh-signatures file://data", vec!["cannot be used together"]),
        ("--policy /x file://data", vec!["--policy", "with --secure-policy only"]),
        ("--secure-policy --policy gone.json file://data", vec!["gone.json", "No such file"]),
        ("docker://reg.example", vec!["--from or --workspace"]),
        ("--from file://data file://other", vec!["--from is not needed"]),
        (
            "--since never --dry-run --dry-run-manifest-lists --force ftp://x",
            vec!["--since", "cannot be used together", "--force", "neither file:// nor docker://"],
        ),
    ] {
        refused(&site, &format!("-c isc.yaml {line}"), &expected);
    }
}
