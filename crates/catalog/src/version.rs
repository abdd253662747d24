//! Ranges of versions: those a user gives, and those a catalog gives.
//!
//! The two follow different rules. A user's bounds are read leniently and leave out pre-releases
//! unless they name one; a catalog's `skipRange` is exact and has no such exception. Build metadata
//! (`+…`) affects neither.

use std::cmp::Ordering;

use image_set::PackageVersion;
use semver::Version;

/// What `minVersion` and `maxVersion` select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange<'a> {
    pub min: Option<&'a PackageVersion>,
    pub max: Option<&'a PackageVersion>,
}

/// Whether a version is in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    In,
    Out,
    /// Between the bounds, but a pre-release, and no bound is one.
    PreRelease,
}

impl<'a> VersionRange<'a> {
    /// `None` without any bound.
    pub fn new(min: Option<&'a PackageVersion>, max: Option<&'a PackageVersion>) -> Option<Self> {
        (min.is_some() || max.is_some()).then_some(Self { min, max })
    }

    /// The one version that is meant when both bounds are written alike.
    pub fn pinned(&self) -> Option<&'a PackageVersion> {
        self.min.filter(|min| self.max.is_some_and(|max| max.as_str() == min.as_str()))
    }

    /// Where `version` stands.
    pub fn membership(&self, version: &Version) -> Membership {
        let above = self.min.is_none_or(|min| !version.cmp_precedence(min.version()).is_lt());
        let below = self.max.is_none_or(|max| is_at_most(version, max));
        match above && below {
            false => Membership::Out,
            true if version.pre.is_empty() || self.names_pre_release() => Membership::In,
            true => Membership::PreRelease,
        }
    }

    fn names_pre_release(&self) -> bool {
        self.min.into_iter().chain(self.max).any(|bound| !bound.version().pre.is_empty())
    }
}

/// A bound with fewer than three numbers includes all that starts with them: `maxVersion: 4.18`
/// takes 4.18.7 in.
fn is_at_most(version: &Version, max: &PackageVersion) -> bool {
    let bound = max.version();
    match numbers_written(max.as_str()) {
        1 => version.major <= bound.major,
        2 => (version.major, version.minor) <= (bound.major, bound.minor),
        _ => version.cmp_precedence(bound).is_le(),
    }
}

fn numbers_written(text: &str) -> usize {
    let end = text.find(['-', '+']).unwrap_or(text.len());
    text[..end].split('.').count()
}

/// The versions a bundle may be installed over, as its `skipRange` or a requirement's
/// `versionRange` is: `>=1.0.0 <2.0.0 || 3.x`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogRange {
    /// One of these; of each, all.
    alternatives: Vec<Vec<Bound>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    sign: Sign,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// Longer ranges than this are rejected.
const MAX_RANGE_BYTES: usize = 4096;

impl CatalogRange {
    /// `None` for text that OLM cannot read either.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_RANGE_BYTES {
            return None;
        }
        let mut alternatives = vec![Vec::new()];
        for word in words(text) {
            if word == "||" {
                if alternatives.last().is_some_and(Vec::is_empty) {
                    return None;
                }
                alternatives.push(Vec::new());
            } else {
                alternatives.last_mut()?.extend(bounds(&word)?);
            }
        }
        let complete = alternatives.iter().all(|bounds| !bounds.is_empty());
        complete.then_some(Self { alternatives })
    }

    pub fn contains(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|bounds| bounds.iter().all(|bound| bound.allows(version)))
    }
}

impl Bound {
    fn allows(&self, version: &Version) -> bool {
        let order = version.cmp_precedence(&self.version);
        match self.sign {
            Sign::Equal => order == Ordering::Equal,
            Sign::NotEqual => order != Ordering::Equal,
            Sign::Less => order.is_lt(),
            Sign::AtMost => order.is_le(),
            Sign::More => order.is_gt(),
            Sign::AtLeast => order.is_ge(),
        }
    }
}

