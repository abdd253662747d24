//! `oc-brex plan --cluster`: the effect of documents on every node of a running cluster.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use br_ex::Document;
use br_ex::hosts::Reader;
use br_ex_authoring::inventory::{
    DocumentName, Inventory, InventoryDocument, place_files, short_name,
};
use br_ex_day2::{Basis, Class, Masquerade, Plan, PlanOptions, State};
use command_line::{Ending, print, print_message};
use first_boot::matching::{self, Match};
use first_boot::{Candidate, choose};
use machine_config::Role;

use super::{pictures, text};
use crate::cluster::objects::{ClusterNode, Kind};
use crate::cluster::{ClusterArguments, Objects};
use crate::{inputs, reading, writing};

/// What is planned for a node.
struct NodePlan<'a> {
    node: &'a ClusterNode,
    role: Role,
    document: &'a InventoryDocument,
    plan: Plan,
    /// The interfaces below br-ex before and after.
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
    let (selections, mut problems) = select(&inventory, &objects);
    problems.extend(unlisted(&inventory, &objects, &selections));
    if !problems.is_empty() {
        problems.iter().for_each(|problem| print_message(&format!("error: {problem}")));
        print_message("Nothing was written.");
        return Ok(Ending::Findings);
    }
    let mut has_errors = false;
    let mut plans = Vec::new();
    for Selection { node, role, document } in selections {
        let Some(document) = document else {
            print_message(&format!(
                "note: {}: no document in {} is for it",
                node.name,
                hosts.display()
            ));
            continue;
        };
        match plan_node(&objects, node, document, reader, out) {
            Ok((plan, pictures)) => plans.push(NodePlan { node, role, document, plan, pictures }),
            Err(error) => {
                print_message(&format!("error: {}: {error:#}", node.name));
                has_errors = true;
            }
        }
    }
    sort(&mut plans);
    print(overview(&plans))?;
    print(details(&plans))?;
    has_errors |= plans.iter().any(|it| it.plan.class() == Some(Class::Forbidden));
    if has_errors {
        print_message("Nothing was written.");
        return Ok(Ending::Findings);
    }
    let Some(folder) = out else {
        if plans.iter().any(|it| it.plan.policy.is_some()) {
            print_message("To write the policies, add --out DIR.");
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
        print_message(&note);
    }
    placement.into_inventory().map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|it| format!("  {it}")).collect();
        anyhow::anyhow!("reading {top}:\n{}", lines.join("\n"))
    })
}

/// A node and the document that it selects.
struct Selection<'a> {
    node: &'a ClusterNode,
    role: Role,
    document: Option<&'a InventoryDocument>,
}

/// Selects a document for every node, as brex-firstboot does on the node: by name, by what documents
/// state themselves (`brex-match`), then the one for the cluster. Returns what prevents it, too.
fn select<'a>(inventory: &'a Inventory, objects: &'a Objects) -> (Vec<Selection<'a>>, Vec<String>) {
    let (mut selections, mut problems) = (Vec::new(), Vec::new());
    for node in &objects.nodes {
        let Some(role) = objects.role(node) else { continue };
        let mut documents: BTreeMap<&DocumentName, &InventoryDocument> = BTreeMap::new();
        // Nodes of another pool have the documents of workers, unless the pool has its own.
        let worker = Role::worker();
        for of in if role.is_custom() { vec![&worker, &role] } else { vec![&role] } {
            let own = inventory.documents().filter(|(it, ..)| *it == of);
            documents.extend(own.map(|(_, stem, placed)| (stem, placed)));
        }
        let candidate = |(stem, placed): (&&DocumentName, &&InventoryDocument)| {
            Candidate::new(&format!("{stem}.yml"), placed.bytes.clone())
        };
        let candidates: Vec<Candidate> = documents.iter().filter_map(candidate).collect();
        match choose(&objects.machine(node), &candidates) {
            Ok(choice) => {
                let stem = choice.map(|choice| choice.document.stem.as_str());
                let of_stem =
                    |(it, _): &(&&DocumentName, &&'a InventoryDocument)| Some(it.as_str()) == stem;
                let document = documents.iter().find(of_stem).map(|(_, placed)| *placed);
                selections.push(Selection { node, role, document });
            }
            Err(error) => problems.push(format!("{}: {error}", node.name)),
        }
    }
    (selections, problems)
}

/// Documents that no node of the cluster selects.
fn unlisted(inventory: &Inventory, objects: &Objects, selections: &[Selection<'_>]) -> Vec<String> {
    let mut problems = Vec::new();
    let is_selected = |placed: &InventoryDocument| {
        selections.iter().filter_map(|it| it.document).any(|it| it.origin == placed.origin)
    };
    for (role, stem, placed) in inventory.documents() {
        if stem.is_cluster() || is_selected(placed) {
            continue;
        }
        let origin = &placed.origin;
        let of_name = |node: &&ClusterNode| short_name(&node.name) == stem.as_str();
        if let Some(node) = objects.nodes.iter().find(of_name) {
            let found = objects.role(node);
            if found.as_ref() != Some(role) {
                let found = found.map_or_else(|| "which has none".to_owned(), |it| it.to_string());
                problems.push(format!(
                    "{origin}: expected the role of node {stem}, {found}, found {role}"
                ));
            }
            continue;
        }
        let named = matching::matches(&String::from_utf8_lossy(&placed.bytes)).unwrap_or_default();
        let texts: Vec<String> = named.iter().map(ToString::to_string).collect();
        if named.iter().any(|it| matches!(it, Match::Serial(_))) {
            print_message(&format!(
                "note: {origin}: it is for {}; the API has no serial numbers of nodes, so it is not \
                 planned. Name it after its node",
                texts.join(" or ")
            ));
        } else if named.is_empty() {
            problems.push(format!(
                "{origin}: the cluster has no node {stem}; correct the name, or add the host with \
                 `oc-brex scale-out`"
            ));
        } else {
            problems.push(format!(
                "{origin}: no node of role {role} has {}; correct the address, or add the host with \
                 `oc-brex scale-out`",
                texts.join(" or ")
            ));
        }
    }
    problems
}

fn plan_node(
    objects: &Objects,
    node: &ClusterNode,
    document: &InventoryDocument,
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
    let plan = br_ex_day2::plan(&old, &new, &options)
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
    let mut files: BTreeMap<String, String> = BTreeMap::new();
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
    for path in writing::manifests(folder, &files.into_iter().collect::<Vec<_>>())? {
        print_message(&format!("wrote {}", path.display()));
    }
    if !order.is_empty() {
        print("\nApply in this order, each after the one before it has succeeded:\n")?;
        order.iter().try_for_each(|line| print(format!("  {line}\n")))?;
    }
    Ok(())
}
