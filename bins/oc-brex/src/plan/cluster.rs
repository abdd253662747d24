//! `oc-brex plan --cluster`: the effect of documents on every node of a running cluster.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use br_ex::Document;
use br_ex::day2::{self, Basis, Class, Masquerade, Plan, PlanOptions, State};
use br_ex::hosts::Reader;
use br_ex::inventory::{Inventory, Placed, place_files, short_name};
use command_line::{Ending, print, say};
use machine_config::Role;

use super::{pictures, text};
use crate::cluster::objects::{ClusterNode, Kind};
use crate::cluster::{ClusterArguments, Objects};
use crate::{inputs, reading, writing};

/// What is planned for a node.
struct NodePlan<'a> {
    node: &'a ClusterNode,
    role: Role,
    document: &'a Placed,
    plan: Plan,
    /// What br-ex stands on before and after.
    pictures: String,
}

/// Plans the documents of a folder for a cluster. Policies are written only if all nodes can be
/// changed.
pub(super) fn plan(
    hosts: &Path,
    connection: &ClusterArguments,
    reader: Reader,
    out: Option<&Path>,
) -> Result<Ending> {
    let inventory = inventory(hosts)?;
    let objects = connection.read()?;
    if !objects.has(Kind::NodeStates) {
        bail!(
            "the current networks of the nodes are unknown: install the NMState operator, which \
             reports NodeNetworkStates, and make sure that they can be listed"
        );
    }
    let problems = unlisted(&inventory, &objects);
    if !problems.is_empty() {
        problems.iter().for_each(|problem| say(&format!("error: {problem}")));
        say("Nothing was written.");
        return Ok(Ending::Findings);
    }
    let mut has_errors = false;
    let mut plans = Vec::new();
    for node in &objects.nodes {
        let Some(role) = objects.role(node) else { continue };
        let Some(document) = document(&inventory, &role, node) else {
            say(&format!("note: {}: no document in {} is for it", node.name, hosts.display()));
            continue;
        };
        match plan_node(&objects, node, document, reader, out) {
            Ok((plan, pictures)) => plans.push(NodePlan { node, role, document, plan, pictures }),
            Err(error) => {
                say(&format!("error: {}: {error:#}", node.name));
                has_errors = true;
            }
        }
    }
    sort(&mut plans);
    print(overview(&plans))?;
    print(details(&plans))?;
    has_errors |= plans.iter().any(|it| it.plan.class() == Some(Class::Forbidden));
    if has_errors {
        say("Nothing was written.");
        return Ok(Ending::Findings);
    }
    let Some(folder) = out else {
        if plans.iter().any(|it| it.plan.policy.is_some()) {
            say("Give --out DIR to have the policies written.");
        }
        return Ok(Ending::Good);
    };
    write(folder, &plans)?;
    Ok(Ending::Good)
}

fn inventory(hosts: &Path) -> Result<Inventory> {
    let files = reading::folder(hosts)?;
    let top = hosts.display().to_string();
    if files.is_empty() {
        bail!("{top} has no documents: expected .yml or .yaml files");
    }
    let placement = place_files(&top, &files, None);
    for note in inputs::notes(&top, &placement) {
        say(&note);
    }
    placement.into_inventory().map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|it| format!("  {it}")).collect();
        anyhow::anyhow!("reading {top}:\n{}", lines.join("\n"))
    })
}

/// Documents of hosts that are not nodes of the cluster.
fn unlisted(inventory: &Inventory, objects: &Objects) -> Vec<String> {
    let mut problems = Vec::new();
    for (role, stem, placed) in inventory.documents().filter(|(_, stem, _)| !stem.is_cluster()) {
        let is_it = |node: &&ClusterNode| short_name(&node.name) == stem.as_str();
        match objects.nodes.iter().find(is_it).map(|node| objects.role(node)) {
            Some(Some(found)) if found == *role => {}
            // Without a folder of its role, a document is for both.
            Some(Some(_)) if inventory.documents().filter(|(_, it, _)| *it == stem).count() > 1 => {
            }
            Some(found) => problems.push(format!(
                "{}: expected the role of node {stem}, {}, found {role}",
                placed.origin,
                found.map_or_else(|| "which has none".to_owned(), |role| role.to_string()),
            )),
            None => problems.push(format!(
                "{}: the cluster has no node {stem}; correct the name, or add the host with \
                 `oc-brex scale-out`",
                placed.origin
            )),
        }
    }
    problems
}

