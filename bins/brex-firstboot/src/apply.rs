//! `apply`: all of it in one transaction of our own.

use std::time::Duration;

use anyhow::{Context, Result};
use br_ex::Content;
use first_boot::report::{Ending, Entry};
use nmstate::NetworkPolicy;
use node_network::{Aim, NetworkState, Outcome};

use crate::disk::Disk;
use crate::node::{Change, Node};
use crate::prepare::{self, Prepared, Rules};
use crate::{confirm, saved, take_back};

pub(crate) fn apply(
    disk: &Disk,
    node: &impl Node,
    boot_id: &str,
    rules: &Rules,
    (aim, patience): (&Aim, Duration),
    entry: &mut Entry,
) -> Result<()> {
    let Some(prepared) = prepare::choose(disk, node, boot_id, rules, entry)? else {
        return Ok(());
    };
    let file = prepared.candidate.file.clone();
    let desired = match desired(&prepared) {
        Ok(desired) => desired,
        Err(error) => {
            entry.result = Ending::Refused;
            entry.message = format!("{file}: {error:#}").into();
            return Ok(());
        }
    };
    let attempt = match prepared.begun.clone() {
        Some(begun) => begun,
        None => prepare::begin(disk, node, boot_id, &prepared, None, entry)?,
    };
    let record = saved::record(disk, boot_id);
    let change = Change { desired: &desired, aim, patience, label: &file, record };
    let outcome = node.change(&change);
    entry.network = node.state().ok().as_ref().and_then(prepare::shown);
    match &outcome {
        Outcome::Committed { .. } => {
            confirm::write_flag(disk, &prepared.candidate.bytes)?;
            entry.result = Ending::Confirmed;
            entry.message = format!("br-ex of {file} is up and carries the node").into();
        }
        Outcome::Refused { .. } => {
            entry.restored = Some(take_back::restore(disk, node, &attempt, boot_id)?);
            entry.result = Ending::Refused;
            entry.message = format!("{file}: {outcome}").into();
        }
        Outcome::RolledBack { .. } => {
            entry.restored = Some(take_back::restore(disk, node, &attempt, boot_id)?);
            entry.result = Ending::TakenBack;
            entry.message = format!("br-ex of {file} was taken back: {outcome}").into();
        }
    }
    entry.outcome = Some(outcome);
    Ok(())
}

/// The state to apply. A policy is resolved against the network as it is.
fn desired(prepared: &Prepared) -> Result<NetworkState> {
    match prepared.document.content().context("nmstate cannot read it")? {
        Content::State(state) => Ok((**state).clone()),
        Content::Policy(policy) => {
            let mut policy: NetworkPolicy = (**policy).clone();
            let current = prepared.before.clone();
            policy.current = Some(current.context("a policy needs the network state")?);
            NetworkState::try_from(policy).context("resolving its captures")
        }
    }
}
