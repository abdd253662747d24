//! An attempt on the disk: profiles and files as they were before, and what must be known to restore
//! them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use first_boot::{Attempt, DocumentHash, Ownership, ProfileKeys, Scope, Tries};
use node_network::RecordFile;
use node_network::network_manager::ActiveProfile;

use crate::disk::{Content, Disk};
use crate::layout::{
    ATTEMPT, ATTEMPT_DRAFT, ATTEMPT_ENDED, DISPATCHER, HOSTNAME, MANAGER_STATE, PROFILES,
    PROFILES_OF_BOOT, STAGING, TRIES,
};

/// The folders of profiles and the names under which they are saved.
const FOLDERS: [(&str, &str); 2] = [(PROFILES, "etc"), (PROFILES_OF_BOOT, "run")];
const RECORD: &str = "attempt.json";
const DOCUMENT: &str = "document";
/// Below it, files beside the profiles have their full paths.
const FILES: &str = "files";
const CHANGE: &str = "change.json";

/// Saves the profiles and starts an attempt. It exists completely or not at all.
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
    for path in attempt.scope.iter().flat_map(other_files) {
        if let Some(content) = disk.content(&path)? {
            disk.put(&format!("{ATTEMPT_DRAFT}/{FILES}{path}"), &content)?;
        }
    }
    disk.write(&format!("{ATTEMPT_DRAFT}/{DOCUMENT}"), document, 0o600)?;
    let record = serde_json::to_vec_pretty(attempt).context("recording the attempt")?;
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
            "{path} has version {}, this program supports {}; use the program that started the attempt",
            attempt.version,
            Attempt::VERSION
        );
    }
    Ok(Some(attempt))
}

/// The document of the attempt, as it was when the attempt started. The one in the folder of
/// documents may have been replaced since.
pub(crate) fn document(disk: &Disk, attempt: &Attempt) -> Result<Vec<u8>> {
    let path = format!("{ATTEMPT}/{DOCUMENT}");
    let bytes = disk.read(&path)?.with_context(|| format!("{path} is gone"))?;
    ensure!(DocumentHash::of(&bytes) == attempt.sha256, "{path} is damaged");
    Ok(bytes)
}

/// When files are restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Running,
    /// Before NetworkManager starts.
    BeforeStart,
}

/// The result of restoring files, and what remains to be done.
#[derive(Debug, Default)]
pub(crate) struct RestoredFiles {
    /// Paths that were written or removed.
    pub(crate) changed: Vec<String>,
    /// UUIDs of profiles whose file was written.
    pub(crate) profiles: BTreeSet<String>,
    /// Profiles of the attempt's interfaces that were in use before.
    pub(crate) in_use: Vec<ActiveProfile>,
    /// Whether global name servers were changed; only NetworkManager itself can restore them while
    /// it runs.
    pub(crate) dns_changed: bool,
}

/// Restores profiles and files that the attempt may have changed, and removes those that it
/// created. Files of other programs stay as they are. Profiles of a boot are restored in that boot
/// only.
pub(crate) fn restore(
    disk: &Disk,
    attempt: &Attempt,
    boot_id: &str,
    moment: Moment,
) -> Result<RestoredFiles> {
    let mut restored =
        RestoredFiles { changed: unstage(disk, attempt)?, ..RestoredFiles::default() };
    let folders = FOLDERS
        .into_iter()
        .filter(|(folder, _)| *folder != PROFILES_OF_BOOT || attempt.boot_id == boot_id);
    let mut saved = BTreeMap::new();
    for (folder, name) in folders.clone() {
        saved.insert(folder, read_profiles(disk, &format!("{ATTEMPT}/{name}"))?);
    }
    let keys: Vec<ProfileKeys> =
        saved.values().flatten().filter_map(|(_, stored)| stored.keys.clone()).collect();
    let owner = Ownership::new(attempt.scope.as_ref(), &keys, &attempt.active_profiles);
    for (folder, _) in folders {
        let saved = &saved[folder];
        let current = read_profiles(disk, folder)?;
        for (file, now) in &current {
            if !saved.contains_key(file) && owner.created(file, now.keys.as_ref()) {
                let path = format!("{folder}/{file}");
                disk.remove(&path)?;
                restored.changed.push(path);
            }
        }
        for (file, was) in saved {
            let now = current.get(file);
            let differs = now.is_none_or(|now| now.content != was.content);
            let now = now.and_then(|now| now.keys.as_ref());
            if differs && owner.restores(file, was.keys.as_ref(), now) {
                let path = format!("{folder}/{file}");
                disk.put(&path, &was.content)?;
                restored.changed.push(path);
                restored.profiles.extend(was.keys.iter().map(|keys| keys.uuid.clone()));
            }
        }
    }
    restore_files(disk, attempt, moment, &mut restored)?;
    let in_use = attempt.active_profiles.iter().filter(|profile| owner.uses(profile));
    restored.in_use = in_use.cloned().collect();
    Ok(restored)
}

/// A file of a folder of profiles, and the profile in it.
struct Stored {
    content: Content,
    keys: Option<ProfileKeys>,
}

fn read_profiles(disk: &Disk, folder: &str) -> Result<BTreeMap<String, Stored>> {
    let mut profiles = BTreeMap::new();
    for file in disk.names(folder)? {
        if let Some(content) = disk.content(&format!("{folder}/{file}"))? {
            let keys = match &content {
                Content::File { bytes, .. } => ProfileKeys::parse(bytes),
                Content::Link { .. } => None,
            };
            profiles.insert(file, Stored { content, keys });
        }
    }
    Ok(profiles)
}

/// Files beside the profiles that the document may change.
fn other_files(scope: &Scope) -> Vec<String> {
    let scripts = scope.interfaces.iter().flat_map(|interface| {
        ["up", "down"].map(|event| format!("{DISPATCHER}/nmstate-{interface}-{event}.sh"))
    });
    let hostname = scope.hostname.then(|| HOSTNAME.to_owned());
    let dns = scope.dns.then(|| MANAGER_STATE.to_owned());
    scripts.chain(hostname).chain(dns).collect()
}

fn restore_files(
    disk: &Disk,
    attempt: &Attempt,
    moment: Moment,
    restored: &mut RestoredFiles,
) -> Result<()> {
    let Some(scope) = &attempt.scope else { return Ok(()) };
    for path in other_files(scope) {
        let was = disk.content(&format!("{ATTEMPT}/{FILES}{path}"))?;
        if disk.content(&path)? == was {
            continue;
        }
        // NetworkManager would write its own state over the file.
        if path == MANAGER_STATE && moment == Moment::Running {
            restored.dns_changed = true;
            continue;
        }
        match was {
            Some(was) => disk.put(&path, &was)?,
            None => disk.remove(&path)?,
        }
        restored.changed.push(path);
    }
    Ok(())
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

/// Where the transaction records how to roll back: it ends with the attempt.
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
