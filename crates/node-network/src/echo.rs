//! ICMP echo requests: sends them until a reply arrives. Needs the capability to open raw sockets,
//! which a handler has.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
use tokio::net::UdpSocket;

/// Packets get lost.
const RESEND_INTERVAL: Duration = Duration::from_secs(1);
const HEADER: usize = 8;
const PAYLOAD: [u8; 8] = *b"landfall";

/// Types of ICMP messages in one family.
#[derive(Debug, Clone, Copy)]
struct Types {
    request: u8,
    reply: u8,
}

const V4: Types = Types { request: 8, reply: 0 };
const V6: Types = Types { request: 128, reply: 129 };

/// Waits until the address replies. The caller sets the deadline; dropping this ends it.
pub(crate) async fn request(address: IpAddr) -> io::Result<()> {
    let (family, protocol, types) = match address {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, V4),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, V6),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::RAW, flags, Some(protocol))?;
    // From now on only packets from there arrive.
    connect(&socket, &SocketAddr::new(address, 0))?;
    // Datagrams are sent and received as by a socket of UDP.
    let socket = UdpSocket::from_std(std::net::UdpSocket::from(socket))?;
    let mut packet = [0; 1500];
    let id = u16::try_from(RandomState::new().hash_one(0) & 0xffff).unwrap_or_default();
    for sequence in 0..=u16::MAX {
        socket.send(&encode(types, id, sequence)).await?;
        let reply = async {
            loop {
                let length = socket.recv(&mut packet).await?;
                if is_reply(types, address.is_ipv4(), &packet[..length], id) {
                    return io::Result::Ok(());
                }
            }
        };
        if let Ok(reply) = tokio::time::timeout(RESEND_INTERVAL, reply).await {
            return reply;
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn encode(types: Types, id: u16, sequence: u16) -> Vec<u8> {
    let mut packet = vec![types.request, 0, 0, 0];
    packet.extend(id.to_be_bytes());
    packet.extend(sequence.to_be_bytes());
    packet.extend(PAYLOAD);
    // The kernel overwrites that of IPv6, which includes addresses.
    let sum = checksum(&packet).to_be_bytes();
    packet[2..4].copy_from_slice(&sum);
    packet
}

/// Whether a received packet replies to a request with this identifier. Packets of IPv4 begin with the
/// header of IP.
fn is_reply(types: Types, has_ip_header: bool, packet: &[u8], id: u16) -> bool {
    let skipped = match packet.first() {
        Some(first) if has_ip_header => usize::from(first & 0x0f) * 4,
        _ => 0,
    };
    let Some(message) = packet.get(skipped..).filter(|it| it.len() >= HEADER) else {
        return false;
    };
    message[0] == types.reply && message[4..6] == id.to_be_bytes()
}

/// The ones' complement of the ones' complement sum of 16-bit words.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // The example of RFC 1071, whose sum is ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes), !0xddf2);
        // A packet with its checksum has the sum zero.
        assert_eq!(checksum(&encode(V4, 0x1234, 7)), 0);
        assert_eq!(checksum(&[0xff]), !0xff00);
    }

    #[test]
    fn only_a_reply_to_our_request_counts() {
        let mut reply = encode(V4, 77, 0);
        reply[0] = V4.reply;
        let received = |message: &[u8]| {
            let mut header = vec![0x45];
            header.resize(20, 0);
            [&header[..], message].concat()
        };
        assert!(is_reply(V4, true, &received(&reply), 77));
        assert!(!is_reply(V4, true, &received(&reply), 78));
        assert!(!is_reply(V4, true, &received(&encode(V4, 77, 0)), 77), "a request");
        assert!(!is_reply(V4, true, &received(&reply[..4]), 77), "cut off");
        assert!(!is_reply(V4, true, &[], 77));
        let mut reply = encode(V6, 77, 0);
        reply[0] = V6.reply;
        assert!(is_reply(V6, false, &reply, 77));
    }
}
