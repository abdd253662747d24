//! `confirm`: br-ex is as the document has it and connects the node, and the flag is written; or the
//! change is rolled back.

use std::time::Duration;

use anyhow::Result;
use first_boot::report::{Chosen, Ending, Entry};
use node_network::facts::FactName;
use node_network::probe::Endpoint;
use node_network::{ExpectedNetwork, Observation};

use crate::disk::Disk;
use crate::layout::{FLAG, SETTINGS};
use crate::node::Node;
use crate::prepare::network_report;
use crate::{facts_of_boot, rollback, saved};

/// How a network is awaited.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting {
    pub(crate) patience: Duration,
    /// The API server, if it is not that of kubelet's configuration.
    pub(crate) api_server: Option<Endpoint>,
}

/// How long to wait for a bridge that nmstate.service must have created before `confirm` started.
const BRIDGE_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn confirm(
    disk: &Disk,
    node: &impl Node,
    boot_id: &str,
    waiting: &Waiting,
    entry: &mut Entry,
) -> Result<()> {
    rollback::finish_earlier(disk, node, entry);
    if disk.exists(FLAG) {
        entry.message = "br-ex was confirmed before; the flag is there".into();
        // Power may have failed between the flag and the end of the attempt.
        return saved::end(disk);
    }
    let Some(attempt) = saved::current(disk)? else {
        entry.message = "nothing was staged; there is nothing to confirm".into();
        return Ok(());
    };
    entry.document = Some(Chosen {
        file: attempt.document.clone(),
        sha256: attempt.sha256.clone(),
        because: "it was staged".into(),
    });
    let reason = if attempt.boot_id == boot_id {
        let demand = attempt.demand.as_ref();
        let expected = facts_of_boot::expected(disk, demand, waiting.api_server.as_ref())?;
        let seen = wait(node, &expected, waiting.patience);
        entry.network = node.state().ok().as_ref().and_then(network_report);
        let failures = (!seen.is_good()).then(|| seen.failures().to_string());
        entry.observation = Some(seen);
        failures
    } else {
        Some("it was staged in an earlier boot that was interrupted".to_owned())
    };
    match reason {
        None => {
            write_flag(disk, &saved::document(disk, &attempt)?)?;
            entry.result = Ending::Confirmed;
            entry.message =
                format!("br-ex of {} is up and connects the node", attempt.document).into();
        }
        Some(reason) => {
            entry.restored = Some(rollback::roll_back(disk, node, &attempt, boot_id)?);
            entry.result = Ending::TakenBack;
            entry.message =
                format!("br-ex of {} was rolled back: {reason}", attempt.document).into();
        }
    }
    Ok(())
}

/// With the flag the new network is kept. Everything before it can be rolled back.
pub(crate) fn write_flag(disk: &Disk, document: &[u8]) -> Result<()> {
    // With the flag and without these profiles, the node would have no network at its next boot.
    disk.sync_others()?;
    disk.write(FLAG, document, 0o644)?;
    // Settings of an earlier rollback are those of a network that is given up now.
    disk.remove(SETTINGS)?;
    saved::end(disk)
}

/// nmstate.service has ended before this check starts: a missing bridge does not appear later. The
/// address may: DHCP leases take time.
fn wait(node: &impl Node, expected: &ExpectedNetwork, patience: Duration) -> Observation {
    let first = node.observe(expected, patience.min(BRIDGE_PATIENCE));
    let bridge = |seen: &Observation| {
        seen.facts.iter().any(|fact| fact.name == FactName::Bridge && fact.holds)
    };
    if first.is_good() || !bridge(&first) || patience <= BRIDGE_PATIENCE {
        return first;
    }
    node.observe(expected, patience - BRIDGE_PATIENCE)
}
