//! `oc-brex doctor`: what is wrong with the br-ex of nodes, and what to do; from files, or from a
//! running cluster.

mod evidence;
mod walk;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Result, bail};
use br_ex::{ClusterFacts, Document, Severity};
use br_ex_authoring::inventory::short_name;
use clap::{Args, ValueEnum};
use command_line::{Ending, print};
use evidence::{Evidence, NodeEvidence};
use first_boot::diagnosis::{
    Diagnosis, DiagnosisSeverity, diagnose, diagnose_flag, diagnose_state,
};
use first_boot::symptom::symptoms;
use serde::Serialize;

use crate::cluster::{ClusterSource, Kind};

const EXAMPLES: &str = "\
Examples:
  The nodes of the running cluster:
    oc-brex doctor --cluster
  A node that did not join, from the report on its disk:
    oc-brex doctor /var/log/brex-firstboot/report.json
  What `brex-firstboot gather` collected on a node, or a must-gather of the cluster:
    oc-brex doctor worker-0.gather/ must-gather.local.1234/
  For scripts:
    oc-brex doctor --cluster -o json

Exit code: 0 nothing is broken; 1 a node is broken; 2 the input could not be read.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Reports of brex-firstboot, folders of `brex-firstboot gather`, must-gather folders
    #[arg(value_name = "PATH", required_unless_present = "cluster")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    source: ClusterSource,
    /// How the result is written to standard output: text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// What is known about one node.
#[derive(Debug, Serialize)]
struct NodeDiagnoses {
    node: String,
    diagnoses: Vec<Diagnosis>,
}

#[derive(Serialize)]
struct Findings<'a> {
    version: u32,
    nodes: &'a [NodeDiagnoses],
}

pub(crate) fn doctor(arguments: &Arguments) -> Result<Ending> {
    let mut evidence = Evidence::default();
    for path in &arguments.paths {
        walk::read(path, &mut evidence)?;
    }
    if let Some(objects) = arguments.source.read(&Kind::ALL)? {
        evidence.add_cluster(&objects);
    }
    if evidence.is_empty() && arguments.source.cluster {
        bail!("the cluster has no nodes and no documents of br-ex: there is nothing to evaluate");
    }
    if evidence.is_empty() {
        let names: Vec<String> =
            arguments.paths.iter().map(|path| path.display().to_string()).collect();
        bail!(
            "nothing in {} is about br-ex; name a report of /var/log/brex-firstboot, a folder of \
             `brex-firstboot gather`, or a must-gather folder with MachineConfigs or NodeNetworkStates",
            names.join(", ")
        );
    }
    let nodes = examine(&evidence);
    match arguments.output {
        Format::Text => print(text(&nodes))?,
        Format::Json => {
            let result = Findings { version: 1, nodes: &nodes };
            print(format!("{}\n", serde_json::to_string_pretty(&result)?))?;
        }
    }
    let broken = |node: &NodeDiagnoses| {
        node.diagnoses.iter().any(|d| d.severity == DiagnosisSeverity::Broken)
    };
    Ok(if nodes.iter().any(broken) { Ending::Findings } else { Ending::Good })
}

