//! The kinds of policies that users of kubernetes-nmstate have, applied by the handler on a machine
//! with its own kernel. The result is read from that kernel, and from Open vSwitch.

use node_policy::Phase;
use serde_json::{Value, json};

use crate::rollout::storage_networks::bench::{ADDRESS, Bench, GATEWAY, NICS, NODE, UPLINK};
use crate::rollout::storage_networks::{PATIENT, annotated, policy};

const WORKER: &str = "node-role.kubernetes.io/worker";

fn off() -> Value {
    json!({"enabled": false})
}

/// A policy for nodes with these labels.
fn selecting(name: &str, labels: &Value, desired: &Value) -> String {
    annotated(name, &json!({}), desired) + &format!("  nodeSelector: {labels}\n")
}

fn with_routes(name: &str, interfaces: &Value, routes: &Value) -> String {
    let desired = json!({"interfaces": interfaces, "routes": {"config": routes}});
    annotated(name, &json!({}), &desired)
}

fn fixed(address: &str) -> Value {
    json!({"enabled": true, "dhcp": false, "address": [{"ip": address, "prefix-length": 24}]})
}

fn nic(name: &str, ipv4: &Value) -> Value {
    json!({"name": name, "type": "ethernet", "state": "up", "ipv4": ipv4, "ipv6": off()})
}

fn addresses(bench: &Bench, interface: &str) -> Value {
    bench.network()[interface][2].clone()
}

fn controller(bench: &Bench, interface: &str) -> Value {
    bench.network()[interface][0].clone()
}

/// Whether a table has a route to this destination through an interface.
fn has_route(bench: &Bench, table: u32, destination: &str, interface: &str) -> bool {
    let routes = bench.json(&format!("ip -json route show table {table}"));
    let is_it = |it: &Value| it["dst"] == destination && it["dev"] == interface;
    routes.as_array().unwrap().iter().any(is_it)
}

pub(crate) fn dhcp_on_selected_nodes(bench: &mut Bench) {
    // The uplink is in a network of the same addresses, so its routes come first.
    let ipv4 = json!({
        "enabled": true, "dhcp": true, "auto-gateway": false, "auto-dns": false, "auto-route-metric": 500,
    });
    let desired = json!({"interfaces": [nic(NICS[0], &ipv4)]});
    let leased = selecting("leased", &json!({WORKER: ""}), &desired);
    bench.apply(&leased);
    bench.wait_for_condition("leased", "Ignored", "NoMatchingNode");
    bench.label_node(&json!({WORKER: ""}));
    bench.wait_for(&leased, Phase::Available);
    let found = addresses(bench, NICS[0]);
    let address = found[0].as_str().unwrap();
    assert!(address.starts_with("198.51.100.1"), "{found}");
    bench.label_node(&json!({}));
    bench.wait_for_condition("leased", "Ignored", "NoMatchingNode");
    assert_eq!(addresses(bench, NICS[0]), found, "the network stays");
}

pub(crate) fn static_address_and_routes(bench: &mut Bench) {
    let route = |destination: &str, gateway: &str, table: u32| {
        json!({
            "destination": destination, "next-hop-address": gateway,
            "next-hop-interface": NICS[0], "table-id": table,
        })
    };
    let interfaces = json!([nic(NICS[0], &fixed("203.0.113.10"))]);
    // No host responds at that gateway; only default routes of the main table are probed.
    let routes = json!([
        route("198.18.0.0/15", "203.0.113.1", 254),
        route("0.0.0.0/0", "203.0.113.99", 200),
    ]);
    let selector = json!({"kubernetes.io/hostname": NODE});
    let desired = json!({"interfaces": interfaces, "routes": {"config": routes}});
    let routed = selecting("routed", &selector, &desired);
    bench.make_true(&routed);
    assert_eq!(addresses(bench, NICS[0]), json!(["203.0.113.10"]));
    assert!(has_route(bench, 254, "198.18.0.0/15", NICS[0]));
    assert!(has_route(bench, 200, "default", NICS[0]));
    // The default route by which the node reaches its API server is untouched.
    assert!(has_route(bench, 254, "default", UPLINK));
}

pub(crate) fn forwarding(bench: &mut Bench) {
    let mut ipv4 = fixed("203.0.113.10");
    let setting = |name: &str| format!("cat /proc/sys/net/ipv4/conf/{name}/forwarding");
    for (is_on, expected) in [(true, "1"), (false, "0")] {
        ipv4["forwarding"] = json!(is_on);
        bench.make_true(&policy("forwarding", &json!([nic(NICS[0], &ipv4)])));
        assert_eq!(bench.succeed(&setting(NICS[0])).trim(), expected);
        assert_eq!(bench.succeed(&setting(NICS[1])).trim(), "0");
    }
}

