//! What is wrong with a configuration, where, and what to write instead.

use std::fmt;

/// Where an entry of a configuration is written, counted from 1; the default is that of an entry
/// which no file has.
///
/// Unlike positions of [`located_yaml`], two of these always compare equal: configurations are
/// compared by what they state, not by where. Compare `line` and `column` where the position itself
/// matters.
#[derive(Debug, Clone, Copy, Default)]
pub struct EntryPosition {
    pub line: usize,
    pub column: usize,
}

impl PartialEq for EntryPosition {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for EntryPosition {}

impl From<located_yaml::Position> for EntryPosition {
    fn from(at: located_yaml::Position) -> Self {
        Self { line: at.line, column: at.column }
    }
}

impl fmt::Display for EntryPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One thing wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub at: EntryPosition,
    pub problem: Problem,
}

/// Everything wrong with one file, in the order of the file. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    file: String,
    list: Vec<Finding>,
}

impl Findings {
    /// Orders what was found. An alias makes the same text count twice; a
    /// finding about it is reported once.
    pub(crate) fn new(file: &str, mut list: Vec<Finding>) -> Self {
        list.sort_by_cached_key(|found| (found.at.line, found.at.column, found.to_string()));
        list.dedup_by_key(|found| found.to_string());
        Self { file: file.to_owned(), list }
    }

    /// The name of the file that was read.
    pub fn file(&self) -> &str {
        &self.file
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Finding> {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a Findings {
    type Item = &'a Finding;
    type IntoIter = std::slice::Iter<'a, Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.problem)
    }
}

/// One line each: `file:line:column: what is wrong; what to write`.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{finding}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for Findings {}

/// The kinds of mistakes and, at the end, what deserves a warning only. Each
/// text states what is wrong, then what to write. Scripts search for some of
/// them, as oc-mirror v2 wrote them: `unknown field`, `platform.platforms and
/// platform.architectures cannot be used together`, `platform.architectures is
/// deprecated`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Yaml(#[from] located_yaml::Problem),
    #[error(
        "nothing to read; an image set starts with `kind: ImageSetConfiguration` and `apiVersion: {}`",
        crate::API_VERSION
    )]
    Empty,
    #[error("unknown field {key:?} in {section}; {}", suggestion(nearest, known))]
    UnknownKey { key: String, section: String, nearest: Vec<String>, known: Vec<String> },
    #[error("unknown field {key:?} in {section}: {instead}")]
    RefusedKey { key: String, section: String, instead: &'static str },
    #[error("{section} has no {key:?}; add it, for example `{key}: {example}`")]
    MissingKey { key: &'static str, section: String, example: &'static str },
    #[error("{what}: expected {expected}, found {found}{}", tail(hint))]
    Shape { what: String, expected: &'static str, found: &'static str, hint: Option<String> },
    #[error("{key}: expected text, found the {found} {text}; write it in quotes: \"{text}\"")]
    NotText { key: String, text: String, found: &'static str },
    #[error("{key}: expected true or false, found {text:?}")]
    NotBool { key: String, text: String },
    #[error(
        "kind {found:?} is unknown; write ImageSetConfiguration, or DeleteImageSetConfiguration to delete"
    )]
    UnknownKind { found: String },
    #[error("expected kind {expected}, found {found}; {hint}")]
    OtherKind { found: &'static str, expected: &'static str, hint: &'static str },
    #[error(
        "apiVersion {0:?} is unknown; write {new} (or the older {old})",
        new = crate::API_VERSION,
        old = crate::OLDER_API_VERSION
    )]
    ApiVersion(String),
    #[error("archiveSize: expected a whole number of GiB from 0 to {max}, found {text}")]
    ArchiveSize { text: String, max: u64 },
    #[error("{key}: {why}")]
    Timetable { key: String, why: timetable::TimetableError },
    #[error("{key}: {why}")]
    Timezone { key: String, why: String },
    #[error("{key} {text:?} is not an image: {why}")]
    Reference { key: String, text: String, why: oci::ReferenceError },
    #[error(
        "{key} {text:?} has neither tag nor digest; add one, for example {text}:latest or {text}@sha256:<digest>"
    )]
    Unpinned { key: String, text: String },
    #[error("{key} {text:?} names no directory; write oci:// and the path of an OCI layout")]
    LayoutPath { key: String, text: String },
    #[error("{key} {text:?} must be a path without registry, tag or digest: {why}")]
    TargetPath { key: String, text: String, why: oci::ReferenceError },
    #[error("{key} {text:?} must be a tag: {why}")]
    TargetTag { key: String, text: String, why: oci::ReferenceError },
    #[error("{key} {text:?} is not a regular expression: {why}")]
    Pattern { key: String, text: String, why: String },
    #[error(
        "{key} {text:?} is not a release version; write all three numbers, for example \"4.18.1\""
    )]
    ReleaseVersion { key: String, text: String },
    #[error(
        "{key} is the number {text}, expected a release version; write all three numbers, in quotes: {key}: \"{text}.0\""
    )]
    ReleaseVersionNumber { key: String, text: String },
    #[error("{key} {text:?} is not a semantic version; write for example \"1.2.3\"")]
    PackageVersion { key: String, text: String },
    #[error("minVersion {min} is higher than maxVersion {max}; nothing can be between them")]
    Range { min: String, max: String },
    #[error(
        "package {package:?} has a version range for itself and for its channel {channel:?}; keep one of the two"
    )]
    MixedRanges { package: String, channel: String },
    #[error(
        "previousVersions: expected a whole number, the count of versions before the newest one, found {text}"
    )]
    PreviousVersions { text: String },
    #[error("previousVersions and a range of versions exclude each other; keep one of the two")]
    PreviousAndRange,
    #[error("defaultChannel {channel:?} is not among the channels listed here; add it to them")]
    DefaultChannel { channel: String },
    #[error("{what} {name:?} is listed twice, first on line {}; keep one", first.line)]
    Duplicate { what: &'static str, name: String, first: EntryPosition },
    #[error("{key} {text:?} is unknown; {}", suggestion(nearest, known))]
    Word { key: String, text: String, nearest: Vec<String>, known: Vec<String> },
    #[error(
        "platform.platforms and platform.architectures cannot be used together; keep platforms"
    )]
    PlatformsAndArchitectures,
    #[error("platform.architectures is deprecated; use platform.platforms")]
    ArchitecturesDeprecated,
    #[error(
        "apiVersion {found:?} is read as {new}; write {new}",
        new = crate::API_VERSION
    )]
    ApiVersionAlias { found: String },
    #[error(
        "url {0:?} is not a chart repository; write an address that starts with https://, http:// or oci://"
    )]
    Url(String),
}

