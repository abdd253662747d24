//! Chart versions and version constraints, by the rules of the library that Helm uses.
//!
//! They differ from Cargo's: `v1.2` is a version, `1.2` as a constraint means `~1.2`, and a
//! pre-release matches only a group of constraints that names one.

use std::cmp::Ordering;

use semver::{BuildMetadata, Prerelease, Version};

/// The longest texts that Helm reads.
const MAX_VERSION: usize = 256;
const MAX_CONSTRAINT: usize = 512;
const MAX_GROUPS: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    #[error("{0:?} is not a version: expected something like 1.2.3 or v1.2.3-rc.1")]
    Version(String),
    #[error("{0:?} is not a version constraint: expected something like 1.2.3, ^1.2 or >=1.2 <2")]
    Constraint(String),
}

/// Reads a version as Helm does: `v` before it and zeros before numbers are allowed, and missing parts
/// are zero.
pub fn version(text: &str) -> Result<Version, VersionError> {
    let bad = || VersionError::Version(text.chars().take(MAX_VERSION).collect());
    if text.len() > MAX_VERSION {
        return Err(bad());
    }
    let rest = text.strip_prefix('v').unwrap_or(text);
    let (rest, build) = rest.split_once('+').map_or((rest, ""), |(rest, build)| (rest, build));
    let (numbers, pre) = rest.split_once('-').map_or((rest, ""), |(rest, pre)| (rest, pre));
    if (text.contains('+') && build.is_empty()) || (rest.contains('-') && pre.is_empty()) {
        return Err(bad());
    }
    let mut parts = [0u64; 3];
    for (count, number) in numbers.split('.').enumerate() {
        let is_number = number.bytes().all(|b| b.is_ascii_digit());
        if count == 3 || !is_number {
            return Err(bad());
        }
        parts[count] = number.parse().map_err(|_| bad())?;
    }
    let mut version = Version::new(parts[0], parts[1], parts[2]);
    version.pre = Prerelease::new(pre).map_err(|_| bad())?;
    version.build = BuildMetadata::new(build).map_err(|_| bad())?;
    Ok(version)
}

/// Any of the groups must hold, and of a group every part.
#[derive(Debug, Clone)]
pub struct Constraint {
    groups: Vec<Vec<Part>>,
}

#[derive(Debug, Clone)]
struct Part {
    operator: Operator,
    bound: Version,
    missing: Missing,
}

/// Which number of the bound is missing or `x`, and with it those after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    None,
    Patch,
    Minor,
    Major,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

/// The longer of two that start alike comes first.
const OPERATORS: [(&str, Operator); 11] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("=<", Operator::LessOrEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];

impl Constraint {
    /// Every released version.
    pub fn any() -> Self {
        let bound = Version::new(0, 0, 0);
        let part = Part { operator: Operator::Equal, bound, missing: Missing::Major };
        Self { groups: vec![vec![part]] }
    }

    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let bad = || VersionError::Constraint(text.chars().take(MAX_CONSTRAINT).collect());
        if text.len() > MAX_CONSTRAINT {
            return Err(bad());
        }
        let groups: Option<Vec<_>> = text.split("||").map(group).collect();
        match groups {
            Some(groups) if groups.len() <= MAX_GROUPS => Ok(Self { groups }),
            _ => Err(bad()),
        }
    }

    pub fn matches(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| {
            let names_pre = group.iter().any(|part| !part.bound.pre.is_empty());
            let is_offered = version.pre.is_empty() || names_pre;
            is_offered && group.iter().all(|part| part.matches(version))
        })
    }
}