pub(crate) fn vlan(bench: &mut Bench) {
    let name = format!("{}.100", NICS[0]);
    let vlan = json!([
        nic(NICS[0], &off()),
        {
            "name": name, "type": "vlan", "state": "up",
            "vlan": {"base-iface": NICS[0], "id": 100}, "ipv4": fixed("192.0.2.60"), "ipv6": off(),
        },
    ]);
    bench.make_true(&policy("tagged", &vlan));
    let link = bench.link(&name).unwrap();
    assert_eq!(link["linkinfo"]["info_data"]["id"], 100);
    bench.lan_reaches("192.0.2.60", 1500);
}

fn bond(name: &str, state: &str) -> Value {
    json!({
        "name": name, "type": "bond", "state": state, "copy-mac-from": NICS[0],
        "link-aggregation": {"mode": "active-backup", "options": {"miimon": 140}, "port": NICS},
        "ipv4": off(), "ipv6": off(),
    })
}

pub(crate) fn bond_and_vlan(bench: &mut Bench) {
    let mac = bench.link(NICS[0]).unwrap()["address"].clone();
    let vlan = |state: &str| {
        json!({
            "name": "bond7.100", "type": "vlan", "state": state,
            "vlan": {"base-iface": "bond7", "id": 100}, "ipv4": fixed("192.0.2.61"), "ipv6": off(),
        })
    };
    bench.make_true(&policy("bonded", &json!([bond("bond7", "up"), vlan("up")])));
    let link = bench.link("bond7").unwrap();
    assert_eq!(link["linkinfo"]["info_data"]["mode"], "active-backup");
    assert_eq!(link["linkinfo"]["info_data"]["miimon"], 140);
    assert_eq!(link["address"], mac);
    assert!(NICS.iter().all(|nic| controller(bench, nic) == "bond7"));
    bench.lan_reaches("192.0.2.61", 1500);
    bench.make_true(&policy("bonded", &json!([bond("bond7", "absent"), vlan("absent")])));
    assert_eq!((bench.link("bond7"), bench.link("bond7.100")), (None, None));
    assert!(NICS.iter().all(|nic| controller(bench, nic).is_null()));
}

fn bridge(name: &str, ports: &Value) -> Value {
    json!({
        "name": name, "type": "linux-bridge", "state": "up", "ipv4": off(), "ipv6": off(),
        "bridge": {"options": {"stp": {"enabled": false}}, "port": ports},
    })
}

pub(crate) fn bridge_without_ports(bench: &mut Bench) {
    bench.make_true(&policy("empty", &json!([bridge("empty0", &json!([]))])));
    let link = bench.link("empty0").unwrap();
    assert_eq!(link["linkinfo"]["info_data"]["vlan_filtering"], 0, "{link}");
}

/// VLANs of a port of a bridge but VLAN 1, which the kernel begins with, and the one of packets without
/// a tag.
fn vlans(bench: &Bench, port: &str) -> (Vec<u64>, Option<u64>) {
    let shown = bench.json(&format!("bridge -json vlan show dev {port}"));
    let list = shown[0]["vlans"].as_array().cloned().unwrap_or_default();
    let number = |it: &Value, key: &str| it[key].as_u64();
    let numbers = list.iter().flat_map(|it| {
        let first = number(it, "vlan").unwrap();
        first..=number(it, "vlanEnd").unwrap_or(first)
    });
    let is_native = |it: &&Value| it["flags"].to_string().contains("PVID");
    (
        numbers.filter(|it| *it != 1).collect(),
        list.iter().find(is_native).and_then(|it| number(it, "vlan")),
    )
}

