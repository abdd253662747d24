//! Catalogs for opm: some that it accepts, in the forms that published catalogs have, and one for
//! each flaw that it refuses.

use std::fs;
use std::path::{Path, PathBuf};

use lab::catalogs::{self, Shape};
use lab::operators::Operators;
use serde_json::{Value, json};

type Change = fn(&mut Vec<Value>);

/// Ways to change the catalog of [`Operators`] so that it stays good.
const VARIANTS: [(&str, Change); 6] = [
    ("plain", |_| {}),
    ("deprecations", |documents| {
        documents.push(json!({
            "schema": "olm.deprecations", "package": "foo",
            "entries": [
                { "reference": { "schema": "olm.package" }, "message": "use bar" },
                { "reference": { "schema": "olm.channel", "name": "old" }, "message": "use beta" },
                { "reference": { "schema": "olm.bundle", "name": "foo.v0.1.0" }, "message": "old" },
            ],
        }));
    }),
    ("other-schemas", |documents| {
        documents.push(json!({
            "schema": "example.com.note", "package": "foo", "name": "a", "text": ["\u{e9}\n", 1.5],
        }));
        documents.push(json!({ "schema": "example.com.note", "text": "of no package" }));
    }),
    ("skip-ranges", |documents| {
        entry(documents, "beta", "foo.v0.3.1")["skipRange"] = json!(">=0.1.0 <0.3.1");
        entry(documents, "stable", "bar.v1.0.0")["skipRange"] = json!("<1.0.0");
    }),
    ("pre-releases", |documents| {
        version(documents, "foo.v0.3.0")["version"] = json!("0.3.0-rc.1+5");
        version(documents, "baz.v1.1.0")["version"] = json!("1.1.0-202601010000");
    }),
    ("metadata", |documents| {
        properties(documents, "baz.v1.1.0").push(json!({
            "type": "olm.csv.metadata",
            "value": { "displayName": "Baz", "annotations": { "alm-examples": "[\n  {}\n]" } },
        }));
        properties(documents, "baz.v1.1.0").push(json!({
            "type": "olm.gvk",
            "value": { "group": "baz.example.com", "kind": "Baz", "version": "v1" },
        }));
        properties(documents, "foo.v0.3.1").push(json!({
            "type": "olm.gvk.required",
            "value": { "group": "baz.example.com", "kind": "Baz", "version": "v1" },
        }));
    }),
];

/// Ways to break the package `foo`, each named after what is wrong then.
const FLAWS: [(&str, Change); 26] = [
    ("package-undefined", |documents| {
        documents.retain(|it| it["schema"] != "olm.package" || it["name"] != "foo");
    }),
    ("package-twice", |documents| twice(documents, "olm.package", "foo")),
    ("package-name", |documents| {
        for document in documents {
            for key in ["name", "package"] {
                if document[key] == "foo" {
                    document[key] = json!("Foo_");
                }
            }
            for property in document["properties"].as_array_mut().into_iter().flatten() {
                if property["value"]["packageName"] == "foo" {
                    property["value"]["packageName"] = json!("Foo_");
                }
            }
        }
    }),
    ("default-channel-empty", |documents| {
        find(documents, "olm.package", "foo")["defaultChannel"] = json!("");
    }),
    ("default-channel-missing", |documents| {
        find(documents, "olm.package", "foo")["defaultChannel"] = json!("gamma");
    }),
    ("channel-without-name", |documents| find(documents, "olm.channel", "old")["name"] = json!("")),
    ("channel-twice", |documents| twice(documents, "olm.channel", "old")),
    ("channel-empty", |documents| find(documents, "olm.channel", "old")["entries"] = json!([])),
    ("entry-twice", |documents| {
        let again = entry(documents, "beta", "foo.v0.2.0").clone();
        entries(documents, "beta").push(again);
    }),
    ("entry-without-bundle", |documents| {
        entry(documents, "beta", "foo.v0.2.0")["name"] = json!("foo.v0.2.9");
    }),
    ("no-head", |documents| {
        entry(documents, "beta", "foo.v0.1.0")["replaces"] = json!("foo.v0.3.1");
    }),
    ("two-heads", |documents| {
        let head = entry(documents, "beta", "foo.v0.3.1");
        head["replaces"] = json!("foo.v0.1.0");
        head["skips"] = json!([]);
    }),
    ("circle", |documents| {
        entry(documents, "beta", "foo.v0.1.0")["replaces"] = json!("foo.v0.2.0");
    }),
    ("stranded", |documents| {
        // 0.2.0 is not the head, and the path from the head does not reach it.
        entry(documents, "beta", "foo.v0.3.1")["replaces"] = json!("foo.v0.1.0");
        entry(documents, "beta", "foo.v0.3.0")["replaces"] = json!("foo.v0.2.0");
    }),
    ("skip-range", |documents| {
        entry(documents, "beta", "foo.v0.3.1")["skipRange"] = json!("older than the moon");
    }),
    ("bundle-without-name", |documents| {
        find(documents, "olm.bundle", "foo.v0.2.0")["name"] = json!("");
    }),
    ("bundle-twice", |documents| twice(documents, "olm.bundle", "foo.v0.2.0")),
    ("bundle-without-version", |documents| {
        properties(documents, "foo.v0.2.0").retain(|it| it["type"] != "olm.package");
    }),
    ("bundle-with-two-versions", |documents| {
        let value = json!({ "packageName": "foo", "version": "0.2.1" });
        properties(documents, "foo.v0.2.0").push(json!({ "type": "olm.package", "value": value }));
    }),
    ("bundle-version", |documents| {
        version(documents, "foo.v0.2.0")["version"] = json!("second");
    }),
    ("bundle-of-another-package", |documents| {
        version(documents, "foo.v0.2.0")["packageName"] = json!("baz");
    }),
    ("bundle-without-image", |documents| {
        find(documents, "olm.bundle", "foo.v0.2.0")["image"] = json!("");
    }),
    ("same-version", |documents| {
        version(documents, "foo.v0.2.0")["version"] = json!("0.1.0");
    }),
    ("bundle-in-no-channel", |documents| {
        entry(documents, "beta", "foo.v0.3.1")["skips"] = json!([]);
        entries(documents, "beta").retain(|it| it["name"] != "foo.v0.3.0");
    }),
    ("deprecations-twice", |documents| {
        let reference = json!({ "schema": "olm.package" });
        let document = json!({
            "schema": "olm.deprecations", "package": "foo",
            "entries": [{ "reference": reference, "message": "use bar" }],
        });
        documents.extend([document.clone(), document]);
    }),
    ("deprecation-of-nothing", |documents| {
        let reference = json!({ "schema": "olm.bundle", "name": "foo.v7.0.0" });
        documents.push(json!({
            "schema": "olm.deprecations", "package": "foo",
            "entries": [{ "reference": reference, "message": "old" }],
        }));
    }),
];

