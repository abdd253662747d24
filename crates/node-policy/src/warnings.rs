//! Parts of a desired state that have no effect: nmstate ignores them. They do not stop a policy. Each
//! node reports them when it compares the policy with its network, and a condition of the policy names
//! them, separate from errors, before any node is changed.

use std::collections::{BTreeMap, BTreeSet};

use nmstate_api::{NetworkDocument, Warning};
use serde_json::Value;

/// Warnings that a message contains, and the nodes that it names for each.
const MOST_WARNINGS: usize = 3;
const MOST_NODES: usize = 3;
/// Warnings that a node reports.
const MOST_REPORTED: usize = 10;
/// What has no effect while a family is disabled.
const IP_SETTINGS: [&str; 3] = ["address", "dhcp", "autoconf"];

/// Warnings about a desired state. Values that nodes or captures fill in are unknown, and cause none.
pub fn warnings(desired: &NetworkDocument) -> Vec<Warning> {
    let interfaces = desired.0.get("interfaces").and_then(Value::as_array);
    let mut found = Vec::new();
    for (index, interface) in interfaces.into_iter().flatten().enumerate() {
        let text = |key: &str| interface.get(key).and_then(Value::as_str);
        // Other settings of an interface that is removed do not matter.
        if text("state") == Some("absent") {
            continue;
        }
        let name = text("name").unwrap_or("the interface");
        for family in ["ipv4", "ipv6"] {
            let Some(ip) = interface.get(family) else { continue };
            let path = format!("interfaces[{index}].{family}");
            match ip.get("enabled") == Some(&Value::Bool(false)) {
                true => found.extend(disabled(ip, &path, name)),
                false => found.extend(link_local(ip, &path, name)),
            }
        }
    }
    found
}

/// Settings of a family that is disabled.
fn disabled(ip: &Value, path: &str, name: &str) -> Vec<Warning> {
    let is_set = |key: &&str| match ip.get(*key) {
        Some(Value::Array(list)) => !list.is_empty(),
        Some(value) => *value == Value::Bool(true),
        None => false,
    };
    let warning = |key: &str| Warning {
        path: format!("{path}.{key}"),
        reason: format!("it has no effect on {name}, where `enabled` is false"),
    };
    IP_SETTINGS.into_iter().filter(is_set).map(warning).collect()
}

/// Addresses that the kernel assigns itself.
fn link_local(ip: &Value, path: &str, name: &str) -> Vec<Warning> {
    let addresses = ip.get("address").and_then(Value::as_array).into_iter().flatten();
    let is_link_local = |address: &Value| {
        let text = address.get("ip").and_then(Value::as_str).unwrap_or_default();
        let parsed = text.parse::<std::net::Ipv6Addr>();
        parsed.is_ok_and(|address| address.is_unicast_link_local())
    };
    addresses
        .enumerate()
        .filter(|(_, address)| is_link_local(address))
        .map(|(index, _)| Warning {
            path: format!("{path}.address[{index}]"),
            reason: format!("nmstate ignores link-local addresses of {name}"),
        })
        .collect()
}

/// Warnings about a desired state on one node: our own, and those in `messages`, which nmstate wrote
/// when it read the state and compared it with the node.
pub fn with_messages(desired: &NetworkDocument, messages: &[String]) -> Vec<Warning> {
    let mut found = warnings(desired);
    found.extend(messages.iter().filter_map(|message| of_nmstate(desired, message)));
    let mut seen = BTreeSet::new();
    found.retain(|warning| seen.insert(warning.clone()));
    found.truncate(MOST_REPORTED);
    found
}

/// A message of nmstate as a warning. None if it is about the node rather than the desired state, or
/// if our own warning has the exact path.
fn of_nmstate(desired: &NetworkDocument, message: &str) -> Option<Warning> {
    if message.starts_with("Ignoring IPv6 link local address") {
        return None;
    }
    Some(Warning { path: path(desired, message)?, reason: message.to_owned() })
}

