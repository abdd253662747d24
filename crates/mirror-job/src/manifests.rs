//! The objects of a run.

use std::num::NonZeroU32;

use serde_json::{Map, Value, json};

use crate::{PHASE_LABEL, RUN_LABEL, RunName, TARGET_ANNOTATION, exit};

/// Where pods find what they mount.
const AUTH_DIR: &str = "/etc/oc-mirror/auth";
const SRC_CA_DIR: &str = "/etc/oc-mirror/src-ca";
const DEST_CA_DIR: &str = "/etc/oc-mirror/dest-ca";
const STORE_CA_DIR: &str = "/etc/oc-mirror/store-ca";
/// The file of a ConfigMap with the CA of an object store.
const STORE_CA_FILE: &str = "ca.crt";
/// Where a claim with archives is mounted.
pub const ARCHIVES: &str = "/archives";
const STORE_SECRET_DIR: &str = "/etc/oc-mirror/store";
/// The file of a Secret with credentials in the format of the AWS tools.
const STORE_SECRET_FILE: &str = "credentials";
const IDENTITY_DIR: &str = "/etc/oc-mirror/identity";
const IDENTITY_FILE: &str = "token";
/// The audience of the token of a web identity.
const IDENTITY_AUDIENCE: &str = "sts.amazonaws.com";
const IDENTITY_SECONDS: u32 = 3600;
const WORKSPACE: &str = "/workspace";
const CONTAINER: &str = "oc-mirror";
/// Variables of pods with the number of earlier pods of the same shard that failed, and the
/// annotations that have it: failures that count, and those that do not.
pub const FAILURES: [(&str, &str); 2] = [
    ("OC_MIRROR_SHARD_FAILURES", "batch.kubernetes.io/job-index-failure-count"),
    ("OC_MIRROR_SHARD_DISRUPTIONS", "batch.kubernetes.io/job-index-ignored-failure-count"),
];
/// How often a shard is repeated after failures that a later attempt may not meet. A pod with this
/// number of failures before it is the last one.
pub const REPETITIONS: u32 = 6;
/// Finished Jobs stay for a week, with their pods and logs.
const KEEP_SECONDS: u32 = 7 * 24 * 60 * 60;

/// A run whose plan is stored in the target registry.
#[derive(Debug, Clone)]
pub struct Run {
    pub name: RunName,
    /// Where the plan is: `docker://REGISTRY/REPOSITORY@DIGEST`, `s3://BUCKET/PREFIX@DIGEST` or
    /// `file://DIR@DIGEST`.
    pub plan: String,
    /// `REGISTRY[/NAMESPACE]` or `s3://BUCKET[/PREFIX]`
    pub target: String,
    pub shards: NonZeroU32,
    /// Whether a second Job publishes. The archive of a run to disk is published by a command that
    /// follows its pods.
    pub has_publish_job: bool,
}

/// What pods are like.
#[derive(Debug, Clone)]
pub struct PodSettings {
    /// None: the namespace of the context in which the manifests are applied.
    pub namespace: Option<String>,
    /// The container image of oc-mirror.
    pub image: String,
    /// A Secret with `.dockerconfigjson`: credentials for both sides.
    pub auth_secret: Option<String>,
    /// ConfigMaps with certificates of authorities, as `*.crt`.
    pub src_ca_config_map: Option<String>,
    pub dest_ca_config_map: Option<String>,
    /// Shards at the same time.
    pub parallelism: NonZeroU32,
    /// Quantities of Kubernetes.
    pub cpu: String,
    pub memory: String,
    /// For unfinished downloads.
    pub scratch: String,
    /// A LocalQueue of Kueue.
    pub queue: Option<String>,
    /// Archives that content is read from, instead of registries.
    pub archives: Option<PodArchives>,
    /// Flags of oc-mirror, for all pods.
    pub arguments: Vec<String>,
}