pub(crate) fn bridge_vlans(bench: &mut Bench) {
    let [port, other] = NICS;
    // A port without VLANs gets all of them.
    let ports = json!([{"name": port}, {"name": other, "vlan": {}}]);
    bench.make_true(&policy("bridged", &json!([bridge("br7", &ports)])));
    let link = bench.link("br7").unwrap();
    assert_eq!(link["linkinfo"]["info_data"]["vlan_filtering"], 1, "{link}");
    assert_eq!(vlans(bench, port).0, (2..=4094).collect::<Vec<u64>>());
    // One with an empty list has none, and that is how it is reported.
    assert!(vlans(bench, other).0.is_empty());
    bench.wait_for_report("br7", |bridge| {
        bridge.is_some_and(|bridge| {
            let ports = bridge["bridge"]["port"].as_array().unwrap();
            let vlan = ports.iter().find(|it| it["name"] == other).map(|it| &it["vlan"]);
            vlan.is_some_and(|it| it.is_null() || *it == json!({}))
        })
    });

    let native = json!({
        "mode": "trunk", "enable-native": true, "tag": 100,
        "trunk-tags": [{"id": 200}, {"id-range": {"min": 300, "max": 302}}],
    });
    let ports = json!([{"name": port, "vlan": native}, {"name": other, "vlan": {"mode": "access", "tag": 100}}]);
    bench.make_true(&policy("bridged", &json!([bridge("br7", &ports)])));
    assert_eq!(vlans(bench, port), (vec![100, 200, 300, 301, 302], Some(100)));
    assert_eq!(vlans(bench, other), (vec![100], Some(100)));
    let reset = json!([{"name": port, "vlan": {}}, {"name": other, "vlan": {}}]);
    bench.make_true(&policy("bridged", &json!([bridge("br7", &reset)])));
    assert!(vlans(bench, port).0.is_empty());
}

pub(crate) fn detached_port(bench: &mut Bench) {
    let [port, other] = NICS;
    let ports = json!([{"name": port}, {"name": other}]);
    bench.make_true(&policy("detached", &json!([bridge("br7", &ports)])));
    assert_eq!(controller(bench, port), "br7");
    let interfaces =
        json!([bridge("br7", &json!([{"name": other}])), nic(port, &fixed("203.0.113.11"))]);
    bench.make_true(&policy("detached", &interfaces));
    assert!(controller(bench, port).is_null());
    assert_eq!(addresses(bench, port), json!(["203.0.113.11"]));
    assert_eq!(controller(bench, other), "br7");
}

pub(crate) fn two_bridges(bench: &mut Bench) {
    let [one, two] = NICS;
    let bridges =
        json!([bridge("br8", &json!([{"name": one}])), bridge("br9", &json!([{"name": two}])),]);
    bench.make_true(&policy("bridges", &bridges));
    assert_eq!((controller(bench, one), controller(bench, two)), (json!("br8"), json!("br9")));
}

fn open_vswitch_bridge(ports: &Value) -> Value {
    json!({
        "name": "ovs-br7", "type": "ovs-bridge", "state": "up",
        "bridge": {"port": ports},
    })
}

fn open_vswitch_interface(ipv4: &Value) -> Value {
    json!({"name": "ovs7", "type": "ovs-interface", "state": "up", "ipv4": ipv4, "ipv6": off()})
}

/// Ports of the bridge as Open vSwitch has them.
fn open_vswitch_ports(bench: &Bench) -> Vec<String> {
    let text = bench.succeed("ovs-vsctl --timeout=60 list-ports ovs-br7");
    let mut ports: Vec<String> = text.lines().map(str::to_owned).collect();
    ports.sort();
    ports
}

pub(crate) fn open_vswitch(bench: &mut Bench) {
    let [one, two] = NICS;
    let both = json!([
        nic(one, &off()),
        nic(two, &off()),
        open_vswitch_bridge(&json!([{"name": one}, {"name": two}]))
    ]);
    bench.make_true(&policy("switched", &both));
    assert_eq!(open_vswitch_ports(bench), [one, two]);
    let internal = json!([
        nic(one, &off()),
        nic(two, &off()),
        open_vswitch_bridge(&json!([{"name": one}, {"name": "ovs7"}])),
        open_vswitch_interface(&fixed("203.0.113.12")),
    ]);
    bench.make_true(&policy("switched", &internal));
    assert_eq!(open_vswitch_ports(bench), [one, "ovs7"]);
    assert_eq!(addresses(bench, "ovs7"), json!(["203.0.113.12"]));
    bench.wait_for_report("ovs-br7", |bridge| {
        bridge.is_some_and(|it| it["bridge"]["port"].as_array().is_some_and(|it| it.len() == 2))
    });
}

