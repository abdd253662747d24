//! Nodes in namespaces: what they guarantee to tests.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use lab_cluster::node::{Ipv6, Lan, LanOptions, Node, NodeOptions, Profile, Subnet};

fn node() -> Node {
    Node::start(&NodeOptions::default()).unwrap()
}

fn named(hostname: &str) -> NodeOptions {
    NodeOptions { hostname: hostname.into(), ..NodeOptions::default() }
}

/// How many processes are in a network namespace.
fn processes_in(namespace: &Path) -> usize {
    let inside = |entry: &fs::DirEntry| {
        fs::read_link(entry.path().join("ns/net")).is_ok_and(|link| link == namespace)
    };
    fs::read_dir("/proc").unwrap().flatten().filter(inside).count()
}

#[test]
fn a_node_starts_with_network_manager_open_vswitch_and_a_lease() {
    let node = node();
    let address = node.wait_for_ipv4("nic0").unwrap();
    assert!(node.lan().subnet().contains(address), "{address}");
    assert_eq!(node.lan().leases().unwrap()[&node.mac(0)], address);
    assert!(node.reaches(node.lan().router().into()).unwrap());
    let devices = node.succeed(&["nmcli", "-t", "-f", "DEVICE,TYPE,STATE", "device"]).unwrap();
    assert!(devices.contains("nic0:ethernet:connected"), "{devices}");
    assert!(devices.contains("nic1:ethernet:disconnected"), "{devices}");
    assert_eq!(node.succeed(&["hostname"]).unwrap(), "node\n");
    let state = node.state().unwrap();
    assert!(state.has_default_route("nic0", node.lan().router().into()), "{state:?}");
    assert!(state.bridges.is_empty());
}

/// The bridge as NetworkManager makes it, without nmstate: profiles of its three parts.
fn make_br_ex(node: &Node) {
    let add = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        node.succeed(&[&["nmcli", "connection", "add"], &words[..]].concat()).unwrap();
    };
    add("type ovs-bridge con-name br-ex-bridge ifname br-ex ovs-bridge.datapath-type netdev");
    add("type ovs-port con-name br-ex-port ifname br-ex master br-ex slave-type ovs-bridge");
    add("type ovs-port con-name nic1-port ifname nic1 master br-ex slave-type ovs-bridge");
    add("type ethernet con-name nic1 ifname nic1 master nic1-port slave-type ovs-port");
    add("type ovs-interface con-name br-ex ifname br-ex master br-ex-port slave-type ovs-port
         ipv4.method auto ipv6.method disabled");
    node.succeed(&["nmcli", "--wait", "60", "connection", "up", "br-ex"]).unwrap();
}

#[test]
fn a_bridge_made_by_network_manager_carries_dhcp_and_is_there_after_a_power_cut() {
    let mut node = node();
    make_br_ex(&node);
    let address = node.wait_for_ipv4("br-ex").unwrap();
    assert!(node.lan().subnet().contains(address), "{address}");
    let ports = node.state().unwrap().bridges["br-ex"].clone();
    assert_eq!(ports, BTreeSet::from(["nic1".to_owned()]));
    node.write("/run/gone", "", 0o644).unwrap();
    node.write("/etc/stays", "", 0o644).unwrap();
    node.reboot().unwrap();
    node.wait_for_ipv4("br-ex").unwrap();
    assert!(!node.exists("/run/gone").unwrap());
    assert!(node.exists("/etc/stays").unwrap());
}

#[test]
fn two_nodes_on_one_lan_reach_each_other_and_two_lans_are_apart() {
    let lan = Arc::new(Lan::start(&LanOptions::default()).unwrap());
    let (first, second) = (
        Node::start_on(&lan, &named("one")).unwrap(),
        Node::start_on(&lan, &named("two")).unwrap(),
    );
    let (_, address) =
        (first.wait_for_ipv4("nic0").unwrap(), second.wait_for_ipv4("nic0").unwrap());
    assert!(first.reaches(address.into()).unwrap());
    assert_eq!(first.succeed(&["hostname"]).unwrap(), "one\n");
    assert_eq!(second.succeed(&["hostname"]).unwrap(), "two\n");

    let other = node();
    other.wait_for_ipv4("nic0").unwrap();
    let only_its_own = other.lan().leases().unwrap();
    assert_eq!(only_its_own.len(), 1, "{only_its_own:?}");
}

