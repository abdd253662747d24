//! Operating system and processor that an image is for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The platform of an image in an index, or one that a user requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Platform {
    pub os: String,
    pub architecture: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a platform: write os/architecture, for example linux/amd64")]
pub struct PlatformError(String);

impl Platform {
    pub fn new(os: &str, architecture: &str) -> Self {
        Self { os: os.into(), architecture: architecture.into(), variant: None }
    }

    /// Whether an image for `held` is one of those `self` requests. A platform
    /// without variant accepts any.
    pub fn accepts(&self, held: &Platform) -> bool {
        self.os == held.os
            && self.architecture == held.architecture
            && (self.variant.is_none() || self.variant == held.variant)
    }
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        let mut parts = text.split('/');
        let mut part = || parts.next().filter(|part| !part.is_empty()).map(str::to_owned);
        let (os, architecture, variant) = (part(), part(), part());
        match (os, architecture, text.split('/').count()) {
            (Some(os), Some(architecture), 2) => Ok(Self { os, architecture, variant: None }),
            (Some(os), Some(architecture), 3) if variant.is_some() => {
                Ok(Self { os, architecture, variant })
            }
            _ => Err(PlatformError(text.into())),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_print_as_they_are_written() {
        for text in ["linux/amd64", "linux/arm64/v8"] {
            assert_eq!(text.parse::<Platform>().unwrap().to_string(), text);
        }
        for text in ["linux", "linux/", "/amd64", "a/b/c/d", "linux/arm/"] {
            assert!(text.parse::<Platform>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_platform_without_variant_matches_any_variant() {
        let v8: Platform = "linux/arm64/v8".parse().unwrap();
        assert!(Platform::new("linux", "arm64").accepts(&v8));
        assert!(!v8.accepts(&Platform::new("linux", "arm64")));
    }
}
