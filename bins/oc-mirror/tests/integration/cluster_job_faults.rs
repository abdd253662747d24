//! `oc-mirror job` where nodes, registries and credentials fail.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use http::Method;
use lab::corpus::Corpus;
use lab::registry::{Effect, Fault, LabRegistry};

use crate::cluster_jobs::{cluster, job_line, run, runner};
use crate::workflow_shards::{registry, slow_source, target};
use support::under_way::UnderWay;
use support::{PLAIN, Ran, Site};

/// What clients of a registry see, without runs.
pub(crate) fn visible(registry: &LabRegistry) -> BTreeSet<String> {
    let content = registry.content().into_iter();
    content.filter(|line| !line.contains(" blob ") && !line.contains("oc-mirror-runs")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_node_a_slow_shard_and_too_many_requests_cost_time_only() {
    let site = Site::new();
    let (source, _) = slow_source(&site);
    let (single, sharded) = (registry(), registry());
    site.succeeds(&format!(
        "-c isc.yaml {PLAIN} --workspace file://alone docker://{}/ocp",
        single.address()
    ));
    let blob = Corpus::shaped(4000).unwrap().blobs().into_iter().max_by_key(|blob| blob.1).unwrap();
    source
        .fault(Fault::on(Method::GET, &blob.0.to_string()).does(Effect::SlowBytesPerSecond(9_000)));
    for (registry, method, part) in
        [(&source, Method::GET, "/blobs/"), (&sharded, Method::POST, "/blobs/uploads")]
    {
        let fault = Fault::on(method, part).after(9).times(12);
        registry.fault(fault.does(Effect::too_many_requests(0)));
    }
    let server = cluster(true).await;
    let pods = runner(&server, &site);
    let more = "--shards 4 --parallel-images 1 --parallel-layers 1 --submit --follow --output json";
    let mut command = site.command(&job_line(&server, &sharded.address().to_string(), more));
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut under_way = UnderWay::of(child.spawn().unwrap());
    let mut lost = None;
    under_way.until("a node is lost", || {
        if sharded.requests().of(&Method::PUT, "/blobs/").count() > 4 {
            lost = pods.lose_node("blobs");
        }
        lost.is_some()
    });
    // An administrator removes a node that does not come back.
    server.client().delete(&format!("/api/v1/nodes/{}", lost.unwrap())).await.unwrap();
    let ran = under_way.end();
    assert_eq!(ran.code, 0, "{}\n{}\n{:?}", ran.err, ran.out, pods.problem());
    assert!(ran.total("retries") >= 12, "{}", ran.out);
    assert_eq!(visible(&sharded), visible(&single));
    assert_eq!(
        visible(&single).len(),
        single.content().iter().filter(|l| !l.contains(" blob ")).count()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_expire_fail_the_run_and_nothing_is_visible() {
    let site = Site::new();
    let (_source, _) = slow_source(&site);
    let to = registry();
    let server = cluster(true).await;
    let pods = runner(&server, &site);
    let line = job_line(&server, &to.address().to_string(), "--shards 2 --submit --follow");
    let mut command = site.command(&line);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut under_way = UnderWay::of(child.spawn().unwrap());
    under_way.until("some blobs arrive", || to.requests().of(&Method::PUT, "/blobs/").count() > 12);
    to.fault(Fault::on_any("/v2/").does(Effect::status(401)));
    under_way.until("the pods end", || pods.ended() >= 2);
    to.clear_faults();
    let ran = under_way.end();
    assert_ne!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("401") || ran.err.to_lowercase().contains("unauthorized"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("nothing was published"), "{}", ran.err);
    assert_eq!(visible(&to), BTreeSet::new());
    // With valid credentials the same command completes what is missing.
    let name = crate::cluster_jobs::run_name(&server).await;
    let kubeconfig = server.kubeconfig().display().to_string();
    let cancelled = run(&site, &format!("job cancel {name} -n mirror --kubeconfig {kubeconfig}"));
    assert_eq!(cancelled.code, 0, "{}", cancelled.err);
    let again = run(&site, &line);
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(!visible(&to).is_empty());
}

#[test]
fn a_plan_that_was_modified_and_a_missing_one_are_rejected() {
    let site = Site::new();
    let corpus = Corpus::tiny(3).unwrap();
    let source = registry();
    corpus.fill(&source).unwrap();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let to = target(&site, "storage", Default::default());
    let ran = run(
        &site,
        &format!(
            "job -c isc.yaml {PLAIN} --workspace file://data --image i --shards 2 --out out docker://{}/ocp",
            to.address()
        ),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let manifest = site.read("out/1-blobs.yaml");
    let stored = manifest.split_whitespace().find(|word| word.contains("@sha256:")).unwrap();
    let stored = stored.trim_matches('"').to_owned();
    let shard = |run_at: &str| {
        run(&site, &format!("shard {PLAIN} --run {run_at} --index 0 --workspace file://pod"))
    };
    let absent = stored.replace(&stored[stored.len() - 6..], "000000");
    let ran = shard(&absent);
    assert!(ran.code == 1 && ran.err.contains("does not exist"), "{} {}", ran.code, ran.err);
    let blobs = site.path("storage/docker/registry/v2/blobs/sha256");
    let files = walk(&blobs);
    let part = files.into_iter().find(|path| {
        fs::read_to_string(path)
            .is_ok_and(|text| text.contains("oc-mirror/shard") && text.contains("\"shard\": 0"))
    });
    let part = part.expect("the registry stores parts");
    let text = fs::read_to_string(&part).unwrap();
    fs::write(&part, text.replacen("tiny/group", "tiny/groop", 1)).unwrap();
    let ran = shard(&stored);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("modified"), "{}", ran.err);
    // The pod that publishes does not wait for this shard.
    let ran = run(
        &site,
        &format!(
            "shard {PLAIN} --run {stored} --publish --workspace file://publish docker://{}/ocp",
            to.address()
        ),
    );
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("shard 0 failed, and nothing is published"), "{}", ran.err);
}

#[test]
fn the_last_failed_pod_of_a_shard_ends_the_pod_that_publishes() {
    let site = Site::new();
    let corpus = Corpus::tiny(3).unwrap();
    let (source, to) = (registry(), registry());
    corpus.fill(&source).unwrap();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let plan = || {
        let line = format!(
            "job -c isc.yaml {PLAIN} --workspace file://data --image i --shards 1 --out out docker://{}/ocp",
            to.address()
        );
        let ran = run(&site, &line);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let manifest = site.read("out/1-blobs.yaml");
        let stored = manifest.split_whitespace().find(|word| word.contains("@sha256:")).unwrap();
        stored.trim_matches('"').to_owned()
    };
    let shard = |stored: &str, failures: &str| {
        let line = format!(
            "shard {PLAIN} --retry-times 0 --run {stored} --index 0 --workspace file://pod"
        );
        let mut command = site.command(&line);
        Ran::of(command.env("OC_MIRROR_SHARD_FAILURES", failures).output().unwrap())
    };
    let publish = |stored: &str, workspace: &str| {
        let line = format!(
            "shard {PLAIN} --run {stored} --publish --workspace file://{workspace} docker://{}/ocp",
            to.address()
        );
        run(&site, &line)
    };
    let stored = plan();
    source.fault(Fault::on(Method::GET, "/blobs/").does(Effect::status(503)));
    let reports = || to.content().iter().filter(|line| line.contains("-shard-0 ")).count();
    for (failures, expected) in [("5", 0), ("6", 1)] {
        let ran = shard(&stored, failures);
        assert_eq!(ran.code, 75, "{}", ran.err);
        assert!(ran.err.contains("blobs were not transferred"), "{}", ran.err);
        assert_eq!(reports(), expected, "after {failures} failures");
    }
    let ran = publish(&stored, "first");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("shard 0 failed, and nothing is published"), "{}", ran.err);
    assert_eq!(visible(&to), BTreeSet::new());

    // The same command withdraws the failure, and the run continues.
    source.clear_faults();
    let stored = plan();
    let ran = shard(&stored, "0");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = publish(&stored, "second");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!visible(&to).is_empty());
}

/// A plan of one or more shards in a registry, whose pods are started by the test.
struct PlannedRun<'a> {
    site: &'a Site,
    to: &'a LabRegistry,
    stored: String,
}

