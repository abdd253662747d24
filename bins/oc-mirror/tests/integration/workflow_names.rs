//! Names at the destination, and the report and exit code a run ends with.

use crate::support;

use lab::images::Image;
use lab::registry::{LabRegistry, Settings};
use oci::Digest;
use serde_json::Value;

use support::forky_skopeo::ForkySkopeo;
use support::{PLAIN, Site};

fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn two_sources_with_one_destination_are_both_named_before_anything_happens() {
    let source = registry();
    let site = Site::new();
    for name in ["quay.io", "docker.io"] {
        site.redirect(name, source.address());
    }
    let target = registry();
    let to = target.address();
    site.images("isc.yaml", &["quay.io/org/app:v1", "docker.io/org/app:v1"]);
    for line in [
        "-c isc.yaml file://data".to_owned(),
        format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"),
    ] {
        let ran = site.run(&line);
        assert_eq!(ran.code, 8, "{}", ran.out);
        let errors = ran.errors();
        assert!(errors.contains("quay.io/org/app:v1"), "{errors}");
        assert!(errors.contains("docker.io/org/app:v1"), "{errors}");
        assert!(errors.contains("targetRepo"), "the remedy: {errors}");
    }
    assert_eq!((source.requests().count(), target.requests().count()), (0, 0));

    // Joined paths may meet as well.
    site.images("isc.yaml", &["quay.io/a/b-c:v1", "quay.io/a/b/c:v1"]);
    let ran = site.run(&format!(
        "-c isc.yaml {PLAIN} --max-nested-paths 2 --workspace file://data docker://{to}"
    ));
    assert_eq!(ran.code, 8, "{}", ran.out);
    assert!(ran.errors().contains("quay.io/a/b-c:v1 and quay.io/a/b/c:v1"), "{}", ran.errors());
}

#[test]
fn deep_paths_are_joined_short_names_completed_and_ports_distinguished_from_tags() {
    let source = registry();
    let put = |repository: &str, tag: &str| -> Digest {
        let image = Image::tiny(repository).unwrap();
        source.put_image(&image, repository, tag).unwrap();
        image.digest()
    };
    put("a/b/c/d", "v1");
    put("library/busybox", "1");
    put("team/tool", "2");
    let single = put("single", "v1");
    let from = source.address();
    let site = Site::new();
    site.redirect("docker.io", from);
    site.images(
        "isc.yaml",
        &[
            format!("{from}/a/b/c/d:v1"),
            "busybox:1".into(),
            "team/tool:2".into(),
            format!("{from}/single@{single}"),
        ],
    );
    for (options, target_path, expected) in [
        ("", "", ["a/b/c/d:v1", "library/busybox:1", "team/tool:2", "single"]),
        (
            "--max-nested-paths 3",
            "ns/",
            ["a/b-c-d:v1", "library/busybox:1", "team/tool:2", "single"],
        ),
        ("--max-nested-paths 1", "", ["a-b-c-d:v1", "library-busybox:1", "team-tool:2", "single"]),
    ] {
        let target = registry();
        let place = format!("docker://{}/{target_path}", target.address());
        site.succeeds(&format!("-c isc.yaml {PLAIN} {options} --workspace file://data {place}"));
        for name in expected {
            let name = match name {
                "single" => format!("single:sha256-{}", single.hex()),
                name => name.to_owned(),
            };
            site.pull(&format!("{place}{name}"), &["--src-tls-verify=false"]);
        }
    }
    let itms = site.read("data/working-dir/cluster-resources/itms-oc-mirror.yaml");
    assert!(itms.contains("source: docker.io/library/busybox\n"), "{itms}");
}

