//! What a difference means for a node and its cluster, and why.

use std::collections::BTreeSet;
use std::fmt;

use br_ex::layout::Family;
use serde_json::Value;

use crate::address::nets;
use crate::difference::{Difference, Subject};
use crate::stack::{below_br_ex, uplinks};
use crate::state::{Basis, State, members, switch};

/// How much a change requires; later classes require more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// No interruption.
    Hitless,
    /// The node is off the network for seconds.
    Interruption,
    /// The whole cluster takes part, by a separate procedure.
    ClusterProcedure,
    /// One node at a time, drained; ovnkube restarts.
    Disruptive,
    /// Not to be done on a node that runs.
    Forbidden,
}

/// A difference and its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    pub difference: Difference,
    pub class: Class,
    pub why: String,
}

/// What ovnkube's packets need above the cluster network's own size.
const HEADER_V4: u64 = 58;
const HEADER_V6: u64 = 78;

/// The MTU of an interface without an explicit one.
const USUAL_MTU: u64 = 1500;

/// What classes are decided by.
pub(super) struct Context<'a> {
    old: &'a State,
    new: &'a State,
    below: BTreeSet<String>,
    cluster_mtu: Option<u64>,
}

type Verdict = (Class, String);

fn verdict(class: Class, why: &str) -> Verdict {
    (class, why.to_owned())
}

impl<'a> Context<'a> {
    pub(super) fn new(old: &'a State, new: &'a State, cluster_mtu: Option<u32>) -> Self {
        let mut below = below_br_ex(old);
        below.extend(below_br_ex(new));
        Self { old, new, below, cluster_mtu: cluster_mtu.map(u64::from) }
    }

    pub(super) fn classify(&self, difference: Difference) -> Classified {
        let (class, why) = match &difference.subject {
            Subject::Interface { name, kind } => self.interface(name, kind, &difference),
            Subject::Route(_) => self.route(&difference),
            Subject::Dns => verdict(Class::Hitless, "name servers are changed at once"),
            Subject::Section(name) => section(name, &difference),
        };
        Classified { difference, class, why }
    }

    fn interface(&self, name: &str, kind: &str, difference: &Difference) -> Verdict {
        let is_br_ex = name == br_ex::BRIDGE;
        let first = difference.field.first().map(String::as_str);
        if first == Some("state") || (difference.field.is_empty() && difference.new.is_none()) {
            return self.presence(name, kind, difference);
        }
        match (is_br_ex, kind) {
            _ if matches!(first, Some("description" | "lldp")) => {
                verdict(Class::Hitless, "it carries no traffic")
            }
            (true, "ovs-bridge") => self.bridge(difference),
            (true, _) => self.port(difference),
            (false, _) if self.below.contains(name) => self.uplink(name, kind, difference),
            (false, _) => verdict(Class::Hitless, "br-ex does not use it"),
        }
    }

    /// Up, down, absent, or no longer mentioned.
    fn presence(&self, name: &str, kind: &str, difference: &Difference) -> Verdict {
        let is_up = difference.new.as_ref().and_then(Value::as_str) == Some("up");
        if name == br_ex::BRIDGE && matches!(kind, "ovs-bridge" | "ovs-interface") {
            return match is_up {
                true => {
                    verdict(Class::Disruptive, "br-ex is recreated, and ovnkube restarts with it")
                }
                false => verdict(Class::Forbidden, "without br-ex the node has no network"),
            };
        }
        let stays = below_br_ex(self.new).contains(name);
        match (self.below.contains(name), stays, is_up) {
            (true, true, false) if !difference.field.is_empty() => {
                verdict(Class::Forbidden, "br-ex is on top of it")
            }
            (true, false, _) => verdict(Class::Disruptive, "br-ex used it and gets another uplink"),
            _ => verdict(Class::Hitless, "br-ex does not use it"),
        }
    }

