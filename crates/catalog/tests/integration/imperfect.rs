//! Catalogs with mistakes: a mistake never affects more than what it concerns, and is always
//! reported.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use catalog::{BundleName, Catalog, Files, Filtered, Severity, filter, related_images};
use image_set::{Operator, parse_image_set};

fn package(name: &str) -> String {
    format!("---\nschema: olm.package\nname: {name}\ndefaultChannel: stable\n")
}

fn channel(package: &str, name: &str, entries: &str) -> String {
    format!("---\nschema: olm.channel\npackage: {package}\nname: {name}\nentries: [{entries}]\n")
}

fn bundle(package: &str, version: &str, properties: &str) -> String {
    let hex = "0".repeat(64);
    format!(
        "---\nschema: olm.bundle\npackage: {package}\nname: {package}.v{version}\n\
         image: quay.io/x/{package}-{version}@sha256:{hex}\nproperties:\n\
         - {{type: olm.package, value: {{packageName: {package}, version: {version}}}}}\n{properties}"
    )
}

/// A package with the channel `stable` and one bundle.
fn simple(name: &str, properties: &str) -> String {
    let entry = format!("{{name: {name}.v1.0.0}}");
    package(name) + &channel(name, "stable", &entry) + &bundle(name, "1.0.0", properties)
}

