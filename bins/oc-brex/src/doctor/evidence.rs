//! What is known about nodes, gathered from files of every kind.

use std::collections::BTreeMap;

use br_ex_authoring::inventory::short_name;
use first_boot::diagnosis::{Diagnosis, DiagnosisSeverity};
use first_boot::report::{Chosen, Command, Entry};
use first_boot::summary::ANNOTATION;
use first_boot::{Candidate, DocumentHash, Machine, Report, ShortName, Summary, choose};
use machine_config::BR_EX_FOLDER;
use nmstate::NetworkState;

use crate::cluster::objects::{ClusterNode, macs};
use crate::cluster::{Kind, Objects};

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
    /// Documents on the node itself, or in the MachineConfigs of its pool: file name to bytes.
    pub(crate) documents: BTreeMap<String, Vec<u8>>,
    /// Whether the pool of the node is known, so that documents of other pools are not for it.
    pub(crate) knows_pool: bool,
    pub(crate) journals: BTreeMap<String, String>,
    /// What objects of a cluster state besides.
    pub(crate) further: Vec<Diagnosis>,
}

impl Evidence {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.documents.is_empty()
    }

    /// What is known of a node. A node that calls itself by its short name is the one that the cluster
    /// calls by its full name.
    pub(crate) fn node(&mut self, name: &str) -> &mut NodeEvidence {
        let is_same = |known: &&String| {
            short_name(known) == short_name(name) && (!known.contains('.') || !name.contains('.'))
        };
        let known = match self.nodes.contains_key(name) {
            true => None,
            false => self.nodes.keys().find(is_same).cloned(),
        };
        let key = match known {
            Some(full) if full.len() > name.len() => full,
            Some(short) => {
                if let Some(seen) = self.nodes.remove(&short) {
                    self.nodes.insert(name.to_owned(), seen);
                }
                name.to_owned()
            }
            None => name.to_owned(),
        };
        self.nodes.entry(key).or_default()
    }

    /// Adds what a cluster has: reports of nodes, states, documents, enactments.
    pub(crate) fn add_cluster(&mut self, objects: &Objects) {
        // Of hosts that never joined, only the documents are known.
        for file in objects.machine_configs.iter().flat_map(|config| &config.files) {
            if file.path.is_within(BR_EX_FOLDER) {
                let name = file.path.file_name().to_owned();
                self.documents.insert(name, file.contents.bytes().to_vec());
            }
        }
        let is_listed = |name: &String| objects.nodes.iter().any(|node| node.name == *name);
        for (name, state) in objects.states.iter().filter(|(name, _)| !is_listed(name)) {
            self.node(name).state = Some(state.state.clone());
        }
        for node in &objects.nodes {
            let selected = objects.document(node);
            let enactments = objects.policies_of(node);
            let seen = self.node(&node.name);
            if let Some(state) = objects.states.get(&node.name) {
                seen.state = Some(state.state.clone());
            }
            let has_document = selected.document.is_some();
            seen.knows_pool =
                objects.has(Kind::MachineConfigs) && !objects.machine_configs.is_empty();
            if let Some(document) = selected.document {
                seen.documents.insert(document.file, document.bytes);
            }
            seen.further.extend(selected.problem.map(|problem| Diagnosis {
                severity: DiagnosisSeverity::Broken,
                problem: "no document can be selected for this node".into(),
                because: problem,
                remedy: "correct the MachineConfigs of its pool".into(),
            }));
            let failed = enactments.iter().filter_map(|(_, it)| *it);
            for it in failed.filter(|it| ["Failing", "Aborted"].contains(&it.condition.as_str())) {
                seen.further.push(Diagnosis {
                    severity: DiagnosisSeverity::Broken,
                    problem: format!("policy {} is not applied on this node", it.policy),
                    because: format!("enactment {}.{}: {}", it.node, it.policy, it.message),
                    remedy: "correct the policy; the node has its previous network".into(),
                });
            }
            if has_document && node.first_boot.is_none() && seen.report.is_none() {
                seen.further.push(Diagnosis {
                    severity: DiagnosisSeverity::Warning,
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
                severity: DiagnosisSeverity::Warning,
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
    /// The document that this node selects, as brex-firstboot does: by name, by MAC address, then the
    /// one for all nodes.
    ///
    /// # Errors
    /// If none can be selected, with the reason.
    pub(crate) fn document(
        &self,
        node: &str,
        rendered: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Option<Candidate>, String> {
        let is_known = self.knows_pool || !self.documents.is_empty();
        let own = if is_known { &self.documents } else { rendered };
        let candidate = |(file, bytes): (&String, &Vec<u8>)| Candidate::new(file, bytes.clone());
        let candidates: Vec<Candidate> = own.iter().filter_map(candidate).collect();
        let machine = Machine {
            name: ShortName::of(node),
            macs: self.state.as_ref().map(macs).unwrap_or_default(),
            serial: None,
        };
        match choose(&machine, &candidates) {
            Ok(choice) => Ok(choice.map(|choice| choice.document.clone())),
            Err(error) => Err(error.to_string()),
        }
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

    /// What was evaluated.
    pub(crate) fn evaluated(&self) -> String {
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
