//! `oc-brex plan`: for one node from files, or for all nodes of a cluster.

mod cluster;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use br_ex::Document;
use br_ex::hosts::Reader;
use br_ex::node_state::{self, NodeState};
use br_ex_authoring::picture::Picture;
use br_ex_day2::{Basis, Class, Masquerade, Nodes, Plan, PlanOptions, State};
use clap::Args;
use command_line::{Ending, print, print_message};
use ipnet::IpNet;
use machine_config::Role;
use nmstate::NetworkState;

use crate::check::FirstBoot;
use crate::cluster::{ClusterArguments, Kind};
use crate::{reading, writing};

const EXAMPLES: &str = "\
Examples:
  What a change means, from the document that the node was installed with:
    oc-brex plan --from worker-0.yml --to new/worker-0.yml --node worker-0.example.com
  From what the node has now, with the policies to apply:
    oc-brex plan --from worker-0.example.com --to new/worker-0.yml --out policies
  The same without access to the cluster:
    oc get nns worker-0.example.com -o yaml > nns.yaml
    oc-brex plan --from nns.yaml --to new/worker-0.yml --out policies
  For every node of the running cluster:
    oc-brex plan --cluster hosts/ --out policies";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What is there now: the old document, or a NodeNetworkState. If the file does not exist, the
    /// node of this name in the running cluster, which must report NodeNetworkStates
    #[arg(long, value_name = "FILE|NODE", required_unless_present = "cluster", requires = "to")]
    from: Option<PathBuf>,
    /// The new document
    #[arg(long, value_name = "FILE", requires = "from")]
    to: Option<PathBuf>,
    /// Plan the documents of this folder for every node of the running cluster, which is read
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["from", "to", "node", "role", "cluster_mtu", "masquerade_subnet"]
    )]
    cluster: Option<PathBuf>,
    #[command(flatten)]
    connection: ClusterArguments,
    /// The node the policy is for; its full name [default: that of the NodeNetworkState]
    #[arg(long, value_name = "NAME", conflicts_with = "role")]
    node: Option<String>,
    /// The role whose nodes the policy is for
    #[arg(long, value_name = "ROLE")]
    role: Option<Role>,
    /// The MTU of the cluster network
    #[arg(long, value_name = "MTU")]
    cluster_mtu: Option<u32>,
    /// The cluster's internalMasqueradeSubnet; once per family [default: that of the node, else
    /// 169.254.0.0/17 and fd69::/112]
    #[arg(long, value_name = "CIDR")]
    masquerade_subnet: Vec<IpNet>,
    /// What applies documents on the nodes: mco or brex-firstboot
    #[arg(long, value_name = "PROGRAM", hide_possible_values = true)]
    first_boot: Option<FirstBoot>,
    /// Folder to write the policies to
    #[arg(long, short_alias = 'o', value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The current state.
enum From {
    Document(NetworkState),
    Node(NodeState),
}

/// Prints what a change means, and writes the policies for it.
pub(crate) fn plan(arguments: &Arguments) -> Result<Ending> {
    let reader = arguments.first_boot.map(Reader::from).unwrap_or_default();
    match (&arguments.cluster, &arguments.from, &arguments.to) {
        (Some(hosts), ..) => {
            cluster::plan(hosts, &arguments.connection, reader, arguments.out.as_deref())
        }
        (None, Some(from), Some(to)) => plan_files(arguments, from, to, reader),
        _ => bail!("give --from and --to, or --cluster"),
    }
}

fn plan_files(arguments: &Arguments, old: &Path, to: &Path, reader: Reader) -> Result<Ending> {
    let (from, cluster_mtu) = from(old, &arguments.connection)?;
    let new = Document::parse(&reading::document(to)?);
    let (state, basis) = match &from {
        From::Document(state) => (state, Basis::Document),
        From::Node(node) => (&node.state, Basis::Node),
    };
    let old = State::new(state, basis)?;
    let nodes = nodes(arguments, &from)?;
    let masquerade = match (basis, arguments.masquerade_subnet.as_slice()) {
        (Basis::Node, []) => Masquerade::of_node(&old),
        (_, subnets) => Masquerade::of_subnets(subnets),
    };
    let folder = arguments.out.clone().unwrap_or_default();
    let file = folder.join("policy.yaml").display().to_string();
    let cluster_mtu = arguments.cluster_mtu.or(cluster_mtu);
    let options = PlanOptions { nodes, masquerade, cluster_mtu, file, reader };
    let plan = br_ex_day2::plan(&old, &new, &options)
        .with_context(|| format!("planning the change to {}", to.display()))?;
    print(text(&plan, to))?;
    if plan.class().is_some() {
        print(pictures(state, &new)?)?;
    }
    if plan.class() == Some(Class::Forbidden) {
        return Ok(Ending::Findings);
    }
    match (&arguments.out, &plan.policy) {
        (Some(folder), Some(policy)) => {
            let mut files = vec![("policy.yaml".to_owned(), policy.to_yaml()?)];
            if let Some(back) = &plan.way_back {
                files.push(("way-back.yaml".to_owned(), back.to_yaml()?));
            }
            for path in writing::manifests(folder, &files)? {
                print_message(&format!("wrote {}", path.display()));
            }
        }
        (None, Some(_)) => print_message("To write the policies, add --out DIR."),
        (_, None) => {}
    }
    Ok(Ending::Good)
}

