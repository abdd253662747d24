//! The documents of hosts in an install-config, `networking.hostConfig`.

use std::net::IpAddr;

use br_ex::hosts::{HostDocument, Naming};
use br_ex::layout::{Interface, Layout};
use br_ex::{ClusterFacts, Document, Platform};
use ipnet::IpNet;
use located_yaml::{Keys, Loaded, Node, Position, load};
use machine_identity::short_name;

/// What an install-config contains about br-ex.
#[derive(Debug, Clone)]
pub struct InstallConfig {
    pub hosts: Vec<ConfiguredHost>,
    /// Networks and the platform.
    pub cluster_facts: ClusterFacts,
}

/// A host with a document in the install-config.
#[derive(Debug, Clone)]
pub struct ConfiguredHost {
    pub name: String,
    /// `None` if neither the entry nor the platform's hosts have it.
    pub role: Option<String>,
    pub at: Position,
    /// The document, aliases and merge keys resolved.
    pub config: Node,
}

/// Why there is nothing to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstallConfigError {
    #[error("line {}, column {}: {problem}", at.line, at.column)]
    Yaml { at: Position, problem: located_yaml::Problem },
    #[error("line {}: {problem}", at.line)]
    Host { at: Position, problem: String },
}

/// Whether a document is an install-config, with hosts in it or without.
pub fn is_install_config(root: &Node) -> bool {
    let Some(networking) = root.get("networking") else { return false };
    networking.entry("hostConfig").is_some()
        || root.entry("baseDomain").is_some()
        || root.entry("controlPlane").is_some()
}

/// Reads the hosts of an install-config. An install-config without `hostConfig` has none.
pub fn parse(text: &str) -> Result<InstallConfig, InstallConfigError> {
    let Loaded { root, problems, .. } = load(text, Keys::Exact);
    if let Some(problem) = problems.into_iter().next() {
        return Err(InstallConfigError::Yaml { at: problem.at, problem: problem.value });
    }
    let Some(root) = root else {
        return Ok(InstallConfig { hosts: Vec::new(), cluster_facts: ClusterFacts::default() });
    };
    let networking = root.get("networking");
    let listed = networking.and_then(|it| it.get("hostConfig")).map(Node::items);
    let hosts = listed.unwrap_or_default().iter().map(|host| configured_host(&root, host));
    Ok(InstallConfig {
        hosts: hosts.collect::<Result<_, _>>()?,
        cluster_facts: cluster_facts(&root),
    })
}

/// The roles that a document goes to when none is known: on the node the host name selects it.
const BOTH: [&str; 2] = ["master", "worker"];

impl ConfiguredHost {
    /// The roles whose MachineConfig gets the document. `default` is that of hosts without one.
    pub fn roles(&self, default: Option<&str>) -> Vec<String> {
        match self.role.as_deref().or(default) {
            Some(role) => vec![role.to_owned()],
            None => BOTH.map(str::to_owned).to_vec(),
        }
    }
}

impl InstallConfig {
    /// The documents, to be checked together; one for each role that gets it.
    pub fn documents(&self, default: Option<&str>) -> Vec<HostDocument> {
        let documents = |host: &ConfiguredHost| -> Vec<HostDocument> {
            let document = Document::from_node(&host.config);
            let for_role = |role: String| HostDocument {
                role,
                name: host.name.clone(),
                naming: Naming::Host,
                document: document.clone(),
            };
            host.roles(default).into_iter().map(for_role).collect()
        };
        self.hosts.iter().flat_map(documents).collect()
    }

    /// The hosts whose documents go to both roles, as a note; `None` when every role is known.
    pub fn note(&self, default: Option<&str>) -> Option<String> {
        let unknown: Vec<&str> = self
            .hosts
            .iter()
            .filter(|host| host.role.is_none() && default.is_none())
            .map(|host| host.name.as_str())
            .collect();
        (!unknown.is_empty()).then(|| {
            format!(
                "the role of {} is not known, so its document goes to the MachineConfigs of both \
                 master and worker; add `role` to the entry, list the host in the platform's \
                 `hosts`, or give --role",
                unknown.join(", ")
            )
        })
    }
}

fn configured_host(root: &Node, host: &Node) -> Result<ConfiguredHost, InstallConfigError> {
    let fail = |problem: String| InstallConfigError::Host { at: host.at, problem };
    let name = host.get("name").and_then(Node::text);
    let name = name.ok_or_else(|| fail("this host has no `name`".to_owned()))?;
    let config = host
        .get("networkConfig")
        .ok_or_else(|| fail(format!("host {name:?} has no `networkConfig`")))?;
    let own = host.get("role").and_then(Node::text);
    let role = own.or_else(|| role_of_machine(root, name, config)).map(pool_of);
    Ok(ConfiguredHost {
        name: name.to_owned(),
        role: role.map(str::to_owned),
        at: host.at,
        config: config.clone(),
    })
}

/// The pool of a role as platforms write it: vSphere has `control-plane` and `compute`.
fn pool_of(role: &str) -> &str {
    match role {
        "control-plane" => "master",
        "compute" => "worker",
        role => role,
    }
}

