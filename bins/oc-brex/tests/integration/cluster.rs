//! Commands that read a running cluster, against a real API server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use serde_json::Value;

const DOCUMENT: &str = "interfaces:
- name: eno1
  type: ethernet
  state: up
  mtu: 1500
  ipv4: {enabled: false}
  ipv6: {enabled: false}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge:
    allow-extra-patch-ports: true
    options: {mcast-snooping-enable: true}
    port: [{name: eno1}, {name: br-ex}]
- name: br-ex
  type: ovs-interface
  state: up
  mtu: 1500
  copy-mac-from: eno1
  ipv4: {enabled: true, dhcp: true, auto-route-metric: 48}
  ipv6: {enabled: false}
";

/// The state of a node that has this document.
fn state(node: &str, address: &str) -> String {
    format!(
        "apiVersion: nmstate.io/v1beta1
kind: NodeNetworkState
metadata: {{name: {node}}}
status:
  currentState:
    interfaces:
    - {{name: eno1, type: ethernet, state: up, mtu: 1500, mac-address: '52:54:00:00:00:01', ipv4: {{enabled: false}}, ipv6: {{enabled: false}}, controller: br-ex}}
    - name: br-ex
      type: ovs-bridge
      state: up
      bridge:
        allow-extra-patch-ports: true
        options: {{mcast-snooping-enable: true}}
        port: [{{name: eno1}}, {{name: br-ex}}]
    - name: br-ex
      type: ovs-interface
      state: up
      mtu: 1500
      mac-address: '52:54:00:00:00:01'
      ipv4: {{enabled: true, dhcp: true, auto-route-metric: 48, auto-dns: true, auto-gateway: true, auto-routes: true, address: [{{ip: {address}, prefix-length: 24}}]}}
      ipv6: {{enabled: false}}
    routes:
      running:
      - {{destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 192.0.2.1, metric: 48, table-id: 254}}
"
    )
}

fn node(name: &str, annotation: Option<&str>) -> String {
    let annotation = annotation
        .map(|text| format!("\n  annotations: {{brex.landfall.dev/first-boot: '{text}'}}"));
    format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  labels: {{node-role.kubernetes.io/worker: '', kubernetes.io/hostname: {name}}}{}\n---\n",
        annotation.unwrap_or_default()
    )
}

fn summary(result: &str, flag: Option<&str>) -> String {
    let flag = flag.map(|text| format!(",\"flag\":\"{}\"", sha256(text))).unwrap_or_default();
    format!("{{\"version\":1,\"result\":\"{result}\",\"message\":\"as reported\"{flag}}}")
}

/// By another program.
fn sha256(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    fs::write(&file, text).unwrap();
    let output = Command::new("sha256sum").arg(&file).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split(' ').next().unwrap().to_owned()
}

