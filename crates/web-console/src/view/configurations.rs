//! Configurations in the workspace: listed, checked, saved. `check` is pure.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::str::FromStr;

use image_set::{Document, EntryPosition, ImageSetConfiguration};
use oci::Digest;
use workspace::Workspace;
use workspace::archive::Archives;
use workspace::atomic_file::{self, Durability};

use super::{Fault, runs};

/// Far above any configuration written by people; below what a page can show.
pub(crate) const MAX_BYTES: usize = 1 << 20;
const MAX_NAME: usize = 64;
/// The configuration in an archive.
const IN_ARCHIVE: &str = "imageset-config.yaml";

/// The name of a file in the folder of configurations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConfigurationName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid name: expected up to {MAX_NAME} letters, digits, '-', '_' and '.', ending in .yaml, found {0:?}"
)]
pub(crate) struct NameError(String);

impl FromStr for ConfigurationName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let stem = text.strip_suffix(".yaml").or_else(|| text.strip_suffix(".yml"));
        let fits = text.len() <= MAX_NAME && !text.starts_with('.');
        match stem.is_some_and(|stem| !stem.is_empty()) && fits && text.chars().all(is_plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(NameError(text.chars().take(2 * MAX_NAME).collect())),
        }
    }
}

impl fmt::Display for ConfigurationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a configuration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Mirror,
    Delete,
}

/// What is wrong with a text, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remark {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
    pub(crate) is_error: bool,
    /// The line itself.
    pub(crate) excerpt: String,
}

/// A text that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checked {
    /// `None` while there are errors.
    pub(crate) purpose: Option<Purpose>,
    /// In the order of the text.
    pub(crate) remarks: Vec<Remark>,
}

impl Checked {
    pub(crate) fn errors(&self) -> usize {
        self.remarks.iter().filter(|remark| remark.is_error).count()
    }
}

/// Checks a text as a run does.
pub(crate) fn check(name: &str, text: &str) -> Checked {
    let remark = |at: EntryPosition, message: String, is_error| Remark {
        line: at.line,
        column: at.column,
        message,
        is_error,
        excerpt: text
            .lines()
            .nth(at.line.saturating_sub(1))
            .unwrap_or_default()
            .chars()
            .take(200)
            .collect(),
    };
    match image_set::parse(name, text) {
        Ok(Document::Delete(_)) => Checked { purpose: Some(Purpose::Delete), remarks: Vec::new() },
        Ok(Document::ImageSet(_)) => {
            let parsed = image_set::parse_image_set_with_warnings(name, text);
            let warnings = parsed.map(|parsed| parsed.warnings).unwrap_or_default();
            let remarks =
                warnings.iter().map(|found| remark(found.at, found.problem.to_string(), false));
            Checked { purpose: Some(Purpose::Mirror), remarks: remarks.collect() }
        }
        Err(findings) => {
            let remarks =
                findings.iter().map(|found| remark(found.at, found.problem.to_string(), true));
            Checked { purpose: None, remarks: remarks.collect() }
        }
    }
}

/// What a text without errors selects; `None` for others.
pub(crate) fn selected(name: &str, text: &str) -> Option<ImageSetConfiguration> {
    match image_set::parse(name, text) {
        Ok(Document::ImageSet(set)) => Some(set),
        _ => None,
    }
}

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigurationRow {
    pub(crate) name: ConfigurationName,
    pub(crate) checked: Checked,
    pub(crate) bytes: usize,
}

/// A text and its digest, to notice changes by others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredText {
    pub(crate) text: String,
    pub(crate) digest: Digest,
}

/// What became of a text to save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Saved {
    Done,
    /// The file is not the one that was edited: another page or program changed it.
    Changed(StoredText),
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.working_dir().join("configurations")
}

/// The file of a configuration.
pub(crate) fn path(workspace: &Workspace, name: &ConfigurationName) -> PathBuf {
    folder(workspace).join(&name.0)
}

/// All configurations, in the order of their names.
pub(crate) fn list(workspace: &Workspace) -> Result<Vec<ConfigurationRow>, Fault> {
    let folder = folder(workspace);
    let fault = |error: io::Error| Fault::failed("reading the configurations", &error);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(fault)?,
    };
    let mut rows = Vec::new();
    for entry in entries {
        let name = entry.map_err(fault)?.file_name();
        let Some(Ok(name)) = name.to_str().map(ConfigurationName::from_str) else { continue };
        let stored = read(workspace, &name)?;
        let checked = check(&name.0, &stored.text);
        rows.push(ConfigurationRow { bytes: stored.text.len(), name, checked });
    }
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(rows)
}

pub(crate) fn read(workspace: &Workspace, name: &ConfigurationName) -> Result<StoredText, Fault> {
    let path = path(workspace, name);
    match read_file(&path) {
        Ok(text) => Ok(StoredText { digest: Digest::of(text.as_bytes()), text }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Fault::Absent(format!("configuration {name} not found")))
        }
        Err(error) => Err(Fault::failed(&format!("reading {}", path.display()), &error)),
    }
}

fn read_file(path: &std::path::Path) -> io::Result<String> {
    let mut text = String::new();
    let read = fs::File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
    match read > MAX_BYTES {
        true => Err(io::Error::other("it is too large for a configuration")),
        false => Ok(text),
    }
}

