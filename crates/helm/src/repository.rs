//! Chart repositories: what `index.yaml` lists, and which version is meant.

use std::collections::BTreeMap;

use oci::{Digest, Tag};
use semver::Version;
use serde::Deserialize;
use url::Url;

use crate::artifact;
use crate::chart::{Kind, Metadata};
use crate::version::{Constraint, VersionError, version};
use crate::yaml::{self, YamlError};

/// The largest index that is read. That of a large public repository has 30 MiB.
pub const MAX_INDEX_BYTES: usize = 64 << 20;
/// How many versions all charts may have together.
const MAX_ENTRIES: usize = 200_000;
/// How many versions are suggested in place of one that does not exist.
const SUGGESTIONS: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("index.yaml is larger than {max} MiB", max = MAX_INDEX_BYTES >> 20)]
    Large,
    #[error("index.yaml lists more than {MAX_ENTRIES} versions")]
    Many,
    #[error("index.yaml is empty")]
    Empty,
    #[error(
        "expected index.yaml, found an HTML page; check the URL, and whether the server requires a login"
    )]
    Html,
    #[error("index.yaml is not UTF-8 text")]
    Encoding,
    #[error("index.yaml cannot be read")]
    Yaml(#[source] YamlError),
    #[error("index.yaml is {0}, expected a map with `entries`")]
    Shape(&'static str),
    #[error("index.yaml has no apiVersion, so that it is not the index of a chart repository")]
    ApiVersion,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("the repository has no chart {name:?}{}", suggestion(nearest))]
    Chart { name: String, nearest: Vec<String> },
    #[error("the chart {name:?} has no version {wanted:?}{}", suggestion(nearest))]
    Version { name: String, wanted: String, nearest: Vec<String> },
    #[error("the chart {name:?} has pre-releases only; name one: {}", nearest.join(", "))]
    PreReleases { name: String, nearest: Vec<String> },
    #[error(transparent)]
    Constraint(#[from] VersionError),
}

/// An archive that is not the one that the index lists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the archive of {chart} has the digest {found}, but index.yaml lists {listed}")]
pub struct DigestMismatch {
    pub chart: String,
    pub listed: Digest,
    pub found: Digest,
}

fn suggestion(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; nearest: {}", nearest.join(", ")) }
}

/// The charts of a repository.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// The versions of each chart, the newest first.
    charts: BTreeMap<String, Vec<ChartVersion>>,
    /// Entries that were left out, and why.
    pub skipped: Vec<Skipped>,
}

/// A version of a chart in a repository.
#[derive(Debug, Clone)]
pub struct ChartVersion {
    pub metadata: Metadata,
    pub version: Version,
    /// Where the archive is, relative to the repository or not. The first that works is used.
    pub urls: Vec<String>,
    /// Of the archive.
    pub digest: Option<Digest>,
}

/// An entry of the index that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub chart: String,
    pub reason: String,
}

impl Index {
    pub fn parse(bytes: &[u8]) -> Result<Self, IndexError> {
        if bytes.len() > MAX_INDEX_BYTES {
            return Err(IndexError::Large);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| IndexError::Encoding)?;
        if text.trim().is_empty() {
            return Err(IndexError::Empty);
        }
        if yaml::is_html(text) {
            return Err(IndexError::Html);
        }
        let root = match serde_json::from_str::<serde_json::Value>(text) {
            Ok(root @ serde_json::Value::Object(_)) => root,
            _ => {
                let root = yaml::read(text).map_err(IndexError::Yaml)?;
                if !matches!(root.value, located_yaml::Value::Map(_)) {
                    return Err(IndexError::Shape(root.shape()));
                }
                root.to_json()
            }
        };
        if root.get("apiVersion").and_then(|version| version.as_str()).is_none_or(str::is_empty) {
            return Err(IndexError::ApiVersion);
        }
        let mut index = Self::default();
        let mut count = 0;
        let entries = root.get("entries").and_then(|entries| entries.as_object());
        for (name, versions) in entries.into_iter().flatten() {
            let mut usable = Vec::new();
            for entry in versions.as_array().into_iter().flatten() {
                count += 1;
                if count > MAX_ENTRIES {
                    return Err(IndexError::Many);
                }
                match ChartVersion::read(entry) {
                    Ok(version) => usable.push(version),
                    Err(reason) => {
                        index.skipped.push(Skipped { chart: name.clone(), reason });
                    }
                }
            }
            // Stable: of versions that differ in their build only, the first stays first.
            usable.sort_by(|a: &ChartVersion, b| b.version.cmp_precedence(&a.version));
            if !usable.is_empty() {
                index.charts.insert(name.clone(), usable);
            }
        }
        Ok(index)
    }

