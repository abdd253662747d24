//! `--shards N`: several processes transfer what one run publishes.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use http::Method;
use lab::corpus::Corpus;
use lab::docker_registry::{self, DockerRegistry};
use lab::images::SigningKey;
use lab::object_store::ObjectStore;
use lab::operators::{CATALOG, HOST, Operators, TAG};
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cluster_jobs::without_runs;
use support::releases::{World, channel};
use support::under_way::UnderWay;
use support::{PLAIN, Ran, Site};

pub(crate) fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

/// What a registry holds, without the claims by which runs detect each other.
pub(crate) fn images(registry: &LabRegistry) -> BTreeSet<String> {
    let content = registry.content().into_iter();
    content.filter(|line| !line.contains("oc-mirror-runs")).collect()
}

/// The report without what differs by time, place and number of requests.
pub(crate) fn lasting(ran: &Ran, target: &str, workspace: &str) -> Value {
    let text = ran.out.replace(target, "TARGET").replace(workspace, "WORKSPACE");
    let mut report: Value = serde_json::from_str(&text).unwrap();
    for key in ["seconds", "sourceRequests", "destinationRequests", "retries"] {
        report["totals"].as_object_mut().unwrap().remove(key);
    }
    // Names of files have the time in them.
    for key in ["files", "log", "run"] {
        report.as_object_mut().unwrap().remove(key);
    }
    report
}

/// Every tag, manifest and blob link of a registry, as its storage has them.
pub(crate) fn stored(storage: &Path) -> BTreeMap<PathBuf, String> {
    let root = storage.join("docker/registry/v2/repositories");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                if entry.file_name() != "_uploads" {
                    folders.push(path);
                }
            } else {
                let name = path.strip_prefix(&root).unwrap().to_owned();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// How often each blob was requested from a source.
pub(crate) fn blob_gets(source: &LabRegistry) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let requests = source.requests();
    for request in requests.of(&Method::GET, "/blobs/") {
        let digest = request.path.rsplit_once('/').unwrap().1.to_owned();
        *counts.entry(digest).or_default() += 1;
    }
    counts
}

/// Starts a registry that keeps its content in a directory of this machine.
/// Images, releases and a catalog, and a configuration that selects them.
pub(crate) fn world() -> (World, Site) {
    let (world, _) = World::with(&["4.16.1", "4.16.2"]);
    world.offer_graph_data();
    Operators::generate().unwrap().put(&world.quay).unwrap();
    let corpus = Corpus::sample(&SigningKey::generate().unwrap()).unwrap();
    corpus.fill(&world.quay).unwrap();
    let site = world.site();
    let release = channel("stable-4.16", "").replace("platform:\n", "platform:\n    graph: true\n");
    let catalog = format!(
        "  operators:\n  - catalog: {HOST}/{CATALOG}:{TAG}\n    packages:\n    - name: foo\n    - name: baz\n"
    );
    let quay = "quay.io".parse().unwrap();
    let images = corpus.references(&quay).map(|image| format!("  - name: {image}\n"));
    let images = images.collect::<String>();
    site.image_set("isc.yaml", &format!("{release}{catalog}  additionalImages:\n{images}"));
    (world, site)
}

pub(crate) fn target(
    site: &Site,
    name: &str,
    settings: docker_registry::Settings,
) -> DockerRegistry {
    let storage = Some(site.path(name));
    DockerRegistry::start(&docker_registry::Settings { storage, ..settings }).unwrap()
}

