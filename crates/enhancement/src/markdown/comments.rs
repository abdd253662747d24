//! The content of HTML comments is not checked.

use super::directives::is_directive;

const BEGIN: &str = "<!--";
const END: &str = "-->";

/// Replaces the content of comments with dots. All byte offsets are kept, and
/// so are comments that disable or enable rules.
pub(crate) fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(BEGIN) {
        let inner = begin + BEGIN.len();
        // `<!-->` and `<!--->` are empty comments.
        let Some(end) = rest[begin + 2..].find(END).map(|at| begin + 2 + at) else { break };
        let after = end + END.len();
        let is_kept = end <= inner
            || is_directive(&rest[begin..after])
            || !is_comment(&masked, &rest[..begin], &rest[inner..end]);
        if is_kept {
            masked.push_str(&rest[..after]);
        } else {
            masked.push_str(&rest[..inner]);
            masked.extend(rest[inner..end].chars().flat_map(|c| {
                let (replacement, times) =
                    if c == '\n' || c == '\r' { (c, 1) } else { ('.', c.len_utf8()) };
                std::iter::repeat_n(replacement, times)
            }));
            masked.push_str(END);
        }
        rest = &rest[after..];
    }
    masked.push_str(rest);
    masked
}

/// Whether text between `<!--` and `-->` is a comment: it is not in indented
/// code, and inside a line it does not contain what HTML forbids in comments.
fn is_comment(far_before: &str, before: &str, content: &str) -> bool {
    let near = if before.is_empty() { far_before } else { before };
    let shortened = near.trim_end_matches(' ');
    if near.len() - shortened.len() >= 4 {
        return false;
    }
    let starts_line = shortened.is_empty() || shortened.ends_with('\n');
    let forbidden = content.starts_with('>')
        || content.starts_with("->")
        || content.ends_with('-')
        || content.contains("--");
    starts_line || !forbidden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_becomes_dots_and_offsets_are_kept() {
        for (text, expected) in [
            ("a <!-- b -->\n", "a <!--...-->\n"),
            ("<!--\nä\n-->\nb", "<!--\n..\n-->\nb"),
            ("<!-- a -- b -->", "<!--........-->"),
            ("x <!-- a -- b -->", "x <!-- a -- b -->"),
            ("    <!-- code -->", "    <!-- code -->"),
            ("<!-- no end", "<!-- no end"),
            ("<!-->x-->", "<!-->x-->"),
            ("<!-- markdownlint-disable MD001 -->", "<!-- markdownlint-disable MD001 -->"),
        ] {
            assert_eq!(mask(text), expected);
            assert_eq!(mask(text).len(), text.len());
        }
    }
}
