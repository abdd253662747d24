//! Runs the pods of Jobs as a scheduler and kubelets would: binds them to nodes, starts the container
//! of each as a process of this machine, writes their status, and serves their logs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::{Client, send};
use super::{ApiError, ApiServer};
use crate::background::Background;
use crate::certificates::Authority;
use crate::document_server::{Document, DocumentServer, DocumentSource, Settings};

/// Names of nodes start like this; a number follows.
const NODE: &str = "worker-";
const INTERVAL: Duration = Duration::from_millis(50);
/// Part of the name of an image that cannot be pulled.
const MISSING: &str = "missing";
/// Where pods have their scratch space.
const SCRATCH: &str = "/workspace";

/// Pods of one namespace, running. Dropped, all processes are gone.
#[derive(Debug)]
pub struct PodRunner {
    pods: Arc<Mutex<Pods>>,
    _background: Background,
    /// Logs of pods, as kubelets serve them.
    _kubelet: DocumentServer,
    _folder: TempDir,
}

#[derive(Debug, Default)]
struct Pods {
    /// Nodes that are gone, with what ran on them.
    lost: BTreeSet<String>,
    /// The log of each pod, by its name.
    logs: BTreeMap<String, PathBuf>,
    bound: usize,
    running: BTreeMap<String, Running>,
    ended: usize,
    problem: Option<String>,
}

#[derive(Debug)]
struct Running {
    name: String,
    node: String,
    child: Child,
    log: PathBuf,
    is_killed: bool,
    is_evicted: bool,
}

/// What pods are started with.
#[derive(Debug, Clone)]
pub struct PodOptions {
    pub namespace: String,
    /// Stands for the entry point of every image.
    pub program: PathBuf,
    /// Besides those in the pod.
    pub environment: Vec<(String, OsString)>,
    /// Folders of this machine that volumes stand for, by the paths they are mounted at.
    pub mounts: Vec<(String, PathBuf)>,
    /// How many nodes there are.
    pub nodes: NonZeroUsize,
}

/// The logs of pods.
struct Logs(Arc<Mutex<Pods>>);

impl DocumentSource for Logs {
    fn find(&self, uri: &http::Uri) -> Option<Document> {
        // /containerLogs/NAMESPACE/POD/CONTAINER
        let name = uri.path().strip_prefix("/containerLogs/")?.split('/').nth(1)?;
        let pods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = fs::read(pods.logs.get(name)?).ok()?;
        Some(Document { kind: "text/plain", bytes: bytes.into() })
    }
}

impl PodRunner {
    /// Starts to run pods, now and later ones.
    pub fn start(server: &ApiServer, options: PodOptions) -> Result<Self> {
        let folder = TempDir::new().context("making a folder for pods")?;
        let background = Background::start("pods")?;
        let pods: Arc<Mutex<Pods>> = Arc::default();
        let settings = Settings { tls: Some(Arc::new(Authority::generate()?)), listener: None };
        let kubelet = DocumentServer::start(Arc::new(Logs(Arc::clone(&pods))), settings)?;
        let port = kubelet.address().port();
        let worker = Worker {
            client: server.client().clone(),
            options,
            folder: folder.path().to_owned(),
            pods: Arc::clone(&pods),
        };
        background.spawn(async move {
            for node in 0..worker.options.nodes.get() {
                if let Err(error) = worker.add_node(&format!("{NODE}{node}"), port).await {
                    worker.pods().problem = Some(format!("adding a node: {error:?}"));
                }
            }
            loop {
                if let Err(error) = worker.sync().await {
                    // Objects may go between two requests.
                    if !matches!(&error, ApiError::Refused { code: 404 | 409, .. }) {
                        worker.pods().problem = Some(format!("{error:?}"));
                    }
                }
                tokio::time::sleep(INTERVAL).await;
            }
        });
        Ok(Self { pods, _background: background, _kubelet: kubelet, _folder: folder })
    }

    fn pods(&self) -> MutexGuard<'_, Pods> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pods that have ended so far.
    pub fn ended(&self) -> usize {
        self.pods().ended
    }

