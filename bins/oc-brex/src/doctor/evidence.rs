//! What is known about nodes, gathered from files of every kind.

use std::collections::BTreeMap;

use first_boot::Report;
use nmstate::NetworkState;

/// All that was found.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// By name of the node.
    pub(crate) nodes: BTreeMap<String, NodeEvidence>,
    /// Documents of MachineConfigs: file name to bytes.
    pub(crate) documents: BTreeMap<String, Vec<u8>>,
}

/// What was found about one node.
#[derive(Debug, Default)]
pub(crate) struct NodeEvidence {
    /// The newest report.
    pub(crate) report: Option<Report>,
    pub(crate) state: Option<NetworkState>,
    /// Whether files of the node were collected, so that an absent one was absent there.
    pub(crate) has_files: bool,
    pub(crate) flag: Option<Vec<u8>>,
    /// Documents on the node itself: file name to bytes.
    pub(crate) documents: BTreeMap<String, Vec<u8>>,
    pub(crate) journals: BTreeMap<String, String>,
}

impl Evidence {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.documents.is_empty()
    }

    pub(crate) fn node(&mut self, name: &str) -> &mut NodeEvidence {
        self.nodes.entry(name.to_owned()).or_default()
    }

    /// Keeps the newer of two reports.
    pub(crate) fn add_report(&mut self, report: Report) {
        let node = self.node(&report.hostname);
        let at = |report: &Report| report.last().map(|entry| entry.at.clone()).unwrap_or_default();
        if node.report.as_ref().is_none_or(|held| at(held) <= at(&report)) {
            node.report = Some(report);
        }
    }
}

impl NodeEvidence {
    /// The document that is for this node: its own file first, then the cluster's.
    pub(crate) fn document<'a>(
        &'a self,
        node: &str,
        rendered: &'a BTreeMap<String, Vec<u8>>,
    ) -> Option<(&'a String, &'a Vec<u8>)> {
        let own = if self.documents.is_empty() { rendered } else { &self.documents };
        let names = [short(node), "cluster"];
        names.iter().find_map(|stem| {
            own.get_key_value(&format!("{stem}.yml"))
                .or_else(|| own.get_key_value(&format!("{stem}.yaml")))
        })
    }

    /// What there was to look at.
    pub(crate) fn looked_at(&self) -> String {
        let parts = [
            self.report.as_ref().map(|_| "a report of its first boot"),
            self.state.as_ref().map(|_| "its network state"),
            self.has_files.then_some("its files"),
            (!self.journals.is_empty()).then_some("its journals"),
        ];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        format!("it was judged by {}", parts.join(", "))
    }
}

/// A host name up to its first dot.
pub(crate) fn short(node: &str) -> &str {
    node.split('.').next().unwrap_or(node)
}
