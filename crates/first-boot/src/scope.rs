//! What an attempt may change. A rollback restores this and nothing else: other programs configure
//! other interfaces of the node at the same time, such as nmstate.service from other files.

use std::collections::BTreeSet;

use nmstate::{Interface, InterfaceIdentifier};
use node_network::NetworkState;
use node_network::network_manager::ActiveProfile;
use serde::{Deserialize, Serialize};

use crate::profile_keys::ProfileKeys;
use machine_identity::Mac;

/// What a document may change on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scope {
    /// Interfaces that it configures, their ports, and those that its routes name.
    pub interfaces: BTreeSet<String>,
    /// MAC addresses by which it identifies interfaces.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub macs: BTreeSet<Mac>,
    #[serde(default)]
    pub hostname: bool,
    #[serde(default)]
    pub dns: bool,
}

impl Scope {
    /// The scope of a document, on a node whose state is known or not.
    pub fn of(desired: &NetworkState, before: Option<&NetworkState>) -> Self {
        let mut interfaces = BTreeSet::new();
        let mut macs = BTreeSet::new();
        for interface in desired.interfaces.iter() {
            interfaces.insert(interface.name().to_owned());
            interfaces.extend(ports(interface));
            let base = interface.base_iface();
            if base.identifier == Some(InterfaceIdentifier::MacAddress) {
                macs.extend(base.mac_address.as_deref().and_then(|it| it.parse::<Mac>().ok()));
            }
        }
        let routes = desired.routes.config.iter().flatten();
        interfaces.extend(routes.filter_map(|route| route.next_hop_iface.clone()));
        // The name in such a document may be that of the profile only.
        for interface in before.iter().flat_map(|before| before.interfaces.iter()) {
            let base = interface.base_iface();
            let own = [&base.mac_address, &base.permanent_mac_address];
            let own = own.into_iter().flatten().filter_map(|text| text.parse::<Mac>().ok());
            if own.into_iter().any(|mac| macs.contains(&mac)) {
                interfaces.insert(interface.name().to_owned());
            }
        }
        Self { interfaces, macs, hostname: desired.hostname.is_some(), dns: desired.dns.is_some() }
    }
}

fn ports(interface: &Interface) -> Vec<String> {
    let mut names: Vec<String> =
        interface.ports().unwrap_or_default().into_iter().map(str::to_owned).collect();
    // A bond of Open vSwitch has a profile of its own.
    if let Interface::OvsBridge(bridge) = interface {
        let ports = bridge.bridge.iter().flat_map(|config| config.ports.iter().flatten());
        names.extend(ports.map(|port| port.name.clone()));
    }
    names
}

/// Which profiles belong to an attempt. Without a scope, all do: attempts of earlier versions of
/// the program have none.
#[derive(Debug, Clone)]
pub struct Ownership<'a> {
    scope: Option<&'a Scope>,
    /// The interfaces of the document and what was stacked with them before.
    stack: BTreeSet<String>,
    /// Saved profiles of these.
    uuids: BTreeSet<String>,
}

impl<'a> Ownership<'a> {
    /// From the profiles that were saved, and those of them that were in use.
    pub fn new(scope: Option<&'a Scope>, saved: &[ProfileKeys], active: &[ActiveProfile]) -> Self {
        let Some(it) = scope else {
            let uuids = saved.iter().map(|profile| profile.uuid.clone()).collect();
            return Self { scope, stack: BTreeSet::new(), uuids };
        };
        let stack = stack(&it.interfaces, saved);
        let uses = |profile: &ProfileKeys| {
            active.iter().any(|it| it.uuid == profile.uuid && stack.contains(&it.device))
        };
        let is_owned = |profile: &&ProfileKeys| {
            profile.interface.as_ref().is_some_and(|name| stack.contains(name))
                || profile.mac.is_some_and(|mac| it.macs.contains(&mac))
                || uses(profile)
        };
        let owned = saved.iter().filter(is_owned);
        let uuids = owned.map(|profile| profile.uuid.clone()).collect();
        Self { scope, stack, uuids }
    }

