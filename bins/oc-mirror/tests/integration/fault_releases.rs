//! Update services that fail, and releases that are not what they should be:
//! the cause is reported, the release fails, the rest of the run continues.

use crate::support;

use std::time::Duration;

use http::Method;
use lab::images::Image;
use lab::registry::{Effect, Fault};
use lab::releases::{COMPONENTS, Recipe, Release};

use support::releases::{World, chain, channel};
use support::{PLAIN, Ran, Site};

const IMPATIENT: &str = "--retry-times 1 --retry-delay 1ms";

/// Mirrors `platform` with an image that nothing is wrong with.
fn run(world: &World, site: &Site, platform: &str) -> Ran {
    let image = Image::tiny("beside").unwrap();
    world.quay.put_image(&image, "org/beside", "v1").unwrap();
    let beside = "  additionalImages:\n  - name: quay.io/org/beside:v1\n";
    site.image_set("isc.yaml", &format!("{platform}{beside}"));
    world.run(site, &format!("-c isc.yaml {PLAIN} {IMPATIENT} file://data"))
}

/// Only the releases failed, for a reason that contains `wanted`.
fn failed(ran: &Ran, expected: &str) {
    assert_eq!(ran.code, 2, "{expected}: {}\n{}", ran.err, ran.out);
    assert!(ran.errors().contains(expected), "expected {expected:?}, found {}", ran.errors());
    assert_eq!(ran.image("org/beside")["outcome"], "copied");
    assert!(!ran.report()["archive"].is_null(), "the rest is archived");
}

#[test]
fn an_update_service_that_fails_is_reported_with_its_cause() {
    let (world, _) = World::with(&["4.16.1"]);
    let typed = |kind: &str, body: &str| {
        Effect::Status(200, vec![("content-type".into(), kind.into())], body.into())
    };
    for (effect, expected) in [
        (Effect::status(500), "500 Internal Server Error"),
        (Effect::status(403), "403 Forbidden"),
        (Effect::status(404), "does not have channel"),
        (Effect::DropConnection, "connection"),
        (typed("text/html", "<html>Please log in</html>"), "a web page arrived"),
        (typed("application/json", "<!doctype html><html></html>"), "web page"),
        (typed("application/json", "Service temporarily out of order"), "not an update graph"),
        (typed("application/json", "{\"nodes\": 3}"), "not an update graph"),
        (typed("application/json", r#"{"nodes":[],"edges":[[0,1]]}"#), "edge"),
    ] {
        world.service.server.clear_faults();
        world.service.server.fault(Fault::on_any("/graph").does(effect.clone()));
        let ran = run(&world, &world.site(), &channel("stable-4.16", ""));
        failed(&ran, expected);
        assert!(ran.errors().contains("stable-4.16"), "{effect:?}: {}", ran.errors());
    }
}

#[test]
fn an_update_service_that_fails_now_and_then_gets_retries() {
    let (world, _) = World::with(&["4.16.1"]);
    world.service.server.fault(Fault::on_any("/graph").times(1).does(Effect::status(503)));
    let slow = Effect::Delay(Duration::from_millis(300));
    world.service.server.fault(Fault::on_any("/graph").does(slow));
    let ran = run(&world, &world.site(), &channel("stable-4.16", ""));
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    assert!(ran.total("retries") >= 1);
}

#[test]
fn an_update_service_that_does_not_respond_is_named() {
    let (world, _) = World::with(&["4.16.1"]);
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ""));
    let line = format!("--output=json -c isc.yaml {PLAIN} {IMPATIENT} file://data");
    let mut command = world.command(&site, &line);
    command.env("UPDATE_URL_OVERRIDE", "http://updates.invalid/graph");
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 2, "{}\n{}", ran.err, ran.out);
    assert!(ran.errors().contains("http://updates.invalid/graph"), "{}", ran.errors());
    assert!(ran.errors().contains("resolved"), "{}", ran.errors());
}

