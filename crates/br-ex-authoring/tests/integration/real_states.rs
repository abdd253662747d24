//! States of real nodes, and examples of nmstate itself.
//!
//! Data tier: the files are not part of this repository.

use std::fs;

use br_ex::{ClusterFacts, Content, Document, check, node_state};
use br_ex_authoring::topology::Families;
use br_ex_authoring::topology::auto::{Policy, Shape, Source};
use data_tier::data_tier;
use nmstate::NetworkState;

#[test]
fn a_node_without_configuration_gets_the_policy_of_its_shape() {
    let Some(folder) = data_tier("node-network-state") else { return };
    let text = fs::read_to_string(folder.join("kubernetes-nmstate-docs_nns.yaml")).unwrap();
    let [node] = node_state::parse(&text).unwrap().try_into().unwrap();
    assert_eq!(node.name.as_deref(), Some("node01"));
    // eth0 has 192.168.66.101 by DHCP, and the only default route.
    let policy = Policy::of_node(&node.state).unwrap();
    let wanted = Policy { shape: Shape::Nic, source: Source::Dhcp, families: Families::V4 };
    assert_eq!(policy, wanted);
    let around = ClusterFacts { current: Some(node.state), ..ClusterFacts::default() };
    let findings = check(&Document::parse(policy.document().unwrap().as_bytes()), &around);
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn nodes_that_have_the_bridge_are_an_error() {
    let Some(folder) = data_tier("node-network-state") else { return };
    let text = fs::read_to_string(folder.join("NodeNetworkStatusWithVID.json")).unwrap();
    let [node] = node_state::parse(&text).unwrap().try_into().unwrap();
    assert_eq!(node.name.as_deref(), Some("uit-dev-0602-29k82-master-0"));
    let error = Policy::of_node(&node.state).unwrap_err().to_string();
    assert!(error.contains("through br-ex already"), "{error}");
    // This one has three IPv6 gateways, all through br-ex.
    let text = fs::read_to_string(folder.join("NodeNetworkStatusWithLLDP.json")).unwrap();
    let nodes = node_state::parse(&text).unwrap();
    let error = Policy::of_node(&nodes[0].state).unwrap_err().to_string();
    assert!(error.contains("3 default routes"), "{error}");
}

#[test]
fn a_state_that_was_cut_off_is_refused() {
    let Some(folder) = data_tier("node-network-state") else { return };
    let text = fs::read_to_string(folder.join("openshift-virt-labs_nns_v1alpha1.yaml")).unwrap();
    let error = node_state::parse(&text).unwrap_err().to_string();
    assert!(error.contains("ocp4-worker1.cnv.example.com"), "{error}");
}

#[test]
fn every_example_of_nmstate_is_read_as_a_state() {
    let Some(folder) = data_tier("nmstate-golden") else { return };
    let mut number = 0;
    for entry in fs::read_dir(folder.join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let document = Document::parse(&fs::read(&path).unwrap());
        assert!(document.state().is_some(), "{}: {:?}", path.display(), document.findings());
        number += 1;
    }
    assert_eq!(number, 27);
}

#[test]
fn policies_of_nmstate_have_the_result_that_nmstate_documents() {
    let Some(folder) = data_tier("nmstate-golden") else { return };
    for entry in fs::read_dir(folder.join("policy")).unwrap() {
        let path = entry.unwrap().path();
        let read = |name: &str| fs::read_to_string(path.join(name)).unwrap();
        let document = Document::parse(read("policy.yml").as_bytes());
        let policy = match document.content() {
            Some(Content::Policy(policy)) => policy,
            _ => panic!("{}: {:?}", path.display(), document.findings()),
        };
        let mut policy = policy.as_ref().clone();
        policy.current = Some(NetworkState::new_from_yaml(&read("current.yml")).unwrap());
        let mut state = NetworkState::try_from(policy).unwrap();
        // Newer versions also list the routes that go away, which these files are older than.
        if let Some(routes) = state.routes.config.as_mut() {
            routes.retain(|route| route.state.is_none());
        }
        let expected = NetworkState::new_from_yaml(&read("expected.yml")).unwrap();
        let json = |state: &NetworkState| serde_json::to_value(state).unwrap();
        assert_eq!(json(&state), json(&expected), "{}", path.display());
    }
}
