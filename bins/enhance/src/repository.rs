//! The repository that contains the documents: its files, its history, its
//! ignore list and its template.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Error, Result, bail};
use enhancement::{LinkResolver, LinkTarget, TemplateSentences};

use crate::documents;

/// Paths of documents that the community's linter skips, separated by white
/// space.
pub(crate) const IGNORE_LIST: &str = "hack/lint-ignores";

/// The template that authors copy.
const TEMPLATE: &str = "guidelines/enhancement_template.md";

/// What applies to all documents of a repository.
#[derive(Debug)]
pub(crate) struct Repository {
    root: PathBuf,
    ignored: BTreeSet<PathBuf>,
    template: TemplateSentences,
}

impl Repository {
    /// Reads the ignore list and the template, if the repository has them.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let ignored = read_if_present(&root.join(IGNORE_LIST))?.unwrap_or_default();
        let ignored = ignored.split_whitespace().map(PathBuf::from).collect();
        let mut template = TemplateSentences::community();
        if let Some(text) = read_if_present(&root.join(TEMPLATE))? {
            template.add(&text);
        }
        Ok(Self { root: root.to_owned(), ignored, template })
    }

    /// Whether the ignore list contains exactly this path. The community's
    /// linter removes the listed paths from its list of files; an entry that
    /// is only a part of a path, such as a directory, does not skip anything.
    pub(crate) fn ignores(&self, path: &Path) -> bool {
        self.ignored.contains(path)
    }

    pub(crate) fn template(&self) -> &TemplateSentences {
        &self.template
    }

    /// The files of a Git revision, relative to the top of the repository.
    pub(crate) fn files_at(&self, revision: &str) -> Result<BTreeSet<PathBuf>> {
        files_at(&self.root, revision)
            .with_context(|| format!("reading the revision {revision} in {}", self.root.display()))
    }
}

fn read_if_present(path: &Path) -> Result<Option<String>> {
    let is_missing = |error: &Error| {
        error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::NotFound)
    };
    match documents::read_text(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error.context(format!("reading {}", path.display()))),
    }
}

/// A document in its repository.
#[derive(Debug)]
pub(crate) struct RepositoryFile<'a> {
    /// The top of the repository, without symbolic links.
    pub(crate) root: PathBuf,
    /// The path of the document, relative to `root`.
    pub(crate) path: PathBuf,
    targets: &'a TargetCache,
}

/// Resolved targets of links; many documents link to the same ones.
#[derive(Debug, Default)]
pub(crate) struct TargetCache(RefCell<BTreeMap<PathBuf, LinkTarget>>);

impl<'a> RepositoryFile<'a> {
    /// Finds the repository of `document`: the directory with `.git`, else the
    /// parent of `enhancements`, else the directory of the document.
    pub(crate) fn locate(document: &Path, targets: &'a TargetCache) -> Result<Self> {
        let absolute = fs::canonicalize(document)
            .with_context(|| format!("reading {}", document.display()))?;
        let root = find_root(&absolute);
        let path = absolute.strip_prefix(root).unwrap_or(&absolute).to_owned();
        Ok(Self { root: root.to_owned(), path, targets })
    }

    fn read_target(path: &Path) -> LinkTarget {
        match fs::metadata(path) {
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|it| it == "md") => {
                // A file that cannot be read exists all the same.
                documents::read_text(path).map_or(LinkTarget::Present, |text| {
                    LinkTarget::Document(enhancement::anchors(text))
                })
            }
            Ok(_) => LinkTarget::Present,
            Err(_) => LinkTarget::Missing,
        }
    }
}

/// The top of the repository of a file, given by its absolute path.
pub(crate) fn find_root(file: &Path) -> &Path {
    let directories = || file.ancestors().skip(1);
    directories()
        .find(|directory| directory.join(".git").exists())
        .or_else(|| directories().find(|directory| directory.ends_with("enhancements"))?.parent())
        .or_else(|| file.parent())
        .unwrap_or(Path::new("/"))
}

impl LinkResolver for RepositoryFile<'_> {
    fn resolve(&self, path: &str) -> LinkTarget {
        let from = match path.strip_prefix('/') {
            Some(_) => Path::new(""),
            None => self.path.parent().unwrap_or(Path::new("")),
        };
        let Some(inner) = normalize(&from.join(path.trim_start_matches('/'))) else {
            return LinkTarget::Outside;
        };
        let path = self.root.join(inner);
        let mut targets = self.targets.0.borrow_mut();
        targets.entry(path.clone()).or_insert_with(|| Self::read_target(&path)).clone()
    }
}

/// Removes `.` and `..`; `None` if the path leaves the directory it starts in.
fn normalize(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            Component::ParentDir => parts.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts)
}

/// The files of a Git revision, relative to the top of the repository.
pub(crate) fn files_at(root: &Path, revision: &str) -> Result<BTreeSet<PathBuf>> {
    let name = format!("{revision}^{{tree}}");
    let tree = git(root, &["rev-parse", "--verify", "--quiet", "--end-of-options", &name])?;
    let tree = String::from_utf8_lossy(&tree).trim().to_owned();
    let list = git(root, &["ls-tree", "-r", "-z", "--name-only", "--full-tree", &tree])?;
    Ok(paths(&list))
}

/// Paths that end with a zero byte.
pub(crate) fn paths(list: &[u8]) -> BTreeSet<PathBuf> {
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned())).collect()
}

/// Runs Git in the repository and returns its standard output.
pub(crate) fn git(root: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new("git")
        // The repository's configuration could name a program to run.
        .args(["-c", "core.fsmonitor=false", "-C"])
        .arg(root)
        .args(arguments)
        .output()
        .context("starting git")?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        match message.trim() {
            "" => bail!("the revision does not exist; fetch it, or correct its name"),
            message => bail!("git: {message}"),
        }
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_within_the_repository_only() {
        for (path, expected) in [
            ("a/./b.md", Some("a/b.md")),
            ("a/../b.md", Some("b.md")),
            ("a/..", Some("")),
            ("../b.md", None),
            ("a/../../b.md", None),
            ("/b.md", None),
        ] {
            assert_eq!(normalize(Path::new(path)), expected.map(PathBuf::from), "{path}");
        }
    }
}
