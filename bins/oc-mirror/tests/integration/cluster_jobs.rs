//! `oc-mirror job`: Jobs of a real API server and a real Job controller; pods are processes.

use crate::support;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

use http::Method;
use lab::corpus::Corpus;
use lab::docker_registry::DockerRegistry;
use lab::registry::{Effect, Fault, LabRegistry};
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence, PodOptions, PodRunner};
use serde_json::{Value, json};

use crate::workflow_shards::{lasting, stored, target, world};
use support::under_way::UnderWay;
use support::{PLAIN, Ran, Site, visible_names};

/// Pods must be as restricted as the strictest profile of Kubernetes demands.
const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata:
  name: mirror
  labels: {pod-security.kubernetes.io/enforce: restricted}
";

/// What the account `guest` may do.
const LISTS_JOBS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: lists-jobs, namespace: mirror}
rules:
- {apiGroups: [batch], resources: [jobs], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: lists-jobs, namespace: mirror}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lists-jobs}
subjects:
- {kind: ServiceAccount, name: guest, namespace: mirror}
";

pub(crate) async fn cluster(with_controllers: bool) -> ApiServer {
    let mut server = ApiServer::start().await.unwrap();
    if with_controllers {
        server.start_controllers_and_pod_collection().await.unwrap();
    }
    let strict = FieldValidation::Strict;
    server.client().apply(NAMESPACE, Persistence::Stored, strict).await.unwrap();
    server
}

/// Pods on three nodes, as machines like `site`.
pub(crate) fn pod_options(site: &Site) -> PodOptions {
    let config: OsString = site.path("home/.config").into();
    PodOptions {
        namespace: "mirror".to_owned(),
        program: env!("CARGO_BIN_EXE_oc-mirror").into(),
        root: None,
        environment: vec![("XDG_CONFIG_HOME".to_owned(), config)],
        mounts: Vec::new(),
        nodes: NonZeroUsize::new(3).unwrap(),
    }
}

pub(crate) fn runner(server: &ApiServer, site: &Site) -> PodRunner {
    PodRunner::start(server, pod_options(site)).unwrap()
}

pub(crate) fn run(site: &Site, line: &str) -> Ran {
    Ran::of(site.command(line).output().unwrap())
}

