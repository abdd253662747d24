//! What has to be saved of a change that was made in memory.

use std::collections::BTreeSet;

use nmstate::{Interface, InterfaceState, InterfaceType, Interfaces, NetworkState};

/// Names of all interfaces whose profiles a change may have replaced: those it names, and their
/// ports.
pub(crate) fn names(desired: &NetworkState) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for interface in desired.interfaces.iter() {
        names.insert(interface.name().to_owned());
        let ports = interface.ports().unwrap_or_default();
        names.extend(ports.into_iter().map(str::to_owned));
    }
    names
}

/// The change as it is applied in memory. There an interface that is to be absent is down and keeps
/// its ports, so those that the change configures are detached. The configured host name cannot be
/// applied in memory.
pub(crate) fn trial(desired: &NetworkState, before: &NetworkState) -> NetworkState {
    let absent: BTreeSet<&str> =
        desired.interfaces.iter().filter(|it| it.is_absent()).map(|it| it.name()).collect();
    let controller = |name: &str| {
        let mut all = before.interfaces.iter().filter(|it| it.name() == name);
        all.find_map(|it| it.base_iface().controller.as_deref())
    };
    let mut trial = desired.clone();
    let mut interfaces = Interfaces::default();
    for interface in desired.interfaces.iter() {
        let mut interface = interface.clone();
        let loses_controller =
            controller(interface.name()).is_some_and(|controller| absent.contains(controller));
        let base = interface.base_iface_mut();
        if loses_controller && base.controller.is_none() && base.state == InterfaceState::Up {
            base.controller = Some(String::new());
        }
        interfaces.push(interface);
    }
    trial.interfaces = interfaces;
    if let Some(hostname) = trial.hostname.as_mut() {
        hostname.config = None;
    }
    trial.set_memory_only(true);
    trial
}

/// Whether a change cannot be applied in memory. There, profiles of interfaces that are to be
/// absent remain, and those of the ports of an Open vSwitch bridge activate it again at once.
pub(crate) fn needs_disk(desired: &NetworkState, before: &NetworkState) -> bool {
    let is_bridge = |it: &&Interface| it.iface_type() == InterfaceType::OvsBridge;
    let exists =
        |name: &str| before.interfaces.iter().filter(is_bridge).any(|it| it.name() == name);
    desired.interfaces.iter().filter(is_bridge).any(|it| it.is_absent() && exists(it.name()))
}

/// The part of a change that exists on disk only: in memory, an interface that is to be absent is
/// down and keeps its profile, and the configured host name stays.
pub(crate) fn removals(desired: &NetworkState) -> Option<NetworkState> {
    let mut interfaces = Interfaces::default();
    for interface in desired.interfaces.iter().filter(|it| it.is_absent()) {
        interfaces.push(interface.clone());
    }
    let hostname = desired.hostname.clone().filter(|it| it.config.is_some());
    let is_needed = interfaces.iter().next().is_some() || hostname.is_some();
    is_needed.then(|| {
        let mut removals = NetworkState::new();
        removals.interfaces = interfaces;
        removals.hostname = hostname;
        removals
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(yaml: &str) -> NetworkState {
        NetworkState::new_from_yaml(yaml).unwrap()
    }

    #[test]
    fn profiles_of_ports_are_saved_with_their_bridge() {
        let desired = state(
            "interfaces: [{name: br0, type: linux-bridge, state: up, bridge: {port: [{name: eth1}]}}]",
        );
        assert_eq!(names(&desired).into_iter().collect::<Vec<_>>(), ["br0", "eth1"]);
        assert!(removals(&desired).is_none());
    }

    #[test]
    fn the_removal_of_an_open_vswitch_bridge_is_tried_on_disk() {
        let before = state(
            "interfaces:
- {name: br1, type: ovs-bridge, state: up, bridge: {port: [{name: eth1}]}}
- {name: br2, type: linux-bridge, state: up}",
        );
        let absent = |name: &str, kind: &str| {
            state(&format!("interfaces: [{{name: {name}, type: {kind}, state: absent}}]"))
        };
        assert!(needs_disk(&absent("br1", "ovs-bridge"), &before));
        assert!(!needs_disk(&absent("br2", "linux-bridge"), &before));
        assert!(!needs_disk(&absent("br3", "ovs-bridge"), &before), "there is none");
        assert!(!needs_disk(&before, &before));
    }

    #[test]
    fn only_what_memory_cannot_hold_is_applied_again() {
        let desired = state(
            "hostname: {config: worker-0}
interfaces:
- {name: d0, type: dummy, state: up}
- {name: d1, type: dummy, state: absent}",
        );
        let expected = state(
            "hostname: {config: worker-0}
interfaces: [{name: d1, type: dummy, state: absent}]",
        );
        assert_eq!(removals(&desired), Some(expected));
    }
}
