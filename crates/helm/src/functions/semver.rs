//! Versions and constraints with the rules of the Masterminds library that Helm uses: `1.2` is a
//! version, `^1.2`, `~1.2`, `1.x`, `1 - 3` and `>=1, <3 || 5` are constraints, and a prerelease
//! matches only constraints that name one.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Longer texts are refused, as in Helm.
const MAX_CONSTRAINT: usize = 512;
const MAX_GROUPS: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("invalid semantic version")]
    Version,
    #[error("improper constraint: {0:?}")]
    Constraint(String),
    #[error("constraint string is too long (max {MAX_CONSTRAINT} bytes)")]
    TooLong,
}

/// A version; minor and patch may be left out in its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    /// Without its hyphen; empty for a release.
    pub pre: String,
    /// Without its plus sign.
    pub build: String,
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.len() > 256 {
            return Err(Error::Version);
        }
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, build) = match text.split_once('+') {
            Some((text, build)) if are_identifiers(build) => (text, build),
            Some(_) => return Err(Error::Version),
            None => (text, ""),
        };
        let (numbers, pre) = match text.split_once('-') {
            Some((numbers, pre)) if is_prerelease(pre) => (numbers, pre),
            Some(_) => return Err(Error::Version),
            None => (text, ""),
        };
        let parts: Vec<u64> =
            numbers.split('.').map(number).collect::<Option<_>>().ok_or(Error::Version)?;
        if parts.len() > 3 {
            return Err(Error::Version);
        }
        let part = |index: usize| parts.get(index).copied().unwrap_or(0);
        Ok(Self {
            major: part(0),
            minor: part(1),
            patch: part(2),
            pre: pre.to_owned(),
            build: build.to_owned(),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}

impl Version {
    /// The order of semantic versions; build metadata is ignored.
    pub fn precedence(&self, other: &Self) -> Ordering {
        let numbers = |v: &Self| (v.major, v.minor, v.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| prerelease(&self.pre, &other.pre))
    }
}

fn number(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| canonical && digits)
}

fn are_identifiers(text: &str) -> bool {
    let is_identifier = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.split('.').all(is_identifier)
}

fn is_prerelease(text: &str) -> bool {
    let padded = |part: &str| {
        part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    are_identifiers(text) && !text.split('.').any(padded)
}

fn prerelease(left: &str, right: &str) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(l), Some(r)) => match (l.parse::<u64>(), r.parse::<u64>()) {
                (Ok(l), Ok(r)) => l.cmp(&r),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => l.cmp(r),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Alternatives, each of conditions that must all hold.
#[derive(Debug, Clone)]
pub struct Constraint {
    alternatives: Vec<Vec<Condition>>,
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

/// How much of a condition's version was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    /// `*`
    Nothing,
    Major,
    Minor,
    Full,
}

#[derive(Debug, Clone)]
struct Condition {
    operator: Operator,
    version: Version,
    given: Given,
}

impl FromStr for Constraint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_CONSTRAINT {
            return Err(Error::TooLong);
        }
        let groups: Vec<&str> = text.split("||").collect();
        if groups.len() > MAX_GROUPS {
            return Err(Error::TooLong);
        }
        let alternatives = groups
            .into_iter()
            .map(|group| conditions(group).ok_or_else(|| Error::Constraint(group.to_owned())))
            .collect::<Result<_, _>>()?;
        Ok(Self { alternatives })
    }
}

impl Constraint {
    pub fn matches(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|conditions| {
            let names_prerelease = conditions.iter().any(|c| !c.version.pre.is_empty());
            if !version.pre.is_empty() && !names_prerelease {
                return false;
            }
            conditions.iter().all(|condition| condition.matches(version))
        })
    }
}

/// Conditions separated by spaces or commas; `a - b` is a range.
fn conditions(text: &str) -> Option<Vec<Condition>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let (condition, behind) = condition(rest)?;
        let is_range_start = condition.operator == Operator::Equal && !rest.starts_with('=');
        let tail = behind.trim_start();
        let range_end = tail.strip_prefix('-').filter(|end| {
            is_range_start && tail.len() < behind.len() && end.starts_with(char::is_whitespace)
        });
        if let Some(end) = range_end {
            let (upper, behind) = version_of(end.trim_start())?;
            found.push(Condition { operator: Operator::GreaterOrEqual, ..condition });
            found.push(Condition {
                operator: Operator::LessOrEqual,
                version: upper.0,
                given: upper.1,
            });
            rest = behind;
        } else {
            found.push(condition);
            rest = behind;
        }
        let next = rest.trim_start();
        if next.is_empty() {
            return Some(found);
        }
        let after_comma = next.strip_prefix(',').map(str::trim_start);
        if after_comma.is_none() && next.len() == rest.len() {
            return None;
        }
        rest = after_comma.unwrap_or(next);
    }
}

