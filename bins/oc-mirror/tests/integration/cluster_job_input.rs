//! `oc-mirror job` with input that cannot work: it is reported, and nothing becomes visible.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use http::Method;
use lab::corpus::Corpus;
use lab::images::{Blob, Image};
use lab::registry::{Auth, Credentials, Effect, Fault, LabRegistry, Settings};
use lab_cluster::kube::{FieldValidation, Persistence, PodRunner};
use mirror_plan::ShardPart;
use oci::{Digest, RawManifest};

use crate::cluster_job_faults::visible;
use crate::cluster_jobs::{cluster, job_line, pod_options, run, run_name, runner};
use crate::workflow_shards::registry;
use support::{PLAIN, Ran, Site};

/// A source with some images, and a machine with their configuration.
fn source(site: &Site, images: usize) -> LabRegistry {
    let source = registry();
    let corpus = Corpus::tiny(images).unwrap();
    corpus.fill(&source).unwrap();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    source
}

/// The artifact that the manifests of a run name.
fn stored_run(site: &Site, out: &str) -> String {
    let text = site.read(&format!("{out}/1-blobs.yaml"));
    let word = text.split_whitespace().find(|word| word.contains("@sha256:")).unwrap();
    word.trim_matches(['"', '\'']).strip_prefix("docker://").unwrap().to_owned()
}

