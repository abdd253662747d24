//! The `retry` command: requests a retry from the nodes on which a policy failed.

use anyhow::{Context as _, Result, bail};
use clap::Args;
use command_line::print;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use nmstate_api::annotations::RETRY;
use nmstate_api::{NodeName, PolicyName, StoredPolicy};
use serde_json::json;

use crate::requests::{self, now, within};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The policy
    #[arg(value_name = "POLICY")]
    policy: PolicyName,
    /// Retry on this node only; can be repeated
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<NodeName>,
}

/// Writes the request into an annotation of the policy.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let client: Client = requests::client(requests::config().await?)?;
    let api: Api<StoredPolicy> = Api::all(client);
    let policy = arguments.policy.as_str();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {RETRY: value(arguments)}}}));
    let parameters = PatchParams::default();
    match within(api.patch_metadata(policy, &parameters, &patch)).await? {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {
            bail!("policy {policy} not found in this cluster")
        }
        Err(error) => return Err(error).with_context(|| format!("annotating policy {policy}")),
    }
    print(format!("policy {policy}: nodes on which it failed try again\n"))
}

fn value(arguments: &Arguments) -> String {
    let nodes: Vec<&str> = arguments.nodes.iter().map(NodeName::as_str).collect();
    format!("{} {}", now(), nodes.join(",")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use nmstate_api::annotations::PolicyOptions;

    use super::*;

    #[test]
    fn what_is_written_is_what_handlers_read() {
        for (names, concerned) in [(&[][..], true), (&["a", "b"], true), (&["b"], false)] {
            let nodes = names.iter().map(|name| name.parse().unwrap()).collect();
            let arguments = Arguments { policy: "p".parse().unwrap(), nodes };
            let annotations = [(RETRY.to_owned(), value(&arguments))].into();
            let options = PolicyOptions::parse(Some(&annotations)).unwrap().for_node("a");
            assert_eq!(options.retry.is_some(), concerned, "{names:?}");
        }
    }
}
