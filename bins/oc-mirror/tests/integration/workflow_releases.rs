//! Releases from the update service to a disk, and across the gap.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use lab::certificates::Authority;
use lab::docker_registry::{DockerRegistry, Settings};
use lab::document_server;
use lab::netns::Isolated;
use lab::proxy::Proxy;
use lab::registry::LabRegistry;
use lab::releases::{Recipe, Release};
use lab::update_service::UpdateService;

use support::releases::{World, chain, channel, places};
use support::{PLAIN, Ran, Site, chunks, timeless_resources};

const RANGE: &str = "      minVersion: 4.16.1\n      maxVersion: 4.16.2\n";

/// Every tag of a registry's repositories that releases go to, with its digest.
fn content(site: &Site, at: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for repository in ["openshift/release-images", "openshift/release", "openshift/graph-image"] {
        let name = format!("docker://{at}/{repository}");
        let tags = site.try_judge("skopeo", &["list-tags", "--tls-verify=false", &name]);
        if !tags.status.success() {
            continue;
        }
        let tags: serde_json::Value = serde_json::from_slice(&tags.stdout).unwrap();
        for tag in tags["Tags"].as_array().unwrap() {
            let reference = format!("{name}:{}", tag.as_str().unwrap());
            let raw = site.raw(&reference, &["--tls-verify=false"]);
            found.insert(reference.replace(at, ""), oci::Digest::of(&raw).to_string());
        }
    }
    found
}

#[test]
fn a_range_of_releases_arrives_complete_in_both_modes_with_the_same_resources() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2", "4.16.3"]);
    world.offer_graph_data();
    let mirror =
        channel("stable-4.16", RANGE).replace("platform:\n", "platform:\n    graph: true\n");

    // Mirror to disk, the archive transferred, disk to mirror.
    let connected = world.site();
    connected.image_set("isc.yaml", &mirror);
    let ran = world.succeeds(&connected, &format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!((ran.total("images"), ran.total("copied")), (2 * 5 + 1, 2 * 5 + 1));
    let disconnected = Site::new();
    disconnected.image_set("isc.yaml", &mirror);
    disconnected.write("release-key.asc", world.key.public());
    fs::create_dir(disconnected.path("data")).unwrap();
    for chunk in chunks(&connected.path("data")) {
        let name = chunk.file_name().unwrap();
        fs::copy(&chunk, disconnected.path("data").join(name)).unwrap();
    }
    let target = DockerRegistry::start(&Settings::default()).unwrap();
    let to = format!("{}/ocp", target.address());
    let line = format!("--output=json -c isc.yaml {PLAIN} --from file://data docker://{to}");
    let mut command = disconnected.command(&line);
    command.env("OCP_SIGNATURE_VERIFICATION_PK", disconnected.path("release-key.asc"));
    world.forget_requests();
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    for release in &releases[..2] {
        for (place, bytes) in places(release) {
            let reference = format!("docker://{to}/{place}");
            assert_eq!(disconnected.raw(&reference, &["--tls-verify=false"]), bytes, "{place}");
            disconnected.pull(&reference, &["--src-tls-verify=false"]);
        }
    }

    // Straight.
    let straight = world.site();
    straight.image_set("isc.yaml", &mirror);
    let other = DockerRegistry::start(&Settings::default()).unwrap();
    let there = format!("{}/ocp", other.address());
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data docker://{there}");
    world.succeeds(&straight, &line);
    let arrived = content(&disconnected, &to);
    assert_eq!(arrived.len(), 2 * 5 + 1, "{arrived:#?}");
    assert_eq!(arrived, content(&straight, &there));
    let folder = "data/working-dir/cluster-resources";
    let made = timeless_resources(&disconnected.path(folder), &to);
    assert_eq!(made, timeless_resources(&straight.path(folder), &there));
    let names: Vec<&str> = made.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "idms-oc-mirror.yaml",
            "itms-oc-mirror.yaml",
            "signature-configmap.json",
            "signature-configmap.yaml",
            "updateService.yaml"
        ]
    );
}

