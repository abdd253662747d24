//! `apply`: all of it in one transaction of our own.

use anyhow::Result;
use first_boot::report::{Ending, Entry};
use node_network::Outcome;

use crate::confirm::{self, Waiting};
use crate::disk::Disk;
use crate::node::{Change, Node};
use crate::prepare::{self, Rules};
use crate::{facts_of_boot, rollback, saved};

pub(crate) fn apply(
    disk: &Disk,
    node: &impl Node,
    boot_id: &str,
    rules: &Rules,
    waiting: &Waiting,
    entry: &mut Entry,
) -> Result<()> {
    let Some(prepared) = prepare::choose(disk, node, boot_id, rules, entry)? else {
        return Ok(());
    };
    let file = prepared.candidate.file.clone();
    let attempt = match prepared.begun.clone() {
        Some(begun) => begun,
        None => prepare::begin(disk, node, boot_id, &prepared, None, entry)?,
    };
    let record = saved::record(disk, boot_id);
    let desired = &prepared.desired;
    let demand = attempt.demand.as_ref();
    let expected = &facts_of_boot::expected(disk, demand, waiting.api_server.as_ref())?;
    let change = Change { desired, expected, patience: waiting.patience, label: &file, record };
    let outcome = node.change(&change);
    entry.network = node.state().ok().as_ref().and_then(prepare::network_report);
    match &outcome {
        Outcome::Committed { .. } => {
            confirm::write_flag(disk, &prepared.candidate.bytes)?;
            entry.result = Ending::Confirmed;
            entry.message = format!("br-ex of {file} is up and connects the node").into();
        }
        Outcome::Refused { .. } => {
            entry.restored = Some(rollback::roll_back(disk, node, &attempt, boot_id)?);
            entry.result = Ending::Refused;
            entry.message = format!("{file}: {outcome}").into();
        }
        Outcome::RolledBack { .. } => {
            entry.restored = Some(rollback::roll_back(disk, node, &attempt, boot_id)?);
            entry.result = Ending::TakenBack;
            entry.message = format!("br-ex of {file} was rolled back: {outcome}").into();
        }
    }
    entry.outcome = Some(outcome);
    Ok(())
}
