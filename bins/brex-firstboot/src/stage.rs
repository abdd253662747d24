//! `stage`: the document of this node, checked, where nmstate.service finds it.

use anyhow::Result;
use first_boot::report::{Ending, Entry};

use crate::disk::Disk;
use crate::layout::STAGING;
use crate::node::Node;
use crate::prepare::{self, Prepared, Rules};
use crate::saved;

pub(crate) fn stage(
    disk: &Disk,
    node: &impl Node,
    boot_id: &str,
    rules: &Rules,
    entry: &mut Entry,
) -> Result<()> {
    let Some(prepared) = prepare::choose(disk, node, boot_id, rules, entry)? else {
        return Ok(());
    };
    // Older versions of nmstate read no other extension.
    let staged_as = format!("{}.yml", prepared.candidate.stem);
    let target = format!("{STAGING}/{staged_as}");
    let there = disk.read(&target)?;
    if let Some(reason) = in_the_way(disk, &prepared, &target, there.as_deref()) {
        entry.result = Ending::Refused;
        entry.message = reason.into();
        return Ok(());
    }
    let bytes = &prepared.candidate.bytes;
    let file = &prepared.candidate.file;
    if prepared.begun.is_some() && there.is_some() {
        entry.result = Ending::AlreadyStaged;
        entry.message = format!("{file} is staged already").into();
        return Ok(());
    }
    if prepared.begun.is_none() {
        prepare::begin(disk, node, boot_id, &prepared, Some(staged_as.clone()), entry)?;
    }
    // nmstate skips a document that it has noted as applied.
    disk.remove(&saved::applied_note(&staged_as))?;
    match node.remove_stale_bridge(br_ex::BRIDGE) {
        Ok(true) => entry.notes.push("removed br-ex of an earlier configure-ovs".into()),
        Ok(false) => {}
        Err(error) => entry.notes.push(format!("removing an earlier br-ex: {error:#}").into()),
    }
    if there.is_none() {
        disk.write(&target, bytes, 0o600)?;
    }
    entry.result = Ending::Staged;
    entry.message = format!("{file} is staged as {target}").into();
    Ok(())
}

/// What keeps the document from being staged.
fn in_the_way(
    disk: &Disk,
    prepared: &Prepared,
    target: &str,
    there: Option<&[u8]>,
) -> Option<String> {
    let file = &prepared.candidate.file;
    let twin = format!("{STAGING}/{}.yaml", prepared.candidate.stem);
    if disk.exists(&twin) {
        return Some(format!(
            "{twin} conflicts with {file}: nmstate would read both; remove it from the node"
        ));
    }
    let differs = there.is_some_and(|there| there != prepared.candidate.bytes);
    differs.then(|| format!("{target} already exists and differs from {file}; remove one of them"))
}
