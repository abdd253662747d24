//! Selects documents and checks them, for `lint` and `report`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;
use enhancement::{Document, Finding, SkippedDocument};

use crate::documents;
use crate::repository::{IGNORE_LIST, Repository, RepositoryFile, TargetCache};

/// Which documents to check.
#[derive(Debug)]
pub(crate) struct Selection<'a> {
    /// Documents and directories.
    pub(crate) paths: &'a [PathBuf],
    /// Only documents that do not exist in this Git revision.
    pub(crate) new_since: Option<&'a str>,
    /// Whether to include documents of the ignore list.
    pub(crate) includes_ignored: bool,
}

/// A document with its findings.
#[derive(Debug)]
pub(crate) struct CheckedDocument {
    /// Relative to the current directory, as its directory was given.
    pub(crate) path: PathBuf,
    /// The top of its repository.
    pub(crate) root: PathBuf,
    /// Relative to `root`.
    pub(crate) path_in_repository: PathBuf,
    pub(crate) document: Document,
    pub(crate) findings: Vec<Finding>,
}

/// Passes each selected document to `receive`, sorted by path, and returns the
/// documents that were skipped.
pub(crate) fn check(
    selection: &Selection<'_>,
    mut receive: impl FnMut(CheckedDocument) -> Result<()>,
) -> Result<Vec<SkippedDocument>> {
    let targets = TargetCache::default();
    let mut repositories: BTreeMap<PathBuf, (Repository, BTreeSet<PathBuf>)> = BTreeMap::new();
    let mut skipped = Vec::new();
    for path in documents::find(selection.paths)? {
        let file = RepositoryFile::locate(&path, &targets)?;
        if !repositories.contains_key(&file.root) {
            let repository = Repository::open(&file.root)?;
            let existing = match selection.new_since {
                Some(revision) => repository.files_at(revision)?,
                None => BTreeSet::new(),
            };
            repositories.insert(file.root.clone(), (repository, existing));
        }
        let (repository, existing) = &repositories[&file.root];
        if existing.contains(&file.path) {
            continue;
        }
        if !selection.includes_ignored && repository.ignores(&file.path) {
            let path = path.display().to_string();
            skipped.push(SkippedDocument { path, reason: format!("listed in {IGNORE_LIST}") });
            continue;
        }
        let document = documents::open(&path)?;
        let findings = document.findings(&file, repository.template());
        let RepositoryFile { root, path: path_in_repository, .. } = file;
        receive(CheckedDocument { path, root, path_in_repository, document, findings })?;
    }
    Ok(skipped)
}
