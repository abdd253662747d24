//! From Go's syntax of regular expressions to that of the `regex` crate.
//!
//! Both are linear and nearly the same. In Go, `\d`, `\w`, `\s` and `\b` know ASCII only, `\Q…\E`
//! quotes, any punctuation can be escaped, and classes have no set operations.

/// Go refuses more repetitions.
const MAX_REPEAT: u32 = 1000;

/// Translates a pattern, or returns why Go would refuse it.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut class = false;
    let mut class_start = false;
    while let Some(c) = rest.chars().next() {
        let at_start = std::mem::take(&mut class_start);
        if let Some(quoted) = rest.strip_prefix("\\Q") {
            let end = quoted.find("\\E").unwrap_or(quoted.len());
            out.push_str(&regex::escape(&quoted[..end]));
            rest = quoted.get(end + 2..).unwrap_or_default();
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                let Some(code) = rest.chars().next() else {
                    return Err("trailing backslash at end of expression".to_owned());
                };
                rest = &rest[code.len_utf8()..];
                escape(&mut out, code, class)?;
                if matches!(code, 'p' | 'P' | 'x') && rest.starts_with('{') {
                    let end = rest.find('}').map_or(rest.len(), |at| at + 1);
                    out.push_str(&rest[..end]);
                    rest = &rest[end..];
                }
            }
            '[' if !class => {
                class = true;
                class_start = true;
                out.push('[');
                if let Some(behind) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = behind;
                }
            }
            '[' => match rest.strip_prefix(':').and_then(|name| name.find(":]")) {
                Some(length) => {
                    out.push('[');
                    out.push_str(&rest[..length + 3]);
                    rest = &rest[length + 3..];
                }
                None => out.push_str("\\["),
            },
            ']' if class && at_start => out.push_str("\\]"),
            ']' if class => {
                class = false;
                out.push(']');
            }
            '&' | '~' if class => {
                out.push('\\');
                out.push(c);
            }
            '-' if class && (at_start || rest.starts_with(']')) => out.push_str("\\-"),
            '(' if !class => {
                out.push('(');
                group(rest)?;
            }
            '{' if !class => match repetition(rest)? {
                Some(length) => {
                    out.push('{');
                    out.push_str(&rest[..length]);
                    rest = &rest[length..];
                }
                None => out.push_str("\\{"),
            },
            '}' if !class => out.push_str("\\}"),
            c => out.push(c),
        }
    }
    Ok(out)
}

fn escape(out: &mut String, code: char, class: bool) -> Result<(), String> {
    let (negated, set) = match code {
        'd' | 'D' => (code == 'D', "0-9"),
        'w' | 'W' => (code == 'W', "0-9A-Za-z_"),
        's' | 'S' => (code == 'S', "\\t\\n\\x0c\\r "),
        'b' | 'B' if !class => {
            out.push_str(if code == 'b' { "(?-u:\\b)" } else { "(?-u:\\B)" });
            return Ok(());
        }
        'A' | 'z' if !class => {
            out.push('\\');
            out.push(code);
            return Ok(());
        }
        'a' | 'f' | 'n' | 'r' | 't' | 'v' | 'p' | 'P' | 'x' => {
            out.push('\\');
            out.push(code);
            return Ok(());
        }
        '0' => {
            out.push_str("\\x00");
            return Ok(());
        }
        code if code.is_ascii_alphanumeric() => {
            return Err(format!("invalid escape sequence: `\\{code}`"));
        }
        code => {
            let mut text = [0; 4];
            let text = code.encode_utf8(&mut text);
            if class && code.is_ascii_punctuation() {
                out.push('\\');
                out.push_str(text);
            } else {
                out.push_str(&regex::escape(text));
            }
            return Ok(());
        }
    };
    match (class, negated) {
        (true, false) => out.push_str(set),
        (_, true) => out.push_str(&format!("[^{set}]")),
        (false, false) => out.push_str(&format!("[{set}]")),
    }
    Ok(())
}

/// Refuses flags and assertions that only the other dialect supports.
fn group(rest: &str) -> Result<(), String> {
    let Some(head) = rest.strip_prefix('?') else { return Ok(()) };
    if head.starts_with("P<")
        || head.starts_with('<') && !head.starts_with("<=") && !head.starts_with("<!")
    {
        return Ok(());
    }
    let end = head.find([':', ')']).unwrap_or(head.len());
    if head[..end].chars().all(|c| matches!(c, 'i' | 'm' | 's' | 'U' | '-')) && end < head.len() {
        return Ok(());
    }
    Err("invalid or unsupported Perl syntax".to_owned())
}

/// Length of a repetition such as `2,5}` behind its brace; `None` if the brace is literal.
fn repetition(rest: &str) -> Result<Option<usize>, String> {
    let Some(end) = rest.find('}') else { return Ok(None) };
    let (low, high) = rest[..end].split_once(',').unwrap_or((&rest[..end], &rest[..end]));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(low) || !high.is_empty() && !is_number(high) {
        return Ok(None);
    }
    let too_many =
        |text: &str| !text.is_empty() && text.parse::<u32>().map_or(true, |n| n > MAX_REPEAT);
    if too_many(low) || too_many(high) {
        return Err("invalid repeat count".to_owned());
    }
    Ok(Some(end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialects_are_translated() {
        for (go, ours) in [
            (r"\d+", "[0-9]+"),
            (r"[\w.-]", r"[0-9A-Za-z_.\-]"),
            (r"\Qa.b\E+", r"a\.b+"),
            (r"a{2}", "a{2}"),
            (r"a{x}", r"a\{x\}"),
            (r"\<", "<"),
            ("[a&&b]", r"[a\&\&b]"),
        ] {
            assert_eq!(translate(go).as_deref(), Ok(ours), "{go}");
        }
        for refused in [r"(?=a)", r"\y", r"a{1001}", r"(?x)a", "a\\"] {
            assert!(translate(refused).is_err(), "{refused}");
        }
    }
}
