//! What is known about nodes, gathered from files of every kind.

use std::collections::BTreeMap;

use br_ex::inventory::short_name;
use first_boot::diagnosis::{Diagnosis, Weight};
use first_boot::report::{Chosen, Command, Entry};
use first_boot::summary::ANNOTATION;
use first_boot::{DocumentHash, Report, Summary};
use nmstate::NetworkState;

use crate::cluster::Objects;
use crate::cluster::objects::ClusterNode;

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
    /// Whether it is known that the node has a flag, or none.
    pub(crate) knows_flag: bool,
    pub(crate) flag: Option<DocumentHash>,
    /// Documents on the node itself: file name to bytes.
    pub(crate) documents: BTreeMap<String, Vec<u8>>,
    pub(crate) journals: BTreeMap<String, String>,
    /// What objects of a cluster state besides.
    pub(crate) further: Vec<Diagnosis>,
}

impl Evidence {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.documents.is_empty()
    }

    pub(crate) fn node(&mut self, name: &str) -> &mut NodeEvidence {
        self.nodes.entry(name.to_owned()).or_default()
    }

    /// Adds what a cluster has: reports of nodes, states, documents, enactments.
    pub(crate) fn add_cluster(&mut self, objects: &Objects) {
        for node in &objects.nodes {
            let selected = objects.document(node);
            let enactments = objects.policies_of(node);
            let seen = self.node(&node.name);
            seen.state = objects.states.get(&node.name).map(|it| it.state.clone());
            let has_document = selected.document.is_some();
            if let Some(document) = selected.document {
                seen.documents.insert(document.file, document.bytes);
            }
            seen.further.extend(selected.problem.map(|problem| Diagnosis {
                weight: Weight::Broken,
                problem: "no document can be selected for this node".into(),
                because: problem,
                remedy: "correct the MachineConfigs of its pool".into(),
            }));
            let failed = enactments.iter().filter_map(|(_, it)| *it);
            for it in failed.filter(|it| ["Failing", "Aborted"].contains(&it.condition.as_str())) {
                seen.further.push(Diagnosis {
                    weight: Weight::Broken,
                    problem: format!("policy {} is not in force on this node", it.policy),
                    because: format!("enactment {}.{}: {}", it.node, it.policy, it.message),
                    remedy: "correct the policy; the node has its previous network".into(),
                });
            }
            if has_document && node.first_boot.is_none() {
                seen.further.push(Diagnosis {
                    weight: Weight::Warning,
                    problem: "the node has not reported its first boot".into(),
                    because: format!("it has no annotation {ANNOTATION}"),
                    remedy: "enable brex-report (`oc-brex render --service`), or run `brex-firstboot gather` on the node and give its output to `oc-brex doctor`".into(),
                });
            }
            self.add_node(node);
        }
    }

    /// Adds what a node reported to its cluster.
    pub(crate) fn add_node(&mut self, node: &ClusterNode) {
        let seen = self.node(&node.name);
        match &node.first_boot {
            Some(Ok(summary)) => {
                seen.flag = summary.flag.clone();
                seen.knows_flag = true;
                self.add_report(report(&node.name, summary));
            }
            Some(Err(problem)) => seen.further.push(Diagnosis {
                weight: Weight::Warning,
                problem: "the report of the first boot cannot be read".into(),
                because: format!("annotation {ANNOTATION}: {problem}"),
                remedy: "use an oc-brex of the version of brex-report on the node".into(),
            }),
            None => {}
        }
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

/// What a node reported to the cluster, as far as it did.
fn report(node: &str, summary: &Summary) -> Report {
    let boot = summary.boot_id.clone().unwrap_or_default();
    let mut report = Report::new("brex-report".to_owned(), boot, node.to_owned());
    let mut entry = Entry::new(Command::Confirm, summary.at.clone().unwrap_or_default());
    entry.result = summary.result;
    entry.message = summary.message.clone();
    entry.document = summary.document.as_ref().map(|document| Chosen {
        file: document.file.clone(),
        sha256: document.sha256.clone(),
        because: "the node selected it".into(),
    });
    report.add(entry);
    report
}

impl NodeEvidence {
    /// The document that is for this node: its own file first, then the cluster's.
    pub(crate) fn document<'a>(
        &'a self,
        node: &str,
        rendered: &'a BTreeMap<String, Vec<u8>>,
    ) -> Option<(&'a String, &'a Vec<u8>)> {
        let own = if self.documents.is_empty() { rendered } else { &self.documents };
        let names = [short_name(node), "cluster"];
        names.iter().find_map(|stem| {
            own.get_key_value(&format!("{stem}.yml"))
                .or_else(|| own.get_key_value(&format!("{stem}.yaml")))
        })
    }

    /// Whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.report.is_none()
            && self.state.is_none()
            && !self.knows_flag
            && self.documents.is_empty()
            && self.journals.is_empty()
            && self.further.is_empty()
    }

    /// What there was to look at.
    pub(crate) fn looked_at(&self) -> String {
        let parts = [
            self.report.as_ref().map(|_| "a report of its first boot"),
            self.state.as_ref().map(|_| "its network state"),
            self.knows_flag.then_some("its files or its report to the cluster"),
            (!self.journals.is_empty()).then_some("its journals"),
        ];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        format!("it was judged by {}", parts.join(", "))
    }
}
