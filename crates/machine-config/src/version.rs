//! Versions of Ignition's configuration that the machine config operator accepts.

use std::fmt;
use std::str::FromStr;

/// A version that can be read: any 2.x, and 3.0 to 3.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IgnitionVersion {
    major: u8,
    minor: u8,
    patch: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Ignition {0:?} is not supported; supported are 2.x and 3.0.0 to 3.5.0")]
pub struct VersionError(String);

impl IgnitionVersion {
    /// What is written: every supported release of OpenShift reads it.
    pub const WRITTEN: Self = Self { major: 3, minor: 2, patch: 0 };

    /// Version 2, which the operator converts; its files have other fields.
    pub fn is_old(self) -> bool {
        self.major == 2
    }
}

impl FromStr for IgnitionVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let mut numbers = text.split('.').map(|part| {
            let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            if is_number { part.parse::<u8>().ok() } else { None }
        });
        let version = match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
            (Some(Some(major)), Some(Some(minor)), Some(Some(patch)), None) => {
                Self { major, minor, patch }
            }
            _ => return Err(VersionError(text.to_owned())),
        };
        match (version.major, version.minor) {
            (2, _) | (3, 0..=5) => Ok(version),
            _ => Err(VersionError(text.to_owned())),
        }
    }
}

impl fmt::Display for IgnitionVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_the_operator_takes_are_read_and_no_others() {
        for good in ["2.2.0", "2.4.0", "3.0.0", "3.2.0", "3.5.0"] {
            assert_eq!(good.parse::<IgnitionVersion>().unwrap().to_string(), good);
        }
        for bad in ["", "3", "3.2", "3.6.0", "1.0.0", "3.6.0-experimental", "3.2.0.0", "+3.2.0"] {
            assert!(bad.parse::<IgnitionVersion>().is_err(), "{bad}");
        }
    }
}