#[test]
fn images_a_release_and_a_catalog_arrive_as_they_do_with_one_process() {
    let (world, site) = world();
    let debian = docker_registry::Settings::default;
    let single = target(&site, "registry-single", debian());
    let line = |workspace: &str, more: &str, to: &DockerRegistry| {
        format!(
            "-c isc.yaml {PLAIN} --workspace file://{workspace} {more} docker://{}/ocp",
            to.address()
        )
    };
    let alone = world.succeeds(&site, &line("single", "", &single));
    let requested = blob_gets(&world.quay);
    let expected = stored(&site.path("registry-single"));
    assert!(expected.keys().filter(|path| path.ends_with("current/link")).count() > 15);

    // A registry whose content is in an object store, which has it as files.
    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("registry").unwrap();
    let distribution_3 = || docker_registry::Settings::distribution_3().unwrap();
    let in_bucket = docker_registry::Settings {
        bucket: Some((store.url(), "registry".to_owned())),
        ..distribution_3()
    };
    for (name, settings) in
        [("sharded", debian()), ("sharded-3", distribution_3()), ("sharded-s3", in_bucket)]
    {
        let is_in_bucket = settings.bucket.is_some();
        world.forget_requests();
        let storage = format!("registry-{name}");
        let sharded = target(&site, &storage, settings);
        let ran = world.succeeds(&site, &line(name, "--shards 4", &sharded));
        let places = |registry: &DockerRegistry| registry.address().to_string();
        assert_eq!(
            lasting(&ran, &places(&sharded), &site.path(name).display().to_string()),
            lasting(&alone, &places(&single), &site.path("single").display().to_string()),
        );
        let content = if is_in_bucket { bucket.clone() } else { site.path(&storage) };
        assert_eq!(without_runs(&content), expected, "{name}");
        assert_eq!(blob_gets(&world.quay), requested, "no byte is requested twice");
        for image in ran.report()["images"].as_array().unwrap() {
            let place = image["destination"].as_str().unwrap();
            site.pull(&format!("docker://{place}"), &["--src-tls-verify=false"]);
        }
        assert!(!site.path(&format!("{name}/working-dir/shards")).join("part-0.json").exists());
        // A second run has nothing to do.
        let again = world.succeeds(&site, &line(name, "--shards 4", &sharded));
        assert_eq!((again.total("copied"), again.total("blobs")), (0, 0));
    }
}

/// The processes of shards that use this machine's files.
fn shard_processes(site: &Site) -> Vec<Pid> {
    let here = site.path("");
    let processes = fs::read_dir("/proc").unwrap().map(Result::unwrap);
    let of_shards = processes.filter_map(|process| {
        let pid = Pid::from_raw(process.file_name().to_str()?.parse().ok()?)?;
        let line = fs::read_to_string(process.path().join("cmdline")).ok()?;
        let is_here =
            fs::read_link(process.path().join("cwd")).ok()? == here.canonicalize().unwrap();
        (is_here && line.contains("--shard-part")).then_some(pid)
    });
    of_shards.collect()
}

fn uploads(target: &LabRegistry) -> usize {
    let requests = target.requests();
    requests.of(&Method::PUT, "/blobs/").count() + requests.of(&Method::POST, "digest=").count()
}

/// A source whose blobs take a while, and how it arrives with one process.
pub(crate) fn slow_source(site: &Site) -> (LabRegistry, BTreeSet<String>) {
    let corpus = Corpus::shaped(4000).unwrap();
    let (source, target) = (registry(), registry());
    corpus.fill(&source).unwrap();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    site.succeeds(&format!(
        "-c isc.yaml {PLAIN} --workspace file://single docker://{}",
        target.address()
    ));
    source.fault(Fault::on(Method::GET, "/blobs/").does(Effect::Delay(Duration::from_millis(30))));
    (source, target.content())
}

fn one_by_one(target: &LabRegistry) -> String {
    format!(
        "-c isc.yaml {PLAIN} --workspace file://data --shards 2 --parallel-images 1 --parallel-layers 1 docker://{}",
        target.address()
    )
}

#[test]
fn killed_shards_are_started_again_and_leave_the_same_result() {
    let site = Site::new();
    let (_source, expected) = slow_source(&site);
    let target = registry();
    let mut run = UnderWay::start(&site, &one_by_one(&target));
    let mut kills = 0;
    let mut seen = 0;
    run.until("20 kills", || {
        let shards = shard_processes(&site);
        let arrived = uploads(&target);
        if arrived >= seen + 3
            && let Some(shard) = shards.get(kills % shards.len().max(1))
        {
            // It may have ended by itself meanwhile.
            kills += usize::from(kill_process(*shard, Signal::KILL).is_ok());
            seen = arrived;
        }
        kills >= 20
    });
    let ran = run.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("starting it again"), "{}", ran.err);
    assert_eq!(ran.report()["warnings"], json!([]));
    assert_eq!(images(&target), expected);
    // What processes sent that were killed is counted too.
    let blobs = Corpus::shaped(4000).unwrap().blobs();
    assert_eq!(ran.total("blobs"), blobs.len() as u64);
    assert_eq!(ran.total("bytes"), blobs.values().sum::<u64>());
    let again = site.succeeds(&one_by_one(&target));
    assert_eq!((again.total("copied"), again.total("failed")), (0, 0));
}

