//! Policies that Kubernetes NMState and OpenShift publish, and whether a node accepts each. Every verdict
//! was reached by reading the policy, with the documentation of nmstate and the limits of the kernel;
//! the hash binds it to the text that was read.
//!
//! Data tier: the policies are not part of this repository.

use std::collections::BTreeSet;
use std::fs;

use br_ex::{ClusterFacts, Document, Severity, check};
use data_tier::data_tier;
use sha2::{Digest as _, Sha256};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// A node accepts it; there must be no error.
    Good,
    /// A node rejects it: there must be an error on each of these lines, for this reason, and on no
    /// other.
    Bad(&'static [usize], &'static str),
}
use Verdict::{Bad, Good};

/// File, the beginning of its SHA-256, the verdict.
const VERDICTS: &[(&str, &str, Verdict)] = &[
    ("nmstate__kubernetes-nmstate__README.md__block0.yaml", "59717f3f32826648", Good),
    (
        "nmstate__kubernetes-nmstate__design-proposals_discarded_host-ip-pool.md__block4.yaml",
        "d6f013b869d8f82f",
        Bad(
            &[5, 8],
            "`capture` and `desiredState` are not below `spec`: the policy is empty, and nothing is applied",
        ),
    ),
    ("nmstate__kubernetes-nmstate__docs_examples_bond-vlan.yaml", "89fd19a12b5424f0", Good),
    (
        "nmstate__kubernetes-nmstate__docs_examples_detach-bridge-port-and-restore-eth.yaml",
        "504ee568b3a005df",
        Good,
    ),
    ("nmstate__kubernetes-nmstate__docs_examples_dhcp.yaml", "d6442bf8423fcb2f", Good),
    ("nmstate__kubernetes-nmstate__docs_examples_dns-cleanup.yaml", "f67442a9675adda1", Good),
    ("nmstate__kubernetes-nmstate__docs_examples_dns.yaml", "d9e7863504a5f238", Good),
    ("nmstate__kubernetes-nmstate__docs_examples_linux-bridge-vlan.yaml", "54c508570d24f1fb", Good),
    ("nmstate__kubernetes-nmstate__docs_examples_linux-bridge.yaml", "299dfaee10b7302c", Good),
    ("nmstate__kubernetes-nmstate__docs_examples_lldp.yaml", "400164a8ebca33ab", Good),
    ("nmstate__kubernetes-nmstate__docs_examples_ovs-bridge.yaml", "aeaa7cbabe76e27d", Good),
    (
        "nmstate__kubernetes-nmstate__docs_examples_per-interface-ipv4-forwarding.yaml",
        "b2a1cfa0d4184ea6",
        Good,
    ),
    ("nmstate__kubernetes-nmstate__docs_examples_route.yaml", "a9b9bd1d709c4e84", Good),
    ("nmstate__kubernetes-nmstate__docs_examples_vlan.yaml", "a2bb586cf8e008a8", Good),
    ("nmstate__kubernetes-nmstate__docs_examples_vrf.yaml", "0eda0ca405170ae7", Good),
    ("nmstate__kubernetes-nmstate__docs_examples_worker-selector.yaml", "6643aa66d8ca9cef", Good),
    // Two policies in one file, each for itself.
    ("nmstate__kubernetes-nmstate__docs_user-guide_eth1-eth2_up.yaml", "bba1aabc9d5664d9", Good),
    (
        "nmstate__kubernetes-nmstate__docs_user-guide_linux-bridge_maxunavailable.yaml",
        "37b2ace4a298f226",
        Good,
    ),
    // A mapping to br-ex; the bridge itself is not touched.
    (
        "openshift__openshift-docs__modules_configuring-localnet-switched-topology.adoc__block0.yaml",
        "329ac8a4750131ee",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_configuring-localnet-switched-topology.adoc__block2.yaml",
        "bd85ca8944fef7c9",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_k8s-nmstate-creating-alternative-interface-names-by-identifier.adoc__block0.yaml",
        "f2111d22b1e6c6f7",
        Bad(&[10, 13], "placeholders: a name of 16 characters, and a MAC address that is none"),
    ),
    (
        "openshift__openshift-docs__modules_k8s-nmstate-creating-alternative-interface-names.adoc__block0.yaml",
        "58ac05bf11f766da",
        Bad(&[10], "a placeholder of 16 characters; the kernel allows 15"),
    ),
    (
        "openshift__openshift-docs__modules_k8s-nmstate-deleting-alternative-interface-names.adoc__block0.yaml",
        "ffd219e8cce93277",
        Bad(&[10], "a placeholder of 16 characters; the kernel allows 15"),
    ),
    (
        "openshift__openshift-docs__modules_k8s-nmstate-deleting-alternative-interface-names.adoc__block2.yaml",
        "7f46269b3fe79238",
        Bad(&[10, 13], "placeholders: a name of 16 characters, and a PCI address that is none"),
    ),
    // IPv4 is enabled and keeps the addresses it has.
    (
        "openshift__openshift-docs__modules_nw-metallb-configure-secondary-interface.adoc__block1.yaml",
        "6636afea4cf57257",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_nw-ovn-ipsec-north-south-disable.adoc__block0.yaml",
        "efffed90c2b71825",
        Bad(&[4], "a placeholder in its name, which a cluster does not accept"),
    ),
    // The name of an IPsec connection is not that of an interface of the kernel.
    (
        "openshift__openshift-docs__modules_nw-ovn-ipsec-north-south-enable.adoc__block1.yaml",
        "126dc50504d0770d",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_nw-sriov-change-vf-mtu-running-pod.adoc__block5.yaml",
        "7c80e00917995041",
        Bad(&[13], "a placeholder in place of the number of an MTU"),
    ),
    (
        "openshift__openshift-docs__modules_procedure-enabling-bgp-evpn-primary-cudn.adoc__block3.yaml",
        "f9740314f2765577",
        Bad(&[4, 9, 15], "placeholders: a name of 22 characters, and an address that is none"),
    ),
    (
        "openshift__openshift-docs__modules_virt-creating-interface-on-nodes.adoc__block0.yaml",
        "a31f1c5b2d794587",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_virt-creating-linux-bridge-nncp.adoc__block0.yaml",
        "d321def66ac88f61",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_virt-example-bridge-nncp.adoc__block0.yaml",
        "74f4913858d1311a",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_virt-example-ethernet-nncp.adoc__block0.yaml",
        "95bc61dbc09a25a8",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_virt-example-nmstate-IP-management.adoc__block6.yaml",
        "c839a8a076b54ef4",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_virt-example-nmstate-multiple-interfaces.adoc__block0.yaml",
        "9e08f2d1f3181d12",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_virt-example-predictable-route-table-id.adoc__block0.yaml",
        "840c5221d29a4fcc",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_virt-example-vf-host-services.adoc__block0.yaml",
        "62643342c7942b66",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_virt-example-vf-host-services.adoc__block1.yaml",
        "0da028ecfb30b50b",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_virt-example-vlan-nncp.adoc__block0.yaml",
        "5981e2465e88de5b",
        Good,
    ),
    (
        "openshift__openshift-docs__modules_virt-removing-interface-from-nodes.adoc__block0.yaml",
        "335fc427ff872e44",
        Bad(&[4], "a placeholder in its name, which a cluster does not accept"),
    ),
];

