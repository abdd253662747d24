//! The smallest DNS query, and whether a packet is a response to it (RFC 1035 §4).

const TYPE_A: u16 = 1;
const CLASS_IN: u16 = 1;
const RECURSION_DESIRED: u8 = 0b0000_0001;
const RESPONSE: u8 = 0b1000_0000;

/// A query for the IPv4 address of `name`; none if that is not a host name.
pub(crate) fn encode(id: u16, name: &str) -> Option<Vec<u8>> {
    let mut packet = Vec::with_capacity(18 + name.len());
    packet.extend(id.to_be_bytes());
    packet.extend([RECURSION_DESIRED, 0]);
    packet.extend(1u16.to_be_bytes());
    packet.extend([0; 6]);
    let name = name.trim_end_matches('.');
    if name.is_empty() || name.len() > 253 {
        return None;
    }
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
        packet.push(length);
        packet.extend(label.as_bytes());
    }
    packet.push(0);
    packet.extend(TYPE_A.to_be_bytes());
    packet.extend(CLASS_IN.to_be_bytes());
    Some(packet)
}

/// Whether `packet` is a response to the query `id`. Its content does not matter: a server that does not
/// have the name responds nevertheless.
pub(crate) fn is_response(packet: &[u8], id: u16) -> bool {
    packet.len() >= 12 && packet[..2] == id.to_be_bytes() && packet[2] & RESPONSE != 0
}

/// The result in the server's response, as text.
pub(crate) fn outcome(packet: &[u8]) -> &'static str {
    match packet.get(3).map(|flags| flags & 0x0f) {
        Some(0) => "responded",
        Some(2) => "responded: server failure",
        Some(3) => "responded: no such name",
        Some(5) => "responded: refused",
        _ => "responded with an error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written out by hand from RFC 1035.
    #[test]
    fn a_query_has_the_layout_of_the_standard() {
        let expected = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\
                         \x01a\x07example\x00\x00\x01\x00\x01";
        assert_eq!(encode(0x1234, "a.example").unwrap(), expected);
        assert_eq!(encode(0x1234, "a.example.").unwrap(), expected);
    }

    #[test]
    fn an_invalid_name_is_not_queried() {
        let long = "a.".repeat(127) + "a";
        for name in ["", ".", "a..b", &"x".repeat(64), &long] {
            assert_eq!(encode(1, name), None, "{name}");
        }
    }

    #[test]
    fn only_a_response_to_our_query_is_accepted() {
        let response = b"\x12\x34\x81\x83\0\x01\0\0\0\0\0\0";
        assert!(is_response(response, 0x1234));
        assert!(!is_response(response, 0x1235));
        assert!(!is_response(&response[..11], 0x1234));
        let query = encode(0x1234, "a").unwrap();
        assert!(!is_response(&query, 0x1234));
        assert_eq!(outcome(response), "responded: no such name");
    }
}
