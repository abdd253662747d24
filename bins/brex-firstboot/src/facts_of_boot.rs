//! What the files of a node tell about the machine and this boot.

use std::net::IpAddr;

use anyhow::Result;
use first_boot::{Candidate, Mac, Machine, Serial, ShortName};
use node_network::Aim;
use node_network::facts::Expectation;
use node_network::probe::{Clause, Endpoint, Gate, Target, When};

use crate::api_server;
use crate::disk::Disk;
use crate::layout::{BOOT_ID, CARDS, DOCUMENTS, KUBECONFIG, NODE_ADDRESS, SERIAL};

/// Tells this boot from others.
pub(crate) fn boot_id(disk: &Disk) -> Result<String> {
    let bytes = disk.read(BOOT_ID)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The documents there are.
pub(crate) fn candidates(disk: &Disk) -> Result<Vec<Candidate>> {
    let mut found = Vec::new();
    for file in disk.names(DOCUMENTS)? {
        // What is no document by its name is not even read.
        if Candidate::new(&file, Vec::new()).is_some()
            && let Some(bytes) = disk.read(&format!("{DOCUMENTS}/{file}"))?
        {
            found.extend(Candidate::new(&file, bytes));
        }
    }
    Ok(found)
}

/// The machine, under this host name.
pub(crate) fn machine(disk: &Disk, hostname: &str) -> Result<Machine> {
    let mut macs = std::collections::BTreeSet::new();
    for card in disk.names(CARDS)? {
        // Bonds and VLANs have the MAC of a card; one that a program made up tells nothing.
        let bytes = disk.read(&format!("{CARDS}/{card}/address")).ok().flatten();
        let mac = bytes.and_then(|bytes| String::from_utf8_lossy(&bytes).parse::<Mac>().ok());
        macs.extend(mac.filter(|mac| mac.is_of_a_card()));
    }
    // Virtual machines may have no such file.
    let serial = disk.read(SERIAL).ok().flatten();
    let serial = serial.and_then(|bytes| Serial::of(&String::from_utf8_lossy(&bytes)));
    Ok(Machine { name: ShortName::of(hostname), macs, serial })
}

/// How the network of this node should be.
pub(crate) fn aim(disk: &Disk, api_server: Option<&Endpoint>) -> Result<Aim> {
    let text = |path: &str| -> Result<Option<String>> {
        Ok(disk.read(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let bridge = br_ex::BRIDGE.to_owned();
    let node_address: Option<IpAddr> =
        text(NODE_ADDRESS)?.and_then(|text| text.trim().parse().ok());
    let api_server = match api_server {
        Some(given) => Some(given.clone()),
        None => text(KUBECONFIG)?.and_then(|text| api_server::of_kubeconfig(&text)),
    };
    // Either is enough. Before kubelet runs, the API server's name may not be resolvable, and
    // during an installation it may not be there at all.
    let mut reached = vec![Target::DefaultGateway { interface: Some(bridge.clone()) }];
    reached.extend(api_server.map(Target::ApiServer));
    let own = Target::OwnAddresses { interface: bridge.clone() };
    let clauses = vec![
        Clause { id: "reachability", any_of: reached, when: When::Always },
        Clause { id: "own-addresses", any_of: vec![own], when: When::Always },
    ];
    Ok(Aim { bridge: Some(Expectation { bridge, node_address }), gate: Gate { clauses } })
}
