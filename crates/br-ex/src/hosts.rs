//! The documents of all hosts of a cluster, and the rules between them: B22, B30 to B33, B40.

use std::collections::BTreeMap;

use diagnostic::Severity;
use located_yaml::Position;
use machine_identity::short_name;
use nmstate::InterfaceType;

use crate::cluster_facts::ClusterFacts;
use crate::document::Document;
use crate::finding::{Finding, Findings};
use crate::layout::{Interface, Layout};
use crate::rule::RuleId;

/// The name of the document for all hosts that have none of their own.
pub const CLUSTER: &str = "cluster";
/// Where a node keeps what it has applied; no host may have this name.
const APPLIED: &str = "applied";

/// Where a document's name comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// A file on the administrator's side, `worker-0.yml` or `worker-0.yaml`.
    File,
    /// A file as the node will find it.
    FileOnNode(Reader),
    /// The name of a host.
    Host,
    /// A file with any name, because it is only checked.
    Loose,
}

/// The program that reads the folder of documents on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reader {
    /// The machine config operator's nmstate-configuration, which reads `.yml` only.
    Mco,
    /// brex-firstboot, which reads `.yml` and `.yaml`.
    FirstBoot,
    #[default]
    Unknown,
}

/// A document, and the host it is for.
#[derive(Debug, Clone)]
pub struct HostDocument {
    /// `master`, `worker` or the name of another pool.
    pub role: String,
    /// The file's name with its ending, or the host's name.
    pub name: String,
    pub naming: Naming,
    pub document: Document,
}

impl HostDocument {
    /// The host's name, or [`CLUSTER`].
    pub fn host(&self) -> &str {
        match self.naming {
            Naming::Host => &self.name,
            Naming::File | Naming::FileOnNode(_) | Naming::Loose => {
                self.name.rsplit_once('.').map_or(self.name.as_str(), |(stem, _)| stem)
            }
        }
    }

    /// Whether it is for all hosts of its role.
    pub fn is_for_all(&self) -> bool {
        self.naming != Naming::Host && self.host() == CLUSTER
    }

    fn ending(&self) -> Option<&str> {
        match self.naming {
            Naming::Host | Naming::Loose => None,
            Naming::File | Naming::FileOnNode(_) => {
                Some(self.name.rsplit_once('.').map_or("", |(_, ending)| ending))
            }
        }
    }
}

/// What is wrong between documents: the number of the document that it shows in,
/// and the finding.
pub fn check_hosts(hosts: &[HostDocument], around: &ClusterFacts) -> Vec<(usize, Finding)> {
    let mut all = Vec::new();
    let mut seen = Seen::default();
    for (number, host) in hosts.iter().enumerate() {
        let mut found = Findings::default();
        if host.naming != Naming::Loose {
            check_name(host, &mut found);
            check_role(host, hosts, around, &mut found);
        }
        check_for_all(host, &mut found);
        seen.check(host, &mut found);
        all.extend(found.into_sorted().into_iter().map(|finding| (number, finding)));
    }
    all
}

fn check_name(host: &HostDocument, found: &mut Findings) {
    let at = Position::START;
    let name = &host.name;
    match (host.naming, host.ending()) {
        (Naming::FileOnNode(Reader::FirstBoot), Some("yaml")) => {}
        (Naming::FileOnNode(Reader::Unknown), Some("yaml")) => {
            let message = format!(
                "brex-firstboot reads `{name}`, but the machine config operator's own \
                 nmstate-configuration ignores it: it reads .yml only"
            );
            found.report_as(Severity::Warning, RuleId::B30, at, message);
        }
        (Naming::FileOnNode(_), Some(ending)) if ending != "yml" => {
            let message = format!("nodes ignore `{name}`: it does not end in .yml");
            found.report(RuleId::B30, at, message);
        }
        (Naming::File, Some(ending)) if !matches!(ending, "yml" | "yaml") => {
            let message = format!("`{name}` ends neither in .yml nor in .yaml");
            found.report(RuleId::B30, at, message);
        }
        _ => {}
    }
    let stem = host.host();
    if host.naming != Naming::Host && stem.contains('.') {
        let short = short_name(stem);
        let message = format!("the node reads `{short}.yml`, not `{name}`");
        found.report(RuleId::B30, at, message);
    } else if !is_host_name(stem) {
        let message = format!("{stem:?} is not a host name");
        found.report(RuleId::B30, at, message);
    }
    if stem == APPLIED || (host.naming == Naming::Host && short_name(stem) == CLUSTER) {
        let message = format!("no host may be named `{stem}`");
        found.report(RuleId::B31, at, message);
    }
}

fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.split('.').all(is_label)
}

fn check_role(
    host: &HostDocument,
    hosts: &[HostDocument],
    around: &ClusterFacts,
    found: &mut Findings,
) {
    let at = Position::START;
    let of_role = || hosts.iter().filter(|other| other.role == host.role);
    let stem = short_name(host.host());
    let is_same = |other: &&HostDocument| short_name(other.host()) == stem;
    if let Some(first) = of_role().find(is_same).filter(|first| !std::ptr::eq(*first, host)) {
        let message = format!(
            "`{}` and `{}` of role {} are for the same host",
            first.name, host.name, host.role
        );
        found.report(RuleId::B31, at, message);
    }
    if host.is_for_all() {
        let own = of_role().filter(|other| !other.is_for_all()).count();
        if own > 0 {
            let message = format!(
                "role {} has `{}` and {own} of hosts, which take precedence",
                host.role, host.name
            );
            found.report(RuleId::B32, at, message);
        }
    } else if let Some(platform) = around.platform.filter(|it| !it.chooses_node_address()) {
        let message = format!(
            "host names on `{}` are not known in advance; only `cluster.yml` can be used there",
            platform.name()
        );
        found.report_as(Severity::Warning, RuleId::B40, at, message);
    }
}

fn check_for_all(host: &HostDocument, found: &mut Findings) {
    let layout = host.document.layout().filter(|_| host.is_for_all());
    if let Some((at, address)) = layout.and_then(|layout| static_address(&layout)) {
        found.report(RuleId::B33, at, format!("every node would have {address}"));
    }
}

fn up<'l, 'a>(layout: &'l Layout<'a>) -> impl Iterator<Item = &'l Interface<'a>> {
    layout.interfaces.iter().filter(|it| it.is_up() && it.kind != InterfaceType::OvsBridge)
}

fn static_address(layout: &Layout<'_>) -> Option<(Position, String)> {
    let mut addresses = up(layout).flat_map(Interface::ips).flat_map(|ip| &ip.addresses);
    addresses.next().map(|address| (address.at, address.net.addr().to_string()))
}

/// Addresses that were found, and the host of each.
#[derive(Debug, Default)]
struct Seen<'a> {
    addresses: BTreeMap<String, &'a HostDocument>,
    macs: BTreeMap<String, &'a HostDocument>,
}

