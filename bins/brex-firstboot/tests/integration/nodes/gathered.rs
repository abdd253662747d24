//! What can be collected from a node that never joined.

use std::fs;

use first_boot::Report;
use first_boot::diagnosis::{DiagnosisSeverity, diagnose, diagnose_state};
use serde_json::Value;

use crate::nodes::bench::{document, fail, fail_without_leases, fixed, node, succeed};

fn report(node: &lab_cluster::node::Node) -> Report {
    let bytes = node.read("/var/log/brex-firstboot/report.json").unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn a_collection_holds_what_a_doctor_needs_and_no_secrets() {
    let node = node(&fixed("198.51.100.77"));
    let profile = "[connection]\nid=dot1x\nuuid=0f0f0f0f-0000-4000-8000-000000000001\ntype=ethernet\nautoconnect=false\ninterface-name=nic1\n[802-1x]\neap=md5;\nidentity=x\npassword=hunter2\n";
    node.write("/etc/NetworkManager/system-connections/dot1x.nmconnection", profile, 0o600)
        .unwrap();
    fail(&node, &["apply", "--patience", "2"]);
    succeed(&node, &["gather", "--out", "/host/collection"]);
    let top = node.shared().join("collection");
    let read = |path: &str| fs::read_to_string(top.join(path)).unwrap();
    let index: Value = serde_json::from_str(&read("index.json")).unwrap();
    assert_eq!(
        (index["version"].as_u64(), index["hostname"].as_str()),
        (Some(1), Some("worker-0"))
    );
    assert_eq!(read("files/etc/nmstate/openshift/worker-0.yml"), fixed("198.51.100.77"));
    assert!(read("commands/ip-route.txt").contains("default via"));
    assert!(read("commands/ovs-global.txt").contains("external_ids"));
    let hidden = read("files/etc/NetworkManager/system-connections/dot1x.nmconnection");
    assert!(!hidden.contains("hunter2") && hidden.contains("identity=x"), "{hidden}");
    // The network is the former one, without br-ex.
    let state = nmstate::NetworkState::new_from_json(&read("nmstate.json")).unwrap();
    assert!(!diagnose_state(&state).is_empty());
}

#[test]
fn a_tar_archive_of_it_is_one_that_tar_reads() {
    let node = node(&fixed("198.51.100.1"));
    node.succeed(&["sh", "-c", "brex-firstboot gather --out - > /host/node.tar"]).unwrap();
    let listed = node.succeed(&["tar", "tf", "/host/node.tar"]).unwrap();
    assert!(listed.contains("brex-firstboot/index.json\n"), "{listed}");
    assert!(
        listed.contains("brex-firstboot/files/etc/nmstate/openshift/worker-0.yml\n"),
        "{listed}"
    );
}

#[test]
fn the_diagnosis_names_a_gateway_that_does_not_respond() {
    let node = node(&fixed("198.51.100.77"));
    fail(&node, &["apply", "--patience", "2"]);
    let diagnoses = diagnose(&report(&node));
    assert_eq!(diagnoses[0].severity, DiagnosisSeverity::Broken);
    assert!(diagnoses[0].remedy.contains("the gateway's address"), "{diagnoses:?}");
}

#[test]
fn the_diagnosis_names_a_missing_lease_and_a_rejected_document() {
    let node = node(&document(crate::nodes::bench::DHCP, ""));
    fail_without_leases(&node, &["apply", "--patience", "6"]);
    let diagnoses = diagnose(&report(&node));
    assert!(diagnoses[0].remedy.contains("DHCP"), "{diagnoses:?}");
    let text = document(crate::nodes::bench::DHCP, "").replace("    - name: br-ex\n", "");
    node.write(crate::nodes::bench::DOCUMENT, text, 0o644).unwrap();
    fail(&node, &["stage"]);
    let diagnoses = diagnose(&report(&node));
    assert!(diagnoses[0].problem.contains("rejected"), "{diagnoses:?}");
    assert!(diagnoses.iter().any(|one| one.because.contains("rule B3")), "{diagnoses:?}");
}
