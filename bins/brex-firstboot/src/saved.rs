//! An attempt on the disk: the profiles as they were before, and what must be known to put them
//! back.

use anyhow::{Context, Result, bail, ensure};
use first_boot::{Attempt, DocumentHash, Tries};
use node_network::RecordFile;

use crate::disk::Disk;
use crate::layout::{
    ATTEMPT, ATTEMPT_DRAFT, ATTEMPT_ENDED, PROFILES, PROFILES_OF_BOOT, STAGING, TRIES,
};

/// The folders of profiles and the names under which they are saved.
const FOLDERS: [(&str, &str); 2] = [(PROFILES, "etc"), (PROFILES_OF_BOOT, "run")];
const RECORD: &str = "attempt.json";
const DOCUMENT: &str = "document";
const CHANGE: &str = "change.json";

/// Saves the profiles and begins an attempt. It is there whole or not at all.
pub(crate) fn begin(disk: &Disk, attempt: &Attempt, document: &[u8]) -> Result<()> {
    disk.remove_folder(ATTEMPT_DRAFT)?;
    disk.remove_folder(ATTEMPT_ENDED)?;
    disk.make_folder(ATTEMPT_DRAFT)?;
    for (folder, name) in FOLDERS {
        disk.make_folder(&format!("{ATTEMPT_DRAFT}/{name}"))?;
        for profile in disk.names(folder)? {
            if let Some(content) = disk.content(&format!("{folder}/{profile}"))? {
                disk.put(&format!("{ATTEMPT_DRAFT}/{name}/{profile}"), &content)?;
            }
        }
    }
    disk.write(&format!("{ATTEMPT_DRAFT}/{DOCUMENT}"), document, 0o600)?;
    let record = serde_json::to_vec_pretty(attempt).context("writing the attempt down")?;
    disk.write(&format!("{ATTEMPT_DRAFT}/{RECORD}"), &record, 0o600)?;
    Ok(disk.rename(ATTEMPT_DRAFT, ATTEMPT)?)
}

/// The attempt that has not ended.
pub(crate) fn current(disk: &Disk) -> Result<Option<Attempt>> {
    let path = format!("{ATTEMPT}/{RECORD}");
    let Some(bytes) = disk.read(&path)? else {
        if disk.exists(ATTEMPT) {
            bail!("{ATTEMPT} is there without its {RECORD}; it was not made by this program");
        }
        return Ok(None);
    };
    let attempt: Attempt =
        serde_json::from_slice(&bytes).with_context(|| format!("reading {path}"))?;
    if attempt.version != Attempt::VERSION {
        bail!(
            "{path} has version {}, this program knows {}; use the program that began the attempt",
            attempt.version,
            Attempt::VERSION
        );
    }
    Ok(Some(attempt))
}

/// The document of the attempt, as it was when the attempt began. The one in the folder of documents
/// may have been replaced since.
pub(crate) fn document(disk: &Disk, attempt: &Attempt) -> Result<Vec<u8>> {
    let path = format!("{ATTEMPT}/{DOCUMENT}");
    let bytes = disk.read(&path)?.with_context(|| format!("{path} is gone"))?;
    ensure!(DocumentHash::of(&bytes) == attempt.sha256, "{path} is damaged");
    Ok(bytes)
}

/// Puts every profile back as it was, and removes those that were not there. Profiles of the boot
/// are put back in the boot they belong to. Returns what was changed.
pub(crate) fn restore(disk: &Disk, attempt: &Attempt, boot_id: &str) -> Result<Vec<String>> {
    let mut changed = unstage(disk, attempt)?;
    for (folder, name) in FOLDERS {
        if folder == PROFILES_OF_BOOT && attempt.boot_id != boot_id {
            continue;
        }
        let saved = disk.names(&format!("{ATTEMPT}/{name}"))?;
        for profile in disk.names(folder)? {
            let path = format!("{folder}/{profile}");
            if !saved.contains(&profile) && disk.content(&path)?.is_some() {
                disk.remove(&path)?;
                changed.push(path);
            }
        }
        for profile in saved {
            let path = format!("{folder}/{profile}");
            let was = disk.content(&format!("{ATTEMPT}/{name}/{profile}"))?;
            if let Some(was) = was
                && disk.content(&path)?.as_ref() != Some(&was)
            {
                disk.put(&path, &was)?;
                changed.push(path);
            }
        }
    }
    Ok(changed)
}

/// Removes the staged document and nmstate's note that it was applied: with the note, nmstate
/// would pass over the same document the next time.
fn unstage(disk: &Disk, attempt: &Attempt) -> Result<Vec<String>> {
    let mut changed = Vec::new();
    let Some(staged) = &attempt.staged_as else { return Ok(changed) };
    for path in [format!("{STAGING}/{staged}"), applied_note(staged)] {
        if disk.exists(&path) {
            disk.remove(&path)?;
            changed.push(path);
        }
    }
    Ok(changed)
}

/// Where nmstate.service notes that it applied a staged document.
pub(crate) fn applied_note(staged: &str) -> String {
    let stem = staged.strip_suffix(".yml").unwrap_or(staged);
    format!("{STAGING}/{stem}.applied")
}

/// Ends the attempt in one step.
pub(crate) fn end(disk: &Disk) -> Result<()> {
    if !disk.exists(ATTEMPT) {
        return Ok(());
    }
    disk.remove_folder(ATTEMPT_ENDED)?;
    disk.rename(ATTEMPT, ATTEMPT_ENDED)?;
    Ok(disk.remove_folder(ATTEMPT_ENDED)?)
}

/// Where the transaction records its way back: it ends with the attempt.
pub(crate) fn record(disk: &Disk, boot_id: &str) -> RecordFile {
    RecordFile::new(disk.path(&format!("{ATTEMPT}/{CHANGE}")), boot_id)
}

pub(crate) fn tries(disk: &Disk) -> Result<Tries> {
    match disk.read(TRIES)? {
        Some(bytes) => serde_json::from_slice(&bytes)
            .with_context(|| format!("reading {TRIES}; remove it to count from the beginning")),
        None => Ok(Tries::default()),
    }
}

pub(crate) fn write_tries(disk: &Disk, tries: &Tries) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(tries).context("writing tries down")?;
    Ok(disk.write(TRIES, &bytes, 0o600)?)
}
