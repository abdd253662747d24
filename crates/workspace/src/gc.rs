//! Frees content that nothing needs any more.
//!
//! Needed is: every image that the newest run of each configuration selects, documents, and what
//! the records of targets name. Images that a configuration selected once and no longer does lose
//! their record and layouts; images that no run mentions are left alone. Lists of releases and
//! files of catalogs stay: they are small, and deleting from a target selects by them.
//!
//! Records are removed before content, with a sync in between, so that neither a kill nor a power
//! cut leaves a record without content.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use mirror_plan::Origin;
use oci::Digest;
use serde::Deserialize;

use crate::Workspace;
use crate::disk_error::{At, DiskError, unless_absent};
use crate::lock::Lock;
use crate::records::RecordError;
use crate::runs::RunStatus;
use crate::verify::content;

/// Where images are laid out under further names.
const LAYOUTS: [&str; 4] = [
    "release-images",
    "operator-images",
    "working-dir/release-images",
    "working-dir/graph-preparation",
];

/// What would be freed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GarbagePlan {
    /// Images that no configuration selects any more, and their directories.
    pub images: Vec<(Origin, PathBuf)>,
    /// Directories under further names, of images that are no longer held.
    pub layouts: Vec<PathBuf>,
    /// Content, with its length.
    pub blobs: Vec<(Digest, u64)>,
    /// Downloads that no run will continue, with their length.
    pub partial: Vec<(PathBuf, u64)>,
    pub images_kept: usize,
    pub bytes_kept: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum GarbageError {
    #[error("{} is not a workspace: expected blobs, images and working-dir in it", .0.display())]
    NotAWorkspace(PathBuf),
    /// What an unreadable record needs is unknown, so nothing can be freed.
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl GarbagePlan {
    pub fn bytes(&self) -> u64 {
        let blobs = self.blobs.iter().map(|(_, size)| size);
        blobs.chain(self.partial.iter().map(|(_, size)| size)).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
            && self.layouts.is_empty()
            && self.blobs.is_empty()
            && self.partial.is_empty()
    }
}

impl Workspace {
    /// Finds what nothing needs. Changes nothing.
    ///
    /// # Errors
    ///
    /// A directory that is not a workspace; a record that cannot be read.
    pub fn plan_garbage(&self) -> Result<GarbagePlan, GarbageError> {
        self.plan_garbage_without(&BTreeSet::new())
    }

    /// The same, as if no configuration selected the images from `origins`.
    ///
    /// # Errors
    ///
    /// As for [`Self::plan_garbage`].
    pub fn plan_garbage_without(
        &self,
        origins: &BTreeSet<Origin>,
    ) -> Result<GarbagePlan, GarbageError> {
        if !self.exists() {
            return Err(GarbageError::NotAWorkspace(self.root().to_owned()));
        }
        let mut plan = GarbagePlan::default();
        let dropped = self.dropped()?;
        let mut needed = self.digests_of_targets()?;
        needed.extend(self.documents()?.into_values().map(|document| document.blob.digest));
        let mut roots = BTreeSet::new();
        for record in self.records()? {
            let record = record?;
            if dropped.contains(&record.origin.to_string()) || origins.contains(&record.origin) {
                let layout = self.layout_of(&record.origin);
                plan.images.push((record.origin, layout));
            } else {
                plan.images_kept += 1;
                roots.insert(record.tree.root().digest);
                needed.extend(content(&record));
            }
        }
        plan.layouts = self.stale_layouts(&roots)?;
        for (digest, size) in self.held()? {
            if needed.contains(&digest) {
                plan.bytes_kept += size;
            } else {
                plan.blobs.push((digest, size));
            }
        }
        plan.partial = self.stale_partial()?;
        Ok(plan)
    }

    /// Frees what a plan names. The plan must have been made under the same lock.
    ///
    /// # Errors
    ///
    /// The disk. What was freed until then stays freed; the next collection continues.
    pub fn free_garbage(&self, _lock: &Lock, plan: &GarbagePlan) -> Result<(), DiskError> {
        for (_, layout) in &plan.images {
            let record = layout.join(crate::records::FILE);
            unless_absent(fs::remove_file(&record)).at("removing", &record)?;
        }
        self.sync()?;
        for layout in plan.images.iter().map(|(_, layout)| layout).chain(&plan.layouts) {
            unless_absent(fs::remove_dir_all(layout)).at("removing", layout)?;
            self.remove_empty_parents(layout);
        }
        for (digest, _) in &plan.blobs {
            self.blobs().remove(digest)?;
        }
        for (path, _) in &plan.partial {
            unless_absent(fs::remove_file(path)).at("removing", path)?;
        }
        Ok(())
    }

    fn remove_empty_parents(&self, of: &Path) {
        let inside = of.ancestors().skip(1).take_while(|parent| *parent != self.root());
        for parent in inside {
            // The first that is not empty ends it.
            if fs::remove_dir(parent).is_err() {
                break;
            }
        }
    }

    /// Images that some run selected and that no current configuration does.
    fn dropped(&self) -> Result<BTreeSet<String>, DiskError> {
        let mut selections: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut ever = BTreeSet::new();
        for run in self.runs()? {
            let Some(Selection { configuration, images }) = self.selection(run.number)? else {
                continue;
            };
            ever.extend(images.iter().cloned());
            // A run that did not reach its end selected at least what it names, and perhaps more.
            let is_whole = matches!(run.status, RunStatus::Complete | RunStatus::Partial);
            let current = selections.entry(configuration).or_default();
            if is_whole && !images.is_empty() {
                *current = images;
            } else {
                current.extend(images);
            }
        }
        let selected: BTreeSet<String> = selections.into_values().flatten().collect();
        Ok(ever.difference(&selected).cloned().collect())
    }

    /// What the audit log of a run names. `None`: there is none, or it cannot be understood.
    fn selection(&self, run: u64) -> Result<Option<Selection>, DiskError> {
        let directory = self.logs();
        let prefix = format!("audit-{run:06}-");
        let entries = unless_absent(fs::read_dir(&directory)).at("reading", &directory)?;
        for entry in entries.into_iter().flatten() {
            let entry = entry.at("reading", &directory)?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let path = entry.path();
                return Selection::read(&path).at("reading", &path).map(Some);
            }
        }
        Ok(None)
    }

    /// Every digest that the records of targets name.
    fn digests_of_targets(&self) -> Result<BTreeSet<Digest>, DiskError> {
        let directory = self.working_dir().join("targets");
        let mut named = BTreeSet::new();
        let entries = unless_absent(fs::read_dir(&directory)).at("reading", &directory)?;
        for entry in entries.into_iter().flatten() {
            let path = entry.at("reading", &directory)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let text = fs::read_to_string(&path).at("reading", &path)?;
                named.extend(digests_in(&text));
            }
        }
        Ok(named)
    }

    /// Layouts under further names whose image is not among `roots`.
    fn stale_layouts(&self, roots: &BTreeSet<Digest>) -> Result<Vec<PathBuf>, DiskError> {
        let mut stale = Vec::new();
        for place in LAYOUTS {
            find_layouts(&self.root().join(place), &mut |directory| {
                let index = fs::read_to_string(directory.join("index.json")).unwrap_or_default();
                let mut shown = digests_in(&index).peekable();
                // One that names nothing is not ours to judge.
                if shown.peek().is_some() && !shown.any(|digest| roots.contains(&digest)) {
                    stale.push(directory.to_owned());
                }
            })?;
        }
        Ok(stale)
    }

    /// Downloads of content that is held, or of runs that have ended and left nothing to continue.
    fn stale_partial(&self) -> Result<Vec<(PathBuf, u64)>, DiskError> {
        let last = self.runs()?.into_iter().next_back();
        let is_finished = last.is_none_or(|run| run.status == RunStatus::Complete);
        let directory = self.blobs().root().join("partial");
        let mut stale = Vec::new();
        let entries = unless_absent(fs::read_dir(&directory)).at("reading", &directory)?;
        for entry in entries.into_iter().flatten() {
            let entry = entry.at("reading", &directory)?;
            let digest = format!("sha256:{}", entry.file_name().to_string_lossy()).parse();
            let is_held = match digest {
                Ok(digest) => self.blobs().has(&digest, None)?,
                Err(_) => true,
            };
            if (is_held || is_finished)
                && let Ok(meta) = entry.metadata()
                && meta.is_file()
            {
                stale.push((entry.path(), meta.len()));
            }
        }
        stale.sort();
        Ok(stale)
    }
}

