use super::*;

const GOOD: &str = "
interfaces:
- {name: nic0, type: ethernet, state: up}
- {name: nic1, type: ethernet, state: up}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge: {port: [{name: nic0}, {name: br-ex}]}
- name: br-ex
  type: ovs-interface
  state: up
  ipv4: {enabled: true, address: [{ip: 198.51.100.10, prefix-length: 24}]}
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 198.51.100.1, metric: 48}
";

fn expectation() -> Expectation {
    Expectation { bridge: "br-ex".into(), ..Expectation::default() }
}

fn check(yaml: &str) -> Vec<Fact> {
    expectation().check(&NetworkState::new_from_yaml(yaml).unwrap())
}

/// What fails when `from` in the good state is replaced.
fn failing(from: &str, to: &str) -> Vec<FactName> {
    assert!(GOOD.contains(from), "{from}");
    let facts = check(&GOOD.replace(from, to));
    facts.iter().filter(|fact| !fact.holds).map(|fact| fact.name).collect()
}

#[test]
fn a_bridge_that_carries_the_node_has_every_fact() {
    let facts = check(GOOD);
    assert!(all_hold(&facts), "{facts:?}");
}

#[test]
fn every_fact_fails_for_its_own_reason() {
    use FactName::{Address, DefaultRoute, InternalPort, Uplink};
    assert_eq!(
        failing("{port: [{name: nic0}, {name: br-ex}]}", "{port: [{name: br-ex}]}"),
        [Uplink]
    );
    assert_eq!(failing("[{name: nic0}, {name: br-ex}]", "[{name: nic0}]"), [InternalPort]);
    assert_eq!(failing("198.51.100.10", "169.254.0.2"), [Address]);
    assert_eq!(failing("next-hop-interface: br-ex", "next-hop-interface: nic1"), [DefaultRoute]);
    assert_eq!(failing("0.0.0.0/0", "192.0.2.0/24"), [DefaultRoute]);
}

#[test]
fn a_node_without_the_bridge_fails_everything_that_needs_it() {
    let facts = check("interfaces: [{name: nic0, type: ethernet, state: up}]");
    assert!(facts.iter().all(|fact| !fact.holds), "{facts:?}");
}

/// Open vSwitch creates an internal port for a name without a device.
#[test]
fn a_misspelt_nic_is_no_uplink() {
    let yaml = GOOD.replace(
        "{name: nic0, type: ethernet, state: up}",
        "{name: nic0, type: ovs-interface, state: up}",
    );
    let facts = check(&yaml);
    let uplink = facts.iter().find(|fact| fact.name == FactName::Uplink).unwrap();
    assert!(!uplink.holds && uplink.detail.as_str().contains("nic0"), "{uplink:?}");
}

#[test]
fn members_of_an_open_vswitch_bond_are_uplinks() {
    let yaml = GOOD.replace(
        "{name: nic0}, {name: br-ex}]}",
        "{name: bond, link-aggregation: {mode: balance-slb, port: [{name: nic0}, {name: nic1}]}}, {name: br-ex}]}",
    );
    let facts = check(&yaml);
    assert!(all_hold(&facts), "{facts:?}");
}

#[test]
fn an_uplink_may_be_behind_a_patch_port() {
    let yaml = GOOD.replace(
        "  bridge: {port: [{name: nic0}, {name: br-ex}]}",
        "  bridge: {port: [{name: to-phy}, {name: br-ex}]}
- {name: to-phy, type: ovs-interface, state: up, patch: {peer: to-ex}}
- {name: to-ex, type: ovs-interface, state: up, patch: {peer: to-phy}}
- name: br-phy
  type: ovs-bridge
  state: up
  bridge: {port: [{name: to-ex}, {name: nic0}]}",
    );
    let facts = check(&yaml);
    assert!(all_hold(&facts), "{facts:?}");
}

#[test]
fn a_default_route_left_on_the_old_interface_is_named() {
    let rival = "- {destination: 0.0.0.0/0, next-hop-interface: nic1, next-hop-address: 192.0.2.1, metric: 48}";
    let facts = check(&format!("{GOOD}  {rival}\n"));
    assert!(failures(&facts).contains("by nic1 (metric 48) is taken before"), "{facts:?}");
    let weaker = rival.replace("metric: 48", "metric: 100");
    assert!(all_hold(&check(&format!("{GOOD}  {weaker}\n"))));
}

