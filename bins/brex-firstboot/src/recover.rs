//! `recover`: before NetworkManager starts, restores profiles that an interrupted attempt left half
//! old and half new.

use anyhow::Result;
use first_boot::report::{Chosen, Ending, Entry};

use crate::disk::Disk;
use crate::layout::FLAG;
use crate::{rollback, saved};

pub(crate) fn recover(disk: &Disk, boot_id: &str, entry: &mut Entry) -> Result<()> {
    if disk.exists(FLAG) {
        entry.message = "br-ex was confirmed; there is nothing to roll back".into();
        // Power may have failed between the flag and the end of the attempt.
        return saved::end(disk);
    }
    let Some(attempt) = saved::current(disk)? else {
        entry.message = "no attempt was interrupted".into();
        return Ok(());
    };
    if attempt.boot_id == boot_id {
        entry.message = "an attempt of this boot is under way; `confirm` ends it".into();
        return Ok(());
    }
    entry.restored = Some(rollback::roll_back_at_start(disk, &attempt, boot_id)?);
    entry.document = Some(Chosen {
        file: attempt.document.clone(),
        sha256: attempt.sha256,
        because: "an earlier boot started it".into(),
    });
    entry.result = Ending::Recovered;
    entry.message =
        format!("an interrupted attempt with {} was rolled back", attempt.document).into();
    Ok(())
}