    /// The ovs-bridge br-ex.
    fn bridge(&self, difference: &Difference) -> Verdict {
        let field: Vec<&str> = difference.field.iter().map(String::as_str).collect();
        match field.as_slice() {
            [] => verdict(Class::Disruptive, "the bridge is recreated, and ovnkube must find it"),
            ["bridge", "options", "mcast-snooping-enable"]
            | ["bridge", "allow-extra-patch-ports"] => {
                verdict(Class::Hitless, "ovnkube's flows do not depend on it")
            }
            ["bridge", "port" | "ports", port, ..] => self.bridge_port(port, difference),
            ["bridge", "options", ..] => verdict(
                Class::Disruptive,
                "Open vSwitch may forget all flows, and ovnkube writes them again after its start",
            ),
            ["ovs-db", "external_ids", "bridge-uplink"] => {
                verdict(Class::Disruptive, "ovnkube learns its uplink only when it starts")
            }
            ["ovs-db", _, key, ..] if key.starts_with("ovn-") && difference.new.is_none() => {
                verdict(Class::Forbidden, "ovnkube keeps its settings there")
            }
            ["ovs-db", ..] => verdict(Class::Hitless, "ovnkube does not read it"),
            ["ipv4" | "ipv6", ..] => verdict(Class::Hitless, "a bridge has no addresses"),
            ["mtu"] => verdict(Class::Hitless, "nmstate gives bridges no MTU"),
            ["profile-name"] => verdict(Class::Interruption, "NetworkManager recreates it"),
            _ => verdict(Class::Disruptive, "it is not known that br-ex survives it"),
        }
    }

    fn bridge_port(&self, port: &str, difference: &Difference) -> Verdict {
        if port == br_ex::BRIDGE && difference.new.is_none() {
            return verdict(
                Class::Forbidden,
                "the port with the node's address has no bridge then",
            );
        }
        let (before, after) = (uplinks(self.old), uplinks(self.new));
        match before.contains(port) || after.contains(port) {
            true => verdict(
                Class::Disruptive,
                "the uplink is another one; ovnkube's flows name its port, and it restarts",
            ),
            false => verdict(Class::Interruption, "a port of br-ex changes"),
        }
    }

    /// The ovs-interface br-ex, which has the node's address.
    fn port(&self, difference: &Difference) -> Verdict {
        let field: Vec<&str> = difference.field.iter().map(String::as_str).collect();
        match field.as_slice() {
            [] => verdict(Class::Disruptive, "the port with the node's address is recreated"),
            ["mtu"] => self.mtu(difference),
            ["mac-address"] | ["copy-mac-from"] => {
                verdict(Class::Disruptive, "ovnkube, switches and DHCP use the old MAC address")
            }
            ["ipv4", rest @ ..] => self.family(Family::V4, rest, difference),
            ["ipv6", rest @ ..] => self.family(Family::V6, rest, difference),
            ["profile-name"] | ["ethtool", ..] => {
                verdict(Class::Interruption, "NetworkManager takes the port up again")
            }
            _ => verdict(Class::Disruptive, "it is not known that br-ex survives it"),
        }
    }

    fn family(&self, family: Family, field: &[&str], difference: &Difference) -> Verdict {
        let is_on = |state: &State| {
            let port = state.internal_port();
            port.is_some_and(|port| switch(port, family.key(), "enabled") == Some(true))
        };
        match (is_on(self.old), is_on(self.new)) {
            (true, false) => {
                let why = "the node loses an address that the cluster uses for it";
                return verdict(Class::Forbidden, why);
            }
            (false, true) => {
                let why = "a second family of addresses is a conversion of the whole cluster to \
                           dual stack";
                return verdict(Class::ClusterProcedure, why);
            }
            (false, false) => return verdict(Class::Hitless, "the family is off"),
            (true, true) => {}
        }
        let turned_on = difference.new.as_ref().and_then(Value::as_bool) == Some(true);
        match field {
            ["address", net] => self.address(family, net, difference),
            ["dhcp" | "autoconf"] => self.automatic(family, difference),
            ["auto-gateway"] if !turned_on && !has_way_out(self.new, family) => {
                verdict(Class::Forbidden, "the node loses its default route")
            }
            ["auto-dns"] => verdict(Class::Hitless, "name servers are changed at once"),
            ["auto-route-metric" | "auto-routes" | "auto-gateway" | "auto-route-table-id"] => {
                verdict(Class::Interruption, "routes are recreated")
            }
            [
                "dhcp-client-id"
                | "dhcp-duid"
                | "addr-gen-mode"
                | "dhcp-send-hostname"
                | "dhcp-custom-hostname",
            ] => verdict(Class::Interruption, "a new lease is requested"),
            _ => verdict(Class::Interruption, "NetworkManager takes the port up again"),
        }
    }