fn condition(text: &str) -> Option<(Condition, &str)> {
    let operators = [
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
    let (operator, rest) = operators
        .into_iter()
        .find_map(|(sign, operator)| text.strip_prefix(sign).map(|rest| (operator, rest)))
        .unwrap_or((Operator::Equal, text));
    let ((version, given), rest) = version_of(rest.trim_start())?;
    Some((Condition { operator, version, given }, rest))
}

/// A version of a condition, where parts may be `x` or left out, and the text behind it.
fn version_of(text: &str) -> Option<((Version, Given), &str)> {
    let start = text.strip_prefix('v').unwrap_or(text);
    let end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '*'));
    let (word, rest) = start.split_at(start.find(end).unwrap_or(start.len()));
    let (word, build) = word.split_once('+').map_or((word, None), |(w, b)| (w, Some(b)));
    let (numbers, pre) = word.split_once('-').map_or((word, None), |(n, p)| (n, Some(p)));
    if build.is_some_and(|build| !are_identifiers(build)) {
        return None;
    }
    let pre = match pre {
        Some(pre) if is_prerelease(pre) => pre,
        Some(_) => return None,
        None => "",
    };
    let parts: Vec<&str> = numbers.split('.').collect();
    if parts.len() > 3 || parts.iter().any(|part| part.is_empty()) {
        return None;
    }
    let is_wild = |part: &str| matches!(part, "x" | "X" | "*");
    let mut version =
        Version { major: 0, minor: 0, patch: 0, pre: pre.to_owned(), build: String::new() };
    let mut given = Given::Nothing;
    for (index, part) in parts.iter().enumerate() {
        if is_wild(part) {
            break;
        }
        let value = number(part)?;
        match index {
            0 => (version.major, given) = (value, Given::Major),
            1 => (version.minor, given) = (value, Given::Minor),
            _ => (version.patch, given) = (value, Given::Full),
        }
    }
    Some(((version, given), rest))
}

impl Condition {
    fn matches(&self, version: &Version) -> bool {
        let order = version.precedence(&self.version);
        let (major, minor) = (version.major, version.minor);
        let wanted = &self.version;
        match (self.operator, self.given) {
            (Operator::Equal, Given::Full) => order.is_eq(),
            (Operator::Equal | Operator::Tilde, _) => self.is_within_tilde(version),
            (Operator::NotEqual, Given::Full) => order.is_ne(),
            (Operator::NotEqual, Given::Nothing) => {
                major != wanted.major || minor != wanted.minor || version.patch != wanted.patch
            }
            (Operator::NotEqual, Given::Major) => major != wanted.major,
            (Operator::NotEqual, Given::Minor) => {
                major != wanted.major
                    || minor != wanted.minor
                    || prerelease(&version.pre, &wanted.pre).is_ne()
            }
            (Operator::Greater, Given::Major) => major > wanted.major,
            (Operator::Greater, Given::Minor) => (major, minor) > (wanted.major, wanted.minor),
            (Operator::Greater, _) => order.is_gt(),
            (Operator::Less, _) => order.is_lt(),
            (Operator::GreaterOrEqual, _) => order.is_ge(),
            (Operator::LessOrEqual, Given::Full) => order.is_le(),
            (Operator::LessOrEqual, Given::Major) => major <= wanted.major,
            (Operator::LessOrEqual, _) => (major, minor) <= (wanted.major, wanted.minor),
            (Operator::Caret, _) => order.is_ge() && self.is_within_caret(version),
        }
    }

    fn is_within_tilde(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.precedence(wanted).is_lt() {
            return false;
        }
        let is_zero = (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0);
        if is_zero && matches!(self.given, Given::Nothing | Given::Full) {
            return true;
        }
        version.major == wanted.major
            && (version.minor == wanted.minor || self.given == Given::Major)
    }

    fn is_within_caret(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if wanted.major > 0 || self.given == Given::Major {
            return version.major == wanted.major;
        }
        if version.major > 0 {
            return false;
        }
        if wanted.minor > 0 || self.given == Given::Minor {
            return version.minor == wanted.minor;
        }
        version.minor == 0 && version.patch == wanted.patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected answers are those of the library, compared with Helm in the table of functions.
    #[test]
    fn constraints_select_versions() {
        for (constraint, version, expected) in [
            (">=1.2, <2", "1.9.0", true),
            (">=1.2 <2", "2.0.0", false),
            ("^0.2.3", "0.2.9", true),
            ("^0.2.3", "0.3.0", false),
            ("~1.2", "1.2.9", true),
            ("1.2 - 1.4", "1.3.7", true),
            ("1.x || 3.x", "3.1.0", true),
            (">=1.0", "1.1.0-rc.1", false),
            (">=1.0-0", "1.1.0-rc.1", true),
            ("!=1.2", "1.2.5", false),
            (">11", "11.1.0", false),
        ] {
            let constraint: Constraint = constraint.parse().unwrap();
            assert_eq!(constraint.matches(&version.parse().unwrap()), expected, "{constraint:?}");
        }
        assert!("".parse::<Constraint>().is_err());
        assert!(">=1.0<2.0".parse::<Constraint>().is_err());
        assert!("1.2.3.4".parse::<Version>().is_err());
        assert!("1.02".parse::<Version>().is_err());
    }
}
