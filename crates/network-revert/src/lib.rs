//! The state that undoes a change of a network: for the record of a change on a node, for policies with
//! revert-on-delete, and for the policy that reverts a planned change of br-ex.
//!
//! # Example
//!
//! ```
//! use nmstate::NetworkState;
//!
//! let state = |mtu| NetworkState::new_from_yaml(&format!(
//!     "interfaces: [{{name: eth1, type: ethernet, state: up, mtu: {mtu}}}]"
//! ));
//! let (before, desired) = (state(1500)?, state(9000)?);
//! let revert = network_revert::revert(&desired, &before)?;
//! assert_eq!(revert.interfaces.iter().next().unwrap().base_iface().mtu, Some(1500));
//! # Ok::<(), nmstate::NmstateError>(())
//! ```

use nmstate::{Interface, InterfaceType, Interfaces, NetworkState, NmstateError};

/// The state that restores `before` after `desired` was applied.
///
/// nmstate reverts IP settings only as far as the change names them. After a change that disables IPv4,
/// or requests an address by DHCP, it would restore an interface without its static addresses. So the
/// IP settings of an interface are restored as a whole.
///
/// # Errors
///
/// Those of nmstate, if the change does not fit the state.
#[allow(clippy::disallowed_methods, reason = "its only use; the result is completed here")]
pub fn revert(desired: &NetworkState, before: &NetworkState) -> Result<NetworkState, NmstateError> {
    let mut revert = desired.generate_revert(before)?;
    let mut interfaces = Interfaces::default();
    for interface in revert.interfaces.iter() {
        let mut interface = interface.clone();
        let former = before.interfaces.iter().find(|it| is_same(it, &interface));
        if let Some(former) = former.map(Interface::base_iface) {
            let base = interface.base_iface_mut();
            if base.ipv4.is_some() && former.ipv4.is_some() {
                base.ipv4.clone_from(&former.ipv4);
            }
            if base.ipv6.is_some() && former.ipv6.is_some() {
                base.ipv6.clone_from(&former.ipv6);
            }
        }
        interfaces.push(interface);
    }
    revert.interfaces = interfaces;
    Ok(revert)
}

/// Names are unique, but an Open vSwitch bridge and its interface may share one.
fn is_same(one: &Interface, other: &Interface) -> bool {
    let is_bridge = |it: &Interface| it.iface_type() == InterfaceType::OvsBridge;
    one.name() == other.name() && is_bridge(one) == is_bridge(other)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const BEFORE: &str = "
interfaces:
- name: bond1
  type: bond
  state: up
  ipv4: {enabled: true, dhcp: false, address: [{ip: 198.51.100.10, prefix-length: 24}]}
  ipv6: {enabled: true, dhcp: false, autoconf: false, address: [{ip: '2001:db8::10', prefix-length: 64}]}
  link-aggregation: {mode: active-backup, port: [eth0]}
- {name: eth0, type: ethernet, state: up, controller: bond1}
- {name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: br-ex}]}}
- {name: br-ex, type: ovs-interface, state: up, ipv4: {enabled: true, dhcp: true}}
";

    /// What is reverted of an interface.
    fn reverted(name: &str, desired: &str) -> Value {
        let before = NetworkState::new_from_yaml(BEFORE).unwrap();
        let desired = NetworkState::new_from_yaml(desired).unwrap();
        let revert = serde_json::to_value(revert(&desired, &before).unwrap()).unwrap();
        let interfaces = revert["interfaces"].as_array().unwrap();
        interfaces.iter().find(|it| it["name"] == name).unwrap().clone()
    }

    #[test]
    fn addresses_are_restored_whatever_a_change_names_of_the_ip_settings() {
        let address = json!([{"ip": "198.51.100.10", "prefix-length": 24}]);
        for ipv4 in ["{enabled: false}", "{enabled: true, dhcp: true}"] {
            let desired =
                format!("interfaces: [{{name: bond1, type: bond, state: up, ipv4: {ipv4}}}]");
            let bond = reverted("bond1", &desired);
            assert_eq!(bond["ipv4"]["address"], address, "{ipv4}");
            assert_eq!(bond["ipv4"]["enabled"], true);
            assert_eq!(bond["ipv4"]["dhcp"], false);
            assert!(bond["ipv6"].is_null(), "it was not changed: {bond}");
        }
        let bond = reverted(
            "bond1",
            "interfaces: [{name: bond1, type: bond, state: up, ipv6: {enabled: false}}]",
        );
        assert_eq!(bond["ipv6"]["address"][0]["ip"], "2001:db8::10");
    }

    #[test]
    fn a_bridge_does_not_get_the_settings_of_its_interface() {
        let desired = "interfaces: [{name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: br-ex}, {name: eth9}]}}]";
        let bridge = reverted("br-ex", desired);
        assert!(bridge["ipv4"].is_null(), "{bridge}");
    }
}
