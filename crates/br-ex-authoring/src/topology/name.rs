//! Names and numbers that the kernel accepts.

use std::fmt;
use std::str::FromStr;

/// The name of an interface: 1 to 15 letters, digits and `-_.@:`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceName(String);

/// Not the name of an interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of an interface: expected 1 to 15 letters, digits and -_.@:")]
pub struct InterfaceNameError(String);

impl InterfaceName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InterfaceName {
    type Err = InterfaceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_good = (1..=15).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.@:".contains(&b))
            && !matches!(text, "." | "..")
            && text != br_ex::BRIDGE;
        if is_good { Ok(Self(text.to_owned())) } else { Err(InterfaceNameError(text.to_owned())) }
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a VLAN: 1 to 4094.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanId(u16);

/// Not the number of a VLAN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected the number of a VLAN, from 1 to 4094, found {0:?}")]
pub struct VlanIdError(String);

impl VlanId {
    pub fn number(self) -> u16 {
        self.0
    }
}

impl FromStr for VlanId {
    type Err = VlanIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.parse().ok().filter(|number| (1..=4094).contains(number));
        number.map(Self).ok_or_else(|| VlanIdError(text.to_owned()))
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kernel() {
        for good in ["eno1", "bond0.100", "a", "enp59s0f0np0"] {
            assert_eq!(good.parse::<InterfaceName>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "a b", "sixteen-letters-x", "br-ex", "ä", "{{x}}"] {
            assert!(bad.parse::<InterfaceName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn vlans_have_12_bits_of_which_two_are_taken() {
        assert!("1".parse::<VlanId>().is_ok() && "4094".parse::<VlanId>().is_ok());
        for bad in ["0", "4095", "-1", "x"] {
            assert!(bad.parse::<VlanId>().is_err(), "{bad}");
        }
    }
}
