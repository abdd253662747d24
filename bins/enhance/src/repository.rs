//! The repository that documents are in: its top, its files, its history.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use enhancement::{Surroundings, Target};

use crate::documents;

/// A document's place in its repository.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// The top of the repository, without links.
    pub(crate) top: PathBuf,
    /// From there to the document.
    pub(crate) path: PathBuf,
    known: &'a Known,
}

/// What links led to so far; many lead to the same documents.
#[derive(Debug, Default)]
pub(crate) struct Known(RefCell<BTreeMap<PathBuf, Target>>);

impl<'a> Place<'a> {
    /// Finds where `document` belongs: below the folder with `.git`, else the
    /// one that holds `enhancements`, else the document's own.
    pub(crate) fn of(document: &Path, known: &'a Known) -> Result<Self> {
        let whole = fs::canonicalize(document)
            .with_context(|| format!("reading {}", document.display()))?;
        let folders = || whole.ancestors().skip(1);
        let top = folders()
            .find(|folder| folder.join(".git").exists())
            .or_else(|| folders().find(|folder| folder.ends_with("enhancements"))?.parent())
            .or_else(|| whole.parent())
            .unwrap_or(Path::new("/"));
        let path = whole.strip_prefix(top).unwrap_or(&whole).to_owned();
        Ok(Self { top: top.to_owned(), path, known })
    }

    fn look(&self, path: &Path) -> Target {
        match fs::metadata(path) {
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|it| it == "md") => {
                // A document that cannot be read is there all the same.
                documents::read_text(path)
                    .map_or(Target::Present, |text| Target::Document(enhancement::anchors(text)))
            }
            Ok(_) => Target::Present,
            Err(_) => Target::Missing,
        }
    }
}

impl Surroundings for Place<'_> {
    fn find(&self, path: &str) -> Target {
        let from = match path.strip_prefix('/') {
            Some(_) => Path::new(""),
            None => self.path.parent().unwrap_or(Path::new("")),
        };
        let Some(inner) = normal(&from.join(path.trim_start_matches('/'))) else {
            return Target::Outside;
        };
        let path = self.top.join(inner);
        let mut known = self.known.0.borrow_mut();
        known.entry(path.clone()).or_insert_with(|| self.look(&path)).clone()
    }
}

/// A path without `.` and `..`; `None` when it leads out of where it starts.
fn normal(path: &Path) -> Option<PathBuf> {
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

/// The files of a git revision, from the top of the repository.
pub(crate) fn files_at(top: &Path, revision: &str) -> Result<BTreeSet<PathBuf>> {
    let looking = || format!("looking up the revision {revision} in {}", top.display());
    let name = format!("{revision}^{{tree}}");
    let tree = git(top, &["rev-parse", "--verify", "--quiet", "--end-of-options", &name])
        .with_context(looking)?;
    let tree = String::from_utf8_lossy(&tree).trim().to_owned();
    let list = git(top, &["ls-tree", "-r", "-z", "--name-only", "--full-tree", &tree])
        .with_context(looking)?;
    let files = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(files.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned())).collect())
}

fn git(top: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let output =
        Command::new("git").arg("-C").arg(top).args(arguments).output().context("starting git")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        match said.trim() {
            "" => bail!("git knows no such revision; fetch it, or check its name"),
            said => bail!("git says: {said}"),
        }
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_followed_within_the_repository_only() {
        for (path, wanted) in [
            ("a/./b.md", Some("a/b.md")),
            ("a/../b.md", Some("b.md")),
            ("a/..", Some("")),
            ("../b.md", None),
            ("a/../../b.md", None),
            ("/b.md", None),
        ] {
            assert_eq!(normal(Path::new(path)), wanted.map(PathBuf::from), "{path}");
        }
    }
}
