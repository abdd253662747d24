//! The name of a run: that of its plan, short enough for names of pods.

use std::fmt;
use std::str::FromStr;

use oci::Digest;

const PREFIX: &str = "oc-mirror-";
/// Digits of the digest: enough that two plans never have the same name.
const DIGITS: usize = 12;

/// `oc-mirror-0123456789ab`
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a run: expected {PREFIX} and {DIGITS} hexadecimal digits")]
pub struct RunNameError(String);

impl RunName {
    /// The name of the run of a plan.
    pub fn of(plan: &Digest) -> Self {
        Self(format!("{PREFIX}{}", &plan.hex()[..DIGITS]))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The Job that transfers blobs.
    pub fn blobs_job(&self) -> String {
        format!("{self}-blobs")
    }

    /// The Job that publishes.
    pub fn publish_job(&self) -> String {
        format!("{self}-publish")
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunName {
    type Err = RunNameError;

    fn from_str(text: &str) -> Result<Self, RunNameError> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match text.strip_prefix(PREFIX) {
            Some(digits) if digits.len() == DIGITS && digits.bytes().all(is_hex) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(RunNameError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_by_its_plan_and_the_name_can_be_read_again() {
        let name = RunName::of(&Digest::of(b"plan"));
        assert_eq!(name.as_str().len(), 22);
        assert_eq!(name.to_string().parse(), Ok(name));
        for other in [
            "",
            "oc-mirror-",
            "oc-mirror-0123456789AB",
            "0123456789ab",
            "oc-mirror-0123456789ab-blobs",
        ] {
            assert!(other.parse::<RunName>().is_err(), "{other}");
        }
    }
}