#[test]
fn a_dropped_node_leaves_no_process_no_mount_and_no_folder() {
    let node = node();
    let folder = node.shared().parent().unwrap().to_owned();
    let pid = node.pid();
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts().contains(&name), "the host sees mounts of a node");
    let namespace = fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    assert!(processes_in(&namespace) > 4, "it runs at least its daemons");
    drop(node);
    assert!(!folder.exists());
    assert_eq!(processes_in(&namespace), 0);
}

#[test]
fn killing_a_command_kills_the_program_in_the_node() {
    let node = node();
    let mut child = node.command("sleep").arg("123456").stdout(Stdio::null()).spawn().unwrap();
    // The whole command line: before it, the program that makes `sleep` end has `sleep` in its own.
    let sleeps = |node: &Node| Ok(node.run(&["pgrep", "-fx", "sleep 123456"])?.status.success());
    node.wait_until("the program runs", sleeps).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    node.wait_until("the program is gone", |node| Ok(!sleeps(node)?)).unwrap();
}

#[test]
fn dhcp_can_be_absent_late_and_elsewhere() {
    let lan = LanOptions { dhcp: false, ..LanOptions::default() };
    let node = Node::start(&NodeOptions { lan, ..NodeOptions::default() }).unwrap();
    let requested = |node: &Node| {
        let log = fs::read_to_string(node.log_folder().join("NetworkManager.log"))?;
        Ok(log.contains("dhcp4 (nic0): activation: beginning transaction"))
    };
    node.wait_until("NetworkManager requests a lease", requested).unwrap();
    assert_eq!(node.state().unwrap().ipv4("nic0"), None);
    assert!(node.lan().leases().unwrap().is_empty());

    node.lan().move_to(Subnet::new(192, 0, 2)).unwrap();
    node.lan().delay_dhcp(Duration::from_secs(1)).unwrap();
    node.lan().start_dhcp().unwrap();
    let address = node.wait_for_ipv4("nic0").unwrap();
    assert!(Subnet::new(192, 0, 2).contains(address), "{address}");
    assert!(node.reaches(node.lan().router().into()).unwrap());
}

#[test]
fn wires_lose_their_carrier_or_only_their_packets() {
    let node = node();
    node.wait_for_ipv4("nic0").unwrap();
    let router: IpAddr = node.lan().router().into();
    let carrier = |node: &Node| -> anyhow::Result<bool> {
        Ok(node.read("/sys/class/net/nic0/carrier")? == b"1\n")
    };

    node.drop_packets(0).unwrap();
    assert!(!node.reaches(router).unwrap());
    assert!(carrier(&node).unwrap());
    node.plug_in(0).unwrap();
    node.wait_until("the router responds again", |node| node.reaches(router)).unwrap();

    node.unplug(0).unwrap();
    node.wait_until("the carrier is lost", |node| Ok(!carrier(node)?)).unwrap();
    node.plug_in(0).unwrap();
    node.wait_until("the router responds again", |node| node.reaches(router)).unwrap();
}

#[test]
fn a_router_may_be_silent_to_pings() {
    let node = node();
    node.wait_for_ipv4("nic0").unwrap();
    node.lan().ignore_pings().unwrap();
    assert!(!node.reaches(node.lan().router().into()).unwrap());
    let neighbours = node.succeed(&["ip", "neigh"]).unwrap();
    assert!(neighbours.contains("REACHABLE"), "{neighbours}");
}

