//! Deletes a release of which the next one shares components, at registries that differ in what
//! they can delete.

use crate::support;

use std::collections::BTreeSet;

use lab::docker_registry::{DockerRegistry, Settings};
use lab::registry::LabRegistry;
use lab::releases::Release;

use support::deletion::{PLAIN_TARGET, delete_set, ends, outcomes, pull_all, tags};
use support::releases::{World, channel};
use support::{PLAIN, Ran, Site, chunks};

const ALL: &str = "      minVersion: 4.16.1\n      maxVersion: 4.16.2\n";
const FIRST: &str = "      minVersion: 4.16.1\n      maxVersion: 4.16.1\n";

/// Two releases at `target`, pushed on the disconnected side; the machine of that side.
fn mirrored(world: &World, target: &str) -> Site {
    let connected = world.site();
    connected.image_set("isc.yaml", &channel("stable-4.16", ALL));
    world.succeeds(&connected, &format!("-c isc.yaml {PLAIN} file://data"));
    let site = Site::new();
    site.write("release-key.asc", world.key.public());
    site.image_set("isc.yaml", &channel("stable-4.16", ALL));
    std::fs::create_dir(site.path("data")).unwrap();
    for chunk in chunks(&connected.path("data")) {
        std::fs::copy(&chunk, site.path("data").join(chunk.file_name().unwrap())).unwrap();
    }
    let line = format!("-c isc.yaml {PLAIN_TARGET} --from file://data docker://{target}");
    let ran = run(world, &site, &line);
    assert_eq!(ran.code, 0, "{}", ran.err);
    site
}

/// The disconnected side has the key, and no access to any server.
fn run(world: &World, site: &Site, line: &str) -> Ran {
    let mut command = site.command(line);
    command.env("OCP_SIGNATURE_VERIFICATION_PK", site.path("release-key.asc"));
    let ran = Ran::of(command.output().unwrap());
    assert!(world.service.server.requests().count() > 0, "requests were sent before");
    ran
}

/// Both phases for the first release.
fn delete_first(world: &World, site: &Site, target: &str) -> Ran {
    site.write("disc.yaml", &delete_set(&channel("stable-4.16", FIRST)));
    world.forget_requests();
    let generate =
        format!("delete --generate -c disc.yaml --workspace file://data docker://{target}");
    let mut command = site.command(&generate);
    command.env("OCP_SIGNATURE_VERIFICATION_PK", site.path("release-key.asc"));
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(world.quay.requests().count(), 0, "only the target is contacted");
    assert_eq!(world.service.server.requests().count(), 0, "only the target is contacted");
    let list = "data/working-dir/delete/delete-images.yaml";
    let line =
        format!("delete --output=json --delete-yaml-file {list} {PLAIN_TARGET} docker://{target}");
    ends(site, &line, 0)
}

fn component_tags(release: &Release) -> BTreeSet<String> {
    release.components.iter().map(|(name, _)| format!("{}-{name}", release.tag())).collect()
}

#[test]
fn where_tags_can_be_deleted_a_release_is_deleted_and_shared_components_stay() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    let registry = DockerRegistry::start(&Settings::distribution_3().unwrap()).unwrap();
    let target = format!("{}/ocp", registry.address());
    let site = mirrored(&world, &target);
    let before = tags(&site, &target, "openshift/release");

    let ran = delete_first(&world, &site, &target);
    let outcomes = outcomes(&ran, &registry.address().to_string());
    assert_eq!(outcomes["ocp/openshift/release:4.16.1-x86_64-pod"], "untagged");
    assert_eq!(outcomes["ocp/openshift/release:4.16.1-x86_64-etcd"], "deleted");
    let left = tags(&site, &target, "openshift/release");
    let expected: BTreeSet<String> = component_tags(&releases[1]);
    assert_eq!(left.keys().cloned().collect::<BTreeSet<_>>(), expected);
    assert!(left.iter().all(|(tag, digest)| before[tag] == *digest));
    let payloads = tags(&site, &target, "openshift/release-images");
    assert_eq!(payloads.keys().collect::<Vec<_>>(), [&releases[1].tag()]);

    // The registry's own garbage collection takes nothing that stays.
    registry.collect_garbage().unwrap();
    for repository in ["openshift/release", "openshift/release-images"] {
        pull_all(&site, &target, repository);
    }
    // A second time there is nothing left to do.
    let list = "data/working-dir/delete/delete-images.yaml";
    let line =
        format!("delete --output=json --delete-yaml-file {list} {PLAIN_TARGET} docker://{target}");
    let again = ends(&site, &line, 0);
    let outcomes = support::deletion::outcomes(&again, &registry.address().to_string());
    assert!(outcomes.values().all(|outcome| outcome == "alreadyGone"), "{outcomes:?}");
    assert_eq!(tags(&site, &target, "openshift/release"), left);
}

