//! The production path on machines with their own kernel, as the units call it: `stage`,
//! `nmstatectl service`, `confirm`. The documents are the samples of the enhancement, byte for byte;
//! the nodes start with what nodes start with: profiles from kernel arguments, or NetworkManager's own
//! "Wired connection 1".

use lab::tools::{self, Tool};
use lab_cluster::node::End;
use lab_cluster::node::uml::{Uml, UmlOptions};

use crate::samples::{self, MASTERS, NIC, WORKERS};

/// What every boot starts with.
const BOOT: &str = "
p=/host/brex-firstboot
profiles=/etc/NetworkManager/system-connections
# The network that the samples are for.
lan ip address add 192.168.111.1/24 dev br0
answers() { ping -q -c 1 -W 1 \"$1\"; }
in_use() { nmcli -t -f NAME,DEVICE connection show --active | grep -qxF \"$1\"; }
leased() { ip -o -4 address show \"$1\" | grep -q 'inet 198.51.100.1[0-5]'; }
# As nodeip-configuration.service.
node_ip() {
  mkdir -p /run/nodeip-configuration
  ip -4 -o address show dev \"$1\" | awk '{sub(\"/.*\", \"\", $4); print $4; exit}' \\
    > /run/nodeip-configuration/primary-ip
}
# The units, in their order. The last one decides.
units() {
  $p stage || exit 31
  /host/nmstatectl service || exit 32
  $p confirm --patience \"$1\"
}
";

/// A machine with the files of a sample. It has no profiles; NetworkManager creates them if
/// `automatic_profiles` is set.
fn machine(hostname: &str, sample: &str, automatic_profiles: bool) -> Uml {
    let network = UmlOptions { profiles: Vec::new(), automatic_profiles, ..UmlOptions::default() };
    let machine = samples::machine(hostname, sample, network);
    machine.install(&tools::path(Tool::Nmstatectl).unwrap()).unwrap();
    machine
}

/// What the initrd makes of `ip=` among the kernel's arguments, in /run.
const KERNEL_ARGUMENTS: &str = "
generator=$(ls /usr/libexec/nm-initrd-generator /usr/lib/NetworkManager/nm-initrd-generator 2> /dev/null)
$generator -c /run/NetworkManager/system-connections -- \\
  ip=192.168.111.113::192.168.111.1:255.255.255.0:worker-0:enp2s0:none || exit 20
ls /run/NetworkManager/system-connections | grep -q . || exit 21
nmcli connection reload
await 'the profile of the kernel arguments is in use' in_use enp2s0:enp2s0
await 'the router responds' answers 192.168.111.1
";

#[test]
fn a_static_sample_replaces_a_profile_from_kernel_arguments_and_survives_a_power_loss() {
    let mut machine = machine("worker-0", WORKERS, false);
    // Nothing is synced but by the programs.
    let first = "
node_ip enp2s0
units 120 || exit 33
cmp /etc/nmstate/openshift/applied /etc/nmstate/openshift/worker-0.yaml || exit 34
[ ! -e /var/lib/brex-firstboot/attempt ] || exit 35
ip -o -4 address show br-ex | grep -q 192.168.111.113/24 || exit 36
ping -q -c 1 -W 5 192.168.111.1 || exit 37
[ \"$(cat /sys/class/net/br-ex/address)\" != '' ] || exit 38
power_cut";
    let run = machine.boot(&[BOOT, KERNEL_ARGUMENTS, first].concat()).unwrap();
    assert_eq!(run.end, End::PowerCut, "{}\n{}", run.output, run.logs);

    let second = "
await 'the router responds through br-ex' answers 192.168.111.1
ip route get 192.168.111.1 | grep -q 'dev br-ex' || exit 40
for command in recover stage confirm; do $p $command || exit 41; done
ovs-vsctl list-ports br-ex";
    let run = machine.boot(&[BOOT, second].concat()).unwrap();
    assert!(run.succeeded().unwrap().contains(NIC), "{}", run.output);
}

#[test]
fn a_sample_with_dhcp_replaces_wired_connection_1() {
    let mut machine = machine("master-0", MASTERS, true);
    // The sample has `copy-mac-from` at the bridge, where nmstate ignores it: the lease is another one.
    let scenario = "
await 'the other NIC is off' nmcli device disconnect enp3s0
await 'NetworkManager made a profile of its own' leased enp2s0
nmcli -t -f NAME,DEVICE connection show --active | grep -q '^Wired connection .*:enp2s0$' || exit 20
units 120 || exit 33
cmp /etc/nmstate/openshift/applied /etc/nmstate/openshift/cluster.yaml || exit 34
leased br-ex || exit 35
ip -o -4 address show enp2s0 | grep . && exit 36
ping -q -c 1 -W 5 198.51.100.1 || exit 38";
    let run = machine.boot(&[BOOT, scenario].concat()).unwrap();
    run.succeeded().unwrap_or_else(|error| panic!("{error:#}\n{}", run.logs));
}

/// A gateway that does not exist, beside a document of another program.
#[test]
fn a_bad_document_is_rolled_back_to_wired_connection_1_and_others_keep_their_networks() {
    let mut machine = machine("worker-0", WORKERS, true);
    let scenario = "
sed -i 's/next-hop-address: 192.168.111.1$/next-hop-address: 192.168.111.77/' \\
  /etc/nmstate/openshift/worker-0.yaml
grep -q 111.77 /etc/nmstate/openshift/worker-0.yaml || exit 20
cat > /etc/nmstate/storage.yml <<'EOF'
interfaces:
- {name: storage0, type: linux-bridge, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
EOF
await 'NetworkManager made a profile of its own' leased enp2s0
name=$(nmcli -t -f NAME,DEVICE connection show --active | grep ':enp2s0$')
ls $profiles > /host/before
units 8; [ $? = 1 ] || exit 33
await 'the NIC has its lease again' leased enp2s0
await 'the router responds' answers 198.51.100.1
await 'the same profile is in use' in_use \"$name\"
ovs-vsctl list-br | grep . && exit 34
[ ! -e /etc/nmstate/openshift/applied ] || exit 35
ls /etc/nmstate/worker-0* && exit 36
# nmstate.service made it meanwhile, and will not make it a second time.
[ -e /sys/class/net/storage0 ] || exit 37
ls $profiles | diff /host/before - | grep '^[<>]' | grep -v storage0 && exit 38
ls /etc/nmstate | grep storage
grep -o taken-back /var/log/brex-firstboot/report.json";
    let run = machine.boot(&[BOOT, scenario].concat()).unwrap();
    run.succeeded().unwrap_or_else(|error| panic!("{error:#}\n{}", run.logs));
}
