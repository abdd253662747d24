//! Selections from catalogs that others published, with their expected results.
//!
//! They are not part of this repository; without them these tests are skipped.

use std::fs;

use catalog::{Catalog, Files, channels, filter, packages, upgrade, versions};
use image_set::parse_image_set;
use lab::data_tier;
use semver::Version;

const FOO_BAR_BAZ: &str = "oc-mirror-integration/test-catalog-latest";
const JAEGER: &str = "redhat-operator-index-slices/jaeger-product";

/// The files of a catalog two folders deep, `None` when there is no data.
fn content(catalog: &str) -> Option<Vec<(String, Vec<u8>)>> {
    let root = data_tier("operator-catalogs")?;
    let mut files = Vec::new();
    let mut pending = vec![root.join(catalog)];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                files.push((
                    path.strip_prefix(&root).unwrap().display().to_string(),
                    fs::read(path).unwrap(),
                ));
            }
        }
    }
    Some(files)
}

fn files(content: &[(String, Vec<u8>)]) -> Files<'_> {
    Files::read(content.iter().map(|(path, bytes)| (path.clone(), &bytes[..]))).unwrap()
}

/// `channel: bundle …; …` for every package, and how many errors there are.
fn selected(catalog: &str, packages: &str) -> Option<(Vec<String>, usize)> {
    let content = content(catalog)?;
    let files = files(&content);
    let catalog = Catalog::load(&files).unwrap();
    let text = format!(
        "kind: ImageSetConfiguration\nmirror:\n  operators:\n  - catalog: q.io/c:1\n    packages: {packages}\n"
    );
    let set = parse_image_set("isc.yaml", &text).unwrap();
    let filtered = filter(&catalog, &set.mirror.operators[0]);
    let channels = filtered.packages.iter().flat_map(|kept| &kept.channels);
    let lines = channels.map(|kept| {
        let mut names: Vec<String> = kept.entries().map(|entry| entry.name.to_string()).collect();
        names.sort();
        format!("{}: {}", kept.channel.name, names.join(" "))
    });
    let errors =
        filtered.findings.iter().filter(|found| found.severity() == catalog::Severity::Error);
    Some((lines.collect(), errors.count()))
}

#[track_caller]
fn check(catalog: &str, packages: &str, expected: &[&str], errors: usize) {
    let Some((actual, found)) = selected(catalog, packages) else { return };
    assert_eq!(actual, expected, "{packages}");
    assert_eq!(found, errors, "{packages}");
}

#[test]
fn the_heads_of_all_channels_are_selected() {
    check(
        FOO_BAR_BAZ,
        "[]",
        &["alpha: bar.v1.0.0", "stable: bar.v1.0.0", "stable: baz.v1.1.0", "beta: foo.v0.3.1"],
        0,
    );
}

#[test]
fn ranges_give_the_bundles_that_oc_mirror_gives() {
    let foo = |range: &str| format!("[{{name: foo, {range}}}]");
    check(
        FOO_BAR_BAZ,
        &foo("minVersion: 0.2.0, maxVersion: 0.3.1"),
        &["beta: foo.v0.2.0 foo.v0.3.0 foo.v0.3.1"],
        0,
    );
    check(FOO_BAR_BAZ, &foo("minVersion: 0.3.1, maxVersion: 0.3.1"), &["beta: foo.v0.3.1"], 0);
}

#[test]
fn versions_that_look_like_pre_releases_need_a_bound_that_does() {
    let jaeger = |bound: &str| {
        format!("[{{name: jaeger-product, channels: [{{name: stable, minVersion: {bound}}}]}}]")
    };
    check(JAEGER, &jaeger("1.30.2"), &["stable: jaeger-operator.v1.30.2"], 0);
    // One error for the package, one as nothing is left.
    check(JAEGER, &jaeger("1.34.0"), &[], 2);
    let Some((actual, errors)) = selected(JAEGER, &jaeger("1.34.1-5")) else { return };
    assert_eq!(errors, 0);
    assert!(actual[0].contains("jaeger-operator.v1.51.0-1"), "{actual:?}");
    assert!(!actual[0].contains("jaeger-operator.v1.30.2"), "{actual:?}");
}

#[test]
fn packages_channels_and_versions_are_listed() {
    let Some(content) = content(JAEGER) else { return };
    let files = files(&content);
    let catalog = Catalog::load(&files).unwrap();
    let rows = packages(&catalog);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].display_name, "Red Hat OpenShift distributed tracing platform");
    assert_eq!(rows[0].default_channel, "stable");
    let package = &catalog.packages["jaeger-product"];
    assert!(channels(package).iter().any(|row| row.channel == "stable" && !row.head.is_empty()));
    let listed = versions(package, &package.channels["stable"]);
    assert!(listed.contains(&"1.51.0-1".to_owned()), "{listed:?}");
}

/// bar 1.0.0 replaces 0.2.0 and has everything below it in its skipRange.
#[test]
fn olm_jumps_to_the_head_that_takes_every_version_below_it() {
    let Some(content) = content(FOO_BAR_BAZ) else { return };
    let files = files(&content);
    let catalog = Catalog::load(&files).unwrap();
    let package = &catalog.packages["bar"];
    let graph = upgrade::graph(package, "alpha").unwrap();
    let path = graph.path(package, &Version::new(0, 1, 0), None).unwrap();
    let passed: Vec<String> =
        path.steps.iter().map(|(node, _)| graph.nodes[*node].version.to_string()).collect();
    assert_eq!(passed, ["1.0.0"]);
}