#[test]
fn a_router_announces_ipv6() {
    let prefix = "2001:db8:1::".parse().unwrap();
    let reaches = |ipv6: Ipv6| {
        let lan = LanOptions { ipv6: Some(ipv6), ..LanOptions::default() };
        let node = Node::start(&NodeOptions { lan, ..NodeOptions::default() }).unwrap();
        let router: IpAddr = "2001:db8:1::1".parse().unwrap();
        node.wait_until("the router responds over IPv6", |node| {
            let state = node.state()?;
            Ok(state.has_default_route("nic0", router) && node.reaches(router)?)
        })
        .unwrap();
        node.state().unwrap().interfaces["nic0"].addresses.clone()
    };
    let chosen = reaches(Ipv6::Autoconfiguration(prefix));
    assert!(
        chosen.iter().any(|(address, length)| address.is_ipv6() && *length == 64),
        "{chosen:?}"
    );
    let given = reaches(Ipv6::Dhcp(prefix));
    let of_dhcp = |address: &IpAddr| address.to_string().starts_with("2001:db8:1::1");
    assert!(given.iter().any(|(address, length)| of_dhcp(address) && *length == 128), "{given:?}");
}

#[test]
fn a_paused_open_vswitch_carries_out_no_change() {
    let node = node();
    node.pause_ovs().unwrap();
    let add = [
        "ovs-vsctl",
        "--timeout=1",
        "add-br",
        "br0",
        "--",
        "set",
        "bridge",
        "br0",
        "datapath_type=netdev",
    ];
    assert!(!node.run(&add).unwrap().status.success());
    assert!(!node.state().unwrap().interfaces.contains_key("br0"));
    node.resume_ovs().unwrap();
    node.wait_until("the bridge is made", |node| Ok(node.state()?.interfaces.contains_key("br0")))
        .unwrap();
}

#[test]
fn profiles_are_there_as_they_were_given_and_links_stay_in_the_node() {
    let profile = Profile::fixed("nic0", "198.51.100.77/24", "198.51.100.1");
    let mut node = Node::start(&NodeOptions {
        profiles: vec![profile.clone()],
        automatic_profiles: true,
        ..NodeOptions::default()
    })
    .unwrap();
    assert_eq!(node.wait_for_ipv4("nic0").unwrap().to_string(), "198.51.100.77");
    let profiles = node.nm_profiles().unwrap();
    let path = "/etc/NetworkManager/system-connections/nic0.nmconnection";
    assert_eq!(profiles[path], profile.text.as_bytes());
    let made = "/run/NetworkManager/system-connections/Wired connection 1.nmconnection";
    assert!(profiles.contains_key(made), "{:?}", profiles.keys());

    node.succeed(&["ln", "-s", "/etc/machine-id", "/tmp/link"]).unwrap();
    assert_ne!(node.read("/tmp/link").unwrap(), fs::read("/etc/machine-id").unwrap_or_default());
    assert_eq!(node.read("/tmp/link").unwrap(), node.read("/etc/machine-id").unwrap());
    node.set_hostname("renamed").unwrap();
    assert_eq!(node.succeed(&["hostname"]).unwrap(), "renamed\n");
    node.reboot().unwrap();
    assert_eq!(node.succeed(&["hostname"]).unwrap(), "renamed\n");
}

#[test]
fn files_of_the_host_are_visible_at_the_requested_path() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("program"), "#!/bin/sh\necho from the host\n").unwrap();
    let binds = vec![(dir.path().join("program"), "/opt/tool/program".into())];
    let node = Node::start(&NodeOptions { binds, ..NodeOptions::default() }).unwrap();
    assert_eq!(node.succeed(&["sh", "/opt/tool/program"]).unwrap(), "from the host\n");
    assert!(!node.run(&["rm", "/opt/tool/program"]).unwrap().status.success());
    fs::write(node.shared().join("note"), "both ways").unwrap();
    assert_eq!(node.read("/host/note").unwrap(), b"both ways");
    node.succeed(&["cp", "/host/note", "/host/answer"]).unwrap();
    assert_eq!(fs::read(node.shared().join("answer")).unwrap(), b"both ways");
}
