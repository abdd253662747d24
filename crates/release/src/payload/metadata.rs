//! `release-metadata`: what a release declares to update services.

use semver::Version;
use serde::Deserialize;

const KIND: &str = "cincinnati-metadata-v0";

/// What a release declares about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseMetadata {
    pub version: Version,
    /// Releases that a cluster may come from, before updates are withdrawn.
    pub previous: Vec<Version>,
    /// Where the release is announced.
    pub url: Option<String>,
    /// Set for payloads of several architectures: `multi`.
    pub architecture: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error("the release's own metadata (release-metadata) cannot be read")]
    Json(#[source] serde_json::Error),
    #[error("the release's own metadata (release-metadata) is of the kind {0:?}, not {KIND}")]
    Kind(String),
}

#[derive(Deserialize)]
struct Written {
    kind: String,
    version: Version,
    #[serde(default)]
    previous: Option<Vec<Version>>,
    #[serde(default)]
    metadata: Option<Details>,
}

#[derive(Deserialize, Default)]
struct Details {
    url: Option<String>,
    #[serde(rename = "release.openshift.io/architecture")]
    architecture: Option<String>,
}

impl ReleaseMetadata {
    pub fn parse(bytes: &[u8]) -> Result<Self, MetadataError> {
        let written: Written = serde_json::from_slice(bytes).map_err(MetadataError::Json)?;
        if written.kind != KIND {
            return Err(MetadataError::Kind(written.kind));
        }
        let Details { url, architecture } = written.metadata.unwrap_or_default();
        Ok(Self {
            version: written.version,
            previous: written.previous.unwrap_or_default(),
            url,
            architecture,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_its_version_and_where_it_can_be_reached_from() {
        let text = r#"{"kind":"cincinnati-metadata-v0","version":"4.14.1","previous":["4.13.9","4.14.0"],
            "metadata":{"url":"https://x.example/1","release.openshift.io/architecture":"multi"}}"#;
        let read = ReleaseMetadata::parse(text.as_bytes()).unwrap();
        assert_eq!((read.version.to_string().as_str(), read.previous.len()), ("4.14.1", 2));
        assert_eq!(read.architecture.as_deref(), Some("multi"));
        let bare = r#"{"kind":"cincinnati-metadata-v0","version":"4.14.1"}"#;
        assert_eq!(ReleaseMetadata::parse(bare.as_bytes()).unwrap().url, None);
        for wrong in ["", "{}", &bare.replace("4.14.1", "4.14"), &bare.replace("-v0", "-v9")] {
            assert!(ReleaseMetadata::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