/// The part of a desired state that a message of nmstate is about: it names the interface in some
/// messages, and quotes the setting in others. None if neither is in the desired state.
pub fn path(desired: &NetworkDocument, message: &str) -> Option<String> {
    let section =
        |section: &str| desired.0.contains_key(section).then(|| format!("{section}.config"));
    if message.starts_with("Route rule") || message.contains("route rule") {
        return section("route-rules");
    }
    if message.starts_with("Route ") {
        return section("routes");
    }
    let interfaces = desired.0.get("interfaces").and_then(Value::as_array)?;
    let words: BTreeSet<&str> =
        message.split(|it: char| !is_of_name(it)).map(|word| word.trim_end_matches('.')).collect();
    let is_named = |interface: &Value| {
        interface.get("name").and_then(Value::as_str).is_some_and(|name| words.contains(name))
    };
    if let Some(index) = interfaces.iter().position(is_named) {
        return Some(format!("interfaces[{index}]"));
    }
    let setting = message.split('`').nth(1).and_then(|it| it.split(':').next())?;
    let families = interfaces.iter().enumerate().flat_map(|(index, interface)| {
        ["ipv4", "ipv6"].map(|family| (index, family, interface.get(family)))
    });
    let has_it = |it: &Option<&Value>| it.is_some_and(|ip| ip.get(setting).is_some());
    let (index, family, _) = { families }.find(|(_, _, ip)| has_it(ip))?;
    Some(format!("interfaces[{index}].{family}.{setting}"))
}

/// An error with the part of the desired state that it is about, if that is known.
pub fn located(desired: &NetworkDocument, message: &str) -> String {
    match path(desired, message) {
        Some(path) => format!("{path}: {message}"),
        None => message.to_owned(),
    }
}

/// Whether a character may be part of the name of an interface.
fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '.' | '-' | '_' | '@')
}

/// The warnings of all nodes for a condition: nodes, path and reason of each. None without any.
/// `matching` is the number of nodes of the policy.
pub(crate) fn sentence(
    by_node: &BTreeMap<String, Vec<Warning>>,
    matching: usize,
) -> Option<String> {
    let mut nodes: BTreeMap<&Warning, Vec<&str>> = BTreeMap::new();
    for (node, warnings) in by_node {
        for warning in warnings {
            nodes.entry(warning).or_default().push(node);
        }
    }
    if nodes.is_empty() {
        return None;
    }
    let total = nodes.len();
    let told = |(warning, nodes): (&&Warning, &Vec<&str>)| {
        format!("{}: {}: {}", names(nodes, matching), warning.path, warning.reason)
    };
    let mut list: Vec<String> = nodes.iter().take(MOST_WARNINGS).map(told).collect();
    match total.saturating_sub(MOST_WARNINGS) {
        0 => {}
        1 => list.push("and 1 more warning".to_owned()),
        more => list.push(format!("and {more} more warnings")),
    }
    Some(list.join("; "))
}

