//! br-ex on a VLAN of a bond, on a machine with a kernel of its own: what is below the bridge.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use lab::node::uml::{Uml, UmlOptions};

use crate::nodes::change::{OUTCOME, PATIENCE, POLICY, PROGRAM, STATE};
use crate::nodes::{for_the_lab, page};

pub(crate) const VLAN: &str = "A VLAN below br-ex";
pub(crate) const MIIMON: &str = "How often links of a bond are looked at";
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
# Plans a change from what the node has, and makes it.
change() {{
  /host/oc-brex plan --from {STATE} --to "$1.yml" --out "$1" || exit 5
  apply "$1/policy.yaml"
  await "the gateway answers after $1" answers 192.0.2.1
  ip -o -4 address show br-ex | grep -q 169.254.0.2/17 || exit 6
  ovs-vsctl --timeout=60 list-ports br-ex | grep -q patch-br-ex || exit 7
}}
await 'nic0 has a lease' has_lease
apply in-cluster.yml
p=patch-br-ex_worker-1-to-br-int q=patch-br-int-to-br-ex_worker-1
ovs-vsctl --timeout=60 add-br br-int -- set bridge br-int fail_mode=secure \
  -- add-port br-int $q -- set interface $q type=patch options:peer=$p \
  -- add-port br-ex $p -- set interface $p type=patch options:peer=$q || exit 8

lan ip link add link br0 name br0.200 type vlan id 200
lan ip link set br0.200 up
lan ip address add 203.0.113.1/24 dev br0.200
change vlan
await 'the other VLAN answers' answers 203.0.113.1

change miimon
await 'the interval is the new one' grep -qx 140 /sys/class/net/bond0/bonding/miimon

change qos
ip -d link show bond0.100 | grep -q 'egress-qos-map {{ 6:5 }}' || exit 11
[ "$(cat /sys/class/net/nic0/bonding_slave/queue_id)" = 1 ] || exit 12
[ "$(cat /sys/class/net/nic1/bonding_slave/queue_id)" = 2 ] || exit 13

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
await 'the gateway answers over LACP' answers 192.0.2.1
"#
    )
}

fn install(from: &Path, machine: &Uml, name: &str) {
    let to = machine.shared().join(name);
    fs::copy(from, &to).unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_below_the_bridge_changes_and_the_node_stays_in_the_cluster() {
    let options = UmlOptions { hostname: "worker-1".into(), ..UmlOptions::default() };
    let mut machine = Uml::new(&options).unwrap();
    install(&std::env::current_exe().unwrap(), &machine, "tests");
    install(Path::new(env!("CARGO_BIN_EXE_oc-brex")), &machine, "oc-brex");
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
    let run = machine.boot(&scenario()).unwrap();
    run.succeeded().unwrap();
    for (name, change) in &changes {
        let path = machine.shared().join(name).join("policy.yaml");
        let policy = fs::read_to_string(path).unwrap();
        assert_eq!(policy, for_the_lab(&change.policy), "{}", change.title);
    }
}