    /// The versions of one chart in a registry, by its tags. Tags that are not versions, such as
    /// those of signatures, are left out.
    pub fn of_tags<'t>(name: &str, tags: impl Iterator<Item = &'t Tag>) -> Self {
        let known = tags.filter_map(|tag| {
            let text = artifact::version_of(tag);
            let version = version(&text).ok()?;
            let metadata = Metadata { name: name.to_owned(), version: text, ..Metadata::default() };
            Some(ChartVersion { metadata, version, urls: Vec::new(), digest: None })
        });
        let mut versions: Vec<ChartVersion> = known.collect();
        versions.sort_by(|a, b| b.version.cmp_precedence(&a.version));
        Self { charts: [(name.to_owned(), versions)].into(), skipped: Vec::new() }
    }

    /// Charts in the order of their names, each with its versions, the newest first.
    pub fn charts(&self) -> impl Iterator<Item = (&str, &[ChartVersion])> {
        self.charts.iter().map(|(name, versions)| (name.as_str(), versions.as_slice()))
    }

    /// The version that Helm would install. `wanted` is a version or a constraint; without it, the
    /// newest version that is not a pre-release.
    pub fn select(&self, name: &str, wanted: Option<&str>) -> Result<&ChartVersion, SelectError> {
        let versions = self.charts.get(name).filter(|versions| !versions.is_empty());
        let versions = versions.ok_or_else(|| SelectError::Chart {
            name: name.to_owned(),
            nearest: nearest_names(name, self.charts.keys().filter(|known| *known != name)),
        })?;
        let constraint = match wanted {
            Some(wanted) => Constraint::parse(wanted)?,
            None => Constraint::any(),
        };
        let exact = versions.iter().find(|v| Some(v.metadata.version.as_str()) == wanted);
        let in_range = || versions.iter().find(|v| constraint.matches(&v.version));
        exact.or_else(in_range).ok_or_else(|| {
            let (name, wanted) = (name.to_owned(), wanted.map(str::to_owned));
            match wanted {
                Some(wanted) => {
                    let nearest = nearest_versions(&wanted, versions);
                    SelectError::Version { name, wanted, nearest }
                }
                None => {
                    let names = versions.iter().map(|v| v.metadata.version.clone());
                    SelectError::PreReleases { name, nearest: names.take(SUGGESTIONS).collect() }
                }
            }
        })
    }
}

