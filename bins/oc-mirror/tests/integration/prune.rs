//! `oc-mirror prune`: the syntax of the proposal, and everything that no configuration selects.

use crate::support;

use std::io::Write;
use std::process::Stdio;

use lab::images::Image;
use lab::registry::LabRegistry;

use support::deletion::{PLAIN_TARGET, ends, outcomes, tags};
use support::releases::{World, channel};
use support::{PLAIN, Ran, Site, image_set};

#[test]
fn the_files_and_commands_of_the_proposal_work_as_they_are_written() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2", "4.16.3"]);
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = format!("{}/ocp", target.address());
    let site = world.site();
    let all = "      minVersion: 4.16.1\n      maxVersion: 4.16.3\n";
    site.image_set("image-set-config.yaml", &channel("stable-4.16", all));
    world.succeeds(
        &site,
        &format!("-c image-set-config.yaml {PLAIN} --workspace file://. docker://{to}"),
    );
    // What is to stay is in the same file; the channel names more.
    let file = format!(
        "apiVersion: mirror.openshift.io/v1alpha2\nkind: ImageSetConfiguration\nmirror:\n{}prune:\n{}",
        channel("stable-4.16", "      minVersion: 4.16.3\n      maxVersion: 4.16.3\n"),
        channel("stable-4.16", "      minVersion: 4.16.1\n      maxVersion: 4.16.3\n"),
    );
    site.write("image-set-config.yaml", &file);
    let before = target.content();
    let line = format!("prune -c image-set-config.yaml {PLAIN_TARGET} docker://{to}");
    let prune = |input: &str, flags: &str| {
        let mut command = world.command(&site, &format!("{line} {flags}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::of(child.wait_with_output().unwrap())
    };
    // The plan is printed, and nothing happens without a confirmation.
    for input in ["", "n\n", "no\n"] {
        let ran = prune(input, "");
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains("not confirmed: nothing was deleted"), "{}", ran.err);
        assert!(ran.out.contains("openshift/release-images:4.16.1-x86_64"), "{}", ran.out);
        assert_eq!(target.content(), before);
    }
    let dry = prune("", "--dry-run");
    assert_eq!(dry.code, 0, "{}", dry.err);
    assert_eq!(target.content(), before);
    let ran = prune("y\n", "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("stays: selected by image-set-config.yaml"), "{}", ran.err);
    let payloads = tags(&site, &to, "openshift/release-images");
    assert_eq!(payloads.keys().collect::<Vec<_>>(), [&releases[2].tag()]);
    assert_eq!(tags(&site, &to, "openshift/release").len(), releases[2].components.len());

    // Mirroring with the same file does not prune, and reports that.
    let ran = world.run(
        &site,
        &format!("-c image-set-config.yaml {PLAIN} --workspace file://. docker://{to}"),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("nothing is pruned while mirroring"), "{}", ran.err);
}

fn images(names: &[&str]) -> String {
    let lines = names.iter().map(|name| format!("  - name: quay.io/{name}\n"));
    image_set(&format!("  additionalImages:\n{}", lines.collect::<String>()))
}

#[test]
fn what_no_configuration_selects_any_more_is_deleted_from_any_directory() {
    let source = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    for name in ["a/one", "a/two", "a/three", "a/four"] {
        source.put_image(&Image::tiny(name).unwrap(), name, "1").unwrap();
    }
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = format!("{}/ns", target.address());
    let site = Site::new();
    site.redirect("quay.io", source.address());
    let mirror = |config: &str| {
        site.succeeds(&format!("-c {config} {PLAIN} --workspace file://data docker://{to}"));
    };
    site.write("isc-a.yaml", &images(&["a/one:1", "a/two:1"]));
    site.write("isc-b.yaml", &images(&["a/two:1", "a/three:1", "a/four:1"]));
    mirror("isc-a.yaml");
    mirror("isc-b.yaml");
    // Others push to the same target, too.
    let flags = ["copy", "--quiet", "--src-tls-verify=false", "--dest-tls-verify=false"];
    let (from, there) = (format!("docker://{to}/a/one:1"), format!("docker://{to}/theirs:1"));
    site.skopeo(&[&flags[..], &[&from, &there]].concat());
    // One is no longer selected by the first, and not yet mirrored again; three by the second.
    site.write("isc-a.yaml", &images(&["a/two:1"]));
    site.write("isc-b.yaml", &images(&["a/four:1"]));
    let line = format!(
        "prune --output=json --keep isc-a.yaml --keep isc-b.yaml --yes {PLAIN_TARGET} docker://{to}"
    );
    let ran = ends(&site, &line, 0);
    let fates = outcomes(&ran, &to);
    assert_eq!(fates.keys().collect::<Vec<_>>(), ["a/one:1", "a/three:1"]);
    for (repository, count) in
        [("a/one", 0), ("a/two", 1), ("a/three", 0), ("a/four", 1), ("theirs", 1)]
    {
        assert_eq!(tags(&site, &to, repository).len(), count, "{repository}");
    }
    // A second time nothing is left to prune.
    let again = ends(&site, &line, 0);
    assert!(!again.out.contains("a/one:1"), "{}", again.out);
    // A configuration that cannot be selected keeps everything.
    site.write("isc-c.yaml", &image_set("  operators:\n  - catalog: quay.io/none:v1\n"));
    let ran =
        ends(&site, &format!("prune --keep isc-c.yaml --yes {PLAIN_TARGET} docker://{to}"), 4);
    assert!(ran.err.contains("selecting what isc-c.yaml keeps"), "{}", ran.err);
    assert_eq!(tags(&site, &to, "a/two").len(), 1);
}