    /// Kills the process of a running pod whose name contains `part`; `choice` picks one of several.
    /// False if none runs.
    pub fn kill(&self, part: &str, choice: usize) -> bool {
        self.end(part, choice, false)
    }

    /// The same as an eviction from the node: the pod has the condition of a disruption.
    pub fn evict(&self, part: &str, choice: usize) -> bool {
        self.end(part, choice, true)
    }

    fn end(&self, part: &str, choice: usize, is_evicted: bool) -> bool {
        let mut pods = self.pods();
        let mut fitting: Vec<&mut Running> = pods
            .running
            .values_mut()
            .filter(|pod| pod.name.contains(part) && !pod.is_killed)
            .collect();
        let count = fitting.len();
        match fitting.get_mut(choice % count.max(1)) {
            Some(pod) => {
                (pod.is_killed, pod.is_evicted) = (true, is_evicted);
                pod.child.kill().is_ok()
            }
            None => false,
        }
    }

    /// A node with a running pod whose name contains `part` is gone, and with it its processes; no
    /// one reports their end. Returns the name of the node, which stays in the API; none if no such
    /// pod runs.
    pub fn lose_node(&self, part: &str) -> Option<String> {
        let mut pods = self.pods();
        let node = pods.running.values().find(|pod| pod.name.contains(part))?.node.clone();
        pods.lost.insert(node.clone());
        let there: Vec<String> = pods
            .running
            .iter()
            .filter(|(_, pod)| pod.node == node)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in there {
            if let Some(mut pod) = pods.running.remove(&uid) {
                let _ = pod.child.kill();
                let _ = pod.child.wait();
            }
        }
        Some(node)
    }

    /// What went wrong in running pods.
    pub fn problem(&self) -> Option<String> {
        self.pods().problem.clone()
    }
}

impl Drop for PodRunner {
    fn drop(&mut self) {
        for pod in self.pods().running.values_mut() {
            let _ = pod.child.kill();
            let _ = pod.child.wait();
        }
    }
}

struct Worker {
    client: Client,
    options: PodOptions,
    folder: PathBuf,
    pods: Arc<Mutex<Pods>>,
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl Worker {
    fn pods(&self) -> MutexGuard<'_, Pods> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/pods{rest}", self.options.namespace)
    }

