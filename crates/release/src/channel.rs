//! Names of release channels: `stable-4.16`, `eus-4.14`, `4-stable`.

use std::collections::BTreeSet;
use std::fmt;

use crate::nearest;

/// The prefixes that Red Hat's channels have, most used first.
const PREFIXES: [&str; 4] = ["stable", "fast", "eus", "candidate"];

/// A minor version: `4.16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minor {
    pub major: u64,
    pub minor: u64,
}

impl Minor {
    pub fn of(version: &semver::Version) -> Self {
        Self { major: version.major, minor: version.minor }
    }

    fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten()
        };
        let (major, minor) = text.split_once('.')?;
        Some(Self { major: number(major)?, minor: number(minor)? })
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A channel's name taken apart, where it is made of a prefix and a minor
/// version. Other names are legal; there is no order among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelName<'a> {
    pub prefix: &'a str,
    pub minor: Minor,
}

impl<'a> ChannelName<'a> {
    pub fn parse(name: &'a str) -> Option<Self> {
        let (prefix, minor) = name.rsplit_once('-')?;
        Some(Self { prefix, minor: Minor::parse(minor)? })
    }

    /// Whether this is a channel of extended update support, whose releases
    /// are every second minor version.
    pub fn is_eus(&self) -> bool {
        self.prefix == "eus"
    }
}

/// What `name` was probably meant to be: one of the `known` channels, or a
/// prefix that exists with the same minor version.
pub fn suggestions(name: &str, known: &BTreeSet<&str>) -> Vec<String> {
    let near = nearest::names(name, known.iter().copied().filter(|known| *known != name));
    if !near.is_empty() {
        return near;
    }
    let Some(ChannelName { prefix, minor }) = ChannelName::parse(name) else { return Vec::new() };
    if prefix == "eus" && minor.minor % 2 == 1 {
        return vec![format!("stable-{minor}"), format!("eus-{}.{}", minor.major, minor.minor + 1)];
    }
    let near = nearest::names(prefix, PREFIXES.into_iter().filter(|known| *known != prefix));
    near.into_iter().map(|prefix| format!("{prefix}-{minor}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_prefix_and_a_minor_version() {
        let name = ChannelName::parse("stable-4.16").unwrap();
        assert_eq!((name.prefix, name.minor), ("stable", Minor { major: 4, minor: 16 }));
        assert_eq!(ChannelName::parse("a-b-4.1").unwrap().prefix, "a-b");
        assert!(ChannelName::parse("eus-4.16").unwrap().is_eus());
        for other in ["4-stable", "stable", "stable-4", "stable-4.16.1", "stable-4.x", "fast:4.2"] {
            assert_eq!(ChannelName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn suggestions_come_from_what_is_known_and_from_the_usual_prefixes() {
        let none = BTreeSet::new();
        assert_eq!(suggestions("stabel-4.16", &none), ["stable-4.16"]);
        assert_eq!(suggestions("eus-4.15", &none), ["stable-4.15", "eus-4.16"]);
        assert_eq!(suggestions("stable-4.61", &["stable-4.16"].into()), ["stable-4.16"]);
        assert!(suggestions("whatever", &none).is_empty());
        assert!(suggestions("stable-4.99", &none).is_empty());
    }
}
