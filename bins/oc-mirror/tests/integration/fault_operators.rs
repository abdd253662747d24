//! Operators that are unavailable, and invalid catalogs.

use crate::support;

use lab::images::{Compression, Format, Image, Layer};
use lab::operators::{CATALOG, HOST, Operators, TAG};
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use lab::tools::{self, Tool};
use oci::Platform;
use serde_json::{Value, json};

use support::{PLAIN, Site};

const ALL_FOO: &str = "    packages:
    - name: foo
      channels:
      - name: beta
        minVersion: 0.1.0
";

fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

/// A machine, and a configuration of one catalog with `rest` below its name.
fn site(quay: &LabRegistry, rest: &str) -> Site {
    let site = Site::new();
    site.redirect(HOST, quay.address());
    site.image_set(
        "isc.yaml",
        &format!("  operators:\n  - catalog: {HOST}/{CATALOG}:{TAG}\n{rest}"),
    );
    site
}

/// The names of the bundles that opm finds in a catalog at a registry.
fn bundles(site: &Site, reference: &str) -> Vec<String> {
    let opm = tools::path(Tool::Opm).unwrap();
    let json = site.judge(opm.to_str().unwrap(), &["render", "--use-http", "-ojson", reference]);
    let documents = serde_json::Deserializer::from_slice(&json).into_iter::<Value>();
    let bundles = documents.map(Result::unwrap).filter(|one| one["schema"] == "olm.bundle");
    let mut names: Vec<String> =
        bundles.map(|bundle| bundle["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_bad_image_is_reported_with_its_bundle_and_everything_else_arrives() {
    let quay = registry();
    let gone = format!("{HOST}/lab/gone:v1");
    // One that does not exist, one that cannot be pulled, one that has neither tag nor digest.
    let operators = Operators::with(&[&gone, "oci:///tmp/mine", "quay.io/lab/unpinned"]).unwrap();
    operators.put(&quay).unwrap();
    let site = site(&quay, ALL_FOO);
    let target = registry();
    let to = target.address();
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}");
    let ran = site.run(&line);
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    let report = ran.report();
    assert_eq!(report["ending"], "partial");
    assert_eq!(ran.total("failed"), 1);
    assert_eq!(ran.total("copied"), 4 * 2 + 1 + 1, "four bundles, what they share, the catalog");
    assert_eq!(
        ran.image("lab/gone")["neededBy"],
        json!([{"package": "foo", "bundle": "foo.v0.2.0"}])
    );
    let broken = &report["brokenBundles"][0];
    assert_eq!((&broken["package"], &broken["bundle"]), (&json!("foo"), &json!("foo.v0.2.0")));
    assert_eq!(broken["leftOut"], true);
    assert_eq!(broken["missing"], json!(["oci:///tmp/mine", gone, "quay.io/lab/unpinned"]));
    assert!(ran.errors().contains("the bundle foo.v0.2.0 needs the image \"oci:///tmp/mine\""));
    let message = site.command(&line).output().unwrap();
    let message = String::from_utf8(message.stdout).unwrap();
    assert!(message.contains("needed by foo.v0.2.0"), "{message}");
    assert!(message.contains("Bundles that cannot be installed:\n  foo.v0.2.0 of "), "{message}");
    let mut files = report["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap());
    let errors = files.find(|file| file.contains("mirroring_errors_")).unwrap();
    let errors = std::fs::read_to_string(site.path("").join(errors)).unwrap();
    assert!(errors.contains("(Operator bundles: [foo.v0.2.0] - Operators: [foo])"), "{errors}");
    // The first catalog at a target does not offer it. Without 0.2.0, nothing leads to 0.1.0.
    let image = format!("{to}/{CATALOG}:{TAG}");
    assert_eq!(bundles(&site, &image), ["foo.v0.3.0", "foo.v0.3.1"]);
    let ran = site.run(&format!("{line} --skip-broken-bundles"));
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    assert_eq!(ran.report()["brokenBundles"][0]["leftOut"], true);
    assert_eq!((ran.total("copied"), ran.total("failed")), (0, 1));
    assert_eq!(bundles(&site, &image), ["foo.v0.3.0", "foo.v0.3.1"]);
}

#[test]
fn the_other_side_leaves_out_what_did_not_come_along() {
    let quay = registry();
    Operators::with(&["quay.io/lab/gone:v1"]).unwrap().put(&quay).unwrap();
    let site = site(&quay, ALL_FOO);
    let ran = site.run(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    assert!(ran.report()["archive"]["chunks"][0].is_string(), "what is there is archived");
    let target = registry();
    let to = target.address();
    let line =
        format!("-c isc.yaml {PLAIN} --from file://data docker://{to} --skip-broken-bundles");
    let ran = site.run(&line);
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    assert_eq!(bundles(&site, &format!("{to}/{CATALOG}:{TAG}")), ["foo.v0.3.0", "foo.v0.3.1"]);
}

#[test]
fn unknown_names_are_reported_with_the_nearest_and_the_rest_is_mirrored() {
    let quay = registry();
    Operators::generate().unwrap().put(&quay).unwrap();
    let rest = "    packages:\n    - name: fooo\n    - name: baz\n    - name: bar\n      \
                channels:\n      - name: stabel\n      - name: stable\n";
    let site = site(&quay, rest);
    let ran = site.run(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    let errors = ran.errors();
    assert!(errors.contains("isc.yaml:7:"), "{errors}");
    assert!(errors.contains("no package \"fooo\"; did you mean \"foo\"?"), "{errors}");
    assert!(errors.contains("no channel \"stabel\"; did you mean \"stable\"?"), "{errors}");
    let warnings = ran.report()["warnings"].to_string();
    assert!(warnings.contains("bar.v1.0.0 needs the package \\\"foo\\\" in >=0.1.0"), "{warnings}");
    assert_eq!(ran.total("failed"), 0);
    assert_eq!(ran.total("copied"), 2 * 2 + 1 + 2, "two bundles, what they share, two catalogs");
    // What it needs is added where that is requested, but not for readers who would not know.
    let rest = "    includeDependencies: true\n    packages:\n    - name: bar\n";
    site.image_set(
        "more.yaml",
        &format!("  operators:\n  - catalog: {HOST}/{CATALOG}:{TAG}\n{rest}"),
    );
    let ran = site.succeeds(&format!("-c more.yaml {PLAIN} file://data"));
    assert_eq!(ran.image("lab/foo:v0.3.1")["outcome"], "copied");
    let ran = site.command(&format!("-c more.yaml --strict-compat {PLAIN} file://data")).output();
    let ran = ran.unwrap();
    assert_eq!(ran.status.code(), Some(1));
    let message = String::from_utf8(ran.stderr).unwrap();
    assert!(message.contains("more.yaml:5:5: includeDependencies of the catalog"), "{message}");
}

#[test]
fn a_catalog_is_published_only_after_its_bundles() {
    let quay = registry();
    Operators::generate().unwrap().put(&quay).unwrap();
    let site = site(&quay, ALL_FOO);
    let target = registry();
    let to = target.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    let requests = target.requests();
    let tagged: Vec<&str> = requests
        .of(&http::Method::PUT, "/manifests/")
        .map(|request| request.path.as_str())
        .collect();
    let last = format!("{CATALOG}/manifests/{TAG}");
    assert!(tagged.last().unwrap().contains(&last), "{tagged:#?}");
    assert_eq!(tagged.iter().filter(|path| path.contains(CATALOG)).count(), 3);
    let first = tagged.iter().position(|path| path.contains(CATALOG)).unwrap();
    assert_eq!(first, tagged.len() - 3, "no manifest of the catalog comes before: {tagged:#?}");
}

#[test]
fn a_catalog_that_the_policy_refuses_is_neither_opened_nor_selected_from() {
    let quay = registry();
    Operators::generate().unwrap().put(&quay).unwrap();
    let site = site(&quay, ALL_FOO);
    let policy = json!({
        "default": [{"type": "insecureAcceptAnything"}],
        "transports": {"docker": {format!("{HOST}/{CATALOG}"): [{"type": "reject"}]}},
    });
    site.write("policy.json", &policy.to_string());
    let policy = "--secure-policy --policy policy.json";
    let ran = site.run(&format!("-c isc.yaml {PLAIN} {policy} file://refused"));
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    assert_eq!((ran.total("failed"), ran.total("copied")), (1, 0));
    assert!(!site.path("refused/operator-index-cache").exists());
    // The other side checks it again, although what is published was made there.
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let target = registry();
    let to = target.address();
    let line = format!("-c isc.yaml {PLAIN} {policy} --from file://data docker://{to}");
    let ran = site.run(&line);
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    assert_eq!((ran.total("failed"), ran.total("copied")), (1, 0));
}

#[test]
fn under_a_policy_no_list_beside_a_catalog_decides_which_of_its_layers_are_read() {
    let quay = registry();
    Operators::generate().unwrap().put(&quay).unwrap();
    let site = site(&quay, ALL_FOO);
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    // A list that leaves out all layers, as a manipulated workspace could have it.
    let path = "data/working-dir/internal/documents.json";
    let mut listed: Value = serde_json::from_str(&site.read(path)).unwrap();
    let documents = listed["documents"].as_object_mut().unwrap();
    let (_, document) =
        documents.iter_mut().find(|(name, _)| name.ends_with("layers.json")).unwrap();
    let blob = |digest: &str| format!("data/blobs/sha256/{}", digest.trim_start_matches("sha256:"));
    let old = document["digest"].as_str().unwrap().to_owned();
    let layers: Value = serde_json::from_str(&site.read(&blob(&old))).unwrap();
    let none = layers.as_object().unwrap().keys().map(|manifest| (manifest.clone(), json!([])));
    let none = Value::Object(none.collect()).to_string();
    let digest = oci::Digest::of(none.as_bytes()).to_string();
    site.write(&blob(&digest), &none);
    document["digest"] = json!(digest);
    document["size"] = json!(none.len());
    site.write(path, &listed.to_string());

    let target = registry();
    let line = format!("-c isc.yaml {PLAIN} --from file://data docker://{}", target.address());
    let ran = site.run(&line);
    assert_eq!((ran.code, ran.total("failed")), (4, 1), "the list counts: {}", ran.out);
    let policy = json!({"default": [{"type": "insecureAcceptAnything"}]});
    site.write("policy.json", &policy.to_string());
    site.succeeds(&format!("--secure-policy --policy policy.json {line}"));
}

#[test]
fn a_catalog_that_cannot_be_used_is_reported_and_others_are_mirrored() {
    let quay = registry();
    Operators::generate().unwrap().put(&quay).unwrap();
    let put = |name: &str, layers: &[Layer], labels: Value| {
        let settings = json!({"Labels": labels});
        let platform = Platform::new("linux", "amd64");
        let image = Image::configured(Format::Oci, platform, layers, &settings).unwrap();
        quay.put_image(&image, name, "v1").unwrap();
    };
    let label = json!({"operators.operatorframework.io.index.configs.v1": "/configs"});
    let base = Layer::generate("base", 500, Compression::Gzip).unwrap();
    put("lab/database", std::slice::from_ref(&base), json!({}));
    put("lab/empty", std::slice::from_ref(&base), label.clone());
    let layer = |path: &str, text: &str| Layer::from_files(&[(path, text.as_bytes())]).unwrap();
    put("lab/escapes", &[layer("configs/../../etc/passwd", "")], label.clone());
    put("lab/broken", &[layer("configs/a.json", "{\"schema\": \"olm.package\",")], label);
    let catalogs = ["database", "empty", "escapes", "broken", "absent"];
    let catalogs = catalogs.map(|name| format!("  - catalog: {HOST}/lab/{name}:v1\n"));
    let good = format!("  - catalog: {HOST}/{CATALOG}:{TAG}\n    packages:\n    - name: baz\n");
    let site = site(&quay, "");
    site.image_set("isc.yaml", &format!("  operators:\n{}{good}", catalogs.concat()));
    let ran = site.run(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    assert_eq!((ran.total("failed"), ran.total("copied")), (5, 3 + 2));
    let message =
        |name: &str| ran.image(&format!("lab/{name}"))["error"].as_str().unwrap().to_owned();
    assert!(
        message("database").starts_with("it is not a file-based catalog"),
        "{}",
        message("database")
    );
    assert_eq!(message("empty"), "its folder /configs has no files");
    assert!(message("escapes").contains("a file that leads out of it"), "{}", message("escapes"));
    assert!(message("broken").contains("a.json:1:"), "{}", message("broken"));
    assert!(message("absent").contains("does not exist at its registry"), "{}", message("absent"));
}

#[test]
fn a_bundle_that_the_target_refuses_is_not_offered_until_the_next_run_pushes_it() {
    let quay = registry();
    Operators::generate().unwrap().put(&quay).unwrap();
    let site = site(&quay, ALL_FOO);
    let target = registry();
    let to = target.address();
    let image = format!("{to}/{CATALOG}:{TAG}");
    let refused = || Fault::on(http::Method::PUT, "lab/foo/manifests/v0.2.0");
    target.fault(refused().does(Effect::status(500)));
    let line = format!("-c isc.yaml {PLAIN} --retry-times=0 --workspace file://data docker://{to}");
    let ran = site.run(&line);
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    assert_eq!(ran.total("failed"), 1);
    let broken = &ran.report()["brokenBundles"][0];
    assert_eq!((&broken["bundle"], &broken["leftOut"]), (&json!("foo.v0.2.0"), &json!(true)));
    assert_eq!(bundles(&site, &image), ["foo.v0.3.0", "foo.v0.3.1"]);
    target.clear_faults();
    let ran = site.succeeds(&line);
    assert_eq!(ran.total("copied"), 2, "the bundle and the catalog");
    assert!(ran.report().get("brokenBundles").is_none());
    assert_eq!(bundles(&site, &image).len(), 4);
}

#[test]
fn a_catalog_at_the_target_stays_as_it_is_while_bundles_of_its_successor_fail() {
    let quay = registry();
    Operators::generate().unwrap().put(&quay).unwrap();
    let site = site(&quay, "    packages:\n    - name: foo\n");
    let target = registry();
    let to = target.address();
    let image = format!("{to}/{CATALOG}:{TAG}");
    let line = format!("-c isc.yaml {PLAIN} --retry-times=0 --workspace file://data docker://{to}");
    site.succeeds(&line);
    let before = bundles(&site, &image);
    assert_eq!(before, ["foo.v0.1.0", "foo.v0.3.1"], "the heads of two channels");
    site.image_set(
        "isc.yaml",
        &format!("  operators:\n  - catalog: {HOST}/{CATALOG}:{TAG}\n{ALL_FOO}"),
    );
    let refused = Fault::on(http::Method::PUT, "lab/foo/manifests/v0.2.0");
    target.fault(refused.does(Effect::status(500)));
    let ran = site.run(&line);
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    assert_eq!(bundles(&site, &image), before);
    let error = ran.image(&format!("{CATALOG}/"))["error"].as_str().unwrap().to_owned();
    assert!(error.contains("images of foo.v0.2.0 are missing"), "{error}");
    assert!(error.contains("--skip-broken-bundles"), "{error}");
    assert_eq!(ran.report()["brokenBundles"][0]["leftOut"], false);
    // A cluster still gets the resource of the catalog that is there.
    let files = ran.report()["files"].to_string();
    assert!(files.contains("cs-"), "{files}");
    let ran = site.run(&format!("{line} --skip-broken-bundles"));
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    assert_eq!(bundles(&site, &image), ["foo.v0.3.0", "foo.v0.3.1"]);
}
