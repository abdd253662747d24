//! Words in HTML comments are not judged.

use super::directives::is_directive;

const BEGIN: &str = "<!--";
const END: &str = "-->";

/// `text` with dots for the words of its comments. Every byte stays where it
/// is. Comments that switch rules on and off are kept.
pub(crate) fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(BEGIN) {
        let inner = begin + BEGIN.len();
        // `<!-->` and `<!--->` are comments with nothing in them.
        let Some(end) = rest[begin + 2..].find(END).map(|at| begin + 2 + at) else { break };
        let behind = end + END.len();
        let is_kept = end <= inner
            || is_directive(&rest[begin..behind])
            || !is_comment(&masked, &rest[..begin], &rest[inner..end]);
        if is_kept {
            masked.push_str(&rest[..behind]);
        } else {
            masked.push_str(&rest[..inner]);
            masked.extend(rest[inner..end].chars().flat_map(|c| {
                let (stand_in, times) =
                    if c == '\n' || c == '\r' { (c, 1) } else { ('.', c.len_utf8()) };
                std::iter::repeat_n(stand_in, times)
            }));
            masked.push_str(END);
        }
        rest = &rest[behind..];
    }
    masked.push_str(rest);
    masked
}

/// Whether what looks like a comment is one: not in indented code, and when
/// inside a line, without what HTML forbids in comments.
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
    fn words_become_dots_and_nothing_moves() {
        for (text, wanted) in [
            ("a <!-- b -->\n", "a <!--...-->\n"),
            ("<!--\nä\n-->\nb", "<!--\n..\n-->\nb"),
            ("<!-- a -- b -->", "<!--........-->"),
            ("x <!-- a -- b -->", "x <!-- a -- b -->"),
            ("    <!-- code -->", "    <!-- code -->"),
            ("<!-- no end", "<!-- no end"),
            ("<!-->x-->", "<!-->x-->"),
            ("<!-- markdownlint-disable MD001 -->", "<!-- markdownlint-disable MD001 -->"),
        ] {
            assert_eq!(mask(text), wanted);
            assert_eq!(mask(text).len(), text.len());
        }
    }
}
