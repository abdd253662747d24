//! NodeNetworkConfigurationPolicies: the form in which a running cluster accepts a change.

use machine_config::yaml;
use machine_identity::short_name;
use serde_json::{Map, Value, json};

use crate::masquerade::Masquerade;
use crate::state::text;

/// Which nodes a policy is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nodes {
    /// One node, by its full name.
    One(String),
    /// All nodes of a role.
    Role(String),
}

/// A policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub name: String,
    pub nodes: Nodes,
    pub desired: Value,
}

#[derive(Debug, thiserror::Error)]
#[error("writing the policy {name} as YAML")]
pub struct PolicyError {
    name: String,
    source: yaml::WriteError,
}

impl Nodes {
    /// What a policy for them is called. Names of policies are label values, too: no dots needed.
    pub(super) fn policy_name(&self) -> String {
        let name = match self {
            Self::One(node) => short_name(node),
            Self::Role(role) => role,
        };
        format!("{name}-br-ex")
    }

    fn selector(&self) -> Value {
        match self {
            Self::One(node) => json!({ "kubernetes.io/hostname": node }),
            Self::Role(role) => {
                let mut selector = Map::new();
                selector.insert(format!("node-role.kubernetes.io/{role}"), json!(""));
                Value::Object(selector)
            }
        }
    }
}

impl Policy {
    /// The policy that makes `desired` of these nodes' network, and leaves to ovnkube what is
    /// ovnkube's: its addresses and its patch ports.
    pub(super) fn new(nodes: Nodes, mut desired: Value, masquerade: &Masquerade) -> Self {
        masquerade.add_to(&mut desired);
        allow_patch_ports(&mut desired);
        Self { name: nodes.policy_name(), nodes, desired }
    }

    /// The object for `oc apply -f`.
    pub fn to_yaml(&self) -> Result<String, PolicyError> {
        let object = json!({
            "apiVersion": "nmstate.io/v1",
            "kind": "NodeNetworkConfigurationPolicy",
            "metadata": { "name": self.name },
            "spec": {
                "nodeSelector": self.nodes.selector(),
                // Half of all nodes at once, which is the default, is far too many for br-ex.
                "maxUnavailable": 1,
                "desiredState": self.desired,
            },
        });
        let written = yaml::document(&object);
        written.map_err(|source| PolicyError { name: self.name.clone(), source })
    }
}

fn allow_patch_ports(desired: &mut Value) {
    let interfaces = desired.get_mut("interfaces").and_then(Value::as_array_mut);
    for interface in interfaces.into_iter().flatten().filter_map(Value::as_object_mut) {
        if text(interface, "name") == br_ex::BRIDGE
            && text(interface, "type") == "ovs-bridge"
            && text(interface, "state") != "absent"
        {
            let bridge = interface.entry("bridge").or_insert_with(|| json!({}));
            if let Some(bridge) = bridge.as_object_mut() {
                bridge.entry("allow-extra-patch-ports").or_insert(json!(true));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_repeats_br_ex_with_what_ovnkube_added() {
        let desired = json!({"interfaces": [
            {"name": "br-ex", "type": "ovs-bridge", "state": "up",
             "bridge": {"port": [{"name": "eno1"}, {"name": "br-ex"}]}},
            {"name": "br-ex", "type": "ovs-interface", "state": "up",
             "ipv4": {"enabled": true, "dhcp": true}},
        ]});
        let nodes = Nodes::One("worker-0.example.com".to_owned());
        let policy = Policy::new(nodes, desired, &Masquerade::default());
        let expected = r#"apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata:
  name: worker-0-br-ex
spec:
  nodeSelector:
    kubernetes.io/hostname: worker-0.example.com
  maxUnavailable: 1
  desiredState:
    interfaces:
    - name: br-ex
      type: ovs-bridge
      state: up
      bridge:
        port:
        - name: eno1
        - name: br-ex
        allow-extra-patch-ports: true
    - name: br-ex
      type: ovs-interface
      state: up
      ipv4:
        enabled: true
        dhcp: true
        address:
        - ip: "169.254.0.2"
          prefix-length: 17
"#;
        assert_eq!(policy.to_yaml().unwrap(), expected);
    }

    #[test]
    fn a_role_is_selected_by_its_label() {
        let nodes = Nodes::Role("worker".to_owned());
        let yaml = Policy::new(nodes, json!({}), &Masquerade::default()).to_yaml().unwrap();
        assert!(yaml.contains("node-role.kubernetes.io/worker: \"\"\n"), "{yaml}");
        assert!(yaml.contains("name: worker-br-ex\n"), "{yaml}");
    }
}
