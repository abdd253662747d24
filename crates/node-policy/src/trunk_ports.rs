//! VLANs on ports of Linux bridges without a VLAN setting: all are allowed, as in
//! kubernetes-nmstate. `vlan: {}` on a port disables that.

use serde_json::{Value, json};

/// Completes the ports of bridges that are to be up.
pub(crate) fn fill(desired: &mut Value) {
    let interfaces = desired.get_mut("interfaces").and_then(Value::as_array_mut);
    for interface in interfaces.into_iter().flatten() {
        let is = |key: &str, value: &str| interface.get(key).and_then(Value::as_str) == Some(value);
        if !is("type", "linux-bridge") || !is("state", "up") {
            continue;
        }
        for list in ["port", "ports"] {
            let ports = interface.get_mut("bridge").and_then(|bridge| bridge.get_mut(list));
            let ports = ports.and_then(Value::as_array_mut).into_iter().flatten();
            for port in ports.filter_map(Value::as_object_mut) {
                port.entry("vlan").or_insert_with(all);
            }
        }
    }
}

fn all() -> Value {
    json!({ "mode": "trunk", "trunk-tags": [{ "id-range": { "min": 2, "max": 4094 } }] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(mut desired: Value) -> Value {
        fill(&mut desired);
        desired
    }

    fn bridge(state: &str, ports: &Value) -> Value {
        json!({"interfaces": [
            {"name": "br1", "type": "linux-bridge", "state": state, "bridge": {"port": ports}}
        ]})
    }

    #[test]
    fn ports_without_vlan_settings_pass_all_vlans() {
        let made = filled(bridge("up", &json!([{"name": "eth1"}, {"name": "eth2"}])));
        for port in 0..2 {
            let vlan = &made["interfaces"][0]["bridge"]["port"][port]["vlan"];
            assert_eq!(vlan["mode"], "trunk");
            assert_eq!(vlan["trunk-tags"], json!([{"id-range": {"min": 2, "max": 4094}}]));
        }
    }

    #[test]
    fn each_port_of_each_bridge_is_checked_by_itself() {
        let one = &bridge("up", &json!([{"name": "eth1"}, {"name": "eth2", "vlan": {}}]))["interfaces"]
            [0];
        let other = &bridge("absent", &json!([{"name": "eth3"}]))["interfaces"][0];
        let made = filled(json!({"interfaces": [one, other]}));
        let port = |bridge: usize, port: usize| &made["interfaces"][bridge]["bridge"]["port"][port];
        assert_eq!(port(0, 0)["vlan"]["mode"], "trunk");
        assert_eq!(port(0, 1)["vlan"], json!({}));
        assert_eq!(port(1, 0).get("vlan"), None);
    }

    #[test]
    fn what_is_specified_stays() {
        let cases = [
            bridge("up", &json!([{"name": "eth1", "vlan": {"mode": "access", "tag": 4}}])),
            bridge("up", &json!([{"name": "eth1", "vlan": {}}])),
            bridge("up", &json!([])),
            bridge("down", &json!([{"name": "eth1"}])),
            bridge("absent", &json!([{"name": "eth1"}])),
            json!({"interfaces": [{"name": "eth1", "type": "ethernet", "state": "up"}]}),
            // Bridges of Open vSwitch forward VLANs by themselves.
            json!({"interfaces": [{
                "name": "br1", "type": "ovs-bridge", "state": "up", "bridge": {"port": [{"name": "eth1"}]},
            }]}),
            json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "state": "up"}]}),
            json!({"interfaces": "not a list"}),
            json!({}),
        ];
        for desired in cases {
            assert_eq!(filled(desired.clone()), desired);
        }
    }
}
