//! The JSON response of an update service.

use std::collections::{BTreeMap, BTreeSet};

use oci::ImageRef;
use semver::Version;
use serde::Deserialize;

use super::{Edge, Graph, GraphError, MAX_GRAPH_BYTES, Node, Payload, Risk, UnusablePayload};

/// As much of a payload that cannot be used as messages repeat.
const MAX_PAYLOAD_TEXT: usize = 200;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GraphResponse {
    nodes: Vec<ResponseNode>,
    edges: Vec<(usize, usize)>,
    #[serde(default)]
    conditional_edges: Option<Vec<ConditionalEdges>>,
}

#[derive(Deserialize)]
struct ResponseNode {
    version: String,
    payload: String,
    #[serde(default)]
    metadata: Option<Metadata>,
}

#[derive(Deserialize, Default)]
struct Metadata {
    #[serde(rename = "io.openshift.upgrades.graph.release.channels")]
    channels: Option<String>,
    #[serde(rename = "release.openshift.io/architecture")]
    architecture: Option<String>,
    url: Option<String>,
}

#[derive(Deserialize)]
struct ConditionalEdges {
    edges: Vec<ConditionalEdge>,
    risks: Vec<ResponseRisk>,
}

#[derive(Deserialize)]
struct ConditionalEdge {
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct ResponseRisk {
    name: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    url: String,
}

pub(super) fn read(bytes: &[u8]) -> Result<Graph, GraphError> {
    if bytes.len() > MAX_GRAPH_BYTES {
        return Err(GraphError::Large);
    }
    let response: GraphResponse =
        serde_json::from_slice(bytes).map_err(|source| match bytes.trim_ascii_start().first() {
            Some(b'<') => GraphError::Html,
            _ => GraphError::Json(source),
        })?;
    let nodes: Vec<Node> = response.nodes.into_iter().map(node).collect::<Result<_, _>>()?;
    let mut positions: BTreeMap<&Version, usize> = BTreeMap::new();
    for (position, node) in nodes.iter().enumerate() {
        if positions.insert(&node.version, position).is_some() {
            return Err(GraphError::Twice(node.version.clone()));
        }
    }
    let mut edges = Vec::new();
    for (from, to) in response.edges {
        if from.max(to) >= nodes.len() {
            return Err(GraphError::Edge { from, to, nodes: nodes.len() });
        }
        edges.push((from, to, Edge { listed: true, groups: BTreeSet::new() }));
    }
    let mut groups: Vec<Vec<Risk>> = Vec::new();
    for conditional in response.conditional_edges.into_iter().flatten() {
        // An update from or to a release that is not in the graph cannot be
        // made by anyone: it proves nothing.
        let position = |text: &str| positions.get(&Version::parse(text).ok()?).copied();
        let between = |edge: &ConditionalEdge| Some((position(&edge.from)?, position(&edge.to)?));
        let group = groups.len();
        let known = conditional.edges.iter().filter_map(between);
        edges.extend(
            known.map(|(from, to)| (from, to, Edge { listed: false, groups: [group].into() })),
        );
        let risks = conditional.risks.into_iter();
        groups.push(
            risks
                .map(|risk| Risk { name: risk.name, message: risk.message, url: risk.url })
                .collect(),
        );
    }
    Ok(Graph::assemble(nodes, edges, groups))
}

fn node(listed: ResponseNode) -> Result<Node, GraphError> {
    let ResponseNode { version: text, payload, metadata } = listed;
    let version = match Version::parse(&text) {
        Ok(version) => version,
        Err(source) => return Err(GraphError::Version { text, source }),
    };
    let payload = match payload.parse::<ImageRef>() {
        Ok(image) => Payload::Image(image),
        Err(error) => Payload::Unusable(UnusablePayload {
            version: version.clone(),
            text: payload.chars().take(MAX_PAYLOAD_TEXT).collect(),
            why: error.to_string(),
        }),
    };
    let Metadata { channels, architecture, url } = metadata.unwrap_or_default();
    let channels: BTreeSet<String> = channels
        .iter()
        .flat_map(|list| list.split(','))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    Ok(Node { version, payload, channels, architecture, url })
}
