//! Rules on documents that users published. Which rules each breaks was decided by
//! reading it, and is written down here; `i` marks what is only worth knowing.
//!
//! Data tier: the documents are not part of this repository.

use std::collections::BTreeMap;
use std::fs;

use br_ex::{ClusterFacts, Document, Severity, check};
use data_tier::data_tier;
use sha2::{Digest as _, Sha256};

/// Path below the folder, the beginning of its SHA-256, and the rules that it breaks: errors, warnings,
/// info.
const DOCUMENTS: &[(&str, &str, &str, &str, &str)] = &[
    // Documentation of OpenShift: nothing but advice.
    ("nmstate/openshift-docs__customized-br-ex.yaml", "48bb9cdd3fcecee2", "", "", "B23"),
    ("nmstate/openshift-docs-4.16__customized-br-ex.yaml", "508a31a81bb4751c", "", "", "B23"),
    // No MAC address is copied, and enp1s0 adds a second default route by DHCP.
    ("nmstate/openshift-docs-4.19__balance-slb.yaml", "9d7cefa98b1562ce", "", "B8 B20", "B24"),
    // `copy-mac-from` on the bridge instead of the port; no metric.
    (
        "decoded/openshift-enhancements__cluster-wide__cluster.yaml",
        "345d08489a551db7",
        "",
        "B7 B8 B13",
        "B23 B24",
    ),
    (
        "decoded/openshift-enhancements__worker-per-node__worker-0.yaml",
        "6156ac7775bf80b0",
        "",
        "B7 B8 B13",
        "B23 B24",
    ),
    (
        "decoded/openshift-enhancements__worker-per-node__worker-1.yaml",
        "142082c6dc33affd",
        "",
        "B7 B8 B13",
        "B23 B24",
    ),
    // The document has no IPv6 section for the bond; no metric for either family.
    (
        "decoded/openshift-metal3__00-nmstate-brex-bond-master__cluster.yml",
        "88785765df489184",
        "",
        "B6 B13 B13",
        "B23 B24",
    ),
    (
        "decoded/openshift-metal3__00-nmstate-brex-bond-worker__cluster.yml",
        "88785765df489184",
        "",
        "B6 B13 B13",
        "B23 B24",
    ),
    // Two placeholders instead of MAC addresses; a static route without metric.
    ("nmstate/giofontana__by-mac-address_master1.yml", "4dfdbc9959ed4ee3", "B34 B34", "B13", "B24"),
    ("nmstate/giofontana__static_master1.yml", "883b2902073078c7", "", "B13", "B24"),
    ("nmstate/giofontana__static_worker2.yml", "5bee166b8c539323", "", "B13", "B24"),
    // A static route without metric beside DHCP.
    ("nmstate/giofontana__dhcp_cluster-old.yml", "6e14e4ce1c93d69d", "", "B13", "B24"),
    // Captured NICs are only named as members of the bond.
    ("nmstate/giofontana__dhcp_cluster.yml", "1323ad64b5aceee1", "", "B6 B6", "B24"),
    (
        "nmstate/giofontana__pin-nic_cluster-pin-nic-nmstate.yml",
        "9e10907154cdb8a2",
        "",
        "B6 B6",
        "B24",
    ),
    // The address is on the bridge, and there is no port to hold one; so is the MTU;
    // DHCP on the uplink.
    ("nmstate/id55177369727__mtu9000-br-ex.yml", "deaf3d8fde2bb705", "B2 B6", "B2 B18", "B23"),
    // DHCP on the bond that is the uplink, and nothing about its IPv6.
    ("nmstate/id69444880438__active-backup-br-ex.yaml", "0b15edc27fcc21ac", "B6", "B6", "B23"),
    // 802.3ad without miimon, and nothing about the bond's IPv6.
    ("nmstate/id69544452196__lacp-bond-br-ex.yaml", "775d30ba540ec5a2", "", "B6 B39", "B23"),
    // br-ex on another interface than the one with the default route; on the first host
    // the gateway 192.168.6.1 is not in 192.168.26.0/24.
    ("nmstate/mathianasj__master-01.yaml", "bb572cadfbeb54af", "", "B14 B20 B36", "B23"),
    ("nmstate/mathianasj__sno-node.yaml", "5eac275432f530fc", "", "B20 B36", "B23"),
    // Addresses on the bridge, too; eth0 is not described; no metric for either family.
    ("nmstate/qinqon__new-state.yaml", "2ee7b80af4003a79", "", "B2 B6 B13 B13", "B23 B24"),
    // Networks to install with: they have no br-ex, and the second has placeholders
    // for an address, a name server and a gateway.
    ("installer-network/giofontana__dhcp_net-init-conf.yml", "4ce4ad0717a56a63", "B1 B2", "", ""),
    (
        "installer-network/giofontana__static_net-init-conf.yml",
        "5fa728cd2c4cf4c9",
        "B1 B2 B34 B34 B34",
        "",
        "",
    ),
    // A template of a file, not a file.
    ("mco-files/001-nmstate-disable-ipv6-autoconf.yaml", "a35971d3b9f88e5b", "B34 B34", "", ""),
    // Bridge mappings only: br-ex itself is not touched.
    ("nncp/giofontana__pin-nic_nncp-brex.yml", "0de4cec0c9b941b8", "", "", ""),
    ("nncp/giofontana__pin-nic_nncp-eno1.yml", "3db71a67e81e70cc", "", "", ""),
    // `desiredState` inside `nodeSelector`, its content beside it, and a prefix length
    // outside of its address.
    (
        "nncp/openshift-docs-4.16__post-install-br-ex-nncp.yaml",
        "d83ca409ccb80fdb",
        "B34 B34 B34",
        "B23",
        "",
    ),
];

/// Folders whose files are other things than documents, and are read elsewhere.
const OTHER: [&str; 2] = ["butane", "machineconfig"];

fn broken(document: &Document, severity: Severity) -> String {
    let findings = check(document, &ClusterFacts::default());
    let mut rules: Vec<_> =
        findings.iter().filter(|it| it.severity == severity).map(|it| it.rule).collect();
    rules.sort();
    rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_published_document_breaks_the_rules_that_a_reader_sees_broken() {
    let Some(folder) = data_tier("nmstate-br-ex") else { return };
    let mut wrong = Vec::new();
    for (path, hash, errors, warnings, infos) in DOCUMENTS {
        let bytes = fs::read(folder.join(path)).unwrap();
        let found = hex::encode(Sha256::digest(&bytes));
        assert!(found.starts_with(hash), "{path}: the verdict is about another text");
        let document = Document::parse(&bytes);
        let expected =
            [(Severity::Error, errors), (Severity::Warning, warnings), (Severity::Info, infos)];
        for (severity, expected) in expected {
            let actual = broken(&document, severity);
            if actual != **expected {
                wrong.push(format!("{path}: {severity}: {actual:?} instead of {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_document_of_the_folder_is_in_the_table() {
    let Some(folder) = data_tier("nmstate-br-ex") else { return };
    let listed: BTreeMap<&str, ()> = DOCUMENTS.iter().map(|(path, ..)| (*path, ())).collect();
    for entry in fs::read_dir(&folder).unwrap() {
        let inner = entry.unwrap().file_name().into_string().unwrap();
        if OTHER.contains(&inner.as_str()) {
            continue;
        }
        for file in fs::read_dir(folder.join(&inner)).unwrap() {
            let path = format!("{inner}/{}", file.unwrap().file_name().into_string().unwrap());
            assert!(listed.contains_key(path.as_str()), "{path} is not in the table");
        }
    }
}
