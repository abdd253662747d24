//! Stored plans: reviewed, then executed as they are.

use crate::support;

use std::fs;
use std::path::PathBuf;

use lab::images::Image;
use lab::operators::{CATALOG, HOST, Operators, TAG};
use lab::registry::{LabRegistry, Settings};
use serde_json::Value;

use support::{PLAIN, Site, chunks};

const DRY_RUN_PLAN: &str = "data/working-dir/dry-run/plan.json";

fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

/// A source with two images, and a configuration that selects them.
fn scene() -> (LabRegistry, Site) {
    let source = registry();
    for name in ["a", "b"] {
        source.put_image(&Image::tiny(name).unwrap(), &format!("org/{name}"), "v1").unwrap();
    }
    let site = Site::new();
    let name = |name: &str| source.image(&format!("org/{name}"), "v1").unwrap();
    site.images("isc.yaml", &["a", "b"].map(name));
    (source, site)
}

fn across(target: &LabRegistry) -> String {
    format!("{PLAIN} --workspace file://data docker://{}/ns", target.address())
}

/// The plans that runs stored.
fn stored(site: &Site) -> Vec<PathBuf> {
    let plans = fs::read_dir(site.path("data/working-dir/plans")).unwrap();
    let mut plans: Vec<PathBuf> = plans.map(|entry| entry.unwrap().path()).collect();
    plans.sort();
    plans
}

fn held(site: &Site, target: &LabRegistry, name: &str) -> Vec<u8> {
    let reference = format!("docker://{}/ns/org/{name}:v1", target.address());
    site.raw(&reference, &["--tls-verify=false"])
}

#[test]
fn the_plan_of_a_dry_run_is_executed_as_it_was_reviewed() {
    let (source, site) = scene();
    let target = registry();
    site.succeeds(&format!("-c isc.yaml --dry-run {}", across(&target)));
    // Neither a tag that moves afterwards nor the configuration changes what is mirrored.
    source.put_image(&Image::tiny("moved").unwrap(), "org/a", "v1").unwrap();
    fs::remove_file(site.path("isc.yaml")).unwrap();
    source.forget_requests();
    let ran = site.succeeds(&format!("--plan {DRY_RUN_PLAN} {}", across(&target)));
    assert_eq!(ran.total("copied"), 2);
    for name in ["a", "b"] {
        assert_eq!(held(&site, &target, name), Image::tiny(name).unwrap().root().bytes);
        site.pull(
            &format!("docker://{}/ns/org/{name}:v1", target.address()),
            &["--src-tls-verify=false"],
        );
    }
    // Everything is requested by digest.
    let requests = source.requests().0;
    assert!(!requests.is_empty());
    for request in requests {
        assert!(request.path == "/v2/" || request.path.contains("sha256:"), "{}", request.path);
    }
    let resources = site.read("data/working-dir/cluster-resources/itms-oc-mirror.yaml");
    assert!(resources.contains("/ns/org"), "{resources}");
    // A plan can be executed again; existing content is not copied.
    let ran = site.succeeds(&format!("--plan {DRY_RUN_PLAN} {}", across(&target)));
    assert_eq!((ran.total("copied"), ran.total("present")), (0, 2));
}