impl<'a> PlannedRun<'a> {
    fn new(site: &'a Site, to: &'a LabRegistry, shards: u32) -> Self {
        let line = format!(
            "job -c isc.yaml {PLAIN} --workspace file://data --image i --shards {shards} --out out docker://{}/ocp",
            to.address()
        );
        let ran = run(site, &line);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let manifest = site.read("out/1-blobs.yaml");
        let stored = manifest.split_whitespace().find(|word| word.contains("@sha256:")).unwrap();
        Self { site, to, stored: stored.trim_matches('"').to_owned() }
    }

    fn shard(&self, index: u32, failures: &str) -> std::process::Command {
        let line = format!(
            "shard {PLAIN} --retry-times 0 --parallel-images 1 --parallel-layers 1 --run {} --index {index} --workspace file://pod-{index}",
            self.stored
        );
        let mut command = self.site.command(&line);
        command.env("OC_MIRROR_SHARD_FAILURES", failures);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    }

    fn publish(&self, workspace: &str) -> Ran {
        let line = format!(
            "shard {PLAIN} --retry-times 0 --run {} --publish --workspace file://{workspace} docker://{}/ocp",
            self.stored,
            self.to.address()
        );
        run(self.site, &line)
    }
}

#[test]
fn the_pod_that_publishes_completes_a_shard_whose_last_pod_was_killed() {
    let site = Site::new();
    let (source, _) = slow_source(&site);
    let (single, to) = (registry(), registry());
    site.succeeds(&format!(
        "-c isc.yaml {PLAIN} --workspace file://alone docker://{}/ocp",
        single.address()
    ));
    let planned = PlannedRun::new(&site, &to, 2);
    let done = Ran::of(planned.shard(0, "0").output().unwrap());
    assert_eq!(done.code, 0, "{}", done.err);
    let before = to.requests().of(&Method::PUT, "/blobs/").count();
    let mut last = UnderWay::of(planned.shard(1, "6").spawn().unwrap());
    last.until("some blobs arrive", || {
        to.requests().of(&Method::PUT, "/blobs/").count() > before + 8
    });
    last.kill();
    assert_eq!(visible(&to), BTreeSet::new());
    source.clear_faults();
    let ran = planned.publish("publish");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("shard 1: no other pod follows its last one"), "{}", ran.err);
    assert_eq!(visible(&to), visible(&single));
}

