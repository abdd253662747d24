//! Policies for the network of nodes, from the payload to a change that is rolled back.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cluster::{Cluster, NODES};
use crate::output::{entries, heading, show_command, show_line, show_text};

const POLICIES: &str = "/apis/nmstate.io/v1/nodenetworkconfigurationpolicies";
const ENACTMENTS: &str = "/apis/nmstate.io/v1beta1/nodenetworkconfigurationenactments";
const OPERATORS: &str = "/apis/config.openshift.io/v1/clusteroperators/nmstate";
const NAMESPACE: &str = "openshift-nmstate-operator";
/// The version that the operator reports. A release payload names its own.
const VERSION: &str = "4.22.0";

/// When the cluster is stopped at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    AtOnce,
    OnInterrupt,
}

const GOOD: &str = "\
apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata:
  name: storage
  annotations:
    nmstate.landfall.dev/canary: worker-1
    nmstate.landfall.dev/revert-on-delete: \"true\"
spec:
  nodeSelector: {node-role.kubernetes.io/worker: \"\"}
  desiredState:
    interfaces:
    - name: nic1
      type: ethernet
      state: up
      mtu: 1400
      ipv4: {enabled: false}
      ipv6: {enabled: false}
";

/// An address from which the API server cannot be reached.
const BAD: &str = "\
apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata:
  name: readdress
spec:
  maxUnavailable: 1
  desiredState:
    interfaces:
    - name: nic0
      type: ethernet
      state: up
      ipv4:
        enabled: true
        dhcp: false
        address: [{ip: 203.0.113.7, prefix-length: 24}]
";

/// Demonstrates the operator.
pub(super) fn show(program: &Path, ending: Ending) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("landfall-demo-")
        .tempdir()
        .context("creating a temporary folder")?;
    let start = Instant::now();
    heading("A cluster on bare metal: a real API server, two nodes with NetworkManager");
    let mut cluster = Cluster::start(program, folder.path())?;
    cluster.show_list("oc get nodes", "/api/v1/nodes")?;
    run(&mut cluster, program, folder.path())?;
    println!("\nEverything is as expected, after {:.0} s.", start.elapsed().as_secs_f64());
    if ending == Ending::OnInterrupt {
        println!("\nThe cluster runs until Ctrl-C. In another terminal:");
        println!("    export KUBECONFIG={}", cluster.kubeconfig().display());
        println!("    oc get nncp,nnce,nns     # kubectl as well");
        wait_for_interrupt()?;
    }
    Ok(())
}

