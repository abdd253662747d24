//! Several policies, several writers, and policies that depend on the node.

use node_policy::Phase;
use serde_json::json;

use crate::rollout::bench::{Bench, NODES};
use crate::rollout::wishes::{REVERT_ON_DELETE, everywhere, mtu, on};

pub(crate) fn two_writers(bench: &mut Bench) {
    std::thread::scope(|scope| {
        for (writer, first) in [("one", 1200_u32), ("two", 1220)] {
            let bench = &*bench;
            scope.spawn(move || {
                for number in 0..8 {
                    let spec = everywhere(2, &mtu(first + number));
                    bench.apply_policy_as(writer, "disputed", &spec);
                }
            });
        }
    });
    let policy = bench.wait_until_available("disputed");
    assert_eq!(policy.0["metadata"]["generation"], 16, "each edit was one");
    let last = &policy.0["spec"]["desiredState"]["interfaces"][0]["mtu"];
    assert!([1207, 1227].contains(&last.as_u64().unwrap()), "{last}");
    for node in NODES {
        assert_eq!(json!(bench.mtu(node)), *last);
        assert_eq!(bench.enactment(node, "disputed").status()["policyGeneration"], 16);
    }
}

pub(crate) fn overlap(bench: &mut Bench) {
    NODES.iter().for_each(|node| bench.stop_handler(node));
    bench.apply_policy("b-second", &everywhere(2, &mtu(1252)), &[]);
    bench.apply_policy("a-first", &everywhere(2, &mtu(1251)), &[]);
    NODES.iter().for_each(|node| bench.start_handler(node));
    for (policy, other) in [("a-first", "b-second"), ("b-second", "a-first")] {
        let available = bench.wait_until_available(policy);
        let expected = format!(
            "2/2 nodes successfully configured; shares parts of the network with {other} (nic1)"
        );
        assert_eq!(available.message("Available"), expected);
    }
    NODES.iter().for_each(|node| assert_eq!(bench.mtu(node), 1252, "the later one wins"));
}

pub(crate) fn captures(bench: &mut Bench) {
    let [_, node] = NODES;
    let address = bench.node(node).wait_for_ipv4("nic0").unwrap();
    let spec = json!({
        "nodeSelector": {"kubernetes.io/hostname": node},
        "capture": {
            "default-gw": r#"routes.running.destination=="0.0.0.0/0""#,
            "uplink": "interfaces.name==capture.default-gw.routes.running.0.next-hop-interface",
        },
        "desiredState": {"interfaces": [
            {
                "name": "br1", "type": "linux-bridge", "state": "up",
                "mac-address": "{{ capture.uplink.interfaces.0.mac-address }}",
                "ipv4": {"enabled": true, "dhcp": true}, "ipv6": {"enabled": false},
                "bridge": {
                    "options": {"stp": {"enabled": false}},
                    "port": [{"name": "{{ capture.uplink.interfaces.0.name }}", "vlan": {}}],
                },
            },
            {
                "name": "{{ capture.uplink.interfaces.0.name }}", "type": "ethernet", "state": "up",
                "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
            },
        ]},
    });
    bench.apply_policy("moved", &spec, &[(REVERT_ON_DELETE, "true")]);
    bench.wait_until_available("moved");
    assert_eq!(
        bench.node(node).wait_for_ipv4("br1").unwrap(),
        address,
        "the DHCP server recognizes the NIC"
    );
    let report = bench.enactment(node, "moved");
    assert_eq!(report.phase(), Phase::Available);
    let interfaces = &report.status()["desiredState"]["interfaces"];
    assert_eq!(interfaces[0]["bridge"]["port"][0]["name"], "nic0");
    assert!(report.status()["capturedStates"]["uplink"]["state"].is_object());
    // An edit finds what the captures found before the bridge was there.
    let mut edited = spec;
    edited["maxUnavailable"] = json!(1);
    bench.apply_policy("moved", &edited, &[(REVERT_ON_DELETE, "true")]);
    bench.wait_for_generation(node, "moved", 2, Phase::Available);
    let report = bench.enactment(node, "moved");
    let interfaces = &report.status()["desiredState"]["interfaces"];
    assert_eq!(interfaces[0]["bridge"]["port"][0]["name"], "nic0");

    bench.delete_policy("moved");
    bench.wait_until_left(node, "moved");
    assert_eq!(bench.node(node).wait_for_ipv4("nic0").unwrap(), address);
    assert!(!bench.has_interface(node, "br1"));
    bench.apply_policy("reachable", &on(node, &json!({})), &[]);
    bench.wait_for_phase(node, "reachable", Phase::Available);
}
