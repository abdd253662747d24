//! Policies for storage networks, carried out by the handler on a machine with a kernel of its own,
//! which has bonds and VLANs. The judge is that kernel, and the LAN at the other end of the wires.
//!
//! One machine serves all cases, which run one after the other, beside those on nodes in namespaces:
//! it keeps one processor busy, and they wait most of the time.

#[path = "storage_networks/bench.rs"]
pub(crate) mod bench;
#[path = "storage_networks/page.rs"]
mod page;

use bench::{ADDRESS, Bench, GATEWAY, NICS, UPLINK};
use node_policy::Phase;
use page::Section;
use serde_json::{Value, json};

type Case = (&'static str, fn(&mut Bench));

/// In this order.
const CASES: [Case; 8] = [
    ("the policy of the page makes a bond with a VLAN for jumbo frames", bond_and_vlan),
    ("a bond becomes one that the switch negotiates", lacp),
    ("a bridge that filters VLANs lies on the bond", bridge),
    ("an MTU that does not fit is refused, and nothing changes", mtu_too_large),
    ("what is for now only is gone after a restart, and all else is there", restart),
    ("a bond that takes the way to the API away is rolled back", cut_off),
    ("a bond that takes the address along is kept", way_kept),
    ("a VLAN that shall be absent goes, and its bond stays", vlan_absent),
];

/// For changes that are to be kept, on a machine that is busy with other things.
pub(crate) const PATIENT: u32 = 120;
/// For changes that are to be rolled back.
pub(crate) const IMPATIENT: u32 = 20;

#[test]
fn policies_for_storage_networks_are_carried_out_on_a_real_kernel() {
    let mut bench = Bench::switch_on();
    bench.start_handler(PATIENT);
    for (name, case) in CASES {
        let began = std::time::Instant::now();
        case(&mut bench);
        eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f32());
    }
}

pub(crate) fn policy(name: &str, interfaces: &Value) -> String {
    annotated(name, &json!({}), &json!({"interfaces": interfaces}))
}

pub(crate) fn annotated(name: &str, annotations: &Value, desired: &Value) -> String {
    format!(
        "apiVersion: nmstate.io/v1
kind: NodeNetworkConfigurationPolicy
metadata:
  name: {name}
  annotations: {annotations}
spec:
  desiredState: {desired}
"
    )
}

/// Whether the bond, its cards and its VLAN are as the page wants them.
fn assert_storage(bench: &Bench, mode: &str) {
    let bond = bench.link("bond0").unwrap();
    assert_eq!(bond["linkinfo"]["info_kind"], "bond");
    assert_eq!(bond["linkinfo"]["info_data"]["mode"], mode);
    assert_eq!(bond["linkinfo"]["info_data"]["miimon"], 100);
    assert_eq!(bond["mtu"], 9000);
    for nic in NICS {
        let nic = bench.link(nic).unwrap();
        assert_eq!((&nic["master"], &nic["mtu"]), (&json!("bond0"), &json!(9000)), "{nic}");
    }
    let vlan = bench.link("bond0.100").unwrap();
    assert_eq!(vlan["link"], "bond0");
    assert_eq!(vlan["linkinfo"]["info_kind"], "vlan");
    assert_eq!(vlan["linkinfo"]["info_data"]["id"], 100);
    assert_eq!(vlan["mtu"], 9000);
    assert_eq!(bench.network()["bond0.100"], json!([null, 9000, ["192.0.2.21"]]));
    bench.lan_reaches("192.0.2.21", 9000);
}

fn bond_and_vlan(bench: &mut Bench) {
    let section = Section::read();
    let enactment = bench.make_true(&section.policy);
    assert_eq!(enactment.status()["desiredState"]["interfaces"].as_array().unwrap().len(), 2);
    assert_storage(bench, "active-backup");
    let [first, _] = NICS;
    bench.wait_for_bond(&format!("Primary Slave: {first} "));
    bench.wait_for_bond(&format!("Currently Active Slave: {first}"));
    bench.wait_for_report("bond0", |bond| {
        bond.is_some_and(|bond| {
            let ports = &bond["link-aggregation"]["port"];
            bond["mtu"] == 9000
                && bond["link-aggregation"]["mode"] == "active-backup"
                && NICS.iter().all(|nic| ports.as_array().unwrap().contains(&json!(nic)))
        })
    });
    bench.wait_for_report("bond0.100", |vlan| {
        vlan.is_some_and(|vlan| {
            vlan["vlan"]["base-iface"] == "bond0"
                && vlan["vlan"]["id"] == 100
                && vlan["ipv4"]["address"][0]["ip"] == "192.0.2.21"
        })
    });
}