impl ChartVersion {
    fn read(entry: &serde_json::Value) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Places {
            #[serde(default)]
            urls: Vec<String>,
            #[serde(default)]
            digest: Option<String>,
        }
        if entry.is_null() {
            return Err("the entry is empty".to_owned());
        }
        let metadata = Metadata::from_json(entry.clone()).map_err(|error| chain(&error))?;
        // An index may be made by programs that drop aliases, so that only what is needed is checked.
        let parsed = version(&metadata.version).map_err(|error| error.to_string())?;
        let places: Places =
            serde_json::from_value(entry.clone()).map_err(|error| error.to_string())?;
        let digest = places.digest.as_deref().filter(|digest| !digest.is_empty());
        let digest = digest.map(|digest| {
            let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
            Digest::from_hex(hex).map_err(|error| format!("digest {digest:?}: {error}"))
        });
        let digest = digest.transpose()?;
        Ok(Self { version: parsed, metadata, urls: places.urls, digest })
    }

    pub fn is_library(&self) -> bool {
        self.metadata.kind == Kind::Library
    }

    /// Compares an archive that was fetched with the digest of the index, where it has one.
    pub fn check(&self, archive: &[u8]) -> Result<(), DigestMismatch> {
        let found = Digest::of(archive);
        match self.digest {
            Some(listed) if listed != found => Err(DigestMismatch {
                chart: format!("{}-{}", self.metadata.name, self.metadata.version),
                listed,
                found,
            }),
            _ => Ok(()),
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// Where the index of a repository is. The URL may end with a slash or `index.yaml`, or not.
pub fn index_url(repository: &Url) -> Url {
    let mut url = repository.clone();
    let path = repository.path().trim_end_matches('/');
    let path = path.strip_suffix("/index.yaml").unwrap_or(path);
    url.set_path(&format!("{path}/index.yaml"));
    url
}

/// Where an archive is: URLs of an index may be relative to the repository. The query of the
/// repository's URL stays with those, because it may be a token.
pub fn archive_url(repository: &Url, listed: &str) -> Result<Url, url::ParseError> {
    match Url::parse(listed) {
        Ok(url) => Ok(url),
        Err(url::ParseError::RelativeUrlWithoutBase) => {
            let mut joined = index_url(repository).join(listed)?;
            if joined.query().is_none() {
                joined.set_query(repository.query());
            }
            Ok(joined)
        }
        Err(error) => Err(error),
    }
}

/// The versions around one that does not exist.
fn nearest_versions(wanted: &str, versions: &[ChartVersion]) -> Vec<String> {
    let text = |version: &ChartVersion| version.metadata.version.clone();
    let Ok(wanted) = version(wanted.trim_start_matches(|c: char| !c.is_ascii_digit())) else {
        return versions.iter().take(SUGGESTIONS).map(text).collect();
    };
    let distance = |version: &ChartVersion| {
        let v = &version.version;
        (
            v.major.abs_diff(wanted.major),
            v.minor.abs_diff(wanted.minor),
            v.patch.abs_diff(wanted.patch),
            !v.pre.is_empty(),
        )
    };
    let mut nearest: Vec<&ChartVersion> = versions.iter().collect();
    nearest.sort_by_key(|version| distance(version));
    nearest.into_iter().take(SUGGESTIONS).map(text).collect()
}

fn nearest_names<'n>(name: &str, known: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut near: Vec<(usize, &String)> =
        known.map(|known| (strsim::damerau_levenshtein(name, known), known)).collect();
    let tolerated = (name.len() / 3).clamp(1, 3);
    near.retain(|(distance, known)| *distance <= tolerated || known.contains(name));
    near.sort();
    near.into_iter().take(SUGGESTIONS).map(|(_, known)| known.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "apiVersion: v1\nentries:\n  web:\n  - {name: web, version: 1.2.0, urls: \
                         [web-1.2.0.tgz], digest: \
                         0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}\n  - \
                         {name: web, version: 2.0.0-rc.1, urls: []}\n  - {name: web, version: \
                         v1.10.0, urls: ['https://h/x.tgz']}\n  - {name: web, version: not}\n  - \
                         ~\n  pre:\n  - {name: pre, version: 0.1.0-beta}\n  broken: \
                         [~]\n  common:\n  - {name: \
                         common, version: 1.0.0, type: library}\ngenerated: 2026-01-01T00:00:00Z\n";

    #[test]
    fn versions_are_sorted_and_bad_entries_are_left_out() {
        let index = Index::parse(INDEX.as_bytes()).unwrap();
        let (_, versions) = index.charts().find(|(name, _)| *name == "web").unwrap();
        let texts: Vec<&str> = versions.iter().map(|v| v.metadata.version.as_str()).collect();
        assert_eq!(texts, ["2.0.0-rc.1", "v1.10.0", "1.2.0"]);
        assert!(versions[2].digest.is_some() && versions[1].digest.is_none());
        assert_eq!(index.skipped.len(), 3);
        assert!(index.select("common", None).unwrap().is_library());
    }

    #[test]
    fn a_version_is_chosen_as_helm_chooses_it() {
        let index = Index::parse(INDEX.as_bytes()).unwrap();
        for (expected, version) in [
            (None, "v1.10.0"),
            (Some("1.2.0"), "1.2.0"),
            (Some("1.10.0"), "v1.10.0"),
            (Some("^1"), "v1.10.0"),
            (Some("~1.2"), "1.2.0"),
            (Some(">=1-0"), "2.0.0-rc.1"),
            (Some("2.0.0-rc.1"), "2.0.0-rc.1"),
        ] {
            let chosen = index.select("web", expected).unwrap();
            assert_eq!(chosen.metadata.version, version, "{expected:?}");
        }
    }

    #[test]
    fn what_does_not_exist_is_reported_with_what_is_near() {
        let index = Index::parse(INDEX.as_bytes()).unwrap();
        for (name, expected, text) in [
            (
                "web",
                Some("1.3.0"),
                "the chart \"web\" has no version \"1.3.0\"; nearest: 1.2.0, v1.10.0, 2.0.0-rc.1",
            ),
            ("wev", None, "the repository has no chart \"wev\"; nearest: web"),
            ("zzzzzz", None, "the repository has no chart \"zzzzzz\""),
            ("broken", None, "the repository has no chart \"broken\""),
            ("pre", None, "the chart \"pre\" has pre-releases only; name one: 0.1.0-beta"),
        ] {
            assert_eq!(index.select(name, expected).unwrap_err().to_string(), text);
        }
        assert!(matches!(index.select("web", Some("one")), Err(SelectError::Constraint(_))));
    }

    #[test]
    fn an_archive_that_differs_from_the_index_is_an_error() {
        let index = Index::parse(INDEX.as_bytes()).unwrap();
        let error = index.select("web", Some("1.2.0")).unwrap().check(b"x").unwrap_err();
        assert!(error.to_string().contains("web-1.2.0 has the digest sha256:2d711642"), "{error}");
        assert!(index.select("web", None).unwrap().check(b"x").is_ok());
    }

    #[test]
    fn what_is_not_an_index_is_an_error() {
        for (text, expected) in [
            ("", "empty"),
            ("<!DOCTYPE html>\n<html></html>", "found an HTML page"),
            ("\n<HTML><body>", "found an HTML page"),
            ("- a\n", "index.yaml is a list"),
            ("entries: {}\n", "no apiVersion"),
            ("a: [\n", "cannot be read"),
        ] {
            let error = Index::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(matches!(Index::parse(&[0xff]), Err(IndexError::Encoding)));
    }

    #[test]
    fn tags_are_versions_unless_they_are_not() {
        let tags = ["1.2.0", "latest", "1.10.0_b1", "sha256-00.sig", "2.0.0-rc.1"];
        let tags: Vec<Tag> = tags.iter().map(|tag| tag.parse().unwrap()).collect();
        let index = Index::of_tags("web", tags.iter());
        let version = |expected| index.select("web", expected).unwrap().metadata.version.clone();
        assert_eq!(version(None), "1.10.0+b1");
        assert_eq!(version(Some("~1.2")), "1.2.0");
    }

    #[test]
    fn json_is_read_too() {
        let text = r#"{"apiVersion":"v1","entries":{"a":[{"name":"a","version":"1.0.0"}]}}"#;
        assert!(Index::parse(text.as_bytes()).unwrap().select("a", None).is_ok());
    }

    #[test]
    fn urls_are_joined_with_and_without_a_slash() {
        for repository in ["https://h/charts", "https://h/charts/", "https://h/charts/index.yaml"] {
            let repository = Url::parse(repository).unwrap();
            assert_eq!(index_url(&repository).as_str(), "https://h/charts/index.yaml");
            for (listed, expected) in [
                ("a-1.tgz", "https://h/charts/a-1.tgz"),
                ("sub/a-1.tgz", "https://h/charts/sub/a-1.tgz"),
                ("/a-1.tgz", "https://h/a-1.tgz"),
                ("https://o/a-1.tgz", "https://o/a-1.tgz"),
                ("oci://r/a:1", "oci://r/a:1"),
            ] {
                assert_eq!(archive_url(&repository, listed).unwrap().as_str(), expected);
            }
        }
        let root = Url::parse("https://h?token=x").unwrap();
        assert_eq!(index_url(&root).as_str(), "https://h/index.yaml?token=x");
        assert_eq!(archive_url(&root, "a.tgz").unwrap().as_str(), "https://h/a.tgz?token=x");
    }
}