/// The parts between blanks; a blank behind a sign separates nothing.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in text.split(' ').filter(|part| !part.is_empty()) {
        match words.last_mut() {
            Some(last) if last.ends_with(['<', '>', '=']) => last.push_str(part),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// The bounds of one word: two for a bare wildcard.
fn bounds(word: &str) -> Option<Vec<Bound>> {
    let (sign, rest) = word.split_at(word.find(|c: char| c.is_ascii_digit())?);
    let sign = match sign.trim() {
        "" | "=" | "==" => Sign::Equal,
        "!" | "!=" => Sign::NotEqual,
        "<" => Sign::Less,
        "<=" => Sign::AtMost,
        ">" => Sign::More,
        ">=" => Sign::AtLeast,
        _ => return None,
    };
    let Some((from, to)) = wildcard(rest) else {
        return Some(vec![Bound { sign, version: Version::parse(rest).ok()? }]);
    };
    let bound = |sign, version: &Version| Bound { sign, version: version.clone() };
    Some(match sign {
        Sign::Equal => vec![bound(Sign::AtLeast, &from), bound(Sign::Less, &to)],
        // OLM joins these two by "and", so that nothing fits; so do we.
        Sign::NotEqual => vec![bound(Sign::Less, &from), bound(Sign::AtLeast, &to)],
        Sign::Less => vec![bound(Sign::Less, &from)],
        Sign::AtMost => vec![bound(Sign::Less, &to)],
        Sign::More => vec![bound(Sign::AtLeast, &to)],
        Sign::AtLeast => vec![bound(Sign::AtLeast, &from)],
    })
}

/// The first version a wildcard takes in, and the first one behind it.
fn wildcard(text: &str) -> Option<(Version, Version)> {
    let parts: Vec<&str> = text.split('.').collect();
    let number = |part: &str| part.parse::<u64>().ok();
    match parts[..] {
        [major, "x"] | [major, "x", "x"] => {
            let major = number(major)?;
            Some((Version::new(major, 0, 0), Version::new(major.checked_add(1)?, 0, 0)))
        }
        [major, minor, "x"] => {
            let (major, minor) = (number(major)?, number(minor)?);
            Some((Version::new(major, minor, 0), Version::new(major, minor.checked_add(1)?, 0)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    fn membership(min: &str, max: &str, of: &str) -> Membership {
        let bound = |text: &str| (!text.is_empty()).then(|| PackageVersion::parse(text).unwrap());
        let (min, max) = (bound(min), bound(max));
        VersionRange { min: min.as_ref(), max: max.as_ref() }.membership(&version(of))
    }

    #[test]
    fn both_bounds_belong_to_the_range() {
        for (min, max, of, expected) in [
            ("1.0.0", "2.0.0", "1.0.0", Membership::In),
            ("1.0.0", "2.0.0", "2.0.0", Membership::In),
            ("1.0.0", "2.0.0", "0.9.9", Membership::Out),
            ("1.0.0", "2.0.0", "2.0.1", Membership::Out),
            ("", "2.0.0", "0.1.0", Membership::In),
            ("1.0.0", "", "99.0.0", Membership::In),
            // Build metadata is ignored: a rebuild is in range where its version is.
            ("", "0.18.1", "0.18.1+0.1675929565.p", Membership::In),
            ("0.18.1+9", "", "0.18.1+0.1675929565.p", Membership::In),
        ] {
            assert_eq!(membership(min, max, of), expected, "{min}..{max}: {of}");
        }
    }

    #[test]
    fn an_upper_bound_with_fewer_numbers_takes_in_all_that_start_with_them() {
        for (max, of, expected) in [
            ("4.18", "4.18.7", Membership::In),
            ("4.18", "4.19.0", Membership::Out),
            ("4", "4.99.9", Membership::In),
            ("v4", "5.0.0", Membership::Out),
            ("4.18.0", "4.18.7", Membership::Out),
        ] {
            assert_eq!(membership("", max, of), expected, "{max}: {of}");
        }
    }

    #[test]
    fn a_pre_release_needs_a_bound_that_is_one() {
        for (min, max, of, expected) in [
            ("1.30.2", "", "1.34.1-5", Membership::PreRelease),
            ("1.34.1-5", "", "1.34.1-5", Membership::In),
            ("1.30.2-0", "", "1.34.1-5", Membership::In),
            ("1.30.2", "1.40.0-0", "1.34.1-5", Membership::In),
            ("2.0.0", "", "1.34.1-5", Membership::Out),
        ] {
            assert_eq!(membership(min, max, of), expected, "{min}..{max}: {of}");
        }
    }

    /// The examples in the documentation of blang/semver's `ParseRange`, the library OLM reads
    /// ranges with.
    #[test]
    fn a_catalogs_range_means_what_olm_reads() {
        for (range, inside, outside) in [
            ("<1.0.0", "0.9.9", "1.0.0"),
            ("<=1.0.0", "1.0.0", "1.0.1"),
            (">1.0.0", "1.0.1", "1.0.0"),
            ("1.0.0", "1.0.0", "1.0.1"),
            ("==1.0.0", "1.0.0+build", "1.0.1"),
            ("!1.0.0", "1.0.1", "1.0.0"),
            (">1.0.0 <2.0.0", "1.8.7", "2.0.0"),
            (">1.0.0 <3.0.0 !2.0.3-beta.2", "2.0.3", "2.0.3-beta.2"),
            ("<2.0.0 || >=3.0.0", "3.1.1", "2.5.0"),
            (">1.0.0 <2.0.0 || >3.0.0 !4.2.1", "3.1.1", "4.2.1"),
            (">= 1.2.3", "1.2.3", "1.2.2"),
            ("1.2.x", "1.2.9", "1.3.0"),
            ("1.x", "1.9.9", "2.0.0"),
            ("<=1.2.x", "1.2.9", "1.3.0"),
            (">1.2.x", "1.3.0", "1.2.9"),
            (">=4.9.0-0 <4.16.0", "4.9.0-1", "4.16.0"),
        ] {
            let parsed = CatalogRange::parse(range).unwrap_or_else(|| panic!("{range}"));
            assert!(parsed.contains(&version(inside)), "{range} has {inside}");
            assert!(!parsed.contains(&version(outside)), "{range} has no {outside}");
        }
    }

    #[test]
    fn what_olm_cannot_read_is_not_a_range() {
        for text in ["", "||", "1.0.0 ||", "|| 1.0.0", "~1.0.0", "1.0", "v1.0.0", "x", "<"] {
            assert_eq!(CatalogRange::parse(text), None, "{text:?}");
        }
    }
}
