//! From a br-ex that configure-ovs guessed to the user's own document, made of what the node has.

use br_ex::layout::Family;
use br_ex::node_state::NodeState;
use ipnet::IpNet;
use machine_config::{Encoding, File, MachineConfig, NameError, Role, yaml};
use nmstate::NetworkState;
use serde_json::{Map, Value, json};

use crate::address::{is_masquerade, nets, to_json};
use crate::stack::{below_br_ex, uplinks};
use crate::state::{Basis, State, StateError, switch, text};

/// What br-ex gets its routes with, so that they win over those of other interfaces.
const METRIC: u64 = 48;
/// A file that no policy covers, so that its change reboots a node.
const REBOOT_FILE: &str = "/etc/force-reboot";
/// Options of a bond that are a choice.
const BOND_OPTIONS: [&str; 10] = [
    "miimon",
    "updelay",
    "downdelay",
    "arp_interval",
    "arp_ip_target",
    "arp_validate",
    "lacp_rate",
    "xmit_hash_policy",
    "primary",
    "fail_over_mac",
];
/// Table of the routes that do not name one.
const MAIN_TABLE: i64 = 254;

#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("the state has no name of a node; give a NodeNetworkState object")]
    NoName,
    #[error("{0} has no ovs-bridge br-ex; has ovnkube started there?")]
    NoBridge(String),
    #[error("br-ex of {node} has {}; expected exactly one", uplinks_text(.found))]
    Uplinks { node: String, found: Vec<String> },
    #[error(
        "br-ex of {0}: expected an ethernet interface below it, found none; replace a team by a bond, \
         which NMState supports, or write the document with `oc-brex init`"
    )]
    NoNic(String),
    #[error(
        "br-ex of {0}: expected an address with a subnet, found none; addresses with /32 or /128 are \
         virtual or egress addresses. Write the document with `oc-brex init --static`"
    )]
    NoAddress(String),
    #[error("nmstate refuses the document for {node}: {why}")]
    Refused { node: String, why: String },
    #[error(transparent)]
    State(#[from] StateError),
    #[error("writing the document for {node} as YAML")]
    Write { node: String, source: yaml::WriteError },
}

fn uplinks_text(found: &[String]) -> String {
    match found {
        [] => "no uplink".to_owned(),
        several => format!("several uplinks ({})", several.join(", ")),
    }
}

/// A document for a node that has its br-ex from configure-ovs.
#[derive(Debug, Clone)]
pub struct Migration {
    pub node: String,
    /// The document, for `<host>.yml`.
    pub text: String,
    /// What nmstate would apply to have the old state again.
    pub way_back: Option<String>,
    /// What was left out on purpose.
    pub notes: Vec<String>,
}

/// The document that makes of a node what it is now.
pub fn migrate(node: &NodeState) -> Result<Migration, MigrateError> {
    let name = node.name.clone().ok_or(MigrateError::NoName)?;
    let state = State::new(&node.state, Basis::Node)?;
    if state.interface(br_ex::BRIDGE, "ovs-bridge").is_none() {
        return Err(MigrateError::NoBridge(name));
    }
    let mut notes = Vec::new();
    let found: Vec<String> =
        uplinks(&state).into_iter().filter(|port| !port.starts_with("patch-br-ex")).collect();
    let [uplink] = found.as_slice() else {
        return Err(MigrateError::Uplinks { node: name, found });
    };
    let lower = chain(uplink, &state);
    let port = state.internal_port().ok_or_else(|| MigrateError::NoAddress(name.clone()))?;
    let nic = nic_of(&lower, port).ok_or_else(|| MigrateError::NoNic(name.clone()))?;
    let mut interfaces: Vec<Value> = lower.iter().map(|it| lower_interface(it)).collect();
    interfaces.push(json!({
        "name": br_ex::BRIDGE,
        "type": "ovs-bridge",
        "state": "up",
        "bridge": {
            "allow-extra-patch-ports": true,
            "options": {"mcast-snooping-enable": true},
            "port": [{"name": uplink}, {"name": br_ex::BRIDGE}],
        },
    }));
    interfaces.push(internal_port(port, &nic, &mut notes));
    if [Family::V4, Family::V6].iter().all(|family| own_nets(port, *family).is_empty()) {
        return Err(MigrateError::NoAddress(name));
    }
    let mut desired = json!({ "interfaces": interfaces });
    let servers = state.dns.get("server").and_then(Value::as_array);
    if servers.is_some_and(|servers| !servers.is_empty()) {
        desired["dns-resolver"] = json!({ "config": state.dns });
    }
    let routes = routes(&state, port, &node.state);
    if !routes.is_empty() {
        desired["routes"] = json!({ "config": routes });
    }
    let wanted = NetworkState::new_from_json(&desired.to_string())
        .map_err(|error| MigrateError::Refused { node: name.clone(), why: error.msg().into() })?;
    let written = |value: &Value| {
        yaml::document(value).map_err(|source| MigrateError::Write { node: name.clone(), source })
    };
    let back = network_revert::revert(&wanted, &node.state).ok();
    let back = back.and_then(|state| serde_json::to_value(state).ok());
    Ok(Migration {
        text: written(&desired)?,
        way_back: back.as_ref().map(written).transpose()?,
        node: name,
        notes,
    })
}

