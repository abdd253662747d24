//! Policies that find the uplink: evaluated by nmstate on nodes of every shape.

use br_ex::{ClusterFacts, Content, Document, Severity, check};
use br_ex_authoring::topology::Families;
use br_ex_authoring::topology::auto::{Policy, Shape, Source};
use nmstate::{Interface, InterfaceType, NetworkState};

/// A node whose default route goes through an uplink of this shape.
fn node(shape: Shape, source: Source) -> NetworkState {
    let (uplink, section) = match shape {
        Shape::Nic => ("eth0", ""),
        Shape::Bond => (
            "bond0",
            "  type: bond\n  link-aggregation: {mode: active-backup, port: [eth0, eth1]}\n",
        ),
        Shape::Vlan => ("eth0.7", "  type: vlan\n  vlan: {base-iface: eth0, id: 7}\n"),
        Shape::VlanOnBond => ("bond0.7", "  type: vlan\n  vlan: {base-iface: bond0, id: 7}\n"),
        Shape::LinuxBridge => ("br1", "  type: linux-bridge\n  bridge: {port: [{name: eth0}]}\n"),
    };
    let ip = match source {
        Source::Dhcp => {
            "{enabled: true, dhcp: true, address: [{ip: 192.0.2.10, prefix-length: 24, valid-left: 3600sec, preferred-left: 3600sec}]}"
        }
        Source::Static => {
            "{enabled: true, dhcp: false, address: [{ip: 192.0.2.10, prefix-length: 24}]}"
        }
    };
    let mut text = String::from("interfaces:\n");
    for (nic, number) in [("eth0", 1), ("eth1", 2)] {
        let own = if nic == uplink { ip } else { "{enabled: false}" };
        text.push_str(&format!(
            "- name: {nic}\n  type: ethernet\n  state: up\n  mtu: 1450\n  max-mtu: 9000\n  \
             mac-address: '02:00:00:00:00:0{number}'\n  ipv4: {own}\n  ipv6: {{enabled: false}}\n"
        ));
    }
    if shape == Shape::VlanOnBond {
        text.push_str(
            "- name: bond0\n  type: bond\n  state: up\n  mtu: 1450\n  mac-address: '02:00:00:00:00:01'\n  \
             link-aggregation: {mode: active-backup, port: [eth0, eth1]}\n  ipv4: {enabled: false}\n  \
             ipv6: {enabled: false}\n",
        );
    }
    if shape != Shape::Nic {
        text.push_str(&format!(
            "- name: {uplink}\n{section}  state: up\n  mtu: 1450\n  mac-address: '02:00:00:00:00:01'\n  \
             ipv4: {ip}\n  ipv6: {{enabled: false}}\n"
        ));
    }
    let route = format!(
        "{{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: {uplink}, \
         metric: 100, table-id: 254}}"
    );
    let fixed = match source {
        Source::Dhcp => String::new(),
        Source::Static => format!("  config: [{route}]\n"),
    };
    let servers = match source {
        Source::Dhcp => "{running: {server: [192.0.2.53]}}",
        Source::Static => "{running: {server: [192.0.2.53]}, config: {server: [192.0.2.53]}}",
    };
    text.push_str(&format!("routes:\n  running: [{route}]\n{fixed}dns-resolver: {servers}\n"));
    NetworkState::new_from_yaml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn uplink(shape: Shape) -> &'static str {
    match shape {
        Shape::Nic => "eth0",
        Shape::Bond => "bond0",
        Shape::Vlan => "eth0.7",
        Shape::VlanOnBond => "bond0.7",
        Shape::LinuxBridge => "br1",
    }
}

/// What the node would apply.
fn evaluated(text: &str, current: &NetworkState) -> NetworkState {
    let document = Document::parse(text.as_bytes());
    let Some(Content::Policy(policy)) = document.content() else {
        panic!("no policy: {:?}\n{text}", document.findings());
    };
    let captured = policy.capture.execute(current).unwrap();
    policy.desired.fill_with_captured_data(&captured).unwrap()
}

fn every() -> impl Iterator<Item = (Shape, Source)> {
    Shape::ALL.into_iter().flat_map(|shape| [Source::Dhcp, Source::Static].map(|it| (shape, it)))
}

