//! What distinguishes one machine from another: its host name, the MAC addresses of its NICs, its
//! serial number. Names and addresses are parsed here and nowhere else.
//!
//! # Example
//!
//! ```
//! use machine_identity::{Mac, ShortName};
//!
//! let name = ShortName::of("worker-0.example.com").expect("a name");
//! assert_eq!(name.as_str(), "worker-0");
//! assert_eq!(ShortName::of("localhost.localdomain"), None);
//! let mac: Mac = "52:54:00:ab:cd:ef".parse()?;
//! assert_eq!("52-54-00-AB-CD-EF".parse::<Mac>()?, mac);
//! # Ok::<(), machine_identity::MacError>(())
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is known of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// None while the machine has only a placeholder.
    pub name: Option<ShortName>,
    pub macs: BTreeSet<Mac>,
    pub serial: Option<Serial>,
}

/// Placeholders: host names of machines without a name.
const PLACEHOLDERS: [&str; 6] = ["", "localhost", "localhost4", "localhost6", "(none)", "fedora"];

/// A host name up to its first dot. Nodes select their document by it.
pub fn short_name(host: &str) -> &str {
    host.split_once('.').map_or(host, |(short, _)| short)
}

/// A short host name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShortName(String);

impl ShortName {
    /// The short form of a host name; `None` for the placeholders of machines without a name, as in
    /// node-valid-hostname.service of a node.
    pub fn of(hostname: &str) -> Option<Self> {
        let short = short_name(hostname.trim());
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let placeholder = PLACEHOLDERS.contains(&short);
        (!placeholder && short.len() <= 63 && short.chars().all(legal))
            .then(|| Self(short.to_owned()))
    }

    /// The same, where `default` is the name that the operating system gives to machines without
    /// one: `DEFAULT_HOSTNAME` of os-release.
    pub fn of_machine(hostname: &str, default: Option<&str>) -> Option<Self> {
        let is_default = default.is_some_and(|default| default == hostname.trim());
        Self::of(hostname).filter(|_| !is_default)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `DEFAULT_HOSTNAME` in the text of os-release.
pub fn default_hostname(os_release: &str) -> Option<&str> {
    let value =
        os_release.lines().find_map(|line| line.trim().strip_prefix("DEFAULT_HOSTNAME="))?;
    Some(value.trim().trim_matches(['"', '\''])).filter(|value| !value.is_empty())
}

impl fmt::Display for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The MAC address of a NIC, however it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac([u8; 6]);

impl TryFrom<String> for Mac {
    type Error = MacError;

    fn try_from(text: String) -> Result<Self, MacError> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.to_string()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a MAC address such as 52:54:00:12:34:56, found `{0}`")]
pub struct MacError(String);

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let bytes = octets(text.trim()).and_then(|octets| octets.try_into().ok());
        bytes.map(Self).ok_or_else(|| MacError(text.to_owned()))
    }
}

/// Whether this is the address of a NIC of any kind; InfiniBand has 20 octets.
pub fn is_hardware_address(text: &str) -> bool {
    octets(text).is_some_and(|octets| matches!(octets.len(), 6 | 20))
}

fn octets(text: &str) -> Option<Vec<u8>> {
    // A sign is part of a number, but not of an octet.
    let is_octet = |part: &&str| part.len() == 2 && part.bytes().all(|it| it.is_ascii_hexdigit());
    let octet =
        |part: &str| Some(part).filter(is_octet).and_then(|it| u8::from_str_radix(it, 16).ok());
    text.split([':', '-']).map(octet).collect()
}

impl Mac {
    /// Whether it identifies a NIC: it is neither zero nor a multicast address.
    pub fn is_unicast(self) -> bool {
        self.0 != [0; 6] && self.0[0] & 1 == 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The serial number that the vendor gave the machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Serial(String);

impl Serial {
    /// `None` for the placeholders of firmware.
    pub fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        let placeholders = [
            "",
            "none",
            "not specified",
            "default string",
            "to be filled by o.e.m.",
            "0",
            "system serial number",
        ];
        let placeholder = placeholders.iter().any(|other| text.eq_ignore_ascii_case(other));
        (!placeholder).then(|| Self(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_ends_at_the_first_dot_and_is_not_localhost() {
        let short = |text| ShortName::of(text).map(|name| name.0);
        assert_eq!(short("worker-0.example.com").as_deref(), Some("worker-0"));
        assert_eq!(short("worker-0\n").as_deref(), Some("worker-0"));
        for placeholder in [
            "",
            "localhost",
            "localhost.localdomain",
            "(none)",
            "../etc",
            ".x",
            "fedora",
            "localhost6",
        ] {
            assert_eq!(short(placeholder), None, "{placeholder}");
        }
    }

    #[test]
    fn the_default_name_of_the_operating_system_is_not_a_name() {
        let os = "ID=fedora\nDEFAULT_HOSTNAME=\"okd\"\n";
        let default = default_hostname(os);
        assert_eq!(default, Some("okd"));
        assert_eq!(ShortName::of_machine("okd", default), None);
        assert!(ShortName::of_machine("okd-1", default).is_some());
        assert_eq!(default_hostname("ID=rhcos\n"), None);
    }

    #[test]
    fn macs_are_equal_however_they_are_written() {
        let mac: Mac = "52-54-00-AB-cd-01".parse().unwrap();
        assert_eq!(mac.to_string(), "52:54:00:ab:cd:01");
        for wrong in [
            "",
            "52:54:00:ab:cd",
            "52:54:00:ab:cd:01:02",
            "52:54:0:ab:cd:01",
            "52:54:+1:ab:cd:01",
            "x",
        ] {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
            assert!(!is_hardware_address(wrong), "{wrong}");
        }
        assert!(is_hardware_address(&["80"; 20].join(":")));
    }

    #[test]
    fn a_placeholder_is_not_a_serial_number() {
        assert_eq!(Serial::of("To be filled by O.E.M.\n"), None);
        assert_eq!(Serial::of("CZ12345"), Serial::of("cz12345 "));
    }
}