#[test]
fn settings_that_cannot_be_honoured_are_errors_before_any_request() {
    let (world, _) = World::with(&["4.16.1"]);
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ""));
    site.write("no-key.asc", "this is not a key");
    for (variable, value, expected) in [
        ("UPDATE_URL_OVERRIDE", "no address", "UPDATE_URL_OVERRIDE"),
        ("UPDATE_URL_OVERRIDE", "ftp://x/graph", "UPDATE_URL_OVERRIDE"),
        ("OCP_SIGNATURE_URL", "::", "OCP_SIGNATURE_URL"),
        ("OCP_SIGNATURE_VERIFICATION_PK", "gone.asc", "gone.asc"),
        ("OCP_SIGNATURE_VERIFICATION_PK", "no-key.asc", "no-key.asc"),
        ("VERSION_FILTER", "4.16.*", "VERSION_FILTER"),
    ] {
        world.forget_requests();
        let mut command = world.command(&site, &format!("-c isc.yaml {PLAIN} file://data"));
        command.env(variable, value);
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 1, "{variable}={value}: {}", ran.err);
        assert!(ran.err.contains(expected), "{variable}={value}: {}", ran.err);
        assert_eq!(world.service.server.requests().count(), 0, "{variable}");
    }
}

#[test]
fn unknown_channels_and_versions_are_reported_with_the_nearest_ones() {
    let (world, _) = World::with(&["4.16.1", "4.16.3"]);
    for (platform, expected) in [
        (channel("stabel-4.16", ""), "did you mean stable-4.16?"),
        (channel("stable-4.99", ""), "stable-4.99"),
        (channel("stable-4.16", "      minVersion: 4.16.7\n      maxVersion: 4.16.9\n"), "4.16.3"),
        (
            channel(
                "stable-4.16",
                "      shortestPath: true\n      minVersion: 4.16.2\n      maxVersion: 4.16.3\n",
            ),
            "no release 4.16.2; the nearest are 4.16.1 and 4.16.3",
        ),
        (channel("stable-4.16", "      minVersion: 4.17.0\n"), "4.17.0"),
    ] {
        let ran = run(&world, &world.site(), &platform);
        failed(&ran, expected);
        assert!(ran.errors().contains("isc.yaml:6:"), "the location is reported: {}", ran.errors());
    }
}

#[test]
fn versions_written_wrongly_are_reported_before_any_request() {
    let (world, _) = World::with(&["4.16.1"]);
    for (rest, expected) in [
        ("      minVersion: 4.18\n", "4.18"),
        ("      minVersion: '4.18'\n", "4.18"),
        ("      minVersion: 4.16.3\n      maxVersion: 4.16.1\n", "4.16.3"),
        ("      type: okt\n", "okd"),
    ] {
        let site = world.site();
        site.image_set("isc.yaml", &channel("stable-4.16", rest));
        world.forget_requests();
        let ran = world.run(&site, &format!("-c isc.yaml {PLAIN} file://data"));
        assert_eq!(ran.code, 1, "{rest}: {}", ran.err);
        assert!(ran.err.contains("isc.yaml:7:") || ran.err.contains("isc.yaml:8:"), "{}", ran.err);
        assert!(ran.err.contains(expected), "{rest}: {}", ran.err);
        assert_eq!(world.service.server.requests().count(), 0);
    }
}

/// A release whose payload has these files, in its own test environment.
fn odd(files: &[(&str, &[u8])]) -> (World, Release) {
    let world = World::empty();
    let release = Release::generate(&Recipe::default()).unwrap();
    let release = release.with_payload_files(files).unwrap();
    release.put(&world.quay).unwrap();
    let signature = world.key.sign(&release.claim()).unwrap();
    world.signatures.put(&release.payload.digest(), 1, signature);
    world.service.publish("stable-4.16", "amd64", &chain(std::slice::from_ref(&release)));
    (world, release)
}