fn operator(yaml: &str) -> Operator {
    let text = format!(
        "kind: ImageSetConfiguration\nmirror:\n  operators:\n  - catalog: q.io/c:1\n{yaml}"
    );
    let set = parse_image_set("isc.yaml", &text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    set.mirror.operators[0].clone()
}

/// The bundles that are selected, and the findings with their weights.
fn select(files: &[(&str, &str)], yaml: &str) -> (Vec<String>, Vec<String>) {
    let files = Files::read(files.iter().map(|(path, text)| (*path, text.as_bytes()))).unwrap();
    let catalog = Catalog::load(&files).unwrap();
    let operator = operator(yaml);
    let filtered = filter(&catalog, &operator);
    (bundles(&filtered), findings(&filtered))
}

fn bundles(filtered: &Filtered<'_, '_>) -> Vec<String> {
    filtered.bundles().map(|(_, bundle)| bundle.name.to_string()).collect()
}

fn findings(filtered: &Filtered<'_, '_>) -> Vec<String> {
    let line = |finding: &catalog::Finding| {
        let severity = match finding.severity() {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        format!("{severity}: {}", finding.problem)
    };
    filtered.findings.iter().map(line).collect()
}

#[test]
fn the_last_of_repeated_keys_counts_with_a_warning() {
    let text = simple("foo", "").replace("schema: olm.package", "schema: x\nschema: olm.package");
    let (selected, found) = select(&[("foo/index.yaml", &text)], "    packages: [{name: foo}]\n");
    assert_eq!(selected, ["foo.v1.0.0"]);
    assert_eq!(
        found,
        ["warning: foo/index.yaml:3:1: the key \"schema\" is repeated; its last value is used"]
    );
}

#[test]
fn a_file_that_cannot_be_read_affects_only_its_own_packages() {
    let good = simple("foo", "");
    let files = [("bar/index.yaml", "schema: olm.package\n  name: [\n"), ("foo/index.yaml", &good)];
    let (selected, found) = select(&files, "    packages: [{name: foo}]\n");
    assert_eq!(selected, ["foo.v1.0.0"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("warning: a part of the catalog cannot be read"), "{found:?}");
    assert!(found[0].contains("bar/index.yaml:2:"), "{found:?}");
    // Where something that is selected may be in it, that is an error.
    for yaml in ["", "    full: true\n", "    packages: [{name: foo}, {name: bar}]\n"] {
        let (selected, found) = select(&files, yaml);
        assert_eq!(selected, ["foo.v1.0.0"], "{yaml}");
        assert!(found.iter().any(|one| one.starts_with("error: a part of the catalog")), "{yaml}");
    }
}

#[test]
fn a_document_that_cannot_be_read_is_a_flaw_of_its_package_alone() {
    let bad = "---\nschema: olm.bundle\npackage: bar\nname: bar.v2.0.0\nproperties: 7\n";
    let text = simple("bar", "") + bad + &simple("foo", "");
    let (selected, found) = select(&[("index.yaml", &text)], "");
    assert_eq!(selected, ["foo.v1.0.0"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("error: the package \"bar\" is left out"), "{found:?}");
    assert!(found[0].contains("index.yaml:"), "{found:?}");
}

#[test]
fn a_catalog_of_which_nothing_can_be_read_is_an_error() {
    let files = Files::read([("a.yaml", &b"a: ["[..]), ("b.yaml", &b"b: ["[..])]).unwrap();
    let error = Catalog::load(&files).unwrap_err().to_string();
    assert!(error.starts_with("a.yaml:"), "{error}");
    assert!(error.ends_with("1 more file cannot be read"), "{error}");
}

#[test]
fn a_whole_catalog_includes_bundles_that_are_in_no_channel() {
    // As some publishers write them: five bundles, and no channel at all.
    let mut text = package("foo");
    for version in ["1.0.0", "1.1.0", "1.2.0", "1.3.0"] {
        text += &bundle("foo", version, "");
    }
    text += &simple("bar", "");
    let read = Files::read([("index.yaml", text.as_bytes())]).unwrap();
    let catalog = Catalog::load(&read).unwrap();
    let operator = operator("    full: true\n");
    let mut filtered = filter(&catalog, &operator);
    assert!(filtered.whole);
    assert_eq!(related_images(&filtered).images.len(), 5);
    // Rebuilt without a bundle, the catalog cannot hold them, and they are named.
    let lost = BundleName { package: "bar".into(), bundle: "bar.v1.0.0".into() };
    filtered.leave_out(&BTreeSet::from([lost]), "an image cannot be mirrored");
    let found = findings(&filtered);
    for name in ["bar.v1.0.0", "foo.v1.0.0", "foo.v1.3.0"] {
        assert!(found.iter().any(|one| one.contains(name)), "{name}: {found:?}");
    }
}

#[test]
fn a_mistake_in_a_channel_that_is_not_selected_has_no_effect() {
    let text = simple("foo", "")
        + &channel("foo", "broken", "{name: foo.v2.0.0}, {name: foo.v3.0.0}, {name: gone}")
        + &bundle("foo", "2.0.0", "").replace("version: 2.0.0", "version: two")
        + &bundle("foo", "3.0.0", "")
        + "---\nschema: olm.channel\npackage: foo\nname: worse\nentries: 7\n";
    let files = [("index.yaml", text.as_str())];
    let chosen = "    packages: [{name: foo, channels: [{name: stable}]}]\n";
    assert_eq!(select(&files, chosen), (vec!["foo.v1.0.0".to_owned()], vec![]));
    for yaml in [
        "    packages: [{name: foo}]\n",
        "    packages: [{name: foo, channels: [{name: stable}, {name: broken}]}]\n",
    ] {
        let (selected, found) = select(&files, yaml);
        assert_eq!(selected, [""; 0], "{yaml}");
        assert!(found[0].starts_with("error: the package \"foo\" is left out"), "{found:?}");
    }
}

#[test]
fn constraints_count_as_dependencies() {
    let constraint = |json: &str| format!("- {{type: olm.constraint, value: {json}}}\n");
    let needs_bar = "package: {packageName: bar, versionRange: '>=1.0.0'}";
    let needs_api = "gvk: {group: g.io, version: v1, kind: Vault}";
    let provides = "- {type: olm.gvk, value: {group: g.io, version: v1, kind: Vault}}\n";
    for (json, selected, reported) in [
        (format!("{{failureMessage: x, {needs_bar}}}"), vec!["bar.v1.0.0"], vec![]),
        (format!("{{{needs_api}}}"), vec!["vault.v1.0.0"], vec![]),
        (
            format!("{{all: {{constraints: [{{{needs_bar}}}, {{{needs_api}}}]}}}}"),
            vec!["bar.v1.0.0", "vault.v1.0.0"],
            vec![],
        ),
        // The first alternative that the catalog has; none where one is selected already.
        (
            format!(
                "{{any: {{constraints: [{{package: {{packageName: none}}}}, {{{needs_api}}}, {{{needs_bar}}}]}}}}"
            ),
            vec!["vault.v1.0.0"],
            vec![],
        ),
        ("{any: {constraints: [{package: {packageName: foo, versionRange: '>=1.0.0'}}, {package: {packageName: none}}]}}".to_owned(), vec![], vec![]),
        (format!("{{not: {{constraints: [{{{needs_bar}}}]}}}}"), vec![], vec![]),
        (
            "{cel: {rule: 'properties.exists(p, p.type == \"x\")'}}".to_owned(),
            vec![],
            vec!["warning: foo.v1.0.0 has a constraint \"cel\", which is not evaluated"],
        ),
        (
            "{any: {constraints: [{package: {packageName: none, versionRange: '>=1.0.0'}}]}}".to_owned(),
            vec![],
            vec!["warning: foo.v1.0.0 needs the package \"none\" in >=1.0.0"],
        ),
    ] {
        let text = simple("foo", &constraint(&json)) + &simple("bar", "") + &simple("vault", provides);
        let yaml = "    includeDependencies: true\n    packages: [{name: foo}]\n";
        let (mut actual, found) = select(&[("index.yaml", &text)], yaml);
        actual.retain(|name| name != "foo.v1.0.0");
        assert_eq!(actual, selected, "{json}: {found:?}");
        let warnings: Vec<&String> = found.iter().filter(|one| !one.starts_with("note")).collect();
        assert_eq!(warnings.len(), reported.len(), "{json}: {found:?}");
        for (warning, expected) in warnings.iter().zip(reported) {
            assert!(warning.starts_with(expected), "{json}: {warning}");
        }
    }
}

#[test]
fn a_template_is_named_with_the_command_that_renders_it() {
    for (text, kind) in [
        (
            "schema: olm.semver\ngenerateMajorChannels: true\nstable:\n  bundles:\n  - image: q.io/a:1\n",
            "semver",
        ),
        ("schema: olm.template.basic\nentries:\n- schema: olm.package\n  name: foo\n", "basic"),
    ] {
        let files = Files::read([("t.yaml", text.as_bytes())]).unwrap();
        let error = Catalog::load(&files).unwrap_err().to_string();
        assert!(error.starts_with("t.yaml is a catalog template"), "{error}");
        assert!(error.contains(&format!("opm alpha render-template {kind} t.yaml")), "{error}");
    }
}