/// MachineConfigs by `render`, from documents of these hosts.
fn machine_configs(hosts: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let worker = folder.path().join("hosts/worker");
    fs::create_dir_all(&worker).unwrap();
    for host in hosts {
        fs::write(worker.join(format!("{host}.yml")), DOCUMENT).unwrap();
    }
    let out = folder.path().join("out");
    let output = oc_brex(&[
        "render".into(),
        "--hosts".into(),
        folder.path().join("hosts"),
        "--out".into(),
        out.clone(),
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(out.join("10-br-ex-worker.yaml")).unwrap()
}

fn oc_brex(words: &[PathBuf]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oc-brex")).args(words).output().unwrap()
}

fn on_cluster(kubeconfig: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_oc-brex"))
        .args(words)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A cluster with four workers: as its document has it, rolled back, changed since, and one that has
/// not reported.
async fn cluster() -> ApiServer {
    let server = ApiServer::start().await.unwrap();
    server.load_cluster_crds().await.unwrap();
    let payload =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/nmstate-operator/payload");
    let crds = tempfile::tempdir().unwrap();
    for kind in ["states", "configurationpolicies", "configurationenactments"] {
        let name = format!("0000_50_nmstate-operator_01_crd-nodenetwork{kind}.yaml");
        fs::copy(payload.join(&name), crds.path().join(&name)).unwrap();
    }
    server.load_crds(crds.path()).await.unwrap();
    let nodes = [
        node("worker-0.example.com", Some(&summary("confirmed", Some(DOCUMENT)))),
        node("worker-1.example.com", Some(&summary("taken-back", None))),
        node("worker-2.example.com", Some(&summary("confirmed", Some("an older text")))),
        node("worker-3.example.com", None),
        // Without a document, a report or a state.
        node("worker-4.example.com", None),
    ];
    apply(&server, &nodes.concat()).await;
    apply(&server, &machine_configs(&["worker-0", "worker-1", "worker-2", "worker-3"])).await;
    for number in [0, 2] {
        let name = format!("worker-{number}.example.com");
        let text = state(&name, &format!("192.0.2.{}", 10 + number));
        let without_status = text.split("status:").next().unwrap();
        apply(&server, without_status).await;
        server.client().apply_status(&text).await.unwrap();
    }
    server
}

async fn apply(server: &ApiServer, yaml: &str) {
    server.apply(yaml, Persistence::Stored, FieldValidation::Warn).await.unwrap();
}

#[tokio::test]
async fn a_cluster_is_shown_planned_and_diagnosed_without_a_write() {
    let server = cluster().await;
    let kubeconfig = server.kubeconfig();

    let (code, printed, message) = on_cluster(kubeconfig, &["status"]);
    assert_eq!(code, Some(1), "{printed}{message}");
    let line = |name: &str| {
        let found = printed.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("{name}: {printed}")).to_owned()
    };
    assert!(printed.starts_with("NODE"), "{printed}");
    let good = line("worker-0.example.com");
    for cell in ["worker-0.yml", "confirmed", "current", "none"] {
        assert!(good.contains(cell), "{cell}: {good}\n{message}");
    }
    assert!(line("worker-1.example.com").contains("rolled back"), "{printed}");
    assert!(line("worker-1.example.com").contains("correct worker-1.yml"), "{printed}");
    assert!(line("worker-2.example.com").contains("outdated"), "{printed}");
    assert!(line("worker-3.example.com").contains("no report"), "{printed}");

    let (_, json, _) = on_cluster(kubeconfig, &["status", "-o", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["nodes"][0]["sha256"], sha256(DOCUMENT));
    assert_eq!(json["nodes"][0]["drift"]["state"], "none");
    let (_, wide, _) = on_cluster(kubeconfig, &["status", "-o", "wide"]);
    assert!(wide.contains(&sha256(DOCUMENT)) && wide.contains("as reported"), "{wide}");

    let (code, printed, message) = on_cluster(kubeconfig, &["doctor", "--cluster"]);
    assert_eq!(code, Some(1), "{printed}{message}");
    for expected in [
        "worker-0.example.com:\n  fine: ",
        "br-ex did not come up; the node has its previous network",
        "worker-2.yml was changed after br-ex was configured from it",
        "the node has not reported its first boot",
        "worker-4.example.com:\n  warning: there is no information about br-ex of this node",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    let (_, wide, _) = on_cluster(kubeconfig, &["status", "-o", "wide"]);
    assert!(wide.contains("unknown (it has no NodeNetworkState)"), "{wide}");

    // A node is shown by its name, also by the short one; a file that is missing is not a node.
    for name in ["worker-0.example.com", "worker-0"] {
        let (code, printed, message) = on_cluster(kubeconfig, &["show", name]);
        assert_eq!(code, Some(0), "{message}");
        assert!(
            printed.contains("br-ex (ovs-interface)") && printed.contains("192.0.2.10"),
            "{printed}"
        );
        let (code, _, message) = on_cluster(kubeconfig, &["init", "--node", name, "--yes"]);
        assert_eq!(code, Some(0), "{message}");
    }
    let (code, _, message) = on_cluster(kubeconfig, &["show", "worker-1"]);
    assert_eq!(code, Some(2), "{message}");
    let known = "the cluster has NodeNetworkStates of worker-0.example.com, worker-2.example.com";
    assert!(message.contains(known), "{message}");
    let (code, _, message) = on_cluster(Path::new("missing"), &["show", "worker-0.yml"]);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("reading worker-0.yml: No such file"), "{message}");
}

#[tokio::test]
async fn documents_are_planned_for_every_node_and_policies_written_for_the_api_server() {
    let server = cluster().await;
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    fs::create_dir_all(hosts.join("worker")).unwrap();
    let put = |host: &str, text: &str| {
        fs::write(hosts.join(format!("worker/{host}.yml")), text).unwrap();
    };
    // The same as before, and another name server.
    put("worker-0", DOCUMENT);
    put("worker-2", &format!("{DOCUMENT}dns-resolver: {{config: {{server: [192.0.2.53]}}}}\n"));
    let out = folder.path().join("policies");
    let words = ["plan", "--cluster", hosts.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let (code, printed, message) = on_cluster(server.kubeconfig(), &words);
    assert_eq!(code, Some(0), "{printed}{message}");
    assert!(printed.contains("worker-2.example.com  worker  1"), "{printed}");
    assert!(printed.contains("oc apply --server-side -f "), "{printed}");
    assert!(printed.contains("\nBefore:\n  br-ex") && printed.contains("\nAfter:\n"), "{printed}");
    assert!(!out.join("worker-0.example.com.yaml").exists(), "nothing changes there");
    // Nodes without a document are named.
    assert!(message.contains("worker-1.example.com: no document"), "{message}");
    let policy = fs::read_to_string(out.join("worker-2.example.com.yaml")).unwrap();
    let applied = server.apply(&policy, Persistence::Stored, FieldValidation::Strict).await;
    applied.unwrap();
    let (_, printed, _) = on_cluster(server.kubeconfig(), &["status"]);
    let line = printed.lines().find(|line| line.starts_with("worker-2")).unwrap();
    assert!(line.contains("(not applied)"), "{line}");

    // A document for a host that is not there: nothing is written.
    put("worker-9", DOCUMENT);
    let again = folder.path().join("again");
    let words = ["plan", "--cluster", hosts.to_str().unwrap(), "--out", again.to_str().unwrap()];
    let (code, _, message) = on_cluster(server.kubeconfig(), &words);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("the cluster has no node worker-9"), "{message}");
    assert!(message.contains("scale-out") && !again.exists(), "{message}");
}

/// Networks, platform and disruption policies.
const CLUSTER: &str = "apiVersion: config.openshift.io/v1
kind: Network
metadata: {name: cluster}
spec: {}
status:
  clusterNetworkMTU: 8900
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
  serviceNetwork: [172.30.0.0/16]
---
apiVersion: config.openshift.io/v1
kind: Infrastructure
metadata: {name: cluster}
spec: {}
---
apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata: {name: cluster}
spec:
  managementState: Managed
  nodeDisruptionPolicy:
    files:
    - {path: /etc/nmstate/openshift, actions: [{type: Drain}]}
";

#[tokio::test]
async fn commands_that_read_files_read_the_cluster_as_well() {
    let server = cluster().await;
    apply(&server, CLUSTER).await;
    let kubeconfig = server.kubeconfig();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();

    // decode: the documents byte for byte, never over a file that exists.
    let hosts = at("hosts");
    let decode = ["decode", "--cluster", "--out", &hosts];
    let (code, printed, message) = on_cluster(kubeconfig, &decode);
    assert_eq!(code, Some(0), "{message}");
    assert_eq!(printed.lines().count(), 4, "{printed}");
    let worker = folder.path().join("hosts/worker/worker-0.yml");
    assert_eq!(fs::read_to_string(&worker).unwrap(), DOCUMENT);
    fs::write(&worker, "edited").unwrap();
    let (code, _, message) = on_cluster(kubeconfig, &decode);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("give --force"), "{message}");
    assert_eq!(fs::read_to_string(&worker).unwrap(), "edited");
    let (code, _, message) =
        on_cluster(kubeconfig, &["decode", "--cluster", "--out", &hosts, "--force"]);
    assert_eq!(code, Some(0), "{message}");

    // check: an MTU of 1500 is too small for the cluster network, which only the cluster reports.
    let (code, printed, message) = on_cluster(kubeconfig, &["check", "--cluster"]);
    assert_eq!(code, Some(1), "{printed}{message}");
    assert!(printed.contains("machineconfig/10-br-ex-worker"), "{printed}");
    assert!(printed.contains("[B16]") && printed.contains("8900"), "{printed}");
    let (code, printed, _) = on_cluster(kubeconfig, &["check", &hosts, "--cluster"]);
    assert!(
        code == Some(1) && printed.contains("worker-0.yml") && printed.contains("[B16]"),
        "{printed}"
    );

    // plan: a node of the cluster instead of a file.
    let document = at("new.yml");
    fs::write(&document, DOCUMENT.replace("mtu: 1500", "mtu: 9100")).unwrap();
    let plan = ["plan", "--from", "worker-0", "--to", &document];
    let (code, printed, message) = on_cluster(kubeconfig, &plan);
    assert_eq!(code, Some(0), "{printed}{message}");
    assert!(printed.contains("short interruption"), "{printed}");
    // The same document that is there already.
    fs::write(&document, DOCUMENT).unwrap();
    let (code, printed, _) = on_cluster(kubeconfig, &plan);
    assert!(code == Some(0) && printed.starts_with("Nothing changes"), "{printed}");
    let plan = ["plan", "--from", &document, "--to", &document, "--node", "x"];
    let (code, _, message) = on_cluster(kubeconfig, &plan);
    assert!(code == Some(2) && message.contains("is a file, so no cluster is read"), "{message}");

    // adopt: one node fits its document; one has not reported its network.
    let policies = at("policies");
    let adopt = ["adopt", "--cluster", "--out", &policies];
    let (code, _, message) = on_cluster(kubeconfig, &adopt);
    assert_eq!(code, Some(2), "{message}");
    assert!(
        message.contains("the current network of worker-1.example.com is unknown"),
        "{message}"
    );
    assert!(!Path::new(&policies).exists());
    let (code, printed, message) =
        on_cluster(kubeconfig, &[&adopt[..], &["--node", "worker-0"]].concat());
    assert_eq!(code, Some(0), "{message}");
    assert_eq!(printed, format!("{policies}/worker-0-br-ex.yaml\n"));

    // migrate: nodes with a document are not for it.
    let migrate = ["migrate", "--cluster", "--role", "worker", "--out", &at("migration")];
    let (code, _, message) = on_cluster(kubeconfig, &migrate);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("worker-0.example.com has a document already"), "{message}");

    // scale-out: the MachineConfig of the role, its neighbours, and the disruption policies.
    let host = format!("worker-7={document}");
    let out = at("worker-7");
    let scale_out = ["scale-out", "--cluster", "--host", &host, "--out", &out];
    let (code, printed, message) = on_cluster(kubeconfig, &scale_out);
    assert_eq!(code, Some(0), "{printed}{message}");
    assert!(message.contains("drain"), "the policy of the cluster drains nodes: {message}");
    let config = fs::read_to_string(folder.path().join("worker-7/10-br-ex-worker.yaml")).unwrap();
    for host in ["worker-0", "worker-3", "worker-7"] {
        assert!(config.contains(&format!("/etc/nmstate/openshift/{host}.yml")), "{config}");
    }
    let taken = format!("worker-2={document}");
    let (code, _, message) =
        on_cluster(kubeconfig, &["scale-out", "--cluster", "--host", &taken, "--out", &out]);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("the cluster has a node worker-2.example.com already"), "{message}");
    let master = [&scale_out[..], &["--role", "master"]].concat();
    let (code, _, message) = on_cluster(kubeconfig, &master);
    assert!(
        code == Some(2) && message.contains("no MachineConfig with documents for role master"),
        "{message}"
    );

    // topology auto: this node has br-ex already.
    let (code, _, message) = on_cluster(kubeconfig, &["topology", "auto", "--node", "worker-0"]);
    assert_eq!(code, Some(2), "{message}");
    assert!(
        message.contains("reading node worker-0: the node's default route goes through br-ex"),
        "{message}"
    );

    // A cluster that is named and not read would be ignored.
    let (code, _, message) = on_cluster(kubeconfig, &["decode", &document]);
    assert!(code == Some(2) && message.contains("--cluster"), "{message}");
}

