//! Versions, as the bounds of what is selected.

use std::cmp::Ordering;
use std::fmt;

use located_yaml::{Meaning, Value};
use semver::Version;
use serde::{Serialize, Serializer};

use crate::finding::{EntryPosition, Problem};
use crate::section::Section;

/// The version of an operator's bundle, written with less care than a
/// release's: `1.2`, `v1.2.3` and `1.2.3-rhodf` are all fine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageVersion {
    text: String,
    version: Version,
}

impl PackageVersion {
    /// `None` for text that is not a version even with a leading `v` removed and
    /// missing numbers taken as zero.
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let (numbers, rest) = bare.split_at(bare.find(['-', '+']).unwrap_or(bare.len()));
        let mut parts = numbers
            .split('.')
            .map(|part| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<u64>().ok()))
            .map(Option::flatten)
            .collect::<Option<Vec<_>>>()?;
        if parts.len() > 3 {
            return None;
        }
        parts.resize(3, 0);
        let strict = format!("{}.{}.{}{rest}", parts[0], parts[1], parts[2]);
        Some(Self { text: text.to_owned(), version: Version::parse(&strict).ok()? })
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As it is compared.
    pub fn version(&self) -> &Version {
        &self.version
    }
}

impl fmt::Display for PackageVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for PackageVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Reads `minVersion` and `maxVersion` of a release channel.
pub(crate) fn release_range(section: &mut Section<'_>) -> (Option<Version>, Option<Version>) {
    let min = release_version(section, "minVersion");
    let max = release_version(section, "maxVersion");
    check_order(section, min.as_ref(), max.as_ref());
    (bare(min), bare(max))
}

fn release_version(
    section: &mut Section<'_>,
    key: &'static str,
) -> Option<(Version, EntryPosition)> {
    let place = section.place(key)?;
    if let Value::Scalar { text, meaning: Meaning::Integer(_) | Meaning::Float } = &place.node.value
    {
        place.report(Problem::ReleaseVersionNumber { key: key.to_owned(), text: text.clone() });
        return None;
    }
    let text = place.text()?;
    let version = text.parse(|key, text| {
        Version::parse(text).map_err(|_| Problem::ReleaseVersion { key, text: text.to_owned() })
    })?;
    Some((version, text.at))
}

/// Reads `minVersion` and `maxVersion` of a package or one of its channels.
pub(crate) fn package_range(
    section: &mut Section<'_>,
) -> (Option<PackageVersion>, Option<PackageVersion>) {
    let min = package_version(section, "minVersion");
    let max = package_version(section, "maxVersion");
    let compared = |bound: &Option<(PackageVersion, EntryPosition)>| {
        bound.as_ref().map(|(bound, at)| (bound.version.clone(), *at))
    };
    check_order(section, compared(&min).as_ref(), compared(&max).as_ref());
    (bare(min), bare(max))
}

fn package_version(
    section: &mut Section<'_>,
    key: &'static str,
) -> Option<(PackageVersion, EntryPosition)> {
    let text = section.text(key)?;
    let version = text.parse(|key, text| {
        PackageVersion::parse(text)
            .ok_or_else(|| Problem::PackageVersion { key, text: text.to_owned() })
    })?;
    Some((version, text.at))
}

fn bare<T>(bound: Option<(T, EntryPosition)>) -> Option<T> {
    bound.map(|(bound, _)| bound)
}

fn check_order(
    section: &Section<'_>,
    min: Option<&(Version, EntryPosition)>,
    max: Option<&(Version, EntryPosition)>,
) {
    let (Some((min, _)), Some((max, at))) = (min, max) else { return };
    // Build metadata does not affect the order.
    if min.cmp_precedence(max) == Ordering::Greater {
        section.report(*at, Problem::Range { min: min.to_string(), max: max.to_string() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_version_may_lack_numbers_and_start_with_v() {
        for (text, expected) in [
            ("1.2.3", "1.2.3"),
            ("v4.18.15-rhodf", "4.18.15-rhodf"),
            ("1.2", "1.2.0"),
            ("6", "6.0.0"),
            ("4.12.0-202311071130", "4.12.0-202311071130"),
            ("0.18.1+0.1675929565.p", "0.18.1+0.1675929565.p"),
            ("5.3.2-20", "5.3.2-20"),
            ("01.02.3", "1.2.3"),
        ] {
            let version = PackageVersion::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(version.version(), &Version::parse(expected).unwrap(), "{text}");
            assert_eq!(version.as_str(), text);
        }
        for text in ["", "v", "x", "1.x", "1.2.3.4", "1..2", "1.2.3-", "-1.2.3", "1.2.+3", "vv1"] {
            assert_eq!(PackageVersion::parse(text), None, "{text}");
        }
    }
}