#[test]
fn okd_is_requested_from_its_own_service_through_the_proxy() {
    let world = World::empty();
    let release = world.release(&Recipe { version: "4.16.0-okd-scos.1", ..Recipe::default() });
    let authority =
        Authority::generate().unwrap().naming_servers("origin-release.ci.openshift.org");
    let settings = document_server::Settings {
        tls: Some(Arc::new(authority)),
        ..document_server::Settings::default()
    };
    let site = world.site();
    site.write("ca.pem", settings.tls.as_ref().unwrap().pem());
    let okd = UpdateService::start_with(settings).unwrap();
    okd.publish("4-scos-stable", "amd64", &chain(std::slice::from_ref(&release)));
    let proxy = Proxy::start(okd.server.address()).unwrap();
    site.image_set("isc.yaml", &channel("4-scos-stable", "      type: okd\n"));

    let mut command = world.command(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    command
        .env("HTTPS_PROXY", proxy.url())
        .env("NO_PROXY", "127.0.0.1,localhost")
        .env("SSL_CERT_FILE", site.path("ca.pem"));
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    // The variable that names another service is for OpenShift's.
    assert_eq!(world.service.server.requests().count(), 0);
    let requested = proxy.requested_hosts();
    assert!(!requested.is_empty());
    assert!(
        requested.iter().all(|host| host == "origin-release.ci.openshift.org:443"),
        "{requested:?}"
    );
    let list = "data/releases-cache/4.16.0-okd-scos.1-x86_64/release-manifests/image-references";
    assert!(site.path(list).is_file(), "{list}");

    // The other side needs neither service nor proxy.
    let target = DockerRegistry::start(&Settings::default()).unwrap();
    let to = format!("{}/okd", target.address());
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    for (place, bytes) in places(&release) {
        let reference = format!("docker://{to}/{place}");
        assert_eq!(site.raw(&reference, &["--tls-verify=false"]), bytes, "{place}");
    }
}

#[test]
fn without_a_range_the_newest_release_is_taken() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ""));
    let ran = world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(ran.total("images"), 5);
    let payload = ran.image("ocp-release");
    assert_eq!(payload["digest"], releases[1].payload.digest().to_string());
    // The request has the form that the service requires, and is sent once.
    let requests = world.service.server.requests();
    let requested: Vec<&str> = requests.0.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(requested, ["/api/upgrades_info/v1/graph?channel=stable-4.16&arch=amd64"]);
}

#[test]
fn the_workspace_shows_releases_as_users_search_for_them() {
    let (world, releases) = World::with(&["4.16.1"]);
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ""));
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    let release = &releases[0];
    let references =
        site.read("data/releases-cache/4.16.1-x86_64/release-manifests/image-references");
    assert_eq!(references, release.image_references());
    for (name, image) in &release.components {
        let layout = site.path(&format!("data/release-images/4.16.1-x86_64/{name}"));
        let raw = site.raw(&format!("oci:{}", layout.display()), &[]);
        assert_eq!(raw, image.root().bytes, "{name}");
    }
    let hex = release.payload.digest().hex();
    for file in [
        "hold-release/cincinnati-graph-data/amd64-stable-4.16.json".to_owned(),
        "hold-release/ocp-release/4.16.1-x86_64/release-manifests/image-references".into(),
        "release-images/ocp-release/4.16.1-x86_64/index.json".into(),
        format!("signatures/4.16.1-x86_64-sha256-{hex}"),
    ] {
        assert!(site.path(&format!("data/working-dir/{file}")).is_file(), "{file}");
    }
}

#[test]
fn a_second_run_moves_nothing_and_archives_nothing() {
    let (world, _) = World::with(&["4.16.1", "4.16.2"]);
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", RANGE));
    let line = format!("-c isc.yaml {PLAIN} file://data");
    world.succeeds(&site, &line);
    world.forget_requests();
    let ran = world.succeeds(&site, &line);
    assert_eq!((ran.total("copied"), ran.total("present")), (0, 10));
    assert_eq!(ran.report()["archive"], serde_json::Value::Null);
    assert_eq!(world.quay.requests().count(), 0, "what is known by digest is not requested for");
    assert_eq!(world.signatures.server.requests().count(), 0);
}

