//! The interfaces below br-ex, as a picture: NIC → bond → VLAN → br-ex, with MTU, MAC address, addresses
//! and routes of each layer. A tree for terminals, and a drawing for SVG.

use std::collections::{BTreeMap, BTreeSet};

use br_ex::layout::{BridgePort, Family, Interface, Ip, Layout, Route};
use br_ex::uplink::below;
use drawing::{Drawing, Edge, Emphasis, Node, Role};
use nmstate::InterfaceType;

/// The layers of a document or a node's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    layers: Vec<Layer>,
    /// The layers at the top, br-ex first.
    tops: Vec<usize>,
}

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Layer {
    name: String,
    kind: String,
    /// Settings of the link: mode, VLAN, MTU, MAC address.
    link: Vec<String>,
    /// Addresses and routes.
    network: Vec<String>,
    /// The layers below it.
    below: Vec<usize>,
}

/// The name of an interface and whether it is a bridge: a bridge and its port share a name.
type Key<'a> = (&'a str, bool);

impl Picture {
    pub fn of(layout: &Layout<'_>) -> Self {
        let mut keys: Vec<Key<'_>> = Vec::new();
        let mut layers = Vec::new();
        for iface in layout.interfaces.iter().filter(|iface| !iface.is_absent()) {
            let key = (iface.name.value, iface.kind == InterfaceType::OvsBridge);
            let layer = Layer::of(iface, layout);
            // The later one of two descriptions counts, as it does for nmstate.
            match keys.iter().position(|known| *known == key) {
                Some(place) => layers[place] = layer,
                None => {
                    keys.push(key);
                    layers.push(layer);
                }
            }
        }
        let mut picture = Self { layers, tops: Vec::new() };
        for iface in layout.interfaces.iter().filter(|iface| !iface.is_absent()) {
            picture.connect(iface, layout, &mut keys);
        }
        let carried: BTreeSet<usize> =
            picture.layers.iter().flat_map(|layer| layer.below.clone()).collect();
        picture.tops = (0..picture.layers.len()).filter(|it| !carried.contains(it)).collect();
        let is_br_ex = |place: &usize| !picture.layers[*place].name.starts_with(br_ex::BRIDGE);
        let mut tops = std::mem::take(&mut picture.tops);
        tops.sort_by_key(|place| (is_br_ex(place), *place));
        picture.tops = tops;
        picture
    }

