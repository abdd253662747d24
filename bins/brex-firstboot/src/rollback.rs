//! Rolls an attempt back: the previous profiles, files and settings, and NetworkManager using them.

use anyhow::{Context, Result};
use first_boot::Attempt;
use first_boot::report::{Entry, Restored};
use node_network::NetworkState;

use crate::disk::Disk;
use crate::layout::SETTINGS;
use crate::node::Node;
use crate::saved::{self, Moment};

/// Restores files, then activates the previous profiles, then restores settings that are not in
/// files, then ends the attempt. After a crash it can be repeated.
pub(crate) fn roll_back(
    disk: &Disk,
    node: &impl Node,
    attempt: &Attempt,
    boot_id: &str,
) -> Result<Restored> {
    let files = saved::restore(disk, attempt, boot_id, Moment::Running)?;
    let mut problems = Vec::new();
    let mut restored = Restored { files: files.changed, ..Restored::default() };
    match node.use_profiles(&files.in_use, &files.profiles) {
        Ok(missing) => {
            restored.not_in_use = missing
                .into_iter()
                .map(|profile| format!("{} on {}", profile.name, profile.device))
                .collect();
        }
        // The files are restored; NetworkManager reads them at its next start.
        Err(error) => problems.push(format!("{error:#}")),
    }
    if let Some(settings) = &attempt.settings {
        let mut settings = settings.clone();
        // Name servers of a profile were restored with it.
        if !files.dns_changed {
            settings.dns = None;
        }
        write_settings(disk, &settings)?;
        if let Err(error) = restore_settings(disk, node) {
            problems.push(format!("{error:#}"));
        }
    }
    restored.problem = (!problems.is_empty()).then(|| problems.join("; ").into());
    saved::end(disk)?;
    Ok(restored)
}

/// Rolls an attempt of an earlier boot back before NetworkManager starts. Open vSwitch does not run
/// yet: its settings are restored by the next command.
pub(crate) fn roll_back_at_start(
    disk: &Disk,
    attempt: &Attempt,
    boot_id: &str,
) -> Result<Restored> {
    let files = saved::restore(disk, attempt, boot_id, Moment::BeforeStart)?;
    if let Some(settings) = &attempt.settings {
        let mut settings = settings.clone();
        // The kernel's name ended with the boot; the files of the others are restored.
        (settings.hostname, settings.dns) = (None, None);
        write_settings(disk, &settings)?;
    }
    saved::end(disk)?;
    Ok(Restored { files: files.changed, ..Restored::default() })
}

/// Restores settings that an earlier rollback could not. Failing to do so is only noted: the
/// network itself is restored, and the next boot retries.
pub(crate) fn finish_earlier(disk: &Disk, node: &impl Node, entry: &mut Entry) {
    if let Err(error) = restore_settings(disk, node) {
        entry.notes.push(format!("{error:#}").into());
    }
}

fn write_settings(disk: &Disk, settings: &NetworkState) -> Result<()> {
    if *settings == NetworkState::new() {
        return Ok(());
    }
    let bytes = serde_json::to_vec(settings).context("encoding settings to restore")?;
    Ok(disk.write(SETTINGS, &bytes, 0o600)?)
}

fn restore_settings(disk: &Disk, node: &impl Node) -> Result<()> {
    let Some(bytes) = disk.read(SETTINGS)? else { return Ok(()) };
    let settings: NetworkState =
        serde_json::from_slice(&bytes).with_context(|| format!("reading {SETTINGS}"))?;
    node.restore_settings(&settings)
        .context("restoring settings that the document changed: host name, Open vSwitch, OVN")?;
    Ok(disk.remove(SETTINGS)?)
}
