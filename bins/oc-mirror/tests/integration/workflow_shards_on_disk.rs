//! `--shards N` for mirror to disk and disk to mirror.

use crate::support;

use std::fs;
use std::path::Path;

use lab::corpus::Corpus;
use lab::docker_registry;

use crate::cluster_jobs::without_runs;
use crate::workflow_object_store::{claim_of_another, long_ago};
use crate::workflow_shards::{
    blob_gets, images, lasting, registry, slow_source, stored, target, world,
};
use support::mounted::Mounted;
use support::under_way::UnderWay;
use support::{PLAIN, Site, chunks, copy};

/// The entries of an archive without its index, which contains the time.
fn entries(site: &Site, directory: &str) -> Vec<String> {
    let mut names = Vec::new();
    for chunk in chunks(&site.path(directory)) {
        let listed = site.judge("tar", &["-tf", &chunk.display().to_string()]);
        let listed = String::from_utf8(listed).unwrap();
        names.extend(listed.lines().filter(|name| !name.starts_with("index/")).map(str::to_owned));
    }
    names.sort();
    names
}

fn carry(site: &Site, from: &str, to: &str) {
    fs::create_dir_all(site.path(to)).unwrap();
    for chunk in chunks(&site.path(from)) {
        copy(&chunk, &site.path(to));
    }
}

#[test]
fn an_archive_and_a_registry_are_those_of_one_process() {
    let (world, site) = world();
    let line = |place: &str, more: &str| format!("-c isc.yaml {PLAIN} {more} file://{place}");
    let alone = world.succeeds(&site, &line("single", ""));
    let requested = blob_gets(&world.quay);
    world.forget_requests();
    let ran = world.succeeds(&site, &line("sharded", "--shards 4"));
    assert_eq!(blob_gets(&world.quay), requested, "no byte is requested twice");
    assert_eq!(entries(&site, "sharded"), entries(&site, "single"));
    let here = |place: &str| site.path(place).display().to_string();
    let report = |ran, place: &str| {
        let mut report = lasting(ran, "nowhere", place);
        // Its length is that of an index with a random name in it.
        report.as_object_mut().unwrap().remove("archive");
        report
    };
    assert_eq!(report(&ran, "sharded"), report(&alone, "single"));
    assert_eq!(ran.report()["warnings"], serde_json::json!([]));

    let expected = {
        let to = target(&site, "registry-single", docker_registry::Settings::default());
        carry(&site, "single", "carried-single");
        let line = format!(
            "-c isc.yaml {PLAIN} --from file://carried-single docker://{}/ocp",
            to.address()
        );
        let ran = world.succeeds(&site, &line);
        (
            lasting(&ran, &to.address().to_string(), &here("carried-single")),
            stored(&site.path("registry-single")),
        )
    };
    // Archives of the sharded run are regular ones.
    for (name, more) in [("plain", ""), ("shards", "--shards 4")] {
        let storage = format!("registry-{name}");
        let to = target(&site, &storage, docker_registry::Settings::default());
        let carried = format!("carried-{name}");
        carry(&site, "sharded", &carried);
        let line = format!(
            "-c isc.yaml {PLAIN} {more} --from file://{carried} docker://{}/ocp",
            to.address()
        );
        let ran = world.succeeds(&site, &line);
        let report = lasting(&ran, &to.address().to_string(), &here(&carried));
        assert_eq!(report, expected.0, "{name}");
        assert_eq!(ran.report()["warnings"], serde_json::json!([]));
        assert_eq!(without_runs(&site.path(&storage)), expected.1, "{name}");
    }
}

#[test]
fn later_runs_transfer_what_is_new() {
    let site = Site::new();
    let mut corpus = Corpus::tiny(20).unwrap();
    let (source, to) = (registry(), registry());
    corpus.fill(&source).unwrap();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let out = format!("-c isc.yaml {PLAIN} --shards 3 file://data");
    let into =
        format!("-c isc.yaml {PLAIN} --shards 3 --from file://carried docker://{}", to.address());
    site.succeeds(&out);
    carry(&site, "data", "carried");
    site.succeeds(&into);
    corpus.change_one(1).unwrap();
    corpus.fill(&source).unwrap();
    let ran = site.succeeds(&out);
    assert_eq!(ran.total("copied"), 1);
    carry(&site, "data", "carried");
    assert_eq!(chunks(&site.path("carried")).len(), 2);
    let ran = site.succeeds(&into);
    assert_eq!((ran.total("copied"), ran.total("failed")), (1, 0));
    let again = site.succeeds(&into);
    assert_eq!((again.total("copied"), again.total("blobs")), (0, 0));
    // Only the second archive: the registry has the content of the first.
    fs::create_dir(site.path("late")).unwrap();
    copy(&site.path("data/mirror_000002.tar"), &site.path("late"));
    let late = site.succeeds(&into.replace("carried", "late"));
    assert_eq!(late.total("failed"), 0);
}

