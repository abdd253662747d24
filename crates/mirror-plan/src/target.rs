//! The registry that images are mirrored to, and the namespace below it.

use std::fmt;
use std::str::FromStr;

use oci::{ReferenceError, RegistryHost, Repository};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `REGISTRY[/namespace…]`, as given on the command line.
///
/// Unlike in an image reference the first word is always the registry: no one
/// mirrors to a path without one, so `reg/ns` means the host `reg`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    pub registry: RegistryHost,
    pub namespace: Option<Repository>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("the target is empty: expected docker://REGISTRY[/NAMESPACE]")]
    Empty,
    #[error("the target {0:?} is not a registry: expected docker://REGISTRY[/NAMESPACE]")]
    Transport(String),
    #[error(
        "the target {0:?} names an image: leave out the tag or digest, each image gets its own"
    )]
    Image(String),
    #[error("the target {target:?} cannot be used")]
    Part { target: String, source: ReferenceError },
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let name = text.strip_prefix("docker://").unwrap_or(text).trim_end_matches('/');
        if name.is_empty() {
            return Err(TargetError::Empty);
        }
        if name.contains("://") {
            return Err(TargetError::Transport(text.into()));
        }
        let (registry, namespace) = match name.split_once('/') {
            Some((registry, namespace)) => (registry, Some(namespace)),
            None => (name, None),
        };
        // A path never holds these two; a tag or a digest does.
        if namespace.is_some_and(|namespace| namespace.contains([':', '@'])) {
            return Err(TargetError::Image(text.into()));
        }
        let part = |source| TargetError::Part { target: text.into(), source };
        Ok(Self {
            registry: registry.parse().map_err(part)?,
            namespace: namespace.map(str::parse).transpose().map_err(part)?,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.registry)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(f, "/{namespace}"))
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn the_first_word_is_the_registry_and_the_rest_the_namespace() {
        for (text, registry, namespace) in [
            ("docker://reg.local:5000/ocp", "reg.local:5000", Some("ocp")),
            ("docker://reg.local:5000", "reg.local:5000", None),
            ("docker://reg.local:5000/", "reg.local:5000", None),
            ("reg.local/a/b///", "reg.local", Some("a/b")),
            ("reg/ns", "reg", Some("ns")),
            ("docker://reg", "reg", None),
            ("[fd00::1]:5000/x", "[fd00::1]:5000", Some("x")),
            ("10.0.0.1:5000/x", "10.0.0.1:5000", Some("x")),
        ] {
            let target: Target = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(target.registry.as_str(), registry, "{text}");
            assert_eq!(target.namespace.as_ref().map(Repository::as_str), namespace, "{text}");
        }
    }

    #[test]
    fn a_printed_target_reads_back_the_same() {
        for text in ["reg", "reg/ns", "reg.local:5000/a/b"] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), text);
            let json = serde_json::to_string(&target).unwrap();
            assert_eq!(serde_json::from_str::<Target>(&json).unwrap(), target);
        }
    }

    #[test]
    fn a_bad_target_is_reported_with_what_is_wrong() {
        for (text, expected) in [
            ("", "is empty"),
            ("docker://", "is empty"),
            ("docker:///", "is empty"),
            ("oci:///tmp/x", "not a registry"),
            ("docker://file:///x", "not a registry"),
            ("docker://reg.local/ns/image:v1", "names an image"),
            ("docker://reg.local/ns@sha256:12", "names an image"),
            ("docker://reg.local/Upper", "not a repository"),
            ("docker://reg.local/a//b", "not a repository"),
            ("docker:///ns", "not a registry"),
            ("docker://reg_local/ns", "not a registry"),
            ("docker://reg.local:99999", "not a registry"),
        ] {
            let error = text.parse::<Target>().unwrap_err();
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            assert!(format!("{error}: {cause}").contains(expected), "{text}: {error}: {cause}");
        }
    }
}
