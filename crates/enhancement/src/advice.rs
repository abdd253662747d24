//! What the community does not check and a reader misses all the same.

use crate::finding::{Finding, Position};
use crate::markdown::{Outline, Token};
use crate::rule::Rule;
use crate::source::Source;

/// Finds sections with nothing in them. A section may say why it does not
/// apply; an empty one leaves the reader guessing.
pub(crate) fn check_sections(source: &Source<'_>, outline: &Outline, findings: &mut Vec<Finding>) {
    let mut tokens = outline.tokens.iter().peekable();
    while let Some(token) = tokens.next() {
        let Token::Heading { level, lines, words, .. } = token else { continue };
        let heading_lines = lines.clone();
        let mut says = Says::Nothing;
        while let Some(next) = tokens.peek() {
            match next {
                Token::Heading { level: next, .. } => {
                    if next > level {
                        says = Says::Something;
                    }
                    break;
                }
                Token::Inline { lines, words, .. } if !heading_lines.contains(&lines.start) => {
                    says = says.max(Says::of(words));
                }
                Token::Fence { .. }
                | Token::IndentedCode { .. }
                | Token::Image { .. }
                | Token::Table { .. } => {
                    says = Says::Something;
                }
                Token::Html { start, .. } if !source.text[*start..].starts_with("<!--") => {
                    says = Says::Something;
                }
                _ => {}
            }
            tokens.next();
        }
        let what = match says {
            Says::Something => continue,
            Says::Later => "is still to be written",
            Says::Nothing => "is empty",
        };
        let at = Position { line: heading_lines.start + 1, column: 1 };
        let message =
            format!("the section `{words}` {what}; fill it, or say why it does not apply");
        findings.push(Finding::new(at, Rule::EmptySection, message));
    }
}

/// How much a section says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    Nothing,
    Later,
    Something,
}

impl Says {
    fn of(words: &str) -> Self {
        let words = words.trim_matches(|c: char| !c.is_alphanumeric());
        match words.to_ascii_uppercase().as_str() {
            "" => Self::Nothing,
            "TBD" | "TODO" | "TO BE DONE" | "TO BE DEFINED" | "TO BE DETERMINED" => Self::Later,
            _ => Self::Something,
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
        check_sections(&source, &Outline::read(&source), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sections_that_say_something_are_fine() {
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
    fn empty_sections_and_those_put_off_are_named() {
        let text = "# T\n\n## A\n\n<!-- What is it? -->\n\n## `B` b\n\n* TBD.\n\n### C\n";
        let wanted = [
            "3:1: warning: the section `A` is empty; fill it, or say why it does not apply \
             [empty-section]",
            "11:1: warning: the section `C` is empty; fill it, or say why it does not apply \
             [empty-section]",
        ];
        assert_eq!(found(text), wanted);
        let wanted = "1:1: warning: the section `B b` is still to be written; fill it, or say why \
                      it does not apply [empty-section]";
        assert_eq!(found("## `B` b\n\n* TBD.\n"), [wanted]);
    }
}