    fn connect<'a>(&mut self, iface: &Interface<'a>, layout: &Layout<'a>, keys: &mut Vec<Key<'a>>) {
        let is_bridge = iface.kind == InterfaceType::OvsBridge;
        let own = (iface.name.value, is_bridge);
        let mut lower: Vec<Key<'a>> = below(iface).iter().map(|it| (it.value, false)).collect();
        if is_bridge {
            let ports = iface.bridge_ports();
            let members = ports.iter().flat_map(BridgePort::members);
            let members = members.filter(|member| {
                let port = layout.find(member.value, &InterfaceType::OvsInterface);
                // Its own port is above the bridge, a patch port is shown with the other bridge.
                member.value != iface.name.value && port.is_none_or(|it| it.patch_peer().is_some())
            });
            lower.extend(members.map(|member| (member.value, false)));
        }
        if iface.kind == InterfaceType::OvsInterface {
            // The port that is named like a bridge, or is listed by one, is above it.
            let is_owner = |bridge: &&Interface<'a>| {
                let ports = bridge.bridge_ports();
                bridge.name.value == iface.name.value
                    || ports.iter().any(|port| port.name.value == iface.name.value)
            };
            match iface.patch_peer() {
                None => {
                    lower.extend(layout.bridges().find(is_owner).map(|it| (it.name.value, true)));
                }
                // From br-ex the way leads through the patch to the other bridge.
                Some(peer) => {
                    let is_behind = |bridge: &&Interface<'a>| {
                        bridge.bridge_ports().iter().any(|port| port.name.value == peer.value)
                    };
                    let behind = layout.bridges().find(is_behind);
                    let is_uplink =
                        behind.is_some_and(|it| !it.name.value.starts_with(br_ex::BRIDGE));
                    lower.extend(behind.filter(|_| is_uplink).map(|it| (it.name.value, true)));
                }
            }
        }
        let Some(place) = keys.iter().position(|key| *key == own) else { return };
        for key in lower {
            let target = keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                // Mentioned and not described.
                keys.push(key);
                self.layers.push(Layer::mentioned(key.0));
                self.layers.len() - 1
            });
            // The return path through a patch is not a layer.
            let is_loop = self.reaches(target, place);
            if !is_loop && !self.layers[place].below.contains(&target) {
                self.layers[place].below.push(target);
            }
        }
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        let mut waiting = vec![from];
        let mut seen = BTreeSet::new();
        while let Some(place) = waiting.pop() {
            if place == to {
                return true;
            }
            if seen.insert(place) {
                waiting.extend(&self.layers[place].below);
            }
        }
        false
    }

    /// A tree, from the top.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for top in &self.tops {
            self.branch(*top, "", "", &mut text);
        }
        text
    }

    /// The tree of br-ex and its like alone.
    pub fn br_ex_text(&self) -> String {
        let mut text = String::new();
        let is_bridge = |top: &&usize| self.layers[**top].name.starts_with(br_ex::BRIDGE);
        for top in self.tops.iter().filter(is_bridge) {
            self.branch(*top, "", "", &mut text);
        }
        text
    }

    fn branch(&self, place: usize, first: &str, rest: &str, text: &mut String) {
        let layer = &self.layers[place];
        text.push_str(&format!("{first}{}\n", layer.title()));
        let stem = if layer.below.is_empty() { "  " } else { "│ " };
        for line in &layer.network {
            text.push_str(&format!("{rest}{stem}{line}\n"));
        }
        for (number, lower) in layer.below.iter().enumerate() {
            let (tip, more) = match number + 1 == layer.below.len() {
                true => ("└─ ", "   "),
                false => ("├─ ", "│  "),
            };
            self.branch(*lower, &format!("{rest}{tip}"), &format!("{rest}{more}"), text);
        }
    }

    /// Columns from the NICs to br-ex.
    pub fn drawing(&self, title: &str) -> Drawing {
        let mut nodes = Vec::new();
        let mut edges = Vec::new();
        let mut ranks: BTreeMap<usize, usize> = BTreeMap::new();
        for place in 0..self.layers.len() {
            self.rank(place, &mut ranks);
        }
        for (place, layer) in self.layers.iter().enumerate() {
            let facts: Vec<&str> =
                layer.link.iter().chain(&layer.network).map(String::as_str).collect();
            nodes.push(Node {
                label: [&[layer.name.as_str()], facts.as_slice()].concat().join(" · "),
                detail: [&[layer.name.as_str(), &layer.kind], facts.as_slice()].concat().join("\n"),
                rank: ranks.get(&place).copied().unwrap_or_default(),
                lane: place,
                role: match (layer.name == br_ex::BRIDGE, layer.below.is_empty()) {
                    (true, _) => Role::Goal,
                    (false, true) => Role::Start,
                    (false, false) => Role::Plain,
                },
                emphasis: Emphasis::Normal,
            });
            for lower in &layer.below {
                edges.push(Edge {
                    from: *lower,
                    to: place,
                    emphasis: Emphasis::Normal,
                    label: String::new(),
                });
            }
        }
        Drawing { title: title.to_owned(), lanes: Vec::new(), nodes, edges }
    }

    /// How many layers are below.
    fn rank(&self, place: usize, ranks: &mut BTreeMap<usize, usize>) -> usize {
        if let Some(rank) = ranks.get(&place) {
            return *rank;
        }
        let lower = self.layers[place].below.iter().map(|it| self.rank(*it, ranks) + 1);
        let rank = lower.max().unwrap_or(0);
        ranks.insert(place, rank);
        rank
    }
}

impl Layer {
    fn of(iface: &Interface<'_>, layout: &Layout<'_>) -> Self {
        let name = iface.name.value;
        let is_bridge = iface.kind == InterfaceType::OvsBridge;
        let network = if is_bridge { Vec::new() } else { network(iface, layout) };
        Self {
            name: name.to_owned(),
            kind: iface.kind.to_string(),
            link: link(iface),
            network,
            below: Vec::new(),
        }
    }

    fn mentioned(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: "not described".to_owned(),
            link: Vec::new(),
            network: Vec::new(),
            below: Vec::new(),
        }
    }

    fn title(&self) -> String {
        let mut title = format!("{} ({})", self.name, self.kind);
        for fact in &self.link {
            title.push_str(&format!(", {fact}"));
        }
        title
    }
}

fn link(iface: &Interface<'_>) -> Vec<String> {
    let mut facts = Vec::new();
    if !iface.is_up() {
        facts.push("not up".to_owned());
    }
    if let Some(bond) = iface.node.get("link-aggregation") {
        facts.extend(bond.get("mode").and_then(|mode| mode.text()).map(str::to_owned));
        let options = bond.get("options").map(|options| options.entries()).unwrap_or_default();
        facts.extend(
            options
                .iter()
                .filter_map(|option| Some(format!("{}={}", option.key, option.value.text()?))),
        );
    }
    if let Some(id) =
        iface.node.get("vlan").and_then(|vlan| vlan.get("id")).and_then(|id| id.text())
    {
        facts.push(format!("VLAN {id}"));
    }
    for port in iface.bridge_ports() {
        let mode = port.node.get("link-aggregation").and_then(|bond| bond.get("mode"));
        facts.extend(mode.and_then(|mode| mode.text()).map(|mode| format!("bond {mode}")));
    }
    facts.extend(iface.patch_peer().map(|peer| format!("patch to {}", peer.value)));
    facts.extend(iface.mtu().map(|mtu| format!("MTU {}", mtu.value)));
    facts.extend(iface.text("mac-address").map(|mac| format!("MAC {}", mac.value)));
    facts.extend(iface.text("copy-mac-from").map(|source| format!("MAC of {}", source.value)));
    facts
}

