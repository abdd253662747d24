//! `recover`: before NetworkManager starts, profiles that an interrupted attempt left half old
//! and half new are the old ones again.

use anyhow::Result;
use first_boot::report::{Chosen, Ending, Entry, Restored};

use crate::disk::Disk;
use crate::layout::FLAG;
use crate::saved;

pub(crate) fn recover(disk: &Disk, boot_id: &str, entry: &mut Entry) -> Result<()> {
    if disk.exists(FLAG) {
        entry.message = "br-ex was confirmed; there is nothing to take back".into();
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
    let files = saved::restore(disk, &attempt, boot_id)?;
    saved::end(disk)?;
    entry.document = Some(Chosen {
        file: attempt.document.clone(),
        sha256: attempt.sha256,
        because: "an earlier boot had begun with it".into(),
    });
    entry.restored = Some(Restored { files, ..Restored::default() });
    entry.result = Ending::Recovered;
    entry.message =
        format!("an interrupted attempt with {} was taken back", attempt.document).into();
    Ok(())
}