/// Saves a text, errors included: work is not lost because it is not finished. `base` is the
/// digest of the text that was edited, `None` for a new configuration.
pub(crate) fn save(
    workspace: &Workspace,
    name: &ConfigurationName,
    text: &str,
    base: Option<Digest>,
) -> Result<Saved, Fault> {
    let stored = match read(workspace, name) {
        Ok(stored) => Some(stored),
        Err(Fault::Absent(_)) => None,
        Err(fault) => return Err(fault),
    };
    match stored {
        Some(stored) if Some(stored.digest) != base && stored.text != text => {
            return Ok(Saved::Changed(stored));
        }
        _ => {}
    }
    let path = path(workspace, name);
    atomic_file::write(&path, text.as_bytes(), Durability::Now)
        .map_err(|error| Fault::failed("saving the configuration", &error))?;
    Ok(Saved::Done)
}

/// Texts to start from that the workspace already has: of its runs, and of archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) origin: StartOrigin,
    pub(crate) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartOrigin {
    Run(u64),
    Archive,
}

/// How many runs are offered.
const OFFERED: usize = 10;

/// What there is to start from; each different text once.
pub(crate) fn starts(workspace: &Workspace) -> Result<Vec<Start>, Fault> {
    let mut seen = Vec::new();
    let mut starts = Vec::new();
    for run in runs::list(workspace)? {
        if let Some(file) = run.configuration
            && !seen.contains(&file.digest)
            && starts.len() < OFFERED
        {
            seen.push(file.digest);
            starts.push(Start { origin: StartOrigin::Run(run.number), name: file.name });
        }
    }
    if starts.is_empty() && of_archive(workspace).is_some() {
        starts.push(Start { origin: StartOrigin::Archive, name: IN_ARCHIVE.to_owned() });
    }
    Ok(starts)
}

/// The text of a start.
pub(crate) fn start_text(workspace: &Workspace, origin: StartOrigin) -> Result<String, Fault> {
    match origin {
        StartOrigin::Run(number) => {
            let run = runs::list(workspace)?.into_iter().find(|run| run.number == number);
            let file = run.and_then(|run| run.configuration);
            file.map(|file| file.text)
                .ok_or_else(|| Fault::Absent(format!("run {number} has no configuration")))
        }
        StartOrigin::Archive => of_archive(workspace)
            .ok_or_else(|| Fault::Absent("the archives have no configuration".to_owned())),
    }
}

/// The configuration in the newest archive.
fn of_archive(workspace: &Workspace) -> Option<String> {
    let archives = Archives::open(workspace.root()).ok()?;
    let newest = archives.indexes().last()?;
    let blob = newest.files.get(IN_ARCHIVE)?;
    let mut text = String::new();
    archives.blob(&blob.digest)?.take(MAX_BYTES as u64).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\n";

    #[test]
    fn names_are_plain_file_names() {
        for name in ["isc.yaml", "a-b_c.1.yml"] {
            assert_eq!(name.parse::<ConfigurationName>().unwrap().to_string(), name);
        }
        let long = format!("{}.yaml", "a".repeat(MAX_NAME));
        for name in ["", ".yaml", "isc", "../isc.yaml", "a/b.yaml", ".hidden.yaml", "ä.yaml", &long]
        {
            assert!(name.parse::<ConfigurationName>().is_err(), "{name}");
        }
    }

    #[test]
    fn every_error_is_reported_at_its_line_with_the_line_itself() {
        let lines: String = (0..20).map(|i| format!("  key{i}: x\n")).collect();
        let checked = check("isc.yaml", &format!("{HEAD}mirror:\n{lines}"));
        assert_eq!((checked.errors(), checked.purpose), (20, None));
        let first = &checked.remarks[0];
        assert_eq!((first.line, first.excerpt.as_str()), (4, "  key0: x"));
        assert!(first.message.contains("unknown field"), "{}", first.message);
        let sound = check("isc.yaml", &format!("{HEAD}mirror:\n  additionalImages: []\n"));
        assert_eq!((sound.errors(), sound.purpose), (0, Some(Purpose::Mirror)));
        let delete =
            HEAD.replace("ImageSet", "DeleteImageSet") + "delete:\n  additionalImages: []\n";
        assert_eq!(check("d.yaml", &delete).purpose, Some(Purpose::Delete));
    }

    #[test]
    fn a_change_by_another_page_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let name: ConfigurationName = "isc.yaml".parse().unwrap();
        assert_eq!(save(&workspace, &name, "one", None), Ok(Saved::Done));
        let base = read(&workspace, &name).unwrap().digest;
        assert_eq!(save(&workspace, &name, "two", Some(base)), Ok(Saved::Done));
        let Ok(Saved::Changed(stored)) = save(&workspace, &name, "three", Some(base)) else {
            panic!("the second page overwrote the first");
        };
        assert_eq!(stored.text, "two");
        assert!(matches!(save(&workspace, &name, "new", None), Ok(Saved::Changed(_))));
        assert_eq!(save(&workspace, &name, "three", Some(stored.digest)), Ok(Saved::Done));
        assert_eq!(list(&workspace).unwrap().len(), 1);
    }
}
