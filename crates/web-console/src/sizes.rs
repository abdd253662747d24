//! Sizes of what configurations select, determined in the background and kept.
//!
//! ```text
//! configuration ──parts::split──▶ parts ──dry run of each──▶ plans ──measured──▶ sums
//! working-dir/console/sizes/<digest of the part>.json
//! ```
//!
//! A dry run is a process of its own with a workspace of its own, so the real one is neither locked
//! nor changed. What is kept is a cache: sizes of tags that move are those at the displayed time.

pub(crate) mod measured;
pub(crate) mod parts;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use image_set::ImageSetConfiguration;
use jiff::Timestamp;
use mirror::{StoredPlan, StoredPlanError};
use oci::Digest;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use workspace::Workspace;
use workspace::atomic_file::{self, Durability};

use crate::commands::errors;
use crate::view::chain;
use measured::{Estimate, Found, MeasuredPart, estimate};
use parts::{Part, split};

/// The largest catalogs take minutes; what takes longer does not respond.
const PATIENCE: Duration = Duration::from_secs(2 * 60 * 60);
/// The end of a log that is read for errors.
const MAX_LOG: u64 = 64 << 10;
/// Parts that are kept; the oldest are removed first.
const KEPT: usize = 100;
const MAX_FILE: u64 = 256 << 20;
/// Folders of dry runs, and when one is left over from a console that was killed.
const SCRATCH: &str = "measuring-";
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// How far a part is.
#[derive(Debug, Clone)]
enum PartState {
    Waiting,
    Measured(Arc<MeasuredPart>),
    Failed(String),
}

/// Which parts to determine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Those that were never tried.
    New,
    /// All of them, as registries have them now.
    All,
}

#[derive(Debug)]
pub(crate) struct Sizes {
    program: PathBuf,
    workspace: Workspace,
    /// How source registries are reached.
    flags: Vec<String>,
    known: Mutex<BTreeMap<Digest, PartState>>,
    /// One at a time: each loads the registries enough.
    turn: Semaphore,
}

impl Sizes {
    pub(crate) fn new(program: &Path, workspace: &Workspace, flags: Vec<String>) -> Self {
        Self {
            program: program.to_owned(),
            workspace: workspace.clone(),
            flags,
            known: Mutex::default(),
            turn: Semaphore::new(1),
        }
    }

    /// What is known of a configuration. Blocks.
    pub(crate) fn estimate(&self, set: &ImageSetConfiguration) -> Result<Estimate, String> {
        let parts = split(set)?;
        let states: Vec<Option<PartState>> =
            parts.iter().map(|part| self.state(&part.digest())).collect();
        let found: Vec<_> = parts
            .iter()
            .zip(&states)
            .map(|(part, state)| {
                let found = match state {
                    None => Found::Unknown,
                    Some(PartState::Waiting) => Found::Waiting,
                    Some(PartState::Failed(why)) => Found::Failed(why),
                    Some(PartState::Measured(part)) => Found::Measured(part),
                };
                (part.kind, found)
            })
            .collect();
        let blobs = self.workspace.blobs();
        // What cannot be determined counts as absent: it is fetched, at worst.
        Ok(estimate(&found, |blob| blobs.has(&blob.digest, Some(blob.size)).unwrap_or(false)))
    }

    /// Starts to determine sizes. Blocks only to read what is kept.
    pub(crate) fn start(
        self: &Arc<Self>,
        set: &ImageSetConfiguration,
        wanted: Wanted,
    ) -> Result<(), String> {
        for part in split(set)? {
            let digest = part.digest();
            match (self.state(&digest), wanted) {
                (Some(PartState::Waiting), _) | (Some(_), Wanted::New) => continue,
                _ => {}
            }
            self.known().insert(digest, PartState::Waiting);
            let sizes = Arc::clone(self);
            Handle::current().spawn(async move {
                let state = match sizes.measure(&part).await {
                    Ok(measured) => PartState::Measured(Arc::new(measured)),
                    Err(why) => PartState::Failed(why),
                };
                sizes.known().insert(digest, state);
            });
        }
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Digest, PartState>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self, digest: &Digest) -> Option<PartState> {
        if let Some(state) = self.known().get(digest) {
            return Some(state.clone());
        }
        let mut text = Vec::new();
        File::open(self.path(digest)).ok()?.take(MAX_FILE).read_to_end(&mut text).ok()?;
        let state = PartState::Measured(Arc::new(MeasuredPart::parse(&text)?));
        self.known().insert(*digest, state.clone());
        Some(state)
    }