pub(crate) fn open_vswitch_bonds(bench: &mut Bench) {
    let [one, two] = NICS;
    let of_both = json!({"mode": "balance-slb", "port": [{"name": one}, {"name": two}]});
    let own = json!([
        nic(one, &off()),
        nic(two, &off()),
        open_vswitch_bridge(
            &json!([{"name": "lag7", "link-aggregation": of_both}, {"name": "ovs7"}])
        ),
        open_vswitch_interface(&off()),
    ]);
    bench.make_true(&policy("own-bond", &own));
    assert_eq!(open_vswitch_ports(bench), ["lag7", "ovs7"]);
    let mode = bench.succeed("ovs-vsctl --timeout=60 get port lag7 bond_mode");
    assert_eq!(mode.trim(), "balance-slb");
    bench.make_true(&policy(
        "own-bond",
        &json!([{"name": "ovs-br7", "type": "ovs-bridge", "state": "absent"}]),
    ));
    bench.delete("own-bond");

    // The bond is found by a capture.
    bench.make_true(&policy("bonded", &json!([bond("bond8", "up")])));
    let port = json!([{"name": "{{ capture.bonds.interfaces.0.name }}"}, {"name": "ovs7"}]);
    let desired =
        json!({"interfaces": [open_vswitch_bridge(&port), open_vswitch_interface(&off())]});
    let captured = annotated("kernel-bond", &json!({}), &desired)
        + &format!("  capture: {}\n", json!({"bonds": "interfaces.type==\"bond\""}));
    bench.make_true(&captured);
    assert_eq!(open_vswitch_ports(bench), ["bond8", "ovs7"]);
}

pub(crate) fn vrf(bench: &mut Bench) {
    let vrf = json!({
        "name": "vrf7", "type": "vrf", "state": "up",
        "vrf": {"port": [NICS[0]], "route-table-id": 102},
    });
    let interfaces = json!([nic(NICS[0], &fixed("203.0.113.13")), vrf]);
    let route = json!([{
        "destination": "198.18.0.0/15", "next-hop-address": "203.0.113.1",
        "next-hop-interface": NICS[0], "vrf-name": "vrf7",
    }]);
    let routed = with_routes("isolated", &interfaces, &route);
    let made = bench.make_true(&routed);
    let assert_isolated = |bench: &Bench| {
        assert_eq!(controller(bench, NICS[0]), "vrf7");
        assert!(has_route(bench, 102, "198.18.0.0/15", NICS[0]));
    };
    assert_isolated(bench);
    let before = bench.network();
    bench.restart();
    bench.wait_for_network(&before);
    assert_isolated(bench);
    bench.start_handler(PATIENT);
    bench.make_true(&policy("later", &json!([nic(NICS[1], &fixed("203.0.113.14"))])));
    assert_eq!(bench.enactment("isolated").version(), made.version(), "nothing had to be done");
}

pub(crate) fn dns(bench: &mut Bench) {
    let configured = |servers: &Value, search: &Value| {
        let desired = json!({"dns-resolver": {"config": {"server": servers, "search": search}}});
        annotated("names", &json!({}), &desired)
    };
    let servers = json!(["198.51.100.53", "2001:db8::53"]);
    bench.make_true(&configured(&servers, &json!(["example.com"])));
    let names = bench.succeed("cat /etc/resolv.conf");
    for line in ["nameserver 198.51.100.53", "nameserver 2001:db8::53", "search example.com"] {
        assert!(names.lines().any(|it| it == line), "{names}");
    }
    bench.make_true(&configured(&json!([]), &json!([])));
    let names = bench.succeed("cat /etc/resolv.conf");
    assert!(!names.contains("198.51.100.53") && !names.contains("example.com"), "{names}");
}

/// A neighbour that sends LLDP: a port of Open vSwitch that is connected to the LAN, which forwards
/// LLDP.
const NEIGHBOUR: &str = "
ip link add lldp0 up type veth peer name lldp1 netns lan
lan ip link set lldp1 master br0 up
lan ip link set br0 type bridge group_fwd_mask 0x4000
ovs-vsctl --timeout=60 add-br lldp-switch -- add-port lldp-switch lldp0 \\
  -- set interface lldp0 lldp:enable=true
";

pub(crate) fn lldp(bench: &mut Bench) {
    bench.succeed(NEIGHBOUR);
    bench.make_true(&policy("wired", &json!([nic(NICS[0], &off())])));
    let desired = json!({"interfaces": [{
        "name": "{{ capture.wired.interfaces.0.name }}", "type": "ethernet", "state": "up",
        "lldp": {"enabled": true},
    }]});
    let expression = format!("interfaces.name==\"{}\"", NICS[0]);
    let captured = annotated("listening", &json!({}), &desired)
        + &format!("  capture: {}\n", json!({ "wired": expression }));
    bench.make_true(&captured);
    bench.wait_for_report(NICS[0], |it| {
        it.is_some_and(|it| it["lldp"]["neighbors"].as_array().is_some_and(|it| !it.is_empty()))
    });
}