/// The files of an artifact by their digests, and its manifest.
fn fetched(site: &Site, run: &str) -> (Vec<u8>, BTreeMap<Digest, Vec<u8>>) {
    let folder = site.path("artifact");
    let to = format!("dir:{}", folder.display());
    site.skopeo(&["copy", "--src-tls-verify=false", &format!("docker://{run}"), &to]);
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
        let bytes = fs::read(entry.path()).unwrap();
        files.insert(Digest::of(&bytes), bytes);
    }
    (fs::read(folder.join("manifest.json")).unwrap(), files)
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_of_another_version_fail_at_once_and_nothing_is_published() {
    let site = Site::new();
    let _source = source(&site, 6);
    let to = registry();
    let server = cluster(true).await;
    let address = to.address().to_string();
    let ran = run(&site, &job_line(&server, &address, "--shards 2 --out out"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    // The same run, as if another version had planned it.
    let known = stored_run(&site, "out");
    let (manifest, files) = fetched(&site, &known);
    let mut manifest = String::from_utf8(manifest).unwrap();
    let mut blobs = BTreeMap::new();
    for (digest, bytes) in files {
        let part =
            std::str::from_utf8(&bytes).ok().and_then(|text| ShardPart::from_text(text).ok());
        let new = match part {
            None => bytes.clone(),
            Some(mut part) => {
                part.run.program = "oc-mirror 0.0.1 (another)".to_owned();
                part.to_text().unwrap().into_bytes()
            }
        };
        let changed = Digest::of(&new);
        if changed != digest {
            manifest = manifest.replace(
                &format!("\"digest\":\"{digest}\",\"size\":{}", bytes.len()),
                &format!("\"digest\":\"{changed}\",\"size\":{}", new.len()),
            );
            assert!(manifest.contains(&changed.to_string()), "{manifest}");
        }
        blobs.insert(changed, Blob::from_bytes(new));
    }
    let mut artifact = Image::tiny("other").unwrap();
    artifact.manifests = vec![RawManifest::new(None, manifest.into_bytes()).unwrap()];
    artifact.blobs = blobs;
    to.put_image(&artifact, "ocp/oc-mirror-runs", "another").unwrap();
    let (_, old) = known.split_once('@').unwrap();
    let new = artifact.digest().to_string();

    let pods = runner(&server, &site);
    for file in ["0-service-account.yaml", "1-blobs.yaml", "2-publish.yaml"] {
        let yaml = site.read(&format!("out/{file}")).replace(old, &new);
        let strict = FieldValidation::Strict;
        server.client().apply(&yaml, Persistence::Stored, strict).await.unwrap();
    }
    let name = run_name(&server).await;
    let line =
        format!("job status {name} -n mirror --kubeconfig {}", server.kubeconfig().display());
    let deadline = Instant::now() + Duration::from_secs(300);
    let status = loop {
        let status = run(&site, &line);
        if status.out.matches("failed (").count() == 2 {
            break status.out;
        }
        assert!(Instant::now() < deadline, "{}{}{:?}", status.out, status.err, pods.problem());
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert!(status.contains("the plan was made by oc-mirror 0.0.1"), "{status}");
    assert!(status.contains("all shards of a run must have the same version"), "{status}");
    let path = format!("/apis/batch/v1/namespaces/mirror/jobs/{name}-blobs");
    let job = server.client().get(&path).await.unwrap();
    // At once: no pod was repeated.
    assert_eq!(job["status"]["failed"], 2, "{job}");
    assert!(visible(&to).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_copies_of_each_shard_at_the_same_time_leave_the_same_content() {
    let site = Site::new();
    let source = source(&site, 30);
    let (single, to) = (registry(), registry());
    site.succeeds(&format!(
        "-c isc.yaml {PLAIN} --workspace file://alone docker://{}/ocp",
        single.address()
    ));
    source.fault(Fault::on(Method::GET, "/blobs/").does(Effect::Delay(Duration::from_millis(20))));
    let line = format!(
        "job -c isc.yaml {PLAIN} --workspace file://data --image i --shards 2 --out out docker://{}/ocp",
        to.address()
    );
    let ran = run(&site, &line);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let stored = stored_run(&site, "out");
    let start = |index: usize, copy: usize| {
        let line = format!(
            "shard {PLAIN} --run docker://{stored} --index {index} --workspace file://pod-{index}-{copy}"
        );
        let mut command = site.command(&line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let copies: Vec<_> = (0..2).flat_map(|index| (0..2).map(move |copy| (index, copy))).collect();
    let copies: Vec<_> = copies.into_iter().map(|(index, copy)| start(index, copy)).collect();
    for copy in copies {
        let ran = Ran::of(copy.wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    assert!(visible(&to).is_empty(), "blobs are not visible");
    let publish = |workspace: &str| {
        let ran = run(
            &site,
            &format!(
                "shard {PLAIN} --run docker://{stored} --publish --workspace file://{workspace} docker://{}/ocp",
                to.address()
            ),
        );
        assert_eq!(ran.code, 0, "{}", ran.err);
    };
    publish("publish");
    let content = |registry: &LabRegistry| {
        let mut content = registry.content();
        content.retain(|line| !line.starts_with("ocp/oc-mirror-runs"));
        content
    };
    assert_eq!(content(&to), content(&single));
    // Publishing again changes nothing.
    publish("publish-again");
    assert_eq!(content(&to), content(&single));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_the_plan_or_in_the_manifests_and_pods_get_theirs_from_objects() {
    const PASSWORD: &str = "correct-horse-battery";
    let site = Site::new();
    let credentials = Credentials::new("carrier", PASSWORD);
    let start = || {
        let auth = Auth::Basic(credentials.clone());
        LabRegistry::start(Settings { auth, ..Settings::default() }).unwrap()
    };
    let (source, to) = (start(), start());
    let corpus = Corpus::tiny(4).unwrap();
    corpus.fill(&source).unwrap();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("carrier:{PASSWORD}"));
    let entry =
        |registry: &LabRegistry| format!(r#""{}": {{"auth": "{pair}"}}"#, registry.address());
    let auth = format!(r#"{{"auths": {{{}, {}}}}}"#, entry(&source), entry(&to));
    site.write("auth.json", &auth);

    let server = cluster(true).await;
    let secret = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": { "name": "pull", "namespace": "mirror" },
        "stringData": { ".dockerconfigjson": auth },
    });
    let strict = FieldValidation::Strict;
    server.client().apply(&secret.to_string(), Persistence::Stored, strict).await.unwrap();
    let pods = PodRunner::start(&server, pod_options(&site)).unwrap();
    let address = to.address().to_string();
    let more = "--shards 2 --authfile auth.json --auth-secret pull";
    let ran = run(&site, &job_line(&server, &address, &format!("{more} --out out")));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let run_at = stored_run(&site, "out");
    let folder = site.path("artifact");
    let (file, from) = (site.path("auth.json"), format!("docker://{run_at}"));
    let to_folder = format!("dir:{}", folder.display());
    site.skopeo(&[
        "copy",
        "--src-tls-verify=false",
        "--src-authfile",
        file.to_str().unwrap(),
        &from,
        &to_folder,
    ]);
    for place in [folder, site.path("out")] {
        for entry in fs::read_dir(place).unwrap().map(Result::unwrap) {
            let bytes = fs::read(entry.path()).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(PASSWORD) && !text.contains(&pair), "{:?}", entry.path());
        }
    }
    let line = job_line(&server, &address, &format!("{more} --submit --follow"));
    let ran = run(&site, &line);
    assert_eq!(ran.code, 0, "{}\n{:?}", ran.err, pods.problem());
    assert!(!visible(&to).is_empty());
}

#[test]
fn image_and_workspace_have_defaults_that_are_named() {
    let site = Site::new();
    let _source = source(&site, 2);
    let to = registry();
    let line =
        format!("job -c isc.yaml {PLAIN} --shards 2 --out out docker://{}/ocp", to.address());
    let ran = run(&site, &line);
    let image = format!("{}/ocp/oc-mirror:{}", to.address(), build_info::NUMBER);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains(&format!("{image}, does not exist: push it with")), "{}", ran.err);
    assert!(visible(&to).is_empty() && to.content().is_empty(), "nothing was planned");
    to.put_image(&Image::tiny("oc-mirror").unwrap(), "ocp/oc-mirror", build_info::NUMBER).unwrap();
    let ran = run(&site, &line);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(site.read("out/1-blobs.yaml").contains(&format!("image: {image}")));
    let state = PathBuf::from("home/.local/state/oc-mirror/workspaces/docker");
    let workspace = site.path(&state.join(format!("{}/ocp", to.address())).display().to_string());
    assert!(workspace.join("working-dir/dry-run/plan.json").exists());
    assert!(ran.err.contains(&workspace.display().to_string()), "{}", ran.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_never_start_end_the_command_with_the_reason() {
    let site = Site::new();
    let _source = source(&site, 2);
    let to = registry();
    let server = cluster(true).await;
    let _pods = runner(&server, &site);
    let more = "--shards 2 --submit --follow --start-timeout 3s --metrics-file m.prom";
    let line = job_line(&server, &to.address().to_string(), more);
    let ran = run(&site, &line.replace("oc-mirror:1", "missing:1"));
    assert_eq!(ran.code, 1, "{}", ran.err);
    for part in ["has started for 3.0s", "shard 0: ImagePullBackOff", "oc-mirror job cancel"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let metrics = site.read("m.prom");
    for line in ["oc_mirror_exit_code 1", "oc_mirror_running{mode=\"job\"} 0"] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    assert!(visible(&to).is_empty());
    // The Jobs are there, are listed, and can be cancelled.
    let name = run_name(&server).await;
    let of = |command: &str| {
        run(
            &site,
            &format!("job {command} -n mirror --kubeconfig {}", server.kubeconfig().display()),
        )
    };
    let listed = of("status");
    assert!(listed.out.contains(&format!("{name}-blobs: 0 of 2 done")), "{}", listed.out);
    assert_eq!(of(&format!("cancel {name}")).code, 0);
    let status = of(&format!("status {name}"));
    assert!(status.code == 1 && status.err.contains("lists its runs"), "{}", status.err);
}

#[test]
fn a_registry_that_bears_one_upload_gets_one_pod() {
    let site = Site::new();
    let _source = source(&site, 2);
    let to = registry();
    let line = format!(
        "job -c isc.yaml {PLAIN} --workspace file://data --image i --shards 16 --dest-profile quay-local-storage --out out docker://{}/ocp",
        to.address()
    );
    let ran = run(&site, &line);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let manifest = site.read("out/1-blobs.yaml");
    assert!(manifest.contains("parallelism: 1") && manifest.contains("completions: 16"));
    assert!(manifest.contains("--dest-profile=quay-local-storage"), "{manifest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_other_namespaces_and_of_processes_are_detected_by_the_claim_at_the_target() {
    const ELSEWHERE: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}";
    let site = Site::new();
    let source = source(&site, 4);
    let to = registry();
    let address = to.address().to_string();
    // Without controllers: the Jobs stay as they are created.
    let server = cluster(false).await;
    let strict = FieldValidation::Strict;
    server.client().apply(ELSEWHERE, Persistence::Stored, strict).await.unwrap();
    let here = job_line(&server, &address, "--shards 2 --submit");
    let there = here.replace("-n mirror", "-n elsewhere");
    let first = run(&site, &here);
    assert_eq!(first.code, 0, "{}", first.err);
    let name = run_name(&server).await;

    // Another plan, so that it is another run.
    site.write("isc.yaml", &Corpus::tiny(3).unwrap().image_set(&source.host().unwrap()));
    let processes = format!(
        "-c isc.yaml {PLAIN} --workspace file://processes --shards 2 docker://{address}/ocp"
    );
    for line in [&there, &processes] {
        let second = run(&site, line);
        assert_eq!(second.code, 1, "{line}: {}", second.err);
        let owner = format!("the run {name} (namespace mirror of https://");
        // A run with a text report logs to standard output, as oc-mirror v2 does.
        let log = format!("{}{}", second.err, second.out);
        for part in [owner.as_str(), "repeat the command after"] {
            assert!(log.contains(part), "{line}: {log}");
        }
    }
    let jobs = server.client().get("/apis/batch/v1/namespaces/elsewhere/jobs").await.unwrap();
    assert_eq!(jobs["items"], serde_json::json!([]), "nothing was started");
    assert!(visible(&to).is_empty());

    // A run that was cancelled does not block the next one of its namespace.
    let kubeconfig = server.kubeconfig().display().to_string();
    let cancelled = run(&site, &format!("job cancel {name} -n mirror --kubeconfig {kubeconfig}"));
    assert_eq!(cancelled.code, 0, "{}", cancelled.err);
    let next = run(&site, &here);
    assert_eq!(next.code, 0, "{}", next.err);
}
