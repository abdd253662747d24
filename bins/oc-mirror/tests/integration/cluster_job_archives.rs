//! `oc-mirror job --from`: pods read archives from an object store or a volume.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use http::Method;
use lab::corpus::Corpus;
use lab::docker_registry;
use lab::object_store::ObjectStore;
use lab::registry::{Effect, Fault};
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence, PodOptions, PodRunner};

use crate::cluster_jobs::{cluster, pod_options, without_runs};
use crate::workflow_object_store::{claim_of_another, long_ago};
use crate::workflow_shards::{blob_gets, lasting, registry, stored, target, world};
use support::releases::World;
use support::{PLAIN, Ran, Site, copy};

fn variables(store: &ObjectStore) -> [(&'static str, String); 3] {
    [
        ("AWS_ACCESS_KEY_ID", ObjectStore::ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", ObjectStore::SECRET_KEY.to_owned()),
        ("AWS_ENDPOINT_URL", store.url()),
    ]
}

fn job((world, site): (&World, &Site), server: &ApiServer, more: &str) -> Command {
    let line = format!(
        "job -c isc.yaml {PLAIN} --image registry.example/oc-mirror:1 -n mirror --kubeconfig {} {more}",
        server.kubeconfig().display()
    );
    world.command(site, &line)
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_push_archives_of_a_bucket_and_of_a_volume_as_one_process_does() {
    let (world, site) = world();
    // Two archives: the second has what is new since the first.
    let out = format!("-c isc.yaml {PLAIN} file://data");
    world.succeeds(&site, &out);
    let corpus = Corpus::tiny(3).unwrap();
    corpus.fill(&world.quay).unwrap();
    add_images(&site, &corpus);
    world.succeeds(&site, &out);
    let place = |registry: &docker_registry::DockerRegistry| registry.address().to_string();
    let here = |name: &str| site.path(name).display().to_string();
    let copied = |name: &str| {
        fs::create_dir_all(site.path(name)).unwrap();
        for chunk in support::chunks(&site.path("data")) {
            copy(&chunk, &site.path(name));
        }
    };
    copied("carried");
    let single = target(&site, "registry-single", Default::default());
    let line = format!("-c isc.yaml {PLAIN} --from file://carried docker://{}/ocp", place(&single));
    let alone = world.succeeds(&site, &line);
    let expected = lasting(&alone, &place(&single), &here("carried"));

    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("mirror").unwrap();
    fs::create_dir(bucket.join("site")).unwrap();
    for chunk in support::chunks(&site.path("data")) {
        copy(&chunk, &bucket.join("site"));
    }
    let server = cluster(true).await;
    copied("volume");
    let mut options = pod_options(&site);
    options
        .environment
        .extend(variables(&store).map(|(name, value)| (name.to_owned(), value.into())));
    options.mounts.push(("/archives".to_owned(), site.path("volume")));
    let _pods = PodRunner::start(&server, PodOptions { ..options }).unwrap();
    for (name, from, workspace) in [
        ("bucket", "--from s3://mirror/site --workspace file://planned", "planned"),
        ("volume", "--from file://volume --archives-claim archives", "volume"),
    ] {
        let storage = format!("registry-{name}");
        let to = target(&site, &storage, Default::default());
        let more = format!(
            "--shards 3 --submit --follow --output json {from} docker://{}/ocp",
            place(&to)
        );
        let ran =
            Ran::of(job((&world, &site), &server, &more).envs(variables(&store)).output().unwrap());
        assert_eq!(ran.code, 0, "{name}: {}\n{}", ran.err, ran.out);
        assert_eq!(lasting(&ran, &place(&to), &here(workspace)), expected, "{name}");
        assert_eq!(
            without_runs(&site.path(&storage)),
            stored(&site.path("registry-single")),
            "{name}"
        );
    }
    // Planning fetched indexes, manifests and documents, and no layers.
    let planned = support::chunks(&site.path("planned"));
    let used: u64 = planned.iter().map(|path| blocks(path)).sum();
    let whole: u64 = support::chunks(&site.path("data")).iter().map(|path| blocks(path)).sum();
    assert!(used < whole / 2, "{used} of {whole}");
    // The same directory serves a push without pods: what was left out is fetched then.
    let to = target(&site, "registry-later", Default::default());
    let line = format!(
        "--output=json -c isc.yaml {PLAIN} --from s3://mirror/site --workspace file://planned docker://{}/ocp",
        place(&to)
    );
    let mut command = world.command(&site, &line);
    let ran = Ran::of(command.envs(variables(&store)).output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(stored(&site.path("registry-later")), stored(&site.path("registry-single")));

    // A segment that is missing is named before anything starts.
    let first = support::chunks(&bucket.join("site")).remove(0);
    fs::remove_file(&first).unwrap();
    let to = target(&site, "registry-missing", Default::default());
    let more = format!(
        "--shards 3 --submit --from s3://mirror/site --workspace file://late docker://{}/ocp",
        place(&to)
    );
    let ran =
        Ran::of(job((&world, &site), &server, &more).envs(variables(&store)).output().unwrap());
    assert_eq!(ran.code, 1, "{}", ran.err);
    let name = first.file_name().unwrap().to_str().unwrap();
    assert!(ran.err.contains(name), "{}", ran.err);
    let more = more.replace("s3://mirror/site", "s3://absent");
    let ran =
        Ran::of(job((&world, &site), &server, &more).envs(variables(&store)).output().unwrap());
    assert!(ran.code == 1 && ran.err.contains("s3://absent does not exist"), "{}", ran.err);
}

/// Adds images to the configuration, whose last section has images.
fn add_images(site: &Site, corpus: &Corpus) {
    let quay = "quay.io".parse().unwrap();
    let more: String =
        corpus.references(&quay).map(|image| format!("  - name: {image}\n")).collect();
    let text = site.read("isc.yaml");
    site.write("isc.yaml", &format!("{text}{more}"));
}

/// Mirrors without pods through the directory `alone` into the storage `registry-single`. Returns how
/// often each blob was requested from the source.
fn mirror_alone(world: &World, site: &Site) -> BTreeMap<String, usize> {
    world.succeeds(site, &format!("-c isc.yaml {PLAIN} file://alone"));
    let requested = blob_gets(&world.quay);
    let single = target(site, "registry-single", Default::default());
    let line = format!("-c isc.yaml {PLAIN} --from file://alone docker://{}/ocp", single.address());
    world.succeeds(site, &line);
    world.forget_requests();
    requested
}

/// The space that a file takes on the disk.
fn blocks(path: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).unwrap().blocks() * 512
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_write_an_archive_into_a_bucket_and_a_workstation_pushes_it() {
    let (world, site) = world();
    let place = |registry: &docker_registry::DockerRegistry| registry.address().to_string();
    let requested = mirror_alone(&world, &site);

    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("mirror").unwrap();
    let server = cluster(true).await;
    let mut options = pod_options(&site);
    options
        .environment
        .extend(variables(&store).map(|(name, value)| (name.to_owned(), value.into())));
    let pods = PodRunner::start(&server, options).unwrap();
    let line = format!(
        "job -c isc.yaml {PLAIN} --image registry.example/oc-mirror:1 -n mirror --kubeconfig {} \
         --shards 3 --workspace file://data --submit --follow --output json s3://mirror/site",
        server.kubeconfig().display()
    );
    let submit = || {
        let mut command = world.command(&site, &line);
        Ran::of(command.envs(variables(&store)).output().unwrap())
    };
    let ran = submit();
    assert_eq!(ran.code, 0, "{}\n{}\n{:?}", ran.err, ran.out, pods.problem());
    assert_eq!(blob_gets(&world.quay), requested, "no byte is requested twice");
    let names = || support::visible_names(&bucket.join("site"));
    let files = |count: u32| (1..=count).map(|n| format!("mirror_{n:06}.tar")).collect::<Vec<_>>();
    // One of the command, one of each shard, and nothing else.
    assert_eq!(names(), files(4));

    let push = |name: &str| {
        let storage = format!("registry-{name}");
        let to = target(&site, &storage, Default::default());
        let line = format!(
            "--output=json -c isc.yaml {PLAIN} --from s3://mirror/site --workspace file://fetched-{name} docker://{}/ocp",
            place(&to)
        );
        let mut command = world.command(&site, &line);
        let ran = Ran::of(command.envs(variables(&store)).output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.err);
        stored(&site.path(&storage))
    };
    assert_eq!(push("first"), stored(&site.path("registry-single")));

    // The next run archives what is new.
    let mut corpus = Corpus::tiny(3).unwrap();
    corpus.fill(&world.quay).unwrap();
    add_images(&site, &corpus);
    let before: u64 = sizes(&bucket.join("site"));
    world.forget_requests();
    let ran = submit();
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    let new: BTreeSet<_> = corpus.blobs().into_keys().map(|digest| digest.to_string()).collect();
    let fetched = blob_gets(&world.quay);
    assert!(fetched.keys().all(|digest| new.contains(digest)), "{fetched:?}");
    assert!(sizes(&bucket.join("site")) < before * 2);
    push("second");

    // Content that the source does not have: nothing is added.
    corpus.change_one(1).unwrap();
    corpus.fill(&world.quay).unwrap();
    let missing = corpus.entries[0].image.blobs.keys().next().unwrap().to_string();
    world.quay.fault(Fault::on(Method::GET, &missing).does(Effect::status(404)));
    let known = names();
    let ran = submit();
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("nothing was added to the archives"), "{}", ran.err);
    let visible = |names: Vec<String>| -> Vec<String> {
        names.into_iter().filter(|name| name != "oc-mirror-runs").collect()
    };
    assert_eq!(visible(names()), known);
    // The same command continues once the source has it.
    world.quay.clear_faults();
    let ran = submit();
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    assert!(visible(names()).len() > known.len());
    push("third");

    // An archive that was begun for three shards is completed by two.
    corpus.change_one(2).unwrap();
    corpus.fill(&world.quay).unwrap();
    let missing = corpus.entries[0].image.blobs.keys().next().unwrap().to_string();
    world.quay.fault(Fault::on(Method::GET, &missing).does(Effect::status(404)));
    let known = names();
    assert_ne!(submit().code, 0);
    world.quay.clear_faults();
    let mut command = world.command(&site, &line.replace("--shards 3", "--shards 2"));
    let ran = Ran::of(command.envs(variables(&store)).output().unwrap());
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    assert!(visible(names()).len() > visible(known).len());
    push("fourth");
}

fn sizes(directory: &std::path::Path) -> u64 {
    support::chunks(directory).iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_write_an_archive_into_a_volume_and_a_workstation_pushes_it() {
    let (world, site) = world();
    let place = |registry: &docker_registry::DockerRegistry| registry.address().to_string();
    let requested = mirror_alone(&world, &site);
    let server = cluster(true).await;
    let mut options = pod_options(&site);
    fs::create_dir(site.path("volume")).unwrap();
    options.mounts.push(("/archives".to_owned(), site.path("volume")));
    let pods = PodRunner::start(&server, options).unwrap();
    let more = "--shards 3 --archives-claim archives --submit --follow --output json file://volume";
    let ran = Ran::of(job((&world, &site), &server, more).output().unwrap());
    assert_eq!(ran.code, 0, "{}\n{}\n{:?}", ran.err, ran.out, pods.problem());
    assert_eq!(blob_gets(&world.quay), requested, "no byte is requested twice");
    // One file of the command and one of each shard; nothing is left of the run.
    let volume = site.path("volume");
    let expected: Vec<_> = (1..=4).map(|n| volume.join(format!("mirror_{n:06}.tar"))).collect();
    assert_eq!(support::chunks(&volume), expected);
    assert!(!volume.join("oc-mirror-runs").exists());

    fs::create_dir(site.path("carried")).unwrap();
    for chunk in support::chunks(&site.path("volume")) {
        copy(&chunk, &site.path("carried"));
    }
    let to = target(&site, "registry-volume", Default::default());
    let line = format!("-c isc.yaml {PLAIN} --from file://carried docker://{}/ocp", place(&to));
    world.succeeds(&site, &line);
    assert_eq!(stored(&site.path("registry-volume")), stored(&site.path("registry-single")));

    let more = "--shards 3 --submit --follow file://volume";
    let ran = Ran::of(job((&world, &site), &server, more).output().unwrap());
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("needs --archives-claim NAME"), "{}", ran.err);
}

/// Waits until a Job has ended.
async fn until_ended(server: &ApiServer, job: &str, pods: &PodRunner) {
    let path = format!("/apis/batch/v1/namespaces/mirror/jobs/{job}");
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        let status = server.client().get(&path).await.unwrap()["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is_true =
            |kind: &str| conditions.iter().any(|it| it["type"] == kind && it["status"] == "True");
        if is_true("Complete") {
            return;
        }
        assert!(!is_true("Failed"), "{status} {:?}", pods.problem());
        assert!(Instant::now() < deadline, "{status} {:?}", pods.problem());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Validates manifests strictly, then creates their objects if that is requested.
async fn apply(server: &ApiServer, site: &Site, out: &str, persistence: Persistence) {
    for file in ["0-service-account.yaml", "1-blobs.yaml", "2-publish.yaml"] {
        let yaml = site.read(&format!("{out}/{file}"));
        let applied = server.client().apply(&yaml, persistence, FieldValidation::Strict).await;
        let applied = applied.unwrap_or_else(|error| panic!("{file}: {error:?}\n{yaml}"));
        assert_eq!(applied.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_of_an_archive_are_complete_and_the_next_command_records_it() {
    let (world, site) = world();
    let requested = mirror_alone(&world, &site);
    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("mirror").unwrap();
    let server = cluster(true).await;
    let mut options = pod_options(&site);
    options
        .environment
        .extend(variables(&store).map(|(name, value)| (name.to_owned(), value.into())));
    let pods = PodRunner::start(&server, options).unwrap();
    let ran = |more: &str| {
        let more = format!("--shards 3 --workspace file://data {more} s3://mirror/site");
        let mut command = job((&world, &site), &server, &more);
        Ran::of(command.envs(variables(&store)).output().unwrap())
    };
    let every = "--parallelism 2 --auth-secret pull --store-secret bucket --store-ca store-ca --queue night";
    assert_eq!(ran(&format!("{every} --out every")).code, 0);
    apply(&server, &site, "every", Persistence::DryRun).await;
    // The same archive, with other pods.
    let planned = ran("--out out");
    let warning = "AWS_ENDPOINT_URL applies to this command and not to its pods";
    assert!(planned.err.contains(warning), "{}", planned.err);
    assert_eq!(planned.code, 0, "{}", planned.err);
    let name = planned.out.trim().to_owned();
    apply(&server, &site, "out", Persistence::DryRun).await;
    let more = "--shards 3 --workspace file://absent --out absent s3://absent/site";
    let mut absent = job((&world, &site), &server, more);
    let absent = Ran::of(absent.envs(variables(&store)).output().unwrap());
    let expected = "the bucket of s3://absent/site does not exist";
    assert!(absent.code == 1 && absent.err.contains(expected), "{}", absent.err);
    let visible = || {
        let mut names = support::visible_names(&bucket.join("site"));
        names.retain(|name| name != "oc-mirror-runs");
        names
    };
    assert_eq!(visible(), [] as [&str; 0], "nothing is visible before all files are there");
    apply(&server, &site, "out", Persistence::Stored).await;
    until_ended(&server, &format!("{name}-publish"), &pods).await;
    assert_eq!(blob_gets(&world.quay), requested, "no byte is requested twice");
    let files: Vec<_> = (1..=4).map(|n| format!("mirror_{n:06}.tar")).collect();
    assert_eq!(support::visible_names(&bucket.join("site")), files, "and nothing else is left");

    let to = target(&site, "registry-out", Default::default());
    let line = format!(
        "--output=json -c isc.yaml {PLAIN} --from s3://mirror/site --workspace file://fetched docker://{}/ocp",
        to.address()
    );
    let mut command = world.command(&site, &line);
    let pushed = Ran::of(command.envs(variables(&store)).output().unwrap());
    assert_eq!(pushed.code, 0, "{}", pushed.err);
    assert_eq!(stored(&site.path("registry-out")), stored(&site.path("registry-single")));

    // Another configuration: the archive is recorded first, and the next one has what is new.
    let corpus = Corpus::tiny(3).unwrap();
    corpus.fill(&world.quay).unwrap();
    add_images(&site, &corpus);
    world.forget_requests();
    let next = ran("--submit");
    assert_eq!(next.code, 0, "{}", next.err);
    let name = next.out.trim().to_owned();
    until_ended(&server, &format!("{name}-publish"), &pods).await;
    let new: BTreeSet<_> = corpus.blobs().into_keys().map(|digest| digest.to_string()).collect();
    let fetched = blob_gets(&world.quay);
    assert!(fetched.keys().all(|digest| new.contains(digest)), "{fetched:?}");
    assert!(visible().len() > files.len());
    // The same command records it, and starts nothing.
    let known = visible();
    world.forget_requests();
    let again = ran("--submit --follow");
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(blob_gets(&world.quay).is_empty());
    assert_eq!(visible(), known);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_completes_an_archive_in_a_volume_and_a_claim_of_another_run_is_respected() {
    let (world, site) = world();
    mirror_alone(&world, &site);
    let server = cluster(true).await;
    let mut options = pod_options(&site);
    fs::create_dir(site.path("volume")).unwrap();
    options.mounts.push(("/archives".to_owned(), site.path("volume")));
    let pods = PodRunner::start(&server, options).unwrap();
    let submit = |more: &str| {
        let more = format!("--shards 2 --archives-claim archives {more} file://volume");
        Ran::of(job((&world, &site), &server, &more).output().unwrap())
    };
    let claim = "volume/oc-mirror-runs/active.json";
    site.write(claim, &claim_of_another(jiff::Timestamp::now()));
    let rejected = submit("--submit");
    assert_eq!(rejected.code, 1, "{}", rejected.err);
    let expected = "the run other.example:/data mirrors to this target";
    assert!(rejected.err.contains(expected), "{}", rejected.err);
    let jobs = server.client().get("/apis/batch/v1/namespaces/mirror/jobs").await.unwrap();
    assert_eq!(jobs["items"], serde_json::json!([]), "nothing was started");
    site.write(claim, &claim_of_another(long_ago()));
    let ran = submit("--submit --out out");
    assert_eq!(ran.code, 0, "{}", ran.err);
    apply(&server, &site, "out", Persistence::DryRun).await;
    let name = ran.out.trim().to_owned();
    until_ended(&server, &format!("{name}-publish"), &pods).await;
    let volume = site.path("volume");
    let expected: Vec<_> = (1..=3).map(|n| volume.join(format!("mirror_{n:06}.tar"))).collect();
    assert_eq!(support::chunks(&volume), expected);
    assert!(!volume.join("oc-mirror-runs").exists(), "nothing is left of the run");
    fs::create_dir(site.path("carried")).unwrap();
    for chunk in support::chunks(&volume) {
        copy(&chunk, &site.path("carried"));
    }
    let to = target(&site, "registry-volume", Default::default());
    let line = format!("-c isc.yaml {PLAIN} --from file://carried docker://{}/ocp", to.address());
    world.succeeds(&site, &line);
    assert_eq!(stored(&site.path("registry-volume")), stored(&site.path("registry-single")));
    for (more, message) in [
        ("--submit --follow --out out", "--out cannot be used with --follow"),
        ("--submit --sign-archive key", "--sign-archive needs --submit --follow"),
    ] {
        let ran = submit(more);
        assert!(ran.code == 1 && ran.err.contains(message), "{}", ran.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_for_archives_of_a_bucket_pass_a_strict_dry_run_and_replaced_ones_are_rejected() {
    let site = Site::new();
    let source = registry();
    let corpus = Corpus::tiny(3).unwrap();
    corpus.fill(&source).unwrap();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let to = registry();
    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("mirror").unwrap();
    let run = |line: &str| Ran::of(site.command(line).envs(variables(&store)).output().unwrap());
    let line = format!("-c isc.yaml {PLAIN} --workspace file://first s3://mirror/first");
    let ran = run(&line);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let server = cluster(false).await;
    let plan = |more: &str, out: &str| {
        let line = format!(
            "job -c isc.yaml {PLAIN} --image i -n mirror --shards 2 --from s3://mirror/first --workspace file://planned-{out} {more} --out {out} docker://{}/ocp",
            to.address()
        );
        let ran = run(&line);
        assert_eq!(ran.code, 0, "{}", ran.err);
    };
    plan("--store-secret bucket --store-ca store-ca --auth-secret pull --queue night", "secret");
    plan("--store-role arn:aws:iam::1:role/mirror", "role");
    for out in ["secret", "role"] {
        apply(&server, &site, out, Persistence::DryRun).await;
    }
    let manifest = site.read("secret/1-blobs.yaml");
    let stored = manifest.split_whitespace().find(|word| word.contains("@sha256:")).unwrap();
    let stored = stored.trim_matches(['"', '\'']).to_owned();
    let shard = |pod: &str| {
        run(&format!(
            "shard {PLAIN} --run {stored} --index 0 --from s3://mirror/first --workspace file://{pod}"
        ))
    };
    assert_eq!(shard("pod").code, 0);
    // A file of the same length that begins differently.
    let file = bucket.join("first/mirror_000001.tar");
    let mut archive = fs::read(&file).unwrap();
    archive[20] ^= 1;
    fs::write(&file, archive).unwrap();
    let ran = shard("pod-later");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("mirror_000001.tar in s3://mirror/first was replaced"), "{}", ran.err);
}