#[test]
fn the_disconnected_side_sends_no_request_and_selects_a_subset() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2", "4.16.3"]);
    world.offer_graph_data();
    let site = world.site();
    let all = channel("stable-4.16", "      full: true\n")
        .replace("platform:\n", "platform:\n    graph: true\n");
    site.image_set("isc.yaml", &all);
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    site.image_set(
        "subset.yaml",
        &channel("stable-4.16", "      minVersion: 4.16.2\n      maxVersion: 4.16.2\n"),
    );

    let inside = Isolated::new().unwrap();
    let target = DockerRegistry::start_in(&inside, &Settings::default()).unwrap();
    let to = target.address();
    for (line, images) in [
        (format!("-c subset.yaml {PLAIN} --dry-run --from file://data docker://{to}"), 5),
        (format!("-c subset.yaml {PLAIN} --from file://data docker://{to}"), 5),
        (format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"), 16),
    ] {
        world.forget_requests();
        let mut command = site.command_in(&inside, &format!("--output=json {line}"));
        command.env("OCP_SIGNATURE_VERIFICATION_PK", site.path("release-key.asc"));
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 0, "{line}\n{}\n{}", ran.err, ran.out);
        assert_eq!(ran.total("images"), images, "{line}");
        assert_eq!(ran.total("retries"), 0, "no other server was requested in vain");
        assert_eq!(ran.report()["warnings"], serde_json::json!([]));
    }
    let tag = releases[1].tag();
    let output = inside
        .command("skopeo")
        .args(["inspect", "--raw", "--tls-verify=false"])
        .arg(format!("docker://{to}/openshift/release-images:{tag}"))
        .output()
        .unwrap();
    assert_eq!(output.stdout, releases[1].payload.root().bytes);
}

#[test]
fn what_was_not_mirrored_is_named_on_the_other_side_and_the_rest_arrives() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ""));
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    site.image_set("more.yaml", &channel("stable-4.16", RANGE));
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = target.address();
    let ran = world.run(&site, &format!("-c more.yaml {PLAIN} --from file://data docker://{to}"));
    assert_eq!(ran.code, 2, "{}\n{}", ran.err, ran.out);
    let lost = ran.image(&releases[0].payload.digest().to_string());
    assert!(lost["error"].as_str().unwrap().contains("4.16.1"), "{lost}");
    assert_eq!(ran.total("copied"), 5);
    site.image_set("other.yaml", &channel("stable-4.15", ""));
    let ran = world.run(&site, &format!("-c other.yaml {PLAIN} --from file://data docker://{to}"));
    assert_eq!(ran.code, 2, "{}\n{}", ran.err, ran.out);
    assert!(ran.errors().contains("stable-4.16"), "held channels are named: {}", ran.errors());
}