pub(crate) fn two_policies(bench: &mut Bench) {
    for (name, nic_name, address) in
        [("first", NICS[0], "203.0.113.15"), ("second", NICS[1], "203.0.113.16")]
    {
        bench.apply(&policy(name, &json!([nic(nic_name, &fixed(address))])));
    }
    for (name, nic_name, address) in
        [("first", NICS[0], "203.0.113.15"), ("second", NICS[1], "203.0.113.16")]
    {
        bench.wait_for_condition(name, "Available", "SuccessfullyConfigured");
        assert_eq!(addresses(bench, nic_name), json!([address]));
        let desired = bench.enactment(name).status()["desiredState"].clone();
        assert_eq!(desired["interfaces"][0]["name"], nic_name, "{desired}");
    }
}

pub(crate) fn missing_nic(bench: &mut Bench) {
    let before = bench.network();
    let missing = policy("missing", &json!([nic("eth666", &off())]));
    bench.apply(&missing);
    let failed = bench.wait_for(&missing, Phase::Failed);
    assert!(failed.message("Failing").contains("eth666"), "{}", failed.message("Failing"));
    bench.wait_for_condition("missing", "Degraded", "FailedToConfigure");
    assert_eq!(bench.network(), before);
}

pub(crate) fn bad_gateway(bench: &mut Bench) {
    let route = json!([{
        "destination": "0.0.0.0/0", "next-hop-address": "203.0.113.99",
        "next-hop-interface": NICS[0], "table-id": 254, "metric": 1,
    }]);
    let interfaces = json!([nic(NICS[0], &fixed("203.0.113.17"))]);
    let before = bench.network();
    let bad = with_routes("bad", &interfaces, &route);
    bench.apply(&bad);
    let failed = bench.wait_for(&bad, Phase::Failed);
    assert_eq!(failed.status()["failure"]["probe"], "gateway", "{}", failed.status());
    bench.wait_for_network(&before);
    assert!(has_route(bench, 254, "default", UPLINK));
    bench.wait_for_condition("bad", "Degraded", "FailedToConfigure");
}

/// The uplink becomes a port of a bridge whose own interface has another address.
pub(crate) fn bad_open_vswitch(bench: &mut Bench) {
    let before = bench.network();
    assert_eq!(before[UPLINK], json!([null, 1500, [ADDRESS]]));
    let interfaces = json!([
        nic(UPLINK, &off()),
        open_vswitch_bridge(&json!([{"name": UPLINK}, {"name": "ovs7"}])),
        open_vswitch_interface(&fixed("203.0.113.18")),
    ]);
    let route = json!([{
        "destination": "0.0.0.0/0", "next-hop-address": GATEWAY, "next-hop-interface": "ovs7",
    }]);
    let bad = with_routes("bad", &interfaces, &route);
    bench.apply(&bad);
    let failed = bench.wait_for(&bad, Phase::Failed);
    assert_eq!(failed.status()["failure"]["kind"], "ProbeFailed", "{}", failed.status());
    bench.wait_for_network(&before);
}

/// The address by which the node reaches its API server moves to a bridge of Open vSwitch.
pub(crate) fn uplink_on_open_vswitch(bench: &mut Bench) {
    let before = bench.network();
    let mac = bench.link(UPLINK).unwrap()["address"].clone();
    let mut internal = open_vswitch_interface(&fixed(ADDRESS));
    internal["mac-address"] = mac;
    let interfaces = json!([
        nic(UPLINK, &off()),
        open_vswitch_bridge(&json!([{"name": UPLINK}, {"name": "ovs7"}])),
        internal,
    ]);
    let route = json!([{
        "destination": "0.0.0.0/0", "next-hop-address": GATEWAY, "next-hop-interface": "ovs7",
    }]);
    let desired = json!({"interfaces": interfaces, "routes": {"config": route}});
    let revert = json!({"nmstate.landfall.dev/revert-on-delete": "true"});
    bench.make_true(&annotated("moved", &revert, &desired));
    let moved = bench.network();
    assert_eq!(moved["ovs7"][2], json!([ADDRESS]));
    assert_eq!(moved[UPLINK][2], json!([]));
    bench.restart();
    bench.wait_for_network(&moved);
    bench.start_handler(PATIENT);
    bench.delete("moved");
    bench.wait_for_network(&before);
}