/// Nodes in a message.
fn names(nodes: &[&str], matching: usize) -> String {
    if nodes.len() == matching && matching > 1 {
        return format!("all {matching} nodes");
    }
    let first = nodes.iter().take(MOST_NODES).copied().collect::<Vec<_>>().join(", ");
    match nodes.len().saturating_sub(MOST_NODES) {
        0 => first,
        1 => format!("{first} and 1 more node"),
        more => format!("{first} and {more} more nodes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(desired: &str) -> Vec<String> {
        let desired: NetworkDocument = serde_saphyr::from_str(desired).unwrap();
        warnings(&desired).into_iter().map(|it| it.path).collect()
    }

    #[test]
    fn what_has_no_effect_is_named_with_its_path() {
        let disabled = "
interfaces:
- {name: eth0, type: ethernet, state: up}
- name: eth1
  type: ethernet
  state: up
  ipv4: {enabled: false, dhcp: true, address: [{ip: 192.0.2.1, prefix-length: 24}]}
  ipv6: {enabled: false, dhcp: false, autoconf: false, address: []}
";
        assert_eq!(found(disabled), ["interfaces[1].ipv4.address", "interfaces[1].ipv4.dhcp"]);
        let link_local = "
interfaces:
- name: eth1
  ipv6:
    enabled: true
    address: [{ip: '2001:db8::1', prefix-length: 64}, {ip: 'FE80::1', prefix-length: 64}]
";
        assert_eq!(found(link_local), ["interfaces[0].ipv6.address[1]"]);
    }

    #[test]
    fn what_has_an_effect_or_is_not_known_yet_causes_no_warning() {
        for desired in [
            "interfaces: '{{ capture.all.interfaces }}'",
            "interfaces: [{name: eth1, state: absent, ipv4: {enabled: false, dhcp: true}}]",
            "interfaces: [{name: eth1, ipv6: {enabled: true, address: [{ip: '{{ values.ip }}', prefix-length: 64}]}}]",
            "interfaces: [{name: eth1, ipv4: {enabled: '{{ values.on }}', dhcp: true}}]",
            "dns-resolver: {config: {server: [192.0.2.1]}}",
        ] {
            assert_eq!(found(desired), [""; 0], "{desired}");
        }
    }

    fn warning(path: &str) -> Warning {
        Warning { path: path.to_owned(), reason: "why".to_owned() }
    }

    #[test]
    fn warnings_of_nmstate_have_the_path_in_the_policy() {
        let desired: NetworkDocument = serde_saphyr::from_str(
            "
interfaces:
- {name: eth1, type: ethernet, state: up}
- {name: eth1.30, type: vlan, state: absent, mtu: 1400, vlan: {base-iface: eth1, id: 30}}
- {name: eth2, type: ethernet, ipv4: {enabled: true, dhcp: false, dhcp-client-id: ll}}
routes: {config: [{destination: 192.0.2.7/24, next-hop-interface: eth1}]}
",
        )
        .unwrap();
        let paths = |messages: &[&str]| -> Vec<String> {
            let messages: Vec<String> = messages.iter().map(ToString::to_string).collect();
            with_messages(&desired, &messages).into_iter().map(|it| it.path).collect()
        };
        assert_eq!(
            paths(&[
                "Ignoring properties [\"mtu\"] of absent interface \"eth1.30\"",
                "Ignoring `dhcp-client-id` setting when DHCPv4 is disabled",
                "Route destination 192.0.2.7/24 sanitized to 192.0.2.0/24",
                "Route destination 192.0.2.7/24 sanitized to 192.0.2.0/24",
            ]),
            ["interfaces[1]", "interfaces[2].ipv4.dhcp-client-id", "routes.config"]
        );
        let about_the_node = ["Setting unknown type interface eth9 to ethernet", "Unknown error"];
        assert_eq!(paths(&about_the_node), [""; 0]);
    }

    /// nmstate itself says what it ignores, when it reads a state.
    #[test]
    fn nmstate_warns_about_settings_of_an_absent_interface() {
        let desired: NetworkDocument = serde_saphyr::from_str(
            "interfaces: [{name: eth1.30, type: vlan, state: absent, vlan: {base-iface: eth1, id: 30}}]",
        )
        .unwrap();
        let (state, messages) = crate::nmstate_messages::collect(|| {
            serde_json::from_value::<nmstate::NetworkState>(desired.to_value())
        });
        assert!(state.is_ok());
        let warnings = with_messages(&desired, &messages);
        let [warning] = &warnings[..] else { panic!("{messages:?}") };
        assert_eq!(warning.path, "interfaces[0]");
        assert!(warning.reason.contains("absent interface"), "{}", warning.reason);
    }

    #[test]
    fn an_error_has_the_path_in_the_policy() {
        let desired: NetworkDocument = serde_saphyr::from_str(
            "interfaces: [{name: eth1, type: ethernet}, {name: bond0, type: bond}]",
        )
        .unwrap();
        let of = |message: &str| located(&desired, message);
        let message = "Bond mode is mandatory for new bond interface: bond0";
        assert_eq!(of(message), format!("interfaces[1]: {message}"));
        assert_eq!(of("Unknown port of eth1."), "interfaces[0]: Unknown port of eth1.");
        assert_eq!(of("no such file"), "no such file");
    }

    #[test]
    fn a_sentence_names_the_nodes_and_does_not_grow_with_them() {
        let of = |nodes: &[&str], warnings: &[Warning]| -> BTreeMap<String, Vec<Warning>> {
            nodes.iter().map(|node| ((*node).to_owned(), warnings.to_vec())).collect()
        };
        assert_eq!(sentence(&BTreeMap::new(), 3), None);
        assert_eq!(sentence(&of(&["a"], &[]), 3), None);
        let one = sentence(&of(&["a"], &[warning("p")]), 3);
        assert_eq!(one.as_deref(), Some("a: p: why"));
        let all = sentence(&of(&["a", "b"], &[warning("p")]), 2);
        assert_eq!(all.as_deref(), Some("all 2 nodes: p: why"));
        let some = sentence(&of(&["a", "b", "c", "d", "e"], &[warning("p")]), 9);
        assert_eq!(some.as_deref(), Some("a, b, c and 2 more nodes: p: why"));
        let many: Vec<Warning> = (0..5).map(|index| warning(&format!("p[{index}]"))).collect();
        let many = sentence(&of(&["a"], &many), 1).unwrap();
        assert!(many.ends_with("a: p[2]: why; and 2 more warnings"), "{many}");
    }
}
