//! All rules: requirement, reason and remedy.

use std::fmt;

/// The severity of a finding. Only errors make a check fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The node would not get its network, or not the one that is meant.
    Error,
    /// It works in some places or until something changes.
    Warning,
    /// Worth knowing.
    Info,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is required of a br-ex document.
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
        "The cluster network requires a bridge of exactly this name. Once a node has a document, configure-ovs leaves the bridge to it, so no other program creates one.",
        "Add an interface `name: br-ex`, `type: ovs-bridge`, `state: up`.";
    B2 Error "There is one ovs-interface `br-ex`, and it is up",
        "The port that is named like the bridge carries the node's address; ovnkube reads address and MAC from it. An ovs-bridge itself cannot have an address.",
        "Add an interface `name: br-ex`, `type: ovs-interface`, `state: up`, and give the addresses to it.";
    B3 Error "The bridge lists `br-ex` among its ports",
        "Otherwise the internal port belongs to no bridge, and the address is not reachable.",
        "Add `- name: br-ex` to the bridge's `port` list.";
    B4 Error "The bridge has one uplink",
        "ovnkube takes the port that the external id `bridge-uplink` names, or else the only port that leads out of Open vSwitch. With none or several it finds no uplink and ends.",
        "Leave one NIC, bond, VLAN or Linux bridge among the ports, or set `ovs-db.external_ids.bridge-uplink` on the bridge to the port that leads out.";
    B5 Error "An uplink through a patch port is complete",
        "ovnkube cannot tell by itself which patch port leads out, and a patch port carries nothing unless its peer points back from a bridge that has the NICs.",
        "Set `ovs-db.external_ids.bridge-uplink` of br-ex to the patch port, let both patch ports name each other as `peer`, and put the NICs or their bond on the other bridge.";
    B6 Error "The uplink has no IP address of its own",
        "nmstate refuses addresses on a port of a bridge. Written out as false, they also drop what an earlier configuration left there.",
        "Set `ipv4.enabled: false` and `ipv6.enabled: false` on the uplink.";
    B7 Error "The ovs-bridge has neither `mac-address` nor `copy-mac-from`",
        "An ovs-bridge is a record in a database. nmstate refuses a MAC address there (an error) and ignores `copy-mac-from` (a warning): br-ex then has a generated address.",
        "Move it to the ovs-interface `br-ex`.";
    B8 Warning "The ovs-interface `br-ex` has the MAC address of the uplink",
        "DHCP servers and switch ports know the NIC's address. With another one the node may get another lease, or none.",
        "Add `copy-mac-from: <uplink>` to the ovs-interface `br-ex`; for a bond, name one of its NICs.";
    B9 Error "What `copy-mac-from` names is there before the document is applied",
        "The address is looked up beforehand. An interface that the same document makes has none yet.",
        "Name a NIC, or set `mac-address` on the interface that is made here.";
    B10 Warning "A bond that changes its MAC address on failover has no `mac-address`",
        "With active-backup and fail_over_mac `active` or `follow` the kernel takes the active NIC's address, and NetworkManager fails to set another.",
        "Remove `mac-address` from the bond, or `fail_over_mac` from its options.";
    B11 Error "`br-ex` gets an address",
        "ovnkube ends when the gateway interface has none. nmstate refuses IPv4 that is enabled without an address and without DHCP on an interface that it creates, and gives IPv6 a link-local address only.",
        "Set `dhcp: true` (with `autoconf: true` for IPv6) or list an `address` in each family that is enabled; set `enabled: false` in the other.";
    B12 Error "The default route goes through `br-ex`",
        "The cluster's traffic leaves through br-ex; without a gateway there ovnkube ends, and pods reach nothing outside.",
        "Leave `auto-gateway` on with DHCP, or add a route to 0.0.0.0/0 (or ::/0) with `next-hop-interface: br-ex`.";
    B13 Warning "The default route of `br-ex` has metric 48 and wins",
        "48 is what configure-ovs gives br-ex (49 for br-ex1), so that the node leaves through it whatever else brings a default route.",
        "Set `auto-route-metric: 48` with DHCP or autoconf, `metric: 48` in a static default route, and higher ones elsewhere.";
    B14 Warning "A static gateway can be reached",
        "A gateway outside of every subnet of its interface is unreachable unless a route leads to it; nmstate does not check that. For addresses with /32 or /128 NetworkManager adds that route.",
        "Correct the gateway or the address, or add a route that leads to the gateway.";
    B15 Warning "Static addresses come with name servers",
        "No DHCP server provides them, and a node that resolves no names does not join.",
        "Add `dns-resolver.config.server`, with servers that a route leads to.";
    B16 Error "MTUs do not grow on the way up, and leave room for the overlay",
        "A link cannot carry more than what is below it. ovnkube refuses to start when br-ex has less than the cluster's MTU and its header.",
        "Raise `mtu` from the NICs upwards, or lower it from br-ex downwards.";
    B17 Error "IPv6 has an MTU of at least 1280",
        "Less is not allowed by IPv6, and nmstate refuses it.",
        "Set `mtu: 1280` or more.";
    B18 Warning "There is no `mtu` on the ovs-bridge",
        "nmstate drops it: only interfaces have an MTU.",
        "Move `mtu` to the ovs-interface `br-ex` and to the uplink.";
    B19 Error "Interfaces that belong to the cluster network are not configured",
        "NetworkManager is configured not to manage these names, and ovnkube changes them.",
        "Leave the interface out, or give yours another name.";
    B20 Warning "No other interface competes with `br-ex` for the way out",
        "A second default route, or a second address in br-ex's subnet, sends responses through another interface than the one that received the request.",
        "Set `auto-gateway: false` on the other interface, or give it its own subnet and routes.";
    B21 Error "Interface names are names that the kernel takes",
        "1 to 15 characters, no slash, no space, not `.` or `..`. nmstate reports only that a longer name does not exist.",
        "Choose a shorter name.";
    B22 Error "Nothing is given twice",
        "Of two keys, or two interfaces of the same name and type, the later one wins without a message. The same address on two hosts takes both off the network.",
        "Keep one of the two.";
    B23 Warning "The bridge allows extra patch ports",
        "ovnkube adds patch ports to br-ex. A policy that does not allow them may remove them, or fail because they are there.",
        "Set `bridge.allow-extra-patch-ports: true` on the ovs-bridge.";
    B24 Info "Multicast snooping is on",
        "The documented bridge has it; without it multicast floods every port.",
        "Set `bridge.options.mcast-snooping-enable: true` on the ovs-bridge.";
    B25 Warning "The bridge is left as ovnkube expects it",
        "ovnkube programs flows of its own into a bridge that forwards by itself; spanning tree, `fail-mode: secure`, a user-space datapath and VLANs on ports get in their way.",
        "Remove the option.";
    B26 Error "Bridge mappings are not set as an external id",
        "nmstate keeps `ovn-bridge-mappings` to itself and refuses it there.",
        "Write them as `ovn.bridge-mappings`.";
    B27 Warning "The global `ovs-db` section is left alone",
        "A key set to null is removed and an empty map removes all, also those by which ovnkube finds its databases.",
        "Remove the top-level `ovs-db`; external ids of the bridge belong to the bridge.";
    B28 Warning "The document holds no secrets",
        "Every node of a role stores the documents of all hosts of that role.",
        "Deliver 802.1X, IPsec and MACsec secrets by other means.";
    B29 Warning "Interfaces say what they are",
        "Without a type, or with one that nmstate does not support, only the node can determine the interface.",
        "Write `type:`, for example `ethernet`, `bond`, `vlan`.";
    B30 Error "A file is named after its host, `<short host name>.yml`, or `cluster.yml`",
        "The node looks for `hostname -s` and for `cluster`, with the ending .yml. Any other file is ignored, and the node gets a guessed bridge.",
        "Rename the file: the host name up to its first dot, small letters, ending .yml.";
    B31 Error "Every host of a role has a name of its own",
        "Files are chosen by the short host name. Two hosts with the same one, or a host called `cluster` or `applied`, would get each other's document.",
        "Rename a host, or remove one of two files for the same host.";
    B32 Warning "A role has either `cluster.yml` or files of hosts",
        "A host's own file wins, and then nothing of `cluster.yml` applies to it; the two drift apart.",
        "Remove `cluster.yml`, or the files of hosts.";
    B33 Warning "`cluster.yml` has no static address",
        "Every node of the role would take the same one.",
        "Use DHCP in `cluster.yml`, or one file per host.";
    B34 Error "The file is an NMState document that nmstate reads",
        "An empty file is ignored; one that does not parse leaves the node without network, and the cluster cannot deliver a corrected one.",
        "Correct the text at this place.";
    B35 Warning "Captures find what is meant, and one thing only",
        "A capture that finds nothing stops the document. Of several things that it finds, the first is used, in an undefined order.",
        "Compare with something that one interface or route alone has.";
    B36 Warning "`br-ex` gets the address that the node has before",
        "The node's address is chosen before br-ex exists. If br-ex has another one, the node waits for ever for the first.",
        "Put br-ex on the interface that holds the node's address, or tell the node which address to choose (KUBELET_NODEIP_HINT).";
    B37 Warning "The address is in the machine network and in none of the cluster's own",
        "Nodes are known by addresses of the machine network. Those of pods, services and of ovnkube's own links are in use.",
        "Correct the address, or the networks given to this check.";
    B38 Warning "The masquerade address is in policies and not in first-boot documents",
        "ovnkube adds it to br-ex by itself. A policy that lists addresses without it removes it.",
        "In a NodeNetworkConfigurationPolicy list 169.254.0.2/17 (or fd69::2/112) beside the node's address; elsewhere leave it out.";
    B39 Warning "Bonds are bonds",
        "One NIC gives no failover, a NIC that is listed twice counts once, 802.3ad without miimon does not notice a dead link, and balance-slb is a mode of Open vSwitch only.",
        "List two NICs or more, set `options.miimon: '100'`, and make a balance-slb bond as a port of an ovs-bridge.";
    B40 Warning "The platform chooses node addresses on the node",
        "Where nodes run no nodeip-configuration, a service waits for ever for the file it would write once br-ex comes from a document. On clouds, host names are not known beforehand either.",
        "Leave br-ex to configure-ovs there, or use `cluster.yml` alone and try it on one node first.";
    B41 Info "The node's nmstate supports every field",
        "nmstate refuses a document with a field that it does not know, and a node may have an older one than this program.",
        "Leave the field out, or update the nodes first.";
    B42 Warning "The bridge's NetworkManager profile is named as the node's scripts expect",
        "A script that keeps port numbers stable looks for a profile `br-ex`, then `br-ex-br`, and finds no other.",
        "Remove `profile-name` from the ovs-bridge.";
    B43 Error "A document that names its machine names one machine, and no other document names it",
        "brex-firstboot chooses a document by the host name, then by `# brex-match:` lines at its top. It refuses a line that it cannot read, a document whose lines name another machine, and two documents for one machine.",
        "Write `# brex-match: mac=52:54:00:12:34:56` or `# brex-match: serial=CZ1234`, each machine in one document.";
    N1 Error "nmstate accepts the document",
        "It is checked as the node will check it before it changes anything, on a made-up node that has every NIC the document names, or on the state that was given.",
        "Correct the field that the message names. If the message names an interface only, compare its section with the examples of `oc-brex topology`.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_found_by_its_name_and_speaks_in_sentences() {
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
