//! An update service: Cincinnati's graphs, one per channel and architecture,
//! and the data that graph images are made of.
//!
//! ```
//! use lab::update_service::{Graph, UpdateService};
//!
//! let service = UpdateService::start()?;
//! let graph = Graph::default()
//!     .node("4.16.1", "quay.io/openshift-release-dev/ocp-release@sha256:…")
//!     .node("4.16.2", "quay.io/openshift-release-dev/ocp-release@sha256:…")
//!     .edge("4.16.1", "4.16.2");
//! service.publish("stable-4.16", "amd64", &graph);
//! let address = service.graph_url(); // http://127.0.0.1:port/api/upgrades_info/v1/graph
//! # Ok::<(), anyhow::Error>(())
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use http::Uri;
use serde_json::{Value, json};

use crate::document_server::{Document, DocumentServer, DocumentSource, Settings};

/// The path of OpenShift's service.
const GRAPH: &str = "/api/upgrades_info/v1/graph";
/// The path of OKD's service.
const OKD_GRAPH: &str = "/graph";
/// Where the data is that graph images are made of.
const GRAPH_DATA: &str = "/api/upgrades_info/graph-data";

/// A graph as it is published: versions and the ways between them.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    nodes: Vec<(String, String, Vec<String>)>,
    edges: Vec<(String, String)>,
    conditional: Vec<Value>,
}

impl Graph {
    /// Adds a version and its payload.
    pub fn node(self, version: &str, payload: &str) -> Self {
        self.node_in(version, payload, &[])
    }

    /// Adds a version that declares its channels.
    pub fn node_in(mut self, version: &str, payload: &str, channels: &[&str]) -> Self {
        let channels = channels.iter().map(|channel| (*channel).to_owned()).collect();
        self.nodes.push((version.into(), payload.into(), channels));
        self
    }

    /// Adds an update from one version to another.
    pub fn edge(mut self, from: &str, to: &str) -> Self {
        self.edges.push((from.into(), to.into()));
        self
    }

    /// Adds an update that is recommended only where a risk does not apply.
    pub fn conditional(mut self, from: &str, to: &str, risk: (&str, &str, &str)) -> Self {
        let (name, message, url) = risk;
        self.conditional.push(json!({
            "edges": [{"from": from, "to": to}],
            "risks": [{
                "name": name,
                "message": message,
                "url": url,
                "matchingRules": [{"type": "Always"}],
            }],
        }));
        self
    }

    /// The response of an update service.
    ///
    /// # Panics
    /// When an edge names a version that is not a node.
    pub fn to_json(&self) -> Value {
        let nodes = self.nodes.iter().map(|(version, payload, channels)| {
            let mut metadata = json!({"url": format!("https://example.com/{version}")});
            if !channels.is_empty() {
                metadata["io.openshift.upgrades.graph.release.channels"] =
                    json!(channels.join(","));
            }
            json!({"version": version, "payload": payload, "metadata": metadata})
        });
        let place = |version: &String| {
            let place = self.nodes.iter().position(|(node, ..)| node == version);
            place.unwrap_or_else(|| panic!("{version} is not a node of this graph"))
        };
        let edges = self.edges.iter().map(|(from, to)| json!([place(from), place(to)]));
        json!({
            "version": 1,
            "nodes": nodes.collect::<Vec<_>>(),
            "edges": edges.collect::<Vec<_>>(),
            "conditionalEdges": self.conditional,
        })
    }
}

/// A running update service. It ends when dropped.
#[derive(Debug)]
pub struct UpdateService {
    graphs: Arc<Graphs>,
    /// What it runs on: faults and requests are there.
    pub server: DocumentServer,
}

#[derive(Debug, Default)]
struct Graphs {
    channels: Mutex<BTreeMap<(String, String), Value>>,
    data: Mutex<Option<Bytes>>,
}

impl UpdateService {
    /// Starts a service without channels.
    pub fn start() -> Result<Self> {
        Self::start_with(Settings::default())
    }

    /// The same, behind TLS or on another port.
    pub fn start_with(settings: Settings) -> Result<Self> {
        let graphs = Arc::<Graphs>::default();
        let server =
            DocumentServer::start(Arc::clone(&graphs) as Arc<dyn DocumentSource>, settings)?;
        Ok(Self { graphs, server })
    }

    /// What `UPDATE_URL_OVERRIDE` is set to.
    pub fn graph_url(&self) -> String {
        format!("{}{GRAPH}", self.server.url())
    }

    /// Publishes the graph of a channel in place of an earlier one.
    pub fn publish(&self, channel: &str, architecture: &str, graph: &Graph) {
        self.publish_json(channel, architecture, graph.to_json());
    }

    /// Publishes a response that was recorded or constructed.
    pub fn publish_json(&self, channel: &str, architecture: &str, graph: Value) {
        let key = (channel.to_owned(), architecture.to_owned());
        lock(&self.graphs.channels).insert(key, graph);
    }

    /// Offers the gzipped tar that graph images are made of.
    pub fn offer_graph_data(&self, data: impl Into<Bytes>) {
        *lock(&self.graphs.data) = Some(data.into());
    }
}

impl DocumentSource for Graphs {
    fn find(&self, uri: &Uri) -> Option<Document> {
        match uri.path() {
            GRAPH | OKD_GRAPH => {
                let query = uri.query().unwrap_or_default();
                let parameter = |name: &str| {
                    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
                    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
                };
                let architecture = parameter("arch").unwrap_or_else(|| "amd64".to_owned());
                let key = (parameter("channel")?, architecture);
                // An unknown channel is an empty graph, as with the real service.
                let graph = lock(&self.channels).get(&key).cloned();
                let graph = graph.unwrap_or_else(|| Graph::default().to_json());
                Some(Document { kind: "application/json", bytes: graph.to_string().into() })
            }
            GRAPH_DATA => {
                let bytes = lock(&self.data).clone()?;
                Some(Document { kind: "application/gzip", bytes })
            }
            _ => None,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_name_nodes_by_their_place() {
        let graph = Graph::default().node("4.1.0", "a").node("4.1.1", "b").edge("4.1.1", "4.1.0");
        let graph = graph.to_json();
        assert_eq!(graph["nodes"][1]["version"], "4.1.1");
        assert_eq!(graph["edges"], json!([[1, 0]]));
    }

    #[test]
    fn a_channel_is_found_by_name_and_architecture_and_others_are_empty() {
        let graphs = Graphs::default();
        let graph = Graph::default().node("4.1.0", "a").to_json();
        lock(&graphs.channels).insert(("stable-4.1".into(), "arm64".into()), graph);
        let nodes = |query: &str| {
            let uri: Uri = format!("{GRAPH}?{query}").parse().unwrap();
            let found = graphs.find(&uri).unwrap();
            let graph: Value = serde_json::from_slice(&found.bytes).unwrap();
            graph["nodes"].as_array().unwrap().len()
        };
        assert_eq!(nodes("channel=stable-4.1&arch=arm64&id=x"), 1);
        assert_eq!(nodes("channel=stable-4.1"), 0);
        assert_eq!(nodes("channel=stable-4.2&arch=arm64"), 0);
    }
}
