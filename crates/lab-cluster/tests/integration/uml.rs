//! Machines of User-Mode Linux: what they guarantee to tests.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use lab_cluster::node::uml::{Uml, UmlOptions};
use lab_cluster::node::{End, Lan, LanOptions, Profile, Relay};

/// The most complex network of a node: a bridge on a VLAN on a bond of two NICs.
const BRIDGE_OVER_VLAN_OVER_BOND: &str = "
set -e
add() { nmcli connection add \"$@\" > /dev/null; }
add type bond con-name bond0 ifname bond0 ipv4.method disabled ipv6.method disabled \\
  bond.options mode=active-backup,miimon=100
for nic in nic0 nic1; do add type ethernet con-name $nic-port ifname $nic master bond0; done
add type ovs-bridge con-name br-ex-bridge ifname br-ex
add type ovs-port con-name br-ex-port ifname br-ex master br-ex slave-type ovs-bridge
add type ovs-port con-name vlan-port ifname vlan-port master br-ex slave-type ovs-bridge
add type vlan con-name bond0.100 ifname bond0.100 dev bond0 id 100 \\
  master vlan-port slave-type ovs-port
add type ovs-interface con-name br-ex ifname br-ex master br-ex-port slave-type ovs-port \\
  ipv4.method manual ipv4.addresses 192.0.2.10/24 ipv6.method disabled
nmcli --wait 60 connection up br-ex > /dev/null
";

const CHECK: &str = "
await 'the router on the VLAN responds' ping -q -c 1 -W 1 192.0.2.1
grep -o 'Bonding Mode: fault-tolerance' /proc/net/bonding/bond0
ovs-vsctl list-ports br-ex
ovs-dpctl show
ip -o -4 address show br-ex
";

fn checked(output: &str) {
    for part in ["fault-tolerance", "bond0.100", "system@ovs-system", "192.0.2.10/24"] {
        assert!(output.contains(part), "{part} is missing: {output}");
    }
}

#[test]
fn a_bridge_over_a_vlan_over_a_bond_is_there_again_after_a_power_cut() {
    let mut machine =
        Uml::new(&UmlOptions { profiles: Vec::new(), ..UmlOptions::default() }).unwrap();
    let ends = "sync; echo kept > /host/result; power_cut";
    let run = machine.boot(&[BRIDGE_OVER_VLAN_OVER_BOND, CHECK, ends].concat()).unwrap();
    assert_eq!(run.end, End::PowerCut, "{}", run.output);
    checked(&run.output);
    assert_eq!(fs::read_to_string(machine.shared().join("result")).unwrap(), "kept\n");

    let run = machine.boot(&[CHECK, "nmcli -t -f NAME connection show --active"].concat()).unwrap();
    checked(run.succeeded().unwrap());
    assert!(run.output.lines().any(|line| line == "bond0.100"), "{}", run.output);
}

#[test]
fn a_scenario_starts_on_a_named_machine_with_a_lease_and_its_exit_code_is_returned() {
    let options = UmlOptions { hostname: "worker-3".into(), ..UmlOptions::default() };
    let mut machine = Uml::new(&options).unwrap();
    fs::write(machine.shared().join("note"), "from the host").unwrap();
    let scenario = "
has_lease() { ip -o -4 address show nic0 | grep -q 198.51.100; }
await 'nic0 has a lease' has_lease
uname -n; cat note; lan ip -o -4 address show br0; cat /sys/class/net/nic0/mtu
# The LAN accepts jumbo frames from NICs with a larger MTU.
ip link set nic0 mtu 9000
await 'a jumbo frame comes back' ping -q -c 1 -W 1 -M do -s 8972 198.51.100.1
exit 7";
    let run = machine.boot(scenario).unwrap();
    assert_eq!(run.end, End::Exit(7), "{}", run.output);
    for part in ["worker-3", "from the host", "198.51.100.1/24", "\n1500\n"] {
        assert!(run.output.contains(part), "{part} is missing: {}", run.output);
    }
}

#[test]
fn a_running_machine_executes_commands_and_reaches_a_server_of_the_host() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let lan = Arc::new(Lan::start(&LanOptions::default()).unwrap());
    let relay = Relay::start(&lan, server.local_addr().unwrap()).unwrap();
    let options = UmlOptions {
        nics: ["ens1f0", "ens1f1"].map(str::to_owned),
        profiles: vec![Profile::dhcp("mgmt0")],
        uplink: Some(Arc::clone(&lan)),
        ..UmlOptions::default()
    };
    let mut machine = Uml::new(&options).unwrap().switch_on().unwrap();

    let output = machine.run("echo output; echo why >&2; exit 3").unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"output\n"[..], &b"why\n"[..]));
    let error = machine.succeed("ls /nowhere").unwrap_err().to_string();
    assert!(
        error.contains("`ls /nowhere` ended with") && error.contains("No such file"),
        "{error}"
    );
    let names = machine.succeed("ls /sys/class/net").unwrap();
    for name in ["ens1f0", "ens1f1", "mgmt0"] {
        assert!(names.lines().any(|line| line == name), "{names}");
    }

    let has_lease = "
has_lease() { ip -o -4 address show mgmt0 | grep -q 198.51.100; }
await 'mgmt0 has a lease' has_lease
";
    machine.succeed(has_lease).unwrap();
    let talk = format!(
        "exec 3<> /dev/tcp/{}/{}; echo hello >&3; cat <&3",
        relay.address().ip(),
        relay.address().port()
    );
    let served = std::thread::spawn(move || {
        let (mut client, _) = server.accept().unwrap();
        let mut message = [0; 6];
        client.read_exact(&mut message).unwrap();
        client.write_all(b"from the host").unwrap();
        message
    });
    assert_eq!(machine.succeed(&talk).unwrap(), "from the host");
    assert_eq!(&served.join().unwrap(), b"hello\n");

    machine.succeed("echo kept > /etc/kept; echo passing > /run/passing").unwrap();
    machine.restart().unwrap();
    assert_eq!(machine.succeed("cat /etc/kept").unwrap(), "kept\n");
    assert_eq!(machine.run("cat /run/passing").unwrap().status.code(), Some(1));
    machine.succeed(has_lease).unwrap();
}
