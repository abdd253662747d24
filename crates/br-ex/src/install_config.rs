//! The documents of hosts in an install-config, `networking.hostConfig`.

use ipnet::IpNet;
use located_yaml::{Keys, Loaded, Node, Position, load};

use crate::document::Document;
use crate::hosts::{HostDocument, Naming};
use crate::surroundings::{Platform, Surroundings};

/// What an install-config says about br-ex.
#[derive(Debug, Clone)]
pub struct InstallConfig {
    pub hosts: Vec<ConfiguredHost>,
    /// Networks and the platform.
    pub surroundings: Surroundings,
}

/// A host with a document in the install-config.
#[derive(Debug, Clone)]
pub struct ConfiguredHost {
    pub name: String,
    pub role: String,
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
        return Ok(InstallConfig { hosts: Vec::new(), surroundings: Surroundings::default() });
    };
    let networking = root.get("networking");
    let listed = networking.and_then(|it| it.get("hostConfig")).map(Node::items);
    let hosts = listed.unwrap_or_default().iter().map(|host| configured_host(&root, host));
    Ok(InstallConfig { hosts: hosts.collect::<Result<_, _>>()?, surroundings: surroundings(&root) })
}

impl InstallConfig {
    /// The documents, to be checked together.
    pub fn documents(&self) -> Vec<HostDocument> {
        let document = |host: &ConfiguredHost| HostDocument {
            role: host.role.clone(),
            name: host.name.clone(),
            naming: Naming::Host,
            document: Document::from_node(&host.config),
        };
        self.hosts.iter().map(document).collect()
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
    let role = own.or_else(|| role_of_machine(root, name)).ok_or_else(|| {
        fail(format!(
            "the role of host {name:?} is not known; write `role: master` or `role: worker` beside \
             its name, or list it in `platform.baremetal.hosts`"
        ))
    })?;
    Ok(ConfiguredHost {
        name: name.to_owned(),
        role: role.to_owned(),
        at: host.at,
        config: config.clone(),
    })
}

/// The role of a host among the machines to install.
fn role_of_machine<'a>(root: &'a Node, name: &str) -> Option<&'a str> {
    let hosts = root.get("platform")?.get("baremetal")?.get("hosts")?.items();
    let host = hosts.iter().find(|host| host.get("name").and_then(Node::text) == Some(name))?;
    host.get("role")?.text()
}

fn surroundings(root: &Node) -> Surroundings {
    let networking = root.get("networking");
    let list =
        |key: &str| networking.and_then(|it| it.get(key)).map(Node::items).unwrap_or_default();
    // Networks are texts, or maps with a `cidr`.
    let nets = |key: &str| -> Vec<IpNet> {
        let texts = list(key).iter().filter_map(|it| it.get("cidr").unwrap_or(it).text());
        texts.filter_map(|text| text.parse().ok()).collect()
    };
    let platforms = root.get("platform").map(Node::entries).unwrap_or_default();
    Surroundings {
        cluster_mtu: networking
            .and_then(|it| it.get("clusterNetworkMTU"))
            .and_then(Node::integer)
            .and_then(|mtu| mtu.try_into().ok()),
        machine_networks: nets("machineNetwork"),
        cluster_networks: nets("clusterNetwork"),
        service_networks: nets("serviceNetwork"),
        platform: platforms.iter().find_map(|entry| entry.key.parse::<Platform>().ok()),
        ..Surroundings::default()
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
        let hosts: Vec<_> = config.hosts.iter().map(|it| (&*it.name, &*it.role)).collect();
        assert_eq!(hosts, [("master-0", "master"), ("worker-0", "worker")]);
        let second = config.hosts[1].config.to_json();
        assert_eq!(second["interfaces"][0]["name"], "eno1");
        assert_eq!(second["hostname"]["running"], "worker-0");
        let around = config.surroundings;
        assert_eq!(around.machine_networks, ["192.0.2.0/24".parse().unwrap()]);
        assert_eq!(around.service_networks, ["172.30.0.0/16".parse().unwrap()]);
        assert_eq!((around.cluster_mtu, around.platform), (Some(1400), Some(Platform::Baremetal)));
    }

    #[test]
    fn a_host_without_role_name_or_document_is_refused_with_its_line() {
        for (text, said) in [
            (
                "networking:\n  hostConfig:\n  - {name: a, networkConfig: {}}\n",
                "the role of host \"a\"",
            ),
            ("networking:\n  hostConfig:\n  - {role: worker}\n", "has no `name`"),
            ("networking:\n  hostConfig:\n  - {name: a, role: worker}\n", "has no `networkConfig`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with("line 3: ") && error.contains(said), "{error}");
        }
    }
}
