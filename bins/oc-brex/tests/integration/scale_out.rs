//! One more host for a running cluster.

use crate::support;

use lab::data_tier;
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use machine_config::{Change, FileChange, difference, parse};
use support::{WorkDir, host};

const BMC: [&str; 4] = [
    "--bmc",
    "redfish-virtualmedia://192.0.2.207/redfish/v1/Systems/1",
    "--boot-mac",
    "52:54:00:00:00:07",
];

fn work_dir() -> WorkDir {
    let work_dir = WorkDir::new();
    work_dir
        .put("hosts/worker/worker-0.yml", host("192.0.2.20"))
        .put("hosts/master/master-0.yml", host("192.0.2.10"))
        .put("worker-7.yml", host("192.0.2.27"));
    work_dir.done(&["render", "--hosts", "hosts", "--out", "m"]);
    work_dir
}

fn scale_out<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let fixed = [
        "scale-out",
        "--mc",
        "m/10-br-ex-worker.yaml",
        "--host",
        "worker-7=worker-7.yml",
        "--out",
        "out",
    ];
    [&fixed[..], more].concat()
}

#[test]
fn the_new_document_is_all_that_changes() {
    let work_dir = work_dir();
    let ended = work_dir.done(&scale_out(&BMC));
    assert!(
        ended.err.contains("On nodes of role worker: only the files change on running nodes."),
        "{}",
        ended.err,
    );
    let old = parse(&work_dir.text("m/10-br-ex-worker.yaml")).unwrap();
    let new = parse(&work_dir.text("out/10-br-ex-worker.yaml")).unwrap();
    let path = "/etc/nmstate/openshift/worker-7.yml".parse().unwrap();
    assert_eq!(difference(&old, &new), [Change::File { path, what: FileChange::Added }]);
    let added = new.file("/etc/nmstate/openshift/worker-7.yml").unwrap();
    assert_eq!(added.contents.bytes(), host("192.0.2.27").as_bytes());
    let order: Vec<_> = ended.out.lines().filter(|line| line.starts_with("oc ")).collect();
    for (line, begins) in order.iter().zip([
        "oc apply --server-side --force-conflicts -f out/10-br-ex-worker.yaml",
        "oc wait machineconfigpool/worker",
        "oc wait machineconfigpool/worker",
        "oc apply --server-side -f out/worker-7-network-config-secret.yaml",
        "oc create secret generic worker-7-bmc-secret",
        "oc apply --server-side -f out/worker-7-baremetalhost.yaml",
        "oc wait baremetalhost/worker-7",
        "oc scale machineset/<machineset>",
    ]) {
        assert!(line.starts_with(begins), "{line}");
    }
    assert_eq!(order.len(), 8);
}

#[test]
fn names_and_addresses_of_other_hosts_are_refused() {
    let work_dir = work_dir();
    let twice = ["scale-out", "--mc", "m/10-br-ex-worker.yaml", "--host", "worker-0=worker-7.yml"];
    let ended = work_dir.run(&[&twice[..], &["--out", "out"]].concat());
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("has a document for worker-0 already"), "{}", ended.err);

    work_dir.put("worker-7.yml", host("192.0.2.20"));
    let ended = work_dir.run(&scale_out(&[]));
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("[B22]"), "{}", ended.err);

    // A machine that another document names.
    let named = |address: &str| format!("# brex-match: serial=CZ1\n{}", host(address));
    work_dir.put("n/worker/worker-1.yml", named("192.0.2.21"));
    work_dir.done(&["render", "--hosts", "n", "--out", "n"]);
    work_dir.put("worker-7.yml", named("192.0.2.27"));
    let ended = work_dir.run(&scale_out(&["--other-mc", "n/10-br-ex-worker.yaml"]));
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("the document of worker-1 names serial cz1, too"), "{}", ended.err);

    // One that a host of another role has.
    work_dir.put("worker-7.yml", host("192.0.2.10"));
    work_dir.done(&scale_out(&[]));
    let ended = work_dir.run(&scale_out(&["--other-mc", "m/10-br-ex-master.yaml"]));
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("[B22]"), "{}", ended.err);
}

#[test]
fn a_cluster_that_reboots_for_it_is_reported() {
    let work_dir = work_dir();
    work_dir.put(
        "policy.yaml",
        "apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata: {name: cluster}
spec:
  nodeDisruptionPolicy:
    files:
    - path: /etc/nmstate/openshift
      actions: [{type: Reboot}]
",
    );
    let ended = work_dir.done(&scale_out(&["--machine-configuration", "policy.yaml"]));
    assert!(ended.err.contains("every node of the pool is drained and rebooted"), "{}", ended.err);
}

#[test]
fn what_is_not_understood_is_wrong_usage() {
    let work_dir = work_dir();
    for (arguments, expected) in [
        (scale_out(&["--bmc", "x"]), "--boot-mac <MAC>"),
        (scale_out(&["--bmc", "x", "--boot-mac", "52-54"]), "expected a MAC address such as"),
        (
            vec!["scale-out", "--mc", "m/10-br-ex-worker.yaml", "--host", "worker-7", "--out", "o"],
            "write NAME=FILE: worker-7=worker-7.yml",
        ),
    ] {
        let ended = work_dir.run(&arguments);
        assert_eq!(ended.code, 2);
        assert!(ended.err.contains(expected), "{}", ended.err);
    }
}

/// Applies these files of a scale-out to a server that has OpenShift's types.
async fn apply(server: &ApiServer, names: &[&str]) {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: openshift-machine-api}\n";
    server.apply(namespace, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    let work_dir = work_dir();
    work_dir.done(&scale_out(&[&BMC[..], &["--disable-certificate-verification"]].concat()));
    for name in names {
        let text = work_dir.text(&format!("out/{name}.yaml"));
        server.apply(&text, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    }
}

#[tokio::test]
async fn a_cluster_accepts_the_machine_config_and_the_secret() {
    let server = ApiServer::start().await.unwrap();
    server.load_cluster_crds().await.unwrap();
    apply(&server, &["10-br-ex-worker", "worker-7-network-config-secret"]).await;
}

/// Data tier: no Go module has the CRD.
#[tokio::test]
async fn a_cluster_accepts_the_bare_metal_host() {
    let Some(crds) = data_tier("cluster-crds") else { return };
    let server = ApiServer::start().await.unwrap();
    let crd = std::fs::read_to_string(crds.join("baremetalhosts.yaml")).unwrap();
    server.client().load_crd_text(&crd).await.unwrap();
    apply(&server, &["worker-7-baremetalhost"]).await;
}