/// Catalogs that opm is expected to accept, below `root`.
pub(super) fn good(root: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for (name, change) in VARIANTS {
        let folder = root.join(name);
        write_json(&changed(change), &folder);
        folders.push(folder);
    }
    let yaml = root.join("yaml");
    write_yaml(&changed(VARIANTS[1].1), &yaml);
    let by_package = root.join("by-package");
    Operators::generate().unwrap().write(&by_package).unwrap();
    let long = root.join("long");
    let shape = Shape { packages: 3, bundles: 25, text: 600, ..Shape::SMALL };
    catalogs::write(shape, &long).unwrap();
    folders.extend([yaml, by_package, long]);
    folders
}

/// Catalogs that opm is expected to refuse, below `root`.
pub(super) fn flawed(root: &Path) -> Vec<PathBuf> {
    let written = FLAWS.iter().map(|(name, change)| {
        let folder = root.join(name);
        write_json(&changed(*change), &folder);
        folder
    });
    written.collect()
}

fn changed(change: Change) -> Vec<Value> {
    let operators = Operators::generate().unwrap();
    let mut documents: Vec<Value> = operators
        .files
        .values()
        .flat_map(|bytes| serde_json::Deserializer::from_slice(bytes).into_iter())
        .map(Result::unwrap)
        .collect();
    change(&mut documents);
    documents
}

fn write_json(documents: &[Value], folder: &Path) {
    let texts: Vec<String> =
        documents.iter().map(|it| serde_json::to_string_pretty(it).unwrap()).collect();
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("catalog.json"), texts.join("\n")).unwrap();
}

fn write_yaml(documents: &[Value], folder: &Path) {
    let texts: Vec<String> =
        documents.iter().map(|it| serde_saphyr::to_string(it).unwrap()).collect();
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("catalog.yaml"), format!("---\n{}", texts.join("\n---\n"))).unwrap();
}

fn find<'a>(documents: &'a mut [Value], schema: &str, name: &str) -> &'a mut Value {
    let mut found = documents.iter_mut().filter(|it| it["schema"] == schema && it["name"] == name);
    found.next().unwrap_or_else(|| panic!("no {schema} {name}"))
}

fn twice(documents: &mut Vec<Value>, schema: &str, name: &str) {
    let again = find(documents, schema, name).clone();
    documents.push(again);
}

/// The entries of a channel; the first one of that name.
fn entries<'a>(documents: &'a mut [Value], channel: &str) -> &'a mut Vec<Value> {
    find(documents, "olm.channel", channel)["entries"].as_array_mut().unwrap()
}

fn entry<'a>(documents: &'a mut [Value], channel: &str, name: &str) -> &'a mut Value {
    let mut found = entries(documents, channel).iter_mut().filter(|it| it["name"] == name);
    found.next().unwrap_or_else(|| panic!("no entry {name} in {channel}"))
}

fn properties<'a>(documents: &'a mut [Value], bundle: &str) -> &'a mut Vec<Value> {
    find(documents, "olm.bundle", bundle)["properties"].as_array_mut().unwrap()
}

/// The value of the property with the version of a bundle.
fn version<'a>(documents: &'a mut [Value], bundle: &str) -> &'a mut Value {
    let mut found =
        properties(documents, bundle).iter_mut().filter(|it| it["type"] == "olm.package");
    &mut found.next().unwrap()["value"]
}
