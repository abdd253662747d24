//! A change of a node's network, as the handler of a cluster makes it: the desired state of a
//! policy, in one transaction of `node-network`. The program that runs in the node is this very
//! test binary.

use std::fs;
use std::time::Duration;

use br_ex::Document;
use node_network::facts::Expectation;
use node_network::probe::{Check, Checks, Target, When};
use node_network::{
    ExpectedNetwork, Host, Network as _, NetworkState, Outcome, RecordFile, Timing, Transaction,
};
use serde_json::json;
use tokio::runtime::Builder;

/// Arguments of the test binary that make it the program.
pub(crate) const PROGRAM: [&str; 3] = ["nodes::change::change_this_node", "--exact", "--ignored"];

/// What the program reads and writes, below the folder that a node shares with its host.
pub(crate) const POLICY: &str = "policy.yaml";
pub(crate) const PATIENCE: &str = "patience";
pub(crate) const OUTCOME: &str = "outcome.json";
pub(crate) const STATE: &str = "nns.yaml";

/// The desired state of a policy, or a document.
pub(crate) fn desired(yaml: &str) -> NetworkState {
    let document = Document::parse(yaml.as_bytes());
    let layout = document.layout().expect("a desired state");
    NetworkState::new_from_json(&layout.node.to_json().to_string()).expect("a state")
}

/// What a cluster requires of a change: br-ex connects the node, the gateway responds, and so does a name
/// server, where one did before.
fn expected() -> ExpectedNetwork {
    let gateway = Target::DefaultGateway { interface: Some("br-ex".into()) };
    let names = Target::NameServers { name: "api.example".into() };
    ExpectedNetwork {
        bridge: Some(Expectation { bridge: "br-ex".into(), ..Expectation::default() }),
        checks: Checks {
            list: vec![
                Check { id: "gateway", any_of: vec![gateway], when: When::Always },
                Check { id: "dns", any_of: vec![names], when: When::HeldBefore },
            ],
        },
    }
}

#[test]
#[ignore = "a program for nodes; the other tests start it there"]
fn change_this_node() {
    // Only nodes have this folder: the network of a host is not touched.
    let read = |name: &str| fs::read_to_string(format!("/host/{name}")).expect("a node of the lab");
    let desired = desired(&read(POLICY));
    let patience = Duration::from_secs(read(PATIENCE).trim().parse().expect("seconds"));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let outcome: Outcome = runtime.block_on(async {
        let (expected, timing) = (expected(), Timing::patient(patience));
        let record = RecordFile::new("/host/change.json", "this boot");
        let transaction = Transaction {
            label: "test",
            desired: &desired,
            memory_only: false,
            expected: &expected,
            timing,
            record: &record,
        };
        Box::pin(transaction.run(&Host)).await
    });
    let state = runtime.block_on(Host.state()).expect("the state of a node");
    let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name");
    let node = json!({
        "apiVersion": "nmstate.io/v1beta1",
        "kind": "NodeNetworkState",
        "metadata": {"name": format!("{}.example.com", name.trim())},
        "status": {"currentState": state},
    });
    let write = |name: &str, text: String| {
        fs::write(format!("/host/{name}"), text).expect("writing into the shared folder");
    };
    write(STATE, format!("{node:#}\n"));
    write(OUTCOME, serde_json::to_string_pretty(&outcome).expect("JSON"));
}