    /// Whether a profile that did not exist before was created by the attempt. `profile` is
    /// `None` if the file is not a profile that can be read.
    pub fn created(&self, file: &str, profile: Option<&ProfileKeys>) -> bool {
        let Some(scope) = self.scope else { return true };
        let stem = stem(file);
        let Some(profile) = profile else {
            // A tombstone of a profile, or a file that nmstate's profile should be in.
            return self.uuids.contains(stem) || scope.interfaces.contains(interface_of(stem));
        };
        // A port of a bridge of the document is useless without it, whatever its name.
        let is_port = profile.controller.as_ref().is_some_and(|it| scope.interfaces.contains(it));
        if is_port || self.uuids.contains(&profile.uuid) {
            return true;
        }
        match &profile.interface {
            Some(name) => scope.interfaces.contains(name),
            None => {
                profile.mac.is_some_and(|mac| scope.macs.contains(&mac))
                    || scope.interfaces.contains(interface_of(&profile.id))
            }
        }
    }

    /// Whether a saved profile is restored if it differs from the one that there is now.
    pub fn restores(
        &self,
        file: &str,
        saved: Option<&ProfileKeys>,
        current: Option<&ProfileKeys>,
    ) -> bool {
        let Some(scope) = self.scope else { return true };
        let Some(saved) = saved else { return self.uuids.contains(stem(file)) };
        let now = current.and_then(|profile| profile.interface.as_ref());
        self.uuids.contains(&saved.uuid) || now.is_some_and(|name| scope.interfaces.contains(name))
    }

    /// Whether a profile that was in use before must be in use again.
    pub fn uses(&self, profile: &ActiveProfile) -> bool {
        self.scope.is_none()
            || self.uuids.contains(&profile.uuid)
            || self.stack.contains(&profile.device)
    }
}

/// Names of interfaces, and of all that were stacked with them: a NIC that becomes a port of br-ex
/// leaves its bond, and the VLAN on that bond.
fn stack(names: &BTreeSet<String>, saved: &[ProfileKeys]) -> BTreeSet<String> {
    let interface = |reference: &String| {
        let by_uuid = saved.iter().find(|profile| profile.uuid == *reference);
        by_uuid.map_or(Some(reference), |profile| profile.interface.as_ref()).cloned()
    };
    let mut stack = names.clone();
    loop {
        let before = stack.len();
        for profile in saved {
            let Some(name) = &profile.interface else { continue };
            let below = [&profile.controller, &profile.parent];
            let below: Vec<String> = below.into_iter().flatten().filter_map(interface).collect();
            if stack.contains(name) || below.iter().any(|it| stack.contains(it)) {
                stack.insert(name.clone());
                stack.extend(below);
            }
        }
        if stack.len() == before {
            return stack;
        }
    }
}

fn stem(file: &str) -> &str {
    let stem = file.strip_suffix(".nmconnection").or_else(|| file.strip_suffix(".nmmeta"));
    stem.unwrap_or(file)
}