/// The role of a host among the hosts of any platform: the one of its name, or, where hosts have
/// no names (vSphere), the one with an address of the document.
fn role_of_machine<'a>(root: &'a Node, name: &str, config: &Node) -> Option<&'a str> {
    let platforms = root.get("platform").map(Node::entries).unwrap_or_default();
    let hosts = || {
        let listed = platforms.iter().filter_map(|platform| platform.value.get("hosts"));
        listed.flat_map(Node::items)
    };
    let name_of = |host: &'a Node| {
        ["name", "hostname", "hostName"].iter().find_map(|key| host.get(key)?.text())
    };
    let is_it =
        |host: &&'a Node| name_of(host).is_some_and(|it| short_name(it) == short_name(name));
    if let Some(host) = hosts().find(is_it) {
        return host.get("role")?.text();
    }
    let layout = Layout::read(config);
    let own: Vec<IpAddr> = layout
        .interfaces
        .iter()
        .flat_map(Interface::ips)
        .flat_map(|ip| ip.addresses.iter().map(|address| address.net.addr()))
        .collect();
    let has_address = |host: &&'a Node| {
        let device = host.get("networkDevice").and_then(|device| device.get("ipAddrs"));
        let texts = device.map(Node::items).unwrap_or_default().iter().filter_map(Node::text);
        let mut addresses = texts.filter_map(|text| text.split('/').next()?.parse().ok());
        addresses.any(|address: IpAddr| own.contains(&address))
    };
    let host = hosts().filter(|host| name_of(host).is_none()).find(has_address)?;
    host.get("role")?.text()
}

fn cluster_facts(root: &Node) -> ClusterFacts {
    let networking = root.get("networking");
    let list =
        |key: &str| networking.and_then(|it| it.get(key)).map(Node::items).unwrap_or_default();
    // Networks are texts, or maps with a `cidr`.
    let nets = |key: &str| -> Vec<IpNet> {
        let texts = list(key).iter().filter_map(|it| it.get("cidr").unwrap_or(it).text());
        texts.filter_map(|text| text.parse().ok()).collect()
    };
    let platforms = root.get("platform").map(Node::entries).unwrap_or_default();
    ClusterFacts {
        cluster_mtu: networking
            .and_then(|it| it.get("clusterNetworkMTU"))
            .and_then(Node::integer)
            .and_then(|mtu| mtu.try_into().ok()),
        machine_networks: nets("machineNetwork"),
        cluster_networks: nets("clusterNetwork"),
        service_networks: nets("serviceNetwork"),
        platform: platforms.iter().find_map(|entry| entry.key.parse::<Platform>().ok()),
        ..ClusterFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
networking:
  clusterNetworkMTU: 1400
  machineNetwork:
  - cidr: 192.0.2.0/24
  serviceNetwork: [172.30.0.0/16]
  hostConfig:
  - name: master-0
    networkConfig: &base
      interfaces:
      - {name: eno1, type: ethernet}
  - name: worker-0
    role: worker
    networkConfig:
      <<: *base
      hostname: {running: worker-0}
platform:
  baremetal:
    hosts:
    - {name: master-0, role: master}
";

    #[test]
    fn hosts_get_their_roles_and_merged_documents() {
        let config = parse(TEXT).unwrap();
        let hosts: Vec<_> = config.hosts.iter().map(|it| (&*it.name, it.role.as_deref())).collect();
        assert_eq!(hosts, [("master-0", Some("master")), ("worker-0", Some("worker"))]);
        let second = config.hosts[1].config.to_json();
        assert_eq!(second["interfaces"][0]["name"], "eno1");
        assert_eq!(second["hostname"]["running"], "worker-0");
        let around = config.cluster_facts;
        assert_eq!(around.machine_networks, ["192.0.2.0/24".parse().unwrap()]);
        assert_eq!(around.service_networks, ["172.30.0.0/16".parse().unwrap()]);
        assert_eq!((around.cluster_mtu, around.platform), (Some(1400), Some(Platform::Baremetal)));
    }

    #[test]
    fn a_host_without_name_or_document_is_refused_with_its_line() {
        for (text, output) in [
            ("networking:\n  hostConfig:\n  - {role: worker}\n", "has no `name`"),
            ("networking:\n  hostConfig:\n  - {name: a, role: worker}\n", "has no `networkConfig`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with("line 3: ") && error.contains(output), "{error}");
        }
    }

    #[test]
    fn roles_come_from_the_hosts_of_any_platform() {
        let config = |platform: &str| {
            let text = format!(
                "networking:\n  hostConfig:\n  - name: n0.example.com\n    networkConfig:\n      \
                 interfaces:\n      - {{name: br-ex, type: ovs-interface, ipv4: {{enabled: true, \
                 address: [{{ip: 192.0.2.10, prefix-length: 24}}]}}}}\nplatform:\n  {platform}\n"
            );
            parse(&text).unwrap()
        };
        for (platform, expected) in [
            ("baremetal: {hosts: [{name: n0, role: master}]}", Some("master")),
            (
                "nutanix: {hosts: [{name: n1, role: master}, {name: n0, role: infra}]}",
                Some("infra"),
            ),
            // Hosts of vSphere have a role and addresses, but no name.
            (
                "vsphere: {hosts: [{role: control-plane, networkDevice: {ipAddrs: [192.0.2.10/24]}}]}",
                Some("master"),
            ),
            ("vsphere: {hosts: [{role: compute, networkDevice: {ipAddrs: [192.0.2.9/24]}}]}", None),
            ("none: {}", None),
        ] {
            let config = config(platform);
            assert_eq!(config.hosts[0].role.as_deref(), expected, "{platform}");
        }
    }

    #[test]
    fn a_host_without_a_role_is_added_to_both_with_a_note() {
        let text = "networking: {hostConfig: [{name: n0, networkConfig: {interfaces: []}}]}\n";
        let config = parse(text).unwrap();
        let roles = |default| -> Vec<String> {
            config.documents(default).into_iter().map(|document| document.role).collect()
        };
        assert_eq!(roles(None), ["master", "worker"]);
        assert_eq!(roles(Some("infra")), ["infra"]);
        assert!(config.note(None).unwrap().starts_with("the role of n0 is not known"));
        assert_eq!(config.note(Some("infra")), None);
    }
}
