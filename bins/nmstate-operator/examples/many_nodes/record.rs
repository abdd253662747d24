//! What the API server recorded of writes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    request_received_timestamp: Timestamp,
    #[serde(default)]
    object_ref: Object,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    resource: String,
    subresource: String,
    name: String,
}

/// All writes, whether they were accepted or not.
pub(crate) struct Record(Vec<Line>);

impl Record {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let lines = text.lines().map(serde_json::from_str);
        Ok(Self(lines.collect::<Result<_, _>>().context("reading the record of a server")?))
    }

    fn between(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = &Line> {
        let is_between = move |line: &&Line| (from..to).contains(&line.request_received_timestamp);
        self.0.iter().filter(is_between)
    }

    /// Writes of each node: its reports about policies and about its network.
    pub(crate) fn of_nodes(&self, from: Timestamp, to: Timestamp) -> BTreeMap<&str, usize> {
        let mut writes = BTreeMap::new();
        for line in self.between(from, to) {
            let object = &line.object_ref;
            let node = match object.resource.as_str() {
                "nodenetworkconfigurationenactments" => object.name.split('.').next(),
                "nodenetworkstates" => Some(object.name.as_str()),
                _ => None,
            };
            if let Some(node) = node {
                *writes.entry(node).or_default() += 1;
            }
        }
        writes
    }

    /// How often the status of policies was written, and the shortest time between two in seconds.
    pub(crate) fn of_policies(&self, from: Timestamp, to: Timestamp) -> (usize, f64) {
        let is_status = |line: &&Line| {
            line.object_ref.resource == "nodenetworkconfigurationpolicies"
                && line.object_ref.subresource == "status"
        };
        let lines = self.between(from, to).filter(is_status);
        let mut times: Vec<Timestamp> = lines.map(|line| line.request_received_timestamp).collect();
        times.sort();
        let gaps = times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs_f64());
        (times.len(), gaps.fold(f64::INFINITY, f64::min))
    }

    pub(crate) fn events(&self, from: Timestamp, to: Timestamp) -> usize {
        self.between(from, to).filter(|line| line.object_ref.resource == "events").count()
    }

    /// All writes but those of the server to itself.
    pub(crate) fn all(&self, from: Timestamp, to: Timestamp) -> usize {
        let is_ours = |line: &&Line| {
            matches!(
                line.object_ref.resource.as_str(),
                "nodenetworkconfigurationenactments"
                    | "nodenetworkconfigurationpolicies"
                    | "nodenetworkstates"
                    | "events"
            )
        };
        self.between(from, to).filter(is_ours).count()
    }
}
