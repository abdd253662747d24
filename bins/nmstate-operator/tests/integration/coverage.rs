//! The page that lists what covers the end-to-end tests and examples of kubernetes-nmstate.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/nmstate-operator-coverage.md";
/// Where the tests are.
const SOURCES: [&str; 5] = [
    "bins/nmstate-operator",
    "crates/nmstate-api",
    "crates/nmstate-deployment",
    "crates/node-network",
    "crates/node-policy",
];
/// What kubernetes-nmstate tests.
const END_TO_END: [&str; 29] = [
    "nodes_test",
    "nns_filter",
    "nns_dependencies",
    "nns_ovn",
    "nns_update_timestamp",
    "simple_bridge_and_bond",
    "simple_ovs_bridge",
    "simple_vlan_and_ip",
    "vrf",
    "static_addr_and_route",
    "dns_test",
    "default_bridged_network",
    "default_ovs_bridged_network",
    "bonding_default_interface",
    "lldp_with_nmpolicy",
    "rollback_test",
    "pending_checkpoint",
    "nnce_conditions",
    "nncp_parallel",
    "nncp_cleanup",
    "node_selector",
    "nnce_desiredstate",
    "multiple_policies_for_same_node",
    "webhook_test",
    "metrics_test",
    "upgrade_test",
    "nmstate_install_test",
    "examples_test",
    "user_guide_test",
];
/// Its examples.
const EXAMPLES: [&str; 26] = [
    "ethernet",
    "dhcp",
    "worker-selector",
    "static-ip",
    "route",
    "per-interface-ipv4-forwarding",
    "vlan",
    "vlan100",
    "bond",
    "bond-vlan",
    "bond0-eth1-eth2_up",
    "bond0-eth1-eth2_absent",
    "linux-bridge",
    "linux-bridge-vlan",
    "detach-bridge-port-and-restore-eth",
    "ovs-bridge",
    "ovs-bridge-iface",
    "vrf",
    "dns",
    "dns-cleanup",
    "lldp",
    "eth1-eth2_up",
    "eth666",
    "maxunavailable",
    "two bridges",
    "NMState",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of all tests in the sources.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> = SOURCES.map(|it| root().join(it)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                names.extend(tests_of(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    names
}

/// Functions below an attribute of a test, and tests of shared benches, which are written as
/// `name => function`.
fn tests_of(source: &str) -> Vec<String> {
    let is_of_name = |it: &char| it.is_ascii_lowercase() || it.is_ascii_digit() || *it == '_';
    let mut names = Vec::new();
    let mut is_test = false;
    let mut lines = source.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ")
            && std::mem::take(&mut is_test)
        {
            names.push(rest.chars().take_while(is_of_name).collect());
        }
        let name: String = line.chars().take_while(is_of_name).collect();
        let rest = line[name.len()..].trim();
        let is_shared = rest.starts_with("=>")
            || (rest.is_empty() && lines.peek().is_some_and(|next| next.starts_with("=>")));
        if !name.is_empty() && is_shared {
            names.push(name);
        }
    }
    names
}

/// Cells of the rows of a table, without its head, below a title.
fn rows(page: &str, title: &str) -> Vec<Vec<String>> {
    let (_, rest) = page.split_once(title).unwrap_or_else(|| panic!("{PAGE} has no {title}"));
    let section = rest.split_once("\n## ").map_or(rest, |(section, _)| section);
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    lines
        .map(|line| line.trim_matches('|').split(" | ").map(|it| it.trim().to_owned()).collect())
        .collect()
}

/// What a cell has between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_end_to_end_test_and_example_of_kubernetes_nmstate_is_covered() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let tests = tests();
    for (title, expected) in [("## End-to-end tests", &END_TO_END[..]), ("## Examples", &EXAMPLES)]
    {
        let rows = rows(&page, title);
        for name in expected {
            let is_of = |row: &&Vec<String>| row[0] == *name || quoted(&row[0]).contains(name);
            assert!(rows.iter().any(|row| is_of(&row)), "{title}: {name} is missing");
        }
        for row in &rows {
            let covering = row.last().unwrap();
            assert!(!covering.is_empty(), "{}: neither a test nor a reason", row[0]);
            for name in quoted(covering).into_iter().filter(|it| !it.starts_with("cargo ")) {
                assert!(tests.contains(name), "{}: there is no test {name}", row[0]);
            }
        }
    }
}