pub(crate) fn job_line(server: &ApiServer, to: &str, more: &str) -> String {
    format!(
        "job -c isc.yaml {PLAIN} --workspace file://data --image registry.example/oc-mirror:1 -n mirror \
         --kubeconfig {} {more} docker://{to}/ocp",
        server.kubeconfig().display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_pass_a_strict_dry_run_with_every_option() {
    let source = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let corpus = Corpus::tiny(20).unwrap();
    corpus.fill(&source).unwrap();
    let site = Site::new();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let server = cluster(false).await;
    let address = to.address().to_string();
    for more in [
        "--shards 3 --out plain",
        "--shards 16 --parallelism 4 --auth-secret pull --src-ca outer --dest-ca inner --queue night --cpu 2 --memory 2Gi --scratch 50Gi --retry-times 9 --out full",
    ] {
        let ran = run(&site, &job_line(&server, &address, more));
        assert_eq!(ran.code, 0, "{}", ran.err);
        let out = more.rsplit_once(' ').unwrap().1;
        let mut files: Vec<_> =
            fs::read_dir(site.path(out)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert_eq!(files.len(), 3);
        for file in files {
            let yaml = fs::read_to_string(&file).unwrap();
            let applied = server
                .client()
                .apply(&yaml, Persistence::DryRun, FieldValidation::Strict)
                .await
                .unwrap_or_else(|error| panic!("{}: {error:?}\n{yaml}", file.display()));
            assert_eq!(applied.len(), 1);
        }
    }
    let full = fs::read_to_string(site.path("full/1-blobs.yaml")).unwrap();
    assert!(
        full.contains("--retry-times=9") && full.contains("kueue.x-k8s.io/queue-name"),
        "{full}"
    );
    // The plan is at the target, and nothing else.
    let visible: Vec<String> =
        to.content().into_iter().filter(|line| !line.contains(" blob ")).collect();
    assert!(visible.iter().all(|line| line.starts_with("ocp/oc-mirror-runs")), "{visible:?}");
}

/// The registry without what only runs in a cluster leave.
pub(crate) fn without_runs(
    storage: &Path,
) -> std::collections::BTreeMap<std::path::PathBuf, String> {
    stored(storage)
        .into_iter()
        .filter(|(path, _)| !path.starts_with("ocp/oc-mirror-runs"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_leave_the_same_registry_and_report_as_one_process_also_when_they_are_killed() {
    let (world, site) = world();
    let single = target(&site, "registry-single", Default::default());
    let sharded = target(&site, "registry-sharded", Default::default());
    let alone = world.succeeds(
        &site,
        &format!("-c isc.yaml {PLAIN} --workspace file://single docker://{}/ocp", single.address()),
    );
    let server = cluster(true).await;
    let pods = runner(&server, &site);
    // Pods run long enough to be killed at any point of their work.
    let delay = Effect::Delay(Duration::from_millis(500));
    world.quay.fault(Fault::on(Method::GET, "/blobs/").does(delay));
    let line = job_line(
        &server,
        &sharded.address().to_string(),
        "--shards 16 --parallel-images 1 --parallel-layers 1 --submit --follow --output json",
    );
    let mut command = world.command(&site, &line);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = child.spawn().unwrap();
    // Every shard is killed once, which counts, and evicted at random, which does not.
    let (mut killed, mut evicted) = (BTreeSet::new(), 0);
    let mut random = 7_usize;
    let mut under_way = UnderWay::of(child);
    under_way.until("50 kills", || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let shard = (random >> 33) % 16;
        let name = format!("-blobs-{shard}-");
        match killed.contains(&shard) {
            false if pods.kill(&name, 0) => _ = killed.insert(shard),
            true => evicted += usize::from(pods.evict(&name, 0)),
            false => {}
        }
        std::thread::sleep(Duration::from_millis(20));
        killed.len() + evicted >= 50
    });
    world.quay.clear_faults();
    let ran = under_way.end();
    assert_eq!(ran.code, 0, "{}\n{}\n{:?}", ran.err, ran.out, pods.problem());
    let place = |registry: &DockerRegistry| registry.address().to_string();
    let report = lasting(&ran, &place(&sharded), "/nowhere");
    assert_eq!(report, lasting(&alone, &place(&single), "/nowhere"));
    assert_eq!(without_runs(&site.path("registry-sharded")), stored(&site.path("registry-single")));
    let resources =
        |name: &str| visible_names(&site.path(name).join("working-dir/cluster-resources"));
    assert_eq!(resources("data"), resources("single"));

    let name = run_name(&server).await;
    let status = run(
        &site,
        &format!("job status {name} -n mirror --kubeconfig {}", server.kubeconfig().display()),
    );
    assert!(status.out.contains("16 of 16 done, complete"), "{}{}", status.out, status.err);
    let logs = |more: &str| {
        let kubeconfig = server.kubeconfig().display();
        run(&site, &format!("job logs {name} -n mirror --kubeconfig {kubeconfig} {more}"))
    };
    let all = logs("");
    assert_eq!(all.code, 0, "{}", all.err);
    for line in ["shard 15: ", "publish 0: "] {
        assert!(all.out.contains(line), "{}", all.out);
    }
    let one = logs("--shard 3");
    assert!(one.out.contains(&format!("shard 3 of run {name}")), "{}{}", one.out, one.err);
    assert!(one.out.lines().all(|line| line.starts_with("shard 3: ")), "{}", one.out);
    let none = logs("--shard 16");
    assert!(none.code == 1 && none.err.contains("has no pods"), "{}{}", none.out, none.err);
}

pub(crate) async fn run_name(server: &ApiServer) -> String {
    let jobs = server.client().get("/apis/batch/v1/namespaces/mirror/jobs").await.unwrap();
    jobs["items"][0]["metadata"]["labels"]["landfall.io/mirror-run"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_is_reported_and_the_run_can_be_cancelled() {
    let source = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let corpus = Corpus::tiny(5).unwrap();
    corpus.fill(&source).unwrap();
    let site = Site::new();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let server = cluster(true).await;
    let _pods = runner(&server, &site);
    let line = job_line(&server, &to.address().to_string(), "--shards 2 --submit")
        .replace("oc-mirror:1", "missing:1");
    let ran = run(&site, &line);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let name = run_name(&server).await;
    assert_eq!(ran.out.trim(), name);
    let kubeconfig = server.kubeconfig().display().to_string();
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        let status = run(&site, &format!("job status {name} -n mirror --kubeconfig {kubeconfig}"));
        if status.out.contains("waiting: ImagePullBackOff") {
            break;
        }
        assert!(Instant::now() < deadline, "{}{}", status.out, status.err);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // A second run to the same target waits for the first.
    site.write("isc.yaml", &Corpus::tiny(4).unwrap().image_set(&source.host().unwrap()));
    let second = run(&site, &line);
    assert_eq!(second.code, 1);
    assert!(second.err.contains(&format!("the run {name} mirrors to")), "{}", second.err);
    let cancelled = run(&site, &format!("job cancel {name} -n mirror --kubeconfig {kubeconfig}"));
    assert_eq!(cancelled.code, 0, "{}", cancelled.err);
    let status = run(&site, &format!("job status {name} -n mirror --kubeconfig {kubeconfig}"));
    assert_eq!(status.code, 1);
    assert!(status.err.contains("has no run"), "{}", status.err);
    let visible: Vec<String> =
        to.content().into_iter().filter(|line| !line.contains(" blob ")).collect();
    assert!(visible.iter().all(|line| line.starts_with("ocp/oc-mirror-runs")), "{visible:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_without_permission_to_create_jobs_gets_an_error_and_nothing_starts() {
    let source = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let corpus = Corpus::tiny(2).unwrap();
    corpus.fill(&source).unwrap();
    let site = Site::new();
    site.write("isc.yaml", &corpus.image_set(&source.host().unwrap()));
    let server = cluster(false).await;
    let account =
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: guest, namespace: mirror}}";
    let strict = FieldValidation::Strict;
    server.client().apply(account, Persistence::Stored, strict).await.unwrap();
    let token = server.client().service_account_token("mirror", "guest").await.unwrap();
    let mut kubeconfig: Value =
        serde_json::from_str(&fs::read_to_string(server.kubeconfig()).unwrap()).unwrap();
    kubeconfig["users"][0]["user"] = json!({ "token": token });
    let kubeconfig = site.write("kubeconfig", &kubeconfig.to_string());
    let line = job_line(&server, &to.address().to_string(), "--shards 2 --submit")
        .replace(&server.kubeconfig().display().to_string(), &kubeconfig.display().to_string());
    let ran: Ran = run(&site, &line);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("is forbidden"), "{}", ran.err);
    // One that may list Jobs, and nothing else.
    let strict = FieldValidation::Strict;
    server.client().apply(LISTS_JOBS, Persistence::Stored, strict).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        let ran = run(&site, &line);
        assert_eq!(ran.code, 1);
        if ran.err.contains("needs the right to create ServiceAccounts and Jobs") {
            break;
        }
        // The server takes a moment to apply new permissions.
        assert!(Instant::now() < deadline, "{}", ran.err);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(!to.content().iter().any(|line| line.contains(":active ")), "nothing is claimed");
    let jobs = server.client().get("/apis/batch/v1/namespaces/mirror/jobs").await.unwrap();
    assert_eq!(jobs["items"], json!([]));
}
