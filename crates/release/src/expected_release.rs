//! Whether a signed payload is the release that the update graph names.
//!
//! Every release that was ever published has a good signature. A hostile update service could hand
//! out the payload of an old release, or of another architecture, under the name of a new one: the
//! signature alone does not prove it. The name that the signer gave the release does, and so does the release.

use image_set::Architecture;
use oci::Tag;
use semver::Version;

use crate::payload::ReleaseMetadata;

/// The release that the update graph names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedRelease<'a> {
    pub version: &'a Version,
    pub architecture: Architecture,
}

/// A payload of another release than expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnexpectedRelease {
    #[error(
        "the update graph names a payload that is signed as {signed}, expected {version} for {}; the update service is wrong, or it is not the one you meant",
        architecture.as_str()
    )]
    Tag { signed: Tag, version: Version, architecture: Architecture },
    #[error(
        "the update graph names a payload for release {version}, but its own metadata has {found}; the update service is wrong, or it is not the one you meant"
    )]
    Version { version: Version, found: Version },
    #[error(
        "the update graph names a payload for {}, but its own metadata has {found}; the update service is wrong, or it is not the one you meant",
        architecture.as_str()
    )]
    Architecture { architecture: Architecture, found: String },
}

impl ExpectedRelease<'_> {
    /// Compares with the tag that the signer gave the payload: `4.16.3-x86_64`. A tag without an
    /// architecture does not restrict it, as those of the first releases and of OKD.
    pub fn check_tag(self, signed: &Tag) -> Result<(), UnexpectedRelease> {
        // A tag cannot hold the `+` of build metadata.
        let version = self.version.to_string().replace('+', "-");
        let kept = match signed.as_str().strip_prefix(&*version) {
            Some("") => true,
            Some(rest) => rest.strip_prefix('-') == Some(machine(self.architecture)),
            None => false,
        };
        match kept {
            true => Ok(()),
            false => Err(UnexpectedRelease::Tag {
                signed: signed.clone(),
                version: self.version.clone(),
                architecture: self.architecture,
            }),
        }
    }

    /// Compares with the metadata of the release.
    pub fn check_metadata(self, metadata: &ReleaseMetadata) -> Result<(), UnexpectedRelease> {
        if metadata.version != *self.version {
            let (version, found) = (self.version.clone(), metadata.version.clone());
            return Err(UnexpectedRelease::Version { version, found });
        }
        let is_multi = self.architecture == Architecture::Multi;
        match metadata.architecture.as_deref() {
            Some("multi") if is_multi => Ok(()),
            Some(found) => {
                let found = found.to_owned();
                Err(UnexpectedRelease::Architecture { architecture: self.architecture, found })
            }
            // Payloads for one architecture do not name it.
            None if !is_multi => Ok(()),
            None => {
                let found = "one architecture".to_owned();
                Err(UnexpectedRelease::Architecture { architecture: self.architecture, found })
            }
        }
    }
}

/// What an architecture is called in tags of releases.
fn machine(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Amd64 => "x86_64",
        Architecture::Arm64 => "aarch64",
        Architecture::Ppc64le => "ppc64le",
        Architecture::S390x => "s390x",
        Architecture::Multi => "multi",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: &str, architecture: Architecture, tag: &str) -> Result<(), String> {
        let version = version.parse().unwrap();
        let release = ExpectedRelease { version: &version, architecture };
        release.check_tag(&tag.parse().unwrap()).map_err(|broken| broken.to_string())
    }

    #[test]
    fn the_signed_tag_is_the_version_and_the_architecture_of_the_graph() {
        use Architecture::{Amd64, Arm64, Multi, Ppc64le, S390x};
        for (version, architecture, tag) in [
            ("4.16.3", Amd64, "4.16.3-x86_64"),
            ("4.16.3", Arm64, "4.16.3-aarch64"),
            ("4.16.3", Ppc64le, "4.16.3-ppc64le"),
            ("4.16.3", S390x, "4.16.3-s390x"),
            ("4.16.3", Multi, "4.16.3-multi"),
            ("4.18.0-rc.1", Amd64, "4.18.0-rc.1-x86_64"),
            ("4.1.0", Amd64, "4.1.0"),
            ("4.15.0-0.okd-2024-01-27-070424", Amd64, "4.15.0-0.okd-2024-01-27-070424"),
        ] {
            assert_eq!(check(version, architecture, tag), Ok(()), "{version} {tag}");
        }
        for (version, architecture, tag) in [
            ("4.16.3", Amd64, "4.16.2-x86_64"),
            ("4.16.3", Amd64, "4.16.30-x86_64"),
            ("4.16.3", Amd64, "4.16.3-rc.1-x86_64"),
            ("4.16.3", Amd64, "4.16.3-aarch64"),
            ("4.16.3", Multi, "4.16.3-x86_64"),
            ("4.16.3", Amd64, "4.16.3-multi"),
        ] {
            let why = check(version, architecture, tag).unwrap_err();
            assert!(why.contains(&format!("signed as {tag}, expected {version}")), "{why}");
        }
    }

    #[test]
    fn the_metadata_of_a_release_matches_the_update_graph() {
        let version: Version = "4.16.3".parse().unwrap();
        let says = |version: &str, architecture: Option<&str>| ReleaseMetadata {
            version: version.parse().unwrap(),
            previous: Vec::new(),
            url: None,
            architecture: architecture.map(str::to_owned),
        };
        let release = |architecture| ExpectedRelease { version: &version, architecture };
        let (single, multi) = (release(Architecture::Amd64), release(Architecture::Multi));
        assert_eq!(single.check_metadata(&says("4.16.3", None)), Ok(()));
        assert_eq!(multi.check_metadata(&says("4.16.3", Some("multi"))), Ok(()));
        for (release, metadata, expected) in [
            (single, says("4.16.2", None), "its own metadata has 4.16.2"),
            (single, says("4.16.3", Some("multi")), "its own metadata has multi"),
            (multi, says("4.16.3", None), "its own metadata has one architecture"),
        ] {
            let why = release.check_metadata(&metadata).unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
        }
    }
}
