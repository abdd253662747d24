//! Parts of a desired state that have no effect: nmstate ignores them. They do not stop a policy; its
//! conditions name them, beside errors, before any node is changed.

use nmstate_api::NetworkDocument;
use serde_json::Value;

/// Warnings that a message contains.
const MOST_WARNINGS: usize = 3;
/// What has no effect while a family is disabled.
const IP_SETTINGS: [&str; 3] = ["address", "dhcp", "autoconf"];

/// A part of a desired state without an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where it is, such as `interfaces[0].ipv6.address[1]`.
    pub path: String,
    pub reason: String,
}

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

/// Warnings for a condition of a policy with this number of nodes.
pub(crate) fn sentence(warnings: &[Warning], nodes: usize) -> Option<String> {
    if warnings.is_empty() || nodes == 0 {
        return None;
    }
    let first = warnings.iter().take(MOST_WARNINGS);
    let mut list: Vec<String> = first.map(|it| format!("{}: {}", it.path, it.reason)).collect();
    if let more @ 1.. = warnings.len().saturating_sub(MOST_WARNINGS) {
        list.push(format!("and {more} more"));
    }
    let noun = if warnings.len() == 1 { "warning" } else { "warnings" };
    let nodes = if nodes == 1 { "the node".to_owned() } else { format!("all {nodes} nodes") };
    Some(format!("{noun} for {nodes}: {}", list.join("; ")))
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

    #[test]
    fn a_sentence_does_not_grow_with_the_number_of_warnings() {
        let warning = |index: usize| Warning {
            path: format!("interfaces[{index}].ipv4.dhcp"),
            reason: "why".to_owned(),
        };
        let all: Vec<Warning> = (0..5).map(warning).collect();
        assert_eq!(sentence(&[], 3), None);
        assert_eq!(sentence(&all, 0), None);
        assert_eq!(
            sentence(&all[..1], 1).as_deref(),
            Some("warning for the node: interfaces[0].ipv4.dhcp: why")
        );
        let many = sentence(&all, 3).unwrap();
        assert!(many.starts_with("warnings for all 3 nodes: interfaces[0]"), "{many}");
        assert!(many.ends_with("interfaces[2].ipv4.dhcp: why; and 2 more"), "{many}");
    }
}
