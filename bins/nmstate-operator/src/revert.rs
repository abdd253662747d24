//! The `revert` command: reverts a policy on some of its nodes, and applies it there again.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use command_line::print;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use nmstate_api::annotations::{PolicyOptions, REVERT_ON_DELETE, REVERTED_NODES};
use nmstate_api::{
    EnactmentName, NodeName, NodeNetworkConfigurationEnactment as Enactment, PolicyName,
    StoredPolicy,
};
use serde_json::json;

use crate::requests::{self, within};

/// Attempts to write the annotation while other writers change the policy.
const ATTEMPTS: usize = 5;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The policy
    #[arg(value_name = "POLICY")]
    policy: PolicyName,
    /// Revert it on this node; can be repeated
    #[arg(long = "node", value_name = "NAME", required = true)]
    nodes: Vec<NodeName>,
    /// Apply the policy to these nodes again
    #[arg(long)]
    undo: bool,
}

/// Writes the request into an annotation of the policy.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let client: Client = requests::client(requests::config().await?)?;
    if !arguments.undo {
        for node in &arguments.nodes {
            check(&client, &arguments.policy, node).await?;
        }
    }
    let api: Api<StoredPolicy> = Api::all(client);
    let policy = arguments.policy.as_str();
    for _ in 0..ATTEMPTS {
        let doing = || format!("annotating policy {policy}");
        let held = within(api.get_opt(policy)).await.with_context(doing)?.with_context(doing)?;
        let Some(held) = held else { bail!("policy {policy} not found in this cluster") };
        let options = PolicyOptions::parse(held.metadata.annotations.as_ref())?;
        let nodes = changed(options.reverted_nodes, &arguments.nodes, arguments.undo);
        let patch = Patch::Merge(json!({"metadata": {
            "resourceVersion": held.metadata.resource_version,
            "annotations": {REVERTED_NODES: value(&nodes)},
        }}));
        let parameters = PatchParams::default();
        let written = within(api.patch_metadata(policy, &parameters, &patch));
        match written.await.with_context(doing)? {
            Ok(_) => return print(summary(arguments)),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error).with_context(doing),
        }
    }
    bail!("annotating policy {policy}: other writers keep changing it; repeat the command")
}

/// Whether the node can be reverted.
async fn check(client: &Client, policy: &PolicyName, node: &NodeName) -> Result<()> {
    let api: Api<Enactment> = Api::all(client.clone());
    let name = EnactmentName::new(node, policy);
    let doing = || format!("reading enactment {}", name.as_str());
    let held = within(api.get_opt(name.as_str())).await.with_context(doing)?.with_context(doing)?;
    let Some(held) = held else { bail!("policy {policy} is not applied to node {node}") };
    if held.status.unwrap_or_default().revert_state.is_empty() {
        bail!(
            "node {node} does not know what was there before policy {policy}: that is recorded only \
             if the policy has the annotation {REVERT_ON_DELETE} when it is applied"
        );
    }
    Ok(())
}

fn changed(mut held: BTreeSet<NodeName>, nodes: &[NodeName], undo: bool) -> BTreeSet<NodeName> {
    match undo {
        true => held.retain(|node| !nodes.contains(node)),
        false => held.extend(nodes.iter().cloned()),
    }
    held
}

fn value(nodes: &BTreeSet<NodeName>) -> Option<String> {
    let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    (!names.is_empty()).then(|| names.join(","))
}

fn summary(arguments: &Arguments) -> String {
    let policy = &arguments.policy;
    let names: Vec<&str> = arguments.nodes.iter().map(NodeName::as_str).collect();
    let flags = format!("--node {}", names.join(" --node "));
    match arguments.undo {
        true => format!("policy {policy}: applied to {} again\n", names.join(", ")),
        false => format!(
            "policy {policy}: reverted on {}; to apply it again:\n  nmstate-operator revert {policy} {flags} --undo\n",
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_added_and_removed_and_what_is_written_is_read() {
        let names = |names: &[&str]| -> Vec<NodeName> {
            names.iter().map(|name| name.parse().unwrap()).collect()
        };
        let held: BTreeSet<NodeName> = names(&["b"]).into_iter().collect();
        let more = changed(held.clone(), &names(&["a", "b.c"]), false);
        let text = value(&more).unwrap();
        assert_eq!(text, "a,b,b.c");
        let annotations = [(REVERTED_NODES.to_owned(), text)].into();
        assert_eq!(PolicyOptions::parse(Some(&annotations)).unwrap().reverted_nodes, more);
        let none = changed(held, &names(&["b"]), true);
        assert_eq!(value(&none), None, "the annotation is removed");
    }
}