/// Policies that administrators published.
const OF_ADMINISTRATORS: &[(&str, &str, Verdict)] = &[
    (
        "bryonbaker__nmstate-experiments__experiment_ovn-bridge-mapping-nncp.yaml",
        "74e09118c9312c44",
        Good,
    ),
    (
        "bryonbaker__nmstate-experiments__will_nncps_nncp-disable-interfaces.yaml",
        "0cb175f9936a86fe",
        Good,
    ),
    (
        "bryonbaker__nmstate-experiments__will_nncps_nncp-localnet-vlan92.yaml",
        "7df04f066b449c3f",
        Good,
    ),
    (
        "Federated-Fleet-Forge__example-ocp-ztp__siteconfigs_example-cluster-1_policy-cluster-specific_static-routes_routes-migration.yaml",
        "5ce50854672f3e0c",
        Good,
    ),
    ("ggoksu__sno__network_nncp.yaml", "4c9ebf03994f9833", Good),
    (
        "giofontana__cheatsheet__OCP_CNV_Network_network-configuration.md__block0.yaml",
        "2698df5827151a54",
        Bad(&[1], "apiVersion v1alpha1, which no cluster serves any more"),
    ),
    (
        "giofontana__cheatsheet__OCP_CNV_Network_vlans-linuxbridge.md__block0.yaml",
        "80c51bb3a1dc1f00",
        Good,
    ),
    (
        "giofontana__cheatsheet__ODF_Network_nncp-odf.yaml",
        "2ca49f9f28d8b0c2",
        Bad(&[4], "a placeholder in its name, which a cluster does not accept"),
    ),
    ("gqlo__ocp-lab__templates_multus_node-net-policy.yaml", "334ddb3fbbc04592", Good),
    ("gqlo__ocp-lab__templates_multus_remove-nnap.yaml", "9d121892ac242ace", Good),
    ("gstephan76__ocpvirt__nncp-bridge-workers.yaml", "774e62a5bc02b996", Good),
    ("gstephan76__ocpvirt__ovs-br-flat.yaml", "424c904c6c25c608", Bad(&[3], "no name")),
    ("jclaret__mtu-issue__nncp_bond.yaml", "85c67a201ec9dee1", Good),
    (
        "karampok__telco-ocp-lab__ztp_ztp-spokes_policies_source-crs_nmstate_nodeNetworkConfigurationPolicy.yaml",
        "48ef5d83ea370fc2",
        Bad(&[5], "an empty name: a generator of policies fills it in"),
    ),
    ("nitinetrxengg__yamls__nncp.yaml", "03e6b78aa0d4e4b2", Bad(&[1], "no apiVersion")),
    (
        "OCP-on-NERC__nerc-ocp-config__cluster-scope_overlays_nerc-ocp-beta-test_nodenetworkconfigurationpolicies_eth-nese.yaml",
        "5f234e4f43a4ee18",
        Good,
    ),
    (
        "OCP-on-NERC__nerc-ocp-config__cluster-scope_overlays_nerc-ocp-edu_nodenetworkconfigurationpolicies_vlan-211-nese-single-nic.yaml",
        "5afc4ee42b5e90ff",
        Good,
    ),
    (
        "openshift-tigerteam__ocp-agent-install-config-examples__network_full-setup-eth-bond-vlan-ovs-udn.yaml",
        "02989d894c20fd11",
        Good,
    ),
    (
        "openshift-tigerteam__openshift-examples__docs_networking_2-eth-bond-active-backup-vlan.yaml",
        "51b1b8d467c5f147",
        Bad(&[13, 21, 46, 50, 51], "placeholders for names, MAC addresses, a VLAN and an address"),
    ),
    ("ppradhan01__vmwmigration__nncp-template.yaml", "1feefc5de9a36977", Good),
    ("raphaelmorsch__user-defined-network__nncp.yaml", "7e66f7e902218c84", Good),
    (
        "rbaumgar__openshift-virt-gitops__vmexamples_network_localnet1-nncp.yaml",
        "6aa6b69decc310e0",
        Good,
    ),
    (
        "RedHatQuickCourses__ocp-virt-cookbook__modules_networking_attachments_cudn-localnet-vlan_nodenetworkconfigurationpolicy-cudn-localnet-vlan-bridge-mapping.yaml",
        "264738233fdf23b2",
        Good,
    ),
    (
        "RedHatQuickCourses__ocp-virt-cookbook__modules_networking_attachments_localnet-vlan_localnet-vlan-bridge-mapping-nncp.yaml",
        "ecb3bfdc7efe1dd9",
        Good,
    ),
    (
        "RedHatQuickCourses__rhoso-deploy-files__pre-configured_osp-ng-nncp-w1.yaml",
        "b225b3ceada530c1",
        Good,
    ),
    (
        "RHFieldProductManagement__openshift-virt-labs__configs_ocp_nmstate-br1-workers.yaml",
        "c6a2c27a7a82f605",
        Bad(&[1], "apiVersion v1alpha1, which no cluster serves any more"),
    ),
    (
        "starlab3030__rhoso-temp__beta-lab-via-argocd_prepare-openshfit-for-rhoso-network-isolation-via-argocd.md__block1.yaml",
        "277238473926f79c",
        Good,
    ),
    ("trixlan__nfs-minio-loki__nncp.yaml", "a36b78e06792ce5e", Good),
    (
        "wangzheng422__docker_env__redhat_notes_2022_2022.11.ipvlan.bridge.md__block1.yaml",
        "22854ace40b961a2",
        Good,
    ),
    ("waynedovey__metal-lab__nncp-lacp.yaml", "068523554e282018", Good),
];

