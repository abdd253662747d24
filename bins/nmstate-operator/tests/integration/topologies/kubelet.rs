//! Simulates the scheduler and the kubelets of a cluster: binds pods, starts their containers with
//! their arguments, variables, secrets and token, reports when they are ready, and stops them.
//!
//! Handlers run on real nodes; in a cluster without any, they are only reported as running. All
//! other components run on the host, unless they were given their own machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, Pod, Secret, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_nmstate-operator");
/// Where the image has it; see the Containerfile.
pub(crate) const IN_IMAGE: &str = "/usr/bin/nmstate-operator";
const COMPONENT: &str = "app.kubernetes.io/component";
const HANDLER: &str = "nmstate-handler";
const PATIENCE: Duration = Duration::from_secs(5);

/// Ports of what runs on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Those in the pod.
    AsWritten,
    /// Each pod gets its own, so that two of them can be probed on one machine.
    Own,
}

/// How a kubelet ends handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It requests them to stop, and reports when they have.
    Prompt,
    /// It is slow; they continue to run until then.
    Slow,
    /// It reports that they have stopped although they still run. A node that was disconnected for
    /// long, whose pods were deleted by force, is like this.
    Loses,
}

/// A machine that pods run on, and where the API server is from there.
pub(crate) struct Machine {
    pub(crate) node: lab_cluster::node::Node,
    pub(crate) api: SocketAddr,
    pub(crate) ports: Ports,
}

/// What runs in a pod.
struct Running {
    name: String,
    on: String,
    component: String,
    /// None if it is only reported as running.
    process: Option<Process>,
    is_ready: bool,
    is_asked_to_stop: bool,
}

struct Process {
    child: Child,
    /// What runs beside it in the same pod.
    beside: Vec<Child>,
    /// As the machine counts, where it is not on the host.
    inside: Option<PathBuf>,
    health: u16,
    log: PathBuf,
}

/// The scheduler and all kubelets of one cluster.
pub(crate) struct Kubelet {
    client: Client,
    kubeconfig: Value,
    folder: tempfile::TempDir,
    machines: BTreeMap<String, Machine>,
    running: BTreeMap<String, Running>,
    /// How pods of nodes end, where not promptly.
    manners: BTreeMap<String, Manner>,
    /// Processes that still run although their pod was deleted.
    orphans: Vec<Running>,
    starts: u16,
}

impl Kubelet {
    pub(crate) fn new(client: Client, kubeconfig: &Path) -> Self {
        let kubeconfig = std::fs::read_to_string(kubeconfig).unwrap();
        Self {
            client,
            kubeconfig: serde_json::from_str(&kubeconfig).unwrap(),
            folder: tempfile::tempdir().unwrap(),
            machines: BTreeMap::new(),
            running: BTreeMap::new(),
            manners: BTreeMap::new(),
            orphans: Vec::new(),
            starts: 0,
        }
    }

    /// Gives a machine to a node, by its name, or to a component.
    pub(crate) fn give(&mut self, name: &str, machine: Machine) {
        self.machines.insert(name.to_owned(), machine);
    }

    pub(crate) fn machine(&self, name: &str) -> &lab_cluster::node::Node {
        &self.machines[name].node
    }

    /// The log of a component on a node since its last start.
    pub(crate) fn log(&self, component: &str, node: &str) -> String {
        let process = self.process(component, node).expect("it runs there");
        std::fs::read_to_string(&process.log).unwrap()
    }

    /// Whether a component runs on a node, ready or not.
    pub(crate) fn runs(&self, component: &str, node: &str) -> bool {
        self.process(component, node).is_some()
    }

    /// Whether the process of a component on a node reports that it is ready.
    pub(crate) fn says_ready(&self, component: &str, node: &str) -> bool {
        let process = self.process(component, node);
        process.is_some_and(|process| is_ready(process, self.machines.get(node)))
    }

    fn process(&self, component: &str, node: &str) -> Option<&Process> {
        let mut all = self.running.values();
        all.find(|it| it.component == component && it.on == node)?.process.as_ref()
    }

    /// From now on handlers on this node end like this.
    pub(crate) fn set_manner(&mut self, node: &str, manner: Manner) {
        self.manners.insert(node.to_owned(), manner);
    }

    /// The node on which a process runs whose pod was deleted.
    pub(crate) fn orphaned(&self) -> Option<String> {
        self.orphans.first().map(|it| it.on.clone())
    }

