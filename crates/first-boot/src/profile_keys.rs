//! The keys of a NetworkManager profile that relate it to interfaces and to other profiles.

use machine_identity::Mac;

/// What a profile in NetworkManager's keyfile format states about its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileKeys {
    pub id: String,
    pub uuid: String,
    /// Absent for a profile that fits several interfaces.
    pub interface: Option<String>,
    pub mac: Option<Mac>,
    /// The bond, bridge or Open vSwitch port it belongs to: an interface or the UUID of a profile.
    pub controller: Option<String>,
    /// What a VLAN is on: an interface or the UUID of a profile.
    pub parent: Option<String>,
}

impl ProfileKeys {
    /// `None` for a file without a `[connection]` section, such as one that a power failure left
    /// empty.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut keys = Self::default();
        let mut section = "";
        let mut is_profile = false;
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name;
                is_profile |= section == "connection";
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let value = value.trim();
            let some = || Some(value.to_owned()).filter(|value| !value.is_empty());
            match (section, key.trim()) {
                ("connection", "id") => value.clone_into(&mut keys.id),
                ("connection", "uuid") => value.clone_into(&mut keys.uuid),
                ("connection", "interface-name") => keys.interface = some(),
                // The name of the key until NetworkManager 1.46, and since.
                ("connection", "master" | "controller") => keys.controller = some(),
                ("ethernet" | "802-3-ethernet", "mac-address") => keys.mac = value.parse().ok(),
                ("vlan" | "macvlan" | "ipvlan" | "vxlan" | "macsec", "parent") => {
                    keys.parent = some();
                }
                _ => {}
            }
        }
        is_profile.then_some(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_their_sections_only() {
        let text = "[connection]\nid=a b\nuuid=u-1\ninterface-name=bond0.100\nmaster=u-2\n\n[vlan]\nparent=bond0\nid=100\n[ipv4]\ninterface-name=x\n";
        let keys = ProfileKeys::parse(text.as_bytes()).unwrap();
        assert_eq!((keys.id.as_str(), keys.uuid.as_str()), ("a b", "u-1"));
        assert_eq!(keys.interface.as_deref(), Some("bond0.100"));
        assert_eq!(keys.controller.as_deref(), Some("u-2"));
        assert_eq!(keys.parent.as_deref(), Some("bond0"));
        assert_eq!(ProfileKeys::parse(b""), None);
        assert_eq!(ProfileKeys::parse(b"half"), None);
    }
}