#[test]
fn a_payload_that_is_none_fails_its_release() {
    let references = "release-manifests/image-references";
    let bad_name = format!(
        r#"{{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{{"name":"4.16.3"}},
           "spec":{{"tags":[{{"name":"../../etc","from":{{"kind":"DockerImage","name":"{COMPONENTS}@sha256:{}"}}}}]}}}}"#,
        "0".repeat(64)
    );
    for (files, expected) in [
        (vec![("etc/motd", b"hello".as_slice())], "image-references"),
        (vec![(references, b"no JSON".as_slice())], "image-references"),
        (vec![(references, b"{}".as_slice())], "image-references"),
        (vec![(references, bad_name.as_bytes())], "etc"),
        (vec![("../../../../image-references", b"{}".as_slice())], "image-references"),
    ] {
        let (world, release) = odd(&files);
        let ran = run(&world, &world.site(), &channel("stable-4.16", ""));
        assert_eq!(ran.code, 2, "{expected}: {}\n{}", ran.err, ran.out);
        let lost = ran.image(&release.payload.digest().to_string());
        assert!(lost["error"].as_str().unwrap().contains(expected), "{expected}: {lost}");
        assert_eq!(ran.image("org/beside")["outcome"], "copied");
    }
}

#[test]
fn a_missing_component_is_named_and_the_others_arrive() {
    let (world, releases) = World::with(&["4.16.1"]);
    let etcd = releases[0].component("etcd").unwrap().digest();
    let gone = Fault::on_any(&format!("/manifests/{etcd}")).does(Effect::status(404));
    world.quay.fault(gone);
    let ran = run(&world, &world.site(), &channel("stable-4.16", ""));
    assert_eq!(ran.code, 2, "{}\n{}", ran.err, ran.out);
    let lost = ran.image(&etcd.to_string());
    assert!(lost["error"].as_str().unwrap().contains("does not exist"), "{lost}");
    assert_eq!((ran.total("failed"), ran.total("copied")), (1, 5));
}

#[test]
fn one_bad_release_does_not_keep_the_others_back() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    world.signatures.put(&releases[0].payload.digest(), 1, b"junk".to_vec());
    let ran = run(&world, &world.site(), &channel("stable-4.16", "      full: true\n"));
    assert_eq!(ran.code, 2, "{}\n{}", ran.err, ran.out);
    assert_eq!((ran.total("failed"), ran.total("copied")), (1, 6));
    // Payloads are requested by the digest that was verified, never by tag.
    let by_tag = format!("/manifests/{}", releases[1].tag());
    assert_eq!(world.quay.requests().of(&Method::GET, &by_tag).count(), 0);
}

#[test]
fn components_can_be_blocked_by_the_names_they_get() {
    let (world, _) = World::with(&["4.16.1"]);
    let platform = channel("stable-4.16", "") + "  blockedImages:\n  - name: release:.*-etcd$\n";
    let ran = run(&world, &world.site(), &platform);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    assert_eq!(ran.total("images"), 5, "payload, three components, and the image beside");
}

#[test]
fn a_dry_run_reads_releases_and_leaves_no_trace_but_its_own() {
    let (world, _) = World::with(&["4.16.1", "4.16.2"]);
    world.offer_graph_data();
    let site = world.site();
    let platform = channel("stable-4.16", "      full: true\n")
        .replace("platform:\n", "platform:\n    graph: true\n");
    site.image_set("isc.yaml", &platform);
    let ran = world.succeeds(&site, &format!("-c isc.yaml {PLAIN} --dry-run file://data"));
    assert_eq!(ran.report()["ending"], "planned");
    assert_eq!(ran.total("images"), 11);
    let left: Vec<_> = std::fs::read_dir(site.path("data")).unwrap().map(Result::unwrap).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let working: Vec<_> = std::fs::read_dir(site.path("data/working-dir"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(working, ["dry-run"]);
    let mapping = site.read("data/working-dir/dry-run/mapping.txt");
    assert!(mapping.contains("openshift/release:4.16.2-x86_64-etcd"), "{mapping}");
    // What was planned is what a run does.
    let again = world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(again.total("copied"), 11);
}
