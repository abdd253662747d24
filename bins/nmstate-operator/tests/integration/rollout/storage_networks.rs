//! Policies for storage networks, applied by the handler on a machine with its own kernel, which
//! has bonds and VLANs. The result is read from that kernel, and from the LAN at the other end of
//! the links. Each case begins with a node that has its uplink only, and creates the network that
//! it needs.

#[path = "storage_networks/bench.rs"]
pub(crate) mod bench;
#[path = "storage_networks/page.rs"]
mod page;

use bench::{ADDRESS, Bench, GATEWAY, NICS, UPLINK};
use node_policy::Phase;
use page::Section;
use serde_json::{Value, json};

/// For changes that are expected to succeed, on a machine under load.
pub(crate) const PATIENT: u32 = 120;
/// For changes that are expected to be rolled back.
pub(crate) const IMPATIENT: u32 = 20;

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

/// Checks that the bond, its NICs and its VLAN are as the page specifies them.
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

/// Applies the policy of the page.
fn make_storage(bench: &Bench) -> Section {
    let section = Section::read();
    bench.make_true(&section.policy);
    section
}

pub(crate) fn bond_and_vlan(bench: &mut Bench) {
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

/// Makes one link of both ports of the switch. The bench divides it after the test.
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

/// The policy of the page with its first edit: the bond is negotiated with the switch.
fn with_lacp(section: &Section) -> String {
    section.edited(&section.policy, "802.3ad")
}

/// Applies the policy with a bond that is negotiated with the switch.
fn make_negotiated_storage(bench: &Bench) -> Section {
    let section = Section::read();
    bench.succeed(SWITCH);
    bench.make_true(&with_lacp(&section));
    bench.succeed(NEGOTIATED);
    section
}

pub(crate) fn lacp(bench: &mut Bench) {
    let section = make_storage(bench);
    bench.succeed(SWITCH);
    bench.make_true(&with_lacp(&section));
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

/// Puts a bridge that filters VLANs on the bond.
fn make_bridge(bench: &Bench) {
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
}

pub(crate) fn bridge(bench: &mut Bench) {
    make_negotiated_storage(bench);
    make_bridge(bench);
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

pub(crate) fn mtu_too_large(bench: &mut Bench) {
    make_storage(bench);
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
}

pub(crate) fn restart(bench: &mut Bench) {
    let section = make_negotiated_storage(bench);
    make_bridge(bench);
    let lasting = bench.network();
    let for_now = json!({"nmstate.landfall.dev/memory-only": "true"});
    let desired = json!({"interfaces": vlan("bond0.200", 200, 1500)});
    let transient = bench.make_true(&annotated("transient", &for_now, &desired));
    assert_eq!(bench.link("bond0.200").unwrap()["mtu"], 1500);
    let kept = ["guests", bench::name_of(&section.policy)];
    let versions = |bench: &Bench| kept.map(|name| bench.enactment(name).version());
    let before = versions(bench);

    bench.restart();
    // The LAN is part of the machine: its switch has separate ports again.
    bench.succeed(SWITCH);
    bench.wait_for_network(&lasting);
    bench.succeed(NEGOTIATED);
    assert_storage(bench, "802.3ad");

    // A handler that starts compares all policies, in the order of their names.
    bench.start_handler(PATIENT);
    bench.wait_for_news("transient", &transient);
    assert!(bench.link("bond0.200").is_some(), "the policy is applied again");
    assert_eq!(versions(bench), before, "nothing is reported about policies that need no change");
    let log = bench.log();
    let applied = |name: &str| log.contains(&format!("applying policy=\"{name}\""));
    assert!(applied("transient"), "{log}");
    assert!(!kept.iter().any(|name| applied(name)), "{log}");
}

/// A bond of the NIC by which the node reaches the API.
fn bond_of_uplink(ipv4: &Value) -> Value {
    json!([{
        "name": "bond1", "type": "bond", "state": "up",
        "link-aggregation": {"mode": "active-backup", "options": {"miimon": 100}, "port": [UPLINK]},
        "ipv4": ipv4, "ipv6": {"enabled": false},
    }])
}

pub(crate) fn cut_off(bench: &mut Bench) {
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
}

pub(crate) fn address_moves(bench: &mut Bench) {
    let before = bench.network();
    let address = json!({"ip": ADDRESS, "prefix-length": 24});
    let ipv4 = json!({"enabled": true, "dhcp": false, "address": [address]});
    let routes = |interface: &str| {
        json!({"config": [{
            "destination": "0.0.0.0/0", "next-hop-address": GATEWAY, "next-hop-interface": interface,
        }]})
    };
    let desired = json!({"interfaces": bond_of_uplink(&ipv4), "routes": routes("bond1")});
    bench.make_true(&annotated("good", &json!({}), &desired));
    let network = bench.network();
    assert_eq!(network[UPLINK], json!(["bond1", 1500, []]));
    assert_eq!(network["bond1"], json!([null, 1500, [ADDRESS]]));

    let interfaces = json!([
        {"name": "bond1", "type": "bond", "state": "absent"},
        {
            "name": UPLINK, "type": "ethernet", "state": "up", "mtu": 1500,
            "ipv4": ipv4, "ipv6": {"enabled": false},
        },
    ]);
    let desired = json!({"interfaces": interfaces, "routes": routes(UPLINK)});
    bench.make_true(&annotated("good", &json!({}), &desired));
    bench.wait_for_network(&before);
}

pub(crate) fn vlan_absent(bench: &mut Bench) {
    let section = make_negotiated_storage(bench);
    bench.make_true(&section.edited(&with_lacp(&section), "absent"));
    assert_eq!(bench.link("bond0.100"), None);
    let bond = bench.link("bond0").unwrap();
    assert_eq!(bond["linkinfo"]["info_data"]["mode"], "802.3ad");
    bench.wait_for_report("bond0.100", |vlan| vlan.is_none());
    let profiles = bench.succeed("ls /etc/NetworkManager/system-connections");
    assert!(!profiles.contains("bond0.100"), "{profiles}");
}
