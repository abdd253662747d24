//! The addresses that ovnkube adds to br-ex, and that a policy must list so as not to take them
//! away.

use br_ex::layout::Family;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde_json::{Map, Value, json};

use crate::address::{is_masquerade, net_of, nets, to_json};
use crate::state::{State, text};

/// The masquerade addresses of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Masquerade {
    pub v4: Option<IpNet>,
    pub v6: Option<IpNet>,
}

impl Default for Masquerade {
    /// What new clusters have.
    fn default() -> Self {
        let v4 = "169.254.0.0/17".parse().ok().and_then(second_v4);
        let v6 = "fd69::/112".parse().ok().and_then(second_v6);
        Self { v4, v6 }
    }
}

fn second_v4(subnet: Ipv4Net) -> Option<IpNet> {
    let address = u32::from(subnet.network()).checked_add(2)?;
    Ipv4Net::new(address.into(), subnet.prefix_len()).ok().map(IpNet::V4)
}

fn second_v6(subnet: Ipv6Net) -> Option<IpNet> {
    let address = u128::from(subnet.network()).checked_add(2)?;
    Ipv6Net::new(address.into(), subnet.prefix_len()).ok().map(IpNet::V6)
}

impl Masquerade {
    /// The addresses of a cluster with these subnets: the second of each. Subnets that are not
    /// given are the defaults.
    pub fn of_subnets(subnets: &[IpNet]) -> Self {
        let mut addresses = Self::default();
        for subnet in subnets {
            match subnet {
                IpNet::V4(subnet) => addresses.v4 = second_v4(*subnet),
                IpNet::V6(subnet) => addresses.v6 = second_v6(*subnet),
            }
        }
        addresses
    }

    /// The addresses that a node really has. One that it has not must not be added, or the policy
    /// would change something.
    pub fn of_node(node: &State) -> Self {
        let of = |family| {
            let nets = node.internal_port().map(|port| nets(port, family)).unwrap_or_default();
            nets.into_iter().find(|net| is_masquerade(*net))
        };
        Self { v4: of(Family::V4), v6: of(Family::V6) }
    }

    /// Adds them to the port of br-ex in a desired state, for each family that is on, unless they
    /// are there.
    pub(super) fn add_to(&self, desired: &mut Value) {
        let interfaces = desired.get_mut("interfaces").and_then(Value::as_array_mut);
        let is_port = |it: &Map<String, Value>| {
            text(it, "name") == br_ex::BRIDGE && text(it, "type") == "ovs-interface"
        };
        let ports = interfaces.into_iter().flatten().filter_map(Value::as_object_mut);
        for port in ports.filter(|it| is_port(it)) {
            for (family, net) in [(Family::V4, self.v4), (Family::V6, self.v6)] {
                let Some(section) = port.get_mut(family.key()).and_then(Value::as_object_mut)
                else {
                    continue;
                };
                let is_on = section.get("enabled").and_then(Value::as_bool) == Some(true);
                let Some(net) = net.filter(|_| is_on) else { continue };
                let list = section.entry("address").or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut()
                    && !list.iter().filter_map(net_of).any(|other| other == net)
                {
                    list.push(to_json(net));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_address_of_each_subnet_is_taken() {
        let printed = |masquerade: Masquerade| {
            (masquerade.v4.unwrap().to_string(), masquerade.v6.unwrap().to_string())
        };
        let defaults = ("169.254.0.2/17".to_owned(), "fd69::2/112".to_owned());
        assert_eq!(printed(Masquerade::default()), defaults);
        let older = ["169.254.169.0/29".parse().unwrap(), "fd69::/125".parse().unwrap()];
        let expected = ("169.254.169.2/29".to_owned(), "fd69::2/125".to_owned());
        assert_eq!(printed(Masquerade::of_subnets(&older)), expected);
    }

    #[test]
    fn they_are_added_once_and_only_to_families_that_are_on() {
        let mut desired = json!({"interfaces": [
            {"name": "eno1", "type": "ethernet", "ipv4": {"enabled": true}},
            {"name": "br-ex", "type": "ovs-interface",
             "ipv4": {"enabled": true, "dhcp": true}, "ipv6": {"enabled": false}},
        ]});
        Masquerade::default().add_to(&mut desired);
        let once = desired.clone();
        assert_eq!(
            once["interfaces"][1]["ipv4"]["address"],
            json!([{"ip": "169.254.0.2", "prefix-length": 17}]),
        );
        assert!(once["interfaces"][1]["ipv6"].get("address").is_none());
        assert!(once["interfaces"][0]["ipv4"].get("address").is_none());
        Masquerade::default().add_to(&mut desired);
        assert_eq!(desired, once);
    }
}