/// Makes one link of both ports of the switch. It forgets that when the machine is restarted.
const SWITCH: &str = "
lan ip link add lag mtu 9216 type bond mode 802.3ad miimon 100 lacp_rate fast
for port in port0 port1; do
  lan ip link set $port down
  lan ip link set $port nomaster
  lan ip link set $port master lag
done
lan ip link set lag up
lan ip link set lag master br0
";
const NEGOTIATED: &str = "
switch=$(lan cat /sys/class/net/lag/address)
partner() { [ \"$(cat /sys/class/net/bond0/bonding/ad_partner_mac)\" = \"$switch\" ]; }
await 'the switch is the partner' partner
";

fn with_lacp(section: &Section) -> String {
    section.edited(&section.policy, "802.3ad")
}

fn lacp(bench: &mut Bench) {
    bench.succeed(SWITCH);
    bench.make_true(&with_lacp(&Section::read()));
    bench.succeed(NEGOTIATED);
    assert_storage(bench, "802.3ad");
    let bond = bench.link("bond0").unwrap();
    let options = &bond["linkinfo"]["info_data"];
    assert_eq!(options["ad_lacp_rate"], "fast");
    assert_eq!(options["xmit_hash_policy"], "layer3+4");
    bench.wait_for_bond("Number of ports: 2");
    bench.wait_for_report("bond0", |bond| {
        bond.is_some_and(|bond| {
            let aggregation = &bond["link-aggregation"];
            aggregation["mode"] == "802.3ad" && aggregation["options"]["lacp_rate"] == "fast"
        })
    });
}

fn bridge(bench: &mut Bench) {
    let port = json!({
        "name": "bond0",
        "vlan": {"mode": "trunk", "trunk-tags": [{"id": 300}, {"id-range": {"min": 310, "max": 319}}]},
    });
    let bridge = json!([{
        "name": "guests", "type": "linux-bridge", "state": "up", "mtu": 9000,
        "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
        "bridge": {"options": {"stp": {"enabled": false}}, "port": [port]},
    }]);
    bench.make_true(&policy("guests", &bridge));
    let link = bench.link("guests").unwrap();
    assert_eq!(link["linkinfo"]["info_data"]["vlan_filtering"], 1, "{link}");
    assert_eq!(link["mtu"], 9000);
    assert_eq!(bench.link("bond0").unwrap()["master"], "guests");
    let vlans = bench.json("bridge -json vlan show dev bond0");
    let tags = vlans[0]["vlans"].as_array().unwrap();
    let tags: Vec<u64> = tags.iter().map(|it| it["vlan"].as_u64().unwrap()).collect();
    // Without a tag is VLAN 1, which the kernel begins with.
    let expected: Vec<u64> = [1, 300].into_iter().chain(310..=319).collect();
    assert_eq!(tags, expected, "{vlans}");
    assert_storage(bench, "802.3ad");
    bench.wait_for_report("guests", |bridge| {
        bridge.is_some_and(|bridge| bridge["bridge"]["port"][0]["vlan"]["mode"] == "trunk")
    });
}

fn vlan(name: &str, id: u16, mtu: u32) -> Value {
    json!([{
        "name": name, "type": "vlan", "state": "up", "mtu": mtu,
        "vlan": {"base-iface": "bond0", "id": id},
        "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
    }])
}

fn mtu_too_large(bench: &mut Bench) {
    let before = bench.network();
    let too_large = policy("too-large", &vlan("bond0.400", 400, 9001));
    bench.apply(&too_large);
    let failed = bench.wait_for(&too_large, Phase::Failed);
    let message = failed.message("Failing");
    assert_eq!(failed.reason("Failing"), "FailedToConfigure");
    assert!(message.contains("bond0.400") && message.contains("9001"), "{message}");
    assert!(message.contains("9000"), "{message}");
    assert!(message.len() <= 1024, "{message}");
    assert_eq!(bench.network(), before);
    bench.delete("too-large");
}

fn restart(bench: &mut Bench) {
    let lasting = bench.network();
    let for_now = json!({"nmstate.landfall.dev/memory-only": "true"});
    let desired = json!({"interfaces": vlan("bond0.200", 200, 1500)});
    let transient = bench.make_true(&annotated("transient", &for_now, &desired));
    assert_eq!(bench.link("bond0.200").unwrap()["mtu"], 1500);
    let section = Section::read();
    let kept = ["guests", bench::name_of(&section.policy)];
    let versions = |bench: &Bench| kept.map(|name| bench.enactment(name).version());
    let before = versions(bench);

    bench.restart();
    bench.succeed(SWITCH);
    bench.wait_for_network(&lasting);
    bench.succeed(NEGOTIATED);
    assert_storage(bench, "802.3ad");

    // Whoever starts after a restart looks at all policies, in the order of their names.
    bench.start_handler(PATIENT);
    bench.wait_for_news("transient", &transient);
    assert!(bench.link("bond0.200").is_some(), "what the policy still wants is made again");
    assert_eq!(versions(bench), before, "nothing was said about what is as it should be");
    let log = bench.log();
    let applied = |name: &str| log.contains(&format!("applying policy=\"{name}\""));
    assert!(applied("transient"), "{log}");
    assert!(!kept.iter().any(|name| applied(name)), "{log}");
    bench.delete("transient");
}

/// A bond of the card by which the node reaches the API.
fn bond_of_uplink(ipv4: &Value) -> Value {
    json!([{
        "name": "bond1", "type": "bond", "state": "up",
        "link-aggregation": {"mode": "active-backup", "options": {"miimon": 100}, "port": [UPLINK]},
        "ipv4": ipv4, "ipv6": {"enabled": false},
    }])
}

fn cut_off(bench: &mut Bench) {
    bench.stop_handler();
    bench.start_handler(IMPATIENT);
    let before = bench.network();
    let bad = policy("bad", &bond_of_uplink(&json!({"enabled": false})));
    bench.apply(&bad);
    let failed = bench.wait_for(&bad, Phase::Failed);
    assert_eq!(failed.status()["failure"]["kind"], "ProbeFailed", "{}", failed.status());
    assert_eq!(failed.status()["failure"]["probe"], "api-server");
    let message = failed.message("Failing");
    assert!(message.contains("it was rolled back"), "{message}");
    assert!(message.len() <= 1024, "{message}");
    bench.wait_for_network(&before);
    bench.delete("bad");
    bench.stop_handler();
    bench.start_handler(PATIENT);
}

fn way_kept(bench: &mut Bench) {
    let address = json!({"ip": ADDRESS, "prefix-length": 24});
    let interfaces = bond_of_uplink(&json!({"enabled": true, "dhcp": false, "address": [address]}));
    let route = json!({
        "destination": "0.0.0.0/0", "next-hop-address": GATEWAY, "next-hop-interface": "bond1",
    });
    let desired = json!({"interfaces": interfaces, "routes": {"config": [route]}});
    bench.make_true(&annotated("good", &json!({}), &desired));
    let network = bench.network();
    assert_eq!(network[UPLINK], json!(["bond1", 1500, []]));
    assert_eq!(network["bond1"], json!([null, 1500, [ADDRESS]]));
}

fn vlan_absent(bench: &mut Bench) {
    let section = Section::read();
    bench.make_true(&section.edited(&with_lacp(&section), "absent"));
    assert_eq!(bench.link("bond0.100"), None);
    let bond = bench.link("bond0").unwrap();
    assert_eq!(bond["linkinfo"]["info_data"]["mode"], "802.3ad");
    bench.wait_for_report("bond0.100", |vlan| vlan.is_none());
    let profiles = bench.succeed("ls /etc/NetworkManager/system-connections");
    assert!(!profiles.contains("bond0.100"), "{profiles}");
}
