//! The program on machines with their own kernel: bonds, VLANs, the kernel's datapath, and
//! boots from the same disk.

use std::path::Path;

use lab_cluster::node::uml::{Uml, UmlOptions};
use lab_cluster::node::{End, NodeFile, Profile};

const DOCUMENT: &str = "/etc/nmstate/openshift/worker-0.yml";

/// br-ex on a VLAN on a bond of both NICs.
const GOOD: &str = "interfaces:
- {name: nic0, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
- {name: nic1, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
- name: bond0
  type: bond
  state: up
  mac-address: 52:54:00:00:be:ef
  ipv4: {enabled: false}
  ipv6: {enabled: false}
  link-aggregation:
    mode: active-backup
    options: {miimon: 100}
    port: [nic0, nic1]
- name: bond0.100
  type: vlan
  state: up
  ipv4: {enabled: false}
  ipv6: {enabled: false}
  vlan: {base-iface: bond0, id: 100}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge:
    allow-extra-patch-ports: true
    port: [{name: bond0.100}, {name: br-ex}]
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: bond0
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.10, prefix-length: 24}]}
  ipv6: {enabled: false}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: br-ex, metric: 48}
dns-resolver:
  config: {server: [192.0.2.1]}
";

/// What every boot starts with, as units do.
const BOOT: &str = "
p=/host/brex-firstboot
profiles() { cat /etc/NetworkManager/system-connections/* | sha256sum; }
has_lease() { ip -o -4 address show nic0 | grep -q 198.51.100; }
";

fn machine(document: &str) -> Uml {
    machine_with(document, UmlOptions::default().profiles)
}

fn machine_with(document: &str, profiles: Vec<Profile>) -> Uml {
    let file = NodeFile { path: DOCUMENT.into(), content: document.into(), mode: 0o644 };
    let (hostname, files) = ("worker-0".into(), vec![file]);
    let options = UmlOptions { hostname, files, profiles, ..UmlOptions::default() };
    let machine = Uml::new(&options).unwrap();
    machine.install(Path::new(env!("CARGO_BIN_EXE_brex-firstboot"))).unwrap();
    machine
}

#[test]
fn br_ex_over_a_vlan_over_a_bond_survives_a_power_cut_and_a_second_boot_changes_nothing() {
    let mut machine = machine(GOOD);
    let apply = "
await 'nic0 has a lease' has_lease
$p apply --patience 120 || exit 3
ping -q -c 1 -W 5 192.0.2.1 || exit 4
cmp /etc/nmstate/openshift/applied /etc/nmstate/openshift/worker-0.yml || exit 5
profiles > /host/profiles; sync; power_cut";
    let run = machine.boot(&[BOOT, apply].concat()).unwrap();
    assert_eq!(run.end, End::PowerCut, "{}\n{}", run.output, run.logs);

    let again = "
await 'the router on the VLAN responds' ping -q -c 1 -W 1 192.0.2.1
for command in recover stage confirm apply; do $p $command || exit 3; done
profiles | cmp - /host/profiles || exit 4
ovs-vsctl list-ports br-ex";
    let run = machine.boot(&[BOOT, again].concat()).unwrap();
    assert!(run.succeeded().unwrap().contains("bond0.100"), "{}", run.output);
}

#[test]
fn a_bad_document_ends_with_the_old_network_and_a_failing_exit_code() {
    let mut machine =
        machine(&GOOD.replace("next-hop-address: 192.0.2.1", "next-hop-address: 192.0.2.77"));
    let scenario = "
await 'nic0 has a lease' has_lease
profiles > /host/profiles
$p apply --patience 5; echo code $?
await 'nic0 has a lease again' has_lease
await 'the old router responds' ping -q -c 1 -W 1 198.51.100.1
[ ! -e /etc/nmstate/openshift/applied ] || exit 3
profiles | cmp - /host/profiles || exit 4
ovs-vsctl list-br | grep . && exit 5
sync; power_cut";
    let run = machine.boot(&[BOOT, scenario].concat()).unwrap();
    assert_eq!(run.end, End::PowerCut, "{}\n{}", run.output, run.logs);
    assert!(run.output.contains("code 1"), "{}", run.output);

    let next = "
$p recover || exit 3
await 'nic0 has a lease' has_lease
grep -o taken-back /var/log/brex-firstboot/report.json";
    machine.boot(&[BOOT, next].concat()).unwrap().succeeded().unwrap();
}

/// Power fails between staging and confirming, when the new profiles are on the disk.
#[test]
fn an_attempt_that_a_power_failure_interrupted_is_rolled_back_by_the_next_boot() {
    let mut machine = machine(GOOD);
    let stage = "
await 'nic0 has a lease' has_lease
profiles > /host/profiles
$p stage || exit 3
echo half > /etc/NetworkManager/system-connections/br-ex-br.nmconnection
echo half > /etc/NetworkManager/system-connections/nic0.nmconnection
sync; power_cut";
    let run = machine.boot(&[BOOT, stage].concat()).unwrap();
    assert_eq!(run.end, End::PowerCut, "{}\n{}", run.output, run.logs);
    // A unit would not let NetworkManager run before this; here it reloads them.
    let next = "
$p recover || exit 3
profiles | cmp - /host/profiles || exit 4
[ ! -e /etc/nmstate/worker-0.yml ] || exit 5
nmcli connection reload; nmcli connection up nic0 || nmcli device connect nic0
await 'nic0 has a lease' has_lease
grep -o recovered /var/log/brex-firstboot/report.json";
    machine.boot(&[BOOT, next].concat()).unwrap().succeeded().unwrap();
}

/// A node whose network is a bond with a VLAN, and a document for a bridge on one of its NICs.
#[test]
fn a_previous_bond_and_its_vlan_come_back() {
    let profile = |name: &str, text: &str| Profile { name: name.into(), text: text.into() };
    let port = |nic: &str| {
        let text = format!(
            "[connection]\nid={nic}\nuuid=00000000-0000-4000-8000-00000000000{}\ntype=ethernet\ninterface-name={nic}\nmaster=bond0\nslave-type=bond\n",
            &nic[3..]
        );
        profile(nic, &text)
    };
    let bond = "[connection]\nid=bond0\nuuid=00000000-0000-4000-8000-0000000000b0\ntype=bond\ninterface-name=bond0\n[bond]\nmode=active-backup\nmiimon=100\n[ipv4]\nmethod=disabled\n[ipv6]\nmethod=disabled\n";
    let vlan = "[connection]\nid=vlan100\nuuid=00000000-0000-4000-8000-0000000000b1\ntype=vlan\ninterface-name=bond0.100\n[vlan]\nid=100\nparent=bond0\n[ipv4]\nmethod=auto\n[ipv6]\nmethod=disabled\n";
    let profiles =
        vec![port("nic0"), port("nic1"), profile("bond0", bond), profile("vlan100", vlan)];
    let document = "interfaces:
- {name: bond0.100, type: vlan, state: absent}
- {name: bond0, type: bond, state: absent}
- {name: nic0, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
- {name: br-ex, type: ovs-bridge, state: up, bridge: {allow-extra-patch-ports: true, port: [{name: nic0}, {name: br-ex}]}}
- {name: br-ex, type: ovs-interface, state: up, copy-mac-from: nic0, ipv4: {enabled: true, address: [{ip: 198.51.100.10, prefix-length: 24}]}, ipv6: {enabled: false}}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 198.51.100.77, next-hop-interface: br-ex, metric: 48}]}
dns-resolver: {config: {server: [198.51.100.1]}}
";
    let mut machine = machine_with(document, profiles);
    // The devices of bond and VLAN no longer exist when the attempt is rolled back.
    let scenario = "
on_vlan() { ip -o -4 address show bond0.100 | grep -q 192.0.2; }
await 'the VLAN has a lease' on_vlan
profiles > /host/profiles
$p stage || exit 3
nmcli connection delete vlan100 bond0 nic0 nic1 || exit 4
nmcli connection add type ovs-bridge con-name br-ex-br ifname br-ex
nmcli connection add type ovs-port con-name br-ex-port ifname br-ex master br-ex
nmcli connection add type ovs-interface con-name br-ex-if ifname br-ex master br-ex-port slave-type ovs-port ipv4.method manual ipv4.addresses 198.51.100.10/24 ipv6.method disabled || exit 5
ip link show bond0 && exit 6
$p confirm --patience 3; echo code $?
await 'the VLAN has a lease again' on_vlan
await 'the router of the VLAN responds' ping -q -c 1 -W 1 192.0.2.1
profiles | cmp - /host/profiles || exit 7
ovs-vsctl list-br | grep . && exit 8
cat /var/log/brex-firstboot/report.json";
    let run = machine.boot(&[BOOT, scenario].concat()).unwrap();
    let output = run.succeeded().unwrap();
    assert!(output.contains("code 1") && !output.contains("notInUse"), "{output}");
}
