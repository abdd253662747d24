//! Generated documents satisfy every rule, and nmstate creates the intended state from them.

use std::collections::BTreeMap;

use br_ex::{ClusterFacts, Document, check};
use br_ex_authoring::topology::{
    Addressing, Bond, BondMode, Families, InterfaceName, SecondAddresses, SecondBridge,
    StaticAddresses, StaticRoute, Topology, Uplink,
};
use nmstate::{Interface, InterfaceType, NetworkState};

fn name(text: &str) -> InterfaceName {
    text.parse().unwrap()
}

fn bond(mode: BondMode) -> Bond {
    Bond {
        name: name("bond0"),
        mode,
        ports: vec![name("eno1"), name("eno2")],
        options: BTreeMap::new(),
    }
}

fn uplinks() -> Vec<Uplink> {
    let id = "100".parse().unwrap();
    vec![
        Uplink::Nic(name("eno1")),
        Uplink::Bond(bond(BondMode::ActiveBackup)),
        Uplink::Bond(bond(BondMode::Lacp)),
        Uplink::Bond(bond(BondMode::BalanceXor)),
        Uplink::Vlan { base: name("eno1"), id },
        // With the number behind it this name is too long for the kernel.
        Uplink::Vlan { base: name("enp59s0f0np0"), id: "4094".parse().unwrap() },
        Uplink::VlanOnBond { bond: bond(BondMode::Lacp), id },
        Uplink::Slb { ports: vec![name("eno1"), name("eno2")] },
    ]
}

fn fixed(addresses: &[&str], gateways: &[&str]) -> Addressing {
    let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
    let gateways = gateways.iter().map(|it| it.parse().unwrap()).collect();
    let servers = vec!["192.0.2.53".parse().unwrap(), "2001:db8::53".parse().unwrap()];
    Addressing::Static(StaticAddresses::new(addresses, gateways, servers).unwrap())
}

fn addressings() -> Vec<Addressing> {
    vec![
        Addressing::Dhcp(Families::V4),
        Addressing::Dhcp(Families::V6),
        Addressing::Dhcp(Families::Both),
        fixed(&["192.0.2.10/24", "2001:db8::10/64"], &["192.0.2.1", "2001:db8::1"]),
        fixed(&["192.0.2.10/24", "2001:db8::10/64"], &["192.0.2.1", "fe80::1"]),
    ]
}

fn all() -> Vec<Topology> {
    let mut all = Vec::new();
    for uplink in uplinks() {
        for addressing in addressings() {
            for (mtu, other) in [(None, None), (Some(9000), Some(name("ens9")))] {
                all.push(Topology {
                    mtu,
                    node_ip_interface: other,
                    ..Topology::new(uplink.clone(), addressing.clone())
                });
            }
        }
    }
    all
}

#[test]
fn every_shape_keeps_every_rule() {
    for topology in all() {
        let text = topology.document().unwrap();
        let findings = check(&Document::parse(text.as_bytes()), &ClusterFacts::default());
        assert!(findings.is_empty(), "{topology:?}\n{findings:?}\n{text}");
    }
}

#[test]
fn nmstate_sees_the_bridge_its_port_and_the_uplink() {
    for topology in all() {
        let state = NetworkState::new_from_yaml(&topology.document().unwrap()).unwrap();
        let Some(Interface::OvsBridge(bridge)) =
            state.interfaces.get_iface("br-ex", InterfaceType::OvsBridge)
        else {
            panic!("no bridge in {topology:?}");
        };
        let ports = bridge.bridge.as_ref().unwrap().ports.as_ref().unwrap();
        let uplink = match &topology.uplink {
            Uplink::Nic(nic) => nic.as_str(),
            Uplink::Bond(_) => "bond0",
            Uplink::Vlan { base, .. } if base.as_str() == "eno1" => "eno1.100",
            Uplink::Vlan { .. } => "vlan4094",
            Uplink::VlanOnBond { .. } => "bond0.100",
            Uplink::Slb { .. } => "patch-ex-to-phy",
        };
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, [uplink, "br-ex"]);
        let port = state.interfaces.get_iface("br-ex", InterfaceType::OvsInterface).unwrap();
        assert_eq!(port.base_iface().mtu, topology.mtu.map(u64::from));
        assert!(port.base_iface().copy_mac_from.is_some());
    }
}

#[test]
fn what_cannot_work_is_refused() {
    let static_ = |addresses: &[&str], gateways: &[&str], servers: &[&str]| {
        StaticAddresses::new(
            addresses.iter().map(|it| it.parse().unwrap()).collect(),
            gateways.iter().map(|it| it.parse().unwrap()).collect(),
            servers.iter().map(|it| it.parse().unwrap()).collect(),
        )
        .unwrap_err()
        .to_string()
    };
    for (output, expected) in [
        (static_(&["192.0.2.10/24"], &[], &["192.0.2.1"]), "192.0.2.10/24 has no gateway"),
        (
            static_(&["192.0.2.10/24"], &["198.51.100.1"], &["192.0.2.1"]),
            "gateway 198.51.100.1 is in the subnet of no address",
        ),
        (static_(&["192.0.2.10/24"], &["192.0.2.1"], &[]), "static addresses need name servers"),
        (
            static_(&["192.0.2.0/24"], &["192.0.2.1"], &["192.0.2.1"]),
            "192.0.2.0/24 is the address of the network itself; give the host's, for example 192.0.2.1",
        ),
    ] {
        assert!(output.starts_with(expected), "{output}");
    }
    let topology = |uplink, other: Option<&str>| {
        let node_ip_interface = other.map(name);
        let addressing = Addressing::Dhcp(Families::V4);
        Topology { node_ip_interface, ..Topology::new(uplink, addressing) }.document()
    };
    let error = topology(Uplink::Slb { ports: vec![name("eno1")] }, None).unwrap_err().to_string();
    assert_eq!(error, "a bond needs two NICs or more, and eno1 was given; add another --uplink");
    let twice = Uplink::Slb { ports: vec![name("eno1"), name("eno1")] };
    assert_eq!(topology(twice, None).unwrap_err().to_string(), "eno1 is given twice");
    let error = topology(Uplink::Nic(name("eno1")), Some("eno1")).unwrap_err().to_string();
    assert!(error.starts_with("eno1 is part of the uplink"), "{error}");
}