fn run(cluster: &mut Cluster<'_>, program: &Path, folder: &Path) -> Result<()> {
    heading("The files of the release payload, applied as the cluster-version operator does");
    apply_payload(cluster, program, folder)?;

    heading("The operator: it deploys handlers by default on bare metal");
    show_line("This cluster has no kubelet: the demo starts the programs of the pods itself.");
    let version = format!("--release-version={VERSION}");
    cluster.start_part("operator", &["--operand-image=example.com/nmstate-operator", &version])?;
    let daemon_sets = format!("/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets");
    cluster.wait("handlers are deployed", &daemon_sets, |list| {
        list["items"].as_array().is_some_and(|items| !items.is_empty())
    })?;
    cluster.show_list(&format!("oc get daemonset -n {NAMESPACE}"), &daemon_sets)?;
    cluster.wait("the operator reports", OPERATORS, |it| condition(it, "Available").is_some())?;
    cluster.show_list("oc get clusteroperator nmstate", OPERATORS)?;
    cluster.start_part("coordinator", &["--namespace", NAMESPACE])?;
    for node in NODES {
        cluster.start_handler(node)?;
    }
    for node in NODES {
        let path = format!("/apis/nmstate.io/v1beta1/nodenetworkstates/{node}");
        cluster.wait(&format!("{node} reports its network"), &path, |it| {
            it["status"]["currentState"]["interfaces"].is_array()
        })?;
    }
    show_line("Both nodes report their network: oc get nns worker-0 -o yaml");

    heading("A policy: worker-1 first, then all others");
    show_text(GOOD);
    apply(cluster, "storage.yaml", GOOD)?;
    wait_for(cluster, "storage", "Available")?;
    show_status(cluster)?;
    for node in NODES {
        let mtu = cluster.show_in(node, &["cat", "/sys/class/net/nic1/mtu"])?;
        ensure!(mtu.trim() == "1400", "nic1 of {node}: expected an MTU of 1400, found {mtu}");
    }

    heading("A policy that disconnects a node: rolled back, and no other node is changed");
    show_text(BAD);
    apply(cluster, "readdress.yaml", BAD)?;
    wait_for(cluster, "readdress", "Degraded")?;
    let enactment = format!("{ENACTMENTS}/worker-0.readdress");
    let failed = cluster.wait("worker-0 reports that it failed", &enactment, |it| {
        condition(it, "Failing").is_some_and(|it| it["status"] == "True")
            && condition(it, "Progressing").is_some_and(|it| it["status"] == "False")
    })?;
    cluster.wait(
        "worker-1 reports that it did not start",
        &format!("{ENACTMENTS}/worker-1.readdress"),
        |it| condition(it, "Aborted").is_some_and(|it| it["status"] == "True"),
    )?;
    show_status(cluster)?;
    show_command(
        "oc get nnce worker-0.readdress -o jsonpath='{..conditions[?(@.type==\"Failing\")].message}'",
    );
    let message = condition(&failed, "Failing").and_then(|it| it["message"].as_str());
    show_text(message.unwrap_or_default());
    let nic0 = cluster.show_in("worker-0", &["ip", "-brief", "address", "show", "nic0"])?;
    ensure!(nic0.contains("198.51.100.") && !nic0.contains("203.0.113.7"), "nic0 was not restored");

    heading("An edit supersedes it: the address by DHCP, as before");
    let edited = BAD.replace(
        "        dhcp: false\n        address: [{ip: 203.0.113.7, prefix-length: 24}]\n",
        "        dhcp: true\n",
    );
    apply(cluster, "readdress.yaml", &edited)?;
    wait_for(cluster, "readdress", "Available")?;
    show_status(cluster)?;

    heading("A policy with the revert annotation is deleted: its change is reverted");
    show_command("oc delete nncp storage");
    cluster.delete(&format!("{POLICIES}/storage"))?;
    for node in NODES {
        cluster.wait_until_gone(&format!("{ENACTMENTS}/{node}.storage"))?;
        let mtu = cluster.show_in(node, &["cat", "/sys/class/net/nic1/mtu"])?;
        ensure!(mtu.trim() == "1500", "nic1 of {node}: expected an MTU of 1500, found {mtu}");
    }
    Ok(())
}

/// Applies the output of `manifests`, except objects of kinds that the Prometheus operator defines.
fn apply_payload(cluster: &Cluster<'_>, program: &Path, folder: &Path) -> Result<()> {
    let manifests = folder.join("manifests");
    show_command("nmstate-operator manifests --out manifests");
    let status = Command::new(program).arg("manifests").arg("--out").arg(&manifests).status();
    let status = status.context("starting nmstate-operator")?;
    ensure!(status.success(), "nmstate-operator ended with {status}");
    for file in entries(&manifests)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let text =
            fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let is_for_cluster = name.ends_with(".yaml") && !text.contains("monitoring.coreos.com");
        show_line(&format!("{name}{}", if is_for_cluster { "" } else { "     (not applied)" }));
        if is_for_cluster {
            cluster.apply(&text).with_context(|| format!("applying {name}"))?;
        }
    }
    Ok(())
}

fn apply(cluster: &Cluster<'_>, name: &str, policy: &str) -> Result<()> {
    show_command(&format!("oc apply -f {name}"));
    cluster.apply(policy)
}

fn wait_for(cluster: &Cluster<'_>, policy: &str, type_: &str) -> Result<()> {
    let path = format!("{POLICIES}/{policy}");
    cluster.wait(&format!("the policy {policy} is {type_}"), &path, |it| {
        let is_current = it["status"]["observedGeneration"] == it["metadata"]["generation"];
        is_current && condition(it, type_).is_some_and(|it| it["status"] == "True")
    })?;
    Ok(())
}

fn show_status(cluster: &Cluster<'_>) -> Result<()> {
    cluster.show_list("oc get nncp", POLICIES)?;
    cluster.show_list("oc get nnce", ENACTMENTS)
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_)
}

fn wait_for_interrupt() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting the runtime")?;
    runtime.block_on(tokio::signal::ctrl_c()).context("waiting for Ctrl-C")
}