/// Host names have no case; paths have.
#[test]
fn host_names_in_upper_case_work_on_both_sides_and_in_every_mode() {
    let (source, target) = (registry(), registry());
    let image = Image::tiny("app").unwrap();
    source.put_image(&image, "team/app", "v1").unwrap();
    let named = |registry: &LabRegistry| format!("LocalHost:{}", registry.address().port());
    let (from, to) = (named(&source), named(&target));
    let site = Site::new();
    site.images(
        "isc.yaml",
        &[format!("{from}/team/app:v1"), format!("{from}/team/app@{}", image.digest())],
    );
    let pulled = |place: &str| {
        let plain = place.replace("LocalHost", "127.0.0.1");
        site.pull(&format!("docker://{plain}/team/app:v1"), &["--src-tls-verify=false"]);
    };
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://direct docker://{to}/one"));
    pulled(&format!("{to}/one"));
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}/two"));
    pulled(&format!("{to}/two"));
    // Nodes match these names with those in pod specs as they are written.
    let itms = site.read("data/working-dir/cluster-resources/itms-oc-mirror.yaml");
    assert!(itms.contains(&format!("source: {from}/team\n")), "{itms}");
    assert!(itms.contains(&format!("- {to}/two/team\n")), "{itms}");
}

/// skopeo 1.22 reads a short name as one at docker.io, whatever registries.conf contains. So does this
/// program, unless registries.conf resolves the name to another image.
#[test]
fn short_names_that_registries_conf_resolves_otherwise_are_rejected() {
    let source = registry();
    source.put_image(&Image::tiny("busybox").unwrap(), "library/busybox", "1").unwrap();
    let from = source.address();
    let site = Site::new();
    let redirect = format!(
        "[[registry]]\nlocation = \"docker.io\"\n[[registry.mirror]]\nlocation = \"{from}\"\ninsecure = true\n"
    );
    let alias = "[aliases]\n\"busybox\" = \"quay.io/other/busybox\"\n";
    let search = "unqualified-search-registries = [\"registry.example.com\", \"docker.io\"]\n";
    site.images("isc.yaml", &["busybox:1"]);
    for (number, (conf, why)) in [
        (redirect.clone(), ""),
        (format!("unqualified-search-registries = [\"docker.io\"]\n{redirect}"), ""),
        (format!("{redirect}{alias}"), "but quay.io/other/busybox by the alias in"),
        (format!("{search}{redirect}"), "searches registry.example.com, docker.io"),
    ]
    .into_iter()
    .enumerate()
    {
        site.write("home/.config/containers/registries.conf", &conf);
        source.forget_requests();
        let ran = site.run(&format!("-c isc.yaml {PLAIN} file://data{number}"));
        match why {
            "" => assert_eq!(ran.code, 0, "{conf}: {}{}", ran.out, ran.err),
            why => {
                assert_eq!(ran.code, 1, "{conf}: {}", ran.out);
                assert!(
                    ran.err.contains("isc.yaml:5:11: the short name \"busybox:1\""),
                    "{}",
                    ran.err
                );
                assert!(ran.err.contains(why), "{}", ran.err);
                assert_eq!(source.requests().count(), 0, "{conf}");
            }
        }
        let skopeo = ForkySkopeo::new();
        let conf = skopeo.write("registries.conf", &conf);
        let line = ["inspect", "--no-tags", "--tls-verify=false", "docker://busybox:1"];
        let inspected = skopeo.run(&[&["--registries-conf", &conf][..], &line].concat());
        let message = String::from_utf8_lossy(&inspected.stdout).into_owned();
        assert!(message.contains("\"docker.io/library/busybox\""), "{message}{inspected:?}");
    }
}

