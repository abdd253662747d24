//! Runs the pods of Jobs as a scheduler and kubelets would: binds them to nodes, provides their
//! volumes, starts the container of each as a process, writes their status, and serves their logs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lab::Background;
use lab::certificates::Authority;
use lab::document_server::{Document, DocumentServer, DocumentSource, Settings};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::{Client, send};
use super::container::{Container, ImageRoot, Process, open_folder};
use super::{ApiError, ApiServer};

/// Names of nodes start like this; a number follows.
const NODE: &str = "worker-";
const INTERVAL: Duration = Duration::from_millis(50);
/// Part of the name of an image that cannot be pulled.
const MISSING: &str = "missing";

/// Pods of one namespace, running. When it is dropped, all processes end.
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
    /// Nodes that were removed, with what ran on them.
    lost: BTreeSet<String>,
    /// The log of each pod, by its name.
    logs: BTreeMap<String, PathBuf>,
    bound: usize,
    running: BTreeMap<String, Running>,
    /// Scratch volumes of later pods that are small: part of the name, KiB, and how many.
    small: Option<(String, u64, usize)>,
    ended: usize,
    problem: Option<String>,
}

#[derive(Debug)]
struct Running {
    name: String,
    node: String,
    process: Process,
    log: PathBuf,
    is_killed: bool,
    is_evicted: bool,
}

/// What pods are started with.
#[derive(Debug, Clone)]
pub struct PodOptions {
    pub namespace: String,
    /// Runs in place of the entry point of every image.
    pub program: PathBuf,
    /// The unpacked image that pods run from, each in its own network namespace; without one,
    /// `program` runs as a process of this machine.
    pub root: Option<ImageRoot>,
    /// Besides those in the pod.
    pub environment: Vec<(String, OsString)>,
    /// Folders of this machine that volumes represent, by the paths they are mounted at.
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
        let mut bytes = fs::read(pods.logs.get(name)?).ok()?;
        let last = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .find_map(|pair| pair.strip_prefix("tailLines=")?.parse::<usize>().ok());
        if let Some(last) = last {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            bytes = lines[lines.len().saturating_sub(last)..].join("\n").into_bytes();
        }
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
                pod.process.child.kill().is_ok()
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
                let _ = pod.process.child.kill();
                let _ = pod.process.child.wait();
            }
        }
        Some(node)
    }

    /// The next pods whose names contain `part` have a scratch volume of so many KiB.
    pub fn shrink_scratch(&self, part: &str, kib: u64, pods: usize) {
        self.pods().small = Some((part.to_owned(), kib, pods));
    }

    /// Pods of which part of the name is this that run now.
    pub fn running(&self, part: &str) -> usize {
        self.pods().running.values().filter(|pod| pod.name.contains(part)).count()
    }

    /// What went wrong in running pods.
    pub fn problem(&self) -> Option<String> {
        self.pods().problem.clone()
    }
}

