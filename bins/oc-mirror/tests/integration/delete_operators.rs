//! Deletes bundles of operators; opm and skopeo verify what stays.

use crate::support;

use std::collections::BTreeSet;

use lab::docker_registry::{DockerRegistry, Settings};
use lab::operators::{CATALOG, HOST, Operators, TAG};
use lab::registry::LabRegistry;
use lab::tools::{self, Tool};

use support::deletion::{PLAIN_TARGET, delete_set, ends, outcomes, pull_all, tags};
use support::{PLAIN, Ran, Site, chunks};

/// A catalog of a configuration; `rest` follows its name.
fn operators(rest: &str) -> String {
    format!("  operators:\n  - catalog: {HOST}/{CATALOG}:{TAG}\n{rest}")
}

const ALL_OF_FOO: &str = "    full: true\n    packages:\n    - name: foo\n";

/// A registry with all operators, and a machine that finds it.
fn world() -> (LabRegistry, Site) {
    let quay = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    Operators::generate().unwrap().put(&quay).unwrap();
    let site = Site::new();
    site.redirect(HOST, quay.address());
    site.image_set("isc.yaml", &operators(ALL_OF_FOO));
    (quay, site)
}

fn generate(site: &Site, to: &str, delete: &str) -> Ran {
    site.write("disc.yaml", &delete_set(delete));
    ends(site, &format!("delete --generate -c disc.yaml --workspace file://data docker://{to}"), 0)
}

fn delete(site: &Site, to: &str) -> Ran {
    let list = "data/working-dir/delete/delete-images.yaml";
    let line =
        format!("delete --output=json --delete-yaml-file {list} {PLAIN_TARGET} docker://{to}");
    ends(site, &line, 0)
}

