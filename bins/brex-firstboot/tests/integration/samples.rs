//! The samples of the enhancement `configure-ovs-alternative`, byte for byte, on machines with
//! their own kernel: their NIC is called `enp2s0`, and their files end in `.yaml`.

use std::path::Path;

use lab_cluster::node::uml::{Uml, UmlOptions};
use lab_cluster::node::{NodeFile, Profile};

/// Files for two workers, with static addresses.
pub(crate) const WORKERS: &str =
    include_str!("../../../oc-brex/tests/fixtures/enhancement/10-br-ex-worker.yaml");
/// One file for all masters, with DHCP.
pub(crate) const MASTERS: &str =
    include_str!("../../../oc-brex/tests/fixtures/enhancement/10-br-ex-master.yaml");
/// The NIC that the samples name.
pub(crate) const NIC: &str = "enp2s0";

/// A machine with the NICs of the samples and all files of a MachineConfig, as Ignition writes them.
pub(crate) fn machine(hostname: &str, config: &str, network: UmlOptions) -> Uml {
    let config = machine_config::parse(config).unwrap();
    let files = config.files.iter().map(|file| NodeFile {
        path: file.path.as_str().into(),
        content: file.contents.bytes().to_vec(),
        mode: 0o644,
    });
    let machine = Uml::new(&UmlOptions {
        hostname: hostname.into(),
        nics: [NIC, "enp3s0"].map(str::to_owned),
        files: files.collect(),
        ..network
    })
    .unwrap();
    machine.install(Path::new(env!("CARGO_BIN_EXE_brex-firstboot"))).unwrap();
    machine
}

/// The network of a node before its first boot: DHCP on the NIC of the samples.
fn dhcp() -> UmlOptions {
    UmlOptions { profiles: vec![Profile::dhcp(NIC)], ..UmlOptions::default() }
}

#[test]
fn the_sample_of_a_worker_gives_it_its_address() {
    let mut machine = machine("worker-0", WORKERS, dhcp());
    let run = machine
        .boot(
            "
has_lease() { ip -o -4 address show enp2s0 | grep -q 198.51.100; }
await 'the NIC has a lease' has_lease
lan ip address add 192.168.111.1/24 dev br0
/host/brex-firstboot apply --patience 120 || exit 3
cmp /etc/nmstate/openshift/applied /etc/nmstate/openshift/worker-0.yaml || exit 4
ping -q -c 1 -W 5 192.168.111.1 || exit 5
ip -o -4 address show br-ex; cat /etc/resolv.conf; ip route show default",
        )
        .unwrap();
    let printed = run.succeeded().unwrap();
    assert!(printed.contains("192.168.111.113/24"), "{printed}");
    assert!(printed.contains("nameserver 192.168.111.1"), "{printed}");
    assert!(printed.contains("default via 192.168.111.1 dev br-ex"), "{printed}");
}

#[test]
fn the_sample_for_all_masters_gives_a_node_of_any_name_an_address_by_dhcp() {
    let mut machine = machine("any-name", MASTERS, dhcp());
    let run = machine
        .boot(
            "
has_lease() { ip -o -4 address show enp2s0 | grep -q 198.51.100; }
await 'the NIC has a lease' has_lease
/host/brex-firstboot apply --patience 120 || exit 3
cmp /etc/nmstate/openshift/applied /etc/nmstate/openshift/cluster.yaml || exit 4
ping -q -c 1 -W 5 198.51.100.1 || exit 5
ip -o -4 address show br-ex",
        )
        .unwrap();
    let printed = run.succeeded().unwrap();
    assert!(printed.contains("198.51.100."), "{printed}");
}