/// What one run selected.
#[derive(Debug, Default)]
struct Selection {
    /// The file name of the configuration.
    configuration: String,
    images: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    configuration: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Selection {
    /// A line that a kill cut short is skipped.
    fn read(path: &Path) -> io::Result<Self> {
        let mut selection = Self::default();
        for line in io::BufReader::new(fs::File::open(path)?).lines() {
            let Ok(line) = serde_json::from_str::<Line>(&line?) else { continue };
            selection.images.extend(line.source);
            if let Some(named) = line.configuration {
                selection.configuration = named.name;
            }
        }
        Ok(selection)
    }
}

/// Digests anywhere in a text.
fn digests_in(text: &str) -> impl Iterator<Item = Digest> {
    text.match_indices("sha256:").filter_map(|(at, name)| {
        text.get(at..at + name.len() + 64).and_then(|digest| digest.parse().ok())
    })
}

/// Calls `found` for each directory with an `index.json`, at most six levels down.
fn find_layouts(below: &Path, found: &mut dyn FnMut(&Path)) -> Result<(), DiskError> {
    fn descend(
        directory: &Path,
        levels: u32,
        found: &mut dyn FnMut(&Path),
    ) -> Result<(), DiskError> {
        if directory.join("oci-layout").is_file() {
            found(directory);
            return Ok(());
        }
        let entries = unless_absent(fs::read_dir(directory)).at("reading", directory)?;
        for entry in entries.into_iter().flatten() {
            let entry = entry.at("reading", directory)?;
            // Links are not followed.
            if levels > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                descend(&entry.path(), levels - 1, found)?;
            }
        }
        Ok(())
    }
    descend(below, 6, found)
}

#[cfg(test)]
mod tests;
