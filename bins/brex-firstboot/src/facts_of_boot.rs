//! What the files of a node state about the machine and this boot.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::Result;
use first_boot::default_hostname;
use first_boot::{Candidate, Mac, Machine, Serial, ShortName};
use node_network::facts::Expectation;
use node_network::probe::{Check, Checks, Endpoint, Target, When};
use node_network::view::Family;
use node_network::{Demand, ExpectedNetwork};

use crate::api_server;
use crate::disk::Disk;
use crate::layout::{
    BOOT_ID, DOCUMENTS, KUBECONFIG, NICS, NODE_ADDRESSES, OS_RELEASE, SERIAL, WAIT_FOR_NODE_IP,
};

/// Identifies this boot.
pub(crate) fn boot_id(disk: &Disk) -> Result<String> {
    let bytes = disk.read(BOOT_ID)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The documents there are. One that cannot be read may be that of another host.
pub(crate) fn candidates(disk: &Disk) -> Result<Vec<Candidate>> {
    let mut found = Vec::new();
    for file in disk.names(DOCUMENTS)? {
        // What is not a document by its name is not even read.
        if Candidate::new(&file, Vec::new()).is_none() {
            continue;
        }
        match disk.read(&format!("{DOCUMENTS}/{file}")) {
            Ok(Some(bytes)) => found.extend(Candidate::new(&file, bytes)),
            Ok(None) => {}
            Err(error) => {
                let problem = format!("{:#}", anyhow::Error::from(error));
                found.extend(Candidate::unread(&file, problem));
            }
        }
    }
    Ok(found)
}

/// The machine, under this host name.
pub(crate) fn machine(disk: &Disk, hostname: &str) -> Result<Machine> {
    let mut macs = BTreeSet::new();
    for nic in disk.names(NICS)? {
        // Bonds and VLANs have the MAC of a NIC; a generated one identifies nothing.
        let bytes = disk.read(&format!("{NICS}/{nic}/address")).ok().flatten();
        let mac = bytes.and_then(|bytes| String::from_utf8_lossy(&bytes).parse::<Mac>().ok());
        macs.extend(mac.filter(|mac| mac.is_unicast()));
    }
    // Virtual machines may have no such file.
    let serial = disk.read(SERIAL).ok().flatten();
    let serial = serial.and_then(|bytes| Serial::of(&String::from_utf8_lossy(&bytes)));
    let release = OS_RELEASE.iter().find_map(|path| disk.read(path).ok().flatten());
    let release = String::from_utf8_lossy(&release.unwrap_or_default()).into_owned();
    let name = ShortName::of_machine(hostname, default_hostname(&release));
    Ok(Machine { name, macs, serial })
}

/// The addresses that nodeip-configuration selected, each once.
pub(crate) fn node_addresses(disk: &Disk) -> Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    for path in NODE_ADDRESSES {
        let text = text(disk, path)?.unwrap_or_default();
        let addresses = text.split_whitespace().filter_map(|word| word.parse().ok());
        for address in addresses {
            if !found.contains(&address) {
                found.push(address);
            }
        }
    }
    Ok(found)
}

/// Whether the next boot would wait forever: wait-for-node-ip passes without the flag, and with it
/// expects a file that nodeip-configuration writes.
pub(crate) fn would_wait_forever(disk: &Disk) -> bool {
    disk.exists(WAIT_FOR_NODE_IP) && !disk.exists(NODE_ADDRESSES[0])
}

/// How the network of this node should be, for a document that demands this.
pub(crate) fn expected(
    disk: &Disk,
    demand: Option<&Demand>,
    api_server: Option<&Endpoint>,
) -> Result<ExpectedNetwork> {
    let api_server = match api_server {
        Some(given) => Some(given.clone()),
        None => text(disk, KUBECONFIG)?.and_then(|text| api_server::of_kubeconfig(&text)),
    };
    let bridge = br_ex::BRIDGE.to_owned();
    let mut checks = reachability(&bridge, demand, api_server.as_ref());
    let own = Target::OwnAddresses { interface: bridge.clone() };
    checks.push(Check { id: "own-addresses", any_of: vec![own], when: When::Always });
    let expectation =
        Expectation { bridge, node_addresses: node_addresses(disk)?, demand: demand.cloned() };
    Ok(ExpectedNetwork { bridge: Some(expectation), checks: Checks { list: checks } })
}