/// The uplink and all below it, the uplink first.
fn chain<'a>(uplink: &str, state: &'a State) -> Vec<&'a Map<String, Value>> {
    let names = below_br_ex(state);
    let mut interfaces: Vec<&Map<String, Value>> = names
        .iter()
        .filter(|name| !name.starts_with("patch-"))
        .filter_map(|name| state.kernel_interface(name))
        .collect();
    interfaces.sort_by_key(|it| (text(it, "name") != uplink, text(it, "type") == "ethernet"));
    interfaces
}

/// The NIC that has the MAC address of br-ex, else the first one.
fn nic_of(lower: &[&Map<String, Value>], port: &Map<String, Value>) -> Option<String> {
    let nics = || lower.iter().filter(|it| matches!(text(it, "type"), "ethernet" | "veth"));
    let mac = text(port, "mac-address");
    let of_mac = nics().find(|it| {
        let has = |key| text(it, key).eq_ignore_ascii_case(mac);
        has("permanent-mac-address") || has("mac-address")
    });
    of_mac.or_else(|| nics().next()).map(|it| text(it, "name").to_owned())
}

/// What is a choice of an interface below br-ex; addresses are not its own.
fn lower_interface(interface: &Map<String, Value>) -> Value {
    let mut kept = json!({
        "name": text(interface, "name"),
        "type": text(interface, "type"),
        "state": "up",
    });
    if let Some(mtu) = interface.get("mtu") {
        kept["mtu"] = mtu.clone();
    }
    if let Some(bond) = interface.get("link-aggregation") {
        let mut section = json!({ "mode": bond.get("mode"), "port": bond.get("port") });
        let mode = text_of(bond, "mode");
        let chosen = |key: &&str| {
            let value = bond.get("options").and_then(|options| options.get(*key));
            let is_none = |value: &&Value| match value {
                Value::Null | Value::Bool(false) => true,
                Value::Number(number) => number.as_u64() == Some(0),
                Value::String(text) => matches!(text.as_str(), "" | "none" | "0"),
                _ => false,
            };
            value.filter(|value| !is_none(value)).cloned()
        };
        for key in BOND_OPTIONS.into_iter().filter(|key| is_option_of(mode, key)) {
            if let Some(value) = chosen(&key) {
                section["options"][key] = value;
            }
        }
        kept["link-aggregation"] = section;
    }
    if let Some(vlan) = interface.get("vlan") {
        kept["vlan"] = json!({ "base-iface": vlan.get("base-iface"), "id": vlan.get("id") });
    }
    if text(interface, "type") == "linux-bridge" {
        let ports = interface.get("bridge").and_then(|bridge| bridge.get("port"));
        let ports = ports.and_then(Value::as_array).into_iter().flatten();
        let ports: Vec<Value> = ports.map(|port| json!({ "name": port.get("name") })).collect();
        kept["bridge"] = json!({ "port": ports });
    }
    kept["ipv4"] = json!({ "enabled": false });
    kept["ipv6"] = json!({ "enabled": false });
    kept
}

fn text_of<'a>(section: &'a Value, key: &str) -> &'a str {
    section.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a bond of this mode has an option. The kernel reports all options with every mode; nmstate
/// and NetworkManager refuse those that the mode does not have.
fn is_option_of(mode: &str, option: &str) -> bool {
    match option {
        "lacp_rate" => mode == "802.3ad",
        "primary" => matches!(mode, "active-backup" | "balance-tlb" | "balance-alb"),
        "fail_over_mac" => mode == "active-backup",
        "xmit_hash_policy" => matches!(mode, "802.3ad" | "balance-xor" | "balance-tlb"),
        "arp_interval" | "arp_ip_target" | "arp_validate" => {
            !matches!(mode, "802.3ad" | "balance-tlb" | "balance-alb")
        }
        _ => true,
    }
}

/// Addresses that are the node's: neither ovnkube's nor a virtual one that moves between nodes.
fn own_nets(port: &Map<String, Value>, family: Family) -> Vec<IpNet> {
    let is_own = |net: &IpNet| !is_masquerade(*net) && net.prefix_len() != net.max_prefix_len();
    nets(port, family).into_iter().filter(is_own).collect()
}