/// The current state, and the MTU of the cluster network if a cluster was read.
fn from(path: &Path, connection: &ClusterArguments) -> Result<(From, Option<u32>)> {
    if let Some(node) = reading::node(path) {
        let reading = || format!("file {node} not found; reading it as a node of the cluster");
        let objects = connection.read_kinds(&[Kind::NodeStates, Kind::Networks]);
        let mut objects = objects.with_context(reading)?;
        let state = objects.take_state(node).with_context(reading)?;
        return Ok((From::Node(state), objects.cluster_mtu));
    }
    if connection.is_given() {
        bail!("--kubeconfig and --context: {} is a file, so no cluster is read", path.display());
    }
    Ok((of_file(path)?, None))
}

fn of_file(path: &Path) -> Result<From> {
    let reading = || format!("reading {}", path.display());
    let text = reading::text(path)?;
    let document = Document::parse(text.as_bytes());
    // A state that a node reported has a kind, or what `nmstatectl show` prints beyond a document.
    match node_state::parse(&text) {
        Ok(mut states) if text.contains("NodeNetworkState") || text.contains("running:") => {
            match (states.pop(), states.len()) {
                (Some(node), 0) => Ok(From::Node(node)),
                _ => bail!("reading {}: expected one NodeNetworkState", path.display()),
            }
        }
        _ => match document.state() {
            Some(state) => Ok(From::Document(state.clone())),
            None => bail!(
                "{}: it is neither a document without captures nor a NodeNetworkState; \
                 `oc-brex check` reports what is wrong with a document",
                reading(),
            ),
        },
    }
}

fn nodes(arguments: &Arguments, from: &From) -> Result<Nodes> {
    let of_state = match from {
        From::Node(NodeState { name: Some(name), .. }) => Some(name.clone()),
        _ => None,
    };
    match (&arguments.role, arguments.node.clone().or(of_state)) {
        (Some(role), _) => Ok(Nodes::Role(role.to_string())),
        (None, Some(node)) => Ok(Nodes::One(node)),
        (None, None) => bail!("which nodes? Give --node or --role"),
    }
}

/// The interfaces below br-ex before and after; once if they stay the same.
fn pictures(old: &NetworkState, new: &Document) -> Result<String> {
    let old = Document::parse(serde_json::to_string(old)?.as_bytes());
    let tree = |document: &Document| {
        let layout = document.layout();
        let text = layout.map(|layout| Picture::of(&layout).br_ex_text()).unwrap_or_default();
        text.lines().map(|line| format!("  {line}\n")).collect::<String>()
    };
    let (before, after) = (tree(&old), tree(new));
    Ok(if before == after {
        format!("\nThe layers of br-ex are unchanged:\n{after}")
    } else {
        format!("\nBefore:\n{before}\nAfter:\n{after}")
    })
}

fn text(plan: &Plan, to: &Path) -> String {
    let Some(class) = plan.class() else {
        let mut text =
            "Nothing changes: the new document describes the current network.\n".to_owned();
        text.extend(plan.unforeseen.iter().map(|unforeseen| format!("note: {unforeseen}\n")));
        return text;
    };
    let mut text = format!("Class: {class}\nExpected outage: {}\n", class.outage());
    // A forbidden change has no procedure.
    for further in plan.further_classes().iter().filter(|_| class != Class::Forbidden) {
        text.push_str(&format!("Also: {further}: {}\n", further.outage()));
    }
    text.push_str("\nChanges:\n");
    for change in &plan.changes {
        text.push_str(&format!("  {}\n    {}: {}\n", change.difference, change.class, change.why));
    }
    for finding in &plan.objections {
        text.push_str(&format!(
            "  {}:{finding}\n    forbidden: the document is wrong\n",
            to.display()
        ));
    }
    for unforeseen in &plan.unforeseen {
        text.push_str(&format!("note: {unforeseen}\n"));
    }
    for leftover in &plan.leftovers {
        text.push_str(&format!("note: {leftover}\n"));
    }
    if !plan.steps.is_empty() {
        text.push_str("\nSteps:\n");
    }
    for (number, step) in plan.steps.iter().enumerate() {
        text.push_str(&format!("  {}. {step}\n", number + 1));
    }
    text
}
