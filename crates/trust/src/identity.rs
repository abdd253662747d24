//! Whether the name in a signature is the name the image is mirrored under.

use std::fmt;

use oci::{ImageRef, Pointer};
use serde::Deserialize;

use crate::scope::{Name, is_prefix};

/// Which name a signature must carry.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[serde(deny_unknown_fields)]
pub(crate) enum SignedIdentity {
    MatchExact {},
    MatchRepoDigestOrExact {},
    MatchRepository {},
    ExactReference { docker_reference: ImageRef },
    ExactRepository { docker_repository: ImageRef },
    RemapIdentity { prefix: String, signed_prefix: String },
}

/// If a policy does not specify it.
impl Default for SignedIdentity {
    fn default() -> Self {
        Self::MatchRepoDigestOrExact {}
    }
}

/// An identity that no signature could carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("dockerReference {0} has neither tag nor digest; without one use exactRepository")]
    NameOnly(ImageRef),
    #[error("dockerRepository {0} has a tag or a digest; with one use exactReference")]
    NotNameOnly(ImageRef),
    #[error("remapIdentity: {0:?} is neither host[:port] nor host/path")]
    Prefix(String),
}

impl SignedIdentity {
    pub(crate) fn check(&self) -> Result<(), IdentityError> {
        match self {
            Self::ExactReference { docker_reference } if is_name_only(docker_reference) => {
                Err(IdentityError::NameOnly(docker_reference.clone()))
            }
            Self::ExactRepository { docker_repository } if !is_name_only(docker_repository) => {
                Err(IdentityError::NotNameOnly(docker_repository.clone()))
            }
            Self::RemapIdentity { prefix, signed_prefix } => {
                match [prefix, signed_prefix].into_iter().find(|prefix| !is_prefix(prefix)) {
                    Some(bad) => Err(IdentityError::Prefix(bad.clone())),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether a signature of `signed` is one of the image `name`.
    pub(crate) fn accepts(&self, name: Name<'_>, signed: &ImageRef) -> bool {
        // A layout has no name that a signature could carry.
        let intended = name.reference();
        let matches = |holds: fn(&ImageRef, &ImageRef) -> bool| {
            intended.as_ref().is_some_and(|intended| holds(intended, signed))
        };
        match self {
            Self::MatchExact {} => matches(|intended, signed| intended == signed),
            Self::MatchRepoDigestOrExact {} => matches(repo_digest_or_exact),
            Self::MatchRepository {} => matches(same_repository),
            Self::ExactReference { docker_reference } => docker_reference == signed,
            Self::ExactRepository { docker_repository } => {
                same_repository(docker_repository, signed)
            }
            Self::RemapIdentity { prefix, signed_prefix } => intended
                .and_then(|intended| remapped(&intended, prefix, signed_prefix))
                .is_some_and(|intended| repo_digest_or_exact(&intended, signed)),
        }
    }
}

impl fmt::Display for SignedIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MatchExact {} => f.write_str("matchExact"),
            Self::MatchRepoDigestOrExact {} => f.write_str("matchRepoDigestOrExact"),
            Self::MatchRepository {} => f.write_str("matchRepository"),
            Self::ExactReference { docker_reference } => {
                write!(f, "exactReference {docker_reference}")
            }
            Self::ExactRepository { docker_repository } => {
                write!(f, "exactRepository {docker_repository}")
            }
            Self::RemapIdentity { prefix, signed_prefix } => {
                write!(f, "remapIdentity of {prefix} to {signed_prefix}")
            }
        }
    }
}

pub(crate) fn is_name_only(image: &ImageRef) -> bool {
    image.tag.is_none() && image.digest.is_none()
}

fn same_repository(a: &ImageRef, b: &ImageRef) -> bool {
    (&a.registry, &a.repository) == (&b.registry, &b.repository)
}

/// A digest is checked elsewhere, so any tag of its repository will do; a tag
/// must be the very one that was signed.
fn repo_digest_or_exact(intended: &ImageRef, signed: &ImageRef) -> bool {
    match intended.pointer() {
        _ if is_name_only(signed) => false,
        Some(Pointer::Digest(_)) => same_repository(intended, signed),
        Some(Pointer::Tag(_)) => intended == signed,
        None => false,
    }
}

/// The image under the name it was signed by. One that is not below `prefix`
/// keeps its name.
fn remapped(intended: &ImageRef, prefix: &str, signed_prefix: &str) -> Option<ImageRef> {
    let name = intended.name();
    let rest = match name.strip_prefix(prefix) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => return Some(intended.clone()),
    };
    let name = format!("{signed_prefix}{rest}");
    // Taken apart here, as short names must not be completed.
    let (registry, repository) = name.split_once('/')?;
    Some(ImageRef {
        registry: registry.parse().ok()?,
        repository: repository.parse().ok()?,
        tag: intended.tag.clone(),
        digest: intended.digest,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn identity(json: &str) -> SignedIdentity {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn each_kind_of_identity_accepts_what_the_format_defines() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let by_digest = format!("m.io/v/app@{digest}");
        let exact = r#"{"type":"matchExact"}"#;
        let usual = r#"{"type":"matchRepoDigestOrExact"}"#;
        let repository = r#"{"type":"matchRepository"}"#;
        let reference = r#"{"type":"exactReference","dockerReference":"v.io/app:v1"}"#;
        let elsewhere = r#"{"type":"exactRepository","dockerRepository":"v.io/app"}"#;
        let remap = r#"{"type":"remapIdentity","prefix":"m.io/v","signedPrefix":"v.io"}"#;
        let other = r#"{"type":"remapIdentity","prefix":"m.io/vv","signedPrefix":"v.io"}"#;
        let partial = r#"{"type":"remapIdentity","prefix":"m.io/v/ap","signedPrefix":"v.io"}"#;
        for (rule, image, signed, accepted) in [
            (exact, "m.io/v/app:v1", "m.io/v/app:v1", true),
            (exact, "m.io/v/app:v1", "m.io/v/app:v2", false),
            (exact, "m.io/v/app:v1", "m.io/v/app", false),
            (exact, "m.io/v/app", "m.io/v/app:latest", true),
            (exact, &by_digest, "m.io/v/app:v1", false),
            (exact, &by_digest, &by_digest, true),
            (usual, "m.io/v/app:v1", "m.io/v/app:v1", true),
            (usual, "m.io/v/app:v1", "m.io/v/app:v2", false),
            (usual, "m.io/v/app:v1", "m.io/v/app", false),
            (usual, &by_digest, "m.io/v/app:v7", true),
            (usual, &by_digest, "m.io/v/app", false),
            (usual, &by_digest, "m.io/v/other:v7", false),
            (repository, "m.io/v/app:v1", "m.io/v/app:v2", true),
            (repository, "m.io/v/app:v1", "m.io/v/app", true),
            (repository, "m.io/v/app:v1", "m.io/v/apps:v1", false),
            (repository, "m.io/v/app:v1", "n.io/v/app:v1", false),
            (repository, "busybox:1", "docker.io/library/busybox:2", true),
            (reference, "m.io/v/app:v9", "v.io/app:v1", true),
            (reference, "m.io/v/app:v1", "v.io/app:v2", false),
            (elsewhere, "m.io/v/app:v9", "v.io/app:v1", true),
            (elsewhere, "m.io/v/app:v9", "v.io/app", true),
            (elsewhere, "m.io/v/app:v9", "m.io/v/app:v9", false),
            (remap, "m.io/v/app:v1", "v.io/app:v1", true),
            (remap, "m.io/v/app:v1", "v.io/app:v2", false),
            (remap, &by_digest, "v.io/app:v2", true),
            (remap, "m.io/v/app:v1", "m.io/v/app:v1", false),
            (other, "m.io/v/app:v1", "m.io/v/app:v1", true),
            (partial, "m.io/v/app:v1", "m.io/v/app:v1", true),
            (partial, "m.io/v/app:v1", "v.iop:v1", false),
        ] {
            let (image, signed) = (image.parse().unwrap(), signed.parse().unwrap());
            let found = identity(rule).accepts(Name::Registry(&image), &signed);
            assert_eq!(found, accepted, "{rule} {image} {signed}");
        }
    }

    #[test]
    fn a_layout_is_known_only_by_a_name_that_the_policy_gives() {
        let (layout, signed) = (Name::Layout(Path::new("/srv/x")), "v.io/app:v1".parse().unwrap());
        let exact = r#"{"type":"exactReference","dockerReference":"v.io/app:v1"}"#;
        assert!(identity(exact).accepts(layout, &signed));
        for rule in ["matchExact", "matchRepoDigestOrExact", "matchRepository"] {
            let rule = identity(&format!(r#"{{"type":{rule:?}}}"#));
            assert!(!rule.accepts(layout, &signed), "{rule}");
        }
    }

    #[test]
    fn an_identity_that_no_signature_could_have_is_found() {
        for (json, part) in [
            (r#"{"type":"exactReference","dockerReference":"v.io/app"}"#, "neither tag nor digest"),
            (r#"{"type":"exactRepository","dockerRepository":"v.io/app:1"}"#, "has a tag"),
            (r#"{"type":"remapIdentity","prefix":"","signedPrefix":"v.io"}"#, "\"\" is neither"),
            (
                r#"{"type":"remapIdentity","prefix":"v.io","signedPrefix":"v.io/a:b"}"#,
                "is neither host",
            ),
        ] {
            let error = identity(json).check().unwrap_err().to_string();
            assert!(error.contains(part), "{json}: {error}");
        }
        assert_eq!(SignedIdentity::default().check(), Ok(()));
    }
}
