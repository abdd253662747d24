//! How a policy is taken back: the state that was there before it.

use nmstate::{NetworkState, NmstateError};
use nmstate_api::NetworkDocument;
use serde_json::{Map, Value};

#[derive(Debug, thiserror::Error)]
pub enum RevertError {
    #[error("nmstate cannot tell how to take it back: {}", .0.msg())]
    Revert(NmstateError),
    #[error("nmstate cannot write how to take it back")]
    Write(#[from] serde_json::Error),
}

/// What takes `desired` back from a node that is as `before`. `earlier` is how to take earlier
/// generations of the same policy back: what it speaks of stays as it is, for that is how the node
/// was before the policy existed.
pub fn way_back(
    desired: &NetworkState,
    before: &NetworkState,
    earlier: &NetworkDocument,
) -> Result<NetworkDocument, RevertError> {
    let revert = desired.generate_revert(before).map_err(RevertError::Revert)?;
    let mut sections = match serde_json::to_value(revert)? {
        Value::Object(sections) => sections,
        _ => Map::new(),
    };
    sections.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    for (section, earlier) in &earlier.0 {
        match (section.as_str(), sections.get_mut(section)) {
            ("interfaces", Some(later)) => interfaces(later, earlier),
            // Sections that exist once per node, and routes: what was first counts.
            _ => drop(sections.insert(section.clone(), earlier.clone())),
        }
    }
    Ok(NetworkDocument(sections))
}

fn interfaces(later: &mut Value, earlier: &Value) {
    let (Some(later), Some(earlier)) = (later.as_array_mut(), earlier.as_array()) else { return };
    let key = |interface: &Value| (interface.get("name").cloned(), interface.get("type").cloned());
    later.retain(|interface| !earlier.iter().any(|it| key(it) == key(interface)));
    later.extend(earlier.iter().cloned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(yaml: &str) -> NetworkState {
        NetworkState::new_from_yaml(yaml).unwrap()
    }

    #[test]
    fn after_several_edits_the_way_back_leads_to_before_the_first() {
        let start = state("interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1500}]");
        let first = state("interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1400}]");
        let back = way_back(&first, &start, &NetworkDocument::default()).unwrap();
        assert_eq!(back.to_value()["interfaces"][0]["mtu"], 1500);
        let second = state(
            "interfaces:
- {name: eth1, type: ethernet, state: up, mtu: 1300}
- {name: d0, type: dummy, state: up}",
        );
        let back = way_back(&second, &first, &back).unwrap().to_value();
        let of = |name: &str| {
            let list = back["interfaces"].as_array().unwrap();
            list.iter().find(|it| it["name"] == name).cloned().unwrap()
        };
        assert_eq!(of("eth1")["mtu"], 1500);
        assert_eq!(of("d0")["state"], "absent");
    }
}