/// One entry per node, the worst first in each.
fn examine(evidence: &Evidence) -> Vec<NodeDiagnoses> {
    let diagnoses_of = |(node, seen): (&String, &NodeEvidence)| {
        let mut diagnoses = Vec::new();
        diagnoses.extend(seen.report.iter().flat_map(diagnose));
        diagnoses.extend(seen.state.iter().flat_map(diagnose_state));
        let document = seen.document(node, &evidence.documents).unwrap_or_else(|problem| {
            diagnoses.push(Diagnosis {
                severity: DiagnosisSeverity::Broken,
                problem: "no document can be selected for this node".into(),
                because: problem,
                remedy: "correct the MachineConfigs of its pool".into(),
            });
            None
        });
        if seen.knows_flag {
            let document = document.as_ref().map(|it| (it.file.as_str(), &it.hash));
            diagnoses.extend(diagnose_flag(seen.flag.as_ref(), document));
        }
        diagnoses.extend(seen.further.iter().cloned());
        if let Some(document) = &document {
            // What the node itself found is in its report already.
            let found = diagnose_document(&document.file, &document.bytes);
            let is_new = |one: &Diagnosis| !diagnoses.iter().any(|it| it.problem == one.problem);
            let new: Vec<Diagnosis> = found.into_iter().filter(is_new).collect();
            diagnoses.extend(new);
        }
        let journals = seen.journals.iter();
        diagnoses.extend(journals.flat_map(|(name, text)| symptoms(name, text)));
        diagnoses.sort_by_key(|diagnosis| diagnosis.severity);
        if diagnoses.is_empty() && seen.is_empty() {
            diagnoses.push(Diagnosis {
                severity: DiagnosisSeverity::Warning,
                problem: "there is no information about br-ex of this node".into(),
                because: "it has no document, no report of its first boot and no NodeNetworkState".into(),
                remedy: "install the NMState operator, which reports NodeNetworkStates; or run `brex-firstboot gather` on the node and give its output to `oc-brex doctor`".into(),
            });
        }
        if diagnoses.is_empty() {
            diagnoses.push(Diagnosis {
                severity: DiagnosisSeverity::Fine,
                problem: "nothing is wrong with br-ex".into(),
                because: seen.evaluated(),
                remedy: "nothing to do".into(),
            });
        }
        NodeDiagnoses { node: node.clone(), diagnoses }
    };
    let mut nodes: Vec<NodeDiagnoses> = evidence.nodes.iter().map(diagnoses_of).collect();
    nodes.extend(unseen(evidence));
    nodes
}

/// What the rules report about a document of a node.
fn diagnose_document(file: &str, bytes: &[u8]) -> Vec<Diagnosis> {
    let findings = br_ex::check(&Document::parse(bytes), &ClusterFacts::default());
    let diagnosis = |finding: &br_ex::Finding| Diagnosis {
        severity: match finding.severity {
            Severity::Error => DiagnosisSeverity::Broken,
            _ => DiagnosisSeverity::Warning,
        },
        problem: finding.message.clone(),
        because: format!(
            "rule {} at {file}:{}:{}",
            finding.rule, finding.at.line, finding.at.column
        ),
        remedy: finding.rule.rule().remedy.to_owned(),
    };
    findings.iter().filter(|it| it.severity != Severity::Info).map(diagnosis).collect()
}

/// Documents of MachineConfigs for hosts of which nothing else is known: a node that never joined
/// leaves no trace in must-gather.
fn unseen(evidence: &Evidence) -> Option<NodeDiagnoses> {
    let hosts: BTreeMap<&str, &str> = evidence
        .documents
        .keys()
        .filter_map(|file| {
            let stem = file.strip_suffix(".yml").or_else(|| file.strip_suffix(".yaml"))?;
            (stem != "cluster").then_some((stem, file.as_str()))
        })
        .filter(|(stem, _)| !evidence.nodes.keys().any(|node| short_name(node) == *stem))
        .collect();
    if hosts.is_empty() {
        return None;
    }
    let document = |file: &&str| diagnose_document(file, &evidence.documents[*file]);
    let mut diagnoses: Vec<Diagnosis> = hosts.values().flat_map(document).collect();
    let hosts: Vec<&str> = hosts.into_keys().collect();
    diagnoses.push(Diagnosis {
        severity: DiagnosisSeverity::Warning,
        problem: format!("there is no information about {}", hosts.join(", ")),
        because: "MachineConfigs have documents for them, and there is neither a state nor a report".into(),
        remedy: "if such a node never joined: log in at its console or by SSH and run `brex-firstboot gather --out DIR`".into(),
    });
    diagnoses.sort_by_key(|diagnosis| diagnosis.severity);
    Some(NodeDiagnoses { node: "(not seen)".into(), diagnoses })
}

fn text(nodes: &[NodeDiagnoses]) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for node in nodes {
        let _ = writeln!(text, "{}:", node.node);
        for Diagnosis { severity, problem, because, remedy } in &node.diagnoses {
            let _ = writeln!(text, "  {}: {problem}", severity.name());
            let _ = writeln!(text, "    because {because}");
            let _ = writeln!(text, "    do: {remedy}");
        }
    }
    text
}