    fn address(&self, family: Family, net: &str, difference: &Difference) -> Verdict {
        if difference.new.is_none() {
            return match net.ends_with("/32") || net.ends_with("/128") {
                true => verdict(
                    Class::Interruption,
                    "a virtual or egress address; the program that added it adds it again",
                ),
                false => verdict(
                    Class::Forbidden,
                    "it may be the address that the cluster uses for the node",
                ),
            };
        }
        let port = self.old.internal_port();
        let had = port.map(|port| nets(port, family)).unwrap_or_default();
        match had.iter().any(|had| had.to_string() == net) {
            true => verdict(Class::Interruption, "the address stays; where it comes from changes"),
            false => verdict(Class::Hitless, "ovnkube follows further addresses while it runs"),
        }
    }

    /// DHCP on or off. The address must stay, and only the node's own state can show that.
    fn automatic(&self, family: Family, difference: &Difference) -> Verdict {
        let turned_on = difference.new.as_ref().and_then(Value::as_bool) == Some(true);
        if turned_on {
            return verdict(
                Class::Forbidden,
                "a lease may be another address than the node has now",
            );
        }
        let wanted = self.new.internal_port().map(|port| nets(port, family)).unwrap_or_default();
        let has = self.old.internal_port().map(|port| nets(port, family)).unwrap_or_default();
        match self.old.basis {
            Basis::Node if wanted.iter().any(|net| has.contains(net)) => verdict(
                Class::Interruption,
                "the leased address becomes a static one and stays the same",
            ),
            Basis::Node => verdict(Class::Forbidden, "the node has another address now"),
            Basis::Document => verdict(
                Class::Forbidden,
                "the address may change; give the node's state with --from to have it compared",
            ),
        }
    }

    /// NICs, bonds, VLANs and bridges that br-ex is built on.
    fn uplink(&self, name: &str, kind: &str, difference: &Difference) -> Verdict {
        let field: Vec<&str> = difference.field.iter().map(String::as_str).collect();
        match field.as_slice() {
            [] => verdict(Class::Disruptive, "br-ex gets another uplink"),
            ["mtu"] => self.mtu(difference),
            ["link-aggregation", "port" | "ports", ..] => self.members(kind, difference),
            ["link-aggregation", "mode"] => verdict(
                Class::Interruption,
                "the links are renegotiated; the switch must support the mode",
            ),
            ["link-aggregation", ..] => {
                verdict(Class::Interruption, "the bond may drop its links for a moment")
            }
            ["ethernet", "sr-iov", ..] => {
                verdict(Class::Disruptive, "virtual functions go away while their number changes")
            }
            ["ethernet" | "ethtool", ..] => {
                verdict(Class::Interruption, "the link may be recreated")
            }
            // Seen on Open vSwitch: the port of a VLAN that is taken up again has another number.
            ["vlan", "ingress-qos-map" | "egress-qos-map", ..]
                if uplinks(self.new).contains(name) =>
            {
                verdict(
                    Class::Disruptive,
                    "NetworkManager takes the VLAN up again, and Open vSwitch gives its port another \
                     number; ovnkube's flows name the old one until it restarts",
                )
            }
            ["vlan", "ingress-qos-map" | "egress-qos-map", ..] => {
                verdict(Class::Interruption, "NetworkManager takes the VLAN up again")
            }
            ["vlan", ..] | ["mac-address"] | ["copy-mac-from"] => verdict(
                Class::Disruptive,
                "br-ex leaves the node another way than its neighbours know",
            ),
            ["patch", ..] | ["bridge", ..] => {
                verdict(Class::Disruptive, "br-ex leaves the node through it")
            }
            ["ipv4" | "ipv6", ..] => {
                verdict(Class::Interruption, "NetworkManager activates it again")
            }
            ["profile-name"] => verdict(Class::Interruption, "NetworkManager activates it again"),
            _ => verdict(Class::Disruptive, "it is not known that br-ex survives it"),
        }
    }

    fn members(&self, kind: &str, difference: &Difference) -> Verdict {
        let Subject::Interface { name, .. } = &difference.subject else {
            return verdict(Class::Disruptive, "br-ex gets another uplink");
        };
        let links = |state: &State| -> BTreeSet<String> {
            let bond = state.interface(name, kind).and_then(|it| it.get("link-aggregation"));
            bond.map(members).unwrap_or_default().into_iter().collect()
        };
        match links(self.old).is_disjoint(&links(self.new)) {
            true => verdict(Class::Disruptive, "no link of the bond stays"),
            false => verdict(Class::Interruption, "another link of the bond stays up meanwhile"),
        }
    }

