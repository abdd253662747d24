//! A hosted control plane: operator and coordinator in one cluster, the nodes they serve in another.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use lab::certificates::{Authority, Identity};
use lab_cluster::node::{Lan, LanOptions, Node, NodeOptions, Relay};
use serde_json::{Value, json};

use crate::metrics_port::scene::put_client_authority;
use crate::topologies::cluster::{Cluster, NAMESPACE, Profile, condition, released};
use crate::topologies::kubelet::{IN_IMAGE, Machine, PROGRAM, Ports};

const VERSION: &str = "4.99.0";
const CONTROL_PLANE: &str = "clusters-one";
/// What runs beside the control plane.
const COMPONENTS: [&str; 2] = ["nmstate-operator", "nmstate-coordinator"];
/// What the operator of hosted control planes deploys.
const MANAGEMENT: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: clusters-one}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: hypershift-control-plane}
value: 100000000
";
const POLICY: &str = "
apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata: {name: jumbo}
spec:
  desiredState:
    interfaces: [{name: nic1, type: ethernet, state: up, mtu: 1400, ipv4: {enabled: false}, ipv6: {enabled: false}}]
";

pub(crate) fn machine(lan: &Arc<Lan>, name: &str, relay: &Relay, ports: Ports) -> Machine {
    let options = NodeOptions {
        hostname: name.to_owned(),
        nics: 4,
        binds: vec![(PROGRAM.into(), IN_IMAGE.into())],
        ..NodeOptions::default()
    };
    let node = Node::start_on(lan, &options).unwrap();
    node.wait_for_ipv4("nic0").unwrap();
    Machine { node, api: relay.address(), ports }
}

/// What `nmstate-operator manifests --hosted` writes.
fn hosted_manifests() -> String {
    let folder = tempfile::tempdir().unwrap();
    let written = Command::new(PROGRAM)
        .args(["manifests", "--hosted", CONTROL_PLANE, "--out"])
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(written.success());
    std::fs::read_to_string(folder.path().join("nmstate-operator.yaml")).unwrap()
}

/// The name that the certificate of a component is for.
fn host_of(component: &str) -> String {
    format!("{component}.{CONTROL_PLANE}.svc")
}

/// Writes the serving certificates of metrics where the service CA of the management cluster writes them.
/// Returns the CA.
async fn put_serving_certificates(management: &Cluster) -> Authority {
    let mut authority = Authority::generate().unwrap();
    let secrets: Api<Secret> = Api::namespaced(management.client.clone(), CONTROL_PLANE);
    for component in COMPONENTS {
        authority = authority.naming_servers(&host_of(component));
        let identity = authority.server().unwrap();
        let files = [("tls.crt", identity.certificate), ("tls.key", identity.key)];
        let data = files.map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes())));
        let name = format!("{component}-metrics");
        let secret = Secret {
            metadata: serde_json::from_value(json!({ "name": name })).unwrap(),
            data: Some(data.into()),
            ..Secret::default()
        };
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    authority
}