#[test]
fn a_later_archive_is_enough_where_the_target_has_the_rest() {
    let (world, mut releases) = World::with(&["4.16.1"]);
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", "      full: true\n"));
    let line = format!("-c isc.yaml {PLAIN} file://data");
    world.succeeds(&site, &line);
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = target.address();
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    releases.push(world.release(&Recipe { version: "4.16.2", ..Recipe::default() }));
    world.service.publish("stable-4.16", "amd64", &chain(&releases));
    world.succeeds(&site, &line);
    let newest = chunks(&site.path("data")).pop().unwrap();
    let other = Site::new();
    other.write("release-key.asc", world.key.public());
    other.image_set("isc.yaml", &channel("stable-4.16", "      full: true\n"));
    fs::create_dir(other.path("data")).unwrap();
    fs::copy(&newest, other.path("data").join(newest.file_name().unwrap())).unwrap();
    let ran =
        world.succeeds(&other, &format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    assert_eq!((ran.total("copied"), ran.total("present")), (5, 5));
}

#[test]
fn a_release_of_several_architectures_is_mirrored_whole_or_by_platform() {
    let world = World::empty();
    let recipe = Recipe { architecture: "multi", kubevirt: true, ..Recipe::default() };
    let release = world.release(&recipe);
    world.service.publish("stable-4.16", "multi", &chain(std::slice::from_ref(&release)));
    let site = world.site();
    let mirror = |rest: &str| {
        let channel = channel("stable-4.16", "");
        channel.replace("platform:\n", &format!("platform:\n    kubeVirtContainer: true\n{rest}"))
    };
    site.image_set("all.yaml", &mirror("    architectures: [multi]\n"));
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = target.address();
    let line = format!("{PLAIN} --workspace file://all docker://{to}");
    let ran = world.succeeds(&site, &format!("-c all.yaml {line}"));
    assert_eq!(ran.total("images"), 5 + 2, "two disk images");
    for name in ["kube-virt-container-x86_64", "kube-virt-container-s390x"] {
        let place = format!("docker://{to}/openshift/release:4.16.3-multi-{name}");
        site.raw(&place, &["--tls-verify=false"]);
    }
    site.image_set(
        "some.yaml",
        &mirror("    platforms:\n    - os: linux\n      architecture: amd64\n"),
    );
    world.succeeds(&site, &format!("-c some.yaml {PLAIN} file://some"));
    let held = |image: &lab::images::Image, n: usize| {
        let hex = image.manifests[n].digest.hex();
        site.path("some/blobs/sha256").join(hex).exists()
    };
    let etcd = release.component("etcd").unwrap();
    assert!(held(etcd, 0) && held(etcd, 1), "the list and its image for amd64");
    assert!(!held(etcd, 2), "but not that for arm64");
}

#[test]
fn two_architectures_are_two_payloads() {
    let world = World::empty();
    let mut made: Vec<Release> = Vec::new();
    for architecture in ["amd64", "arm64"] {
        let release = world.release(&Recipe { architecture, ..Recipe::default() });
        let graph = chain(std::slice::from_ref(&release));
        world.service.publish("stable-4.16", architecture, &graph);
        made.push(release);
    }
    let site = world.site();
    let mirror = channel("stable-4.16", "") + "    architectures: [arm64, amd64]\n";
    site.image_set("isc.yaml", &mirror);
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = target.address();
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    for (release, tag) in made.iter().zip(["4.16.3-x86_64", "4.16.3-aarch64"]) {
        let place = format!("docker://{to}/openshift/release-images:{tag}");
        let raw = site.raw(&place, &["--tls-verify=false"]);
        assert_eq!(raw, release.payload.root().bytes);
    }
}

#[test]
fn an_inner_enclave_mirrors_from_a_filled_target() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    let mirror = channel("stable-4.16", RANGE);
    let outer = world.site();
    outer.image_set("isc.yaml", &mirror);
    let middle = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data");
    world.succeeds(&outer, &format!("{line} docker://{}/dmz", middle.address()));

    // Inside, images are found where the target keeps them; quay.io is unreachable.
    let inner = Site::new();
    inner.write("release-key.asc", world.key.public());
    inner.image_set("isc.yaml", &mirror);
    let place = |name: &str| format!("{}/dmz/openshift/{name}", middle.address());
    let conf = support::redirection(lab::releases::PAYLOADS, &place("release-images"))
        + &support::redirection(lab::releases::COMPONENTS, &place("release"));
    inner.write("home/.config/containers/registries.conf", &conf);
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = target.address();
    world.quay.forget_requests();
    let ran = world.succeeds(&inner, &format!("{line} docker://{to}"));
    assert_eq!(ran.total("copied"), 10);
    assert_eq!(world.quay.requests().count(), 0);
    for (place, bytes) in releases.iter().flat_map(places) {
        let reference = format!("docker://{to}/{place}");
        assert_eq!(inner.raw(&reference, &["--tls-verify=false"]), bytes, "{place}");
    }
}

#[test]
fn the_graph_image_is_the_same_whenever_it_is_made_and_has_the_data_where_it_is_read() {
    let (world, _) = World::with(&["4.16.1"]);
    world.offer_graph_data();
    let mirror = channel("stable-4.16", "").replace("platform:\n", "platform:\n    graph: true\n");
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let at = |namespace: &str| {
        format!("docker://{}/{namespace}/openshift/graph-image:latest", target.address())
    };
    let mut made = Vec::new();
    for namespace in ["one", "other"] {
        let site = world.site();
        site.image_set("isc.yaml", &mirror);
        let to = format!("docker://{}/{namespace}", target.address());
        world.succeeds(&site, &format!("-c isc.yaml {PLAIN} --workspace file://data {to}"));
        made.push(site.raw(&at(namespace), &["--tls-verify=false"]));
    }
    assert_eq!(made[0], made[1]);

    // What a cluster's update service does: run its command, which copies the data.
    let site = Site::new();
    for architecture in ["amd64", "arm64"] {
        let options =
            ["--override-arch", architecture, "inspect", "--tls-verify=false", "--config"];
        let config = site.skopeo(&[&options[..], &[&at("one")]].concat());
        let config: serde_json::Value = serde_json::from_str(&config).unwrap();
        assert_eq!(config["architecture"], architecture);
        let copy = "exec cp -rp /var/lib/cincinnati-graph-data/* /var/lib/cincinnati/graph-data";
        assert_eq!(config["config"]["Cmd"], serde_json::json!(["/bin/bash", "-c", copy]));
    }
    let into = site.path("image");
    let options = ["copy", "--quiet", "--src-tls-verify=false", &at("one")];
    site.skopeo(&[&options[..], &[&format!("dir:{}", into.display())]].concat());
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(into.join("manifest.json")).unwrap()).unwrap();
    let top = manifest["layers"].as_array().unwrap().last().unwrap()["digest"].as_str().unwrap();
    let layer = into.join(top.trim_start_matches("sha256:"));
    let listed = site.judge("tar", &["-tzf", layer.to_str().unwrap()]);
    let listed = String::from_utf8(listed).unwrap();
    assert!(
        listed
            .lines()
            .any(|name| name == "var/lib/cincinnati-graph-data/channels/stable-4.16.yaml"),
        "{listed}"
    );
}