    fn folder(&self) -> PathBuf {
        self.workspace.working_dir().join("console/sizes")
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder().join(format!("{}.json", digest.hex()))
    }

    /// Plans a part, and keeps what it consists of.
    async fn measure(&self, part: &Part) -> Result<MeasuredPart, String> {
        let _turn = self.turn.acquire().await.map_err(|error| error.to_string())?;
        let folder = self.folder();
        let prepare = |error: io::Error| format!("writing in {}: {error}", folder.display());
        let scratch = scratch(&folder).map_err(prepare)?;
        let config = scratch.path().join("part.yaml");
        fs::write(&config, &part.text).map_err(prepare)?;
        let log = scratch.path().join("log.txt");
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(&config).args(["--dry-run", "-o", "json"]).args(&self.flags);
        command.arg(format!("file://{}", scratch.path().join("plan").display()));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log).map_err(prepare)?).kill_on_drop(true);
        let ended = tokio::time::timeout(PATIENCE, command.status()).await;
        ended
            .map_err(|_| format!("no result within {} minutes", PATIENCE.as_secs() / 60))?
            .map_err(|error| format!("running {}: {error}", self.program.display()))?;
        let (kind, path) = (part.kind, self.path(&part.digest()));
        let read = move || {
            let plan = Workspace::open(&scratch.path().join("plan")).dry_run().join("plan.json");
            let plan = match StoredPlan::read(&plan) {
                Ok(plan) => plan,
                // Nothing could be planned; the log tells why.
                Err(StoredPlanError::Read { .. }) => return Err(errors(&end_of(&log))),
                Err(error) => return Err(chain(&error)),
            };
            let measured = MeasuredPart::of(&plan, kind, Timestamp::now());
            keep(&path, &measured);
            Ok(measured)
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())?
    }
}

/// A folder for one dry run, which is removed with the value. Removes those that others left.
fn scratch(folder: &Path) -> io::Result<TempDir> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)?.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(SCRATCH);
        if is_ours && age(&entry).is_some_and(|age| age > ABANDONED) {
            // Another console may be removing it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    tempfile::Builder::new().prefix(SCRATCH).tempdir_in(folder)
}

fn age(entry: &fs::DirEntry) -> Option<Duration> {
    SystemTime::now().duration_since(entry.metadata().ok()?.modified().ok()?).ok()
}

/// Writes what later consoles read. Without it they determine the size again.
fn keep(path: &Path, measured: &MeasuredPart) {
    let written =
        serde_json::to_vec(measured).map_err(|error| error.to_string()).and_then(|text| {
            atomic_file::write(path, &text, Durability::Later).map_err(|error| error.to_string())
        });
    if let Err(error) = written {
        tracing::warn!("keeping sizes in {}: {error}", path.display());
    }
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    let mut files: Vec<fs::DirEntry> = entries.into_iter().flatten().flatten().collect();
    files.retain(|entry| entry.path().extension().is_some_and(|extension| extension == "json"));
    files.sort_by_key(age);
    for old in files.iter().skip(KEPT) {
        let _ = fs::remove_file(old.path());
    }
}

fn end_of(log: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_LOG)))?;
        let mut bytes = Vec::new();
        file.take(MAX_LOG).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_else(|error| format!("reading the log: {error}"))
}