#[test]
fn each_published_policy_is_judged_as_its_reader_did() {
    judge("nncp/upstream", VERDICTS);
}

#[test]
fn each_policy_of_an_administrator_is_judged_as_its_reader_did() {
    judge("nncp/users", OF_ADMINISTRATORS);
}

fn judge(folder: &str, verdicts: &[(&str, &str, Verdict)]) {
    let Some(folder) = data_tier(folder) else { return };
    let mut wrong = Vec::new();
    for (file, hash, verdict) in verdicts {
        let bytes = fs::read(folder.join(file)).unwrap();
        let found = hex::encode(Sha256::digest(&bytes));
        assert!(found.starts_with(hash), "{file}: the verdict is about another text");
        let text = String::from_utf8(bytes).unwrap();
        let documents = Document::policies(&text);
        let documents = documents.unwrap_or_else(|| vec![Document::parse(text.as_bytes())]);
        let errors: Vec<_> = documents
            .iter()
            .flat_map(|document| check(document, &ClusterFacts::default()))
            .filter(|finding| finding.severity == Severity::Error)
            .collect();
        let found: BTreeSet<usize> = errors.iter().map(|finding| finding.at.line).collect();
        let (expected, why) = match verdict {
            Good => (BTreeSet::new(), "it is good"),
            Bad(lines, why) => (lines.iter().copied().collect(), *why),
        };
        if found != expected {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            wrong.push(format!("{file}: {why}: expected {expected:?}, found {errors:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_policy_of_the_folder_has_a_verdict() {
    let Some(folder) = data_tier("nncp/upstream") else { return };
    for entry in fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(VERDICTS.iter().any(|(file, ..)| *file == name), "{name} has no verdict");
    }
}