#[test]
fn the_configured_node_address_must_exist() {
    let state = NetworkState::new_from_yaml(GOOD).unwrap();
    let with = |address: &str| {
        let node_addresses = vec![address.parse().unwrap()];
        Expectation { node_addresses, ..expectation() }.check(&state)
    };
    assert!(all_hold(&with("198.51.100.10")));
    assert!(failures(&with("198.51.100.99")).contains("198.51.100.99"));
}

/// br-ex as in the good state, and IPv6 besides.
const DUAL: &str = "
interfaces:
- {name: nic0, type: ethernet, state: up}
- {name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: nic0}, {name: br-ex}]}}
- name: br-ex
  type: ovs-interface
  state: up
  ipv4: {enabled: true, address: [{ip: 198.51.100.10, prefix-length: 24}]}
  ipv6: {enabled: true, address: [{ip: 'fe80::5', prefix-length: 64}, {ip: '2001:db8::10', prefix-length: 64}]}
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 198.51.100.1, metric: 48}
  - {destination: '::/0', next-hop-interface: br-ex, next-hop-address: 'fe80::1', metric: 48}
  - {destination: 192.0.2.0/24, next-hop-interface: br-ex, next-hop-address: 198.51.100.9, metric: 0}
";

/// What fails for a document with these lines, on a node as in [`DUAL`] after `from` is replaced.
fn compared(document: &str, from: &str, to: &str) -> Vec<FactName> {
    let document = NetworkState::new_from_yaml(document).unwrap();
    assert!(DUAL.contains(from), "{from}");
    let state = NetworkState::new_from_yaml(&DUAL.replace(from, to)).unwrap();
    let demand = Some(Demand::of(&document, "br-ex"));
    let facts = Expectation { demand, ..expectation() }.check(&state);
    facts.iter().filter(|fact| !fact.holds).map(|fact| fact.name).collect()
}

const BOTH: &str = "interfaces: [{name: br-ex, type: ovs-interface, state: up, ipv4: {enabled: true, dhcp: true}, ipv6: {enabled: true, dhcp: true, autoconf: true}}]";

#[test]
fn a_family_of_the_document_that_br_ex_lost_is_found() {
    use FactName::{Address, DefaultRoute};
    assert_eq!(compared(BOTH, "2001:db8::10", "2001:db8::11"), []);
    assert_eq!(compared(BOTH, "2001:db8::10", "fe80::6"), [Address]);
    assert_eq!(compared(BOTH, "198.51.100.10", "169.254.0.2"), [Address]);
    assert_eq!(compared(BOTH, "'::/0'", "'2001:db8:1::/64'"), [DefaultRoute]);
    assert_eq!(compared(BOTH, "0.0.0.0/0", "203.0.113.0/24"), [DefaultRoute]);
    let any = BOTH.replace("state: up,", "state: up, wait-ip: any,");
    assert_eq!(compared(&any, "2001:db8::10", "fe80::6"), []);
    let v4 = BOTH.replace("state: up,", "state: up, wait-ip: ipv4,");
    assert_eq!(compared(&v4, "'::/0'", "'2001:db8:1::/64'"), []);
}

#[test]
fn addresses_and_routes_of_the_document_must_be_there() {
    use FactName::{DocumentAddresses, DocumentRoutes};
    let fixed = "
interfaces:
- name: br-ex
  type: ovs-interface
  state: up
  ipv4: {enabled: true, address: [{ip: 198.51.100.10, prefix-length: 24}]}
  ipv6: {enabled: true, address: [{ip: '2001:0db8::10', prefix-length: 64}]}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 198.51.100.1, metric: 48}
  - {destination: '::/0', next-hop-interface: br-ex, next-hop-address: 'fe80::1'}
  - {destination: 192.0.2.0/24, next-hop-interface: br-ex, next-hop-address: 198.51.100.9}
";
    assert_eq!(compared(fixed, "198.51.100.9", "198.51.100.9"), []);
    assert_eq!(compared(fixed, "2001:db8::10", "2001:db8::11"), [DocumentAddresses]);
    assert_eq!(
        compared(
            fixed,
            "ip: 198.51.100.10, prefix-length: 24",
            "ip: 198.51.100.10, prefix-length: 25"
        ),
        [DocumentAddresses]
    );
    assert_eq!(compared(fixed, "192.0.2.0/24", "192.0.2.0/25"), [DocumentRoutes]);
    assert_eq!(compared(fixed, "198.51.100.9,", "198.51.100.8,"), [DocumentRoutes]);
    assert_eq!(
        compared(fixed, "198.51.100.1, metric: 48", "198.51.100.1, metric: 49"),
        [DocumentRoutes]
    );
}
