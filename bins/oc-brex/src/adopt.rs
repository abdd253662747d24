//! `oc-brex adopt`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use br_ex_day2::{Adoption, NotAdopted};
use clap::Args;
use command_line::{Ending, print, print_message};
use machine_config::Role;

use crate::cluster::{ClusterSource, Kind, Objects};
use crate::{decode, reading, writing};

const EXAMPLES: &str = "\
Examples:
  The nodes of the running cluster:
    oc-brex adopt --cluster --out policies
    oc apply --server-side -f policies
  From files:
    oc get machineconfig -o yaml > mc.yaml
    oc get nns -o yaml > nns.yaml
    oc-brex adopt --mc mc.yaml --nns nns.yaml --out policies";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// MachineConfigs of the cluster, or the ones with documents; may be repeated
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "cluster",
        conflicts_with = "cluster"
    )]
    mc: Vec<PathBuf>,
    /// NodeNetworkStates of the nodes to adopt; may be repeated
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "cluster",
        conflicts_with = "cluster"
    )]
    nns: Vec<PathBuf>,
    #[command(flatten)]
    source: ClusterSource,
    /// With --cluster: this node only; may be repeated [default: all nodes that have a document]
    #[arg(long, value_name = "NAME", requires = "cluster")]
    node: Vec<String>,
    /// Role of the nodes that have no document of their own
    #[arg(long, value_name = "ROLE", conflicts_with = "cluster")]
    role: Option<Role>,
    /// Folder to write the policies to; without it they are printed
    #[arg(long, short_alias = 'o', value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A node and its policy, or why it has none.
type Outcome = (String, Result<Adoption, NotAdopted>);

/// Writes a policy for each node that describes it without changing anything: for all of them, or
/// nothing.
pub(crate) fn adopt(arguments: &Arguments) -> Result<Ending> {
    let kinds = [Kind::NodeStates, Kind::Nodes, Kind::MachineConfigs];
    let outcomes = match arguments.source.read(&kinds)? {
        Some(objects) => of_cluster(&objects, &arguments.node)?,
        None => of_files(arguments)?,
    };
    let mut adopted = Vec::new();
    let mut has_errors = false;
    for (node, outcome) in outcomes {
        match outcome {
            Ok(Adoption { policy, origin }) => {
                print_message(&format!(
                    "{node}: {origin}; the policy changes nothing there, by nmstate's own comparison"
                ));
                adopted.push((format!("{}.yaml", policy.name), policy.to_yaml()?));
            }
            Err(error) => {
                print_message(&format!("error: {:#}", anyhow::Error::new(error)));
                has_errors = true;
            }
        }
    }
    if has_errors {
        print_message(
            "Nothing was written. Correct these nodes or their documents, or leave the nodes out.",
        );
        return Ok(Ending::Findings);
    }
    match &arguments.out {
        Some(folder) => {
            for path in writing::manifests(folder, &adopted)? {
                print(format!("{}\n", path.display()))?;
            }
        }
        None => adopted.iter().try_for_each(|(_, text)| print(format!("---\n{text}")))?,
    }
    Ok(Ending::Good)
}

fn of_files(arguments: &Arguments) -> Result<Vec<Outcome>> {
    let configs = decode::read(&arguments.mc)?;
    let mut outcomes = Vec::new();
    for path in &arguments.nns {
        for node in reading::states(path)? {
            let name = node.name.clone().unwrap_or_default();
            outcomes.push((name, br_ex_day2::adopt(&node, &configs, arguments.role.as_ref())));
        }
    }
    Ok(outcomes)
}

/// The documents that nodes of a cluster select, compared with what they report.
fn of_cluster(objects: &Objects, names: &[String]) -> Result<Vec<Outcome>> {
    let chosen = names.iter().map(|name| objects.find_node(name)).collect::<Result<Vec<_>>>()?;
    let mut outcomes = Vec::new();
    for node in if names.is_empty() { objects.nodes.iter().collect() } else { chosen } {
        let selected = objects.document(node);
        if let Some(problem) = selected.problem {
            anyhow::bail!("node {}: no document can be selected: {problem}", node.name);
        }
        let Some(document) = selected.document else {
            if names.is_empty() {
                print_message(&format!("note: {}: it has no document, and is left out", node.name));
                continue;
            }
            anyhow::bail!(
                "node {}: its pool has no document for it; `oc-brex migrate` writes one",
                node.name
            );
        };
        let states = objects.states_of(&[node])?;
        let state = states.first().context("one node has one state")?;
        let outcome = br_ex_day2::adopt_document(state, &document.file, &document.bytes);
        outcomes.push((node.name.clone(), outcome));
    }
    if outcomes.is_empty() {
        anyhow::bail!("no node of the cluster has a document; `oc-brex migrate` writes some");
    }
    Ok(outcomes)
}
