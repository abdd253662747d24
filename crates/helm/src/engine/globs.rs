//! Patterns of `.Files.Glob`: `*` does not cross a slash, `**` does, `{a,b}` are alternatives.

use regex::Regex;

/// The pattern as an expression; `None` if it is malformed.
pub(super) fn compile(pattern: &str) -> Option<Regex> {
    let mut out = String::from("^(?s:");
    let mut chars = pattern.chars().peekable();
    let mut groups = 0usize;
    while let Some(c) = chars.next() {
        match c {
            '*' if chars.next_if_eq(&'*').is_some() => out.push_str(".*"),
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '{' => {
                groups += 1;
                out.push_str("(?:");
            }
            ',' if groups > 0 => out.push('|'),
            '}' if groups > 0 => {
                groups -= 1;
                out.push(')');
            }
            '[' => {
                out.push('[');
                if chars.next_if_eq(&'!').is_some() {
                    out.push('^');
                }
                loop {
                    match chars.next()? {
                        ']' => break,
                        '-' => out.push('-'),
                        '\\' => out.push_str(&regex::escape(&chars.next()?.to_string())),
                        c => out.push_str(&regex::escape(&c.to_string())),
                    }
                }
                out.push(']');
            }
            '\\' => out.push_str(&regex::escape(&chars.next()?.to_string())),
            c => out.push_str(&regex::escape(&c.to_string())),
        }
    }
    out.push_str(")$");
    if groups > 0 { None } else { Regex::new(&out).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_cross_slashes_only_in_pairs() {
        for (pattern, path, expected) in [
            ("files/*", "files/a.txt", true),
            ("files/*", "files/sub/a.txt", false),
            ("files/**", "files/sub/a.txt", true),
            ("**.json", "a/b/c.json", true),
            ("*.{yaml,yml}", "a.yml", true),
            ("f?o", "f/o", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(path), expected, "{pattern} {path}");
        }
        assert!(compile("{a").is_none());
        assert!(compile("[a").is_none());
    }
}
