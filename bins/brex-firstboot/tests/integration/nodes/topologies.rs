//! Documents as `oc-brex topology` writes them, on nodes.

use std::net::IpAddr;

use br_ex_authoring::topology::auto::{Policy, Shape, Source};
use br_ex_authoring::topology::{Addressing, Families, Topology, Uplink};
use lab_cluster::node::{Ipv6, LanOptions, State};

use crate::nodes::bench::{assert_on_br_ex, node_with, succeed};

/// The kernel of a node in namespaces may have no Open vSwitch, and its NICs are ends of veth pairs.
fn for_the_lab(document: &str) -> String {
    let mut text = String::new();
    for line in
        document.replace("interfaces.type==\"ethernet\"", "interfaces.type==\"veth\"").lines()
    {
        text.push_str(&format!("{line}\n"));
        if let Some(indentation) = line.strip_suffix("mcast-snooping-enable: true") {
            text.push_str(&format!("{indentation}datapath: netdev\n"));
        }
    }
    assert_ne!(text, document);
    text
}

fn dual_stack() -> LanOptions {
    LanOptions {
        ipv6: Some(Ipv6::Autoconfiguration("2001:db8:1::".parse().unwrap())),
        ..LanOptions::default()
    }
}

fn global_ipv6(state: &State, interface: &str) -> Option<IpAddr> {
    let addresses = state.interfaces[interface].addresses.iter().map(|(address, _)| *address);
    addresses.into_iter().find(|it| matches!(it, IpAddr::V6(it) if !it.is_unicast_link_local()))
}

#[test]
fn auto_moves_both_families_of_the_nic_to_br_ex() {
    let policy = Policy { shape: Shape::Nic, source: Source::Dhcp, families: Families::Both };
    let node = node_with(&dual_stack(), &for_the_lab(&policy.document().unwrap()));
    let mac = node.mac(0);
    succeed(&node, &["apply", "--patience", "120"]);
    assert_on_br_ex(&node);
    let state = node.state().unwrap();
    assert!(global_ipv6(&state, "br-ex").is_some(), "{state:?}");
    assert!(state.has_default_route("br-ex", "::".parse().unwrap()), "{state:?}");
    assert_eq!(state.interfaces["br-ex"].mac.as_deref(), Some(mac.as_str()));
}

/// nodeip-configuration chose the addresses of nic0 before br-ex existed.
#[test]
fn node_ips_of_both_families_stay_on_their_interface() {
    let uplink = Uplink::Nic("nic1".parse().unwrap());
    let mut topology = Topology::new(uplink, Addressing::Dhcp(Families::Both));
    topology.node_ip_interface = Some("nic0".parse().unwrap());
    let node = node_with(&dual_stack(), &for_the_lab(&topology.document().unwrap()));
    node.wait_until("nic0 has an IPv6 address", |node| {
        Ok(global_ipv6(&node.state()?, "nic0").is_some())
    })
    .unwrap();
    let before = node.state().unwrap();
    let (v4, v6) = (before.ipv4("nic0").unwrap(), global_ipv6(&before, "nic0").unwrap());
    node.write("/run/nodeip-configuration/ipv4", format!("{v4}\n"), 0o644).unwrap();
    node.write("/run/nodeip-configuration/ipv6", format!("{v6}\n"), 0o644).unwrap();
    succeed(&node, &["apply", "--patience", "120"]);
    assert_on_br_ex(&node);
    let state = node.state().unwrap();
    assert_eq!((state.ipv4("nic0"), global_ipv6(&state, "nic0")), (Some(v4), Some(v6)));
    assert!(global_ipv6(&state, "br-ex").is_some(), "{state:?}");
    // A second default route would send responses the wrong way.
    for family in ["-4", "-6"] {
        let routes = node.succeed(&["ip", family, "route", "show", "default"]).unwrap();
        assert!(routes.contains("dev br-ex") && !routes.contains("dev nic0"), "{routes}");
    }
}
