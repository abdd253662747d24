//! Reads the image set configuration, and refuses what this version does not mirror.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use image_set::{EntryPosition, Extension, ImageSetConfiguration, Mirror, Parsed};
use mirror::Configuration;

/// Far above any real configuration; small enough to parse without risk.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigurationError {
    #[error("reading the configuration {}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "the configuration {} is larger than {} MiB: is it the right file?",
        .path.display(),
        MAX_BYTES / 1024 / 1024
    )]
    TooLarge { path: PathBuf },
    #[error("the configuration {} is not text: byte {at} is not valid UTF-8", .path.display())]
    NotText { path: PathBuf, at: usize },
    #[error("{0}")]
    Invalid(image_set::Findings),
    #[error("{0}")]
    NotYet(SectionsNotYet),
    #[error("{0}")]
    Extended(Extended),
}

/// Whether a configuration may use what other readers of these files do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compatibility {
    Extended,
    Strict,
}

/// Keys that other readers refuse.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Extended {
    file: String,
    used: Vec<Extension>,
}

impl Extended {
    pub(crate) fn count(&self) -> usize {
        self.used.len()
    }
}

impl fmt::Display for Extended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, extension) in self.used.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(
                f,
                "{}:{extension} is an extension, which --strict-compat refuses; remove it",
                self.file
            )?;
        }
        Ok(())
    }
}

/// Sections that are understood and cannot be mirrored by this version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SectionsNotYet {
    file: String,
    sections: Vec<(EntryPosition, &'static str, &'static str)>,
}

impl SectionsNotYet {
    pub(crate) fn count(&self) -> usize {
        self.sections.len()
    }
}

impl fmt::Display for SectionsNotYet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (at, section, what)) in self.sections.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(
                f,
                "{}:{at}: mirror.{section} is not supported by this version: {what} cannot be \
                 mirrored yet; remove the section",
                self.file
            )?;
        }
        Ok(())
    }
}

/// A configuration, and a line for each warning about it.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) configuration: Configuration,
    pub(crate) warnings: Vec<String>,
}

/// Reads, parses and checks the file at `path`.
pub(crate) fn read(
    path: &Path,
    compatibility: Compatibility,
) -> Result<Checked, ConfigurationError> {
    check(path, read_text(path)?, compatibility)
}

/// Parses and checks `text`, which was read from the file at `path`.
pub(crate) fn check(
    path: &Path,
    text: String,
    compatibility: Compatibility,
) -> Result<Checked, ConfigurationError> {
    let file_name = path.display().to_string();
    let Parsed { document: set, warnings } = parse(&file_name, &text)?;
    let used = set.extensions();
    if compatibility == Compatibility::Strict && !used.is_empty() {
        return Err(ConfigurationError::Extended(Extended { file: file_name, used }));
    }
    let mut warnings: Vec<String> =
        warnings.iter().map(|warning| format!("{file_name}:{warning}")).collect();
    if set.prune.is_some() {
        warnings.push(format!(
            "{file_name}: nothing is pruned while mirroring; `oc-mirror prune -c {file_name}` deletes what the prune section selects"
        ));
    }
    Ok(Checked { configuration: Configuration { path: path.to_owned(), text, set }, warnings })
}

pub(crate) fn read_text(path: &Path) -> Result<String, ConfigurationError> {
    let unreadable = |source| ConfigurationError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    // The size a file claims is not what a pipe or a growing file delivers.
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(ConfigurationError::TooLarge { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| ConfigurationError::NotText {
        path: path.to_owned(),
        at: error.utf8_error().valid_up_to(),
    })
}

fn parse(file_name: &str, text: &str) -> Result<Parsed<ImageSetConfiguration>, ConfigurationError> {
    let parsed = image_set::parse_image_set_with_warnings(file_name, text)
        .map_err(ConfigurationError::Invalid)?;
    check_sections(file_name, &parsed.document.mirror)?;
    Ok(parsed)
}

/// Rejects sections that have no collector yet.
pub(crate) fn check_sections(file_name: &str, mirror: &Mirror) -> Result<(), ConfigurationError> {
    let sections = not_yet(mirror);
    match sections.is_empty() {
        true => Ok(()),
        false => {
            Err(ConfigurationError::NotYet(SectionsNotYet { file: file_name.to_owned(), sections }))
        }
    }
}

/// The sections that have no collector yet, where they start.
fn not_yet(mirror: &Mirror) -> Vec<(EntryPosition, &'static str, &'static str)> {
    let samples = mirror.samples.first().map(|first| (first.at, "samples", "samples"));
    samples.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\n";

    #[test]
    fn sections_without_a_collector_are_refused_by_name_and_place() {
        let text = format!(
            "{HEAD}mirror:\n  operators:\n  - catalog: quay.io/a/catalog:v1\n  \
             samples:\n  - name: ruby\n  helm:\n    repositories: []\n  \
             additionalImages:\n  - name: quay.io/a/b:1\n"
        );
        let error = parse("isc.yaml", &text).unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 1, "{error}");
        assert!(lines[0].starts_with("isc.yaml:7:"), "{error}");
        assert!(lines[0].contains("mirror.samples is not supported by this version"), "{error}");
    }

    #[test]
    fn the_example_with_charts_is_read() {
        let parsed = parse("helm.yaml", include_str!("../../../examples/helm.yaml")).unwrap();
        assert_eq!(parsed.warnings.len(), 0);
        assert_eq!(parsed.document.mirror.helm.unwrap().charts().count(), 3);
    }

    #[test]
    fn additional_and_blocked_images_are_read() {
        let text = format!(
            "{HEAD}mirror:\n  additionalImages:\n  - name: quay.io/a/b:1\n  \
             blockedImages:\n  - name: quay.io/c/.*\n"
        );
        let set = parse("isc.yaml", &text).unwrap().document;
        assert_eq!(set.mirror.additional_images.len(), 1);
        assert_eq!(set.mirror.blocked_images.len(), 1);
    }

    #[test]
    fn extensions_are_refused_by_name_and_place_where_others_must_be_able_to_read_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("isc.yaml");
        let text = format!(
            "{HEAD}mirror:\n  operators:\n  - catalog: quay.io/a/catalog:v1\n    \
             includeDependencies: true\n    packages:\n    - name: foo\n      previousVersions: 2\n"
        );
        std::fs::write(&path, text).unwrap();
        assert!(read(&path, Compatibility::Extended).is_ok());
        let error = read(&path, Compatibility::Strict).unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 2, "{error}");
        assert!(lines[0].contains("isc.yaml:5:"), "{error}");
        assert!(lines[0].contains("includeDependencies of the catalog quay.io/a/catalog:v1"));
        assert!(lines[1].contains("previousVersions of the package \"foo\""), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_a_configuration_is_refused_before_it_is_parsed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("isc.yaml");
        let failure = || read(&path, Compatibility::Extended).unwrap_err();
        assert!(matches!(failure(), ConfigurationError::Unreadable { .. }));
        std::fs::write(&path, b"kind: \xff").unwrap();
        assert!(matches!(failure(), ConfigurationError::NotText { at: 6, .. }));
        std::fs::File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(matches!(failure(), ConfigurationError::TooLarge { .. }));
        assert!(matches!(
            read(dir.path(), Compatibility::Extended).unwrap_err(),
            ConfigurationError::Unreadable { source, .. }
                if source.kind() == io::ErrorKind::IsADirectory
        ));
    }
}