#[test]
fn each_policy_makes_the_bridge_that_configure_ovs_would_have_made() {
    for (shape, source) in every() {
        let policy = Policy { shape, source, families: Families::V4 };
        let current = node(shape, source);
        let state = evaluated(&policy.document().unwrap(), &current);
        state.validate(Some(&current)).unwrap_or_else(|error| panic!("{policy:?}: {error}"));
        let Some(Interface::OvsBridge(bridge)) =
            state.interfaces.get_iface("br-ex", InterfaceType::OvsBridge)
        else {
            panic!("{policy:?} makes no bridge");
        };
        let ports = bridge.bridge.as_ref().unwrap().ports.as_ref().unwrap();
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, [uplink(shape), "br-ex"], "{policy:?}");

        let port = state.interfaces.get_iface("br-ex", InterfaceType::OvsInterface).unwrap();
        let base = port.base_iface();
        assert_eq!(base.copy_mac_from.as_deref(), Some(uplink(shape)));
        assert_eq!(base.mtu, Some(1450));
        let ip = base.ipv4.as_ref().unwrap();
        let addresses = ip.addresses.as_deref().unwrap_or_default();
        let routes = state.routes.config.as_deref().unwrap_or_default();
        match source {
            Source::Dhcp => {
                assert_eq!((ip.dhcp, ip.auto_route_metric), (Some(true), Some(48)));
                // A lease must not be frozen into a static address.
                assert!(addresses.is_empty() && routes.is_empty(), "{policy:?}");
            }
            Source::Static => {
                assert_eq!(addresses[0].ip.to_string(), "192.0.2.10");
                assert_eq!(routes.len(), 1);
                assert_eq!(routes[0].next_hop_iface.as_deref(), Some("br-ex"));
                assert_eq!(routes[0].next_hop_addr.as_deref(), Some("192.0.2.1"));
                assert_eq!(routes[0].metric, Some(48));
                let dns = state.dns.as_ref().unwrap().config.as_ref().unwrap();
                assert_eq!(dns.server.as_deref().unwrap(), ["192.0.2.53"]);
            }
        }
        let lower = state.interfaces.iter().find(|it| it.name() == uplink(shape)).unwrap();
        assert!(lower.base_iface().ipv4.as_ref().is_some_and(|ip| !ip.enabled), "{policy:?}");
    }
}

#[test]
fn each_policy_keeps_the_rules_with_and_without_a_node() {
    for (shape, source) in every() {
        let document = Document::parse(
            Policy { shape, source, families: Families::V4 }.document().unwrap().as_bytes(),
        );
        let findings = check(&document, &ClusterFacts::default());
        assert!(findings.is_empty(), "{shape:?} {source:?}: {findings:?}");
        let current = Some(node(shape, source));
        let findings = check(&document, &ClusterFacts { current, ..ClusterFacts::default() });
        assert!(findings.is_empty(), "{shape:?} {source:?}: {findings:?}");
    }
}

#[test]
fn a_policy_for_another_shape_finds_nothing_and_reports_it() {
    for (shape, source) in every() {
        for other in Shape::ALL.into_iter().filter(|other| *other != shape) {
            // A VLAN on a bond is a VLAN.
            if (other, shape) == (Shape::Vlan, Shape::VlanOnBond) {
                continue;
            }
            let policy = Policy { shape: other, source, families: Families::V4 };
            let around =
                ClusterFacts { current: Some(node(shape, source)), ..ClusterFacts::default() };
            let findings = check(&Document::parse(policy.document().unwrap().as_bytes()), &around);
            let rules: Vec<_> =
                findings.iter().map(|it| (it.rule.to_string(), it.severity)).collect();
            assert_eq!(rules, [("B35".to_owned(), Severity::Error)], "{policy:?} on {shape:?}");
        }
    }
}

#[test]
fn the_policy_for_a_node_is_found_from_its_state() {
    for (shape, source) in every() {
        let policy = Policy::of_node(&node(shape, source)).unwrap();
        assert_eq!(policy, Policy { shape, source, families: Families::V4 });
    }
}

#[test]
fn several_default_routes_are_an_error_that_names_them() {
    let mut current = node(Shape::Nic, Source::Dhcp);
    let routes = current.routes.running.as_mut().unwrap();
    let mut second = routes[0].clone();
    second.next_hop_iface = Some("eth1".to_owned());
    second.metric = Some(50);
    routes.push(second);
    let error = Policy::of_node(&current).unwrap_err().to_string();
    assert_eq!(
        error,
        "the node has 2 default routes: through eth1 via 192.0.2.1, metric 50; through eth0 via \
         192.0.2.1, metric 100. A policy uses the first one that it finds, whatever its metric; name the \
         uplink, for example `topology nic --uplink eth1`"
    );
    // A policy that is used there all the same is warned about.
    let policy = Policy { shape: Shape::Nic, source: Source::Dhcp, families: Families::V4 };
    let around = ClusterFacts { current: Some(current), ..ClusterFacts::default() };
    let findings = check(&Document::parse(policy.document().unwrap().as_bytes()), &around);
    let output: Vec<&str> = findings.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(
        output,
        ["capture `default-route` finds 2 routes.running (eth0, eth1), and the first is used"]
    );
}

#[test]
fn a_node_that_has_the_bridge_or_no_uplink_gets_no_policy() {
    let mut current = node(Shape::Nic, Source::Dhcp);
    current.routes.running.as_mut().unwrap()[0].next_hop_iface = Some("br-ex".to_owned());
    let output = |state: &NetworkState| Policy::of_node(state).unwrap_err().to_string();
    assert!(output(&current).starts_with("the node's default route goes through br-ex already"));
    current.routes.running = None;
    assert!(output(&current).starts_with("the node has no default route"));
}
