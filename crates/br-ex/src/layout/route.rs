//! Static routes.

use std::net::IpAddr;

use ipnet::IpNet;
use located_yaml::{Located, Node, Position};

use super::{Family, is_captured};

/// The kernel's main table; nmstate's 0 means it, too.
const MAIN_TABLE: i128 = 254;

/// A route as it is written; parts that are filled in on the node are `None`.
#[derive(Debug, Clone)]
pub struct Route<'a> {
    pub at: Position,
    pub destination: Option<IpNet>,
    pub interface: Option<Located<&'a str>>,
    pub gateway: Option<Located<IpAddr>>,
    pub metric: Option<i128>,
    pub is_main_table: bool,
    pub is_absent: bool,
    /// Whether some part is filled in on the node.
    pub is_captured: bool,
}

impl<'a> Route<'a> {
    pub(super) fn read(node: &'a Node) -> Self {
        let text = |key: &str| {
            let value = node.get(key)?;
            Some(Located { at: value.at, value: value.text()? })
        };
        let table = node.get("table-id").and_then(Node::integer).unwrap_or(MAIN_TABLE);
        Self {
            at: node.at,
            destination: text("destination").and_then(|it| it.value.parse().ok()),
            interface: text("next-hop-interface"),
            gateway: text("next-hop-address")
                .and_then(|it| Some(Located { at: it.at, value: it.value.parse().ok()? })),
            metric: node.get("metric").and_then(Node::integer),
            is_main_table: matches!(table, MAIN_TABLE | 0),
            is_absent: text("state").is_some_and(|state| state.value == "absent"),
            is_captured: is_captured(node)
                || node.entries().iter().any(|entry| is_captured(&entry.value)),
        }
    }

    /// Whether this is a default route.
    pub fn is_default(&self, family: Family) -> bool {
        let wanted = |net: IpNet| net.prefix_len() == 0 && Family::of(net.addr()) == family;
        !self.is_absent && self.is_main_table && self.destination.is_some_and(wanted)
    }

    pub fn is_via(&self, interface: &str) -> bool {
        self.interface.is_some_and(|it| it.value == interface)
    }
}