#[test]
fn the_report_has_what_a_machine_needs_and_a_partial_run_exits_8() {
    let (source, target) = (registry(), registry());
    let image = Image::tiny("there").unwrap();
    source.put_image(&image, "org/there", "v1").unwrap();
    let from = source.host().unwrap();
    let to = target.address();
    let site = Site::new();
    site.images("isc.yaml", &[format!("{from}/org/there:v1"), format!("{from}/org/absent:v1")]);
    let ran = site.run(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    let report = ran.report();
    for key in [
        "version", "mode", "ending", "run", "images", "totals", "archive", "files", "warnings",
        "errors", "exitCode",
    ] {
        assert!(keys(&report).contains(&key), "{key} is missing: {report:#}");
    }
    assert_eq!(
        (&report["version"], &report["mode"], &report["ending"], &report["exitCode"]),
        (&1.into(), &"mirrorToDisk".into(), &"partial".into(), &8.into())
    );
    let there = ran.image("org/there");
    assert_eq!(there["digest"], image.digest().to_string());
    assert_eq!((&there["kind"], &there["outcome"]), (&"additional".into(), &"copied".into()));
    let absent = ran.image("org/absent");
    assert_eq!(absent["outcome"], "failed");
    assert!(absent["error"].as_str().unwrap().contains("does not exist"), "{absent}");
    assert_eq!((ran.total("images"), ran.total("copied"), ran.total("failed")), (2, 1, 1));
    let blobs: u64 = image.blobs.values().map(|blob| blob.size).sum();
    assert_eq!(ran.total("bytes"), blobs);
    for file in report["files"].as_array().unwrap() {
        assert!(site.path(file.as_str().unwrap()).exists(), "{file}");
    }
    let log = site.path("data/working-dir/logs");
    let entries = std::fs::read_dir(log).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    let errors = names.iter().find(|name| name.starts_with("mirroring_errors_")).unwrap();
    let errors = site.read(&format!("data/working-dir/logs/{errors}"));
    assert!(errors.contains("org/absent:v1"), "{errors}");

    // The other side gets what arrived, gets a list of what did not, and fails for that alone.
    let push = format!("{PLAIN} --from file://data docker://{to}");
    let ran = site.run(&format!("-c isc.yaml {push}"));
    assert_eq!(ran.code, 8, "{}", ran.out);
    let warnings = ran.report()["warnings"].to_string();
    assert!(warnings.contains("partial") && warnings.contains("org/absent:v1"), "{warnings}");
    site.pull(&format!("docker://{to}/org/there:v1"), &["--src-tls-verify=false"]);
    site.images("there.yaml", &[format!("{from}/org/there:v1")]);
    let ran = site.succeeds(&format!("-c there.yaml {push}"));
    assert_eq!(ran.report()["ending"], "complete");
}

#[test]
fn the_text_report_keeps_the_lines_that_scripts_grep_for() {
    let source = registry();
    source.put_image(&Image::tiny("x").unwrap(), "org/x", "v1").unwrap();
    let site = Site::new();
    site.images("isc.yaml", &[source.image("org/x", "v1").unwrap()]);
    let output = site.command(&format!("-c isc.yaml {PLAIN} file://data")).output().unwrap();
    let both = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(both).unwrap();
    for line in [
        "workflow mode: mirrorToDisk",
        "images to copy 1",
        "=== Results ===",
        "1 / 1 additional images mirrored successfully",
    ] {
        assert!(text.contains(line), "{line:?} is missing in:\n{text}");
    }
}

#[test]
fn pinned_configurations_mirror_the_same_digests_again() {
    let (source, target) = (registry(), registry());
    let first = Image::tiny("first").unwrap();
    source.put_image(&first, "org/x", "v1").unwrap();
    let site = Site::new();
    site.images("isc.yaml", &[source.image("org/x", "v1").unwrap()]);
    let ran = site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let report = ran.report();
    let files = report["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap());
    let pinned = files.clone().find(|file| file.contains("/isc_pinned_")).unwrap();
    assert!(files.clone().any(|file| file.contains("/disc_pinned_")));

    // The tag moves on; the pinned configuration does not.
    source.put_image(&Image::tiny("second").unwrap(), "org/x", "v1").unwrap();
    let to = target.address();
    let straight = format!("-c {pinned} {PLAIN} --workspace file://other docker://{to}");
    site.succeeds(&straight);
    let held = site.raw(&format!("docker://{to}/org/x:v1"), &["--tls-verify=false"]);
    assert_eq!(held, first.root().bytes);
    target.wipe();
    site.succeeds(&format!("-c {pinned} {PLAIN} --from file://data docker://{to}"));
    let held = site.raw(&format!("docker://{to}/org/x:v1"), &["--tls-verify=false"]);
    assert_eq!(held, first.root().bytes);
}