/// Where pods read archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodArchives {
    /// A PersistentVolumeClaim that several nodes can read.
    Claim(String),
    /// A PersistentVolumeClaim that several nodes can write to: pods write archives into it.
    WritableClaim(String),
    Store {
        /// `s3://BUCKET[/PREFIX]`; none where pods read nothing but their plan from it.
        url: Option<String>,
        /// A Secret with the environment of the object store's client (`AWS_ACCESS_KEY_ID` and
        /// others), or with the file `credentials`.
        secret: Option<String>,
        /// The role that pods have by the token of their ServiceAccount.
        role: Option<String>,
        /// A ConfigMap with `ca.crt`.
        ca_config_map: Option<String>,
    },
}

/// An object, and the file that it is written to.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    pub file: &'static str,
    pub object: Value,
}

/// The phases of a run, each a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Blobs,
    Publish,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Blobs => "blobs",
            Self::Publish => "publish",
        }
    }
}

/// Makes the ServiceAccount and the two Jobs of a run.
pub fn manifests(run: &Run, pods: &PodSettings) -> Vec<Manifest> {
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(run, pods, run.name.as_str()),
        // Pods do not use the API of the cluster.
        "automountServiceAccountToken": false,
    });
    let mut manifests = vec![
        Manifest { file: "0-service-account.yaml", object: account },
        Manifest { file: "1-blobs.yaml", object: job(run, pods, Phase::Blobs) },
    ];
    if run.has_publish_job {
        let object = job(run, pods, Phase::Publish);
        manifests.push(Manifest { file: "2-publish.yaml", object });
    }
    manifests
}

fn metadata(run: &Run, pods: &PodSettings, name: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {
            "app.kubernetes.io/name": "oc-mirror",
            RUN_LABEL: run.name.as_str(),
        },
        "annotations": { TARGET_ANNOTATION: run.target },
    });
    if let Some(namespace) = &pods.namespace {
        metadata["namespace"] = json!(namespace);
    }
    metadata
}

fn job(run: &Run, pods: &PodSettings, phase: Phase) -> Value {
    let (name, completions, parallelism) = match phase {
        Phase::Blobs => {
            (run.name.blobs_job(), run.shards.get(), pods.parallelism.min(run.shards).get())
        }
        Phase::Publish => (run.name.publish_job(), 1, 1),
    };
    let mut metadata = metadata(run, pods, &name);
    metadata["labels"][PHASE_LABEL] = json!(phase.name());
    if let Some(queue) = &pods.queue {
        metadata["labels"]["kueue.x-k8s.io/queue-name"] = json!(queue);
    }
    let mut spec = json!({
        "completionMode": "Indexed",
        "completions": completions,
        "parallelism": parallelism,
        "backoffLimitPerIndex": REPETITIONS,
        "maxFailedIndexes": completions.div_ceil(4),
        "podFailurePolicy": failure_policy(),
        "ttlSecondsAfterFinished": KEEP_SECONDS,
        "template": template(run, pods, phase),
    });
    if pods.queue.is_some() {
        // Kueue starts it.
        spec["suspend"] = json!(true);
    }
    json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec })
}

/// Disruptions do not count; a failure that another attempt would repeat fails the index at once;
/// everything else counts against the limit of the index.
fn failure_policy() -> Value {
    json!({
        "rules": [
            {
                "action": "Ignore",
                "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }],
            },
            {
                "action": "FailIndex",
                "onExitCodes": {
                    "containerName": CONTAINER,
                    "operator": "In",
                    "values": [exit::PERMANENT],
                },
            },
        ],
    })
}