#[test]
fn a_bundle_in_a_channel_that_stays_stays_and_others_are_deleted_with_what_only_they_need() {
    let (quay, connected) = world();
    connected.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let site = Site::new();
    site.image_set("isc.yaml", &operators(ALL_OF_FOO));
    std::fs::create_dir(site.path("data")).unwrap();
    for chunk in chunks(&connected.path("data")) {
        std::fs::copy(&chunk, site.path("data").join(chunk.file_name().unwrap())).unwrap();
    }
    let registry = DockerRegistry::start(&Settings::default()).unwrap();
    let to = format!("{}/ocp", registry.address());
    site.succeeds(&format!("-c isc.yaml {PLAIN_TARGET} --from file://data docker://{to}"));
    let bundles = tags(&site, &to, "lab/foo-bundle");
    assert_eq!(bundles.len(), 4);
    quay.forget_requests();

    // The only bundle of `old` is also in `beta`.
    let old = "    packages:\n    - name: foo\n      channels:\n      - name: old\n";
    let ran = generate(&site, &to, &operators(old));
    assert!(ran.out.contains("0 images to delete"), "{}", ran.out);
    assert!(
        ran.err.contains("foo.v0.1.0 is also in the channel beta of ocp/lab/operator-index:v4.16"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("ocp/lab/foo:v0.1.0 stays: needed by foo.v0.1.0"), "{}", ran.err);

    // The newest versions of `beta` go; what the others need stays.
    let newest = "    packages:\n    - name: foo\n      channels:\n      - name: beta\n        minVersion: 0.3.0\n";
    let ran = generate(&site, &to, &operators(newest));
    assert!(ran.err.contains("the channel beta of foo") && ran.err.contains("loses its head"));
    assert!(ran.err.contains("lab/shared") && ran.err.contains("stays: needed by"), "{}", ran.err);
    assert!(ran.out.contains("still offers foo.v0.3.0, foo.v0.3.1"), "{}", ran.out);
    assert!(ran.out.contains("maxVersion: \"0.2.0\""), "{}", ran.out);
    let ran = delete(&site, &to);
    let fates = outcomes(&ran, &to);
    assert_eq!(fates.len(), 4, "{fates:?}");
    assert!(fates.values().all(|fate| fate == "deleted"), "{fates:?}");
    assert_eq!(quay.requests().count(), 0, "only the target is contacted");

    registry.collect_garbage().unwrap();
    for repository in ["lab/foo", "lab/foo-bundle", "lab/shared", CATALOG] {
        pull_all(&site, &to, repository);
    }
    assert_eq!(tags(&site, &to, "lab/foo").into_keys().collect::<Vec<_>>(), ["v0.1.0", "v0.2.0"]);
    let opm = tools::path(Tool::Opm).unwrap();
    let reference = format!("{to}/{CATALOG}:{TAG}");
    site.judge(opm.to_str().unwrap(), &["render", "--use-http", "-ojson", &reference]);
}

#[test]
fn bundles_that_were_mirrored_registry_to_registry_are_deleted_without_their_registry() {
    let (quay, site) = world();
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = format!("{}/ocp", target.address());
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    quay.forget_requests();
    let newest = "    packages:\n    - name: foo\n      channels:\n      - name: beta\n        minVersion: 0.3.0\n";
    generate(&site, &to, &operators(newest));
    delete(&site, &to);
    assert_eq!(quay.requests().count(), 0, "only the target is contacted");
    let left: BTreeSet<String> = tags(&site, &to, "lab/foo").into_keys().collect();
    assert_eq!(left, ["v0.1.0", "v0.2.0"].map(str::to_owned).into());
    pull_all(&site, &to, "lab/foo-bundle");
}

#[test]
fn a_range_deletes_nothing_outside_of_it() {
    let (_quay, site) = world();
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = format!("{}/ocp", target.address());
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    // 0.3.0 is only reachable below 0.3.1, so mirroring this range takes both.
    let range = "    packages:\n    - name: foo\n      channels:\n      - name: beta\n        minVersion: 0.3.0\n        maxVersion: 0.3.0\n";
    generate(&site, &to, &operators(range));
    delete(&site, &to);
    let left: Vec<String> = tags(&site, &to, "lab/foo").into_keys().collect();
    assert_eq!(left, ["v0.1.0", "v0.2.0", "v0.3.1"]);
}

/// The names of the bundles that opm finds in a catalog at a registry.
fn offered(site: &Site, reference: &str) -> Vec<String> {
    let opm = tools::path(Tool::Opm).unwrap();
    let json = site.judge(opm.to_str().unwrap(), &["render", "--use-http", "-ojson", reference]);
    let documents = serde_json::Deserializer::from_slice(&json).into_iter::<serde_json::Value>();
    let documents = documents.map(Result::unwrap);
    let bundles = documents.filter(|document| document["schema"] == "olm.bundle");
    let mut names: Vec<String> =
        bundles.map(|bundle| bundle["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn catalogs_are_replaced_before_their_bundles_are_deleted() {
    let (quay, site) = world();
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = format!("{}/ocp", target.address());
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    let reference = format!("{to}/{CATALOG}:{TAG}");
    assert_eq!(offered(&site, &reference).len(), 4);
    quay.forget_requests();
    let newest = "    packages:\n    - name: foo\n      channels:\n      - name: beta\n        minVersion: 0.3.0\n";
    generate(&site, &to, &operators(newest));
    target.forget_requests();
    let list = "data/working-dir/delete/delete-images.yaml";
    let line = format!(
        "delete --update-catalogs --output=json --delete-yaml-file {list} {PLAIN_TARGET} docker://{to}"
    );
    let ran = ends(&site, &line, 0);
    assert_eq!(quay.requests().count(), 0, "only the target is contacted");
    assert!(ran.report()["replacedCatalogs"].to_string().contains(CATALOG), "{}", ran.out);
    // The new catalog was there before the first deletion.
    let requests = target.requests();
    let order: Vec<&str> = requests
        .0
        .iter()
        .filter(|request| request.path.contains("/manifests/"))
        .filter_map(|request| match request.method.as_str() {
            "DELETE" => Some("delete"),
            "PUT" if request.path.contains(TAG) => Some("publish"),
            _ => None,
        })
        .collect();
    assert_eq!(order.first(), Some(&"publish"), "{order:?}");
    assert!(order.contains(&"delete"));
    assert_eq!(offered(&site, &reference), ["foo.v0.1.0", "foo.v0.2.0"]);
    for repository in ["lab/foo", "lab/foo-bundle", "lab/shared", CATALOG] {
        pull_all(&site, &to, repository);
    }
}

#[test]
fn a_pinned_configuration_selects_all_of_its_run_and_needs_all() {
    let (quay, site) = world();
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = format!("{}/ocp", target.address());
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    let files = std::fs::read_dir(site.path("data/working-dir")).unwrap();
    let mut files = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pinned = files.find(|name| name.starts_with("disc_pinned_")).unwrap();
    let line = format!(
        "delete --generate -c data/working-dir/{pinned} --workspace file://data docker://{to}"
    );
    quay.forget_requests();
    let ran = ends(&site, &line, 1);
    assert!(ran.err.contains("everything that was mirrored") && ran.err.contains("--all"));
    ends(&site, &line.replace("--generate", "--generate --all"), 0);
    delete(&site, &to);
    assert_eq!(quay.requests().count(), 0, "only the target is contacted");
    for (repository, count) in
        [("lab/foo", 0), ("lab/foo-bundle", 0), ("lab/shared", 0), (CATALOG, 1)]
    {
        assert_eq!(tags(&site, &to, repository).len(), count, "{repository}");
    }
}

#[test]
fn the_undo_file_restores_a_catalog_that_no_configuration_selects() {
    let (_quay, site) = world();
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = format!("{}/ocp", target.address());
    let image =
        format!("  additionalImages:\n  - name: {HOST}/lab/foo:v0.1.0\n    targetRepo: mine\n");
    site.image_set("isc.yaml", &format!("{}{image}", operators(ALL_OF_FOO)));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    let before = target.content();
    // The operators are no longer wanted: their catalog is deleted with them.
    site.image_set("isc.yaml", &image);
    let line = format!(
        "prune --keep isc.yaml --yes --output=json --workspace file://data {PLAIN_TARGET} docker://{to}"
    );
    let ran = ends(&site, &line, 0);
    assert!(tags(&site, &to, CATALOG).is_empty(), "{}", ran.out);
    assert!(tags(&site, &to, "lab/foo-bundle").is_empty());
    assert_eq!(tags(&site, &to, "mine").len(), 1);
    let report = ran.report();
    let undo = report["files"][0].as_str().unwrap();
    site.succeeds(&format!("-c {undo} {PLAIN} --workspace file://data docker://{to}"));
    let gone: Vec<&String> =
        before.iter().filter(|line| !target.content().contains(*line)).collect();
    assert!(gone.is_empty(), "{gone:?}");
}