/// The document of a node: its own, or that of all nodes of its role.
fn document<'a>(inventory: &'a Inventory, role: &Role, node: &ClusterNode) -> Option<&'a Placed> {
    let of_role = || inventory.documents().filter(|(it, ..)| *it == role);
    let own = of_role().find(|(_, stem, _)| stem.as_str() == short_name(&node.name));
    let found = own.or_else(|| of_role().find(|(_, stem, _)| stem.is_cluster()));
    found.map(|(_, _, placed)| placed)
}

fn plan_node(
    objects: &Objects,
    node: &ClusterNode,
    document: &Placed,
    reader: Reader,
    out: Option<&Path>,
) -> Result<(Plan, String)> {
    let current = objects.states.get(&node.name).context(
        "it has no NodeNetworkState; is the handler running there (`oc get pods -o wide`)?",
    )?;
    let old = State::new(&current.state, Basis::Node)?;
    let options = PlanOptions {
        nodes: Objects::selector(node),
        masquerade: Masquerade::of_node(&old),
        cluster_mtu: objects.cluster_mtu,
        file: out.unwrap_or(Path::new("")).join(file(node)).display().to_string(),
        reader,
    };
    let new = Document::parse(&document.bytes);
    let plan = day2::plan(&old, &new, &options)
        .with_context(|| format!("planning {}", document.origin))?;
    Ok((plan, pictures(&current.state, &new)?))
}

fn file(node: &ClusterNode) -> String {
    format!("{}.yaml", node.name)
}

/// Workers before the control plane, and small changes before large ones: a mistake shows where it
/// does the least harm.
fn sort(plans: &mut [NodePlan<'_>]) {
    plans.sort_by(|a, b| {
        let key =
            |it: &NodePlan<'_>| (it.role == Role::master(), it.plan.class(), it.node.name.clone());
        key(a).cmp(&key(b))
    });
}

fn overview(plans: &[NodePlan<'_>]) -> String {
    let row = |(number, it): (usize, &NodePlan<'_>)| {
        let class = it.plan.class();
        let none = || "none".to_owned();
        [
            (number + 1).to_string(),
            it.node.name.clone(),
            it.role.to_string(),
            it.plan.changes.len().to_string(),
            class.map_or_else(none, |class| class.to_string()),
            class.map_or_else(none, |class| class.outage().to_owned()),
        ]
    };
    let rows: Vec<_> = plans.iter().enumerate().map(row).collect();
    drawing::columns(["ORDER", "NODE", "ROLE", "CHANGES", "CLASS", "EXPECTED OUTAGE"], &rows)
}

/// Nodes with the same change are listed once.
fn details(plans: &[NodePlan<'_>]) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for it in plans.iter().filter(|it| it.plan.class().is_some()) {
        let shown = format!("{}{}", text(&it.plan, Path::new(&it.document.origin)), it.pictures);
        // Names of the node and of its files differ; the change may not.
        let shown = shown.replace(&it.node.name, "<node>");
        match groups.iter_mut().find(|(text, _)| *text == shown) {
            Some((_, nodes)) => nodes.push(&it.node.name),
            None => groups.push((shown, vec![&it.node.name])),
        }
    }
    let group = |(text, nodes): &(String, Vec<&str>)| {
        let text = match nodes.as_slice() {
            [only] => text.replace("<node>", only),
            _ => text.clone(),
        };
        format!("\n{}:\n{text}", nodes.join(", "))
    };
    groups.iter().map(group).collect()
}

fn write(folder: &Path, plans: &[NodePlan<'_>]) -> Result<()> {
    let mut files = BTreeMap::new();
    let mut order = Vec::new();
    for it in plans {
        let Some(policy) = &it.plan.policy else { continue };
        files.insert(file(it.node), policy.to_yaml()?);
        order.push(format!("oc apply --server-side -f {}", folder.join(file(it.node)).display()));
        order.push(format!("oc wait nncp/{} --for=condition=Available --timeout=30m", policy.name));
        if let Some(back) = &it.plan.way_back {
            files.insert(format!("way-back/{}", file(it.node)), back.to_yaml()?);
        }
    }
    for (name, text) in &files {
        let path = writing::file(folder, name, text)?;
        say(&format!("wrote {}", path.display()));
    }
    if !order.is_empty() {
        print("\nApply in this order, each after the one before it has succeeded:\n")?;
        order.iter().try_for_each(|line| print(format!("  {line}\n")))?;
    }
    Ok(())
}