#[test]
fn a_last_pod_that_was_killed_fails_the_run_where_its_content_is_missing() {
    let site = Site::new();
    let (source, _) = slow_source(&site);
    let to = registry();
    let planned = PlannedRun::new(&site, &to, 1);
    let before = to.requests().of(&Method::PUT, "/blobs/").count();
    let mut last = UnderWay::of(planned.shard(0, "6").spawn().unwrap());
    last.until("some blobs arrive", || {
        to.requests().of(&Method::PUT, "/blobs/").count() > before + 8
    });
    last.kill();
    source.fault(Fault::on(Method::GET, "/blobs/").does(Effect::status(503)));
    let ran = planned.publish("publish");
    // A later pod that publishes may succeed.
    assert_eq!(ran.code, 75, "{}", ran.err);
    assert!(ran.err.contains("shard 0 failed, and nothing is published"), "{}", ran.err);
    assert_eq!(visible(&to), BTreeSet::new());
}

#[test]
fn a_failed_copy_of_a_shard_does_not_count_if_another_one_did_the_part() {
    let site = Site::new();
    let corpus = Corpus::tiny(3).unwrap();
    let (source, to) = (registry(), registry());
    corpus.fill(&source).unwrap();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    // The failure is reported last: it does not replace the result.
    let planned = PlannedRun::new(&site, &to, 1);
    let done = Ran::of(planned.shard(0, "0").output().unwrap());
    assert_eq!(done.code, 0, "{}", done.err);
    to.fault(Fault::on(Method::HEAD, "/blobs/").does(Effect::status(401)));
    let failed = Ran::of(planned.shard(0, "6").output().unwrap());
    assert_ne!(failed.code, 0, "{}", failed.err);
    to.clear_faults();
    let ran = planned.publish("first");
    assert_eq!(ran.code, 0, "{}", ran.err);

    // The failure is reported first, and the content is at the target nevertheless.
    let to = registry();
    let planned = PlannedRun::new(&site, &to, 1);
    source.fault(Fault::on(Method::GET, "/blobs/").does(Effect::status(503)));
    let failed = Ran::of(planned.shard(0, "6").output().unwrap());
    assert_eq!(failed.code, 75, "{}", failed.err);
    let ran = planned.publish("second");
    assert!(ran.code == 1 && ran.err.contains("nothing is published"), "{}", ran.err);
    source.clear_faults();
    site.succeeds(&format!(
        "-c isc.yaml {PLAIN} --workspace file://alone docker://{}/ocp",
        to.address()
    ));
    let ran = planned.publish("third");
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn results_of_an_execution_with_other_shards_are_not_read() {
    let site = Site::new();
    let corpus = Corpus::tiny(6).unwrap();
    let (source, to) = (registry(), registry());
    corpus.fill(&source).unwrap();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let one = PlannedRun::new(&site, &to, 1);
    assert_eq!(Ran::of(one.shard(0, "0").output().unwrap()).code, 0);
    let two = PlannedRun::new(&site, &to, 2);
    assert_ne!(one.stored, two.stored);
    let reports = || -> Vec<String> {
        let content = to.content().into_iter();
        content.filter(|line| line.contains("-shard-")).collect()
    };
    let known = reports();
    assert!(known.iter().all(|line| line.contains("-of-1-shard-0 ")), "{known:?}");
    for index in 0..2 {
        assert_eq!(Ran::of(two.shard(index, "0").output().unwrap()).code, 0);
    }
    for name in ["-of-1-shard-0 ", "-of-2-shard-0 ", "-of-2-shard-1 "] {
        assert!(reports().iter().any(|line| line.contains(name)), "{name}: {:?}", reports());
    }
    let ran = two.publish("publish");
    assert_eq!(ran.code, 0, "{}", ran.err);
}

fn walk(root: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_gets_no_more_requests_than_its_budget() {
    let site = Site::new();
    let (_source, _) = slow_source(&site);
    let to = registry();
    to.fault(Fault::on_any("/blobs/").does(Effect::Delay(Duration::from_millis(10))));
    let line = format!(
        "-c isc.yaml {PLAIN} --workspace file://data --shards 4 --dest-limit-requests 4 docker://{}",
        to.address()
    );
    let ran = site.succeeds(&line);
    assert_eq!(ran.total("failed"), 0);
    // Each process has one request of each kind under way, and the run itself up to four.
    assert!(to.most_concurrent() <= 8, "{}", to.most_concurrent());
}