fn suggestion(nearest: &[String], known: &[String]) -> String {
    let quoted =
        |words: &[String]| words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>();
    match nearest {
        [] if known.is_empty() => "remove it".to_owned(),
        [] => format!("known are {}", quoted(known).join(", ")),
        _ => format!("did you mean {}?", quoted(nearest).join(" or ")),
    }
}

fn tail(hint: &Option<String>) -> String {
    hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default()
}

/// The known words that `word` may be a slip of, nearest first.
pub(crate) fn nearest(word: &str, known: &[&'static str]) -> Vec<String> {
    let word = word.to_ascii_lowercase();
    // One slip in three letters is still a slip; more is another word.
    let limit = (word.chars().count() / 3).max(1);
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&word, &known.to_ascii_lowercase()), *known))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    near.sort_unstable();
    let best = near.first().map_or(0, |(distance, _)| *distance);
    near.into_iter()
        .take_while(|(distance, _)| *distance == best)
        .map(|(_, word)| word.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_words_are_offered_and_far_ones_are_not() {
        let known = ["minVersion", "maxVersion", "name", "full"];
        assert_eq!(nearest("minversions", &known), ["minVersion"]);
        assert_eq!(nearest("mxnVersion", &known), ["minVersion"]);
        assert_eq!(nearest("mnVersion", &known), ["minVersion"]);
        assert_eq!(nearest("miaxVersion", &known), ["maxVersion"]);
        assert_eq!(nearest("fall", &known), ["full"]);
        assert!(nearest("storageConfig", &known).is_empty());
    }

    #[test]
    fn words_that_are_equally_near_are_all_offered() {
        assert_eq!(nearest("mxVersion", &["mnVersion", "maxVersion", "mixVersion"]).len(), 3);
    }

    #[test]
    fn findings_come_in_the_order_of_the_file_and_once() {
        let finding = |line, problem| Finding { at: EntryPosition { line, column: 1 }, problem };
        let twice = || finding(3, Problem::PlatformsAndArchitectures);
        let findings = Findings::new("x.yaml", vec![twice(), finding(2, Problem::Empty), twice()]);
        let lines: Vec<String> = findings.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("x.yaml:2:1: "), "{lines:?}");
        assert!(lines[1].starts_with("x.yaml:3:1: "), "{lines:?}");
    }
}
