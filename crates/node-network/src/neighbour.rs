//! Requests the kernel to resolve a neighbour, by ARP or neighbour discovery, and waits for the
//! result. No packets of our own are needed, and the entry that is read is the one traffic will
//! use.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::TryStreamExt;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use rtnetlink::{Handle, NeighbourHandle};

const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub(crate) enum NeighbourError {
    #[error("opening a netlink socket")]
    Open(#[source] std::io::Error),
    #[error("there is no interface {0}")]
    NoInterface(String),
    #[error("asking the kernel about neighbours")]
    Netlink(#[source] rtnetlink::Error),
}

/// The kernel's state of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolution {
    /// It responded, or this link has no addresses to resolve.
    Resolved,
    Resolving,
    /// It did not respond; the kernel has given up.
    Silent,
}

/// Waits until the neighbour responds. The caller sets the deadline; dropping this ends it.
pub(crate) async fn resolve(interface: &str, address: IpAddr) -> Result<(), NeighbourError> {
    let (connection, handle, _) = rtnetlink::new_connection().map_err(NeighbourError::Open)?;
    // Ends with the handle.
    let driver = tokio::spawn(connection);
    let result = resolve_with(&handle, interface, address).await;
    driver.abort();
    result
}

async fn resolve_with(
    handle: &Handle,
    interface: &str,
    address: IpAddr,
) -> Result<(), NeighbourError> {
    let index = rustix::net::netdevice::name_to_index(rustix_socket()?, interface)
        .map_err(|_| NeighbourError::NoInterface(interface.to_owned()))?;
    let neighbours = handle.neighbours();
    // An old entry may be outdated.
    if let Some(old) = find(&neighbours, index, address).await?
        && resolution(&old) != Resolution::Resolving
    {
        // It may have been deleted already.
        let _ = neighbours.del(old).execute().await;
    }
    loop {
        match find(&neighbours, index, address).await?.as_ref().map(resolution) {
            Some(Resolution::Resolved) => return Ok(()),
            Some(Resolution::Resolving) => {}
            Some(Resolution::Silent) | None => probe(&neighbours, index, address).await?,
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn rustix_socket() -> Result<rustix::fd::OwnedFd, NeighbourError> {
    use rustix::net::{AddressFamily, SocketType, socket};
    socket(AddressFamily::INET, SocketType::DGRAM, None)
        .map_err(|error| NeighbourError::Open(error.into()))
}

/// As `ip neighbour replace … use`: the kernel starts to resolve it.
async fn probe(
    neighbours: &NeighbourHandle,
    index: u32,
    address: IpAddr,
) -> Result<(), NeighbourError> {
    neighbours
        .add(index, address)
        .state(NeighbourState::None)
        .flags(NeighbourFlags::Use)
        .replace()
        .execute()
        .await
        .map_err(NeighbourError::Netlink)
}

async fn find(
    neighbours: &NeighbourHandle,
    index: u32,
    address: IpAddr,
) -> Result<Option<NeighbourMessage>, NeighbourError> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let mut entries = Box::pin(neighbours.get().set_address_family(family).execute());
    let mut found = None;
    while let Some(entry) = entries.try_next().await.map_err(NeighbourError::Netlink)? {
        if entry.header.ifindex == index && destination(&entry) == Some(address) {
            found = Some(entry);
        }
    }
    Ok(found)
}

fn destination(entry: &NeighbourMessage) -> Option<IpAddr> {
    entry.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some((*address).into()),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => {
            Some((*address).into())
        }
        _ => None,
    })
}

fn resolution(entry: &NeighbourMessage) -> Resolution {
    match entry.header.state {
        NeighbourState::Reachable
        | NeighbourState::Stale
        | NeighbourState::Delay
        | NeighbourState::Probe
        | NeighbourState::Noarp
        | NeighbourState::Permanent => Resolution::Resolved,
        NeighbourState::Incomplete => Resolution::Resolving,
        _ => Resolution::Silent,
    }
}