    async fn sync(&self) -> Result<(), ApiError> {
        let list = self.client.get(&self.path("")).await?;
        for pod in list["items"].as_array().into_iter().flatten() {
            let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
            if self.pods().lost.contains(text(pod, "/spec/nodeName")) {
                continue;
            }
            let ended = self.ended(uid);
            if let Some((code, ended)) = ended {
                self.tell_end(pod, code, &ended).await?;
            }
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                self.remove(name, uid).await?;
            } else if matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
                // Nothing is left to do.
            } else if pod["spec"]["nodeName"].is_null() {
                let binding = json!({
                    "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
                    "target": { "apiVersion": "v1", "kind": "Node", "name": self.next_node() },
                });
                self.client.create(&self.path(&format!("/{name}/binding")), &binding).await?;
            } else if text(pod, "/spec/containers/0/image").contains(MISSING) {
                let waiting = json!({ "waiting": {
                    "reason": "ImagePullBackOff",
                    "message": "Back-off pulling image: not found",
                } });
                self.tell(pod, "Pending", &waiting).await?;
            } else if !self.pods().running.contains_key(uid)
                && text(pod, "/status/phase") == "Pending"
            {
                self.start(pod, name, uid);
                let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
                self.tell(pod, "Running", &running).await?;
            }
        }
        Ok(())
    }

    /// Nodes take turns.
    fn next_node(&self) -> String {
        let mut pods = self.pods();
        loop {
            let node = format!("{NODE}{}", pods.bound % self.options.nodes);
            pods.bound += 1;
            if !pods.lost.contains(&node) || pods.lost.len() >= self.options.nodes.get() {
                return node;
            }
        }
    }

    async fn add_node(&self, name: &str, port: u16) -> Result<(), ApiError> {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
        self.client.create("/api/v1/nodes", &node).await?;
        let status = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": name },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
                "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
            },
        });
        self.client.apply_status(&status.to_string()).await.map(drop)
    }

    /// A pod whose process has ended, and its exit code.
    fn ended(&self, uid: &str) -> Option<(i32, Running)> {
        let mut pods = self.pods();
        let status = pods.running.get_mut(uid)?.child.try_wait().ok()??;
        let pod = pods.running.remove(uid)?;
        pods.ended += 1;
        let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(-1);
        Some((code, pod))
    }

    fn start(&self, pod: &Value, name: &str, uid: &str) {
        let scratch = self.folder.join(uid);
        let log = self.folder.join(format!("{uid}.log"));
        let started = fs::create_dir_all(&scratch).and_then(|()| {
            let output = File::create(&log)?;
            let here = |word: &str| {
                let word = word.replace(SCRATCH, &scratch.display().to_string());
                self.options.mounts.iter().fold(word, |word, (at, folder)| {
                    word.replace(&format!("file://{at}"), &format!("file://{}", folder.display()))
                })
            };
            let container = &pod["spec"]["containers"][0];
            let words = container["args"].as_array().into_iter().flatten();
            let index = "/metadata/annotations/batch.kubernetes.io~1job-completion-index";
            Command::new(&self.options.program)
                .args(words.map(|word| here(word.as_str().unwrap_or_default())))
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap_or_default())
                .env("HOME", &scratch)
                .env("JOB_COMPLETION_INDEX", text(pod, index))
                .envs(self.options.environment.iter().cloned())
                .stdin(Stdio::null())
                .stdout(output.try_clone()?)
                .stderr(output)
                .spawn()
        });
        let mut pods = self.pods();
        match started {
            Ok(child) => {
                pods.logs.insert(name.to_owned(), log.clone());
                let running = Running {
                    name: name.to_owned(),
                    node: text(pod, "/spec/nodeName").to_owned(),
                    child,
                    log,
                    is_killed: false,
                    is_evicted: false,
                };
                pods.running.insert(uid.to_owned(), running);
            }
            Err(error) => pods.problem = Some(format!("starting {name}: {error}")),
        }
    }

    async fn tell_end(&self, pod: &Value, code: i32, ended: &Running) -> Result<(), ApiError> {
        let log = fs::read_to_string(&ended.log).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(20).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
        let (phase, reason) =
            if code == 0 { ("Succeeded", "Completed") } else { ("Failed", "Error") };
        let terminated = json!({ "terminated": {
            "exitCode": code,
            "reason": reason,
            "message": if code == 0 { String::new() } else { last },
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:01Z",
        } });
        let conditions = match ended.is_evicted {
            true => json!([{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "lastTransitionTime": "2026-01-01T00:00:01Z",
            }]),
            false => json!([]),
        };
        self.tell_with(pod, phase, &terminated, &conditions).await
    }

    async fn tell(&self, pod: &Value, phase: &str, state: &Value) -> Result<(), ApiError> {
        self.tell_with(pod, phase, state, &json!([])).await
    }

    async fn tell_with(
        &self,
        pod: &Value,
        phase: &str,
        state: &Value,
        conditions: &Value,
    ) -> Result<(), ApiError> {
        let image = text(pod, "/spec/containers/0/image");
        let status = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": pod["metadata"]["name"], "namespace": self.options.namespace },
            "status": {
                "phase": phase,
                "conditions": conditions,
                "containerStatuses": [{
                    "name": text(pod, "/spec/containers/0/name"),
                    "image": image,
                    "imageID": image,
                    "ready": false,
                    "restartCount": 0,
                    "state": state,
                }],
            },
        });
        self.client.apply_status(&status.to_string()).await.map(drop)
    }

    /// Ends a pod that is deleted.
    async fn remove(&self, name: &str, uid: &str) -> Result<(), ApiError> {
        let running = self.pods().running.remove(uid);
        if let Some(mut running) = running {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
        let path = self.path(&format!("/{name}"));
        let mut url = self.client.url(path.split('/').filter(|part| !part.is_empty()));
        url.query_pairs_mut().append_pair("gracePeriodSeconds", "0");
        let request = self.client.request(Method::DELETE, url);
        send::<Value>(request, format!("removing {path}")).await.map(drop)
    }
}
