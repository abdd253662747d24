//! `.helmignore`: which files of a folder do not belong to the chart.
//!
//! The rules resemble Git's, but are Helm's: the first that matches decides, `**` is not known,
//! and a rule with `!` excludes whatever it does not match.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    #[error("line {line}: `**` is not supported")]
    DoubleStar { line: usize },
    #[error("line {line}: {pattern:?} is not a valid pattern")]
    Pattern { line: usize, pattern: String },
}

/// The rules, in the order of the file.
#[derive(Debug, Clone)]
pub struct IgnoreRules(Vec<Rule>);

#[derive(Debug, Clone)]
struct Rule {
    pattern: String,
    scope: Scope,
    is_negated: bool,
    is_for_folders: bool,
}

/// What a pattern is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Path,
    Name,
}

impl Default for IgnoreRules {
    /// Files in `templates` whose names start with a dot.
    fn default() -> Self {
        let mut rules = Self(Vec::new());
        rules.add("templates/.?*");
        rules
    }
}

impl IgnoreRules {
    pub fn parse(text: &str) -> Result<Self, IgnoreError> {
        let mut rules = Self(Vec::new());
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let (line, pattern) = (index + 1, line.trim());
            if pattern.is_empty() || pattern.starts_with('#') {
                continue;
            }
            if pattern.contains("**") {
                return Err(IgnoreError::DoubleStar { line });
            }
            if !is_valid(pattern) {
                return Err(IgnoreError::Pattern { line, pattern: pattern.to_owned() });
            }
            rules.add(pattern);
        }
        rules.0.extend(Self::default().0);
        Ok(rules)
    }

    fn add(&mut self, pattern: &str) {
        let (is_negated, pattern) = match pattern.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, pattern),
        };
        let (is_for_folders, pattern) = match pattern.strip_suffix('/') {
            Some(pattern) => (true, pattern),
            None => (false, pattern),
        };
        let scope = if pattern.contains('/') { Scope::Path } else { Scope::Name };
        let pattern = pattern.strip_prefix('/').unwrap_or(pattern).to_owned();
        self.0.push(Rule { pattern, scope, is_negated, is_for_folders });
    }

    /// Whether the file at `path`, or a folder that it is in, is excluded.
    pub fn excludes(&self, path: &str) -> bool {
        let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
        folders.into_iter().any(|folder| self.hits(folder, true)) || self.hits(path, false)
    }

    fn hits(&self, path: &str, is_folder: bool) -> bool {
        for rule in &self.0 {
            let subject = match rule.scope {
                Scope::Path => path,
                Scope::Name => path.rsplit('/').next().unwrap_or(path),
            };
            let is_match = glob(&rule.pattern, subject) && (is_folder || !rule.is_for_folders);
            if is_match != rule.is_negated {
                return true;
            }
        }
        false
    }
}

/// Whether `pattern` matches all of `text`: `*` and `?` match characters other than `/`, and
/// `[a-z]`, `[^a-z]` for one of a class.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    glob_chars(&pattern, &text).unwrap_or(false)
}

/// As Go's `filepath.Match`. `None` when the pattern is not valid. Backtracks to the last star
/// only, which is enough because a star cannot pass a slash.
fn glob_chars(pattern: &[char], text: &[char]) -> Option<bool> {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == '*' {
            retry = Some((p + 1, t));
            p += 1;
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return Some(true);
        }
        let step = if p < pattern.len() && t < text.len() {
            one(&pattern[p..], text[t])?
        } else if p < pattern.len() {
            one(&pattern[p..], '\0')?;
            None
        } else {
            None
        };
        match (step, retry) {
            (Some(length), _) => {
                p += length;
                t += 1;
            }
            (None, Some((after, start))) if start < text.len() && text[start] != '/' => {
                retry = Some((after, start + 1));
                (p, t) = (after, start + 1);
            }
            (None, _) => return Some(false),
        }
    }
}

/// How long the first element of the pattern is, when it matches `c`.
fn one(pattern: &[char], c: char) -> Option<Option<usize>> {
    match pattern[0] {
        '?' => Some((c != '/' && c != '\0').then_some(1)),
        '\\' => pattern.get(1).map(|escaped| (*escaped == c).then_some(2)),
        '[' => {
            let mut at = 1;
            let is_negated = pattern.get(at) == Some(&'^');
            at += usize::from(is_negated);
            let (mut is_in, mut is_first) = (false, true);
            loop {
                let low = *pattern.get(at)?;
                if low == ']' && !is_first {
                    break;
                }
                if matches!(low, ']' | '-') {
                    return None;
                }
                let low = if low == '\\' {
                    at += 1;
                    *pattern.get(at)?
                } else {
                    low
                };
                at += 1;
                let mut high = low;
                if pattern.get(at) == Some(&'-') {
                    high = *pattern.get(at + 1)?;
                    if high == ']' {
                        return None;
                    }
                    at += 2;
                }
                is_in |= low <= c && c <= high;
                is_first = false;
            }
            Some((is_in != is_negated && c != '/' && c != '\0').then_some(at + 1))
        }
        literal => Some((literal == c).then_some(1)),
    }
}

fn is_valid(pattern: &str) -> bool {
    let chars: Vec<char> = pattern.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        at += match chars[at] {
            '[' | '\\' => {
                let Some(_) = one(&chars[at..], '\0') else { return false };
                class_length(&chars[at..])
            }
            _ => 1,
        };
    }
    true
}

fn class_length(pattern: &[char]) -> usize {
    if pattern[0] == '\\' {
        return 2;
    }
    let close = pattern.iter().skip(2).position(|c| *c == ']');
    close.map_or(pattern.len(), |close| close + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, text, expected) in [
            ("abc", "abc", true),
            ("*", "abc", true),
            ("*c", "abc", true),
            ("a*", "a/b", false),
            ("a*/b", "abc/b", true),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", true),
            ("a*b*c*d*e*/f", "axbxcxdxexxx/fff", false),
            ("ab[c]", "abc", true),
            ("ab[b-d]", "abc", true),
            ("ab[^e-g]", "abc", true),
            ("ab[^c]", "abc", false),
            ("a?b", "a/b", false),
            ("a\\*b", "a*b", true),
            ("*x", "xxx", true),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
        for pattern in ["[]a]", "[-]", "[x-]", "a[", "["] {
            assert!(!is_valid(pattern), "{pattern}");
        }
    }

    #[test]
    fn files_and_folders_are_excluded_as_helm_does() {
        let rules = IgnoreRules::parse("# comment\n.git/\n*.swp\n/ci\nsub/x.txt\n").unwrap();
        for (path, expected) in [
            (".git/config", true),
            ("a/.git/config", true),
            ("templates/a.swp", true),
            ("ci/values.yaml", true),
            ("a/ci/values.yaml", false),
            ("sub/x.txt", true),
            ("x.txt", false),
            ("templates/.hidden", true),
            ("templates/a.yaml", false),
            (".git", false),
        ] {
            assert_eq!(rules.excludes(path), expected, "{path}");
        }
    }

    #[test]
    fn what_helm_refuses_is_an_error_with_its_line() {
        let error = IgnoreRules::parse("a\nb/**/c\n").unwrap_err();
        assert_eq!(error, IgnoreError::DoubleStar { line: 2 });
        assert!(IgnoreRules::parse("[x-\n").is_err());
    }
}
