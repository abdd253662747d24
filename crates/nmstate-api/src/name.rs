//! Names of nodes, policies and enactments, checked once.

use std::fmt;
use std::str::FromStr;

/// A label value may be no longer than this.
const LABEL_VALUE: usize = 63;
/// The name of an object may be no longer than this.
const OBJECT_NAME: usize = 253;

/// A name that Kubernetes would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error(
        "{name:?} cannot name a node: it must be 1 to {OBJECT_NAME} lowercase letters, digits, `-` and `.`, with a letter or digit at both ends"
    )]
    Node { name: String },
    #[error(
        "{name:?} cannot name a policy: it must be 1 to {LABEL_VALUE} lowercase letters, digits, `-` and `.`, with a letter or digit at both ends, as it becomes the value of a label"
    )]
    Policy { name: String },
}

/// The name of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Box<str>);

/// The name of a policy, short enough to be the value of a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyName(Box<str>);

/// The name of what a node reports about a policy: `<node>.<policy>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnactmentName(String);

impl EnactmentName {
    pub fn new(node: &NodeName, policy: &PolicyName) -> Self {
        Self(format!("{node}.{policy}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl NodeName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PolicyName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        if is_name(name, OBJECT_NAME) {
            Ok(Self(name.into()))
        } else {
            Err(NameError::Node { name: name.to_owned() })
        }
    }
}

impl FromStr for PolicyName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        if is_name(name, LABEL_VALUE) {
            Ok(Self(name.into()))
        } else {
            Err(NameError::Policy { name: name.to_owned() })
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for EnactmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parts of lowercase letters, digits and inner dashes, joined by dots.
fn is_name(name: &str, longest: usize) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|&byte| alphanumeric(byte))
            && bytes.last().is_some_and(|&byte| alphanumeric(byte))
            && bytes.iter().all(|&byte| alphanumeric(byte) || byte == b'-')
    };
    name.len() <= longest && name.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_kubernetes_takes_are_taken() {
        for name in ["a", "worker-0", "worker-0.example.com", "0"] {
            assert_eq!(name.parse::<NodeName>().unwrap().as_str(), name);
            assert_eq!(name.parse::<PolicyName>().unwrap().as_str(), name);
        }
    }

    #[test]
    fn names_that_kubernetes_refuses_are_refused() {
        for name in ["", "A", "-a", "a-", "a..b", "a_b", "a/b", "ä"] {
            assert!(name.parse::<NodeName>().is_err(), "{name}");
            assert!(name.parse::<PolicyName>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_policy_may_not_be_longer_than_a_label_and_a_node_may() {
        assert!("a".repeat(63).parse::<PolicyName>().is_ok());
        assert!("a".repeat(64).parse::<PolicyName>().is_err());
        assert!("a".repeat(64).parse::<NodeName>().is_ok());
    }

    #[test]
    fn an_enactment_is_named_after_node_and_policy() {
        let name = EnactmentName::new(&"worker-0".parse().unwrap(), &"vlan".parse().unwrap());
        assert_eq!(name.as_str(), "worker-0.vlan");
    }
}
