//! MTUs that are larger than that of the underlying interface. The kernel rejects such an MTU, or
//! silently reduces it, and nmstate detects that when the change is made; here it is reported
//! before anything is changed.

use nmstate::{Interface, InterfaceState, InterfaceType, NetworkState};

/// The MTU that the kernel gives a bond by default.
const NEW_BOND: u64 = 1500;

/// The first MTU of `desired` that a node with the state `current` cannot have.
pub(crate) fn misfit(desired: &NetworkState, current: &NetworkState) -> Option<String> {
    let mut wanted: Vec<&Interface> = desired.interfaces.iter().collect();
    wanted.sort_unstable_by_key(|interface| interface.name());
    wanted.into_iter().find_map(|interface| {
        let is_to_go = matches!(
            interface.base_iface().state,
            InterfaceState::Absent | InterfaceState::Down | InterfaceState::Ignore
        );
        let mtu = interface.base_iface().mtu.filter(|_| !is_to_go)?;
        let name = interface.name();
        if let Some((below, has)) =
            base(interface).and_then(|base| Some((base, mtu_of(base, desired, current)?)))
            && mtu > has
        {
            return Some(format!(
                "{name} needs an MTU of {mtu}, but {below} below it has {has}; raise that one in \
                 the same policy, or lower this one"
            ));
        }
        let (port, most) = ports(interface)
            .into_iter()
            .filter_map(|port| Some((port, most_of(port, current)?)))
            .find(|(_, most)| mtu > *most)?;
        Some(format!(
            "{name} needs an MTU of {mtu}, but its port {port} supports {most} at most; lower it, \
             or take another port"
        ))
    })
}

/// The underlying interface, if the MTU is limited by it.
fn base(interface: &Interface) -> Option<&str> {
    match interface {
        Interface::Vlan(it) => it.vlan.as_ref()?.base_iface.as_deref(),
        Interface::MacVlan(it) => Some(&it.mac_vlan.as_ref()?.base_iface),
        Interface::MacVtap(it) => Some(&it.mac_vtap.as_ref()?.base_iface),
        _ => None,
    }
}

/// A bond sets its MTU on its ports. Ports of a bridge keep theirs.
fn ports(interface: &Interface) -> Vec<&str> {
    let mut ports = match interface {
        Interface::Bond(_) => interface.ports().unwrap_or_default(),
        _ => Vec::new(),
    };
    ports.sort_unstable();
    ports
}

/// The MTU that an interface will have, none if that is unknown.
fn mtu_of(name: &str, desired: &NetworkState, current: &NetworkState) -> Option<u64> {
    let (wanted, there) = (find(name, desired), find(name, current));
    let mtu = |interface: &Interface| interface.base_iface().mtu;
    let is_new_bond =
        there.is_none() && wanted.is_some_and(|it| it.iface_type() == InterfaceType::Bond);
    wanted.and_then(mtu).or(there.and_then(mtu)).or(is_new_bond.then_some(NEW_BOND))
}

/// The largest MTU that an interface can have, as reported by its driver.
fn most_of(name: &str, current: &NetworkState) -> Option<u64> {
    find(name, current)?.base_iface().max_mtu
}

/// The link of this name. A bridge of Open vSwitch may have the same name, and is not a link.
fn find<'a>(name: &str, state: &'a NetworkState) -> Option<&'a Interface> {
    state.interfaces.iter().find(|it| it.name() == name && !matches!(it, Interface::OvsBridge(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "
interfaces:
- {name: eth1, type: ethernet, state: up, mtu: 1500, max-mtu: 9216}
- {name: eth2, type: ethernet, state: up, mtu: 1500, max-mtu: 1500}
- name: bond0
  type: bond
  state: up
  mtu: 9000
  link-aggregation: {mode: active-backup, port: [eth1]}
";

    fn rejected(desired: &str) -> Option<String> {
        let state = |yaml: &str| NetworkState::new_from_yaml(yaml).unwrap();
        misfit(&state(&format!("interfaces:\n{desired}")), &state(NODE))
    }

    const VLAN: &str =
        "- {name: v, type: vlan, state: up, mtu: 9001, vlan: {base-iface: bond0, id: 7}}\n";

    #[test]
    fn an_upper_interface_cannot_have_a_larger_mtu() {
        assert_eq!(
            rejected(VLAN).unwrap(),
            "v needs an MTU of 9001, but bond0 below it has 9000; raise that one in the same \
             policy, or lower this one"
        );
        assert!(rejected(&VLAN.replace("9001", "9000")).is_none());
        let macvlan = "- {name: m, type: mac-vlan, state: up, mtu: 9001, mac-vlan: {base-iface: eth1, mode: bridge, promiscuous: true}}";
        assert!(rejected(macvlan).unwrap().contains("eth1 below it has 1500"));
    }

    #[test]
    fn the_same_policy_may_raise_what_is_below() {
        let bond = "- {name: bond0, type: bond, state: up, mtu: 9100, link-aggregation: {mode: active-backup, port: [eth1]}}\n";
        assert_eq!(rejected(&[VLAN, bond].concat()), None);
    }

    #[test]
    fn a_new_bond_has_the_default_mtu_unless_configured() {
        let bond = "- {name: bond1, type: bond, state: up, link-aggregation: {mode: active-backup, port: [eth2]}}\n";
        let vlan = VLAN.replace("bond0", "bond1");
        assert!(rejected(&[&vlan, bond].concat()).unwrap().contains("bond1 below it has 1500"));
        assert_eq!(rejected(&[&vlan.replace("9001", "1500"), bond].concat()), None);
    }

    #[test]
    fn a_bond_can_carry_what_all_its_ports_can() {
        let bond = "- {name: bond0, type: bond, state: up, mtu: 9000, link-aggregation: {mode: active-backup, port: [eth1, eth2]}}\n";
        assert_eq!(
            rejected(bond).unwrap(),
            "bond0 needs an MTU of 9000, but its port eth2 supports 1500 at most; lower it, or \
             take another port"
        );
        assert_eq!(rejected(&bond.replace(", eth2", "")), None);
    }

    #[test]
    fn removed_and_unknown_interfaces_are_not_reported() {
        assert_eq!(rejected(&VLAN.replace("state: up", "state: absent")), None);
        assert_eq!(rejected(&VLAN.replace("bond0", "captured0")), None);
    }
}