fn internal_port(port: &Map<String, Value>, nic: &str, notes: &mut Vec<String>) -> Value {
    let mut kept = json!({
        "name": br_ex::BRIDGE,
        "type": "ovs-interface",
        "state": "up",
        "copy-mac-from": nic,
    });
    if let Some(mtu) = port.get("mtu") {
        kept["mtu"] = mtu.clone();
    }
    for family in Family::BOTH {
        let on = |key| switch(port, family.key(), key) == Some(true);
        let is_automatic = on("dhcp") || on("autoconf");
        let own = own_nets(port, family);
        let section = if on("enabled") && is_automatic {
            // nmstate does not support autoconf without DHCP, and NetworkManager runs both as one.
            let mut section = json!({ "enabled": true, "dhcp": true });
            if family == Family::V6 {
                section["autoconf"] = json!(on("autoconf"));
            }
            for key in ["dhcp-client-id", "dhcp-duid", "addr-gen-mode", "auto-dns"] {
                if let Some(value) = port.get(family.key()).and_then(|it| it.get(key)) {
                    section[key] = value.clone();
                }
            }
            for key in ["auto-gateway", "auto-routes"] {
                if switch(port, family.key(), key) == Some(false) {
                    section[key] = json!(false);
                }
            }
            section["auto-route-metric"] = json!(METRIC);
            section
        } else if on("enabled") && !own.is_empty() {
            let addresses: Vec<Value> = own.iter().map(|net| to_json(*net)).collect();
            json!({ "enabled": true, "dhcp": false, "address": addresses })
        } else {
            json!({ "enabled": false })
        };
        kept[family.key()] = section;
        for net in
            nets(port, family).into_iter().filter(|net| net.prefix_len() == net.max_prefix_len())
        {
            notes.push(format!(
                "{} is left out: an address for one host alone is a virtual or egress address, which \
                 moves between nodes",
                net.addr(),
            ));
        }
    }
    kept
}

/// Static routes by br-ex. A static default route that only the kernel has is taken from there.
fn routes(state: &State, port: &Map<String, Value>, node: &NetworkState) -> Vec<Value> {
    let mut kept: Vec<Map<String, Value>> = state
        .routes
        .iter()
        .filter(|(key, _)| key.interface == br_ex::BRIDGE)
        .map(|(_, route)| route.clone())
        .collect();
    for family in Family::BOTH {
        let on = |key| switch(port, family.key(), key) == Some(true);
        let is_static = on("enabled") && !on("dhcp") && !on("autoconf");
        let has = kept.iter().any(|route| text(route, "destination") == family.default_route());
        if !is_static || has || own_nets(port, family).is_empty() {
            continue;
        }
        let running = serde_json::to_value(node).unwrap_or_default();
        let running = running.pointer("/routes/running").and_then(Value::as_array).cloned();
        let default = running.unwrap_or_default().into_iter().find_map(|route| match route {
            Value::Object(route)
                if text(&route, "destination") == family.default_route()
                    && text(&route, "next-hop-interface") == br_ex::BRIDGE =>
            {
                Some(route)
            }
            _ => None,
        });
        kept.extend(default);
    }
    let tidy = |route: Map<String, Value>| {
        let mut tidy = json!({
            "destination": text(&route, "destination"),
            "next-hop-interface": br_ex::BRIDGE,
        });
        if !text(&route, "next-hop-address").is_empty() {
            tidy["next-hop-address"] = json!(text(&route, "next-hop-address"));
        }
        let table = route.get("table-id").and_then(Value::as_i64);
        if let Some(table) = table.filter(|table| *table > 0 && *table != MAIN_TABLE) {
            tidy["table-id"] = json!(table);
        }
        let is_default = Family::of_default_route(text(&route, "destination")).is_some()
            && tidy.get("table-id").is_none();
        match (is_default, route.get("metric").and_then(Value::as_i64)) {
            (true, _) => tidy["metric"] = json!(METRIC),
            (false, Some(metric)) if metric > 0 => tidy["metric"] = json!(metric),
            _ => {}
        }
        tidy
    };
    kept.into_iter().map(tidy).collect()
}

/// The MachineConfig that reboots the nodes of a pool one by one: documents alone do not.
pub fn force_reboot(role: &Role) -> Result<MachineConfig, NameError> {
    let name = format!("99-br-ex-force-reboot-{role}").parse()?;
    let mut config = MachineConfig::new(name, role.clone());
    if let Ok(path) = REBOOT_FILE.parse() {
        let text = b"Changed to reboot once, so that br-ex is made of its document.\n";
        config.files.push(File::new(path, text, Encoding::Plain));
    }
    Ok(config)
}
