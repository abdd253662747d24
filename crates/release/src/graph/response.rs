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
struct Answer {
    nodes: Vec<AnsweredNode>,
    edges: Vec<(usize, usize)>,
    #[serde(default)]
    conditional_edges: Option<Vec<ConditionalEdges>>,
}

#[derive(Deserialize)]
struct AnsweredNode {
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
    risks: Vec<AnsweredRisk>,
}

#[derive(Deserialize)]
struct ConditionalEdge {
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct AnsweredRisk {
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
    let answer: Answer =
        serde_json::from_slice(bytes).map_err(|source| match bytes.trim_ascii_start().first() {
            Some(b'<') => GraphError::Html,
            _ => GraphError::Json(source),
        })?;
    let nodes: Vec<Node> = answer.nodes.into_iter().map(node).collect::<Result<_, _>>()?;
    let mut places: BTreeMap<&Version, usize> = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        if places.insert(&node.version, place).is_some() {
            return Err(GraphError::Twice(node.version.clone()));
        }
    }
    let mut edges = Vec::new();
    for (from, to) in answer.edges {
        if from.max(to) >= nodes.len() {
            return Err(GraphError::Edge { from, to, nodes: nodes.len() });
        }
        edges.push((from, to, Edge { listed: true, groups: BTreeSet::new() }));
    }
    let mut groups: Vec<Vec<Risk>> = Vec::new();
    for conditional in answer.conditional_edges.into_iter().flatten() {
        // An update from or to a release that is not in the graph cannot be
        // made by anyone: it proves nothing.
        let place = |text: &str| places.get(&Version::parse(text).ok()?).copied();
        let between = |edge: &ConditionalEdge| Some((place(&edge.from)?, place(&edge.to)?));
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

fn node(answered: AnsweredNode) -> Result<Node, GraphError> {
    let AnsweredNode { version: text, payload, metadata } = answered;
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
