//! All rules: requirement, reason and remedy.

use std::fmt;

use diagnostic::Severity;

/// A requirement for br-ex documents.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name by which the rule is known: `B1`.
    pub id: RuleId,
    /// Its usual severity; that of a single finding may be lower or higher.
    pub severity: Severity,
    pub title: &'static str,
    pub reason: &'static str,
    pub remedy: &'static str,
}

/// Makes the list of names and the table from one list, so that neither can lack a rule.
macro_rules! rules {
    ($($id:ident $severity:ident $title:literal, $reason:literal, $remedy:literal;)*) => {
        /// The name of a rule.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RuleId { $($id),* }

        /// All rules, in the order of their names.
        pub static RULES: &[Rule] = &[$(Rule {
            id: RuleId::$id,
            severity: Severity::$severity,
            title: $title,
            reason: $reason,
            remedy: $remedy,
        }),*];

        impl RuleId {
            pub fn name(self) -> &'static str {
                match self { $(Self::$id => stringify!($id)),* }
            }
        }
    };
}

impl RuleId {
    pub fn rule(self) -> &'static Rule {
        &RULES[self as usize]
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

rules! {
    B1 Error "There is one ovs-bridge `br-ex`, and it is up",
        "The cluster network requires a bridge of exactly this name. On a node with a document, configure-ovs does not create the bridge, and no other program does.",
        "Add an interface `name: br-ex`, `type: ovs-bridge`, `state: up`.";
    B2 Error "There is one ovs-interface `br-ex`, and it is up",
        "The port with the name of the bridge has the node's address; ovnkube reads the IP and MAC addresses from it. An ovs-bridge itself cannot have an address.",
        "Add an interface `name: br-ex`, `type: ovs-interface`, `state: up`, and move the addresses to it.";
    B3 Error "The bridge lists `br-ex` among its ports",
        "Otherwise the internal port does not belong to a bridge, and its address is not reachable.",
        "Add `- name: br-ex` to the bridge's `port` list.";
    B4 Error "The bridge has one uplink",
        "ovnkube uses the port that the external id `bridge-uplink` names, or else the only port with an interface outside Open vSwitch. If there is none, or more than one, it does not find an uplink and exits.",
        "Keep one NIC, bond, VLAN or Linux bridge in the list of ports, or set `ovs-db.external_ids.bridge-uplink` on the bridge to the uplink.";
    B5 Error "An uplink through a patch port is complete",
        "ovnkube cannot determine which patch port is the uplink, and a patch port has no traffic unless its peer, on the bridge with the NICs, names it.",
        "Set `ovs-db.external_ids.bridge-uplink` of br-ex to the patch port, set the `peer` of each patch port to the other one, and add the NICs or their bond to the other bridge.";
    B6 Error "The uplink has no IP address of its own",
        "nmstate rejects addresses on a port of a bridge. An explicit `enabled: false` also removes addresses of an earlier configuration.",
        "Set `ipv4.enabled: false` and `ipv6.enabled: false` on the uplink.";
    B7 Error "The ovs-bridge has neither `mac-address` nor `copy-mac-from`",
        "An ovs-bridge is a record in a database. nmstate rejects a MAC address there (an error) and ignores `copy-mac-from` (a warning): br-ex then has a generated address.",
        "Move it to the ovs-interface `br-ex`.";
    B8 Warning "The ovs-interface `br-ex` has the MAC address of the uplink",
        "DHCP servers and switch ports may be configured for the address of the NIC. With another address the node may get another lease, or none.",
        "Add `copy-mac-from: <uplink>` to the ovs-interface `br-ex`; for a bond, name one of its NICs.";
    B9 Error "The interface in `copy-mac-from` exists before the document is applied",
        "The address is read before the document is applied. An interface that the same document creates does not have one yet.",
        "Name a NIC, or set `mac-address` on the interface that the document creates.";
    B10 Warning "A bond that changes its MAC address on failover has no `mac-address`",
        "With active-backup and fail_over_mac `active` or `follow` the kernel uses the address of the active NIC, and NetworkManager fails to set another.",
        "Remove `mac-address` from the bond, or `fail_over_mac` from its options.";
    B11 Error "`br-ex` gets an address",
        "ovnkube exits if the gateway interface has no address. On an interface that it creates, nmstate rejects IPv4 that is enabled without an address and without DHCP, and configures only a link-local address for IPv6.",
        "Set `dhcp: true` (with `autoconf: true` for IPv6) or list an `address` in each family that is enabled; set `enabled: false` in the other.";
    B12 Error "The default route goes through `br-ex`",
        "Traffic of the cluster leaves the node through br-ex. Without a gateway there, ovnkube exits, and pods cannot reach other networks.",
        "With DHCP, leave `auto-gateway` enabled, or add a route to 0.0.0.0/0 (or ::/0) with `next-hop-interface: br-ex`.";
    B13 Warning "The default route of `br-ex` has metric 48 and is preferred",
        "configure-ovs uses metric 48 for br-ex (49 for br-ex1), so that its default route is preferred over those of other interfaces.",
        "Set `auto-route-metric: 48` with DHCP or autoconf, `metric: 48` in a static default route, and higher metrics elsewhere.";
    B14 Warning "A static gateway is reachable",
        "A gateway outside of every subnet of its interface is unreachable unless a route leads to it; nmstate does not check that. For addresses with the prefix length 32 or 128, NetworkManager adds that route.",
        "Correct the gateway or the address, or add a route that leads to the gateway.";
    B15 Warning "Name servers are configured where addresses are static",
        "No DHCP server provides name servers, and a node that cannot resolve names does not join.",
        "Add `dns-resolver.config.server`, with servers that are reachable through a route.";
    B16 Error "No interface has a larger MTU than the one below it, and the MTU of `br-ex` includes the header of the overlay network",
        "An interface cannot send larger packets than the interface below it. ovnkube does not start if the MTU of br-ex is smaller than the MTU of the cluster network and its header.",
        "Raise `mtu` of the interfaces below, or lower it on br-ex.";
    B17 Error "IPv6 has an MTU of at least 1280",
        "IPv6 does not allow a smaller MTU, and nmstate rejects it.",
        "Set `mtu: 1280` or more.";
    B18 Warning "There is no `mtu` on the ovs-bridge",
        "nmstate ignores it: only interfaces have an MTU.",
        "Move `mtu` to the ovs-interface `br-ex` and to the uplink.";
    B19 Error "Interfaces that belong to the cluster network are not configured",
        "NetworkManager is configured not to manage these names, and ovnkube changes them.",
        "Remove the interface, or rename it if it is your own.";
    B20 Warning "No other interface has a default route or an address in the subnet of `br-ex`",
        "A second default route, or a second address in br-ex's subnet, sends responses through another interface than the one that received the request.",
        "Set `auto-gateway: false` on the other interface, or give it its own subnet and routes.";
    B21 Error "Interface names are valid for the kernel",
        "A name has 1 to 15 characters, no slash and no space, and is not `.` or `..`. For a longer name, nmstate only reports that it does not exist.",
        "Choose a shorter name.";
    B22 Error "Keys, interfaces and addresses are unique",
        "Of two keys, or two interfaces of the same name and type, the last one is used without a message. If two hosts have the same address, neither is reliably reachable.",
        "Keep one of the two.";
    B23 Warning "The bridge allows extra patch ports",
        "ovnkube adds patch ports to br-ex. A policy that does not allow them may remove them, or fail because they exist.",
        "Set `bridge.allow-extra-patch-ports: true` on the ovs-bridge.";
    B24 Info "Multicast snooping is enabled",
        "The documented bridge has it. Without it, multicast packets are sent to every port.",
        "Set `bridge.options.mcast-snooping-enable: true` on the ovs-bridge.";
    B25 Warning "The bridge has no options that conflict with ovnkube",
        "ovnkube adds flows to a bridge that otherwise forwards as a normal switch. Spanning tree, `fail-mode: secure`, a user-space datapath and VLANs on ports interfere with them.",
        "Remove the option.";
    B26 Error "Bridge mappings are not set as an external id",
        "nmstate manages `ovn-bridge-mappings` itself and rejects it there.",
        "Write them as `ovn.bridge-mappings`.";
    B27 Warning "The document has no global `ovs-db` section",
        "A key set to null is removed, and an empty map removes all keys, including those with which ovnkube finds its databases.",
        "Remove the top-level `ovs-db`; set external ids of the bridge on the bridge.";
    B28 Warning "The document contains no secrets",
        "Every node of a role stores the documents of all hosts of that role.",
        "Deliver 802.1X, IPsec and MACsec secrets by other means.";
    B29 Warning "Every interface has a type",
        "Without a type, or with one that nmstate does not support, only the node can determine the interface.",
        "Write `type:`, for example `ethernet`, `bond`, `vlan`.";
    B30 Error "A file is named after its host, `<short host name>.yml`, or `cluster.yml`",
        "The node reads the file named `hostname -s` or `cluster`, with the extension .yml. Any other file is ignored, and configure-ovs creates the bridge.",
        "Rename the file: the host name up to its first dot, in lower case, with the extension .yml.";
    B31 Error "Every host of a role has a unique name",
        "Files are selected by the short host name. Two hosts with the same short name, or a host named `cluster` or `applied`, would get a document of others.",
        "Rename a host, or remove one of two files for the same host.";
    B32 Warning "A role has either `cluster.yml` or files of hosts",
        "The file of a host takes precedence, and nothing of `cluster.yml` applies to that host, so the two may differ over time.",
        "Remove `cluster.yml`, or the files of hosts.";
    B33 Warning "`cluster.yml` has no static address",
        "Every node of the role would have the same address.",
        "Use DHCP in `cluster.yml`, or one file per host.";
    B34 Error "The file is a valid NMState document",
        "An empty file is ignored. A file that cannot be parsed leaves the node without network, and the cluster cannot deliver a corrected one.",
        "Correct the text at this location.";
    B35 Warning "Captures find exactly one interface or route",
        "If a capture finds nothing, the document is not applied. If it finds several, the first is used, in an undefined order.",
        "Compare a value that is unique to the interface or route.";
    B36 Warning "`br-ex` keeps the address of the node",
        "The address of the node is selected before br-ex exists. If br-ex has another one, the node waits indefinitely for the selected address.",
        "Use the interface with the address of the node as the uplink, or set the address that the node selects (KUBELET_NODEIP_HINT).";
    B37 Warning "The address is in the machine network and not in an internal network of the cluster",
        "Nodes have addresses of the machine network. The networks of pods, services and ovnkube are in use.",
        "Correct the address, or the networks given to this check.";
    B38 Warning "The masquerade address is in policies and not in first-boot documents",
        "ovnkube adds it to br-ex. A policy that lists addresses without it removes it.",
        "In a NodeNetworkConfigurationPolicy, add 169.254.0.2/17 (or fd69::2/112) to the list of addresses; in other documents, remove it.";
    B39 Warning "Bonds have at least two NICs and a working link monitor",
        "With one NIC there is no failover; a NIC that is listed twice counts once; 802.3ad without miimon does not detect a failed link; and only Open vSwitch supports balance-slb.",
        "List two or more NICs, set `options.miimon: '100'`, and define a balance-slb bond as a port of an ovs-bridge.";
    B40 Warning "The platform selects node addresses on the node",
        "If br-ex comes from a document, a service waits for a file that nodeip-configuration writes; on nodes without nodeip-configuration it waits indefinitely. On clouds, host names are not known in advance either.",
        "Do not use documents on this platform, or use only `cluster.yml` and test it on one node first.";
    B41 Info "The node's nmstate supports every field",
        "nmstate rejects a document with a field that it does not support, and the nmstate of a node may be older than that of this program.",
        "Remove the field, or update the nodes first.";
    B42 Warning "The NetworkManager profile of the bridge has the name that scripts of the node expect",
        "The script that keeps port numbers stable uses the profile `br-ex` or `br-ex-br` only.",
        "Remove `profile-name` from the ovs-bridge.";
    B43 Error "A document that names its machine names one machine, and no other document names it",
        "brex-firstboot selects a document by the host name, then by `# brex-match:` lines at its top. It rejects a line that it cannot parse, a document whose lines name another machine, and two documents for one machine.",
        "Write `# brex-match: mac=52:54:00:12:34:56` or `# brex-match: serial=CZ1234`, and name each machine in one document only.";
    N1 Error "nmstate accepts the document",
        "The document is validated as on the node, against a simulated node that has every NIC in the document, or against the given state.",
        "Correct the field that the message names. If the message names an interface only, compare its section with the examples of `oc-brex topology`.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_found_by_its_name_and_its_texts_are_sentences() {
        for rule in RULES {
            assert_eq!(rule.id.rule(), rule);
            assert!(rule.reason.ends_with('.') && rule.remedy.ends_with('.'), "{}", rule.id);
            assert!(!rule.title.ends_with('.'), "{}", rule.id);
        }
        let names: Vec<String> = RULES.iter().map(|rule| rule.id.to_string()).collect();
        let expected: Vec<String> =
            (1..=43).map(|number| format!("B{number}")).chain(["N1".to_owned()]).collect();
        assert_eq!(names, expected);
    }
}