    fn mtu(&self, difference: &Difference) -> Verdict {
        let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_u64);
        let (mut old, new) = (number(&difference.old), number(&difference.new));
        // What a document does not set is the factory default of NICs.
        if self.old.basis == Basis::Document {
            old = old.or(Some(USUAL_MTU));
        }
        let Some(new) = new else {
            return verdict(Class::Hitless, "nothing is requested, so it does not change");
        };
        let has_v6 = self
            .new
            .internal_port()
            .is_some_and(|port| switch(port, "ipv6", "enabled") == Some(true));
        let header = if has_v6 { HEADER_V6 } else { HEADER_V4 };
        match (old, self.cluster_mtu) {
            (_, Some(cluster)) if new < cluster + header => (
                Class::Forbidden,
                format!(
                    "ovnkube does not start below {} with a cluster network of {cluster}; lower \
                     that one first",
                    cluster + header,
                ),
            ),
            (Some(old), _) if new >= old => verdict(
                Class::Interruption,
                "larger frames have no effect on others; the switches must carry them, and NICs may reset",
            ),
            (_, Some(_)) => verdict(Class::Interruption, "the cluster network still fits"),
            (_, None) => verdict(
                Class::ClusterProcedure,
                "the cluster network may no longer fit; give --cluster-mtu to have it compared",
            ),
        }
    }

    fn route(&self, difference: &Difference) -> Verdict {
        let Subject::Route(route) = &difference.subject else {
            return verdict(Class::Interruption, "routes are recreated");
        };
        let family = if route.destination.contains(':') { Family::V6 } else { Family::V4 };
        let is_gone = difference.field.is_empty() && difference.new.is_none();
        match (route.is_way_out(), is_gone) {
            (true, true) if !has_way_out(self.new, family) => {
                verdict(Class::Forbidden, "the node loses its default route")
            }
            (true, _) => verdict(Class::Interruption, "the uplink of the node is recreated"),
            (false, false) if difference.field.is_empty() => {
                verdict(Class::Hitless, "other traffic keeps its way")
            }
            (false, _) => verdict(Class::Interruption, "what went there takes another way"),
        }
    }
}

/// Whether a default route leaves by br-ex, static or from the network.
fn has_way_out(state: &State, family: Family) -> bool {
    let is_static = state.routes.keys().any(|route| {
        route.is_way_out() && route.destination.contains(':') == (family == Family::V6)
    });
    let from_network = state.internal_port().is_some_and(|port| {
        let on = |key| switch(port, family.key(), key) == Some(true);
        (on("dhcp") || on("autoconf")) && switch(port, family.key(), "auto-gateway") != Some(false)
    });
    is_static || from_network
}

fn section(name: &str, difference: &Difference) -> Verdict {
    let keys_of_ovn = |value: &Value| value.to_string().contains("ovn-");
    match name {
        "ovs-db"
            if difference.path().contains("ovn-")
                || difference.old.as_ref().is_some_and(keys_of_ovn) =>
        {
            verdict(Class::Forbidden, "ovnkube finds its databases by these keys")
        }
        "ovs-db" => verdict(Class::Interruption, "a setting of all of Open vSwitch"),
        "ovn"
            if difference
                .old
                .as_ref()
                .is_none_or(|old| old.as_array().is_some_and(Vec::is_empty)) =>
        {
            verdict(Class::Hitless, "further networks are mapped to a bridge")
        }
        "ovn" => verdict(Class::Disruptive, "pods on mapped networks may lose them"),
        "hostname" => verdict(Class::Forbidden, "the cluster identifies the node by its name"),
        "description" => verdict(Class::Hitless, "it carries no traffic"),
        _ => verdict(Class::Interruption, "routing decisions change"),
    }
}

impl Class {
    /// How long, and whom it hits.
    pub fn outage(self) -> &'static str {
        match self {
            Self::Hitless => "none",
            Self::Interruption => "seconds on each node, one after the other; connections survive",
            Self::ClusterProcedure => "two rolling reboots of all nodes",
            Self::Disruptive => {
                "minutes on each node, which is drained before, one after the other"
            }
            Self::Forbidden => "the node would leave the cluster",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hitless => "hitless",
            Self::Interruption => "short interruption",
            Self::ClusterProcedure => "cluster procedure",
            Self::Disruptive => "disruptive",
            Self::Forbidden => "forbidden",
        })
    }
}
