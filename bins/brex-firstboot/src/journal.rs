//! Entries in systemd's journal with fields, by its native protocol: one datagram of
//! `FIELD=value` lines. A library for it would be longer than this.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use first_boot::Event;

const SOCKET: &str = "/run/systemd/journal/socket";

/// Writes an event to the journal. If there is no journal, standard error has it already.
pub(crate) fn send(event: Event, message: &str, fields: &[(&str, &str)]) {
    let datagram = encode(event, message, fields);
    let socket = Path::new(SOCKET);
    if let Ok(own) = UnixDatagram::unbound() {
        let _ = own.send_to(&datagram, socket);
    }
}

fn encode(event: Event, message: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut datagram = Vec::new();
    let priority = event.priority().to_string();
    let fixed = [
        ("MESSAGE", message),
        ("MESSAGE_ID", event.message_id()),
        ("PRIORITY", &priority),
        ("SYSLOG_IDENTIFIER", "brex-firstboot"),
    ];
    for (name, value) in fixed.iter().chain(fields) {
        datagram.extend(name.as_bytes());
        if value.contains('\n') {
            datagram.push(b'\n');
            datagram.extend((value.len() as u64).to_le_bytes());
        } else {
            datagram.push(b'=');
        }
        datagram.extend(value.as_bytes());
        datagram.push(b'\n');
    }
    datagram
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As systemd's description of the protocol has it.
    #[test]
    fn a_value_with_line_breaks_is_sent_with_its_length() {
        let sent = encode(Event::Refused, "two\nlines", &[("BREX_DOCUMENT", "worker-0.yml")]);
        let expected = [
            b"MESSAGE\n\x09\0\0\0\0\0\0\0two\nlines\nMESSAGE_ID=".as_slice(),
            Event::Refused.message_id().as_bytes(),
            b"\nPRIORITY=3\nSYSLOG_IDENTIFIER=brex-firstboot\nBREX_DOCUMENT=worker-0.yml\n",
        ]
        .concat();
        assert_eq!(sent, expected);
    }
}
