//! br-ex on a VLAN of a bond, on a machine with a kernel of its own: what is below the bridge, and
//! what Open vSwitch makes of it.

use std::fs;
use std::path::Path;

use lab_cluster::node::uml::{Uml, UmlOptions};

use crate::nodes::change::{OUTCOME, PATIENCE, POLICY, PROGRAM, STATE};
use crate::nodes::{for_the_lab, page};

pub(crate) const VLAN: &str = "A VLAN below br-ex";
pub(crate) const MIIMON: &str = "The link monitoring interval of a bond";
pub(crate) const MODE: &str = "The mode of a bond";
pub(crate) const QOS: &str = "Priorities and queues";

/// The changes with their names in the scenario, in its order. The mode is last: the switch
/// follows.
const CHANGES: [(&str, &str); 4] =
    [("vlan", VLAN), ("miimon", MIIMON), ("qos", QOS), ("mode", MODE)];

fn scenario() -> String {
    let program = PROGRAM.join(" ");
    format!(
        r#"
has_lease() {{ ip -o -4 address show nic0 | grep -q 198.51.100; }}
answers() {{ ping -q -c 1 -W 1 "$1"; }}
# Makes a change of the network.
apply() {{
  cp "$1" {POLICY}
  /host/tests {program} || exit 3
  grep -q '"result": "committed"' {OUTCOME} || {{ echo "$1"; cat {OUTCOME}; exit 4; }}
}}
# What ovnkube depends on: the numbers of the ports that its flows name, and the flows.
number() {{ ovs-vsctl --timeout=60 get interface "$1" ofport; }}
openflow() {{
  echo "uplink $(number bond0.100) patch $(number $p)"
  ovs-ofctl --no-stats --sort=priority dump-flows br-ex
}}
in_cluster() {{
  await "the gateway responds after $1" answers 192.0.2.1
  ip -o -4 address show br-ex | grep -q 169.254.0.2/17 || exit 6
  ovs-vsctl --timeout=60 list-ports br-ex | grep -q patch-br-ex || exit 7
  # ovnkube is restarted by those who follow a plan that contains it.
  openflow > openflow.now
  cmp -s openflow openflow.now || grep -q 'Let ovnkube learn its uplink' "$1.plan" ||
    {{ echo "OpenFlow after $1"; diff openflow openflow.now; exit 15; }}
  cp openflow.now openflow
}}
# Plans a change from what the node has, and makes it.
change() {{
  /host/oc-brex plan --from {STATE} --to "$1.yml" --out "$1" > "$1.plan" || exit 5
  apply "$1/policy.yaml"
  in_cluster "$1"
}}
# Makes a change that is rolled back.
roll_back() {{
  cp "$1/policy.yaml" {POLICY}
  echo 12 > {PATIENCE}
  /host/tests {program} & local change=$!
  await "$1 is tried" grep -qx 170 /sys/class/net/bond0/bonding/miimon
  wait $change || exit 16
  grep -q '"result": "rolled-back"' {OUTCOME} || {{ echo "$1"; cat {OUTCOME}; exit 17; }}
  echo 120 > {PATIENCE}
  : > "$1.plan"
  await 'the interval is the former one' grep -qx 100 /sys/class/net/bond0/bonding/miimon
  in_cluster "$1"
}}
await 'nic0 has a lease' has_lease
apply in-cluster.yml
p=patch-br-ex_worker-1-to-br-int q=patch-br-int-to-br-ex_worker-1
ovs-vsctl --timeout=60 add-br br-int -- set bridge br-int fail_mode=secure \
  -- add-port br-int $q -- set interface $q type=patch options:peer=$p \
  -- add-port br-ex $p -- set interface $p type=patch options:peer=$q || exit 8
await 'the patch port has a number' test "$(number $p)" -gt 0
flow() {{ ovs-ofctl add-flow br-ex "cookie=0xdeff105,$1" || exit 9; }}
flow "priority=100,ip,in_port=$(number bond0.100),actions=NORMAL,output:$(number $p)"
flow "priority=100,ip,in_port=$(number $p),actions=output:$(number bond0.100)"
openflow > openflow
grep -c deff105 openflow | grep -qx 2 || exit 10

lan ip link add link br0 name br0.200 type vlan id 200
lan ip link set br0.200 up
lan ip address add 203.0.113.1/24 dev br0.200
change vlan
await 'the other VLAN responds' answers 203.0.113.1

change miimon
await 'the interval is the new one' grep -qx 140 /sys/class/net/bond0/bonding/miimon

change qos
ip -d link show bond0.100 | grep -q 'egress-qos-map {{ 6:5 }}' || exit 11
[ "$(cat /sys/class/net/nic0/bonding_slave/queue_id)" = 1 ] || exit 12
[ "$(cat /sys/class/net/nic1/bonding_slave/queue_id)" = 2 ] || exit 13

# A change that is rolled back by NetworkManager's checkpoint. What a NetworkManager that was killed does
# to br-ex when it starts is not compared.
/host/oc-brex plan --from {STATE} --to bad.yml --out bad || exit 18
roll_back bad

# The switch makes one link of both.
lan ip link add lag type bond mode 802.3ad miimon 100 lacp_rate fast
for port in port0 port1; do
  lan ip link set $port down
  lan ip link set $port nomaster
  lan ip link set $port master lag
done
lan ip link set lag up
lan ip link set lag master br0
change mode
[ "$(cat /sys/class/net/bond0/bonding/mode)" = '802.3ad 4' ] || exit 14
switch=$(lan cat /sys/class/net/lag/address)
partner() {{ [ "$(cat /sys/class/net/bond0/bonding/ad_partner_mac)" = "$switch" ]; }}
await 'the switch is the partner' partner
await 'the gateway responds over LACP' answers 192.0.2.1
"#
    )
}