#[tokio::test]
async fn nodes_without_documents_are_migrated_and_documents_are_planned_by_mac_address() {
    let server = cluster().await;
    let name = "infra-0.example.com";
    let infra = node(name, None)
        .replace("node-role.kubernetes.io/worker", "node-role.kubernetes.io/master");
    apply(&server, &infra).await;
    let text = state(name, "192.0.2.30").replace("52:54:00:00:00:01", "52:54:00:00:00:30");
    apply(&server, text.split("status:").next().unwrap()).await;
    server.client().apply_status(&text).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("migration");
    let migrate = ["migrate", "--cluster", "--role", "master", "--out", out.to_str().unwrap()];
    let (code, printed, message) = on_cluster(server.kubeconfig(), &migrate);
    assert_eq!(code, Some(0), "{printed}{message}");
    assert!(out.join("hosts/master/infra-0.yml").exists(), "{printed}");
    let (code, _, message) = on_cluster(server.kubeconfig(), &migrate);
    assert!(code == Some(2) && message.contains("give --force"), "{message}");

    // A document that is not named after a node, and names its machine.
    let hosts = folder.path().join("hosts");
    fs::create_dir_all(hosts.join("master")).unwrap();
    let file = hosts.join("master/rack-7.yml");
    let with = |mac: &str| {
        format!(
            "# brex-match: mac={mac}\n{DOCUMENT}dns-resolver: {{config: {{server: [192.0.2.53]}}}}\n"
        )
    };
    fs::write(&file, with("52:54:00:00:00:30")).unwrap();
    let plan = ["plan", "--cluster", hosts.to_str().unwrap()];
    let (code, printed, message) = on_cluster(server.kubeconfig(), &plan);
    assert_eq!(code, Some(0), "{printed}{message}");
    assert!(printed.contains("infra-0.example.com  master  1"), "{printed}");
    fs::write(&file, with("52:54:00:00:00:31")).unwrap();
    let (code, printed, message) = on_cluster(server.kubeconfig(), &plan);
    assert_eq!((code, printed.as_str()), (Some(1), ""), "{message}");
    assert!(message.contains("no node of role master has MAC 52:54:00:00:00:31"), "{message}");
}

