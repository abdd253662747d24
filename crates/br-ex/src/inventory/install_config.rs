//! Documents in an install-config: `networking.hostConfig[].{name, networkConfig}`.

use std::collections::BTreeMap;

use ipnet::IpNet;
use located_yaml::{Keys, Located, Node, Position, load};
use machine_config::{NameError, Role};

use super::{HostDocument, Inventory, Stem, StemError, role_of};
use crate::surroundings::{Platform, Surroundings};

/// No install-config is larger.
const MAX_SIZE: usize = 4 << 20;

/// What an install-config says about br-ex, and about the cluster it will be in.
#[derive(Debug, Clone)]
pub struct InstallConfig {
    pub inventory: Inventory,
    pub around: Surroundings,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstallConfigProblem {
    #[error("it has {0} bytes, more than any install-config")]
    TooLarge(usize),
    #[error(transparent)]
    Yaml(#[from] located_yaml::Problem),
    #[error(
        "there is no `networking.hostConfig` in it{}",
        if *.has_network_config {
            "; `networkConfig` of `platform.baremetal.hosts` is the network of the installation and \
             has no br-ex: list documents with br-ex under `networking.hostConfig`"
        } else {
            ""
        }
    )]
    NoHostConfig { has_network_config: bool },
    #[error("{what} is due here, but this is {shape}")]
    Shape { what: &'static str, shape: &'static str },
    #[error("an entry of `hostConfig` needs `{0}`")]
    Missing(&'static str),
    #[error(transparent)]
    Name(#[from] StemError),
    #[error(transparent)]
    Role(NameError),
    #[error(
        "which role has {host}? It is not among `platform.baremetal.hosts`{}; write `role:` beside \
         its name", near(.nearest)
    )]
    NoRole { host: String, nearest: Option<String> },
    #[error("{role} {host} is given twice, first on line {}; a host has one document", first.line)]
    Twice { role: Role, host: Stem, first: Position },
}

fn near(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(" (there is {name})")).unwrap_or_default()
}

/// Reads an install-config called `origin`.
pub fn from_install_config(
    origin: &str,
    text: &str,
) -> Result<InstallConfig, Vec<Located<InstallConfigProblem>>> {
    let fail = |at, value| Err(vec![Located { at, value }]);
    if text.len() > MAX_SIZE {
        return fail(Position::START, InstallConfigProblem::TooLarge(text.len()));
    }
    let loaded = load(text, Keys::Exact);
    let mut problems: Vec<_> = loaded
        .problems
        .into_iter()
        .map(|problem| Located { at: problem.at, value: problem.value.into() })
        .collect();
    let Some(root) = loaded.root else { return Err(problems) };
    let hosts = root.get("platform").and_then(|it| it.get("baremetal")?.get("hosts"));
    let hosts = hosts.map(Node::items).unwrap_or_default();
    let Some(configs) = root.get("networking").and_then(|it| it.get("hostConfig")) else {
        let has_network_config = hosts.iter().any(|host| host.get("networkConfig").is_some());
        return fail(root.at, InstallConfigProblem::NoHostConfig { has_network_config });
    };
    let roles = roles(hosts, &mut problems);
    let mut inventory = Inventory::default();
    let mut first = BTreeMap::new();
    if configs.items().is_empty() {
        let value = InstallConfigProblem::Shape { what: "a list of hosts", shape: configs.shape() };
        problems.push(Located { at: configs.at, value });
    }
    for config in configs.items() {
        match host(config, &roles) {
            Ok((role, stem, network)) => {
                let document = HostDocument::from_part(origin, network);
                if inventory.insert(role.clone(), stem.clone(), document).is_some() {
                    let first = first.get(&(role.clone(), stem.clone())).copied();
                    let first = first.unwrap_or(Position::START);
                    let value = InstallConfigProblem::Twice { role, host: stem, first };
                    problems.push(Located { at: config.at, value });
                } else {
                    first.insert((role, stem), config.at);
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(InstallConfig { inventory, around: surroundings(&root) })
    } else {
        Err(problems)
    }
}

type Problems = Vec<Located<InstallConfigProblem>>;

/// The roles of bare-metal hosts, by short name.
fn roles(hosts: &[Node], problems: &mut Problems) -> BTreeMap<Stem, Role> {
    let mut roles = BTreeMap::new();
    for host in hosts {
        let (Some(name), Some(role)) = (host.get("name"), host.get("role")) else { continue };
        let (Some(name), Some(text)) = (name.text(), role.text()) else { continue };
        // A host without a document may be called whatever it likes.
        let Ok(stem) = Stem::of_host(name) else { continue };
        match role_of(Located { at: role.at, value: text }) {
            Ok(role) => {
                roles.insert(stem, role);
            }
            Err(problem) => problems.push(problem),
        }
    }
    roles
}

fn host<'a>(
    config: &'a Node,
    roles: &BTreeMap<Stem, Role>,
) -> Result<(Role, Stem, &'a Node), Located<InstallConfigProblem>> {
    let missing = |key| Located { at: config.at, value: InstallConfigProblem::Missing(key) };
    let name = config.get("name").ok_or_else(|| missing("name"))?;
    let network = config.get("networkConfig").ok_or_else(|| missing("networkConfig"))?;
    let text = name.text().ok_or_else(|| missing("name"))?;
    let stem = Stem::of_host(text)
        .map_err(|problem| Located { at: name.at, value: problem.into() })?;
    let role = match config.get("role") {
        Some(role) => Some(role_of(Located { at: role.at, value: role.text().unwrap_or_default() })?),
        None => roles.get(&stem).cloned().or_else(|| stem.role()),
    };
    match role {
        Some(role) => Ok((role, stem, network)),
        None => {
            let score = |known: &&Stem| strsim::jaro_winkler(known.as_str(), stem.as_str());
            let nearest = roles
                .keys()
                .filter(|known| score(known) > 0.8)
                .max_by(|a, b| score(a).total_cmp(&score(b)))
                .map(ToString::to_string);
            let value = InstallConfigProblem::NoRole { host: text.to_owned(), nearest };
            Err(Located { at: name.at, value })
        }
    }
}

/// What it says about the cluster. What cannot be read is the installer's to refuse.
fn surroundings(root: &Node) -> Surroundings {
    let networking = root.get("networking");
    let cidrs = |key: &str| -> Vec<IpNet> {
        let list = networking.and_then(|it| it.get(key)).map(Node::items).unwrap_or_default();
        list.iter()
            .filter_map(|item| item.get("cidr").unwrap_or(item).text()?.parse().ok())
            .collect()
    };
    let mtu = networking.and_then(|it| it.get("clusterNetworkMTU")?.integer());
    let platform = root.get("platform").and_then(|it| it.entries().first());
    Surroundings {
        cluster_mtu: mtu.and_then(|mtu| u32::try_from(mtu).ok()),
        machine_networks: cidrs("machineNetwork"),
        cluster_networks: cidrs("clusterNetwork"),
        service_networks: cidrs("serviceNetwork"),
        platform: platform.and_then(|entry| entry.key.parse::<Platform>().ok()),
        ..Surroundings::default()
    }
}
