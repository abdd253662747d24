//! Packets whose body comes in parts (RFC 9580, 4.2.1.4), put together.
//!
//! The library takes a first part of 512 bytes or more only, as the specification requires of writers.
//! Some write shorter ones, and GnuPG reads them.

/// The bytes end before the packet does.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CutShort;

/// Tags of packets that may come in parts: compressed, encrypted and literal data.
const IN_PARTS: [u8; 5] = [8, 9, 11, 18, 20];

/// The same packets, each with one length. What is not a packet is not changed, for the reader of
/// packets to reject.
pub(super) fn joined(bytes: &[u8]) -> Result<Vec<u8>, CutShort> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, behind @ ..] = rest {
        let packet = match first & 0xc0 {
            0xc0 => new_packet(*first, behind, &mut out)?,
            0x80 => old_packet(*first, behind, &mut out)?,
            _ => {
                out.extend_from_slice(rest);
                return Ok(out);
            }
        };
        rest = packet;
    }
    Ok(out)
}

/// Copies a packet with a header of the new form; gives what follows it.
fn new_packet<'a>(first: u8, behind: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], CutShort> {
    let mut body = Vec::new();
    let mut rest = behind;
    let is_data = IN_PARTS.contains(&(first & 0x3f));
    loop {
        let (length, is_last, after) = match *rest {
            [length @ 0..=191, ref after @ ..] => (usize::from(length), true, after),
            [high @ 192..=223, low, ref after @ ..] => {
                (((usize::from(high) - 192) << 8) + usize::from(low) + 192, true, after)
            }
            [255, a, b, c, d, ref after @ ..] => {
                let length = u32::from_be_bytes([a, b, c, d]);
                (usize::try_from(length).map_err(|_| CutShort)?, true, after)
            }
            [part @ 224..=254, ref after @ ..] if is_data => (1 << (part & 0x1f), false, after),
            // A packet that must not come in parts: the reader of packets rejects it.
            [224..=254, ..] => {
                out.push(first);
                out.extend_from_slice(rest);
                return Ok(&[]);
            }
            _ => return Err(CutShort),
        };
        let (part, after) = after.split_at_checked(length).ok_or(CutShort)?;
        body.extend_from_slice(part);
        rest = after;
        if is_last {
            break;
        }
    }
    out.extend([first, 255]);
    // Fits: it was read from bytes that are bounded.
    out.extend(u32::try_from(body.len()).map_err(|_| CutShort)?.to_be_bytes());
    out.extend(body);
    Ok(rest)
}

/// Copies a packet with a header of the old form; gives what follows it.
fn old_packet<'a>(first: u8, behind: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], CutShort> {
    let octets = match first & 3 {
        0 => 1,
        1 => 2,
        2 => 4,
        // Up to the end.
        _ => {
            out.push(first);
            out.extend_from_slice(behind);
            return Ok(&[]);
        }
    };
    let (header, body) = behind.split_at_checked(octets).ok_or(CutShort)?;
    let length = header.iter().fold(0, |length, octet| length << 8 | usize::from(*octet));
    let (body, rest) = body.split_at_checked(length).ok_or(CutShort)?;
    out.push(first);
    out.extend_from_slice(header);
    out.extend_from_slice(body);
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_any_length_become_one_body() {
        // A literal packet in parts of 2, 4 and 3 bytes.
        let parts = [0xcb, 0xe1, 1, 2, 0xe2, 3, 4, 5, 6, 3, 7, 8, 9];
        assert_eq!(joined(&parts).unwrap(), [0xcb, 255, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        // The last part may be empty, and another packet may follow.
        let followed = [0xcb, 0xe0, 1, 0, 0xc2, 1, 7];
        assert_eq!(
            joined(&followed).unwrap(),
            [0xcb, 255, 0, 0, 0, 1, 1, 0xc2, 255, 0, 0, 0, 1, 7]
        );
    }

    #[test]
    fn packets_with_one_length_keep_their_bodies() {
        let old = [0x88, 2, 1, 2, 0x89, 0, 1, 5];
        assert_eq!(joined(&old).unwrap(), old);
        let open = [0xa3, 1, 2, 3];
        assert_eq!(joined(&open).unwrap(), open);
    }

    #[test]
    fn only_missing_bytes_are_cut_short() {
        for cut in
            [&[0xcb][..], &[0xcb, 0xe2, 1], &[0xcb, 0xe0, 1], &[0xcb, 3, 1, 2], &[0x88, 2, 1]]
        {
            assert_eq!(joined(cut), Err(CutShort), "{cut:?}");
        }
        // A signature in parts, and what is not OpenPGP: for the reader of packets.
        assert_eq!(joined(&[0xc2, 0xe1, 1, 2, 0]).unwrap(), [0xc2, 0xe1, 1, 2, 0]);
        assert_eq!(joined(b"text").unwrap(), b"text");
    }
}