#[test]
fn what_is_below_the_bridge_changes_and_the_node_stays_in_the_cluster() {
    let options = UmlOptions { hostname: "worker-1".into(), ..UmlOptions::default() };
    let mut machine = Uml::new(&options).unwrap();
    machine.install_as(&std::env::current_exe().unwrap(), "tests").unwrap();
    machine.install(Path::new(env!("CARGO_BIN_EXE_oc-brex"))).unwrap();
    let put = |name: &str, text: &str| fs::write(machine.shared().join(name), text).unwrap();
    put(PATIENCE, "120");
    let changes = CHANGES.map(|(name, title)| (name, page::find(title)));
    let old = for_the_lab(&changes[0].1.old);
    // What ovnkube adds to it.
    let own = "    - ip: \"192.0.2.10\"\n      prefix-length: 24\n";
    assert!(old.contains(own));
    let masquerade = format!("{own}    - ip: \"169.254.0.2\"\n      prefix-length: 17\n");
    put("in-cluster.yml", &old.replace(own, &masquerade));
    for (name, change) in &changes {
        put(&format!("{name}.yml"), &for_the_lab(&change.new));
    }
    let (_, qos) = changes.iter().find(|(name, _)| *name == "qos").unwrap();
    let gateway = "next-hop-address: \"192.0.2.1\"\n";
    let bad = for_the_lab(&qos.new);
    assert!(bad.contains(gateway) && bad.contains("miimon: \"100\""), "{bad}");
    let bad = bad.replace(gateway, "next-hop-address: \"192.0.2.254\"\n");
    put("bad.yml", &bad.replace("miimon: \"100\"", "miimon: \"170\""));
    let run = machine.boot(&scenario()).unwrap();
    run.succeeded().unwrap();
    for (name, change) in &changes {
        let path = machine.shared().join(name).join("policy.yaml");
        let policy = fs::read_to_string(path).unwrap();
        assert_eq!(policy, for_the_lab(&change.policy), "{}", change.title);
    }
}
