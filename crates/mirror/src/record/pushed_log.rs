//! The record of a target: what runs pushed to it, so that one request per image is enough to know
//! that it is still complete there, and so that a deletion can determine what is used.
//!
//! The record alone is never trusted: a target may be replaced. It states only that everything
//! below a root manifest was pushed with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use mirror_plan::{
    CatalogContent, ConfigurationRun, Destination, ImageEntry, ImageTree, RecordFormatError,
    TargetRecord,
};
use oci::{Digest, RegistryHost, Repository};
use workspace::atomic_file::{self, Durability};
use workspace::{DiskError, Workspace};

/// The record of one target registry.
#[derive(Debug)]
pub(crate) struct Pushed {
    path: PathBuf,
    registry: RegistryHost,
    pub(crate) record: TargetRecord,
    changed: bool,
    /// A newer version of this program wrote it; it is not changed.
    is_newer: bool,
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetRecordError {
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("reading {}", path.display())]
    Format { path: PathBuf, source: RecordFormatError },
}

/// Where the record of a registry is.
pub(crate) fn path_of(workspace: &Workspace, registry: &RegistryHost) -> PathBuf {
    let name = format!("{}.json", registry.as_str().replace(':', "_"));
    workspace.working_dir().join("targets").join(name)
}

/// The record of `registry`, which a deletion depends on; none where there is none.
pub(crate) fn read(
    workspace: &Workspace,
    registry: &RegistryHost,
) -> Result<Option<TargetRecord>, TargetRecordError> {
    let path = path_of(workspace, registry);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(TargetRecordError::Read { path, source }),
    };
    match TargetRecord::read(registry.as_str(), BufReader::new(file)) {
        Ok(record) => Ok(Some(record)),
        Err(source) => Err(TargetRecordError::Format { path, source }),
    }
}

/// The records of other targets than `registry`, as text.
pub(crate) fn of_other_targets(
    workspace: &Workspace,
    registry: &RegistryHost,
) -> Result<Vec<String>, TargetRecordError> {
    let own = path_of(workspace, registry);
    let folder = workspace.working_dir().join("targets");
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| TargetRecordError::Read { path, source }
    };
    let mut texts = Vec::new();
    for entry in fs::read_dir(&folder).map_err(read(&folder))? {
        let path = entry.map_err(read(&folder))?.path();
        if path != own && path.extension().is_some_and(|extension| extension == "json") {
            texts.push(fs::read_to_string(&path).map_err(read(&path))?);
        }
    }
    Ok(texts)
}

impl Pushed {
    /// The record for `registry`; empty when there is none or it cannot be read, which only causes
    /// more requests.
    pub(crate) fn open(workspace: &Workspace, registry: &RegistryHost) -> Self {
        let read = read(workspace, registry);
        let is_newer = matches!(
            read,
            Err(TargetRecordError::Format { source: RecordFormatError::Newer(_), .. })
        );
        let record = read.ok().flatten().unwrap_or_default();
        let (path, registry) = (path_of(workspace, registry), registry.clone());
        Self { path, registry, record, changed: false, is_newer }
    }

    /// Whether `tree`, all of it, was pushed to `place` before.
    pub(crate) fn has(&self, place: &Destination, tree: &ImageTree) -> bool {
        self.record.has(place, tree)
    }

    pub(crate) fn insert(&mut self, place: &Destination, image: ImageEntry<'_>) {
        let known = self.record.images.get(place).and_then(|known| known.details.as_ref());
        let is_same = known.is_some_and(|known| {
            (&known.origin, known.kind) == (image.origin, image.kind) && self.has(place, image.tree)
        });
        if !is_same {
            self.record.insert(place.clone(), image);
            self.changed = true;
        }
    }

    /// Records what catalogs at the target offer.
    pub(crate) fn offer(&mut self, catalogs: BTreeMap<Destination, CatalogContent>) {
        for (place, content) in catalogs {
            let image = self.record.images.get_mut(&place);
            if let Some(details) = image.and_then(|image| image.details.as_mut()) {
                self.changed |= details.catalog.as_ref() != Some(&content);
                details.catalog = Some(content);
            }
        }
    }

    /// Records what a configuration selects.
    pub(crate) fn select(&mut self, run: &ConfigurationRun<'_>) {
        self.record.select(run);
        self.changed = true;
    }

    pub(crate) fn forget(&mut self, place: &Destination) {
        self.changed |= self.record.images.remove(place).is_some();
    }

    /// Records manifests that are about to be deleted, and that nothing else on record leads to.
    pub(crate) fn begin(&mut self, repository: &Repository, manifests: BTreeSet<Digest>) {
        self.record.unfinished.entry(repository.clone()).or_default().extend(manifests);
        self.changed = true;
    }

    /// Records that all of them are deleted.
    pub(crate) fn finish(&mut self, repository: &Repository) {
        self.changed |= self.record.unfinished.remove(repository).is_some();
    }

    pub(crate) fn save(&self) -> Result<(), DiskError> {
        if !self.changed || self.is_newer {
            return Ok(());
        }
        atomic_file::write_with(&self.path, Durability::Later, |file| {
            let mut out = BufWriter::new(file);
            self.record.write(self.registry.as_str(), &mut out)?;
            out.flush()
        })
    }
}