impl<'a> Seen<'a> {
    fn check(&mut self, host: &'a HostDocument, found: &mut Findings) {
        // One address for many hosts is reported by another rule.
        let Some(layout) = host.document.layout().filter(|_| !host.is_for_all()) else { return };
        let mut report = |first: Option<&HostDocument>, what: String, at| {
            // Duplicates in one document, or in two for one host, are reported elsewhere.
            if let Some(first) = first.filter(|it| short_name(it.host()) != short_name(host.host()))
            {
                let message = format!("`{}` has {what}, too", first.name);
                found.report(RuleId::B22, at, message);
            }
        };
        for iface in up(&layout) {
            for address in iface.ips().flat_map(|ip| &ip.addresses) {
                let ip = address.net.addr().to_string();
                let is_link_local = ip.starts_with("fe80:") || ip.starts_with("169.254.");
                if !is_link_local {
                    let first = *self.addresses.entry(ip.clone()).or_insert(host);
                    report(Some(first), format!("address {ip}"), address.at);
                }
            }
            if let Some(mac) = iface.text("mac-address").filter(|mac| !mac.value.contains("{{")) {
                let first = *self.macs.entry(mac.value.to_ascii_lowercase()).or_insert(host);
                report(Some(first), format!("MAC address {}", mac.value), mac.at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(role: &str, name: &str, naming: Naming, address: &str) -> HostDocument {
        let text = format!(
            "interfaces:\n- {{name: br-ex, type: ovs-interface, ipv4: {{enabled: true, address: \
             [{{ip: {address}, prefix-length: 24}}]}}}}\n"
        );
        let document = Document::parse(text.as_bytes());
        HostDocument { role: role.to_owned(), name: name.to_owned(), naming, document }
    }

    fn broken(hosts: &[HostDocument], around: &ClusterFacts) -> Vec<String> {
        let found = check_hosts(hosts, around);
        found.iter().map(|(number, finding)| format!("{number}:{}", finding.rule)).collect()
    }

    #[test]
    fn hosts_with_names_and_addresses_of_their_own_are_good() {
        let hosts = [
            host("master", "master-0.yml", Naming::File, "192.0.2.10"),
            host("worker", "worker-0.yaml", Naming::File, "192.0.2.20"),
            host("worker", "worker-1.example.com", Naming::Host, "192.0.2.21"),
        ];
        assert!(broken(&hosts, &ClusterFacts::default()).is_empty());
    }

    #[test]
    fn names_that_no_node_uses_are_found() {
        let files = |name: &str| host("worker", name, Naming::File, "192.0.2.10");
        let on_node = |name: &str, reader| host("w", name, Naming::FileOnNode(reader), "192.0.2.1");
        for (file, rules) in [
            (files("worker-0.example.com.yml"), vec!["0:B30"]),
            (files("Worker-0.yml"), vec!["0:B30"]),
            (files("worker-0.txt"), vec!["0:B30"]),
            (files("applied.yml"), vec!["0:B31"]),
            (on_node("worker-0.yaml", Reader::Mco), vec!["0:B30"]),
            (on_node("worker-0.yaml", Reader::Unknown), vec!["0:B30"]),
            (on_node("worker-0.yaml", Reader::FirstBoot), vec![]),
            (on_node("worker-0.txt", Reader::FirstBoot), vec!["0:B30"]),
            (host("w", "cluster.example.com", Naming::Host, "192.0.2.1"), vec!["0:B31"]),
        ] {
            assert_eq!(
                broken(std::slice::from_ref(&file), &ClusterFacts::default()),
                rules,
                "{}",
                file.name
            );
        }
    }

    #[test]
    fn the_other_ending_is_an_error_only_where_the_operators_script_reads_the_folder() {
        for (reader, expected) in [
            (Reader::Mco, Some(Severity::Error)),
            (Reader::Unknown, Some(Severity::Warning)),
            (Reader::FirstBoot, None),
        ] {
            let document = host("w", "worker-0.yaml", Naming::FileOnNode(reader), "192.0.2.1");
            let found = check_hosts(&[document], &ClusterFacts::default());
            assert_eq!(found.first().map(|(_, finding)| finding.severity), expected, "{reader:?}");
        }
    }

    #[test]
    fn hosts_of_one_name_are_found_within_a_role_only() {
        let hosts = [
            host("worker", "n0.yml", Naming::File, "192.0.2.10"),
            host("worker", "n0.yaml", Naming::File, "192.0.2.10"),
            host("master", "n0.yml", Naming::File, "192.0.2.10"),
        ];
        assert_eq!(broken(&hosts, &ClusterFacts::default()), ["1:B31"]);
    }

    #[test]
    fn one_address_on_two_hosts_is_found_on_the_second() {
        let hosts = [
            host("master", "master-0.yml", Naming::File, "192.0.2.10"),
            host("worker", "worker-0.yml", Naming::File, "192.0.2.10"),
        ];
        let found = check_hosts(&hosts, &ClusterFacts::default());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 1);
        assert_eq!(found[0].1.message, "`master-0.yml` has address 192.0.2.10, too");
        assert_eq!(found[0].1.at.line, 2);
    }

    #[test]
    fn a_cluster_file_with_an_address_or_beside_host_files_is_warned_about() {
        let hosts = [
            host("worker", "cluster.yml", Naming::File, "192.0.2.10"),
            host("worker", "worker-0.yml", Naming::File, "192.0.2.11"),
        ];
        assert_eq!(broken(&hosts, &ClusterFacts::default()), ["0:B32", "0:B33"]);
    }

    #[test]
    fn host_files_on_a_cloud_are_warned_about() {
        let around = ClusterFacts { platform: Some(crate::Platform::Aws), ..Default::default() };
        let hosts = [host("worker", "worker-0.yml", Naming::File, "192.0.2.11")];
        assert_eq!(broken(&hosts, &around), ["0:B40"]);
    }
}