#[test]
fn what_is_newest_is_decided_by_when_archives_were_made_not_by_when_they_were_pushed() {
    let (world, mut releases) = World::with(&["4.16.1"]);
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ""));
    let line = format!("-c isc.yaml {PLAIN} file://data");
    world.succeeds(&site, &line);
    releases.push(world.release(&Recipe { version: "4.16.2", ..Recipe::default() }));
    world.service.publish("stable-4.16", "amd64", &chain(&releases));
    world.succeeds(&site, &line);

    // Both archives are made before the first is pushed.
    let other = Site::new();
    other.write("release-key.asc", world.key.public());
    other.image_set("isc.yaml", &channel("stable-4.16", ""));
    fs::create_dir(other.path("data")).unwrap();
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = target.address();
    for (chunk, release) in chunks(&site.path("data")).iter().zip(&releases) {
        fs::copy(chunk, other.path("data").join(chunk.file_name().unwrap())).unwrap();
        let line = format!("-c isc.yaml {PLAIN} --from file://data docker://{to}");
        let ran = world.succeeds(&other, &line);
        assert_eq!(ran.image("ocp-release")["digest"], release.payload.digest().to_string());
    }
}

#[test]
fn the_example_selects_the_hops_in_its_comments() {
    let world = World::empty();
    world.offer_graph_data();
    let made: Vec<Release> = ["4.18.9", "4.18.20", "4.18.30", "4.19.1"]
        .map(|version| world.release(&Recipe { version, ..Recipe::default() }))
        .into();
    let older = chain(&made[..3]).edge("4.18.9", "4.18.30");
    world.service.publish("stable-4.18", "amd64", &older);
    world.service.publish("stable-4.19", "amd64", &chain(&made[2..]));
    let site = world.site();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/releases.yaml");
    let line = format!("-c {} {PLAIN} --dry-run file://data", example.display());
    let ran = world.succeeds(&site, &line);
    let mapping = site.read("data/working-dir/dry-run/mapping.txt");
    let selected: Vec<&str> = ["4.18.9", "4.18.20", "4.18.30", "4.19.1"]
        .into_iter()
        .filter(|version| mapping.contains(&format!("openshift/release-images:{version}-x86_64")))
        .collect();
    assert_eq!(selected, ["4.18.9", "4.18.30", "4.19.1"], "{mapping}");
    assert!(mapping.contains("openshift/graph-image:latest"), "{mapping}");
    assert_eq!(ran.total("images"), 3 * 5 + 1);
}

#[test]
fn a_release_named_at_another_registry_is_read_by_the_name_in_its_signature_with_a_warning() {
    let (world, releases) = World::with(&["4.16.1"]);
    let site = world.site();
    let digest = releases[0].payload.digest();
    let named = format!("registry.lan/mine/ocp-release@{digest}");
    site.image_set("isc.yaml", &format!("  platform:\n    release: {named}\n"));
    let ran = world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    let warnings = ran.report()["warnings"].to_string();
    assert!(warnings.contains(&named), "{warnings}");
    assert!(
        warnings.contains("is read from quay.io/openshift-release-dev/ocp-release"),
        "{warnings}"
    );
    assert!(warnings.contains("registries.conf"), "{warnings}");
}