fn template(run: &Run, pods: &PodSettings, phase: Phase) -> Value {
    let labels = json!({
        "app.kubernetes.io/name": "oc-mirror",
        RUN_LABEL: run.name.as_str(),
        PHASE_LABEL: phase.name(),
    });
    let mut volumes = vec![json!({
        "name": "workspace",
        "emptyDir": { "sizeLimit": pods.scratch },
    })];
    let mut mounts = vec![json!({ "name": "workspace", "mountPath": WORKSPACE })];
    let mut arguments: Vec<String> = vec!["shard".into(), "--run".into(), run.plan.clone()];
    if phase == Phase::Publish {
        arguments.push("--publish".into());
    }
    arguments.extend(["--workspace".into(), format!("file://{WORKSPACE}")]);
    if let Some(secret) = &pods.auth_secret {
        volumes.push(json!({ "name": "auth", "secret": { "secretName": secret } }));
        mounts.push(json!({ "name": "auth", "mountPath": AUTH_DIR, "readOnly": true }));
        arguments.extend(["--authfile".into(), format!("{AUTH_DIR}/.dockerconfigjson")]);
    }
    for (name, config_map, directory, flag) in [
        ("src-ca", &pods.src_ca_config_map, SRC_CA_DIR, "--src-cert-dir"),
        ("dest-ca", &pods.dest_ca_config_map, DEST_CA_DIR, "--dest-cert-dir"),
    ] {
        let Some(config_map) = config_map else { continue };
        volumes.push(json!({ "name": name, "configMap": { "name": config_map } }));
        mounts.push(json!({ "name": name, "mountPath": directory, "readOnly": true }));
        arguments.extend([flag.to_owned(), directory.to_owned()]);
    }
    let mut environment_from = Vec::new();
    // A home for what the image does not let a user write.
    let mut environment = vec![json!({ "name": "HOME", "value": WORKSPACE })];
    // Annotations of the Job controller show a pod that it is repeated.
    for (name, annotation) in FAILURES {
        let path = format!("metadata.annotations['{annotation}']");
        environment
            .push(json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } }));
    }
    match &pods.archives {
        Some(PodArchives::Claim(claim)) => {
            let source = json!({ "claimName": claim, "readOnly": true });
            volumes.push(json!({ "name": "archives", "persistentVolumeClaim": source }));
            mounts.push(json!({ "name": "archives", "mountPath": ARCHIVES, "readOnly": true }));
            arguments.extend(["--from".into(), format!("file://{ARCHIVES}")]);
        }
        Some(PodArchives::WritableClaim(claim)) => {
            let source = json!({ "claimName": claim });
            volumes.push(json!({ "name": "archives", "persistentVolumeClaim": source }));
            mounts.push(json!({ "name": "archives", "mountPath": ARCHIVES }));
        }
        Some(PodArchives::Store { url, secret, role, ca_config_map }) => {
            if let Some(url) = url {
                arguments.extend(["--from".into(), url.clone()]);
            }
            if let Some(secret) = secret {
                environment_from.push(json!({ "secretRef": { "name": secret } }));
                // A mounted Secret follows its object, so that credentials can be replaced while
                // pods run; the environment of a process cannot.
                volumes.push(json!({ "name": "store", "secret": { "secretName": secret } }));
                let mount =
                    json!({ "name": "store", "mountPath": STORE_SECRET_DIR, "readOnly": true });
                mounts.push(mount);
                environment.push(json!({
                    "name": "AWS_SHARED_CREDENTIALS_FILE",
                    "value": format!("{STORE_SECRET_DIR}/{STORE_SECRET_FILE}"),
                }));
            }
            if let Some(role) = role {
                let token = json!({ "serviceAccountToken": {
                    "audience": IDENTITY_AUDIENCE,
                    "expirationSeconds": IDENTITY_SECONDS,
                    "path": IDENTITY_FILE,
                } });
                volumes.push(json!({ "name": "identity", "projected": { "sources": [token] } }));
                let mount =
                    json!({ "name": "identity", "mountPath": IDENTITY_DIR, "readOnly": true });
                mounts.push(mount);
                environment.push(json!({ "name": "AWS_ROLE_ARN", "value": role }));
                environment.push(json!({
                    "name": "AWS_WEB_IDENTITY_TOKEN_FILE",
                    "value": format!("{IDENTITY_DIR}/{IDENTITY_FILE}"),
                }));
            }
            if let Some(name) = ca_config_map {
                volumes.push(json!({ "name": "store-ca", "configMap": { "name": name } }));
                let mount =
                    json!({ "name": "store-ca", "mountPath": STORE_CA_DIR, "readOnly": true });
                mounts.push(mount);
                arguments.extend(["--s3-ca".into(), format!("{STORE_CA_DIR}/{STORE_CA_FILE}")]);
            }
        }
        None => {}
    }
    arguments.extend(pods.arguments.iter().cloned());
    // An archive is completed in the place of its plan.
    if phase == Phase::Publish && run.plan.starts_with("docker://") {
        arguments.push(format!("docker://{}", run.target));
    }
    let mut requests = Map::new();
    requests.insert("cpu".into(), json!(pods.cpu));
    requests.insert("memory".into(), json!(pods.memory));
    requests.insert("ephemeral-storage".into(), json!(pods.scratch));
    json!({
        "metadata": { "labels": labels },
        "spec": {
            "serviceAccountName": run.name.as_str(),
            "automountServiceAccountToken": false,
            "restartPolicy": "Never",
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            // Each pod has the link of its node: they are spread where that is possible.
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": { "matchLabels": { RUN_LABEL: run.name.as_str() } },
            }],
            "containers": [{
                "name": CONTAINER,
                "image": pods.image,
                "args": arguments,
                "env": environment,
                "envFrom": environment_from,
                "resources": { "requests": requests, "limits": { "memory": pods.memory } },
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": { "drop": ["ALL"] },
                    "readOnlyRootFilesystem": true,
                },
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": mounts,
            }],
            "volumes": volumes,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run {
            name: "oc-mirror-0123456789ab".parse().unwrap(),
            plan: "docker://registry.example/ocp/oc-mirror-runs@sha256:00".into(),
            target: "registry.example/ocp".into(),
            shards: NonZeroU32::new(16).unwrap(),
            has_publish_job: true,
        }
    }

    fn pods() -> PodSettings {
        PodSettings {
            namespace: Some("mirror".into()),
            image: "registry.example/oc-mirror:1".into(),
            auth_secret: Some("pull".into()),
            src_ca_config_map: None,
            dest_ca_config_map: Some("ca".into()),
            parallelism: NonZeroU32::new(4).unwrap(),
            cpu: "500m".into(),
            memory: "1Gi".into(),
            scratch: "20Gi".into(),
            queue: None,
            archives: None,
            arguments: vec!["--retry-times=5".into()],
        }
    }

    #[test]
    fn one_pod_per_shard_transfers_and_one_pod_publishes() {
        let [account, blobs, publish] = manifests(&run(), &pods()).try_into().unwrap();
        assert_eq!(account.object["automountServiceAccountToken"], false);
        let spec = &blobs.object["spec"];
        assert_eq!((&spec["completions"], &spec["parallelism"]), (&json!(16), &json!(4)));
        assert_eq!(spec["maxFailedIndexes"], 4);
        assert_eq!(publish.object["spec"]["completions"], 1);
        for job in [&blobs, &publish] {
            assert_eq!(job.object["spec"]["completionMode"], "Indexed");
            assert_eq!(job.object["metadata"]["namespace"], "mirror");
            assert!(job.object["spec"].get("suspend").is_none());
        }
        let arguments = &spec["template"]["spec"]["containers"][0]["args"];
        assert_eq!(
            *arguments,
            json!([
                "shard",
                "--run",
                "docker://registry.example/ocp/oc-mirror-runs@sha256:00",
                "--workspace",
                "file:///workspace",
                "--authfile",
                "/etc/oc-mirror/auth/.dockerconfigjson",
                "--dest-cert-dir",
                "/etc/oc-mirror/dest-ca",
                "--retry-times=5",
            ])
        );
    }

    #[test]
    fn a_queue_of_kueue_starts_the_jobs() {
        let pods = PodSettings { queue: Some("night".into()), ..pods() };
        for job in &manifests(&run(), &pods)[1..] {
            assert_eq!(job.object["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "night");
            assert_eq!(job.object["spec"]["suspend"], true);
        }
    }

    #[test]
    fn archives_come_from_a_claim_or_an_object_store() {
        let pod = |archives| {
            let pods = PodSettings { archives: Some(archives), ..pods() };
            let publish = manifests(&run(), &pods).remove(2).object;
            publish["spec"]["template"]["spec"].clone()
        };
        let words = |pod: &Value| {
            let words = pod["containers"][0]["args"].as_array().unwrap().clone();
            words.iter().map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        let claim = pod(PodArchives::Claim("archives".into()));
        assert!(words(&claim).contains("--from file:///archives "), "{claim}");
        let volumes = claim["volumes"].as_array().unwrap();
        let mounted = |volume: &Value| {
            volume["persistentVolumeClaim"] == json!({ "claimName": "archives", "readOnly": true })
        };
        assert!(volumes.iter().any(mounted), "{claim}");
        let store = pod(PodArchives::Store {
            url: Some("s3://b/x".into()),
            secret: Some("bucket".into()),
            role: Some("arn:aws:iam::1:role/mirror".into()),
            ca_config_map: Some("ca".into()),
        });
        let line = words(&store);
        assert!(line.contains("--from s3://b/x --s3-ca /etc/oc-mirror/store-ca/ca.crt"), "{line}");
        let from = &store["containers"][0]["envFrom"];
        assert_eq!(*from, json!([{ "secretRef": { "name": "bucket" } }]));
        let environment = store["containers"][0]["env"].as_array().unwrap();
        let value = |name: &str| {
            let variable = environment.iter().find(|variable| variable["name"] == name);
            variable.map(|variable| variable["value"].as_str().unwrap()).unwrap()
        };
        // Variables lead to files that are mounted.
        let mounted = |path: &str| {
            let mounts = store["containers"][0]["volumeMounts"].as_array().unwrap();
            mounts.iter().any(|mount| {
                path.strip_prefix(mount["mountPath"].as_str().unwrap())
                    .is_some_and(|rest| rest.starts_with('/'))
            })
        };
        assert!(mounted(value("AWS_SHARED_CREDENTIALS_FILE")), "{store}");
        assert!(mounted(value("AWS_WEB_IDENTITY_TOKEN_FILE")), "{store}");
        assert_eq!(value("AWS_ROLE_ARN"), "arn:aws:iam::1:role/mirror");
        let written = pod(PodArchives::WritableClaim("archives".into()));
        assert!(!words(&written).contains("--from"), "{written}");
        assert!(!written.to_string().contains("\"claimName\":\"archives\",\"readOnly\""));
    }

    #[test]
    fn an_archive_is_completed_in_the_place_of_its_plan() {
        let plan = "s3://b/x/oc-mirror-runs/oc-mirror-0123456789ab@sha256:00".to_owned();
        let run = Run { plan, target: "s3://b/x".into(), ..run() };
        let (url, secret, role, ca_config_map) = (None, Some("bucket".into()), None, None);
        let archives = PodArchives::Store { url, secret, role, ca_config_map };
        let pods = PodSettings { archives: Some(archives), ..pods() };
        let [_, blobs, publish] = manifests(&run, &pods).try_into().unwrap();
        let words = |job: &Manifest| {
            let pod = &job.object["spec"]["template"]["spec"];
            let words = pod["containers"][0]["args"].as_array().unwrap().clone();
            words.iter().map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let mut expected = words(&blobs);
        expected.insert(3, "--publish".into());
        assert_eq!(words(&publish), expected);
    }

    #[test]
    fn fewer_shards_than_pods_at_the_same_time_are_no_mistake() {
        let run = Run { shards: NonZeroU32::MIN, ..run() };
        let blobs = &manifests(&run, &pods())[1].object["spec"];
        assert_eq!((&blobs["parallelism"], &blobs["maxFailedIndexes"]), (&json!(1), &json!(1)));
    }
}