/// What a client in the network of the pods gets from the metrics port of a component: the status code
/// and the body.
fn request_metrics(
    lan: &Lan,
    address: Ipv4Addr,
    component: &str,
    serving: &Authority,
    client: &Identity,
) -> String {
    let folder = tempfile::tempdir().unwrap();
    let files = client.write(folder.path(), "client").unwrap();
    let authority = folder.path().join("ca.crt");
    std::fs::write(&authority, serving.pem()).unwrap();
    let host = host_of(component);
    let output = Command::new("nsenter")
        .arg(format!("--net={}", lan.network_namespace()))
        .args(["curl", "--silent", "--show-error", "--write-out", "%{http_code}\n", "--cacert"])
        .arg(authority)
        .arg("--cert")
        .arg(files.certificate)
        .arg("--key")
        .arg(files.key)
        .args(["--resolve", &format!("{host}:8443:{address}")])
        .arg(format!("https://{host}:8443/metrics"))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// The users that wrote to a cluster, except those of Kubernetes itself.
fn writers(cluster: &Cluster) -> BTreeSet<String> {
    let log = std::fs::read_to_string(cluster.server.audit_log()).unwrap();
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let names = entries.map(|entry| entry["user"]["username"].as_str().unwrap().to_owned());
    let own = ["system:apiserver", "system:serviceaccount:kube-system:"];
    names.filter(|name| !own.iter().any(|own| name.starts_with(own))).collect()
}

/// The users that wrote this kind of object, given as `RESOURCE/SUBRESOURCE`.
fn writers_of(cluster: &Cluster, kind: &str) -> BTreeSet<String> {
    let log = std::fs::read_to_string(cluster.server.audit_log()).unwrap();
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_it = |entry: &Value| {
        let object = &entry["objectRef"];
        format!("{}/{}", text(&object["resource"]), text(&object["subresource"])) == kind
    };
    let all = entries.filter(is_it).map(|entry| text(&entry["user"]["username"]));
    all.filter(|name| !name.starts_with("system:serviceaccount:kube-system:")).collect()
}

async fn guest_of(management: &Cluster, relay: &Relay, guest: &Cluster) {
    management.apply(MANAGEMENT).await;
    let kubeconfig = guest.server.kubeconfig_at(relay.address());
    let secret: Secret = Secret {
        metadata: serde_json::from_value(json!({ "name": "service-network-admin-kubeconfig" }))
            .unwrap(),
        data: Some([("kubeconfig".to_owned(), ByteString(kubeconfig.into_bytes()))].into()),
        ..Secret::default()
    };
    let secrets: Api<Secret> = Api::namespaced(management.client.clone(), CONTROL_PLANE);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

#[tokio::test]
async fn a_hosted_control_plane_serves_its_guest_and_leaves_the_cluster_it_runs_in_alone() {
    let mut guest = Cluster::start("BareMetal", "External").await;
    guest.update(Profile::Hypershift, VERSION).await;
    guest.installed().await;
    assert_eq!(guest.get("apps/v1", "Deployment", "nmstate-operator").await, Value::Null);
    let mut management = Cluster::bare().await;
    let lan = Arc::new(Lan::start(&LanOptions::default()).unwrap());
    let port = guest.server.url().rsplit(':').next().unwrap().parse().unwrap();
    let relay = Relay::start(&lan, ([127, 0, 0, 1], port).into()).unwrap();
    guest_of(&management, &relay, &guest).await;
    let serving = put_serving_certificates(&management).await;
    let clients = Authority::generate().unwrap();
    put_client_authority(&guest.server, &clients).await;
    management.apply(&released(&hosted_manifests(), VERSION)).await;
    management.server.start_controllers().await.unwrap();
    guest.server.start_controllers().await.unwrap();
    management.add_nodes(&["management-a"]).await;
    guest.add_nodes(&["worker-0"]).await;
    for component in COMPONENTS {
        let pod = machine(&lan, component, &relay, Ports::AsWritten);
        management.kubelet.borrow_mut().give(component, pod);
    }
    let worker = machine(&lan, "worker-0", &relay, Ports::AsWritten);
    guest.kubelet.borrow_mut().give("worker-0", worker);

    // The operator is on by default on bare metal; the guest was not configured.
    let both = async || management.kubelet.borrow_mut().sync().await;
    guest
        .until("the handler runs on the guest's worker", || async {
            both().await;
            let object = guest.get("config.openshift.io/v1", "ClusterOperator", "nmstate").await;
            object["status"]["versions"][0]["version"] == VERSION
                && condition(&object, "Progressing") == "False AsExpected"
                && condition(&object, "Disabled") == "False AsExpected"
        })
        .await;
    guest.apply(POLICY).await;
    guest
        .until("the policy is applied", || async {
            both().await;
            let policy =
                guest.get("nmstate.io/v1", "NodeNetworkConfigurationPolicy", "jumbo").await;
            condition(&policy, "Available") == "True SuccessfullyConfigured"
        })
        .await;
    let links = guest
        .kubelet
        .borrow()
        .machine("worker-0")
        .succeed(&["ip", "-json", "link", "show", "nic1"])
        .unwrap();
    assert_eq!(serde_json::from_str::<Value>(&links).unwrap()[0]["mtu"], 1400);

    // Each component wrote to the right cluster, with its own identity.
    assert_eq!(guest.get("apps/v1", "Deployment", "nmstate-coordinator").await, Value::Null);
    for component in ["nmstate-operator", "nmstate-coordinator", "nmstate-handler"] {
        let name = format!("system:serviceaccount:{NAMESPACE}:{component}");
        assert!(writers(&guest).contains(&name), "{name}: {:?}", writers(&guest));
    }
    // Nothing that operator and coordinator write was written with the administrator's credentials.
    for theirs in ["daemonsets/", "nmstates/", "nodenetworkconfigurationpolicies/status"] {
        let who = writers_of(&guest, theirs);
        assert!(!who.is_empty() && !who.contains("admin"), "{theirs}: {who:?}");
    }
    assert_eq!(writers(&management), ["admin".to_owned()].into());
    for pod in management.dynamic("v1", "Pod", None).list(&Default::default()).await.unwrap() {
        let volumes = pod.data["spec"]["volumes"].as_array().unwrap();
        assert!(volumes.iter().all(|it| it["projected"].is_null()), "a token: {volumes:?}");
        assert_eq!(pod.data["spec"]["priority"], 100_000_000);
    }

    // Metrics are for the monitoring of the management cluster, which has a certificate of the guest,
    // and not for the monitoring of the guest.
    let monitoring = clients.client("system:serviceaccount:hypershift:prometheus").unwrap();
    let others = clients.client(crate::metrics_port::scene::MONITORING).unwrap();
    for (component, line) in COMPONENTS.into_iter().zip([
        "nmstate_operator_operand_wanted 1\n",
        "kubernetes_nmstate_policies_status{status=\"Available\"} 1\n",
    ]) {
        let address = management.kubelet.borrow().machine(component).wait_for_ipv4("nic0").unwrap();
        let request =
            |client: &Identity| request_metrics(&lan, address, component, &serving, client);
        guest
            .until(&format!("{component} serves {line}"), || async {
                let response = request(&monitoring);
                response.contains(line) && response.ends_with("200\n")
            })
            .await;
        let response = request(&others);
        assert!(response.ends_with("403\n"), "{response}");
    }
    // That requires nothing in the management cluster.
    assert_eq!(writers(&management), ["admin".to_owned()].into());

    // The reports of a deleted node are deleted with it, though its handler still runs.
    guest.delete("v1", "Node", "worker-0").await;
    guest
        .until("the reports of the node are collected", || async {
            let of = async |kind: &str| {
                let api = guest.dynamic("nmstate.io/v1beta1", kind, None);
                api.list(&Default::default()).await.unwrap().items.len()
            };
            of("NodeNetworkState").await + of("NodeNetworkConfigurationEnactment").await == 0
        })
        .await;
}

#[test]
fn hosted_profiles_get_everything_but_what_runs_beside_their_control_plane() {
    let of = |profile: &str| -> BTreeSet<String> {
        let annotation = format!("include.release.openshift.io/{profile}");
        let objects = nmstate_deployment::payload::files().into_iter().flat_map(|it| it.objects);
        let meant = objects.filter(|it| it["metadata"]["annotations"][&annotation] == "true");
        meant.map(|it| format!("{} {}", it["kind"], it["metadata"]["name"])).collect()
    };
    let (hosted, own) = (of("hypershift"), of("self-managed-high-availability"));
    assert_eq!(hosted, of("ibm-cloud-managed"));
    assert_eq!(own, of("single-node-developer"));
    let runs_there: Vec<&str> = own.difference(&hosted).map(String::as_str).collect();
    assert!(runs_there.contains(&r#""Deployment" "nmstate-operator""#), "{runs_there:?}");
    // The operator creates its ClusterOperator itself; nothing waits for it there.
    let is_theirs = |it: &&str| {
        it.contains("nmstate-operator")
            || it.contains("coordinator")
            || *it == r#""ClusterOperator" "nmstate""#
    };
    assert!(runs_there.iter().all(is_theirs), "{runs_there:?}");
    // The coordinator's identity is deployed by the operator elsewhere.
    let only_hosted: Vec<&str> = hosted.difference(&own).map(String::as_str).collect();
    assert!(only_hosted.iter().all(|it| it.contains("coordinator")), "{only_hosted:?}");
}