#[tokio::test]
async fn rights_are_those_of_the_example_and_missing_ones_are_named() {
    let server = cluster().await;
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: openshift-config}\n";
    apply(&server, namespace).await;
    let role =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/brex-cluster-reader.yaml");
    apply(&server, &fs::read_to_string(role).unwrap()).await;
    let token = server.client().service_account_token("openshift-config", "brex-reader").await;
    let reader = with_token(&server, &token.unwrap());
    let (code, printed, message) = on_cluster(reader.path(), &["status"]);
    assert_eq!(code, Some(1), "{printed}{message}");
    assert!(
        printed.contains("worker-0.example.com") && !message.contains("cannot be listed"),
        "{message}"
    );
    // Every kind that some command lists.
    for words in [
        &["check", "--cluster"][..],
        &["decode", "--cluster"],
        &["scale-out", "--cluster", "--role", "master", "--host", "m-0=Cargo.toml", "--out", "x"],
    ] {
        let (_, _, message) = on_cluster(reader.path(), words);
        assert!(
            !message.contains("cannot be listed") && !message.contains("necessary rights"),
            "{message}"
        );
    }

    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: nobody, namespace: openshift-config}\n";
    apply(&server, account).await;
    let token = server.client().service_account_token("openshift-config", "nobody").await.unwrap();
    let (code, printed, message) = on_cluster(with_token(&server, &token).path(), &["status"]);
    assert_eq!((code, printed.as_str()), (Some(2), ""), "{message}");
    assert!(message.contains("examples/brex-cluster-reader.yaml"), "{message}");
    let (code, _, message) = on_cluster(with_token(&server, "wrong").path(), &["status"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("oc login"), "{message}");
}

fn with_token(server: &ApiServer, token: &str) -> tempfile::NamedTempFile {
    let text = fs::read_to_string(server.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["users"][0]["user"]["token"] = token.into();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), config.to_string()).unwrap();
    file
}

#[test]
fn an_unreachable_cluster_and_a_wrong_kubeconfig_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let (code, printed, message) = on_cluster(&file, &["status"]);
    assert_eq!((code, printed.as_str()), (Some(2), ""));
    assert!(message.contains("kubeconfig") && message.contains("No such file"), "{message}");
    let config = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: hunter2}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n";
    fs::write(&file, config).unwrap();
    let (code, _, message) = on_cluster(&file, &["status"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("127.0.0.1:1") && message.contains("refused"), "{message}");
    assert!(message.contains("check that this machine reaches the API server"), "{message}");
    let (code, _, message) = on_cluster(&file, &["status", "--context", "y"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("the kubeconfig has no context \"y\"; it has x"), "{message}");
    fs::write(&file, "users: [{name: u, user: {token: hunter2").unwrap();
    let (code, _, message) = on_cluster(&file, &["status"]);
    assert!(code == Some(2) && !message.contains("hunter2"), "{message}");
}
