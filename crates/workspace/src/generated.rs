//! Directories of generated files.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use crate::atomic_file::{self, Durability, draft_in};
use crate::disk_error::{At, DiskError, unless_absent};

/// The list of what we made in a directory, kept in it. JSON, but not by name:
/// `oc apply -f DIR` would take it for a manifest.
const LIST: &str = ".generated";

/// Replaces what earlier runs generated in `directory` by `files`: names
/// (which may lead into directories below) and texts. All new files are
/// written before the first old one is replaced; old ones that are not made
/// any more are removed last. Files of other programs are not changed.
pub fn replace_generated(
    directory: &Path,
    files: &[(String, String)],
) -> Result<Vec<PathBuf>, DiskError> {
    let list = directory.join(LIST);
    let mut before = read_list(&list)?;
    let names: BTreeSet<&String> = files.iter().map(|(name, _)| name).collect();
    let mut drafts = Vec::with_capacity(files.len());
    for (name, text) in files {
        let path = inside(directory, name)?;
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent).at("creating", parent)?;
        let mut draft = draft_in(parent, ".new-").at("writing in", parent)?;
        draft.write_all(text.as_bytes()).at("writing", &path)?;
        drafts.push((path, draft));
    }
    // Before the names change: a kill in between must not make ours foreign.
    before.extend(names.iter().map(|name| (*name).clone()));
    write_list(&list, &before)?;
    let mut written = Vec::with_capacity(drafts.len());
    for (path, draft) in drafts {
        draft.persist(&path).map_err(|failed| failed.error).at("writing", &path)?;
        written.push(path);
    }
    for old in before.iter().filter(|old| !names.contains(old)) {
        let path = inside(directory, old)?;
        unless_absent(fs::remove_file(&path)).at("removing", &path)?;
    }
    write_list(&list, &names.into_iter().cloned().collect())?;
    Ok(written)
}

fn read_list(list: &Path) -> Result<BTreeSet<String>, DiskError> {
    let text = unless_absent(fs::read(list)).at("reading", list)?;
    // A list we cannot read names nothing of ours: nothing is removed.
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default())
}

fn write_list(list: &Path, names: &BTreeSet<String>) -> Result<(), DiskError> {
    let text = serde_json::to_vec(names).map_err(io::Error::other).at("writing", list)?;
    atomic_file::write(list, &text, Durability::Later)
}

/// `directory/name`, when that is below `directory`.
fn inside(directory: &Path, name: &str) -> Result<PathBuf, DiskError> {
    let mut parts = Path::new(name).components();
    let plain = parts.all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() || !plain {
        let bad = io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} leads elsewhere"));
        return Err(DiskError::new("writing in", directory, bad));
    }
    Ok(directory.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<(String, String)> {
        names.iter().map(|name| ((*name).to_owned(), format!("text of {name}"))).collect()
    }

    fn list(directory: &Path) -> Vec<String> {
        let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|n| n.to_str().unwrap().to_owned()).collect();
        names.retain(|name| name != LIST);
        names.sort();
        names
    }

    #[test]
    fn old_files_of_ours_are_removed_and_those_of_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("cluster-resources");
        replace_generated(&out, &files(&["idms.yaml", "itms.yaml"])).unwrap();
        fs::write(out.join("mine.yaml"), b"by hand").unwrap();
        let written = replace_generated(&out, &files(&["idms.yaml", "sub/x.txt"])).unwrap();
        assert_eq!(written, [out.join("idms.yaml"), out.join("sub/x.txt")]);
        assert_eq!(list(&out), ["idms.yaml", "mine.yaml", "sub"]);
        assert_eq!(fs::read_to_string(&written[1]).unwrap(), "text of sub/x.txt");
    }

    #[test]
    fn a_failure_in_between_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        replace_generated(dir.path(), &files(&["a", "b"])).unwrap();
        fs::write(dir.path().join("in-the-way"), b"x").unwrap();
        let mut new = files(&["c", "in-the-way/d"]);
        new.insert(0, ("a".into(), "changed".into()));
        assert!(replace_generated(dir.path(), &new).is_err());
        assert_eq!(list(dir.path()), ["a", "b", "in-the-way"]);
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "text of a");
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["", "..", "../x", "/etc/x", "a/../../x"] {
            let error = replace_generated(dir.path(), &files(&[name])).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}
