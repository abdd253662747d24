//! Hosts as installers list them, with the network each is installed with: AgentConfig,
//! NMStateConfig, ClusterInstance, SiteConfig, BareMetalHost, and install-config.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use located_yaml::{Keys, Loaded, Node, Position, Problem, load_all};

/// A host and the network it is installed with.
#[derive(Debug, Clone)]
pub struct ListedHost {
    pub name: String,
    /// `master`, `worker`, or another role in the list.
    pub role: Option<String>,
    pub at: Position,
    /// An NMState document: a map, or a block of text.
    pub network: Option<Node>,
    /// MAC addresses of NICs by the names that the network gives them.
    pub macs: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostListError {
    #[error("line {}, column {}: {problem}", at.line, at.column)]
    Yaml { at: Position, problem: Problem },
    #[error("line {}: the host has no name; expected `{key}`", at.line)]
    NoName { at: Position, key: &'static str },
    #[error("line {}: Secret {name:?}: expected NMState text in `nmstate`, found {found}", at.line)]
    Secret { at: Position, name: String, found: &'static str },
}

/// The kinds of objects that list hosts.
pub const KINDS: [&str; 7] = [
    "AgentConfig",
    "NMStateConfig",
    "ClusterInstance",
    "SiteConfig",
    "BareMetalHost",
    "ImageBasedConfig",
    "ImageBasedInstallationConfig",
];

/// Whether an object without a kind lists hosts and their networks.
pub fn is_host_list(root: &Node) -> bool {
    let has_network = |host: &Node| host.get("networkConfig").is_some();
    items(Some(root), "hosts").iter().any(has_network)
}

/// Reads the hosts of all objects in a text. Objects of other kinds are left out; a text without
/// any of these kinds has no hosts.
pub fn parse(text: &str) -> Result<Vec<ListedHost>, HostListError> {
    let mut objects = Vec::new();
    for Loaded { root, problems, .. } in load_all(text, Keys::Exact) {
        if let Some(problem) = problems.into_iter().next() {
            return Err(HostListError::Yaml { at: problem.at, problem: problem.value });
        }
        objects.extend(root);
    }
    let mut hosts = Vec::new();
    for object in &objects {
        let spec = object.get("spec");
        match object.get("kind").and_then(Node::text) {
            Some("AgentConfig") => {
                for host in items(Some(object), "hosts") {
                    hosts.push(listed(host, "hostname", host.get("networkConfig"))?);
                }
            }
            Some("NMStateConfig") => hosts.push(of_nmstate_config(object)?),
            Some("ClusterInstance") => hosts.extend(nodes(spec)?),
            Some("SiteConfig") => {
                for cluster in items(spec, "clusters") {
                    hosts.extend(nodes(Some(cluster))?);
                }
            }
            Some("BareMetalHost") => hosts.push(of_bare_metal_host(object, &objects)?),
            Some("ImageBasedConfig" | "ImageBasedInstallationConfig") => {
                let name = object.get("hostname").and_then(Node::text).unwrap_or("host");
                hosts.push(ListedHost {
                    name: name.to_owned(),
                    role: None,
                    at: object.at,
                    network: object.get("networkConfig").cloned(),
                    macs: BTreeMap::new(),
                });
            }
            Some(_) => {}
            None => {
                // The list of `oc adm node-image create` has no kind, nor has a part of a list.
                for host in items(Some(object), "hosts") {
                    let key = if host.get("hostname").is_some() { "hostname" } else { "name" };
                    hosts.push(listed(host, key, host.get("networkConfig"))?);
                }
                let platform = object.get("platform").and_then(|it| it.get("baremetal"));
                for host in items(platform, "hosts") {
                    hosts.push(listed(host, "name", host.get("networkConfig"))?);
                }
            }
        }
    }
    Ok(hosts)
}

fn items<'a>(node: Option<&'a Node>, key: &str) -> &'a [Node] {
    node.and_then(|node| node.get(key)).map(Node::items).unwrap_or_default()
}

fn listed(
    host: &Node,
    key: &'static str,
    network: Option<&Node>,
) -> Result<ListedHost, HostListError> {
    let name = host.get(key).and_then(Node::text);
    let name = name.ok_or(HostListError::NoName { at: host.at, key })?;
    Ok(ListedHost {
        name: name.to_owned(),
        role: host.get("role").and_then(Node::text).map(str::to_owned),
        at: host.at,
        network: network.filter(|network| !network.is_null()).cloned(),
        macs: macs(items(Some(host), "interfaces")),
    })
}

fn macs(interfaces: &[Node]) -> BTreeMap<String, String> {
    let mac = |iface: &Node| {
        let name = iface.get("name")?.text()?;
        Some((name.to_owned(), iface.get("macAddress")?.text()?.to_owned()))
    };
    interfaces.iter().filter_map(mac).collect()
}

fn metadata_name(object: &Node) -> Option<&str> {
    object.get("metadata")?.get("name")?.text()
}

fn of_nmstate_config(object: &Node) -> Result<ListedHost, HostListError> {
    let no_name = HostListError::NoName { at: object.at, key: "metadata.name" };
    let spec = object.get("spec");
    Ok(ListedHost {
        name: metadata_name(object).ok_or(no_name)?.to_owned(),
        role: None,
        at: object.at,
        network: spec.and_then(|spec| spec.get("config")).cloned(),
        macs: macs(items(spec, "interfaces")),
    })
}

/// The nodes of a ClusterInstance, or of a cluster in a SiteConfig.
fn nodes(cluster: Option<&Node>) -> Result<Vec<ListedHost>, HostListError> {
    let node = |node: &Node| {
        let network = node.get("nodeNetwork");
        let config = network.and_then(|network| network.get("config"));
        let host = listed(node, "hostName", config)?;
        Ok(ListedHost { macs: macs(items(network, "interfaces")), ..host })
    };
    items(cluster, "nodes").iter().map(node).collect()
}

fn of_bare_metal_host(object: &Node, all: &[Node]) -> Result<ListedHost, HostListError> {
    let no_name = HostListError::NoName { at: object.at, key: "metadata.name" };
    let name = metadata_name(object).ok_or(no_name)?;
    let annotation = |key: &str| {
        let annotations = object.get("metadata")?.get("annotations")?;
        annotations.get(&format!("bmac.agent-install.openshift.io/{key}"))?.text()
    };
    let secret = object.get("spec").and_then(|spec| spec.get("preprovisioningNetworkDataName"));
    let network = match secret.and_then(Node::text) {
        Some(secret) => of_secret(secret, all)?,
        None => None,
    };
    Ok(ListedHost {
        name: annotation("hostname").unwrap_or(name).to_owned(),
        role: annotation("role").map(str::to_owned),
        at: object.at,
        network,
        macs: BTreeMap::new(),
    })
}

/// The network in a Secret of the same text; `None` when the Secret is not there.
fn of_secret(name: &str, all: &[Node]) -> Result<Option<Node>, HostListError> {
    let is_it = |object: &&Node| {
        object.get("kind").and_then(Node::text) == Some("Secret")
            && metadata_name(object) == Some(name)
    };
    let Some(secret) = all.iter().find(is_it) else { return Ok(None) };
    let fail = |found| HostListError::Secret { at: secret.at, name: name.to_owned(), found };
    if let Some(text) = secret.get("stringData").and_then(|data| data.get("nmstate")) {
        return Ok(Some(text.clone()));
    }
    let encoded = secret.get("data").and_then(|data| data.get("nmstate"));
    let encoded = encoded.ok_or_else(|| fail("no such key"))?;
    let text = encoded.text().ok_or_else(|| fail("no text"))?;
    let compact: String = text.split_whitespace().collect();
    let bytes = STANDARD.decode(compact).map_err(|_| fail("text that is not base64"))?;
    let decoded = String::from_utf8(bytes).map_err(|_| fail("text that is not UTF-8"))?;
    let root = located_yaml::load(&decoded, Keys::Exact).root;
    root.map(Some).ok_or_else(|| fail("text that is not YAML"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let line = |host: &ListedHost| {
            let nics = host.network.as_ref().map(|network| {
                let list = network.get("interfaces").map(Node::items).unwrap_or_default();
                let names = list.iter().filter_map(|iface| iface.get("name")?.text());
                names.collect::<Vec<_>>().join(",")
            });
            let macs: Vec<&str> = host.macs.values().map(String::as_str).collect();
            format!("{} {:?} {:?} {}", host.name, host.role, nics, macs.join(","))
        };
        parse(text).unwrap().iter().map(line).collect()
    }

    #[test]
    fn every_kind_that_lists_hosts_is_read() {
        let network = "{interfaces: [{name: eth0, type: ethernet}]}";
        let nics = "[{name: eth0, macAddress: 52:54:00:00:00:01}]";
        for (text, expected) in [
            (
                format!(
                    "kind: AgentConfig\nhosts:\n- {{hostname: m0, role: master, interfaces: {nics}, \
                     networkConfig: {network}}}\n- {{hostname: w0}}\n"
                ),
                &["m0 Some(\"master\") Some(\"eth0\") 52:54:00:00:00:01", "w0 None None "][..],
            ),
            (
                format!(
                    "kind: NMStateConfig\nmetadata: {{name: m0}}\nspec: {{config: {network}, \
                     interfaces: {nics}}}\n---\nkind: InfraEnv\n---\nkind: NMStateConfig\n\
                     metadata: {{name: m1}}\nspec: {{}}\n"
                ),
                &["m0 None Some(\"eth0\") 52:54:00:00:00:01", "m1 None None "],
            ),
            (
                format!(
                    "kind: ClusterInstance\nspec:\n  nodes:\n  - hostName: m0.example.com\n    role: \
                     master\n    nodeNetwork: {{config: {network}, interfaces: {nics}}}\n"
                ),
                &["m0.example.com Some(\"master\") Some(\"eth0\") 52:54:00:00:00:01"],
            ),
            (
                format!(
                    "kind: SiteConfig\nspec:\n  clusters:\n  - nodes:\n    - {{hostName: s0, \
                     nodeNetwork: {{config: {network}}}}}\n"
                ),
                &["s0 None Some(\"eth0\") "],
            ),
            (
                format!(
                    "kind: BareMetalHost\nmetadata: {{name: w0, annotations: \
                     {{bmac.agent-install.openshift.io/role: worker}}}}\nspec: \
                     {{preprovisioningNetworkDataName: net}}\n---\nkind: Secret\nmetadata: {{name: \
                     net}}\nstringData: {{nmstate: {network}}}\n"
                ),
                &["w0 Some(\"worker\") Some(\"eth0\") "],
            ),
            (
                "kind: BareMetalHost\nmetadata: {name: w0}\nspec: {preprovisioningNetworkDataName: \
                 net}\n---\nkind: Secret\nmetadata: {name: net}\ndata: {nmstate: \
                 aW50ZXJmYWNlczogW3tuYW1lOiBldGgwfV0K}\n"
                    .to_owned(),
                &["w0 None Some(\"eth0\") "],
            ),
            (
                format!("platform: {{baremetal: {{hosts: [{{name: m0, networkConfig: {network}}}]}}}}\n"),
                &["m0 None Some(\"eth0\") "],
            ),
        ] {
            assert_eq!(names(&text), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        for (text, expected) in [
            ("kind: AgentConfig\nhosts:\n- {role: master}\n", "line 3: the host has no name"),
            ("kind: AgentConfig\nhosts: [\n", "line 2"),
            (
                "kind: BareMetalHost\nmetadata: {name: a}\nspec: {preprovisioningNetworkDataName: n}\n\
                 ---\nkind: Secret\nmetadata: {name: n}\ndata: {nmstate: '!'}\n",
                "line 5: Secret \"n\": expected NMState text in `nmstate`, found text that is not",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