#[test]
fn shards_end_with_their_run_and_the_next_run_continues() {
    let site = Site::new();
    let (_source, expected) = slow_source(&site);
    let target = registry();
    for signal in [Signal::KILL, Signal::TERM] {
        let before = uploads(&target);
        let mut run = UnderWay::start(&site, &one_by_one(&target));
        run.until("some blobs arrive", || uploads(&target) >= before + 8);
        assert!(!shard_processes(&site).is_empty());
        run.signal(signal);
        let ran = run.end();
        assert_eq!(ran.code, if signal == Signal::KILL { -1 } else { 130 }, "{}", ran.err);
        let deadline = Instant::now() + Duration::from_secs(300);
        while !shard_processes(&site).is_empty() {
            assert!(Instant::now() < deadline, "shards outlive their run");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(
            images(&target).iter().all(|name| !name.contains("manifest")),
            "nothing is visible"
        );
    }
    let ran = site.succeeds(&one_by_one(&target));
    assert_eq!(ran.report()["ending"], "complete");
    assert_eq!(images(&target), expected);
}

#[test]
fn a_second_run_to_a_target_ends_with_an_error_while_the_first_is_under_way() {
    let site = Site::new();
    let (source, _) = slow_source(&site);
    let target = registry();
    let mut run = UnderWay::start(&site, &one_by_one(&target));
    run.until("some blobs arrive", || uploads(&target) >= 8);
    let elsewhere = one_by_one(&target).replace("file://data", "file://elsewhere");
    let second = site.run(&elsewhere);
    assert_eq!(second.code, 1, "{}", second.err);
    for part in [
        "oc-mirror-runs:active is claimed",
        "/data mirrors to this target since",
        "repeat the command after",
    ] {
        assert!(second.err.contains(part), "{part}: {}", second.err);
    }
    source.clear_faults();
    let ran = run.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
    // The first has ended.
    let second = site.succeeds(&elsewhere);
    assert_eq!((second.total("copied"), second.total("failed")), (0, 0));
}

#[test]
fn a_command_that_cannot_lock_the_workspace_leaves_the_claim_of_the_run_that_has_it() {
    let site = Site::new();
    let (source, _) = slow_source(&site);
    let target = registry();
    let mut run = UnderWay::start(&site, &one_by_one(&target));
    run.until("some blobs arrive", || uploads(&target) >= 8);
    let same = site.run(&one_by_one(&target));
    assert!(same.code == 1 && same.err.contains("is in use by process"), "{}", same.err);
    let elsewhere = one_by_one(&target).replace("file://data", "file://elsewhere");
    let second = site.run(&elsewhere);
    assert_eq!(second.code, 1, "{}", second.err);
    assert!(second.err.contains("oc-mirror-runs:active is claimed"), "{}", second.err);
    source.clear_faults();
    let ran = run.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
    site.succeeds(&elsewhere);
}

#[test]
fn content_that_a_source_does_not_have_fails_the_same_images() {
    let corpus = Corpus::sample(&SigningKey::generate().unwrap()).unwrap();
    let (source, single, sharded) = (registry(), registry(), registry());
    corpus.fill(&source).unwrap();
    let missing = corpus.entries[1].image.blobs.keys().next().unwrap();
    source.fault(Fault::on(Method::GET, &missing.to_string()).does(Effect::status(404)));
    let site = Site::new();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let line = |workspace: &str, more: &str, to: &LabRegistry| {
        format!(
            "-c isc.yaml {PLAIN} --workspace file://{workspace} {more} docker://{}",
            to.address()
        )
    };
    let alone = site.run(&line("single", "", &single));
    let ran = site.run(&line("data", "--shards 3", &sharded));
    assert_eq!((alone.code, ran.code), (8, 8), "{}", ran.err);
    let place = |name: &str| site.path(name).display().to_string();
    assert_eq!(
        lasting(&ran, &sharded.address().to_string(), &place("data")),
        lasting(&alone, &single.address().to_string(), &place("single")),
    );
    // Blobs of the image that failed may be there; no manifest refers to them.
    let visible = |registry: &LabRegistry| -> BTreeSet<String> {
        images(registry).into_iter().filter(|line| !line.contains(" blob ")).collect()
    };
    assert_eq!(visible(&sharded), visible(&single));

    // What the shards were to do is kept. A shard rejects a part that was changed.
    let folder =
        fs::read_dir(site.path("data/working-dir/shards")).unwrap().next().unwrap().unwrap();
    let part = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&part).unwrap();
    let digest = oci::Digest::of(text.as_bytes());
    let index = part.file_stem().unwrap().to_str().unwrap().rsplit_once('-').unwrap().1.to_owned();
    let shard = |digest: &oci::Digest| {
        let more = format!(
            "--shards 3 --shard-part {} --shard-digest {digest} --shard-index {index}",
            part.display()
        );
        let mut command = site.command(&line("data", &more, &sharded));
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.spawn().unwrap();
        // A shard ends when its input is closed.
        let _input = child.stdin.take();
        Ran::of(child.wait_with_output().unwrap())
    };
    assert_eq!(shard(&digest).code, 0);
    fs::write(&part, text.replacen("\"size\": ", "\"size\": 1", 1)).unwrap();
    let ran = shard(&digest);
    assert_eq!(ran.code, 1);
    let last: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "rejected");
    assert!(last["message"].as_str().unwrap().contains("was modified"), "{last}");
    // With a digest that fits, its own last line shows the change.
    let changed = oci::Digest::of(&fs::read(&part).unwrap());
    let ran = shard(&changed);
    assert!(ran.code == 1 && ran.out.contains("it was edited"), "{}", ran.out);
}

