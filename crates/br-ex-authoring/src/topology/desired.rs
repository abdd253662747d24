//! The parts of an nmstate document that topologies use, as types. nmstate's own types cannot hold
//! captures, and write more than an administrator wants to read.

use std::collections::BTreeMap;
use std::net::IpAddr;

use br_ex::layout::Family;
use ipnet::IpNet;
use serde::{Serialize, Serializer};

/// What a document describes.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Desired {
    pub(super) interfaces: Vec<Interface>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) routes: Option<Config<Vec<Route>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dns_resolver: Option<Config<Resolver>>,
}

/// A policy: what is captured on the node, and the state derived from it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Policy {
    pub(super) capture: Captures,
    #[serde(rename = "desiredState")]
    pub(super) desired: Desired,
}

/// Captures in their order: each may use those before it.
#[derive(Debug, Clone, Default)]
pub(super) struct Captures(Vec<(&'static str, String)>);

impl Captures {
    pub(super) fn add(&mut self, name: &'static str, expression: impl Into<String>) {
        self.0.push((name, expression.into()));
    }
}

impl Serialize for Captures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, expression)| (name, expression)))
    }
}

/// A value, or where the node finds it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Value<T> {
    Given(T),
    Captured(String),
}

impl<T> Value<T> {
    /// The value at this path of a capture.
    pub(super) fn captured(path: &str) -> Self {
        Self::Captured(captured(path))
    }
}

/// A reference to a path of a capture, where a text is expected.
pub(super) fn captured(path: &str) -> String {
    format!("{{{{ capture.{path} }}}}")
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Config<T> {
    pub(super) config: Value<T>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ethernet,
    Bond,
    Vlan,
    LinuxBridge,
    OvsBridge,
    OvsInterface,
}

impl Kind {
    /// The name that nmstate uses.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "ethernet",
            Self::Bond => "bond",
            Self::Vlan => "vlan",
            Self::LinuxBridge => "linux-bridge",
            Self::OvsBridge => "ovs-bridge",
            Self::OvsInterface => "ovs-interface",
        }
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// An interface. The order of fields is that of the document.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Interface {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    pub(super) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) profile_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) identifier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mac_address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) copy_mac_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mtu: Option<Value<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ipv4: Option<Value<Ip>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ipv6: Option<Value<Ip>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link_aggregation: Option<LinkAggregation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vlan: Option<Vlan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bridge: Option<Bridge>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) patch: Option<Patch>,
    #[serde(rename = "ovs-db", skip_serializing_if = "Option::is_none")]
    pub(super) ovs_db: Option<OvsDb>,
}

impl Interface {
    pub(super) fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            state: "up",
            profile_name: None,
            identifier: None,
            mac_address: None,
            copy_mac_from: None,
            mtu: None,
            ipv4: None,
            ipv6: None,
            link_aggregation: None,
            vlan: None,
            bridge: None,
            patch: None,
            ovs_db: None,
        }
    }

    /// The interface with these addresses in each family.
    pub(super) fn with_ip(mut self, ip: impl Fn(Family) -> Value<Ip>) -> Self {
        self.ipv4 = Some(ip(Family::V4));
        self.ipv6 = Some(ip(Family::V6));
        self
    }

    /// The interface without addresses.
    pub(super) fn without_ip(self) -> Self {
        self.with_ip(|_| Value::Given(Ip::disabled()))
    }

    /// Found by its MAC address, whatever its name on the node.
    pub(super) fn found_by(&mut self, mac: String) {
        self.identifier = Some("mac-address");
        self.mac_address = Some(mac);
    }
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Ip {
    enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    dhcp: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    autoconf: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_gateway: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_dns: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_route_metric: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    address: Vec<Address>,
}

impl Ip {
    pub(super) fn disabled() -> Self {
        Self::default()
    }

    fn dynamic(family: Family) -> Self {
        let autoconf = (family == Family::V6).then_some(true);
        Self { enabled: true, dhcp: Some(true), autoconf, ..Self::default() }
    }

    /// From the network, with a default route of this metric.
    pub(super) fn automatic(family: Family, metric: u32) -> Self {
        Self { auto_route_metric: Some(metric), ..Self::dynamic(family) }
    }

    /// From the network, without its default route and name servers.
    pub(super) fn without_gateway(family: Family) -> Self {
        Self { auto_gateway: Some(false), auto_dns: Some(false), ..Self::dynamic(family) }
    }

    /// These addresses, as far as they are of the family; disabled if none is.
    pub(super) fn fixed(family: Family, addresses: &[IpNet]) -> Self {
        let own = addresses.iter().filter(|it| Family::of(it.addr()) == family);
        let address: Vec<Address> = own.map(Address::from).collect();
        if address.is_empty() {
            return Self::disabled();
        }
        let autoconf = (family == Family::V6).then_some(false);
        Self { enabled: true, dhcp: Some(false), autoconf, address, ..Self::default() }
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Address {
    ip: IpAddr,
    prefix_length: u8,
}

impl From<&IpNet> for Address {
    fn from(net: &IpNet) -> Self {
        Self { ip: net.addr(), prefix_length: net.prefix_len() }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct LinkAggregation {
    pub(super) mode: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) options: BTreeMap<String, String>,
    pub(super) port: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Vlan {
    pub(super) base_iface: String,
    pub(super) id: u16,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Bridge {
    allow_extra_patch_ports: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<BridgeOptions>,
    port: Vec<Port>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
struct BridgeOptions {
    mcast_snooping_enable: bool,
}

impl Bridge {
    /// A bridge of Open vSwitch to which ovnkube may add its ports.
    pub(super) fn new(port: Vec<Port>) -> Self {
        Self { allow_extra_patch_ports: true, options: None, port }
    }

    /// The same with the setting of configure-ovs.
    pub(super) fn with_snooping(self) -> Self {
        Self { options: Some(BridgeOptions { mcast_snooping_enable: true }), ..self }
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Port {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_aggregation: Option<PortAggregation>,
}

#[derive(Debug, Clone, Serialize)]
struct PortAggregation {
    mode: &'static str,
    port: Vec<Port>,
}

impl Port {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), link_aggregation: None }
    }

    /// A balance-slb bond of Open vSwitch.
    pub(super) fn slb(name: &str, ports: impl Iterator<Item = String>) -> Self {
        let port = ports.map(Self::new).collect();
        let link_aggregation = Some(PortAggregation { mode: "balance-slb", port });
        Self { link_aggregation, ..Self::new(name) }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Patch {
    pub(super) peer: &'static str,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct OvsDb {
    pub(super) external_ids: BTreeMap<&'static str, String>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Route {
    pub(super) destination: String,
    pub(super) next_hop_address: IpAddr,
    pub(super) next_hop_interface: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metric: Option<u32>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Resolver {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) search: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) server: Vec<IpAddr>,
}