/// The parts between two `||`, separated by blanks or commas.
fn group(text: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let operator = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
        let after = operator.map_or(rest, |(sign, _)| &rest[sign.len()..]).trim_start();
        let (word, after) = split_word(after);
        let operator = operator.map_or(Operator::Equal, |(_, operator)| *operator);
        let after_blank = after.trim_start();
        let hyphen =
            after_blank.strip_prefix('-').filter(|rest| rest.starts_with(char::is_whitespace));
        rest = match hyphen {
            Some(upper) if operator == Operator::Equal => {
                let (upper, after) = split_word(upper.trim_start());
                parts.push(part(Operator::GreaterOrEqual, word)?);
                parts.push(part(Operator::LessOrEqual, upper)?);
                after.trim_start()
            }
            Some(_) => return None,
            None => {
                parts.push(part(operator, word)?);
                after_blank
            }
        };
        if let Some(after) = rest.strip_prefix(',') {
            rest = after.trim_start();
            if rest.is_empty() {
                return None;
            }
        }
    }
    (!parts.is_empty()).then_some(parts)
}

fn split_word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(text.len()))
}

fn part(operator: Operator, word: &str) -> Option<Part> {
    let word = word.strip_prefix('v').unwrap_or(word);
    let numbers_end = word.find(['-', '+']).unwrap_or(word.len());
    let (numbers, suffix) = word.split_at(numbers_end);
    let pre = suffix.split('+').next().unwrap_or_default();
    let numbers: Vec<&str> = numbers.split('.').collect();
    let is_any =
        |index: usize| numbers.get(index).is_none_or(|number| matches!(*number, "x" | "X" | "*"));
    if numbers.len() > 3 || numbers.contains(&"") {
        return None;
    }
    let (missing, full) = if is_any(0) {
        (Missing::Major, format!("0.0.0{pre}"))
    } else if is_any(1) {
        (Missing::Minor, format!("{}.0.0{pre}", numbers[0]))
    } else if is_any(2) {
        (Missing::Patch, format!("{}.{}.0{pre}", numbers[0], numbers[1]))
    } else {
        (Missing::None, word.to_owned())
    };
    Some(Part { operator, bound: version(&full).ok()?, missing })
}

impl Part {
    fn matches(&self, version: &Version) -> bool {
        let bound = &self.bound;
        let order = version.cmp_precedence(bound);
        match self.operator {
            Operator::Equal if self.missing == Missing::None => order == Ordering::Equal,
            Operator::Equal | Operator::Tilde => self.is_within_tilde(version, order),
            Operator::NotEqual => self.differs(version, order),
            Operator::Greater => match self.missing {
                Missing::None => order == Ordering::Greater,
                Missing::Minor => version.major > bound.major,
                Missing::Patch => (version.major, version.minor) > (bound.major, bound.minor),
                Missing::Major => version.major > bound.major || order == Ordering::Greater,
            },
            Operator::Less => order == Ordering::Less,
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::LessOrEqual => match self.missing {
                Missing::None => order != Ordering::Greater,
                Missing::Minor => version.major <= bound.major,
                Missing::Patch | Missing::Major => {
                    (version.major, version.minor) <= (bound.major, bound.minor)
                }
            },
            Operator::Caret => self.is_within_caret(version, order),
        }
    }

    fn is_within_tilde(&self, version: &Version, order: Ordering) -> bool {
        let bound = &self.bound;
        if order == Ordering::Less {
            return false;
        }
        let is_zero = (bound.major, bound.minor, bound.patch) == (0, 0, 0);
        // `~0.0.0` accepts everything, as does `*`.
        if is_zero && matches!(self.missing, Missing::None | Missing::Major) {
            return true;
        }
        version.major == bound.major
            && (version.minor == bound.minor || self.missing == Missing::Minor)
    }

    fn differs(&self, version: &Version, order: Ordering) -> bool {
        let bound = &self.bound;
        match self.missing {
            Missing::None | Missing::Major => {
                if self.missing == Missing::Major && version.major != bound.major {
                    return true;
                }
                order != Ordering::Equal
            }
            Missing::Minor => version.major != bound.major,
            Missing::Patch => {
                (version.major, version.minor) != (bound.major, bound.minor)
                    || version.pre != bound.pre
            }
        }
    }

