//! Names of MachineConfigs and of the pools they are for.

use std::fmt;
use std::str::FromStr;

/// Longest name of a Kubernetes object, and of a label's value.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error(
        "{0:?} is not a name for a MachineConfig: use lower-case letters, digits, `-` and `.`, at most \
         {MAX_NAME}, beginning and ending with a letter or digit"
    )]
    MachineConfig(String),
    #[error(
        "{0:?} is not a role: use lower-case letters, digits and `-`, at most {MAX_LABEL}, beginning \
         and ending with a letter or digit; `master` and `worker` are those every cluster has"
    )]
    Role(String),
}

/// The name of a MachineConfig.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineConfigName(String);

/// The machine config pool that a MachineConfig is for: `master`, `worker` or a pool of one's own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Role(String);

impl MachineConfigName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Role {
    pub fn master() -> Self {
        Self("master".to_owned())
    }

    pub fn worker() -> Self {
        Self("worker".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A pool that is neither of the two that every cluster has. Its nodes are workers, too.
    pub fn is_custom(&self) -> bool {
        !matches!(self.as_str(), "master" | "worker")
    }

    /// The role that every cluster has and of which this one is probably a misspelling.
    pub fn almost(&self) -> Option<Self> {
        let is_near = |known: &Self| strsim::osa_distance(&self.0, &known.0) <= 2;
        [Self::master(), Self::worker()].into_iter().find(is_near).filter(|_| self.is_custom())
    }
}

impl FromStr for MachineConfigName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_name = text.len() <= MAX_NAME && text.split('.').all(is_label);
        if is_name { Ok(Self(text.to_owned())) } else { Err(NameError::MachineConfig(text.into())) }
    }
}

impl FromStr for Role {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_role = text.len() <= MAX_LABEL && is_label(text);
        if is_role { Ok(Self(text.to_owned())) } else { Err(NameError::Role(text.into())) }
    }
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-');
    text.bytes().all(inner) && !text.is_empty() && !text.starts_with('-') && !text.ends_with('-')
}

impl fmt::Display for MachineConfigName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_kubernetes_takes() {
        for good in ["10-br-ex-worker", "a", "99-worker.example.com"] {
            assert!(good.parse::<MachineConfigName>().is_ok(), "{good}");
        }
        for bad in ["", "Worker", "a_b", "-a", "a-", "a..b", ".a", &"a".repeat(254)] {
            assert!(bad.parse::<MachineConfigName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_role_is_the_name_of_a_pool() {
        assert!("infra".parse::<Role>().unwrap().is_custom());
        assert!(!"worker".parse::<Role>().unwrap().is_custom());
        for bad in ["", "a.b", "Master", "a/b", &"a".repeat(64)] {
            assert!(bad.parse::<Role>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_misspelled_role_is_reported_and_a_custom_pool_is_not() {
        let almost = |text: &str| text.parse::<Role>().unwrap().almost();
        assert_eq!(almost("wroker"), Some(Role::worker()));
        assert_eq!(almost("masters"), Some(Role::master()));
        for role in ["worker", "master", "infra", "worker-gpu", "storage"] {
            assert_eq!(almost(role), None, "{role}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_role_is_reported() {
        assert_eq!(
            "Master".parse::<Role>().unwrap_err().to_string(),
            "\"Master\" is not a role: use lower-case letters, digits and `-`, at most 63, beginning \
             and ending with a letter or digit; `master` and `worker` are those every cluster has",
        );
    }
}
