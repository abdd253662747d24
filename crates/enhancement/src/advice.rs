//! Checks of sections that the community's linter does not perform.

use crate::finding::{Finding, Position};
use crate::markdown::{Outline, Token};
use crate::rule::Rule;
use crate::source::Source;

/// Reports sections without content. A section can state why it does not
/// apply; an empty one may have been forgotten.
pub(crate) fn check_sections(source: &Source<'_>, outline: &Outline, findings: &mut Vec<Finding>) {
    let mut tokens = outline.tokens.iter().peekable();
    while let Some(token) = tokens.next() {
        let Token::Heading { level, lines, words, .. } = token else { continue };
        let heading_lines = lines.clone();
        let mut content = Content::Empty;
        while let Some(next) = tokens.peek() {
            match next {
                Token::Heading { level: next, .. } => {
                    if next > level {
                        content = Content::Present;
                    }
                    break;
                }
                Token::Inline { lines, words, .. } if !heading_lines.contains(&lines.start) => {
                    content = content.max(Content::of(words));
                }
                Token::Fence { .. }
                | Token::IndentedCode { .. }
                | Token::Image { .. }
                | Token::Table { .. } => {
                    content = Content::Present;
                }
                Token::Html { start, .. } if !source.text[*start..].starts_with("<!--") => {
                    content = Content::Present;
                }
                _ => {}
            }
            tokens.next();
        }
        let problem = match content {
            Content::Present => continue,
            Content::Placeholder => "contains only a placeholder",
            Content::Empty => "is empty",
        };
        let at = Position { line: heading_lines.start + 1, column: 1 };
        let message =
            format!("the section `{words}` {problem}; write it, or state why it does not apply");
        findings.push(Finding::new(at, Rule::EmptySection, message));
    }
}

/// What a section contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Empty,
    Placeholder,
    Present,
}

impl Content {
    fn of(words: &str) -> Self {
        let words = words.trim_matches(|c: char| !c.is_alphanumeric());
        match words.to_ascii_uppercase().as_str() {
            "" => Self::Empty,
            "TBD" | "TODO" | "TO BE DONE" | "TO BE DEFINED" | "TO BE DETERMINED" => {
                Self::Placeholder
            }
            _ => Self::Present,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let masked = crate::markdown::mask(text);
        let source = Source::new(&masked);
        let mut findings = Vec::new();
        check_sections(&source, &Outline::parse(&source), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sections_with_content_pass() {
        for text in [
            "# T\n\n## A\n\nDoes not apply.\n",
            "## A\n### B\n\n- an item\n",
            "## A\n\n```sh\nls\n```\n",
            "## A\n\n![a picture](a.png)\n",
            "## A\n\n<details>\n\nmore\n\n</details>\n",
            "## A\n\nTBD by the team that owns it.\n",
        ] {
            assert!(found(text).is_empty(), "{text}: {:?}", found(text));
        }
    }

    #[test]
    fn empty_sections_and_placeholders_are_reported() {
        let text = "# T\n\n## A\n\n<!-- What is it? -->\n\n## `B` b\n\n* TBD.\n\n### C\n";
        let expected = [
            "3:1: warning: the section `A` is empty; write it, or state why it does not apply \
             [empty-section]",
            "11:1: warning: the section `C` is empty; write it, or state why it does not apply \
             [empty-section]",
        ];
        assert_eq!(found(text), expected);
        let expected = "1:1: warning: the section `B b` contains only a placeholder; write it, or \
                        state why it does not apply [empty-section]";
        assert_eq!(found("## `B` b\n\n* TBD.\n"), [expected]);
    }
}