/// The interface that nmstate's name of a profile is made of.
fn interface_of(profile: &str) -> &str {
    let suffixes = ["-br", "-port", "-if"];
    suffixes.iter().find_map(|suffix| profile.strip_suffix(suffix)).unwrap_or(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(uuid: &str, interface: &str, controller: &str, parent: &str) -> ProfileKeys {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        ProfileKeys {
            id: uuid.into(),
            uuid: uuid.into(),
            interface: some(interface),
            mac: None,
            controller: some(controller),
            parent: some(parent),
        }
    }

    fn scope() -> Scope {
        let yaml = "
interfaces:
- {name: nic0, type: ethernet, state: up}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge: {port: [{name: nic0}, {name: br-ex}]}
- {name: br-ex, type: ovs-interface, state: up}
routes: {config: [{destination: 192.0.2.0/24, next-hop-interface: nic3, next-hop-address: 198.51.100.9}]}
";
        Scope::of(&NetworkState::new_from_yaml(yaml).unwrap(), None)
    }

    #[test]
    fn the_scope_of_a_document_is_its_interfaces_and_those_of_its_routes() {
        let names: Vec<String> = scope().interfaces.into_iter().collect();
        assert_eq!(names, ["br-ex", "nic0", "nic3"]);
        let yaml = "interfaces: [{name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: ob, link-aggregation: {mode: balance-slb, port: [{name: nic0}, {name: nic1}]}}]}}]";
        let bond = Scope::of(&NetworkState::new_from_yaml(yaml).unwrap(), None);
        assert!(["ob", "nic0", "nic1"].iter().all(|name| bond.interfaces.contains(*name)));
    }

    #[test]
    fn an_interface_that_is_identified_by_its_mac_is_in_the_scope_under_its_own_name() {
        let yaml = "interfaces: [{name: uplink, type: ethernet, state: up, identifier: mac-address, mac-address: '52:54:00:00:00:01'}]";
        let before = "interfaces: [{name: eno1, type: ethernet, state: up, mac-address: '52:54:00:00:00:01'}]";
        let [desired, before] = [yaml, before].map(|it| NetworkState::new_from_yaml(it).unwrap());
        let scope = Scope::of(&desired, Some(&before));
        assert!(scope.interfaces.contains("eno1") && scope.interfaces.contains("uplink"));
    }

    #[test]
    fn profiles_that_others_created_meanwhile_stay() {
        let scope = scope();
        let saved = [profile("u-nic0", "nic0", "", "")];
        let owner = Ownership::new(Some(&scope), &saved, &[]);
        let created = |interface: &str| {
            owner.created("x.nmconnection", Some(&profile("new", interface, "", "")))
        };
        assert!(created("br-ex") && created("nic0"));
        // A storage bond, and a VLAN on the uplink.
        assert!(!created("bond7") && !created("nic0.50"));
        // A port of br-ex, as nmcli names it; and one of another bridge.
        let port = |controller: &str| profile("new", "nic0-port", controller, "");
        assert!(owner.created("x.nmconnection", Some(&port("br-ex"))));
        assert!(!owner.created("x.nmconnection", Some(&port("br-storage"))));
        // The same profile in another folder.
        assert!(owner.created("y", Some(&profile("u-nic0", "", "", ""))));
        // What a power failure left of a profile, and a tombstone.
        assert!(owner.created("br-ex-br.nmconnection", None));
        assert!(owner.created("u-nic0.nmmeta", None));
        assert!(!owner.created("storage.nmconnection", None));
        assert!(!owner.created("u-other.nmmeta", None));
    }

    #[test]
    fn what_was_stacked_with_an_interface_of_the_document_is_restored_with_it() {
        let scope = scope();
        let saved = [
            profile("u0", "nic0", "u-bond", ""),
            profile("u1", "nic1", "bond0", ""),
            profile("u-bond", "bond0", "", ""),
            profile("u-vlan", "bond0.100", "", "u-bond"),
            profile("u2", "nic2", "", ""),
        ];
        let owner = Ownership::new(Some(&scope), &saved, &[]);
        for it in &saved[..4] {
            assert!(owner.restores("x", Some(it), None), "{it:?}");
        }
        assert!(!owner.restores("x", Some(&saved[4]), None));
        // A profile that the attempt made one of br-ex is its own, whatever it was.
        assert!(owner.restores("x", Some(&saved[4]), Some(&profile("u2", "br-ex", "", ""))));
    }

    /// As "Wired Connection" of the initial RAM disk: it names no interface.
    #[test]
    fn a_profile_without_an_interface_is_owned_by_its_use() {
        let scope = scope();
        let wired = profile("u-wired", "", "", "");
        let on = |device: &str| ActiveProfile {
            uuid: "u-wired".into(),
            name: "Wired Connection".into(),
            device: device.into(),
            is_activating: false,
        };
        let saved = [wired.clone()];
        for (device, expected) in [("nic0", true), ("nic7", false)] {
            let active = [on(device)];
            let owner = Ownership::new(Some(&scope), &saved, &active);
            assert_eq!(owner.restores("x", Some(&wired), None), expected, "{device}");
            assert_eq!(owner.uses(&active[0]), expected, "{device}");
        }
    }
}