    fn is_within_caret(&self, version: &Version, order: Ordering) -> bool {
        let bound = &self.bound;
        if order == Ordering::Less {
            return false;
        }
        // `^1.x` and everything above zero hold the major version.
        if bound.major > 0 || matches!(self.missing, Missing::Minor) {
            return version.major == bound.major;
        }
        if version.major > 0 {
            return false;
        }
        if bound.minor > 0 || self.missing == Missing::Patch {
            return version.minor == bound.minor;
        }
        version.minor == 0 && version.patch == bound.patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_helm_reads_them() {
        for (text, expected) in [
            ("1.2.3", "1.2.3"),
            ("v1.2.3-rc.1+build", "1.2.3-rc.1+build"),
            ("v1", "1.0.0"),
            ("1.2", "1.2.0"),
            ("1.2-beta", "1.2.0-beta"),
            ("2026.7.10", "2026.7.10"),
            ("01.02.3", "1.2.3"),
        ] {
            assert_eq!(version(text).unwrap().to_string(), expected, "{text}");
        }
        for text in ["", "v", "1.2.3.4", "1.x", "1.2.3-", "1.2.3+", "V1", "1.2.3-01"] {
            assert!(version(text).is_err(), "{text}");
        }
    }

    /// Cases from the tables in the documentation of Masterminds/semver.
    #[test]
    fn constraints_hold_as_the_library_documents_them() {
        for (constraint, yes, no) in [
            ("1.2.3", &["1.2.3", "v1.2.3+x"][..], &["1.2.4", "1.2.3-rc.1"][..]),
            ("=1.2.3", &["1.2.3"], &["1.2.2"]),
            ("1.2", &["1.2.0", "1.2.9"], &["1.3.0", "1.1.9"]),
            ("!=1.2.3", &["1.2.4"], &["1.2.3"]),
            ("!=1.x", &["2.0.0"], &["1.4.0"]),
            (">1.2.3", &["1.2.4"], &["1.2.3"]),
            (">11", &["12.0.0"], &["11.1.0"]),
            (">11.1", &["11.2.0"], &["11.1.1"]),
            (">= 1.2, < 3.0.0", &["1.2.0", "2.9.9"], &["3.0.0", "1.1.0"]),
            (">= 1.2.3 < 2 || >= 4.2.3", &["1.9.0", "4.2.3"], &["2.0.0", "4.2.2"]),
            ("1.2 - 1.4.5", &["1.2.0", "1.4.5"], &["1.4.6", "1.1.9"]),
            ("2.3.4 - 4.5", &["4.5.9"], &["4.6.0"]),
            ("1.2.x", &["1.2.7"], &["1.3.0"]),
            ("<= 2.x", &["2.9.0"], &["3.0.0"]),
            ("*", &["0.0.0", "9.9.9"], &["1.0.0-rc.1"]),
            ("~1.2.3", &["1.2.9"], &["1.3.0", "1.2.2"]),
            ("~1", &["1.9.0"], &["2.0.0"]),
            ("~>2.0", &["2.0.5"], &["2.1.0"]),
            ("^1.2.3", &["1.9.0"], &["2.0.0", "1.2.2"]),
            ("^0.2.3", &["0.2.9"], &["0.3.0"]),
            ("^0.0.3", &["0.0.3"], &["0.0.4"]),
            ("^0.0", &["0.0.9"], &["0.1.0"]),
            ("^0", &["0.9.0"], &["1.0.0"]),
            (">=1.19-0", &["1.34.0", "1.20.0-rc.1"], &["1.18.0"]),
            ("=> 1.0.0 =< 2.0.0", &["1.5.0"], &["2.0.1"]),
        ] {
            let parsed = Constraint::parse(constraint).unwrap();
            for text in yes {
                assert!(parsed.matches(&version(text).unwrap()), "{constraint} {text}");
            }
            for text in no {
                assert!(!parsed.matches(&version(text).unwrap()), "{constraint} {text}");
            }
        }
        for text in ["", "abc", ">", ">=1.2,", "1.2.3.4", ">1<2", "1 || ", ">=1.0 - 2.0"] {
            assert!(Constraint::parse(text).is_err(), "{text:?}");
        }
    }
}
