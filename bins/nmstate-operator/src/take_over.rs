//! The `take-over` and `give-back` commands: they replace kubernetes-nmstate by this operator, and
//! the other way round, with the permissions of the administrator who runs them.
//!
//! Both decide each step from what is in the cluster and from the record in a ConfigMap, so they may
//! be interrupted anywhere and run again.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use command_line::print;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use nmstate_api::NMState;
use nmstate_api::annotations::ADOPT;
use nmstate_deployment::decide::leading;
use nmstate_deployment::handover::{
    self, HandoverRequest, HandoverState, Others, Phase, Plan, Record, Scope,
};
use nmstate_deployment::names::{HANDLER, NAMESPACE};
use serde_json::json;

use crate::operator::{handover as steps, observe, others};
use crate::requests::{self, within};

/// Between two steps. What is waited for are pods that end, and OLM.
const STEP: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Make the changes; without this flag only print them
    #[arg(long)]
    yes: bool,
}

/// Removes kubernetes-nmstate from the cluster, so that this operator serves the API.
pub(crate) async fn take_over(arguments: &Arguments) -> Result<()> {
    let client = requests::client(requests::config().await?)?;
    let nmstate = nmstate(&client).await?;
    let mut printed = String::new();
    loop {
        let (others, record) = observe(&client, Scope::Everything).await?;
        let plan = handover::plan(HandoverRequest::TakeOver, &others, record.as_ref());
        if let HandoverState::Theirs { message } = &plan.state {
            bail!("{message}");
        }
        if !arguments.yes {
            return print(would_take_over(&plan, record.as_ref()));
        }
        if printed.is_empty() {
            request(&client, &nmstate, HandoverRequest::TakeOver).await?;
        }
        print_progress(&mut printed, &plan)?;
        steps::begin(&client, &plan, record.as_ref()).await?;
        let is_done = plan.record.as_ref().is_some_and(|it| it.phase == Phase::Done);
        if is_done && matches!(plan.state, HandoverState::Ours { .. }) {
            return print("nmstate-operator serves this API now\n");
        }
        tokio::time::sleep(STEP).await;
    }
}

/// Restores what installed kubernetes-nmstate before [`take_over`].
pub(crate) async fn give_back(arguments: &Arguments) -> Result<()> {
    let client = requests::client(requests::config().await?)?;
    let nmstate = nmstate(&client).await?;
    let mut printed = String::new();
    loop {
        let (others, record) = observe(&client, Scope::Installers).await?;
        let Some(record) = record else {
            let end = match printed.is_empty() {
                true => "this cluster was not taken over; there is nothing to give back\n",
                false => "kubernetes-nmstate serves this API now\n",
            };
            return print(end);
        };
        let plan = handover::plan(HandoverRequest::Leave, &others, Some(&record));
        if !arguments.yes {
            return print(would_give_back(&record));
        }
        if printed.is_empty() {
            request(&client, &nmstate, HandoverRequest::Leave).await?;
        }
        print_progress(&mut printed, &plan)?;
        steps::begin(&client, &plan, Some(&record)).await?;
        // Two handlers would wait for the same lock on each node.
        if plan.record.is_some() && is_deployed(&client).await? {
            tokio::time::sleep(STEP).await;
            continue;
        }
        steps::end(&client, &plan, Some(&record)).await?;
        if plan.record.is_some() {
            tokio::time::sleep(STEP).await;
        }
    }
}

async fn observe(client: &Client, scope: Scope) -> Result<(Others, Option<Record>)> {
    let record = observe::record(client).await?.context("reading the record of the take-over")?;
    let places = record.as_ref().map(|it| it.namespaces.clone()).unwrap_or_default();
    let others = others::others(client, scope, &places).await?;
    Ok((others, record))
}

/// The name of the NMState that counts.
async fn nmstate(client: &Client) -> Result<String> {
    let nmstates: Api<NMState> = Api::all(client.clone());
    let list = within(nmstates.list(&ListParams::default())).await?.context("listing NMStates")?;
    match leading(&list.items) {
        Some(nmstate) => Ok(nmstate.name_any()),
        None => bail!("expected an NMState in this cluster, found none; create one first"),
    }
}

/// Sets or removes the annotation that requests the take-over; the operator then removes or deploys
/// its own part.
async fn request(client: &Client, nmstate: &str, request: HandoverRequest) -> Result<()> {
    let nmstates: Api<NMState> = Api::all(client.clone());
    let value = (request == HandoverRequest::TakeOver).then_some("true");
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { ADOPT: value } } }));
    within(nmstates.patch_metadata(nmstate, &PatchParams::default(), &patch))
        .await?
        .with_context(|| format!("annotating the NMState {nmstate}"))?;
    Ok(())
}

/// Whether handlers of this operator are deployed.
async fn is_deployed(client: &Client) -> Result<bool> {
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), NAMESPACE);
    let set = within(sets.get_metadata_opt(HANDLER)).await?;
    Ok(set.with_context(|| format!("reading the DaemonSet {HANDLER}"))?.is_some())
}

/// Prints what is being done, once.
fn print_progress(printed: &mut String, plan: &Plan) -> Result<()> {
    let message = match &plan.state {
        HandoverState::TakingOver { message }
        | HandoverState::GivingBack { message }
        | HandoverState::Theirs { message } => message.clone(),
        HandoverState::Ours { remark: Some(remark) } => remark.clone(),
        HandoverState::Ours { remark: None } => "Removing what kubernetes-nmstate left".to_owned(),
    };
    if *printed != message {
        print(format!("{message}\n"))?;
        *printed = message;
    }
    Ok(())
}

fn would_take_over(plan: &Plan, record: Option<&Record>) -> String {
    let mut text = String::new();
    for installer in &plan.dismiss {
        text.push_str(&format!("would record and remove {installer}\n"));
    }
    for left in &plan.clear {
        text.push_str(&format!("would remove {left}\n"));
    }
    if !plan.dismiss.is_empty() {
        text.push_str("would wait for its operator to end, and remove what it left\n");
    }
    let is_done = record.is_some_and(|it| it.phase == Phase::Done);
    match text.is_empty() && is_done {
        true => "nmstate-operator serves this API already\n".to_owned(),
        false => text + "policies, node states, CRDs and namespaces stay; to do it, add --yes\n",
    }
}

fn would_give_back(record: &Record) -> String {
    let mut text = "would remove the handlers and the coordinator of this operator\n".to_owned();
    for installer in &record.installers {
        text.push_str(&format!("would restore {installer}\n"));
    }
    text + "policies, node states, CRDs and namespaces stay; to do it, add --yes\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_printed_and_names_what_goes() {
        let running = vec!["the operator o".to_owned()];
        let subscription = handover::Installer::of(&json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "Subscription",
            "metadata": { "name": "s", "namespace": "n", "uid": "1" },
            "spec": { "name": handover::PACKAGE },
        }));
        let others =
            Others { running, installers: Vec::from_iter(subscription), ..Others::default() };
        let plan = handover::plan(HandoverRequest::TakeOver, &others, None);
        let text = would_take_over(&plan, None);
        assert!(text.starts_with("would record and remove the Subscription n/s\n"), "{text}");
        assert!(text.ends_with("to do it, add --yes\n"));
        let text = would_give_back(&plan.record.unwrap());
        assert!(text.contains("would restore the Subscription n/s\n"), "{text}");
    }
}