#[test]
fn every_run_stores_its_plan_and_the_plan_gives_the_same_archive_elsewhere() {
    let (source, site) = scene();
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let [plan] = &stored(&site)[..] else { panic!("expected one plan") };
    let other = Site::new();
    fs::copy(plan, other.path("plan.json")).unwrap();
    source.put_image(&Image::tiny("moved").unwrap(), "org/a", "v1").unwrap();
    let ran = other.succeeds(&format!("--plan plan.json {PLAIN} file://data"));
    assert_eq!(ran.total("copied"), 2);
    // Both archives fill a target with the same content.
    for side in [&site, &other] {
        let far = Site::new();
        fs::create_dir(far.path("data")).unwrap();
        for chunk in chunks(&side.path("data")) {
            fs::copy(&chunk, far.path("data").join(chunk.file_name().unwrap())).unwrap();
        }
        fs::copy(site.path("isc.yaml"), far.path("isc.yaml")).unwrap();
        let target = registry();
        let to = format!("{PLAIN} --from file://data docker://{}/ns", target.address());
        far.succeeds(&format!("-c isc.yaml --dry-run {to}"));
        far.succeeds(&format!("--plan {DRY_RUN_PLAN} {to}"));
        for name in ["a", "b"] {
            assert_eq!(held(&far, &target, name), Image::tiny(name).unwrap().root().bytes);
        }
    }
    // The record of the run names the plan.
    let record: Value =
        serde_json::from_str(&site.read("data/working-dir/runs/000001.run.json")).unwrap();
    let hex = record["plan"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
    assert_eq!(plan.file_stem().unwrap().to_str().unwrap(), hex);
}

#[test]
fn a_plan_that_was_edited_or_is_for_something_else_is_rejected() {
    let (_source, site) = scene();
    let target = registry();
    site.succeeds(&format!("-c isc.yaml --dry-run {}", across(&target)));
    let plan = site.read(DRY_RUN_PLAN);
    site.write(
        "edited.json",
        &plan.replace("/ns/org/a", "/ns/org/x").replace("ns/org/a:v1", "ns/org/x:v1"),
    );
    site.write("cut.json", &plan[..plan.len() / 2]);
    site.write("none.json", "{}\n");
    let other = registry();
    let elsewhere = format!("{PLAIN} --workspace file://data docker://{}/ns", other.address());
    let namespace = format!("{PLAIN} --workspace file://data docker://{}/x", target.address());
    for (line, expected) in [
        (format!("--plan edited.json {}", across(&target)), "it was edited"),
        (format!("--plan cut.json {}", across(&target)), "expected a digest in the last line"),
        (format!("--plan none.json {}", across(&target)), "expected a digest in the last line"),
        (format!("--plan absent.json {}", across(&target)), "reading the plan absent.json"),
        (format!("--plan {DRY_RUN_PLAN} {elsewhere}"), "is for docker://"),
        (format!("--plan {DRY_RUN_PLAN} {namespace}"), "is for docker://"),
        (format!("--plan {DRY_RUN_PLAN} {PLAIN} file://data"), "is for the mode mirrorToMirror"),
        (
            format!("--plan {DRY_RUN_PLAN} -c isc.yaml {}", across(&target)),
            "cannot be used together",
        ),
        (format!("--plan {DRY_RUN_PLAN} --dry-run {}", across(&target)), "cannot be used together"),
    ] {
        let ran = site.run(&line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.err);
        assert!(ran.err.contains(expected), "{line}: {}", ran.err);
    }
    for registry in [&target, &other] {
        assert!(registry.requests().0.iter().all(|request| request.method != "PUT"));
    }
}

#[test]
fn a_plan_with_built_catalogs_gives_what_a_run_gives() {
    let quay = registry();
    Operators::generate().unwrap().put(&quay).unwrap();
    let mut archives = Vec::new();
    for is_planned in [false, true] {
        let site = Site::new();
        site.redirect(HOST, quay.address());
        site.image_set(
            "isc.yaml",
            &format!("  operators:\n  - catalog: {HOST}/{CATALOG}:{TAG}\n    packages:\n    - name: baz\n"),
        );
        if is_planned {
            site.succeeds("-c isc.yaml --dry-run file://data");
            site.succeeds(&format!("--plan {DRY_RUN_PLAN} file://data"));
        } else {
            site.succeeds("-c isc.yaml file://data");
        }
        let far = Site::new();
        fs::create_dir(far.path("data")).unwrap();
        for chunk in chunks(&site.path("data")) {
            fs::copy(&chunk, far.path("data").join(chunk.file_name().unwrap())).unwrap();
        }
        fs::copy(site.path("isc.yaml"), far.path("isc.yaml")).unwrap();
        let target = registry();
        let to =
            format!("--dest-tls-verify=false --from file://data docker://{}", target.address());
        let ran = match is_planned {
            false => far.succeeds(&format!("-c isc.yaml {to}")),
            true => {
                far.succeeds(&format!("-c isc.yaml --dry-run {to}"));
                far.succeeds(&format!("--plan {DRY_RUN_PLAN} {to}"))
            }
        };
        let images = ran.report()["images"].clone();
        let digests: Vec<(Value, Value)> = images
            .as_array()
            .unwrap()
            .iter()
            .map(|image| (image["origin"].clone(), image["digest"].clone()))
            .collect();
        let source = fs::read_dir(far.path("data/working-dir/cluster-resources")).unwrap();
        let mut names: Vec<_> = source.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        archives.push((digests, names));
    }
    assert!(archives[0].0.len() > 1);
    assert_eq!(archives[0], archives[1]);
}