#[test]
fn where_tags_cannot_be_deleted_the_tag_of_a_shared_component_stays_and_is_reported() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    let registry = DockerRegistry::start(&Settings::default()).unwrap();
    let target = format!("{}/ocp", registry.address());
    let site = mirrored(&world, &target);
    let ran = delete_first(&world, &site, &target);
    let outcomes = outcomes(&ran, &registry.address().to_string());
    assert_eq!(outcomes["ocp/openshift/release:4.16.1-x86_64-pod"], "kept");
    assert_eq!(outcomes["ocp/openshift/release:4.16.1-x86_64-etcd"], "deleted");
    assert!(ran.out.contains("cannot delete a tag alone"), "{}", ran.out);
    assert!(ran.out.contains("garbage-collect"), "{}", ran.out);
    let mut expected = component_tags(&releases[1]);
    expected.insert("4.16.1-x86_64-pod".to_owned());
    let left: BTreeSet<String> = tags(&site, &target, "openshift/release").into_keys().collect();
    assert_eq!(left, expected);
    registry.collect_garbage().unwrap();
    for repository in ["openshift/release", "openshift/release-images"] {
        pull_all(&site, &target, repository);
    }
}

#[test]
fn the_undo_file_mirrors_everything_back_by_digest() {
    let (world, _) = World::with(&["4.16.1", "4.16.2"]);
    let registry = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let target = format!("{}/ocp", registry.address());
    let site = mirrored(&world, &target);
    let before = registry.content();
    let ran = delete_first(&world, &site, &target);
    assert_ne!(registry.content(), before);
    let files = ran.report()["files"].to_string();
    assert!(files.contains("undo-"), "{files}");
    let undo = site.path("data/working-dir/delete");
    let undo = std::fs::read_dir(undo).unwrap().map(|entry| entry.unwrap().path());
    let undo = undo.into_iter().find(|path| path.to_string_lossy().contains("undo-")).unwrap();
    let line = format!("-c {} {PLAIN_TARGET} --from file://data docker://{target}", undo.display());
    ends(&site, &line, 0);
    assert_eq!(registry.content(), before);
}

#[test]
fn a_release_that_was_mirrored_registry_to_registry_is_deleted_without_its_registry() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    let registry = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let target = format!("{}/ocp", registry.address());
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ALL));
    world
        .succeeds(&site, &format!("-c isc.yaml {PLAIN} --workspace file://data docker://{target}"));
    delete_first(&world, &site, &target);
    let left: BTreeSet<String> = tags(&site, &target, "openshift/release").into_keys().collect();
    assert_eq!(left, component_tags(&releases[1]));
}

#[test]
fn the_image_of_the_update_graph_is_deleted_where_the_configuration_names_it() {
    let (world, _) = World::with(&["4.16.1", "4.16.2"]);
    world.offer_graph_data();
    let registry = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let target = format!("{}/ocp", registry.address());
    let site = world.site();
    let with_graph = |rest: &str| {
        channel("stable-4.16", rest).replace("platform:\n", "platform:\n    graph: true\n")
    };
    site.image_set("isc.yaml", &with_graph(ALL));
    world
        .succeeds(&site, &format!("-c isc.yaml {PLAIN} --workspace file://data docker://{target}"));
    assert_eq!(tags(&site, &target, "openshift/graph-image").len(), 1);
    site.write("disc.yaml", &delete_set(&with_graph(FIRST)));
    let line = format!("delete --generate -c disc.yaml --workspace file://data docker://{target}");
    let ran = Ran::of(world.command(&site, &line).output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let list = "data/working-dir/delete/delete-images.yaml";
    assert!(site.read(list).contains("cincinnatiGraph"));
    let before = registry.content();
    let line =
        format!("delete --output=json --delete-yaml-file {list} {PLAIN_TARGET} docker://{target}");
    let ran = ends(&site, &line, 0);
    assert_eq!(tags(&site, &target, "openshift/graph-image").len(), 0);
    assert_eq!(tags(&site, &target, "openshift/release-images").len(), 1);
    let report = ran.report();
    let undo = report["files"][0].as_str().unwrap();
    world.succeeds(&site, &format!("-c {undo} {PLAIN} --workspace file://data docker://{target}"));
    assert_eq!(tags(&site, &target, "openshift/graph-image").len(), 1);
    let gone: Vec<&String> =
        before.iter().filter(|line| !registry.content().contains(*line)).collect();
    assert!(gone.is_empty(), "{gone:?}");
}