/// What must respond. The gateway or the API server is enough: before kubelet runs, the API
/// server's name may not be resolvable, and during an installation it may not exist yet. Either
/// must respond through br-ex, in each family in which the document has a default route there.
fn reachability(
    bridge: &str,
    demand: Option<&Demand>,
    api_server: Option<&Endpoint>,
) -> Vec<Check> {
    let through = |family: Option<Family>| {
        api_server.map(|endpoint| Target::ApiServerThrough {
            endpoint: endpoint.clone(),
            interface: bridge.to_owned(),
            family,
        })
    };
    let check = |id, first: Target, second: Option<Target>| {
        let any_of = std::iter::once(first).chain(second).collect();
        Check { id, any_of, when: When::Always }
    };
    let default_routes = demand.map(|demand| demand.default_routes.as_slice());
    match default_routes {
        // The node leaves through another interface.
        Some([]) => {
            let any = Target::DefaultGateway { interface: None };
            vec![check("reachability", any, api_server.cloned().map(Target::ApiServer))]
        }
        Some(families) if demand.is_some_and(|demand| !demand.any_family) => families
            .iter()
            .map(|family| {
                let id = match family {
                    Family::V4 => "reachability-ipv4",
                    Family::V6 => "reachability-ipv6",
                };
                let (interface, family) = (bridge.to_owned(), *family);
                let gateway = Target::GatewayThrough { interface, family };
                check(id, gateway, through(Some(family)))
            })
            .collect(),
        _ => {
            let gateway = Target::DefaultGateway { interface: Some(bridge.to_owned()) };
            vec![check("reachability", gateway, through(None))]
        }
    }
}

fn text(disk: &Disk, path: &str) -> Result<Option<String>> {
    Ok(disk.read(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn demand(default_routes: Vec<Family>, any_family: bool) -> Demand {
        let families = vec![Family::V4, Family::V6];
        Demand { families, default_routes, any_family, ..Demand::default() }
    }

    #[test]
    fn each_family_with_a_default_route_must_reach_something_through_br_ex() {
        let api = Endpoint { host: "api-int.example".into(), port: 6443 };
        let about = |demand: Option<&Demand>| {
            let checks = reachability("br-ex", demand, Some(&api));
            let text = |check: &Check| {
                check.any_of.iter().map(ToString::to_string).collect::<Vec<_>>().join(", or ")
            };
            checks.iter().map(text).collect::<Vec<_>>()
        };
        let both = demand(vec![Family::V4, Family::V6], false);
        assert_eq!(
            about(Some(&both)),
            [
                "the IPv4 gateway of br-ex responds, or the API server api-int.example:6443 responds through br-ex by IPv4",
                "the IPv6 gateway of br-ex responds, or the API server api-int.example:6443 responds through br-ex by IPv6",
            ]
        );
        let any = demand(vec![Family::V4, Family::V6], true);
        let expected = "the default gateway of br-ex responds, or the API server api-int.example:6443 responds through br-ex";
        assert_eq!(about(Some(&any)), [expected]);
        assert_eq!(about(None), [expected]);
        let elsewhere = demand(vec![], false);
        assert_eq!(
            about(Some(&elsewhere)),
            ["a default gateway responds, or the API server api-int.example:6443 responds"]
        );
    }

    #[test]
    fn the_addresses_of_both_families_are_expected() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path());
        let run = folder.path().join("run/nodeip-configuration");
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("primary-ip"), "2001:db8::5\n").unwrap();
        fs::write(run.join("ipv4"), "198.51.100.5").unwrap();
        fs::write(run.join("ipv6"), "2001:db8::5").unwrap();
        let found: Vec<String> =
            node_addresses(&disk).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found, ["2001:db8::5", "198.51.100.5"]);
    }

    #[test]
    fn a_file_of_another_host_that_cannot_be_read_does_not_hide_this_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path());
        disk.write(&format!("{DOCUMENTS}/worker-0.yml"), b"interfaces: []", 0o644).unwrap();
        let documents = disk.path(DOCUMENTS);
        let large = fs::File::create(documents.join("worker-1.yml")).unwrap();
        large.set_len(1 << 30).unwrap();
        fs::create_dir(documents.join("worker-2.yml")).unwrap();
        std::os::unix::fs::symlink("/nonexistent/loop", documents.join("worker-3.yml")).unwrap();
        let found = candidates(&disk).unwrap();
        let unread: Vec<&str> =
            found.iter().filter(|it| it.unread.is_some()).map(|it| it.file.as_str()).collect();
        assert_eq!(unread, ["worker-1.yml", "worker-2.yml"]);
        assert_eq!(found[0].bytes, b"interfaces: []");
    }

    #[test]
    fn a_node_without_nodeip_configuration_would_wait_at_its_next_boot() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path());
        assert!(!would_wait_forever(&disk));
        disk.write(WAIT_FOR_NODE_IP, b"", 0o644).unwrap();
        assert!(would_wait_forever(&disk));
        disk.write(NODE_ADDRESSES[0], b"198.51.100.5", 0o644).unwrap();
        assert!(!would_wait_forever(&disk));
    }
}
