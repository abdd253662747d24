//! Settings of a node that neither profiles nor checkpoints of NetworkManager contain: the host
//! name, and the global settings of Open vSwitch and OVN. nmstate changes them and does not restore
//! them when a change fails.

use nmstate::{NetworkState, NmstateError};

/// The part of a state that consists of such settings; `None` if there are none.
pub fn of(state: &NetworkState) -> Option<NetworkState> {
    let mut settings = NetworkState::new();
    settings.hostname = state.hostname.clone();
    settings.ovsdb = state.ovsdb.clone();
    settings.ovn = state.ovn.clone();
    (settings != NetworkState::new()).then_some(settings)
}

/// The settings that `desired` changes, as they are in `before`.
pub fn before(
    desired: &NetworkState,
    before: &NetworkState,
) -> Result<Option<NetworkState>, NmstateError> {
    match of(desired) {
        Some(settings) => Ok(of(&network_revert::revert(&settings, before)?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(yaml: &str) -> NetworkState {
        NetworkState::new_from_yaml(yaml).unwrap()
    }

    #[test]
    fn only_what_the_document_sets_is_restored() {
        let node = state(
            "hostname: {running: old, config: old}
ovs-db: {external_ids: {a: '1', b: '2'}, other_config: {}}
interfaces: [{name: nic0, type: ethernet, state: up}]",
        );
        let desired = state(
            "hostname: {config: new}
ovs-db: {external_ids: {a: '9', c: '3'}}
interfaces: [{name: nic0, type: ethernet, state: up, mtu: 9000}]",
        );
        let found = before(&desired, &node).unwrap().unwrap();
        assert!(found.interfaces.iter().next().is_none());
        let found = serde_json::to_value(&found).unwrap();
        assert_eq!(found["hostname"]["config"], "old");
        let ids = &found["ovs-db"]["external_ids"];
        assert_eq!((&ids["a"], &ids["c"]), (&"1".into(), &serde_json::Value::Null));
        assert!(ids.get("b").is_none(), "{ids}");
        let plain = state("interfaces: [{name: nic0, type: ethernet, state: up}]");
        assert_eq!(before(&plain, &node).unwrap(), None);
    }
}