#[test]
fn a_missing_file_is_reported_before_anything_is_pushed() {
    let site = Site::new();
    let corpus = Corpus::tiny(5).unwrap();
    let (source, to) = (registry(), registry());
    corpus.fill(&source).unwrap();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --shards 2 file://data"));
    let mut more = Corpus::tiny(6).unwrap();
    more.change_one(1).unwrap();
    more.fill(&source).unwrap();
    site.write("isc.yaml", &more.image_set(&source.host().unwrap()));
    site.succeeds(&format!("-c isc.yaml {PLAIN} --shards 2 file://data"));
    fs::remove_file(site.path("data/mirror_000001.tar")).unwrap();
    fs::create_dir(site.path("carried")).unwrap();
    copy(&site.path("data/mirror_000002.tar"), &site.path("carried"));
    let ran = site.run(&format!(
        "-c isc.yaml {PLAIN} --shards 2 --from file://carried docker://{}",
        to.address()
    ));
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.errors().contains("mirror_000001.tar"), "{}", ran.errors());
    assert!(images(&to).is_empty());
}

#[test]
fn a_disk_that_is_full_ends_the_run_and_the_next_one_continues() {
    let site = Site::new();
    let (_source, _) = slow_source(&site);
    let disk = Mounted::new(&site.path("data"), 400);
    let line = format!("-c isc.yaml {PLAIN} --shards 2 file://data");
    let ran = site.run(&line);
    assert_ne!(ran.code, 0);
    assert!(
        ran.errors().contains("No space left") || ran.err.contains("No space left"),
        "{}",
        ran.err
    );
    assert!(chunks(&site.path("data")).is_empty());
    disk.resize(20_000);
    site.succeeds(&line);
    assert_eq!(chunks(&site.path("data")).len(), 1);
    assert!(is_sound(&site, &site.path("data")));
}

/// Whether every byte of the archives is as it should be.
fn is_sound(site: &Site, directory: &Path) -> bool {
    let line = format!("verify file://{}", directory.display());
    site.command(&line).output().unwrap().status.success()
}

#[test]
fn a_run_that_is_killed_continues() {
    let site = Site::new();
    let (source, _) = slow_source(&site);
    source.forget_requests();
    let line = format!(
        "-c isc.yaml {PLAIN} --shards 2 --parallel-images 1 --parallel-layers 1 file://data"
    );
    let run = {
        let mut run = UnderWay::start(&site, &line);
        run.until("some blobs arrive", || blob_gets(&source).len() > 12);
        run
    };
    run.kill();
    source.clear_faults();
    let ran = site.succeeds(&line);
    assert_eq!(ran.report()["ending"], "complete");
    assert!(is_sound(&site, &site.path("data")));
    assert!(blob_gets(&source).values().filter(|count| **count > 1).count() <= 2, "one per shard");
}

#[test]
fn a_directory_that_a_run_elsewhere_writes_to_is_rejected_until_its_claim_expires() {
    let site = Site::new();
    let corpus = Corpus::tiny(3).unwrap();
    let source = registry();
    corpus.fill(&source).unwrap();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let line = format!("-c isc.yaml {PLAIN} --shards 2 file://data");
    let claim = "data/oc-mirror-runs/active.json";
    site.write(claim, &claim_of_another(jiff::Timestamp::now()));
    let ran = site.run(&line);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("the run other.example:/data mirrors to this target"), "{}", ran.err);
    assert!(chunks(&site.path("data")).is_empty() && site.path(claim).exists());
    site.write(claim, &claim_of_another(long_ago()));
    site.succeeds(&line);
    assert_eq!(chunks(&site.path("data")).len(), 1);
    assert!(!site.path("data/oc-mirror-runs").exists());
}