#[test]
fn a_pause_holds_the_shards() {
    let site = Site::new();
    let (_source, expected) = slow_source(&site);
    let target = registry();
    let mut run = UnderWay::start(&site, &one_by_one(&target));
    run.until("some blobs arrive", || uploads(&target) >= 4);
    let paused = site.command("status file://data --pause").output().unwrap();
    assert!(paused.status.success(), "{paused:?}");
    // Transfers under way may end.
    std::thread::sleep(Duration::from_millis(500));
    let before = uploads(&target);
    std::thread::sleep(Duration::from_millis(500));
    assert!(uploads(&target) <= before, "{before}");
    assert!(site.command("status file://data --resume").output().unwrap().status.success());
    let ran = run.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(images(&target), expected);
}

#[test]
fn registries_that_respond_with_429_change_nothing_but_the_time() {
    let site = Site::new();
    let (source, expected) = slow_source(&site);
    let target = registry();
    // The first uploads are the claim of the target and the checks that images can be pushed. Six
    // refusals of one of these checks in a row would be a warning.
    for (registry, method, part, first) in
        [(&source, Method::GET, "/blobs/", 3), (&target, Method::POST, "/blobs/uploads", 8)]
    {
        let fault = Fault::on(method, part).after(first).times(12);
        registry.fault(fault.does(Effect::too_many_requests(0)));
    }
    let ran = site.succeeds(&format!(
        "-c isc.yaml {PLAIN} --workspace file://data --shards 3 docker://{}",
        target.address()
    ));
    assert!(ran.total("retries") >= 12, "{}", ran.out);
    assert_eq!(ran.report()["warnings"], json!([]));
    assert_eq!(images(&target), expected);
}

#[test]
fn metrics_of_a_run_are_in_the_file_when_it_has_ended() {
    let corpus = Corpus::tiny(12).unwrap();
    let (source, target) = (registry(), registry());
    corpus.fill(&source).unwrap();
    let site = Site::new();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let ran = site.succeeds(&format!(
        "-c isc.yaml {PLAIN} --workspace file://data --shards 2 --metrics-file m/oc-mirror.prom docker://{}",
        target.address()
    ));
    let text = site.read("m/oc-mirror.prom");
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}\n{text}")).parse::<u64>().unwrap()
    };
    assert_eq!(value("oc_mirror_images{state=\"copied\"}"), 12);
    assert_eq!(value("oc_mirror_bytes_transferred_total"), ran.total("bytes"));
    assert_eq!(value("oc_mirror_bytes_planned"), ran.total("bytes"));
    for shard in ["{shard=\"0\"}", "{shard=\"1\"}"] {
        assert_eq!(value(&format!("oc_mirror_shard_attempts_total{shard}")), 1);
        assert_eq!(value(&format!("oc_mirror_shard_running{shard}")), 0);
        let progress = value(&format!("oc_mirror_shard_last_progress_time_seconds{shard}"));
        assert!(progress >= value("oc_mirror_start_time_seconds"), "{text}");
    }
    assert_eq!(
        (value("oc_mirror_exit_code"), value("oc_mirror_running{mode=\"mirrorToMirror\"}")),
        (0, 0)
    );
}