fn network(iface: &Interface<'_>, layout: &Layout<'_>) -> Vec<String> {
    let mut facts = Vec::new();
    for ip in iface.ips().filter(|ip| ip.is_enabled()) {
        facts.extend(automatic(ip));
        facts.extend(ip.addresses.iter().map(|address| address.net.to_string()));
    }
    let own =
        layout.routes.iter().filter(|route| route.is_via(iface.name.value) && !route.is_absent);
    facts.extend(own.filter_map(route));
    facts
}

fn automatic(ip: &Ip<'_>) -> Option<String> {
    if ip.is_captured {
        return Some(format!("{} as captured on the node", ip.family));
    }
    let is_on = |key: &str| ip.switch(key) == Some(true);
    let source = match (ip.family, is_on("dhcp"), is_on("autoconf")) {
        (Family::V4, true, _) => "DHCP",
        (Family::V6, true, true) => "DHCPv6 and router advertisements",
        (Family::V6, true, false) => "DHCPv6",
        (Family::V6, false, true) => "router advertisements",
        _ => return None,
    };
    let metric = ip.metric().map(|metric| format!(", metric {metric}")).unwrap_or_default();
    Some(format!("{} by {source}{metric}", ip.family))
}

fn route(route: &Route<'_>) -> Option<String> {
    let gateway = route.gateway.map(|it| format!(" via {}", it.value)).unwrap_or_default();
    let metric = route.metric.map(|it| format!(" metric {it}")).unwrap_or_default();
    Some(format!("route {}{gateway}{metric}", route.destination?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use br_ex::Document;

    fn picture(text: &str) -> Picture {
        Picture::of(&Document::parse(text.as_bytes()).layout().unwrap())
    }

    const VLAN_ON_BOND: &str = "\
interfaces:
- {name: eno1, type: ethernet, state: up, mtu: 9000}
- name: bond0
  type: bond
  state: up
  mtu: 9000
  link-aggregation: {mode: 802.3ad, options: {miimon: '100'}, port: [eno1, eno2]}
- {name: bond0.7, type: vlan, state: up, vlan: {base-iface: bond0, id: 7}}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge: {port: [{name: bond0.7}, {name: br-ex}]}
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: eno1
  ipv4: {enabled: true, address: [{ip: 192.0.2.10, prefix-length: 24}]}
  ipv6: {enabled: true, autoconf: true, auto-route-metric: 48}
- {name: eno9, type: ethernet, state: up}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: br-ex, metric: 48}
";

    #[test]
    fn the_tree_leads_from_br_ex_down_to_the_nics() {
        let expected = "\
br-ex (ovs-interface), MAC of eno1
│ 192.0.2.10/24
│ IPv6 by router advertisements, metric 48
│ route 0.0.0.0/0 via 192.0.2.1 metric 48
└─ br-ex (ovs-bridge)
   └─ bond0.7 (vlan), VLAN 7
      └─ bond0 (bond), 802.3ad, miimon=100, MTU 9000
         ├─ eno1 (ethernet), MTU 9000
         └─ eno2 (not described)
eno9 (ethernet)
";
        assert_eq!(picture(VLAN_ON_BOND).text(), expected);
    }

    #[test]
    fn a_patch_leads_to_the_bridge_with_the_nics_and_not_back() {
        let text = "\
interfaces:
- {name: br-ex, type: ovs-bridge, bridge: {port: [{name: p1}, {name: br-ex}]}}
- {name: br-ex, type: ovs-interface}
- name: br-phy
  type: ovs-bridge
  bridge:
    port: [{name: p2}, {name: ob, link-aggregation: {mode: balance-slb, port: [{name: eno1}, {name: eno2}]}}]
- {name: p1, type: ovs-interface, patch: {peer: p2}}
- {name: p2, type: ovs-interface, patch: {peer: p1}}
";
        let tree = picture(text).text();
        let start = "\
br-ex (ovs-interface)
└─ br-ex (ovs-bridge)
   └─ p1 (ovs-interface), patch to p2
      └─ br-phy (ovs-bridge), bond balance-slb
";
        assert!(tree.starts_with(start), "{tree}");
        assert!(tree.contains("eno1 (not described)") && tree.contains("eno2"), "{tree}");
    }

    #[test]
    fn the_drawing_has_a_column_for_each_layer() {
        let drawing = picture(VLAN_ON_BOND).drawing("worker-0");
        let rank = |label: &str| {
            drawing.nodes.iter().find(|node| node.label.starts_with(label)).unwrap().rank
        };
        assert_eq!((rank("eno1"), rank("bond0 "), rank("bond0.7"), rank("br-ex")), (0, 1, 2, 3));
        assert!(drawing.svg().contains("route 0.0.0.0/0 via 192.0.2.1"));
    }
}
