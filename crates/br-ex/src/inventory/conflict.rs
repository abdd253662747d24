//! What two hosts must not both have: an address or a MAC address.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use located_yaml::Position;
use machine_config::Role;

use super::{Inventory, Stem};
use crate::layout::{Layout, is_captured};

/// Something that one host alone may have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owned {
    Address(IpAddr),
    Mac(String),
}

/// The same thing in the documents of two hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub what: Owned,
    pub first: (Role, Stem),
    pub second: (Role, Stem),
    /// Where it stands in the second one.
    pub at: Position,
}

/// What a document claims for its host, with the place. Addresses that every node has, such as
/// those of the masquerade network, are nobody's.
pub fn facts_of(layout: &Layout<'_>) -> Vec<(Owned, Position)> {
    let mut facts = Vec::new();
    for interface in &layout.interfaces {
        for ip in [&interface.ipv4, &interface.ipv6].into_iter().flatten() {
            for address in &ip.addresses {
                let Some(net) = address.net else { continue };
                if !is_on_every_node(net.addr()) {
                    facts.push((Owned::Address(net.addr()), address.at));
                }
            }
        }
        if let Some(mac) = interface.node.get("mac-address").filter(|mac| !is_captured(mac))
            && let Some(text) = mac.text()
        {
            facts.push((Owned::Mac(text.to_ascii_uppercase()), mac.at));
        }
    }
    facts
}

fn is_on_every_node(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_loopback(),
        IpAddr::V6(address) => {
            let masquerade = address.segments()[0] == 0xfd69 && address.segments()[1..7] == [0; 6];
            address.is_loopback() || address.is_unicast_link_local() || masquerade
        }
    }
}

/// Every address and MAC address that two hosts of a cluster claim.
pub fn conflicts(inventory: &Inventory) -> Vec<Conflict> {
    let mut owners: BTreeMap<Owned, (Role, Stem)> = BTreeMap::new();
    let mut conflicts = Vec::new();
    for (role, stem, host) in inventory.documents().filter(|(_, stem, _)| !stem.is_cluster()) {
        let Some(layout) = host.document.layout() else { continue };
        for (what, at) in facts_of(&layout) {
            let owner = (role.clone(), stem.clone());
            match owners.get(&what) {
                Some(first) if *first != owner => {
                    let first = first.clone();
                    conflicts.push(Conflict { what, first, second: owner, at });
                }
                Some(_) => {}
                None => {
                    owners.insert(what, owner);
                }
            }
        }
    }
    conflicts
}

impl fmt::Display for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "the address {address}"),
            Self::Mac(mac) => write!(f, "the MAC address {mac}"),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, first, second, .. } = self;
        write!(f, "{what} of {} {} is that of {} {}, too", second.0, second.1, first.0, first.1)
    }
}