impl Drop for PodRunner {
    fn drop(&mut self) {
        for pod in self.pods().running.values_mut() {
            let _ = pod.process.child.kill();
            let _ = pod.process.child.wait();
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

/// Where a pod has its scratch space.
fn scratch(pod: &Value) -> Option<String> {
    let volumes = pod["spec"]["volumes"].as_array()?;
    let scratch = volumes.iter().find(|volume| volume["emptyDir"].is_object())?;
    let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array()?;
    let mount = mounts.iter().find(|mount| mount["name"] == scratch["name"])?;
    mount["mountPath"].as_str().map(str::to_owned)
}

/// The variables that a pod names: values, annotations and labels.
fn variables(pod: &Value, container: &Value) -> Vec<(String, OsString)> {
    let variables = container["env"].as_array().into_iter().flatten();
    let variables = variables.map(|variable| {
        let path = text(variable, "/valueFrom/fieldRef/fieldPath");
        // `metadata.labels['NAME']`; the Job controller sets the index of a pod in this way.
        let field = path.strip_prefix("metadata.").and_then(|rest| rest.split_once("['"));
        let value = field
            .and_then(|(kind, rest)| Some((kind, rest.strip_suffix("']")?)))
            .and_then(|(kind, name)| pod["metadata"][kind][name].as_str())
            .unwrap_or_else(|| text(variable, "/value"));
        (text(variable, "/name").to_owned(), OsString::from(value))
    });
    variables.collect()
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
                if let Err(error) = self.start(pod, name, uid).await {
                    self.pods().problem = Some(format!("starting {name}: {error:?}"));
                    continue;
                }
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
        let status = pods.running.get_mut(uid)?.process.child.try_wait().ok()??;
        let pod = pods.running.remove(uid)?;
        pods.ended += 1;
        let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(-1);
        Some((code, pod))
    }

    async fn start(&self, pod: &Value, name: &str, uid: &str) -> Result<()> {
        let folder = self.folder.join(uid);
        let log = self.folder.join(format!("{uid}.log"));
        let container = &pod["spec"]["containers"][0];
        let mounts = self.volumes(pod, &folder).await?;
        let scratch = scratch(pod);
        let small_scratch = self.take_small(name).zip(scratch);
        let index = "/metadata/annotations/batch.kubernetes.io~1job-completion-index";
        let mut environment: Vec<(String, OsString)> =
            vec![("JOB_COMPLETION_INDEX".to_owned(), text(pod, index).into())];
        environment.extend(self.secret_variables(container).await?);
        environment.extend(variables(pod, container));
        environment.extend(self.options.environment.iter().cloned());
        let arguments = container["args"].as_array().into_iter().flatten();
        let process = Container {
            root: self.options.root.as_ref(),
            program: &self.options.program,
            arguments: arguments.map(|word| word.as_str().unwrap_or_default().to_owned()).collect(),
            environment,
            mounts,
            small_scratch,
            log: &log,
        }
        .start()?;
        let mut pods = self.pods();
        pods.logs.insert(name.to_owned(), log.clone());
        let running = Running {
            name: name.to_owned(),
            node: text(pod, "/spec/nodeName").to_owned(),
            process,
            log,
            is_killed: false,
            is_evicted: false,
        };
        pods.running.insert(uid.to_owned(), running);
        Ok(())
    }

    fn take_small(&self, name: &str) -> Option<u64> {
        let mut pods = self.pods();
        let (part, kib, left) = pods.small.as_mut()?;
        if *left == 0 || !name.contains(part.as_str()) {
            return None;
        }
        *left -= 1;
        Some(*kib)
    }

    /// The folders of a pod's volumes, by the paths they are mounted at.
    async fn volumes(&self, pod: &Value, folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
        let mut mounts = BTreeMap::new();
        for mount in pod["spec"]["containers"][0]["volumeMounts"].as_array().into_iter().flatten() {
            let (name, path) = (text(mount, "/name"), text(mount, "/mountPath"));
            let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            let volume = volumes.into_iter().find(|volume| volume["name"] == name);
            let Some(volume) = volume else { continue };
            let at = folder.join(name);
            open_folder(&at)?;
            if let Some(secret) = volume.pointer("/secret/secretName").and_then(Value::as_str) {
                for (key, value) in self.secret(secret).await? {
                    fs::write(at.join(key), value).context("writing a Secret")?;
                }
            } else if let Some(map) = volume.pointer("/configMap/name").and_then(Value::as_str) {
                let map = self.object("configmaps", map).await?;
                for (key, value) in map["data"].as_object().into_iter().flatten() {
                    let value = value.as_str().unwrap_or_default();
                    fs::write(at.join(key), value).context("writing a ConfigMap")?;
                }
            } else if let Some(token) = volume.pointer("/projected/sources/0/serviceAccountToken") {
                let account = text(pod, "/spec/serviceAccountName");
                let value =
                    self.client.service_account_token(&self.options.namespace, account).await?;
                fs::write(at.join(text(token, "/path")), value).context("writing a token")?;
            } else if volume["persistentVolumeClaim"].is_object() {
                let known = self.options.mounts.iter().find(|(known, _)| known == path);
                let (_, claimed) =
                    known.with_context(|| format!("no folder represents the claim at {path}"))?;
                mounts.insert(path.to_owned(), claimed.clone());
                continue;
            }
            mounts.insert(path.to_owned(), at);
        }
        for (path, folder) in &self.options.mounts {
            mounts.entry(path.clone()).or_insert_with(|| folder.clone());
        }
        Ok(mounts)
    }

    async fn object(&self, kind: &str, name: &str) -> Result<Value> {
        let path = format!("/api/v1/namespaces/{}/{kind}/{name}", self.options.namespace);
        Ok(self.client.get(&path).await?)
    }

    async fn secret(&self, name: &str) -> Result<BTreeMap<String, Vec<u8>>> {
        let secret = self.object("secrets", name).await?;
        let mut content = BTreeMap::new();
        for (key, value) in secret["data"].as_object().into_iter().flatten() {
            let value = STANDARD.decode(value.as_str().unwrap_or_default());
            content.insert(key.clone(), value.context("reading a Secret")?);
        }
        Ok(content)
    }

    /// Variables from whole Secrets.
    async fn secret_variables(&self, container: &Value) -> Result<Vec<(String, OsString)>> {
        let mut variables = Vec::new();
        for source in container["envFrom"].as_array().into_iter().flatten() {
            for (key, value) in self.secret(text(source, "/secretRef/name")).await? {
                variables.push((key, String::from_utf8_lossy(&value).into_owned().into()));
            }
        }
        Ok(variables)
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
            let _ = running.process.child.kill();
            let _ = running.process.child.wait();
        }
        let path = self.path(&format!("/{name}"));
        let mut url = self.client.url(path.split('/').filter(|part| !part.is_empty()));
        url.query_pairs_mut().append_pair("gracePeriodSeconds", "0");
        let request = self.client.request(Method::DELETE, url);
        send::<Value>(request, format!("removing {path}")).await.map(drop)
    }
}
