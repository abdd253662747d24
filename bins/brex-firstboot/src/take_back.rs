//! Takes an attempt back: the profiles as they were, and NetworkManager using them.

use anyhow::Result;
use first_boot::Attempt;
use first_boot::report::Restored;

use crate::disk::Disk;
use crate::node::Node;
use crate::saved;

/// Puts the files back, then makes NetworkManager use what it used, then ends the attempt. Run
/// again after a crash, it does what is left to do.
pub(crate) fn restore(
    disk: &Disk,
    node: &impl Node,
    attempt: &Attempt,
    boot_id: &str,
) -> Result<Restored> {
    let mut restored =
        Restored { files: saved::restore(disk, attempt, boot_id)?, ..Restored::default() };
    match node.use_profiles(&attempt.active_profiles) {
        Ok(missing) => {
            restored.not_in_use = missing
                .into_iter()
                .map(|profile| format!("{} on {}", profile.name, profile.device))
                .collect();
        }
        // The files are right; the next start of NetworkManager reads them.
        Err(error) => restored.problem = Some(format!("{error:#}").into()),
    }
    saved::end(disk)?;
    Ok(restored)
}