    /// Requests all processes without a pod to stop, and waits until they end.
    pub(crate) fn end_orphans(&mut self) {
        for mut orphan in std::mem::take(&mut self.orphans) {
            if let Some(process) = &mut orphan.process {
                stop(process, self.machines.get(&orphan.on));
                assert!(process.child.wait().unwrap().success(), "{}", log_tail(&process.log));
            }
        }
    }

    /// One round: pods are bound, started, probed, stopped.
    pub(crate) async fn sync(&mut self) {
        let all: Api<Pod> = Api::all(self.client.clone());
        let pods = all.list(&ListParams::default()).await.unwrap().items;
        for pod in &pods {
            if pod.metadata.deletion_timestamp.is_some() {
                self.stop_pod(pod).await;
            } else if node_of(pod).is_none() {
                self.schedule(pod, &pods).await;
            } else if !self.running.contains_key(&uid(pod)) {
                self.start_pod(pod).await;
            } else {
                self.probe(pod).await;
            }
        }
    }

    async fn schedule(&self, pod: &Pod, pods: &[Pod]) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
        let spec = json!(pod.spec);
        let terms =
            &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let only = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str();
        let apart = spec["affinity"]["podAntiAffinity"].is_object();
        let selector = pod.spec.as_ref().and_then(|spec| spec.node_selector.clone());
        let fits = |node: &&Node| {
            let has = |(key, value): (&String, &String)| node.labels().get(key) == Some(value);
            let is_taken = pods.iter().any(|other| {
                node_of(other) == Some(node.name_any()) && component(other) == component(pod)
            });
            only.is_none_or(|only| only == node.name_any())
                && selector.iter().flatten().all(has)
                && !(apart && is_taken)
        };
        let Some(node) = nodes.iter().find(fits) else { return };
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": pod.name_any() },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node.name_any() },
        });
        let bound = self
            .pods(pod)
            .create_subresource::<Value, Value>(
                "binding",
                &pod.name_any(),
                &PostParams::default(),
                &binding,
            )
            .await;
        // It may have been deleted by now.
        if let Err(error) = bound {
            assert!(
                matches!(&error, kube::Error::Api(it) if matches!(it.code, 404 | 409)),
                "{error}"
            );
        }
    }

    async fn start_pod(&mut self, pod: &Pod) {
        let on = node_of(pod).unwrap();
        let component = component(pod);
        let is_real = component != HANDLER || self.machines.contains_key(&on);
        let process = match is_real {
            true => match self.start(pod, &on, &component).await {
                Some(process) => Some(process),
                None => return,
            },
            false => None,
        };
        let running = Running {
            name: pod.name_any(),
            on,
            component,
            process,
            is_ready: false,
            is_asked_to_stop: false,
        };
        self.running.insert(uid(pod), running);
    }

    /// Starts the program of a pod; not before its secrets are there.
    async fn start(&mut self, pod: &Pod, on: &str, component: &str) -> Option<Process> {
        let place = if self.machines.contains_key(component) { component } else { on };
        let secrets = self.secrets(pod).await?;
        self.starts += 1;
        let name = format!("{}-{}", component, self.starts);
        let log = self.folder.path().join(&name);
        let spec = json!(pod.spec);
        let container = &spec["containers"][0];
        assert_eq!(container["command"], json!([IN_IMAGE]));
        let own_port = 20_000 + self.starts;
        let token = self.token(pod).await;
        let machine = self.machines.get(place);
        let as_written = machine.is_some_and(|it| it.ports == Ports::AsWritten);
        let listen = match machine {
            Some(_) => own_port,
            None => free_port(),
        };
        let written = strings(&container["args"]);
        let arguments = if as_written { written } else { with_port(written, listen) };
        let health = if as_written {
            u16::try_from(container["readinessProbe"]["httpGet"]["port"].as_u64().unwrap()).unwrap()
        } else {
            listen
        };
        let mut kubeconfig = self.kubeconfig.clone();
        if let Some(token) = &token {
            kubeconfig["users"][0]["user"]["token"] = json!(token);
        }
        let mut inside = None;
        let mut command = match machine {
            Some(machine) => {
                for (path, content) in secrets {
                    machine.node.write(&path, content, 0o600).unwrap();
                }
                let address = format!("https://{}", machine.api);
                kubeconfig["clusters"][0]["cluster"]["server"] = json!(address);
                let shared = machine.node.shared();
                std::fs::write(shared.join(format!("{name}.kubeconfig")), kubeconfig.to_string())
                    .unwrap();
                inside = Some(shared.join(format!("{name}.pid")));
                let mut command = machine.node.command("sh");
                let script = "echo $$ > \"$0\" && exec \"$@\"";
                command.args(["-c", script, &format!("/host/{name}.pid"), IN_IMAGE]);
                if token.is_some() {
                    command.env("KUBECONFIG", format!("/host/{name}.kubeconfig"));
                }
                command
            }
            None => {
                let path = self.folder.path().join(format!("{name}.kubeconfig"));
                std::fs::write(&path, kubeconfig.to_string()).unwrap();
                let mut command = Command::new(PROGRAM);
                command.env("KUBECONFIG", path);
                command
            }
        };
        let beside = machine.map(|machine| start_others(machine, &spec, pod)).unwrap_or_default();
        let child = command
            .args(arguments)
            .envs(variables(container, pod))
            .stdin(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Some(Process { child, beside, inside, health, log })
    }

    /// The files with a pod's secrets, or none while one is missing.
    async fn secrets(&self, pod: &Pod) -> Option<Vec<(String, Vec<u8>)>> {
        let spec = json!(pod.spec);
        let containers = spec["containers"].as_array().into_iter().flatten();
        let mounts: Vec<&Value> =
            containers.flat_map(|it| it["volumeMounts"].as_array().into_iter().flatten()).collect();
        let mut files = Vec::new();
        for volume in spec["volumes"].as_array().into_iter().flatten() {
            let Some(secret) = volume["secret"]["secretName"].as_str() else { continue };
            let namespace = pod.namespace().unwrap();
            let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
            let found = secrets.get_opt(secret).await.unwrap();
            if found.is_none() && volume["secret"]["optional"] == true {
                continue;
            }
            let mount = mounts.iter().find(|it| it["name"] == volume["name"]).unwrap();
            let folder = mount["mountPath"].as_str().unwrap();
            for (key, content) in found?.data.unwrap_or_default() {
                files.push((format!("{folder}/{key}"), content.0));
            }
        }
        Some(files)
    }

    /// A token of the pod's account, bound to the pod; none where the pod gets none.
    async fn token(&self, pod: &Pod) -> Option<String> {
        let spec = pod.spec.as_ref()?;
        let projected = spec.volumes.iter().flatten().filter_map(|it| it.projected.as_ref());
        let mut sources = projected.flat_map(|it| it.sources.iter().flatten());
        sources.find(|it| it.service_account_token.is_some())?;
        let request = TokenRequest {
            spec: TokenRequestSpec {
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".into()),
                    kind: Some("Pod".into()),
                    name: Some(pod.name_any()),
                    uid: pod.uid(),
                }),
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let namespace = pod.namespace()?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &namespace);
        let account = spec.service_account_name.as_deref()?;
        let parameters = PostParams::default();
        let response = accounts.create_token_request(account, &parameters, &request).await.unwrap();
        response.status.map(|status| status.token)
    }

    /// Reports to the cluster whether a pod is ready, when that changed.
    async fn probe(&mut self, pod: &Pod) {
        let running = self.running.get_mut(&uid(pod)).unwrap();
        let is_ready = match &mut running.process {
            Some(process) => {
                if let Some(status) = process.child.try_wait().unwrap() {
                    let tail = log_tail(&process.log);
                    // Another process took the port between our check and its start.
                    let is_our_fault = tail.contains("Address already in use");
                    assert!(is_our_fault, "{} ended with {status}\n{tail}", running.name);
                    self.running.remove(&uid(pod));
                    return;
                }
                let place = [&running.component, &running.on];
                let machine = place.into_iter().find_map(|name| self.machines.get(name));
                is_ready(process, machine)
            }
            None => true,
        };
        if running.is_ready == is_ready {
            return;
        }
        let word = if is_ready { "True" } else { "False" };
        let conditions = ["Ready", "ContainersReady", "Initialized", "PodScheduled"]
            .map(|type_| json!({ "type": type_, "status": word }));
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|it| {
            json!({
                "name": it.name, "image": it.image, "imageID": "", "restartCount": 0,
                "ready": is_ready, "started": true, "state": { "running": {} },
            })
        });
        let status = json!({ "status": {
            "phase": "Running",
            "conditions": conditions,
            "containerStatuses": containers.collect::<Vec<_>>(),
        }});
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap());
        let parameters = PatchParams::default();
        match pods.patch_status(&pod.name_any(), &parameters, &Patch::Strategic(&status)).await {
            Ok(_) => running.is_ready = is_ready,
            // Deleted in the meantime.
            Err(kube::Error::Api(error)) if error.code == 404 => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn stop_pod(&mut self, pod: &Pod) {
        let manner = match (component(pod) == HANDLER, node_of(pod)) {
            (true, Some(node)) => self.manners.get(&node).copied().unwrap_or(Manner::Prompt),
            _ => Manner::Prompt,
        };
        match manner {
            Manner::Prompt => {}
            Manner::Slow => return,
            Manner::Loses => self.orphans.extend(self.running.remove(&uid(pod))),
        }
        if let Some(running) = self.running.get_mut(&uid(pod)) {
            if let Some(process) = &mut running.process {
                let place = [&running.component, &running.on];
                let machine = place.into_iter().find_map(|name| self.machines.get(name));
                if !running.is_asked_to_stop {
                    stop(process, machine);
                    running.is_asked_to_stop = true;
                }
                match process.child.try_wait().unwrap() {
                    None => return,
                    Some(status) => assert!(status.success(), "{}", log_tail(&process.log)),
                }
            }
            self.running.remove(&uid(pod));
        }
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        match self.pods(pod).delete(&pod.name_any(), &now).await {
            Ok(_) => {}
            Err(kube::Error::Api(error)) if error.code == 404 => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn pods(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap())
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        for running in self.running.values_mut().chain(&mut self.orphans) {
            let Some(process) = &mut running.process else { continue };
            let _ = process.child.kill();
            let _ = process.child.wait();
            if std::thread::panicking() {
                eprintln!("--- {} on {}\n{}", running.name, running.on, log_tail(&process.log));
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        for child in &mut self.beside {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs the containers of a pod that come before the first one to their end, and starts the others.
fn start_others(machine: &Machine, spec: &Value, pod: &Pod) -> Vec<Child> {
    let command = |container: &Value| {
        assert_eq!(container["command"], json!([IN_IMAGE]));
        let mut command = machine.node.command(IN_IMAGE);
        command.args(strings(&container["args"])).envs(variables(container, pod));
        command.stdin(Stdio::null());
        command
    };
    for container in spec["initContainers"].as_array().into_iter().flatten() {
        assert!(command(container).status().unwrap().success(), "{}", container["name"]);
    }
    let others = spec["containers"].as_array().into_iter().flatten().skip(1);
    others.map(|container| command(container).spawn().unwrap()).collect()
}

fn uid(pod: &Pod) -> String {
    pod.uid().unwrap()
}

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

fn component(pod: &Pod) -> String {
    pod.labels().get(COMPONENT).cloned().unwrap_or_default()
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// Health on this port of the loopback, and no metrics, whose certificates the host has not.
fn with_port(arguments: Vec<String>, port: u16) -> Vec<String> {
    let kept = arguments.into_iter().filter(|it| !it.starts_with("--metrics-"));
    kept.map(|it| match it.starts_with("--listen=") {
        true => format!("--listen=127.0.0.1:{port}"),
        false => it,
    })
    .collect()
}

fn variables(container: &Value, pod: &Pod) -> BTreeMap<String, String> {
    let pod = json!(pod);
    let list = container["env"].as_array().into_iter().flatten();
    list.map(|it| {
        let path = it["valueFrom"]["fieldRef"]["fieldPath"].as_str();
        let value = match path {
            Some(path) => &pod[path.split('.').next().unwrap()][path.split('.').nth(1).unwrap()],
            None => &it["value"],
        };
        (it["name"].as_str().unwrap().to_owned(), value.as_str().unwrap_or_default().to_owned())
    })
    .collect()
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn stop(process: &Process, machine: Option<&Machine>) {
    match (&process.inside, machine) {
        (Some(file), Some(machine)) => {
            let pid = std::fs::read_to_string(file).unwrap();
            // It may have ended by itself.
            drop(machine.node.run(&["kill", "-TERM", pid.trim()]).unwrap());
        }
        _ => {
            let pid = process.child.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        }
    }
}

fn is_ready(process: &Process, machine: Option<&Machine>) -> bool {
    let port = process.health;
    let response = match (&process.inside, machine) {
        (Some(_), Some(machine)) => {
            let script = format!(
                "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' >&3 && head -n 1 <&3"
            );
            let output = machine.node.run(&["timeout", "5", "bash", "-c", &script]).unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        _ => get(port).unwrap_or_default(),
    };
    response.contains(" 200 ")
}

fn get(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

fn log_tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