/// Every further setting at once, on a bond with both families.
fn with_everything(addressing: Addressing, second: SecondAddresses) -> Topology {
    let mut bond = bond(BondMode::Lacp);
    bond.options = BTreeMap::from([("lacp_rate".to_owned(), "fast".to_owned())]);
    Topology {
        mtu: Some(9000),
        node_ip_interface: Some(name("eno7")),
        search: vec!["example.com".to_owned(), "cluster.example.com".to_owned()],
        routes: vec![
            StaticRoute {
                destination: "198.51.100.0/24".parse().unwrap(),
                gateway: "192.0.2.254".parse().unwrap(),
            },
            StaticRoute {
                destination: "2001:db8:1::/64".parse().unwrap(),
                gateway: "2001:db8::fe".parse().unwrap(),
            },
        ],
        profile_names: true,
        macs: BTreeMap::from([
            (name("eno1"), "52:54:00:00:00:01".parse().unwrap()),
            (name("eno9"), "52:54:00:00:00:09".parse().unwrap()),
        ]),
        second: Some(SecondBridge { nic: name("eno9"), addresses: second }),
        ..Topology::new(Uplink::VlanOnBond { bond, id: "100".parse().unwrap() }, addressing)
    }
}

#[test]
fn every_further_setting_is_in_the_document_and_keeps_every_rule() {
    let dual = fixed(&["192.0.2.10/24", "2001:db8::10/64"], &["192.0.2.1", "2001:db8::1"]);
    let second = SecondAddresses::Static {
        addresses: vec!["203.0.113.10/24".parse().unwrap(), "2001:db8:9::10/64".parse().unwrap()],
        gateways: vec!["203.0.113.1".parse().unwrap()],
    };
    for (addressing, second) in [
        (dual.clone(), second.clone()),
        (Addressing::Dhcp(Families::Both), SecondAddresses::Dhcp(Families::Both)),
        (Addressing::Dhcp(Families::Both), second),
        (dual, SecondAddresses::Dhcp(Families::V6)),
    ] {
        let topology = with_everything(addressing, second);
        let text = topology.document().unwrap();
        let document = Document::parse(text.as_bytes());
        let findings = check(&document, &ClusterFacts::default());
        assert!(findings.is_empty(), "{findings:?}\n{text}");
        let state = document.state().unwrap();
        let json = serde_json::to_value(state).unwrap();
        let iface = |name: &str, kind: &str| {
            let list = json["interfaces"].as_array().unwrap().iter();
            let mut found = list.filter(|it| it["name"] == name && it["type"] == kind);
            found.next().unwrap_or_else(|| panic!("{name}: {text}")).clone()
        };
        assert_eq!(iface("br-ex", "ovs-interface")["profile-name"], "ovs-if-br-ex");
        assert_eq!(iface("bond0.100", "vlan")["profile-name"], "ovs-if-phys0");
        assert_eq!(iface("bond0", "bond")["link-aggregation"]["options"]["lacp_rate"], "fast");
        assert_eq!(iface("eno1", "ethernet")["identifier"], "mac-address");
        assert_eq!(iface("br-ex1", "ovs-bridge")["bridge"]["port"][0]["name"], "eno9");
        // The interface of the node's address has the families of br-ex, and no default route.
        for family in ["ipv4", "ipv6"] {
            let section = &iface("eno7", "ethernet")[family];
            assert_eq!(
                (&section["enabled"], &section["auto-gateway"]),
                (&true.into(), &false.into())
            );
        }
        assert_eq!(json["dns-resolver"]["config"]["search"][0], "example.com");
        let routes = json["routes"]["config"].as_array().unwrap();
        assert!(routes.iter().any(|it| it["destination"] == "2001:db8:1::/64"), "{routes:?}");
    }
}

#[test]
fn further_settings_that_cannot_be_are_refused() {
    let plain = || Topology::new(Uplink::Nic(name("eno1")), Addressing::Dhcp(Families::V4));
    let second = |nic: &str| {
        Some(SecondBridge { nic: name(nic), addresses: SecondAddresses::Dhcp(Families::V4) })
    };
    let mac = BTreeMap::from([(name("eno5"), "52:54:00:00:00:01".parse().unwrap())]);
    let route = StaticRoute {
        destination: "198.51.100.0/24".parse().unwrap(),
        gateway: "2001:db8::1".parse().unwrap(),
    };
    for (topology, expected) in [
        (Topology { second: second("eno1"), ..plain() }, "eno1 is part of the uplink of br-ex"),
        (
            Topology { macs: mac, ..plain() },
            "eno5 has a MAC address and is not part of the document",
        ),
        (Topology { routes: vec![route], ..plain() }, "gateway 2001:db8::1 of the route to"),
        (Topology { search: vec!["a b".to_owned()], ..plain() }, "\"a b\" is not a domain"),
    ] {
        let error = topology.document().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert!("52:54:00".parse::<machine_identity::Mac>().is_err());
}
